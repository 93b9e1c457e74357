package main

import (
	"context"
	"os"
	"time"
)

// row is one row of the table, and one process.
type row struct {
	name, load string
	n          int // parked goroutines
}

// window is a stretch of the target's life, with a profiler or without.
type window struct {
	with    bool
	seconds float64
	speed   speed
	cores   float64       // that the target used
	own     time.Duration // CPU time of the profiler's own process
	anon    float64       // its RssAnon at the end, KB
}

func (w *window) rate() float64 { return w.speed.ops / w.speed.seconds }

// pair is two windows next to each other in time.
type pair struct{ a, b *window }

// series is windows in the order of time:
//
//	without with | with without | without with | ... | with without | without
//	                          \control/                         \control/
//
// The order turns from pair to pair, so that a machine that gets slower or faster in the meantime favours neither; and so
// two windows without the profiler meet after every second pair: the control, which shows what the noise alone makes of a ratio.
type series []*window

// isWith: the i-th window is one with the profiler.
func isWith(i int) bool { return i%4 == 1 || i%4 == 2 }

func (v series) filter(with bool) (part series) {
	for _, w := range v {
		if w.with == with {
			part = append(part, w)
		}
	}
	return
}

func (v series) with() series    { return v.filter(true) }
func (v series) without() series { return v.filter(false) }

// pairs of neighbours: with and without.
func (v series) pairs() (pairs []pair) {
	for i := 0; i+1 < len(v); i += 2 {
		a, b := v[i], v[i+1]
		if !a.with {
			a, b = b, a
		}
		pairs = append(pairs, pair{a, b})
	}
	return
}

// controls: neighbours that are both without, in turned order.
func (v series) controls() (pairs []pair) {
	for i := 3; i+1 < len(v); i += 4 {
		p := pair{v[i], v[i+1]}
		if i%8 == 7 {
			p = pair{v[i+1], v[i]}
		}
		pairs = append(pairs, p)
	}
	return
}

// interleaved is for windows of which all without came first: they are paired in their order.
func (v series) interleaved() (out series) {
	half := len(v) / 2
	for i := 0; i < half; i++ {
		out = append(out, v[i], v[half+i])
	}
	return
}

// measured is all that came of one row.
type measured struct {
	row       row
	goVersion string
	startup   [2]spread // ms: with goprof run, without
	before    *window   // without goprof, right before first
	first     *window   // from the fork of goprof on
	forked    time.Time
	series    series
	writes    []write       // at the beginning of each stretch but the first
	end       time.Duration // and at its own
	stretches []float64     // s, of each stretch in which goprof worked; the first is that of the first visit
	profiles  []*profile    // of each
	rssBefore float64
	rssAfter  float64 // KB
	others    float64 // cores that other programs used
	stolen    float64 // cores that the host took away
	peers     []*peer
}

// rounds is how long a round of all goroutines takes, at least: 10,000 are looked at in a tick.
func (r row) round() time.Duration { return time.Duration(r.n/10000+1) * time.Second / rateHz }

// firstTime is how long goprof is given for its first visit: a million stacks take it longer.
func (s *settings) firstTime(r row) time.Duration {
	const perGoroutine, most = 20 * time.Microsecond, 25 * time.Second
	return min(most, max(s.firstVisit, time.Duration(r.n)*perGoroutine))
}

func measure(ctx context.Context, s *settings, r row) (*measured, error) {
	dir, err := os.MkdirTemp("", "goprof-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	deadline := time.Now().Add(s.rowTime)
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(2*time.Minute))
	defer cancel()
	m := &measured{row: r}
	if err := m.startups(ctx, s, dir); err != nil {
		return nil, err
	}
	t, err := startTarget(ctx, s, r)
	if err != nil {
		return nil, err
	}
	defer func() { t.stop() }()
	m.goVersion = t.goVersion
	if !pause(ctx, warmUp) {
		return nil, ctx.Err()
	}
	b := &bench{settings: s, m: m, t: t, dir: dir, deadline: deadline}
	if err := b.watchMachine(func() error { return b.goprof(ctx) }); err != nil {
		return nil, err
	}
	t = b.measurePeers(ctx)
	for i := range m.stretches {
		p, err := openProfile(envelopeFile(dir, i+1))
		if err != nil {
			return nil, err
		}
		m.profiles = append(m.profiles, p)
	}
	return m, nil
}

// bench is the work on one row.
type bench struct {
	*settings
	m        *measured
	t        *target
	dir      string
	deadline time.Time
	// A program that does nothing is asked nothing: two questions per window are all it would do.
	undisturbed bool
}

// window measures one; pid is the profiler's own process, or 0.
func (b *bench) window(ctx context.Context, d time.Duration, pid int) (w *window, err error) {
	w = &window{}
	var own, ownAfter time.Duration
	began := time.Now()
	before, err := b.t.cpu()
	if err == nil && pid != 0 {
		own, err = processCPU(pid)
	}
	if err == nil && !b.undisturbed {
		err = b.t.begin(d)
	}
	if err != nil {
		return nil, err
	}
	if !pause(ctx, d) {
		return nil, ctx.Err()
	}
	if b.undisturbed {
		w.speed.seconds = d.Seconds()
	} else if w.speed, err = b.t.end(b.answerLimit()); err != nil {
		return nil, err
	}
	if pid != 0 {
		w.anon = statusKB(pid, "RssAnon")
		ownAfter, err = processCPU(pid)
	}
	after, e := b.t.cpu()
	if err == nil {
		err = e
	}
	w.seconds = time.Since(began).Seconds()
	w.cores, w.own = (after-before).Seconds()/w.seconds, ownAfter-own
	return w, err
}

// answerLimit: a contender may stop the target for many seconds, but not beyond the row's time.
func (b *bench) answerLimit() time.Duration {
	return min(time.Minute, max(answerLimit, time.Until(b.deadline)))
}

// goprof measures goprof: its first visit, then pairs.
func (b *bench) goprof(ctx context.Context) (err error) {
	m := b.m
	b.undisturbed = m.row.load == "idle"
	defer func() { b.undisturbed = false }()
	m.rssBefore = statusKB(b.t.pid, "VmRSS")
	if m.before, err = b.window(ctx, b.firstVisit, 0); err != nil {
		return err
	}
	g, err := startGoprof(b.settings, b.t.pid, b.dir)
	if err != nil {
		return err
	}
	defer g.stop()
	m.forked = g.forked
	if m.first, err = b.window(ctx, b.firstTime(m.row), g.pid); err != nil {
		return err
	}
	m.first.own, err = processCPU(g.pid) // from its fork on
	if err == nil {
		err = b.pairsOf(ctx, g)
	}
	if err != nil {
		return err
	}
	m.rssAfter = statusKB(b.t.pid, "VmRSS")
	m.end, err = g.finish()
	return err
}

// pairsOf makes as many as are wanted; then more, in fours of windows, while the interval is too wide and there is time.
func (b *bench) pairsOf(ctx context.Context, g *goprof) error {
	m, since := b.m, g.forked
	for i := 0; ; i++ {
		if i > 0 && i%4 == 0 && !b.morePairs(i/2) {
			break
		}
		switch {
		case isWith(i) && !g.working:
			since = time.Now()
			wrote, err := g.resume(ctx, m.row.round())
			if err != nil {
				return err
			}
			m.writes = append(m.writes, wrote)
		case !isWith(i) && g.working:
			if err := g.suspend(ctx, b.t.pid); err != nil {
				return err
			}
			m.stretches = append(m.stretches, time.Since(since).Seconds())
			pause(ctx, offSettle)
		}
		pid := 0
		if isWith(i) {
			pid = g.pid
		}
		w, err := b.window(ctx, b.windowTime, pid)
		if err != nil {
			return err
		}
		w.with = isWith(i)
		m.series = append(m.series, w)
	}
	return nil
}

func (b *bench) morePairs(pairs int) bool {
	if pairs < b.pairs {
		return true
	}
	ratio := ratios(b.m.series.pairs(), (*window).rate)
	enough := b.m.row.load == "idle" || ratio.halfWidth() <= widest
	return !enough && time.Until(b.deadline) > b.peersTime()+4*b.windowTime
}

// watchMachine finds what everybody else used meanwhile.
func (b *bench) watchMachine(f func() error) error {
	begin := time.Now()
	busy, stolen := machineTimes()
	target, _ := b.t.cpu()
	ours := childrenCPU()
	if err := f(); err != nil {
		return err
	}
	seconds := time.Since(begin).Seconds()
	busy2, stolen2 := machineTimes()
	target2, err := b.t.cpu()
	used := target2 - target + childrenCPU() - ours
	b.m.others = max(0, (busy2-busy-used).Seconds()/seconds)
	b.m.stolen = (stolen2 - stolen).Seconds() / seconds
	return err
}

// pause sleeps; false: ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
