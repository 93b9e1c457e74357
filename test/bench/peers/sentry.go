package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/getsentry/sentry-go"
)

// sentryContender is a transaction of sentry-go with profiling, in its last release that had it. What it would send is
// counted and thrown away. Its profiler is started by the first such transaction and never stops.
type sentryContender struct {
	span    *sentry.Span
	samples int
	threads int
	err     error
}

func (c *sentryContender) Start(int) error {
	c.samples, c.threads, c.err = 0, 0, errors.New("sentry-go sent nothing")
	transport := sentry.NewHTTPSyncTransport()
	err := sentry.Init(sentry.ClientOptions{
		Dsn: "http://public@127.0.0.1:1/1", Transport: transport, HTTPTransport: c,
		EnableTracing: true, TracesSampleRate: 1, ProfilesSampleRate: 1,
	})
	if err != nil {
		return err
	}
	c.span = sentry.StartTransaction(context.Background(), "bench")
	return nil
}

func (c *sentryContender) Samples() (uint64, bool) { return 0, false }

func (c *sentryContender) Stop() (uint64, string, error) {
	c.span.Finish()
	c.span = nil
	return uint64(c.samples), fmt.Sprintf("%d goroutines", c.threads), c.err
}

// RoundTrip takes the place of the network.
func (c *sentryContender) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		c.count(body)
	}
	answer := io.NopCloser(strings.NewReader("{}"))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: answer, Request: r}, err
}

// count finds the profile among the lines of an envelope: each item has a line of its own behind its header.
func (c *sentryContender) count(envelope []byte) {
	lines := bytes.Split(envelope, []byte("\n"))
	for i := range lines[:len(lines)-1] {
		var header struct{ Type string }
		if json.Unmarshal(lines[i], &header) != nil || header.Type == "" {
			continue
		}
		if header.Type != "profile" { // a transaction without one has no sample
			c.err = nil
			continue
		}
		var item struct {
			Profile struct {
				Samples []struct {
					At uint64 `json:"elapsed_since_start_ns"`
				}
				Threads map[string]any `json:"thread_metadata"`
			}
		}
		if c.err = json.Unmarshal(lines[i+1], &item); c.err != nil {
			return
		}
		ticks := map[uint64]bool{}
		for _, s := range item.Profile.Samples {
			ticks[s.At] = true
		}
		c.samples, c.threads = len(ticks), len(item.Profile.Threads)
		return
	}
}
