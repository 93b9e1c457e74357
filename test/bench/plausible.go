package main

import (
	"fmt"
	"math"
	"runtime"
)

// A doubt about a row. Wrong: a figure cannot be true, so something is broken, in goprof or here. Else only the machine was
// too noisy: the figures are what was measured, but say little about goprof.
type doubt struct {
	Wrong bool
	Text  string
}

const (
	controlOff    = 0.03 // the control may be so far from 1
	controlWidth  = 0.05 // and the half of its interval so wide
	putOffAllowed = 0.10 // of all stacks, after the first visit
	othersAllowed = 0.10 // cores that other programs may use
)

// test says what is wrong in one way, or nothing.
type test struct {
	wrong bool
	text  func(m *measured, r *record) string
}

var tests = []test{
	{true, func(m *measured, r *record) string {
		for i, p := range m.profiles {
			due, done := p.health[ticksDue], p.health[ticksDone]
			want := m.stretches[i] * rateHz
			if due > want*1.03+3 || due < want*0.5 || done > due {
				return fmt.Sprintf("%.0f of %.0f ticks done in %.1f s at %d Hz", done, due, m.stretches[i], rateHz)
			}
		}
		return ""
	}},
	{true, func(m *measured, r *record) string {
		for _, p := range m.profiles {
			if h := p.health; h[headersRead] < (h[passes]-1)*float64(r.N) {
				return fmt.Sprintf("%.0f goroutine headers in %.0f passes: goprof did not see all %d", h[headersRead],
					h[passes], r.N)
			}
		}
		return ""
	}},
	{true, func(m *measured, r *record) string {
		if r.FirstSample < 0 || r.FirstSample > r.FirstVisit {
			return fmt.Sprintf("first tick %.3f s after the fork", r.FirstSample)
		}
		return ""
	}},
	{true, func(m *measured, r *record) string {
		if r.HeldMedian > r.HeldP99 || r.Captured >= leastHeld && r.HeldMedian < 0.5 {
			return fmt.Sprintf("%.0f threads held for %.1f us, p99 %.1f us", r.Captured, r.HeldMedian, r.HeldP99)
		}
		return ""
	}},
	{true, func(m *measured, r *record) string {
		if r.Own <= 0 || r.Own > float64(runtime.NumCPU()) {
			return fmt.Sprintf("own CPU is %.1f %% of a core", r.Own*100)
		}
		return ""
	}},
	{true, func(m *measured, r *record) string {
		limit := 1.05 + math.Abs(r.Control.Median-1) + 2*r.Control.halfWidth()
		if r.Ratio.Certain && r.Control.Certain && r.Ratio.Low > limit {
			return fmt.Sprintf("faster with goprof than without: %.3f", r.Ratio.Median)
		}
		return ""
	}},
	{true, func(m *measured, r *record) string {
		if r.Load != "idle" && r.Rate <= 0 {
			return "the target did nothing"
		}
		return ""
	}},
	{false, func(m *measured, r *record) string {
		if c := r.Control; c.N > 0 && (math.Abs(c.Median-1) > controlOff || c.Certain && (c.Low > 1 || c.High < 1)) {
			return fmt.Sprintf("the control is %.3f (%.3f to %.3f), not 1", c.Median, c.Low, c.High)
		}
		return ""
	}},
	{false, func(m *measured, r *record) string {
		if c := r.Control; c.halfWidth() > controlWidth {
			return fmt.Sprintf("the control ranges from %.3f to %.3f", c.Low, c.High)
		}
		return ""
	}},
	{false, func(m *measured, r *record) string {
		if r.FirstRounds < 1 || r.PutOff > putOffAllowed*float64(r.N)+leastHeld {
			return fmt.Sprintf("the first visit of all goroutines was not over after %.0f s (%.0f whole rounds; %.0f stacks were "+
				"put off after it): nothing is steady", r.FirstVisit, r.FirstRounds, r.PutOff)
		}
		return ""
	}},
	{false, func(m *measured, r *record) string {
		if r.Ratio.N > 0 && !r.Ratio.Certain {
			return fmt.Sprintf("%d pairs give no 95 %% interval: smallest and largest are shown", r.Ratio.N)
		}
		return ""
	}},
	{false, func(m *measured, r *record) string {
		if r.Others+r.Stolen > othersAllowed {
			return fmt.Sprintf("other programs used %.2f cores, and %.2f were taken away", r.Others, r.Stolen)
		}
		return ""
	}},
	{false, func(m *measured, r *record) string {
		if want := float64(runtime.NumCPU()); r.Load == "cpu" && r.Cores.Without < 0.93*want {
			return fmt.Sprintf("the target got %.2f of %.0f cores", r.Cores.Without, want)
		}
		return ""
	}},
}

func doubtsOf(m *measured, r *record) (v []doubt) {
	for _, t := range tests {
		if text := t.text(m, r); text != "" {
			v = append(v, doubt{t.wrong, text})
		}
	}
	return
}
