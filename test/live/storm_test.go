// Goroutines that park, end and are made as fast as the machine goes, read without a stop: no stack may be one that never
// was. The target (test/targets/storm) knows all that can be.
package live

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	stormPkg    = pkg + "storm."
	stormFrames = 12
	stormPaths  = 58
)

var stormPath = regexp.MustCompile(`^example\.org/goprof/targets/storm\.(?:init|glob\.)\.func(\d+)$`)

// path is the path of a stack's first frame of one, 0 if there is none, and what is wrong with the stack.
func stormStack(stack []string) (path string, frames int, wrong string) {
	first, last, roots, ends := -1, -1, map[string]bool{}, map[string]bool{}
	for i, f := range stack {
		if m := stormPath.FindStringSubmatch(f); m != nil {
			if path != "" && m[1] != path {
				return path, frames, fmt.Sprintf("path %s is called by path %s", path, m[1])
			}
			if path = m[1]; first < 0 {
				first = i
			}
			last = i
			frames++
			continue
		}
		switch name := strings.TrimPrefix(f, stormPkg); name {
		case "worker", "child":
			roots[name] = true
			if frames > 0 && i != last+1 {
				return path, frames, "between the path and " + name + " stands something else"
			}
		case "halfway": // not counted; it stands between two frames of a path or above one
			if last >= 0 && i != last+1 {
				return path, frames, "between the path and halfway stands something else"
			}
			if last >= 0 {
				last++
				first++
			}
		case "wait", "rest":
			ends[name] = true
			if frames > 0 {
				return path, frames, name + " calls a path"
			}
		}
	}
	switch {
	case frames > 0 && last-first+1 != frames:
		return path, frames, "the path is interrupted"
	case frames > stormFrames:
		return path, frames, fmt.Sprintf("%d frames of a path", frames)
	case len(ends) > 0 && frames != stormFrames:
		return path, frames, fmt.Sprintf("%d frames of a path below its end", frames)
	case len(roots)+len(ends) > 0 && (len(roots) != 1 || len(ends) > 1), frames > 0 && len(roots) != 1:
		return path, frames, "it has not one root"
	case ends["wait"] && !roots["worker"], ends["rest"] && !roots["child"]:
		return path, frames, "its end and its root do not belong together"
	}
	return path, frames, ""
}

func TestStormStack(t *testing.T) {
	stack := func(end, root string, paths ...int) (v []string) {
		v = append(v, "runtime.gopark", "runtime.chanrecv1", stormPkg+end)
		for i, p := range paths {
			if i == len(paths)/2 {
				v = append(v, stormPkg+"halfway")
			}
			v = append(v, fmt.Sprintf("%sglob..func%d", stormPkg, p))
		}
		return append(v, stormPkg+root)
	}
	same := func(p, n int) (v []int) {
		for ; n > 0; n-- {
			v = append(v, p)
		}
		return
	}
	for _, v := range [][]string{stack("wait", "worker", same(3, 12)...), stack("rest", "child", same(58, 12)...), stack("take", "worker"),
		{"runtime.asyncPreempt", stormPkg + "init.func7", stormPkg + "init.func7", stormPkg + "worker"}, {"runtime.gopark", "main.main"},
		{stormPkg + "halfway", stormPkg + "init.func7", stormPkg + "worker"}} {
		if _, _, wrong := stormStack(v); wrong != "" {
			t.Errorf("%v: %s", v, wrong)
		}
	}
	for i, v := range [][]string{stack("wait", "worker", append(same(3, 6), same(4, 6)...)...), stack("wait", "worker", append(same(3, 11), 4)...), stack("wait", "worker", same(3, 11)...),
		stack("wait", "child", same(3, 12)...), stack("rest", "worker", same(3, 12)...), stack("wait", "worker"), stack("other", "worker", same(1, 13)...),
		stack("wait", "other", same(1, 12)...), append(stack("wait", "worker", same(3, 12)...), stormPkg+"child"),
		{stormPkg + "init.func7", stormPkg + "wait", stormPkg + "init.func7", stormPkg + "worker"}} {
		if _, _, wrong := stormStack(v); wrong == "" {
			t.Errorf("%d: %v passes", i, v)
		}
	}
}

// storms is what several profiles of storms have seen.
type storms struct {
	t                                                         testing.TB
	reads, impossible, whole, torn, unchanged, audits, misses float64
	never, made                                               float64
	paths                                                     map[string]bool
}

// add takes in one profile.
func (s *storms) add(r *recording, p *profile) {
	s.t.Helper()
	s.reads += p.figure(s.t, "stacks") - p.figure(s.t, "on-CPU stacks")
	s.torn += p.figure(s.t, "torn reads repeated")
	s.unchanged += p.figure(s.t, "unchanged")
	s.audits += p.figure(s.t, "audited")
	s.misses += p.figure(s.t, "audit mismatches")
	s.never += p.figure(s.t, "goroutines never seen")
	s.made += truth(s.t, r.out(), "parks=", "children")
	for i := range p.samples {
		path, frames, wrong := stormStack(p.samples[i].stack)
		if wrong != "" {
			s.impossible++
			s.t.Errorf("impossible (%s), %d times:\n  %s", wrong, p.samples[i].count, strings.Join(p.samples[i].stack, "\n  "))
		}
		if frames == stormFrames {
			s.whole++
			s.paths[path] = true
		}
	}
}

// missed estimates how many looks took a goroutine for unchanged that had run: one believed look in 512 is audited.
func (s *storms) missed() (n, percent float64) {
	if s.audits > 0 {
		n = s.misses * (s.unchanged + s.audits) / s.audits
	}
	return n, 100 * n / (s.reads + s.unchanged)
}

// mostMisses is how many audits would find a goroutine that had run if that were so in one look of ten thousand: a
// fraction of one in a short storm. What is found is a number by chance, with the root of that as its sigma.
func (s *storms) mostMisses() float64 {
	if s.audits == 0 {
		return 0
	}
	return 1e-4 * (s.reads + s.unchanged) * s.audits / (s.unchanged + s.audits)
}

var stormKinds = []struct {
	name string
	args []string
}{
	{"storm", []string{"-rings", "4", "-size", "50"}},
	{"rests", []string{"-rings", "20", "-size", "10", "-rest", "30ms"}},
	{"works", []string{"-rings", "4", "-size", "12", "-spin", "5000", "-spawners", "1"}},
	{"calls", []string{"-rings", "4", "-size", "12", "-calls", "-spin", "2000"}},
	{"churn", []string{"-rings", "15", "-size", "2", "-spawners", "8"}},
}

// stormUntil profiles storms of one kind until so many stacks have been read without a stop.
func stormUntil(t testing.TB, build string, args []string, reads float64, length time.Duration) *storms {
	t.Helper()
	s := &storms{t: t, paths: map[string]bool{}}
	begin, told := time.Now(), time.Now()
	// A machine that does nothing else reads 20,000 a second and more. A tenth of that is the least we live with.
	limit := time.Minute + time.Duration(reads/2000)*time.Second
	for seed := 1; s.reads < reads; seed++ {
		if time.Since(begin) > limit {
			t.Fatalf("%.0f stacks read after %v, want %.0f: is the machine busy?", s.reads, time.Since(begin), reads)
		}
		words := append([]string{"--rate", "1000", target(build), "storm", "-seed", fmt.Sprint(seed), "-dur", length.String()}, args...)
		r, status := run(t, length+time.Minute, words...)
		if status != 0 {
			t.Fatalf("status %d\n%s", status, tail(r.err()))
		}
		p := r.profile()
		s.add(r, p)
		if wrong, all := p.figure(t, "not unwound"), p.figure(t, "stacks"); wrong > all/1000 {
			t.Errorf("%.0f of %.0f stacks could not be unwound", wrong, all)
		}
		if time.Since(told) > 20*time.Second {
			told = time.Now()
			progress("%s %v: %.0f of %.0f stacks read, %.0f impossible", build, args, s.reads, reads, s.impossible)
		}
		if t.Failed() {
			break
		}
		os.RemoveAll(r.files)
		if line := strings.Index(r.out(), "TRUTH"); line >= 0 && seed == 1 {
			t.Logf("%s", strings.TrimSpace(r.out()[line:]))
		}
	}
	missed, percent := s.missed()
	t.Logf("%.0f stacks read in %v, %.0f torn and read again, %.0f impossible; %.0f believed unread, %.0f of them audited, %.0f wrong: "+
		"%.0f missed, %.4f %%", s.reads, time.Since(begin).Round(time.Second), s.torn, s.impossible, s.unchanged, s.audits, s.misses, missed, percent)
	if len(s.paths) != stormPaths {
		t.Errorf("%d of %d paths were seen", len(s.paths), stormPaths)
	}
	if s.torn == 0 {
		t.Error("not one goroutine ran while it was read: nothing shown")
	}
	if expected := s.mostMisses(); s.misses > expected+4*math.Sqrt(expected)+1 {
		t.Errorf("%.0f of %.0f audits found that a goroutine had run: %.4f %% of all looks", s.misses, s.audits, percent)
	}
	return s
}

// progress is for tests that take long: it does not wait for their end.
func progress(format string, args ...interface{}) {
	if os.Getenv("GOPROF_SOAK") != "" {
		fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
	}
}

// Shows: of stacks that are read while their goroutines run, none is one that never was: there are 58 legal ones, which
// differ in the middle alone. And the header of a goroutine tells whether it has run: of all looks not one in ten
// thousand takes one for unchanged that is not.
func TestStorm(t *testing.T) {
	builds := eachVersion
	if !testing.Short() {
		builds = append(append([]string{}, builds...), moreBuilds()...)
	}
	each(t, builds, false, func(t *testing.T, build string) {
		for _, kind := range stormKinds {
			kind := kind
			t.Run(kind.name, func(t *testing.T) {
				s := stormUntil(t, build, kind.args, 25000, 2*time.Second)
				if kind.name == "churn" && !(s.never > 0.5*s.made && s.never <= s.made) {
					t.Errorf("%.0f goroutines were made, %.0f of them said never to have been seen", s.made, s.never)
				}
			})
		}
	})
}

// Shows: the same before Go 1.17, whose runtime does not count parks: there the first bytes of a stack tell whether its
// goroutine has run. (A full run has it in TestStorm and TestAlternatingSplit, too.)
func TestWithoutCounter(t *testing.T) {
	build := buildWithoutCounter(t)
	alternating(t, build, 4*time.Second)
	for _, kind := range stormKinds {
		if kind.name == "works" || kind.name == "calls" {
			stormUntil(t, build, kind.args, 25000, 2*time.Second)
		}
	}
}

// buildWithoutCounter is of a Go version before 1.17.
func buildWithoutCounter(t *testing.T) string {
	t.Helper()
	for _, v := range matrixVersions(t) {
		if minorOf(v) < 17 {
			buildMatrix(t, v, []string{"plain"})
			return v + "-plain"
		}
	}
	t.Skip("no Go before 1.17 can be had")
	return ""
}

// Shows: the same for as many stacks as GOPROF_SOAK says (make soak: ten million).
func TestSoak(t *testing.T) {
	reads, _ := strconv.ParseFloat(os.Getenv("GOPROF_SOAK"), 64)
	if reads <= 0 {
		t.Skip("make soak is for this")
	}
	builds := soakBuilds()
	progress("%.0f stacks, over %s", reads, strings.Join(builds, ", "))
	each(t, builds, false, func(t *testing.T, build string) {
		for _, kind := range stormKinds {
			kind := kind
			t.Run(kind.name, func(t *testing.T) {
				s := stormUntil(t, build, kind.args, reads/float64(len(builds)*len(stormKinds)), 10*time.Second)
				missed, percent := s.missed()
				progress("%s %s: %.0f read, %.0f torn and read again, %.0f impossible; %.0f of %.0f audits wrong: about %.0f missed, %.4f %%",
					build, kind.name, s.reads, s.torn, s.impossible, s.misses, s.audits, missed, percent)
			})
		}
	})
}

// soakBuilds are those of GOPROF_SOAK_BUILDS, or one of each version that is there.
func soakBuilds() []string {
	if named := os.Getenv("GOPROF_SOAK_BUILDS"); named != "" {
		return strings.Split(named, ",")
	}
	var v []string
	names, _ := filepath.Glob(filepath.Join(targetsDir, "targets-1.??-plain"))
	for _, name := range names {
		v = append(v, strings.TrimPrefix(filepath.Base(name), "targets-"))
	}
	return v
}
