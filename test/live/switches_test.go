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
	seen, astray := int64(0), int64(0)
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
		if !good || !goroutineRoots[s.root()] {
			if astray += s.count; astray < 5 {
				t.Logf("%d times astray: %v", s.count, s.stack)
			}
		}
	}
	t.Logf("%d looks at %s, %d astray", seen, chains[0][0], astray)
	if astray > 0 || seen < looks {
		t.Errorf("%d of %d looks at %s do not follow %v; at least %d looks wanted", astray, seen, chains[0][0], chains, looks)
	}
}

// switchBuilds: both forms of code that a version makes, and both of position.
var switchBuilds = []string{"1.19-plain", "1.26-sw", "1.26-pie-sw", "1.26-cgo-sw"}

func someBuilds() []string {
	if testing.Short() {
		return eachVersion
	}
	return append(switchBuilds, moreBuilds()...)
}

// minorOf is N of "1.N-form".
func minorOf(build string) (minor int) {
	for _, c := range strings.TrimPrefix(build, "1.") {
		if c < '0' || c > '9' {
			break
		}
		minor = 10*minor + int(c-'0')
	}
	return
}

// Shows: each kind of switch, each in a program that does little else.
func TestSwitches(t *testing.T) {
	d := 4 * time.Second
	if testing.Short() {
		d = 2500 * time.Millisecond
	}
	for _, c := range []struct {
		kind   string
		since  int // Go 1.since
		looks  int64
		chains []chain
	}{
		{"callers", 0, 50, []chain{in("switches", "runtime.Callers", "callers", "descend", "descend", "descend", "askCallers")}},
		{"gosched", 0, 20, []chain{in("switches", "yields")}},
		{"pingpong", 0, 20, []chain{in("switches", "ping"), in("switches", "pong")}},
		{"panics", 0, 50, []chain{in("switches", "busy", "deferred", "runtime.gopanic", "panics")}},
		{"faults", 0, 50, []chain{in("switches", "busy", "deferred", "runtime.gopanic", "runtime.panicmem", "runtime.sigpanic", "loads", "faults"),
			in("switches", "busy", "deferred", "runtime.gopanic", "divides", "faults")}},
		{"goexits", 0, 50, []chain{in("switches", "busy", "deferred", "runtime.Goexit", "goexits")}},
		{"recovered", 0, 50, []chain{in("switches", "busy", "afterRecover", "recovered")}},
		{"timers", 0, 20, []chain{in("switches", "busy", "onTimer")}},
		{"finalizers", 0, 50, []chain{in("switches", "busy", "finalizer")}},
		{"threads", 0, 1, []chain{in("switches", "busy", "endsLocked")}},
		{"syscalls", 0, 50, []chain{in("switches", "calls", "syscalls")}},
		{"preempted", 0, 50, []chain{in("switches", "neverYields")}},
		{"maps", 0, 50, []chain{in("switches", "fills")}},
		{"coroutines", 23, 50, []chain{in("switches", "busy", "generate.func1"), in("switches", "busy", "consume")}},
		{"cleanups", 24, 50, []chain{in("switches", "busy", "cleanup")}},
	} {
		c := c
		t.Run(c.kind, func(t *testing.T) {
			each(t, someBuilds(), false, func(t *testing.T, build string) {
				if minorOf(build) < c.since {
					t.Skip("not in this version")
				}
				r, status := run(t, d+time.Minute, target(build), "switches", "-kind", c.kind, "-dur", d.String())
				if status != 0 || !strings.Contains(r.out(), "TRUTH kind="+c.kind) {
					t.Fatalf("status %d\n%s%s", status, tail(r.out()), tail(r.err()))
				}
				p := r.profile()
				checkChains(t, p, c.looks, c.chains...)
				checkWhole(t, p)
			})
		})
	}
}

// checkWhole: of all stacks that were on a CPU at most one in a hundred is without its root; chance, and what a process
// does before the sampler knows its threads, has room for three.
func checkWhole(t testing.TB, p *profile) {
	t.Helper()
	all, whole := p.figure(t, "on-CPU stacks"), p.figure(t, "complete on-CPU stacks")
	if whole < 0.99*all-3 {
		t.Errorf("%.0f of %.0f on-CPU stacks are complete", whole, all)
	}
	if audited, wrong := p.figure(t, "call sites audited"), p.figure(t, "call sites wrong"); audited == 0 || wrong != 0 {
		t.Errorf("%.0f of %.0f audited call sites are wrong", wrong, audited)
	}
	t.Logf("%.0f of %.0f on-CPU stacks complete, %.0f call sites audited", whole, all, p.figure(t, "call sites audited"))
}

// Shows: Go that calls C that calls Go, three times over: all Go parts stand in order, with threads made by C, with
// panics that cross all of it, and with a signal each millisecond wherever the thread is.
func TestNested(t *testing.T) {
	d := 4 * time.Second
	builds := []string{"1.19-cgo-sw", "1.26-cgo-sw"}
	if testing.Short() {
		d = 2500 * time.Millisecond
	}
	whole := in("nested", "bottom", "goThree", "three", "goTwo", "two", "goOne", "one", "worker")
	for _, options := range [][]string{nil, {"-threads"}, {"-panics"}, {"-signals"}, {"-threads", "-panics=false", "-signals"}} {
		options := options
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
				checkChains(t, p, 50, chains...)
				checkWhole(t, p)
				for i := range p.samples {
					s := &p.samples[i]
					if s.cpu > 0 && s.has(pkg+"nested.worker") && s.has(pkg+"nested.bottom") && !s.follow(whole...) {
						t.Errorf("parts are missing or out of order: %v", s.stack)
					}
				}
				// Each way of being at the bottom is seen: in Go, in C, on the system stack.
				for _, leaf := range []string{pkg + "nested.spin", "runtime.cgocall", "runtime.Callers"} {
					if p.cpu(func(s *sample) bool { return s.follow(leaf, pkg+"nested.bottom") }) == 0 {
						t.Errorf("%s is never seen below nested.bottom", leaf)
					}
				}
			})
		})
	}
}

// Shows: stacks that grow, looked at a thousand times a second: what moves a stack, on the system stack, belongs to the
// function whose stack it is.
func TestGrowingStacks(t *testing.T) {
	d := 5 * time.Second
	if testing.Short() {
		d = 3 * time.Second
	}
	each(t, someBuilds(), false, func(t *testing.T, build string) {
		r, status := run(t, d+time.Minute, "--rate", "1000", "--depth", "2000", target(build), "growstack", "-dur", d.String())
		if status != 0 || !strings.Contains(r.out(), "bad=0 ") {
			t.Fatalf("status %d\n%s%s", status, tail(r.out()), tail(r.err()))
		}
		p := r.profile()
		through, lost := int64(0), int64(0)
		for i := range p.samples {
			s := &p.samples[i]
			if at := s.index("runtime.newstack"); at < 0 || s.cpu == 0 {
				continue
			} else if s.index(pkg+"growstack.grow") > at {
				through += s.count
			} else if !goroutineRoots[s.root()] && !s.has("runtime.gopreempt_m") {
				lost += s.count // and not put aside meanwhile, for another to run
				t.Logf("%d times rooted in %s: %v", s.count, s.root(), s.stack)
			}
		}
		t.Logf("%d looks at newstack go on into growstack.grow", through)
		if lost > 0 || through < 3 {
			t.Errorf("%d looks at newstack go on into growstack.grow, %d end without a goroutine", through, lost)
		}
		checkWhole(t, p)
	})
}

// Shows: the time of day is asked for in the vDSO, on the thread's stack: the caller is there, and nothing of it twice.
func TestClockOnce(t *testing.T) {
	d := 5 * time.Second
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
	d := 5 * time.Second
	if testing.Short() {
		d = 3 * time.Second
	}
	each(t, someBuilds(), false, func(t *testing.T, build string) {
		r, status := run(t, d+time.Minute, "--rate", "500", target(build), "signals", "-dur", d.String())
		if status != 0 || !strings.Contains(r.out(), "TRUTH lost=0 ") {
			t.Fatalf("status %d\n%s%s", status, tail(r.out()), tail(r.err()))
		}
		p := r.profile()
		through, ends := int64(0), int64(0)
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
		t.Logf("%d looks at handlers go on, %d end there", through, ends)
		if through < 5 || ends > through/50 {
			t.Errorf("%d looks at handlers go on, %d end there", through, ends)
		}
		checkWhole(t, p)
	})
}
