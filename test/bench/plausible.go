package main

import (
	"fmt"
	"math"
	"runtime"
)

// A doubt about a column. Wrong: a figure cannot be true, so something is broken, in goprof or here. Else only the machine was
// too noisy: the figures are what was measured, but say little about goprof.
type doubt struct {
	wrong bool
	text  string
}

const (
	controlOff    = 0.03 // the control may be so far from 1
	controlWidth  = 0.10 // and its interval so wide
	othersAllowed = 0.10 // cores that other programs may use
)

// test says what is wrong in one way, or nothing.
type test struct {
	wrong bool
	text  func(f *figures, s *settings) string
}

var tests = []test{
	{true, func(f *figures, s *settings) string {
		for _, w := range f.with() {
			h := w.attach.health
			due := s.window.Seconds() * rateHz
			if math.Abs(h[ticksDue]-due) > 3+0.03*due || h[ticksDone] > h[ticksDue] {
				return fmt.Sprintf("%.0f of %.0f ticks done in %v at %d Hz", h[ticksDone], h[ticksDue], s.window, rateHz)
			}
		}
		return ""
	}},
	{true, func(f *figures, s *settings) string {
		for _, w := range f.with() {
			if h := w.attach.health; h[headersRead] < h[ticksDone]*float64(f.row.n) {
				return fmt.Sprintf("%.0f goroutine headers in %.0f ticks: goprof did not see all %d", h[headersRead], h[ticksDone], f.row.n)
			}
		}
		return ""
	}},
	{true, func(f *figures, s *settings) string {
		for _, w := range f.with() {
			a := w.attach
			if own := a.health[ownCPU] / 1e9; own <= 0 || own > a.cpu.Seconds()+0.004 {
				return fmt.Sprintf("goprof says it used %.1f ms of CPU, the kernel %.1f ms", own*1e3, a.cpu.Seconds()*1e3)
			}
		}
		return ""
	}},
	{true, func(f *figures, s *settings) string {
		for _, w := range f.with() {
			if a := w.attach; a.first.Before(a.forked) || a.first.After(a.exited.Add(-s.window/2)) {
				return fmt.Sprintf("first tick %v after the fork", a.first.Sub(a.forked))
			}
		}
		return ""
	}},
	{true, func(f *figures, s *settings) string {
		for _, w := range f.with() {
			h := w.attach.health
			if h[heldMedian] > h[heldP99] || h[captured] > 0 && h[heldMedian] < 500 {
				return fmt.Sprintf("%.0f threads held for %.0f ns, p99 %.0f ns", h[captured], h[heldMedian], h[heldP99])
			}
		}
		return ""
	}},
	{true, func(f *figures, s *settings) string {
		limit := 1.05 + math.Abs(f.control.median-1) + f.control.high - f.control.low
		if f.ratio.certain && f.control.certain && f.ratio.low > limit {
			return fmt.Sprintf("faster with goprof than without: %.3f", f.ratio.median)
		}
		return ""
	}},
	{false, func(f *figures, s *settings) string {
		if c := f.control; math.Abs(c.median-1) > controlOff || c.certain && (c.low > 1 || c.high < 1) {
			return fmt.Sprintf("the control is %.3f (%.3f to %.3f), not 1", c.median, c.low, c.high)
		}
		return ""
	}},
	{false, func(f *figures, s *settings) string {
		if c := f.control; c.high-c.low > controlWidth {
			return fmt.Sprintf("the control ranges from %.3f to %.3f", c.low, c.high)
		}
		return ""
	}},
	{false, func(f *figures, s *settings) string {
		if !f.ratio.certain {
			return fmt.Sprintf("%d pairs give no 95 %% interval: smallest and largest are shown", f.ratio.n)
		}
		return ""
	}},
	{false, func(f *figures, s *settings) string {
		if f.others+f.stolen > othersAllowed {
			return fmt.Sprintf("other programs used %.2f cores, and %.2f were taken away", f.others, f.stolen)
		}
		return ""
	}},
	{false, func(f *figures, s *settings) string {
		if want := float64(runtime.NumCPU()); f.row.load == "cpu" && f.cores < 0.93*want {
			return fmt.Sprintf("the target got %.2f of %.0f cores", f.cores, want)
		}
		return ""
	}},
}

func doubtsOf(f *figures, s *settings) (v []doubt) {
	for _, t := range tests {
		if text := t.text(f, s); text != "" {
			v = append(v, doubt{t.wrong, text})
		}
	}
	return
}
