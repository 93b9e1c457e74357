package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// peer is another profiler, measured in the same process after goprof.
type peer struct {
	name    string
	series  series
	rates   []float64 // samples per second, of each window
	note    string
	growth  float64 // of the target's VmRSS, KB: the most
	process bool    // it has one of its own
}

const (
	peerPairs = 3
	offSettle = 200 * time.Millisecond
)

// profiler is how a peer is switched on and off.
type profiler interface {
	// on returns when it samples; pid is that of its own process, 0: it has none.
	on(ctx context.Context, b *bench) (pid int, err error)
	off(ctx context.Context, b *bench) (samples, error)
}

// inProcess is a contender within the target.
type inProcess struct{ name string }

func (p inProcess) on(ctx context.Context, b *bench) (int, error) {
	_, err := b.t.ask(b.answerLimit(), "on "+p.name, "OK")
	return 0, err
}

func (p inProcess) off(ctx context.Context, b *bench) (samples, error) {
	text, err := b.t.ask(b.answerLimit(), "off", "OFF")
	if err != nil {
		return samples{}, err
	}
	return parseSamples(text)
}

// usable is a peer, and why it cannot be measured here if so.
type usable struct {
	name     string
	profiler profiler
	reason   string
	endless  bool // off stops it from being counted, but not from working
}

// peersOf: within the target, what leaves most behind comes last; delve, which takes longest, comes after all.
func peersOf(b *bench) (v []usable, err error) {
	if b.m.row.load == "threads" {
		return nil, nil
	}
	v = append(v, perfHere())
	list, err := b.t.ask(answerLimit, "list", "LIST")
	if err != nil {
		return nil, err
	}
	for _, name := range strings.Split(list, ",") {
		bare := strings.TrimSuffix(name, "!")
		v = append(v, usable{name: bare, profiler: inProcess{bare}, endless: bare != name})
	}
	if b.without != "" {
		v = append(v, usable{name: "fgprof", reason: b.without}, usable{name: "sentry-go", reason: b.without})
	}
	return append(v, delveHere()), nil
}

// peersTime is about what they will take: windows; for each in-process sample of a million goroutines some seconds; and
// what sentry-go and delve take beyond their windows, up to where they are given up.
func (b *bench) peersTime() time.Duration {
	const count, perSample, beyond, most = 7, 60 * time.Microsecond, 2 * time.Millisecond, time.Minute
	if b.m.row.load == "threads" {
		return 0
	}
	n := time.Duration(b.m.row.n)
	return count*peerPairs*2*(b.peerWindow+3*offSettle) + n*perSample + min(n*beyond, most)
}

// measurePeers gives the target that lives in the end: one that a peer has blocked for too long was killed, and there is a
// new one. What goes wrong here is a note in the table and does not take goprof's figures away.
func (b *bench) measurePeers(ctx context.Context) *target {
	v, err := peersOf(b)
	if err != nil {
		v = []usable{{name: "others", reason: err.Error()}}
	}
	broken := false
	for _, u := range v {
		p := &peer{name: u.name, note: u.reason}
		b.m.peers = append(b.m.peers, p)
		if u.profiler == nil {
			continue
		}
		var err error
		if broken {
			err = b.revive(ctx)
		}
		if err == nil {
			err = b.peer(ctx, p, u)
		}
		broken = err != nil || u.endless
		if err != nil {
			p.note = strings.TrimPrefix(p.note+"; "+err.Error(), "; ")
		}
	}
	return b.t
}

// revive replaces a target that something may have gone wrong with.
func (b *bench) revive(ctx context.Context) error {
	b.t.stop()
	t, err := startTarget(ctx, b.settings, b.m.row)
	if err != nil {
		return err
	}
	b.t = t
	pause(ctx, warmUp)
	return nil
}

func (b *bench) peer(ctx context.Context, p *peer, u usable) error {
	if time.Now().After(b.deadline) {
		return errors.New("the row's time is over")
	}
	if _, err := b.t.ask(answerLimit, "free", "OK"); err != nil {
		return err
	}
	pause(ctx, offSettle)
	before := statusKB(b.t.pid, "VmRSS")
	for i := 0; i < 2*peerPairs; i++ {
		if i%2 == 0 && !u.endless && time.Now().After(b.deadline) {
			p.note = strings.TrimPrefix(fmt.Sprintf("%s; %d of %d pairs: the row's time is over", p.note, i/2, peerPairs), "; ")
			return nil
		}
		with := isWith(i)
		if u.endless {
			with = i >= peerPairs
		}
		w, err := b.peerWindowOf(ctx, p, u.profiler, with)
		if err != nil {
			return err
		}
		p.series = append(p.series, w)
		p.growth = max(p.growth, statusKB(b.t.pid, "VmRSS")-before)
		pause(ctx, offSettle)
	}
	if u.endless {
		p.note += "; goes on for ever: windows without it come first"
		p.series = p.series.interleaved()
	}
	return nil
}

func (b *bench) peerWindowOf(ctx context.Context, p *peer, f profiler, with bool) (*window, error) {
	if !with {
		return b.window(ctx, b.peerWindow, 0)
	}
	pid, err := f.on(ctx, b)
	if err != nil {
		return nil, err
	}
	p.process = pid != 0
	w, err := b.window(ctx, b.peerWindow, pid)
	got, offErr := f.off(ctx, b)
	if err == nil {
		err = offErr
	}
	if err != nil {
		return nil, err
	}
	w.with = true
	p.rates = append(p.rates, got.n/got.seconds)
	p.note = got.note
	return w, nil
}
