// Shares of CPU time at so many looks that they must be right within a few points, whatever looks at the threads.
package live

import (
	"math"
	"testing"
	"time"
)

// How near a share is to the truth at 8,000 looks, in points, by the way to look at threads on a CPU.
var pointsBySource = map[string]float64{"perf": 2, "ptrace": 3}

// With so many looks one sigma of a share of 50 % is 0.6 points. In a short run there are as many as a sigma of 1.6
// points takes, and the tolerance is 7.
const (
	manyLooks, fewLooks = 8000.0, 1000.0
	fewPoints           = 7.0
)

// part is a function's part of the CPU time, and the key of its TRUTH.
type part struct {
	key string
	is  func(*sample) bool
}

func partsBy(prefix string, names ...string) (v []part) {
	for _, name := range names {
		v = append(v, part{name, with(prefix + name)})
	}
	return
}

var splits = []struct {
	name   string
	builds []string // all in a full run, in turn in a short one
	args   []string
	line   string // of its TRUTH
	parts  []part
	short  bool    // in a short run, too
	rate   float64 // looks a second that a machine with two free cores gives
}{
	{"busy", []string{"1.19-plain", "1.26-sw"}, []string{"busy", "-n", "2"}, "TRUTH total", partsBy(pkg+"busy.", "alpha", "beta", "gamma"), false, 150},
	{"asmfn", []string{"1.26-plain", "1.19-sw"}, []string{"asmfn"}, "TRUTH asmfn", []part{
		{"asmfn.leaf", with(pkg + "asmfn.leaf")}, {"asmfn.framed", with(pkg + "asmfn.framed")}, {"asmfn.pushes", with(pkg + "asmfn.pushes")},
	}, true, 90},
	{"cgo", []string{"1.26-cgo"}, []string{"cgo", "-callback"}, "TRUTH worker", []part{
		{"c", with(cgoPkg + "_Cfunc_c_spin")},
		{"go", func(s *sample) bool { return s.has(cgoPkg+"spinGo") && !s.has(cgoPkg+"goSpin") }},
		{"go_from_c", with(cgoPkg + "goSpin")},
	}, false, 90},
	{"vdso", []string{"1.19-sw", "1.26-plain"}, []string{"vdso", "-split"}, "TRUTH split", partsBy(pkg+"vdso.", "clockA", "clockB"), false, 90},
	{"bursts", []string{"1.26-sw", "1.19-plain"}, []string{"burst"}, "TRUTH bursts", partsBy(pkg+"burst.", "hotA", "hotB"), true, 80},
	// In each burst of 1 ms hotA comes first: whoever looks in one phase of the cycle sees one of them only, or none.
	{"bursts as the ticks", []string{"1.19-plain", "1.26-sw"}, []string{"burst", "-fixed", "-period", "9900990ns"}, "TRUTH bursts",
		partsBy(pkg+"burst.", "hotA", "hotB"), true, 80},
}

// Shows: how CPU time is split between functions of Go, of assembly, of C, in the vDSO, and in short bursts, is what the
// threads' own clocks say.
func TestSplits(t *testing.T) {
	for i, split := range splits {
		i, split := i, split
		if testing.Short() && !split.short {
			continue
		}
		t.Run(split.name, func(t *testing.T) {
			eachSource(t, func(t *testing.T, source string) {
				each(t, inTurn(i, split.builds...), false, func(t *testing.T, build string) {
					looks, points := manyLooks, pointsBySource[source]
					if testing.Short() {
						looks, points = fewLooks, fewPoints
					}
					words := append([]string{"--looks", source, target(build)}, split.args...)
					splitUntil(t, source, words, split.line, split.parts, looks, points, split.rate)
				})
			})
		})
	}
}

// splitUntil profiles a program again and again until there are so many looks, and compares. On a busy machine a second
// has few looks, each of which then carries much: counts promise more than they hold. So what is too far off is measured
// for twice as long.
func splitUntil(t *testing.T, source string, words []string, line string, parts []part, looks, points, rate float64) {
	t.Helper()
	s := measuredSplit{source: source, cpu: make([]float64, len(parts)), want: make([]float64, len(parts))}
	s.measure(t, words, line, parts, looks, rate)
	if off := mostOff(s.cpu, s.want); off > points {
		t.Logf("%.1f points off at %.0f looks: once more", off, s.seen)
		s.measure(t, words, line, parts, 2*looks, rate)
	}
	checkCompleteCounts(t, s.stacks, s.complete)
	names := make([]string, len(parts))
	for k, part := range parts {
		names[k] = part.key
	}
	compareShares(t, names, s.cpu, percents(s.want), points, s.seen)
}

// measuredSplit is CPU time by part, what the target says of it, and the number of valid looks.
type measuredSplit struct {
	source    string
	cpu, want []float64
	seen      float64
	// Of all runs together: the last one may be short.
	stacks, complete float64
}

func percents(v []float64) (w []float64) {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	for _, x := range v {
		w = append(w, 100*x/sum)
	}
	return
}

// mostOff is the greatest difference between shares, in points.
func mostOff(got, want []float64) (most float64) {
	got, want = percents(got), percents(want)
	for k := range got {
		most = math.Max(most, math.Abs(got[k]-want[k]))
	}
	return
}

// measure goes on until there are so many looks.
func (s *measuredSplit) measure(t *testing.T, words []string, line string, parts []part, looks, rate float64) {
	t.Helper()
	for begin := time.Now(); s.seen < looks; {
		// A tenth of what a free machine gives is the least we live with.
		if time.Since(begin) > time.Minute+time.Duration(10*looks/rate)*time.Second {
			t.Fatalf("%.0f valid looks in %v, want %.0f: is the machine busy?", s.seen, time.Since(begin), looks)
		}
		d := time.Duration(1.1*(looks-s.seen)/rate+1) * time.Second
		if d < 3*time.Second {
			d = 3 * time.Second
		} else if d > 25*time.Second {
			d = 25 * time.Second
		}
		r, status := run(t, d+time.Minute, append(append([]string{}, words...), "-dur", d.String())...)
		if status != 0 {
			t.Fatalf("status %d\n%s", status, tail(r.err()))
		}
		checkSource(t, r, s.source)
		p := r.profile()
		n := p.figure(t, lookLine)
		s.seen += n
		for k, part := range parts {
			s.cpu[k] += float64(p.cpu(part.is))
			s.want[k] += n * truth(t, r.out(), line, part.key)
		}
		if line == "TRUTH bursts" {
			compareCPU(t, p, truth(t, r.out(), line, "process_ms"))
		}
		s.stacks += p.figure(t, "on-CPU stacks")
		s.complete += p.figure(t, "complete on-CPU stacks")
		checkAudits(t, p)
		t.Logf("%.0f looks; held: median %v, 99 %%: %v", s.seen, time.Duration(p.figure(t, "held median")), time.Duration(p.figure(t, "held p99")))
	}
}
