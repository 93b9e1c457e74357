package main

import (
	"fmt"
	"math"
)

// verdict of a gate. The worst of a row is the row's.
type verdict int

const (
	none verdict = iota // no gate, or nothing to judge
	aim                 // reaches the aim as well
	pass
	undecided
	fail
)

var verdictNames = [...]string{"", "aim", "pass", "UNDECIDED", "FAIL"}

func (v verdict) String() string { return verdictNames[v] }

// widest half width of an interval that decides.
const widest = 0.03

// limits is a gate and an aim.
type limits struct{ gate, aim float64 }

func atMost(v float64, l limits) verdict {
	switch {
	case v <= l.aim:
		return aim
	case v <= l.gate:
		return pass
	}
	return fail
}

func atLeast(v float64, l limits) verdict { return atMost(-v, limits{-l.gate, -l.aim}) }

// ratioVerdict: the upper end of the interval must reach the gate, and the interval be narrow.
func ratioVerdict(s spread, l limits) verdict {
	if !s.Certain || s.halfWidth() > widest {
		return undecided
	}
	return atLeast(s.High, l)
}

// scale is what a number of goroutines is held to.
type scale struct {
	own, ratio limits
	anon       float64 // MiB
	ticks      float64 // per pass over all goroutines
	inTime     float64
}

var scales = map[int]scale{
	1000:    {limits{0.04, 0.03}, limits{0.97, 0.99}, 16, 1, 0},
	10000:   {limits{0.12, 0.08}, limits{0.96, 0.98}, 24, 1, 0},
	100000:  {limits{0.22, 0.18}, limits{0.93, 0.97}, 48, 10, 0.95},
	1000000: {limits{0.26, 0.22}, limits{0.92, 0.95}, 96, 100, 0},
}

var (
	idleOwn      = limits{0.01, 0.005}
	idleGated    = limits{0.90, 0.95} // share of ticks at which nothing had to be read
	heldLimit    = limits{12, 8}      // us
	heldP99Limit = limits{1000, 300}
	stormLimit   = limits{0.95, 0.95}
	stackGain    = limits{15, 25} // times the throughput that runtime.Stack leaves
	stackSamples = limits{7, 7}   // times its samples
)

const (
	ticksSlack = 1.05 // rounds begin and end within ticks
	leastHeld  = 100  // threads, to judge how long they are held
)

// gate is one thing that a row is held to. Its text says figure and limits; verdict none: does not apply.
type gate struct {
	name  string
	judge func(r *record, sc scale) (verdict, string)
}

func percent(v float64) string { return fmt.Sprintf("%.1f %%", v*100) }

func (l limits) text(format func(float64) string) string {
	return format(l.gate) + " / " + format(l.aim)
}

func plain(v float64) string { return fmt.Sprintf("%g", v) }

var gates = []gate{
	{"own CPU", func(r *record, sc scale) (verdict, string) {
		l := sc.own
		if r.Load == "idle" {
			l = idleOwn
		} else if r.Load != "echo" { // no core is free
			return none, ""
		}
		if l == (limits{}) {
			return none, ""
		}
		return atMost(r.ownAll(), l), fmt.Sprintf("%s (%s)", percent(r.ownAll()), l.text(percent))
	}},
	{"throughput", func(r *record, sc scale) (verdict, string) {
		l := sc.ratio
		if r.Load == "threads" {
			l = stormLimit
		} else if r.Load != "echo" {
			return none, ""
		}
		if l == (limits{}) {
			return none, ""
		}
		return ratioVerdict(r.Ratio, l), fmt.Sprintf("%s (%s)", spreadText(r.Ratio), l.text(plain))
	}},
	{"RssAnon", func(r *record, sc scale) (verdict, string) {
		if sc.anon == 0 || r.Load == "threads" {
			return none, ""
		}
		most := max(r.Anon, r.WriteAnon)
		return atMost(most, limits{sc.anon, sc.anon}), fmt.Sprintf("%.1f MiB (%.0f)", most, sc.anon)
	}},
	{"coverage", judgeCoverage},
	{"ticks in time", func(r *record, sc scale) (verdict, string) {
		if sc.inTime == 0 || r.Load != "echo" {
			return none, ""
		}
		return atLeast(r.InTime, limits{sc.inTime, sc.inTime}), fmt.Sprintf("%s (%s)", percent(r.InTime), percent(sc.inTime))
	}},
	// Threads that end at once are all new to the processor that they are looked at on.
	{"held", func(r *record, sc scale) (verdict, string) {
		if r.Captured < leastHeld || !r.RealTime || r.Load == "threads" {
			return none, ""
		}
		v := max(atMost(r.HeldMedian, heldLimit), atMost(r.HeldP99, heldP99Limit))
		return v, fmt.Sprintf("%.1f us, p99 %.0f us (%s, p99 %s)", r.HeldMedian, r.HeldP99, heldLimit.text(plain),
			heldP99Limit.text(plain))
	}},
	{"beside runtime.Stack", judgeStack},
	{"beside GoroutineProfile", judgeProfile},
}

func judgeCoverage(r *record, sc scale) (verdict, string) {
	switch {
	case r.Load == "idle":
		return atLeast(r.Gated, idleGated), fmt.Sprintf("%s of ticks gated (%s)", percent(r.Gated), idleGated.text(percent))
	case sc.ticks == 0 || r.Load != "echo":
		return none, ""
	case r.TicksPerPass == 0:
		return fail, "no whole pass over all goroutines"
	}
	l := limits{sc.ticks * ticksSlack, sc.ticks * ticksSlack}
	return atMost(r.TicksPerPass, l), fmt.Sprintf("every %.2f ticks (%g)", r.TicksPerPass, sc.ticks)
}

// besideOthers is the number of goroutines at which goprof is compared, under both loads.
const besideOthers = 10000

func (r *record) isCompared() bool {
	return r.N == besideOthers && (r.Load == "echo" || r.Load == "cpu") && r.Ratio.N > 0
}

func judgeStack(r *record, _ scale) (verdict, string) {
	p := r.peer("runtime.Stack")
	if !r.isCompared() || p == nil {
		return none, ""
	}
	gain, more := finiteRatio(r.Ratio.Median, p.Ratio.Median), finiteRatio(r.Samples, p.Samples)
	return max(atLeast(gain, stackGain), atLeast(more, stackSamples)),
		fmt.Sprintf("%.0f times the throughput (%s), %.1f times the samples (%s)", gain, stackGain.text(plain), more,
			plain(stackSamples.gate))
}

func judgeProfile(r *record, _ scale) (verdict, string) {
	p := r.peer("GoroutineProfile")
	if !r.isCompared() || p == nil {
		return none, ""
	}
	v := fail
	if r.Samples > p.Samples && r.Ratio.Median > p.Ratio.Median {
		v = aim
	}
	return v, fmt.Sprintf("%.0f samples/s to %.0f, throughput %.2f to %.2f (more, more)", r.Samples, p.Samples,
		r.Ratio.Median, p.Ratio.Median)
}

// finiteRatio: of nothing, what is something is without bounds.
func finiteRatio(a, b float64) float64 {
	if b == 0 {
		return math.MaxFloat64
	}
	return a / b
}

// finding is what one gate says of a row.
type finding struct {
	gate    string
	verdict verdict
	text    string
}

func judge(r *record) (v []finding, worst verdict) {
	for _, g := range gates {
		if verdict, text := g.judge(r, scales[r.N]); verdict != none {
			v = append(v, finding{g.name, verdict, text})
			worst = max(worst, verdict)
		}
	}
	return
}
