// Reading pprof files: by Go's own pprof (-raw), so that each profile is opened by what its users open it with.
package live

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sample is one row: a stack with its values.
type sample struct {
	count, cpu, wall int64 // cpu and wall in ns
	labels           string
	stack            []string // function names, leaf first, inlined ones too
}

func (s *sample) has(function string) bool { return s.index(function) >= 0 }

func (s *sample) index(function string) int {
	for i, f := range s.stack {
		if f == function {
			return i
		}
	}
	return -1
}

type profile struct {
	samples  []sample
	types    []string
	comments []string
	health   map[string]float64 // figures of the comment "health: ..."; ns for times
}

var (
	valueLine    = regexp.MustCompile(`^ *(-?\d+) +(-?\d+) +(-?\d+): ?([\d ]*)$`)
	locationLine = regexp.MustCompile(`^ *(\d+): 0x[0-9a-f]+ (?:M=\d+ )?(.*)$`)
	functionName = regexp.MustCompile(`^(.*?)(?: [^ ]*:\d+(?::\d+)? s=-?\d+)?(?:\(.*\))?$`)
	healthFigure = regexp.MustCompile(`^(.+) (\d+)( ns)?$`)
)

func openProfile(t testing.TB, path string) *profile {
	t.Helper()
	return parseProfile(t, goTool(t, "pprof", "-raw", path))
}

// parseProfile reads what pprof -raw prints: comments, samples, locations.
func parseProfile(t testing.TB, text string) *profile {
	t.Helper()
	p := &profile{health: map[string]float64{}}
	var stacks [][]string
	functions := map[string][]string{} // of a location
	section, location := "", ""
	for _, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "Comment: "):
			p.comments = append(p.comments, strings.TrimPrefix(line, "Comment: "))
		case line == "Samples:" || line == "Locations" || line == "Mappings":
			section = line
		case section == "Samples:" && p.types == nil:
			p.types = strings.Fields(line)
		case section == "Samples:" && valueLine.MatchString(line):
			m := valueLine.FindStringSubmatch(line)
			var v [3]int64
			for i := range v {
				v[i], _ = strconv.ParseInt(m[i+1], 10, 64)
			}
			p.samples = append(p.samples, sample{count: v[0], cpu: v[1], wall: v[2]})
			stacks = append(stacks, strings.Fields(m[4]))
		case section == "Samples:" && len(p.samples) > 0:
			p.samples[len(p.samples)-1].labels += strings.TrimSpace(line)
		case section == "Locations" && line != "":
			name := strings.TrimSpace(line)
			if m := locationLine.FindStringSubmatch(line); m != nil {
				location, name = m[1], m[2]
			}
			functions[location] = append(functions[location], functionName.FindStringSubmatch(name)[1])
		}
	}
	for i, ids := range stacks {
		for _, id := range ids {
			p.samples[i].stack = append(p.samples[i].stack, functions[id]...)
		}
	}
	for _, c := range p.comments {
		figures, found := strings.CutPrefix(c, "health: ")
		for _, figure := range strings.Split(figures, ", ") {
			if m := healthFigure.FindStringSubmatch(figure); found && m != nil {
				p.health[m[1]], _ = strconv.ParseFloat(m[2], 64)
			}
		}
	}
	if types := strings.Join(p.types, " "); strings.Replace(types, "[dflt]", "", 1) != "samples/count cpu/nanoseconds wall/nanoseconds" {
		t.Fatalf("sample types %q", types)
	}
	return p
}

// figure is a health figure that must be there.
func (p *profile) figure(t testing.TB, name string) float64 {
	t.Helper()
	v, ok := p.health[name]
	if !ok {
		t.Fatalf("no health line %q among the comments:\n%s", name, strings.Join(p.comments, "\n"))
	}
	return v
}

// cpu adds up the CPU time of the samples that match.
func (p *profile) cpu(match func(*sample) bool) (sum time.Duration) {
	for i := range p.samples {
		if match(&p.samples[i]) {
			sum += time.Duration(p.samples[i].cpu)
		}
	}
	return
}

func (p *profile) wall(match func(*sample) bool) (sum time.Duration) {
	for i := range p.samples {
		if match(&p.samples[i]) {
			sum += time.Duration(p.samples[i].wall)
		}
	}
	return
}

func with(function string) func(*sample) bool {
	return func(s *sample) bool { return s.has(function) }
}

func anySample(*sample) bool { return true }

// shares is the part of each function in the CPU time of all of them, in percent.
func (p *profile) shares(functions ...string) (share []float64, sum time.Duration) {
	for _, f := range functions {
		cpu := p.cpu(with(f))
		share = append(share, float64(cpu))
		sum += cpu
	}
	for i := range share {
		if sum > 0 {
			share[i] *= 100 / float64(sum)
		}
	}
	return
}

func TestParseProfile(t *testing.T) {
	p := parseProfile(t, `Comment: goprof 0.1.0, mode wall, 101 Hz, 1 window
Comment: health: ticks due 5, held p99 1234 ns, call sites wrong 0
PeriodType: wall nanoseconds
Samples:
samples/count cpu/nanoseconds wall/nanoseconds[dflt]
         19  190000000    200: 1 2 
                a b:[c d]
          1         -1      3: 2 
Locations
     1: 0x47dc28 M=1 main.(*T[go.shape.struct { A int }]).f /a/b.go:33:0 s=32
             time.runtimeNano /c.go:38:0 s=33
     2: 0x0 M=1 [unseen] :0:0 s=0
Mappings
1: 0x0/0x0/0x0 /x  [FN]
`)
	if len(p.samples) != 2 || p.samples[0].cpu != 190e6 || p.samples[0].wall != 200 || p.samples[1].cpu != -1 {
		t.Errorf("samples %+v", p.samples)
	}
	want := "main.(*T[go.shape.struct { A int }]).f|time.runtimeNano|[unseen]"
	if got := strings.Join(p.samples[0].stack, "|"); got != want {
		t.Errorf("stack %q, want %q", got, want)
	}
	if p.samples[0].labels != "a b:[c d]" || p.figure(t, "held p99") != 1234 || p.figure(t, "ticks due") != 5 || p.figure(t, "call sites wrong") != 0 {
		t.Errorf("labels %q, health %v", p.samples[0].labels, p.health)
	}
	if share, sum := p.shares("time.runtimeNano"); share[0] < 99.99 || share[0] > 100.01 || sum != 190*time.Millisecond {
		t.Errorf("shares %v of %v", share, sum)
	}
}
