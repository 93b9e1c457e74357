// Reading envelopes as the service does: the time of a sample is the time to the next one of its thread.
package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"testing"
	"time"
)

type window struct {
	transaction struct {
		Start       eventTime `json:"start_timestamp"`
		End         eventTime `json:"timestamp"`
		Transaction string
		Contexts    struct {
			Goprof struct{ Looks string }
		}
	}
	profile struct {
		Transaction struct {
			Active json.Number `json:"active_thread_id"`
		}
		Profile struct {
			Samples []struct {
				Stack   int         `json:"stack_id"`
				Thread  json.Number `json:"thread_id"`
				Elapsed json.Number `json:"elapsed_since_start_ns"`
			}
			Stacks [][]int
			Frames []struct{ Function, Module string }
			Names  map[string]struct{ Name string } `json:"thread_metadata"`
		}
	}
}

// eventTime is seconds since 1970 or RFC 3339 text: the service takes both.
type eventTime struct{ time.Time }

func (t *eventTime) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte(`"`)) {
		return t.Time.UnmarshalJSON(text)
	}
	seconds, err := strconv.ParseFloat(string(text), 64)
	t.Time = time.Unix(0, int64(seconds*1e9))
	return err
}

// openWindow takes a file that has been checked already.
func openWindow(t testing.TB, path string) *window {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var e window
	_, data, _ = bytes.Cut(data, []byte("\n"))
	for len(data) > 0 {
		var line []byte
		var header struct {
			Type   string
			Length int
		}
		line, data, _ = bytes.Cut(data, []byte("\n"))
		if err := json.Unmarshal(line, &header); err != nil || header.Length > len(data) {
			t.Fatalf("%s: item header %s: %v", path, line, err)
		}
		payload := data[:header.Length]
		data = bytes.TrimPrefix(data[header.Length:], []byte("\n"))
		into := map[string]any{"transaction": &e.transaction, "profile": &e.profile}[header.Type]
		if into == nil {
			t.Fatalf("%s: item of type %q", path, header.Type)
		}
		if err := json.Unmarshal(payload, into); err != nil {
			t.Fatalf("%s: %s: %v", path, header.Type, err)
		}
	}
	if len(e.profile.Profile.Samples) == 0 {
		t.Fatalf("%s: no samples", path)
	}
	return &e
}

func (e *window) length() time.Duration {
	return e.transaction.End.Sub(e.transaction.Start.Time)
}

// stackTime is the time that one thread spent with one stack (function names, leaf first).
type stackTime struct {
	thread string
	stack  []string
	time   time.Duration
}

func (s *stackTime) has(function string) bool {
	for _, f := range s.stack {
		if f == function {
			return true
		}
	}
	return false
}

// times weighs every sample as servers do.
func (e *window) times(t testing.TB) (v []stackTime) {
	t.Helper()
	p := &e.profile.Profile
	threads := map[string][]int{}
	at := make([]int64, len(p.Samples))
	for i, s := range p.Samples {
		var err error
		if at[i], err = s.Elapsed.Int64(); err != nil {
			t.Fatal(err)
		}
		threads[s.Thread.String()] = append(threads[s.Thread.String()], i)
	}
	for thread, samples := range threads {
		sort.SliceStable(samples, func(a, b int) bool { return at[samples[a]] < at[samples[b]] })
		for k, i := range samples {
			st := stackTime{thread: thread}
			for _, f := range p.Stacks[p.Samples[i].Stack] {
				name := p.Frames[f].Function
				if m := p.Frames[f].Module; m != "" {
					name = m + "." + name
				}
				st.stack = append(st.stack, name)
			}
			if k+1 < len(samples) {
				st.time = time.Duration(at[samples[k+1]] - at[i])
			}
			v = append(v, st)
		}
	}
	return
}

// threadTimes is the time that each thread has in all; closing samples of time 0 included.
func (e *window) threadTimes(t testing.TB) map[string]time.Duration {
	t.Helper()
	sums := map[string]time.Duration{}
	for _, st := range e.times(t) {
		sums[st.thread] += st.time
	}
	return sums
}

// threadsWith lists the threads in which a function is ever seen.
func (e *window) threadsWith(t testing.TB, function string) (ids []string) {
	t.Helper()
	seen := map[string]bool{}
	for _, st := range e.times(t) {
		if st.has(function) && !seen[st.thread] {
			seen[st.thread] = true
			ids = append(ids, st.thread)
		}
	}
	sort.Strings(ids)
	return
}

func TestEnvelopeTimes(t *testing.T) {
	profile := `{"transaction":{"active_thread_id":1},"profile":{"samples":[` +
		`{"stack_id":0,"thread_id":"1","elapsed_since_start_ns":"0"},{"stack_id":1,"thread_id":"2","elapsed_since_start_ns":5},` +
		`{"stack_id":1,"thread_id":"1","elapsed_since_start_ns":"10"},{"stack_id":1,"thread_id":"1","elapsed_since_start_ns":"40"}],` +
		`"stacks":[[0],[1,0]],"frames":[{"function":"main","module":"main"},{"function":"(*T).f","module":"a/b"}]}}`
	transaction := `{"start_timestamp":"2026-01-02T03:04:05.5Z","timestamp":1767323046}`
	path := t.TempDir() + "/e"
	text := fmt.Sprintf("{}\n{\"type\":\"transaction\",\"length\":%d}\n%s\n{\"type\":\"profile\",\"length\":%d}\n%s\n", len(transaction), transaction, len(profile), profile)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	e := openWindow(t, path)
	if sums := e.threadTimes(t); sums["1"] != 40 || sums["2"] != 0 || len(sums) != 2 {
		t.Errorf("thread times %v", sums)
	}
	if e.length() != 500*time.Millisecond {
		t.Errorf("length %v", e.length())
	}
	var f time.Duration
	for _, st := range e.times(t) {
		if st.thread == "1" && st.has("a/b.(*T).f") {
			f += st.time
		}
	}
	if ids := e.threadsWith(t, "a/b.(*T).f"); f != 30 || fmt.Sprint(ids) != "[1 2]" {
		t.Errorf("time of f %v, threads %v", f, ids)
	}
}
