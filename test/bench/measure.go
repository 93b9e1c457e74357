package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// row is one column of the table, and one process.
type row struct {
	name, load string
	n          int // parked goroutines
}

// window is a stretch of the target's life, with goprof or without.
type window struct {
	begin, end time.Time
	cores      float64 // that the target used
	attach     *attach // nil: without
	speed      speed
}

// pair is two windows next to each other in time.
type pair struct{ a, b *window }

// measured is all that came of one row, in the order of time.
type measured struct {
	row       row
	goVersion string
	windows   []*window
	pairs     []pair // with goprof, without
	controls  []pair // both without
	rssBefore float64
	rssAfter  float64 // KB
	others    float64 // cores that other programs used
	stolen    float64 // cores that the host took away
}

func (m *measured) with() []*window    { return m.filter(true) }
func (m *measured) without() []*window { return m.filter(false) }

func (m *measured) filter(with bool) (v []*window) {
	for _, w := range m.windows {
		if (w.attach != nil) == with {
			v = append(v, w)
		}
	}
	return
}

// measure runs one row:
//
//	without with | with without | without with | ... | with without | without
//	                          \control/                         \control/
//
// The order turns from pair to pair, so that a machine that gets slower or faster in the meantime favours neither; and so
// two windows without goprof meet after every second pair: the control, which shows what the noise alone makes of a ratio.
func measure(ctx context.Context, s *settings, r row) (*measured, error) {
	dir, err := os.MkdirTemp("", "goprof-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	longest := s.rowTime()*3 + time.Minute
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	t, err := startTarget(ctx, s, r, dir, longest)
	if err != nil {
		return nil, err
	}
	defer t.stop()

	m := &measured{row: r, goVersion: t.goVersion}
	if !pause(ctx, warmUp) {
		return nil, ctx.Err()
	}
	if err := m.watchMachine(t, func() error { return m.windowsOf(ctx, s, t, dir) }); err != nil {
		return nil, err
	}
	pause(ctx, 2*every) // the last line that counts
	return m, m.evaluate(ctx, s, t)
}

func (m *measured) windowsOf(ctx context.Context, s *settings, t *target, dir string) error {
	m.rssBefore = statusKB(t.pid, "VmRSS")
	for i := 0; i <= 2*s.pairs; i++ {
		file := ""
		if i%4 == 1 || i%4 == 2 {
			file = filepath.Join(dir, fmt.Sprintf("%d.pb.gz", i))
		}
		w, err := oneWindow(ctx, s, t, file)
		if err != nil {
			return err
		}
		m.windows = append(m.windows, w)
	}
	m.rssAfter = statusKB(t.pid, "VmRSS")
	return nil
}

func oneWindow(ctx context.Context, s *settings, t *target, file string) (*window, error) {
	w := &window{begin: time.Now()}
	before, err := t.cpu()
	if err != nil {
		return nil, err
	}
	if file != "" {
		w.attach, err = runAttach(ctx, s, t.pid, file)
	} else if !pause(ctx, s.window) {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	w.end = time.Now()
	after, err := t.cpu()
	w.cores = (after - before).Seconds() / w.end.Sub(w.begin).Seconds()
	return w, err
}

// watchMachine finds what everybody else used meanwhile.
func (m *measured) watchMachine(t *target, f func() error) error {
	begin := time.Now()
	busy, stolen := machineTimes()
	target, _ := t.cpu()
	self := selfCPU()
	if err := f(); err != nil {
		return err
	}
	seconds := time.Since(begin).Seconds()
	busy2, stolen2 := machineTimes()
	target2, err := t.cpu()
	ours := target2 - target + selfCPU() - self
	for _, w := range m.with() {
		ours += w.attach.cpu
	}
	m.others = max(0, (busy2-busy-ours).Seconds()/seconds)
	m.stolen = (stolen2 - stolen).Seconds() / seconds
	return err
}

func selfCPU() time.Duration {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// evaluate joins the windows with what the target and goprof wrote.
func (m *measured) evaluate(ctx context.Context, s *settings, t *target) error {
	points, err := readPoints(t.points)
	if err != nil {
		return err
	}
	for _, w := range m.windows {
		begin, end := w.begin, w.end
		if a := w.attach; a != nil {
			if err := a.open(ctx, s); err != nil {
				return err
			}
			// From the first tick to the last: not while goprof starts, or writes its file.
			begin = later(begin, a.first)
			end = earlier(end, a.first.Add(s.window))
		}
		if w.speed, err = speedBetween(points, begin, end); err != nil {
			return err
		}
	}
	m.join()
	return nil
}

// join makes pairs of neighbours.
func (m *measured) join() {
	v := m.windows
	for i := 0; i+1 < len(v); i++ {
		a, b := v[i], v[i+1]
		switch {
		case i%2 == 0 && a.attach == nil && b.attach != nil:
			m.pairs = append(m.pairs, pair{b, a})
		case i%2 == 0 && a.attach != nil && b.attach == nil:
			m.pairs = append(m.pairs, pair{a, b})
		case i%2 == 1 && a.attach == nil && b.attach == nil && i%8 == 3:
			m.controls = append(m.controls, pair{a, b})
		case i%2 == 1 && a.attach == nil && b.attach == nil:
			m.controls = append(m.controls, pair{b, a})
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
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
