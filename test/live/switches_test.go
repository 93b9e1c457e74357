// Changes of stacks: what was looked at on a CPU goes on to the function that began it, whatever lies between: the
// system stack, C code, a signal, a panic, the scheduler. The targets switches and nested spend their time there.
package live

import (
	"strings"
	"testing"
	"time"
)

// follow says that the functions stand on the stack in this order, leaf first, others between them.
func (s *sample) follow(functions ...string) bool {
	at := 0
	for _, f := range s.stack {
		if at < len(functions) && f == functions[at] {
			at++
		}
	}
	return at == len(functions)
}

func (s *sample) root() string { return s.stack[len(s.stack)-1] }

// chain is what must be found: whoever has the first function on its stack has the others behind it.
type chain []string

// in puts the package of a target before names that have none.
func in(target string, names ...string) (c chain) {
	for _, name := range names {
		if !strings.Contains(name, ".") || strings.Contains(name, ".func") {
			name = pkg + target + "." + name
		}
		c = append(c, name)
	}
	return
}

// goroutineRoots: what a goroutine begins with.
var goroutineRoots = map[string]bool{"runtime.goexit": true, "runtime.corostart": true}

// checkChains demands that every look with the chain's first function follows one of the chains, and that there are some.
func checkChains(t testing.TB, p *profile, looks int64, chains ...chain) {
	t.Helper()
	if seen := followChains(t, p, chains...); seen < looks {
		t.Errorf("%d looks at %s, at least %d wanted", seen, chains[0][0], looks)
	}
}

// followChains is the first half of it, and the number of looks.
func followChains(t testing.TB, p *profile, chains ...chain) (seen int64) {
	t.Helper()
	astray := int64(0)
	for i := range p.samples {
		s := &p.samples[i]
		if s.cpu == 0 || !s.has(chains[0][0]) {
			continue
		}
		good := false
		for _, c := range chains {
			good = good || s.follow(c...)
		}
		seen += s.count
		// In a thread made by C the first function is one of C, behind the call into Go.
		madeByC := s.has("runtime.cgocallback") && !goroutineRoots[s.root()] && !strings.HasPrefix(s.root(), "[")
		if !good || !(goroutineRoots[s.root()] || madeByC) {
			if astray += s.count; astray < 5 {
				t.Logf("%d times astray: %v", s.count, s.stack)
			}
		}
	}
	t.Logf("%d looks at %s, %d astray", seen, chains[0][0], astray)
	if astray > 0 {
		t.Errorf("%d of %d looks at %s do not follow %v", astray, seen, chains[0][0], chains)
	}
	return
}

// switchBuilds: both forms of code that a version makes, and both of position.
var switchBuilds = []string{"1.19-plain", "1.26-sw", "1.26-pie-sw", "1.26-cgo-sw"}

func someBuilds() []string {
	if testing.Short() {
		return eachVersion
	}
	return append(switchBuilds, moreBuilds()...)
}

// minorOf is N of "1.N", "1.N.P" and "1.N-form".
func minorOf(build string) (minor int) {
	for _, c := range strings.TrimPrefix(build, "1.") {
		if c < '0' || c > '9' {
			break
		}
		minor = 10*minor + int(c-'0')
	}
	return
}

// versionOf is 1.19 for 1.19-plain.
func versionOf(build string) string { return strings.Split(build, "-")[0] }

// runSwitches runs a kind of the target switches to its end and checks what was looked at. Some kinds are on a CPU for a
// small part of the time, and on a busy machine for less: then it is run again until there are enough looks.
func runSwitches(t *testing.T, build, kind string, d time.Duration, looks int64, chains []chain, options ...string) {
	t.Helper()
	words := append([]string{target(build), "switches", "-kind", kind, "-dur", d.String()}, options...)
	seen := int64(0)
	for runs := 0; seen < looks && runs < mostRuns; runs++ {
		r, status := run(t, d+time.Minute, words...)
		if status != 0 || !strings.Contains(r.out(), "TRUTH kind="+kind) {
			t.Fatalf("status %d\n%s%s", status, tail(r.out()), tail(r.err()))
		}
		p := r.profile()
		seen += followChains(t, p, chains...)
		checkWhole(t, p)
	}
	if seen < looks {
		t.Errorf("%d looks at %s in %d runs, at least %d wanted", seen, chains[0][0], mostRuns, looks)
	}
}

// mostRuns is how often a program is run that by chance was looked at too seldom.
const mostRuns = 6

// Shows: a signal each millisecond, while the thread is in Go code, on the system stack, in the scheduler, in the
// vDSO, in a system call: its handler goes on to what it interrupted, and that to its root.
func TestInterruptedSwitches(t *testing.T) {
	t.Parallel()
	for kind, chains := range map[string][]chain{
		"callers":   {in("switches", "callers", "descend", "askCallers")},
		"gosched":   {in("switches", "yields")},
		"clock":     {in("switches", "asks")},
		"syscalls":  {in("switches", "calls", "syscalls")},
		"recovered": {in("switches", "busy", "afterRecover", "recovered")},
	} {
		kind, chains := kind, chains
		t.Run(kind, func(t *testing.T) {
			each(t, inTurn(len(kind), eachVersion...), false, func(t *testing.T, build string) {
				runSwitches(t, build, kind, lasting(3*time.Second, 1500*time.Millisecond), 5, chains, "-signals")
			})
		})
	}
}

// Shows: each kind of switch, each in a program that does little else.
func TestSwitches(t *testing.T) {
	t.Parallel()
	d := lasting(4*time.Second, 1500*time.Millisecond)
	if !testing.Short() {
		buildMatrix(t, "1.19", []string{"race"})
		buildMatrix(t, "1.26", []string{"race"})
	}
	for i, c := range []struct {
		kind   string
		since  int // Go 1.since
		looks  int64
		chains []chain
	}{
		{"callers", 0, 10, []chain{in("switches", "runtime.Callers", "callers", "descend", "descend", "descend", "askCallers")}},
		{"gosched", 0, 5, []chain{in("switches", "yields")}},
		{"pingpong", 0, 10, []chain{in("switches", "ping"), in("switches", "pong")}},
		{"panics", 0, 10, []chain{in("switches", "busy", "deferred", "runtime.gopanic", "panics")}},
		{"faults", 0, 10, []chain{in("switches", "busy", "deferred", "runtime.gopanic", "runtime.panicmem", "runtime.sigpanic", "loads", "faults"),
			in("switches", "busy", "deferred", "runtime.gopanic", "divides", "faults")}},
		{"goexits", 0, 10, []chain{in("switches", "busy", "deferred", "runtime.Goexit", "goexits")}},
		{"recovered", 0, 10, []chain{in("switches", "busy", "afterRecover", "recovered")}},
		{"timers", 0, 10, []chain{in("switches", "busy", "onTimer")}},
		{"finalizers", 0, 10, []chain{in("switches", "busy", "finalizer")}},
		{"threads", 0, 1, []chain{in("switches", "busy", "endsLocked")}},
		{"syscalls", 0, 10, []chain{in("switches", "calls", "syscalls")}},
		{"preempted", 0, 10, []chain{in("switches", "neverYields")}},
		{"maps", 0, 10, []chain{in("switches", "fills")}},
		{"coroutines", 23, 10, []chain{in("switches", "busy", "generate.func1"), in("switches", "busy", "consume")}},
		{"cleanups", 24, 10, []chain{in("switches", "busy", "cleanup")}},
	} {
		c, turn := c, i
		if c.since > 0 {
			turn = 1 // the newer version
		}
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			builds := someBuilds()
			if !testing.Short() {
				builds = append(builds, "1.19-race", "1.26-race")
			}
			if c.kind == "threads" && !testing.Short() { // programs with C make them through C
				builds = append(builds, "1.19-cgo-sw", "1.19-cgo-static", "1.26-cgo-static")
			}
			each(t, inTurn(turn, builds...), false, func(t *testing.T, build string) {
				if minorOf(versionOf(build)) < c.since {
					t.Skip("not in this version")
				}
				runSwitches(t, build, c.kind, d, c.looks, c.chains)
			})
		})
	}
}

// checkWhole: of all stacks that were on a CPU at most one in a hundred is without its root; chance, and what a process
// does before the sampler knows its threads, has room for three. Of threads that went on before a perf look at them was
// over less is known, which has a figure of its own (the race detector maps memory on the system stack: one in thirty).
func checkWhole(t testing.TB, p *profile) {
	t.Helper()
	all, whole := p.figure(t, "on-CPU stacks"), p.figure(t, "complete on-CPU stacks")
	wentOn := p.figure(t, "looks at threads that went on")
	if whole+min(wentOn, all/20) < 0.99*all-3 {
		t.Errorf("%.0f of %.0f on-CPU stacks are complete, %.0f threads went on", whole, all, wentOn)
	}
	if audited, wrong := p.figure(t, "call sites audited"), p.figure(t, "call sites wrong"); audited == 0 || wrong != 0 {
		t.Errorf("%.0f of %.0f audited call sites are wrong", wrong, audited)
	}
	t.Logf("%.0f of %.0f on-CPU stacks complete, %.0f call sites audited", whole, all, p.figure(t, "call sites audited"))
}

// checkRoots: of the looks at most this share is marked as one whose callers are missing. What ends in C code is
// none of these: a thread made by C begins there.
func checkRoots(t testing.TB, p *profile, most float64) {
	t.Helper()
	all, marked := int64(0), int64(0)
	for i := range p.samples {
		s := &p.samples[i]
		if s.cpu == 0 {
			continue
		}
		all += s.count
		if root := s.root(); root == "[incomplete]" || root == "[truncated]" {
			marked += s.count
			t.Logf("%d times: %v", s.count, s.stack)
		}
	}
	if all < 50 || float64(marked) > 3+most*float64(all) {
		t.Errorf("%d of %d looks have no root", marked, all)
	}
	if audited, wrong := p.figure(t, "call sites audited"), p.figure(t, "call sites wrong"); audited == 0 || wrong != 0 {
		t.Errorf("%.0f of %.0f audited call sites are wrong", wrong, audited)
	}
}

// Shows: Go that calls C that calls Go, three times over: all Go parts stand in order, with threads made by C, with
// panics that cross all of it, and with a signal each millisecond wherever the thread is.
func TestNested(t *testing.T) {
	t.Parallel()
	d := lasting(4*time.Second, 3*time.Second)
	builds := []string{"1.19-cgo-sw", "1.26-cgo-sw"}
	whole := in("nested", "bottom", "goThree", "three", "goTwo", "two", "goOne", "one", "worker")
	for i, options := range [][]string{nil, {"-threads"}, {"-panics"}, {"-signals"}, {"-threads", "-panics=false", "-signals"}} {
		options, builds := options, inTurn(i, builds...)
		t.Run(strings.Join(append([]string{"plain"}, options...), ""), func(t *testing.T) {
			each(t, builds, false, func(t *testing.T, build string) {
				words := append([]string{target(build), "nested", "-dur", d.String()}, options...)
				r, status := run(t, d+time.Minute, words...)
				if status != 0 || truth(t, r.out(), "rounds=", "rounds") == 0 {
					t.Fatalf("status %d\n%s%s", status, tail(r.out()), tail(r.err()))
				}
				p := r.profile()
				chains := []chain{whole}
				if len(options) > 0 && options[0] == "-threads" {
					chains = append(chains, in("nested", "bottom", "goThree", "three", "goTwo", "runtime.cgocallback"))
				}
				checkChains(t, p, 20, chains...)
				checkRoots(t, p, 0.01)
				for i := range p.samples {
					s := &p.samples[i]
					if s.cpu > 0 && s.has(pkg+"nested.worker") && s.has(pkg+"nested.bottom") && !s.follow(whole...) {
						t.Errorf("parts are missing or out of order: %v", s.stack)
					}
				}
				// Each way of being at the bottom is seen: in Go, in C, on the system stack.
				bottoms := 0
				for i := range p.samples {
					if s := &p.samples[i]; s.cpu > 0 && s.has(pkg+"nested.bottom") {
						bottoms += int(s.count)
					}
				}
				for _, leaf := range []string{pkg + "nested.spin", "runtime.cgocall", "runtime.Callers"} {
					if bottoms >= 100 && p.cpu(func(s *sample) bool { return s.follow(leaf, pkg+"nested.bottom") }) == 0 {
						t.Errorf("%s is never seen on top of nested.bottom in %d looks", leaf, bottoms)
					}
				}
			})
		})
	}
}

// Shows: stacks that grow, looked at a thousand times a second: what moves a stack, on the system stack, belongs to the
// function whose stack it is.
func TestGrowingStacks(t *testing.T) {
	t.Parallel()
	d := lasting(5*time.Second, 3*time.Second)
	each(t, someBuilds(), false, func(t *testing.T, build string) {
		r, status := run(t, d+time.Minute, "--rate", "1000", "--depth", "2000", target(build), "growstack", "-dur", d.String())
		if status != 0 || !strings.Contains(r.out(), "bad=0 ") {
			t.Fatalf("status %d\n%s%s", status, tail(r.out()), tail(r.err()))
		}
		p := r.profile()
		through, lost, marked := int64(0), int64(0), int64(0)
		for i := range p.samples {
			s := &p.samples[i]
			if at := s.index("runtime.newstack"); at < 0 || s.cpu == 0 {
				continue
			} else if s.index(pkg+"growstack.grow") > at {
				through += s.count
			} else if root := s.root(); root == "[incomplete]" || root == "[C]" {
				marked += s.count // between the two stacks: neither holds
				t.Logf("%d times rooted in %s: %v", s.count, root, s.stack)
			} else if !goroutineRoots[s.root()] && !s.has("runtime.gopreempt_m") {
				lost += s.count // and not put aside meanwhile, for another to run
				t.Logf("%d times rooted in %s: %v", s.count, s.root(), s.stack)
			}
		}
		t.Logf("%d looks at newstack go on into growstack.grow, %d are marked as incomplete", through, marked)
		if lost > 0 || through < 3 || marked > 1+through/500 {
			t.Errorf("%d looks at newstack go on into growstack.grow, %d are marked as incomplete, %d end without a goroutine", through, marked, lost)
		}
		checkWhole(t, p)
	})
}

// Shows: the time of day is asked for in the vDSO, on the thread's stack: the caller is there, and nothing of it twice.
func TestClockOnce(t *testing.T) {
	d := lasting(5*time.Second, 2500*time.Millisecond)
	each(t, someBuilds(), false, func(t *testing.T, build string) {
		r, status := run(t, d+time.Minute, target(build), "vdso", "-dur", d.String())
		if status != 0 {
			t.Fatalf("status %d\n%s", status, tail(r.err()))
		}
		p := r.profile()
		checkVdso(t, p)
		checkWhole(t, p)
		for i := range p.samples {
			for _, name := range []string{"runtime.nanotime1", "runtime.nanotime", "runtime.walltime", "time.now", "time.Now", pkg + "vdso.clock"} {
				n := 0
				for _, f := range p.samples[i].stack {
					if f == name {
						n++
					}
				}
				if n > 1 {
					t.Errorf("%s stands %d times on one stack: %v", name, n, p.samples[i].stack)
				}
			}
		}
	})
}

// Shows: a signal handler, on its own stack, goes on to what it interrupted: Go code, the scheduler, a system call.
func TestSignalHandlers(t *testing.T) {
	t.Parallel()
	d := lasting(5*time.Second, 3*time.Second)
	each(t, someBuilds(), false, func(t *testing.T, build string) {
		through, ends := int64(0), int64(0)
		// Where C has its own handler before Go's (cgo), few looks meet the latter: three in 5 s.
		for runs := 0; through < 5 && runs < mostRuns; runs++ {
			r, status := run(t, d+time.Minute, "--rate", "500", target(build), "signals", "-dur", d.String())
			if status != 0 || !strings.Contains(r.out(), "TRUTH lost=0 ") {
				t.Fatalf("status %d\n%s%s", status, tail(r.out()), tail(r.err()))
			}
			p := r.profile()
			for i := range p.samples {
				s := &p.samples[i]
				if at := s.index("runtime.sigtramp"); at < 0 || s.cpu == 0 {
					continue
				} else if at+1 < len(s.stack) && !strings.HasPrefix(s.root(), "[") {
					through += s.count
				} else {
					ends += s.count
					t.Logf("%d times: %v", s.count, s.stack)
				}
			}
			checkWhole(t, p)
		}
		t.Logf("%d looks at handlers go on, %d end there", through, ends)
		if through < 1 || ends > 1+through/50 {
			t.Errorf("%d looks at handlers go on, %d end there", through, ends)
		}
	})
}

// Shows: goroutines that are tied to their threads, one of which ends with its thread each second.
func TestLockedThreads(t *testing.T) {
	t.Parallel()
	each(t, eachVersion, false, func(t *testing.T, build string) {
		p := startTarget(t, build, "lockos", "-dur", "1m")
		r := attach(t, p.pid, 3*time.Second)
		text := dump(t, p.pid)
		p.quit()
		prof := r.profile()
		checkChains(t, prof, 50, in("lockos", "lockedSpin"))
		checkWhole(t, prof)
		for _, name := range []string{"lockedSpin", "lockedSyscall", "lockedChan", "Main"} {
			found := 0
			for _, g := range parseStacks(t, text) {
				if g.in(pkg+"lockos."+name) && g.locked {
					found++
				}
			}
			if found != 1 {
				t.Errorf("%d goroutines locked to a thread in lockos.%s:\n%s", found, name, text)
			}
		}
	})
}

// Shows: stacks that are hard to walk, parked: a frame of a megabyte, 800 bytes of arguments, deferred calls during a
// panic and during Goexit, wrappers, coroutines. They are those of the runtime's own traceback.
func TestHardFrames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		target string
		since  int
		least  int
	}{{"badframes", 0, 8}, {"coro", 23, 8}} {
		c := c
		t.Run(c.target, func(t *testing.T) {
			each(t, append(allBuilds, moreBuilds()...), true, func(t *testing.T, build string) {
				if minorOf(versionOf(build)) < c.since {
					t.Skip("not in this version")
				}
				p := startTarget(t, build, c.target, "-dur", "1m")
				before, _ := p.dumped()
				text := dump(t, p.pid)
				after, _ := p.dumped()
				p.quit()
				if n := compareDumps(t, before, text, after, 0); n < c.least {
					t.Errorf("%d goroutines compared, want %d", n, c.least)
				}
			})
		})
	}
}
