// The life of a process: how it starts, stops, changes and ends.
package live

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// attached starts a recording of a process and waits until it is under way.
func attached(t testing.TB, pid int, words ...string) *recording {
	t.Helper()
	r := record(t, nil, "attach", append(words, fmt.Sprint(pid))...)
	eventually(t, 10*time.Second, "goprof has attached", func() bool {
		if r.ended() {
			t.Fatalf("goprof attach ended:\n%s", r.err())
		}
		return strings.Contains(unbroken(r.err()), "attached to")
	})
	return r
}

// good waits for the end of a recording that must be without fault.
func (r *recording) good(limit time.Duration) {
	r.t.Helper()
	if status := r.wait(limit); status != 0 {
		r.t.Errorf("%v: status %d\n%s", r.Args, status, tail(r.err()))
	}
	r.check()
}

// Shows: when the main thread has ended, everything is found through the others; the process has not ended.
func TestLeaderGone(t *testing.T) {
	each(t, eachVersion, true, func(t *testing.T, build string) {
		p := startTarget(t, build, "maindead", "-dur", "5s")
		eventually(t, 5*time.Second, "the main thread is gone", func() bool { return state(p.pid, "") == "Z" })
		if text := dump(t, p.pid); !strings.Contains(text, "maindead.Main()") {
			t.Errorf("dump:\n%s", text)
		}
		if v := addresses(t, fmt.Sprint(p.pid)); !strings.HasPrefix(v["runtime.allgs"], "0x") {
			t.Errorf("info: %v", v)
		}
		r := attach(t, p.pid, time.Second)
		if cpu, all := r.profile().cpu(with(pkg+"maindead.survivor")), r.profile().cpu(anySample); cpu < all*8/10 || cpu == 0 {
			t.Errorf("%v of %v in maindead.survivor", cpu, all)
		}
		if !strings.Contains(unbroken(r.err()), target(build)) {
			t.Errorf("its program has no name:\n%s", r.err())
		}
		// And it may end while it is recorded.
		r = attached(t, p.pid)
		r.good(20 * time.Second)
		if status := p.wait(time.Second); status != 6 {
			t.Errorf("the target ended with status %d", status)
		}
		under, status := run(t, 20*time.Second, target(build), "maindead", "-dur", "1500ms")
		if status != 6 || under.profile().cpu(with(pkg+"maindead.survivor")) == 0 {
			t.Errorf("run: status %d, %v in maindead.survivor", status, under.profile().cpu(with(pkg+"maindead.survivor")))
		}
	})
}

// Shows: a program that becomes one that is not Go ends the profile, in words.
func TestExecAway(t *testing.T) {
	t.Parallel()
	p := start(t, nil, target("1.26-sw"), "execself", "-n", "0")
	eventually(t, 10*time.Second, "the target runs", func() bool { return strings.Contains(p.out(), "generation 0") })
	r := attached(t, p.pid)
	r.good(20 * time.Second)
	said := strings.Join(strings.Fields(r.err()), " ")
	for _, want := range []string{fmt.Sprintf("goprof: %d called exec and became /", p.pid), "sleep, which is not a Go program"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, r.err())
		}
	}
	if r.profile().cpu(with(pkg+"execself.generation")) == 0 {
		t.Error("nothing of what it was before")
	}
	if status := p.wait(10 * time.Second); status != 0 {
		t.Errorf("the target ended with status %d", status)
	}
}

// Shows: a start under attach is no harder than a run: whatever a young process is found at, the profile is good or the
// words are.
func TestAttachAtStart(t *testing.T) {
	t.Parallel()
	n := 40
	if testing.Short() {
		n = 10
	}
	for i := 0; i < n; i++ {
		p := start(t, nil, target(eachVersion[i%2]), "exitcode", "-dur", "200ms", "5")
		time.Sleep(time.Duration(i) * 100 * time.Microsecond)
		r := record(t, nil, "attach", "--duration", "60ms", fmt.Sprint(p.pid))
		status := r.wait(20 * time.Second)
		r.check()
		// 64: seen before its exec, as the copy of this test that forked it; 66: it has ended already.
		if status != 0 && status != 66 && status != 64 {
			t.Fatalf("status %d\n%s", status, r.err())
		}
		if s := p.wait(20 * time.Second); s != 5 {
			t.Fatalf("the target ended with status %d", s)
		}
	}
}

// Shows: a program that ends by os.Exit on some other thread ends goprof run each time, with its status.
func TestExitElsewhere(t *testing.T) {
	t.Parallel()
	n := 200
	if testing.Short() {
		n = 20
	}
	for i := 0; i < n; i++ {
		r := start(t, []option{env("GOPROF_LIVE_CHILD=exit-elsewhere")}, goprofPath, "run", "-q", "-o", filepath.Join(t.TempDir(), "p.pb.gz"), self(t))
		if status := r.wait(20 * time.Second); status != 5 || r.out() != "ends\n" {
			t.Fatalf("run %d: status %d, out %q\n%s", i, status, r.out(), r.err())
		}
	}
}

// Shows: a target that is killed while it is recorded, at any moment, is an end like any other.
func TestKilledTarget(t *testing.T) {
	t.Parallel()
	n := 20
	if testing.Short() {
		n = 5
	}
	for i := 0; i < n; i++ {
		p := startTarget(t, eachVersion[i%2], "threads", "-n", "50")
		r := record(t, nil, "attach", fmt.Sprint(p.pid))
		time.Sleep(time.Duration(i*37%400) * time.Millisecond)
		p.signal(syscall.SIGKILL)
		status := r.wait(20 * time.Second)
		r.check()
		said := strings.Join(strings.Fields(r.err()), " ")
		if status == 66 && (strings.Contains(said, "there is no process") || strings.Contains(said, "ended before it could")) {
			continue
		}
		if status != 0 || !strings.Contains(said, fmt.Sprintf("%d ended after", p.pid)) {
			t.Errorf("status %d\n%s", status, r.err())
		}
		if s := p.wait(5 * time.Second); s != killed {
			t.Errorf("the target ended with status %d", s)
		}
	}
}

// Shows: children of a target are not stopped, not seized, not in the profile, and end as they should.
func TestForks(t *testing.T) {
	each(t, eachVersion, true, func(t *testing.T, build string) {
		check := func(r *recording, p *process) {
			if n := truth(t, p.out(), "children=", "children"); n < 5 {
				t.Errorf("only %v children", n)
			}
			if bad := truth(t, p.out(), "children=", "bad"); bad != 0 {
				t.Errorf("%v bad children:\n%s", bad, tail(p.out()))
			}
			if spin, all := r.profile().cpu(with(pkg+"forks.spin")), r.profile().cpu(anySample); spin < all/2 {
				t.Errorf("%v of %v in forks.spin", spin, all)
			}
		}
		p := startTarget(t, build, "forks", "-dur", "2s")
		r := attached(t, p.pid)
		seen := 0
		for !p.ended() {
			for _, child := range childrenOf(p.pid) {
				seen++
				if tracer := field(child, "", "TracerPid"); tracer != "0" && tracer != "" {
					t.Fatalf("child %d is traced by %s", child, tracer)
				}
				if s := state(child, ""); s == "T" || s == "t" {
					t.Fatalf("child %d is in state %s", child, s)
				}
			}
		}
		r.good(10 * time.Second)
		check(r, p)
		if seen < 5 {
			t.Errorf("%d looks at children", seen)
		}
		r, status := run(t, 20*time.Second, target(build), "forks", "-dur", "1500ms")
		if status != 0 {
			t.Errorf("run: status %d", status)
		}
		check(r, r.process)
	})
}

// Shows: a command that starts hundreds of other programs is not much slower for it.
func TestManyChildren(t *testing.T) {
	t.Parallel()
	script := `i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done; exit 4`
	took := func(words ...string) time.Duration {
		best := time.Hour
		for i := 0; i < 3; i++ { // the machine may be busy otherwise
			begin := time.Now()
			p := start(t, []option{workdir(t.TempDir())}, words[0], words[1:]...)
			if status := p.wait(time.Minute); status != 4 {
				t.Fatalf("%v: status %d\n%s", words, status, p.err())
			}
			if d := time.Since(begin); d < best {
				best = d
			}
		}
		return best
	}
	alone, under := took("sh", "-c", script), took(goprofPath, "run", "sh", "-c", script)
	if under > 2*alone+500*time.Millisecond {
		t.Errorf("%v alone, %v under goprof", alone, under)
	}
}

// Shows: stops and continuations by others, as fast as they come, end in what the last one said; goprof goes on.
func TestStopStorm(t *testing.T) {
	each(t, eachVersion, true, func(t *testing.T, build string) {
		p := startTarget(t, build, "busy", "-n", "3", "-dur", "2m")
		r := attached(t, p.pid)
		for i := 0; i < 300; i++ {
			p.signal(syscall.SIGSTOP)
			time.Sleep(time.Duration(i*7%5) * time.Millisecond)
			if i%3 == 0 { // two in a row
				p.signal(syscall.SIGSTOP)
			}
			p.signal(syscall.SIGCONT)
			time.Sleep(time.Duration(i*11%4) * time.Millisecond)
		}
		used := cpuTime(t, p.pid)
		eventually(t, 5*time.Second, "the target goes on", func() bool { return cpuTime(t, p.pid) > used+50*time.Millisecond })
		p.signal(syscall.SIGSTOP)
		time.Sleep(300 * time.Millisecond) // some ticks
		for _, tid := range tasks(p.pid) {
			if s := state(p.pid, tid); s != "T" {
				t.Errorf("task %s is in state %s", tid, s)
			}
		}
		r.signal(syscall.SIGINT)
		r.good(10 * time.Second)
		if s := state(p.pid, ""); s != "T" {
			t.Errorf("state %s after goprof has gone", s)
		}
		p.signal(syscall.SIGCONT)
		eventually(t, 5*time.Second, "nothing is left", func() bool { return untouched(p.pid) == "" })
	})
}

// Shows: who attaches to a stopped process is told that it is stopped.
func TestStoppedIsSaid(t *testing.T) {
	t.Parallel()
	p := startTarget(t, "1.26-sw", "busy", "-dur", "2m")
	p.signal(syscall.SIGSTOP)
	eventually(t, 5*time.Second, "it is stopped", func() bool { return state(p.pid, "") == "T" })
	r := attach(t, p.pid, 500*time.Millisecond)
	if want := fmt.Sprintf("goprof: %d is stopped", p.pid); !strings.Contains(r.err(), want) {
		t.Errorf("no %q in\n%s", want, r.err())
	}
	if cpu := r.profile().cpu(anySample); cpu > 10*time.Millisecond {
		t.Errorf("%v of CPU time", cpu)
	}
}

// Shows: the time in which goprof itself is stopped is not in the profile, makes no late ticks and no window that is
// too long; and it is said. Ctrl-Z announces it, SIGSTOP does not.
func TestPauseIsLeftOut(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGSTOP} {
		sig := sig
		t.Run(fmt.Sprint(int(sig)), func(t *testing.T) {
			t.Parallel()
			p := startTarget(t, "1.26-sw", "busy", "-dur", "2m")
			r := attached(t, p.pid, "--duration", "2s")
			time.Sleep(700 * time.Millisecond)
			r.signal(sig)
			eventually(t, 5*time.Second, "goprof is stopped", func() bool { return state(r.pid, "") == "T" })
			if why := untouched(p.pid); sig == syscall.SIGTSTP && why != "" { // SIGSTOP asks nobody
				t.Error(why)
			}
			const pause = 3 * time.Second
			used := cpuTime(t, p.pid)
			time.Sleep(pause)
			used = cpuTime(t, p.pid) - used
			r.signal(syscall.SIGCONT)
			r.good(20 * time.Second)
			f := func(name string) time.Duration { return time.Duration(r.profile().figure(t, name)) }
			if d := f("time goprof was stopped"); d < pause-200*time.Millisecond || d > pause+time.Second {
				t.Errorf("stopped for %v, says %v", pause, d)
			}
			if due := f("ticks due"); due > 260 {
				t.Errorf("%d ticks due in 2 s", due)
			}
			// Wall time of one goroutine that is always there: main.
			if wall := r.profile().wall(with(pkg + "busy.Main")); wall < 1500*time.Millisecond || wall > 2600*time.Millisecond {
				t.Errorf("main was there for %v of 2 s", wall)
			}
			// Whoever stops goprof by SIGSTOP may hit it while it holds a thread: that can only wait for it.
			if cpu := r.profile().cpu(anySample); cpu > 2*2200*time.Millisecond || sig == syscall.SIGTSTP && used < pause/20 {
				t.Errorf("%v of CPU time in 2 s; %v meanwhile", cpu, used)
			}
			if said := strings.Join(strings.Fields(r.err()), " "); !strings.Contains(said, "(left out)") {
				t.Errorf("not said:\n%s", r.err())
			}
			if n := len(r.envelopes()); n != 2 {
				t.Errorf("%d windows, want 2", n)
			}
		})
	}
}

// Shows: the same for Ctrl-Z and fg of goprof run (whose child stops as well).
func TestPauseOfRun(t *testing.T) {
	t.Parallel()
	r := record(t, nil, "run", target("1.26-sw"), "busy", "-dur", "4s")
	r.ready()
	time.Sleep(500 * time.Millisecond)
	syscall.Kill(-r.pid, syscall.SIGTSTP)
	child := r.readyPid()
	eventually(t, 5*time.Second, "both are stopped", func() bool { return state(r.pid, "") == "T" && state(child, "") == "T" })
	time.Sleep(1500 * time.Millisecond)
	syscall.Kill(-r.pid, syscall.SIGCONT)
	r.good(20 * time.Second)
	stopped, due := time.Duration(r.profile().figure(t, "time goprof was stopped")), r.profile().figure(t, "ticks due")
	if stopped < 1300*time.Millisecond || stopped > 2500*time.Millisecond || due > 320 { // of 4 s, which have 404
		t.Errorf("stopped for %v, %v ticks due\n%s", stopped, due, tail(r.err()))
	}
}
