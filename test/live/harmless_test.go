// The target runs on, whatever happens to goprof.
package live

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// crew is the target of 50 threads that work through a chain of sums. When it is done a new one is started, so that
// tests need not know how fast it is; each must come to the same result.
type crew struct {
	*process
	t       testing.TB
	build   string
	want    string // RESULT of an undisturbed run
	results int
}

const crewSteps = 6000

func (c *crew) start() {
	c.process = startTarget(c.t, c.build, "crew", "-steps", fmt.Sprint(crewSteps), "-progress", filepath.Join(c.t.TempDir(), "progress"))
}

func resultLine(t testing.TB, p *process) string {
	t.Helper()
	if status := p.wait(2 * time.Minute); status != 0 {
		t.Fatalf("crew ended with status %d\n%s", status, tail(p.err()))
	}
	_, result, ok := strings.Cut(p.out(), "RESULT ")
	if !ok {
		t.Fatalf("crew without RESULT:\n%s", tail(p.out()))
	}
	return strings.TrimSpace(result)
}

func newCrew(t testing.TB, build string) *crew {
	t.Helper()
	c := &crew{t: t, build: build}
	c.start()
	c.want = resultLine(t, c.process)
	c.start()
	return c
}

// finish checks the result of the crew at work.
func (c *crew) finish() {
	c.t.Helper()
	if got := resultLine(c.t, c.process); got != c.want {
		c.t.Errorf("RESULT %s, undisturbed %s", got, c.want)
	}
	c.results++
}

// again gives the pid of a crew at work.
func (c *crew) again() int {
	c.t.Helper()
	if c.ended() {
		c.finish()
		c.start()
	}
	return c.pid
}

// counters asks for the steps of each thread.
func (c *crew) counters() (v []int) {
	c.t.Helper()
	n := strings.Count(c.err(), "PROGRESS ")
	c.signal(syscall.SIGUSR2)
	eventually(c.t, 5*time.Second, "crew answers", func() bool {
		said := c.err()
		return c.ended() || strings.Count(said, "PROGRESS ") > n && strings.HasSuffix(said, "\n")
	})
	lines := strings.Split(c.err(), "PROGRESS ")
	for _, f := range strings.Fields(lines[len(lines)-1]) {
		k, err := strconv.Atoi(f)
		if err != nil {
			break
		}
		v = append(v, k)
	}
	return
}

// progresses waits until every thread has gone on or is done.
func (c *crew) progresses() {
	c.t.Helper()
	if c.ended() {
		return
	}
	before := c.counters()
	var stuck []int
	for end := time.Now().Add(10 * time.Second); !c.ended() && len(before) > 0; time.Sleep(50 * time.Millisecond) {
		after := c.counters()
		stuck = nil
		for i := range before {
			if i < len(after) && after[i] <= before[i] && after[i] < crewSteps {
				stuck = append(stuck, i)
			}
		}
		if len(stuck) == 0 && len(after) == len(before) {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("threads %v do not go on", stuck)
		}
	}
}

// unharmed waits for the kernel to have let go of everything that a dead tracer held.
func (c *crew) unharmed(pid int) {
	c.t.Helper()
	why := ""
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if why = untouched(pid); why == "" || c.ended() {
			return
		}
	}
	c.t.Fatal(why)
}

// By stops two times of three: there is more to be left undone than with perf events.
func inTurnLooks(i int) string { return []string{"ptrace", "auto", "ptrace"}[i%3] }

// Shows: goprof may be killed at any instant: no thread stays stopped or traced, all go on, and the result is right.
// The same after it has attached and detached time and again.
func TestCrewUnharmed(t *testing.T) {
	builds, kills, cycles := eachVersion, 100, 200
	if testing.Short() {
		builds, kills, cycles = builds[1:], 10, 20
	}
	each(t, builds, false, func(t *testing.T, build string) {
		c := newCrew(t, build)
		r := rand.New(rand.NewSource(time.Now().UnixNano()))
		for i := 0; i < kills; i++ {
			pid := c.again()
			g := record(t, nil, "attach", "--looks", inTurnLooks(i), fmt.Sprint(pid))
			time.Sleep(time.Duration(r.Int63n(int64(400 * time.Millisecond))))
			g.signal(syscall.SIGKILL)
			if status := g.wait(5 * time.Second); status != killed && !c.ended() {
				t.Fatalf("goprof ended by itself: status %d\n%s", status, g.err())
			}
			c.unharmed(pid)
			if i%5 == 4 {
				c.progresses()
			}
		}
		for i := 0; i < cycles; i++ {
			pid := c.again()
			g := record(t, nil, "attach", "--looks", inTurnLooks(i), "--duration", "150ms", fmt.Sprint(pid))
			if status := g.wait(10 * time.Second); status != 0 && !c.ended() { // its work may be done just then
				t.Fatalf("goprof attach: status %d\n%s", status, g.err())
			}
			c.unharmed(pid)
			if i%5 == 4 {
				c.progresses()
			}
		}
		c.finish()
		t.Logf("%d results, all %s", c.results, c.want)
	})
}

// Shows: the same for a process of 500 threads that wait in read(2): none of them is ever found stopped or traced once
// goprof has gone, for a second afterwards, and none has been woken from its wait.
func TestThreadsUnharmed(t *testing.T) {
	kills, cycles := 100, 200
	if testing.Short() {
		kills, cycles = 10, 20
	}
	p := startTarget(t, "1.26-sw", "threads", "-n", "500")
	eventually(t, 20*time.Second, "all threads are there", func() bool { return len(tasks(p.pid)) > 500 })
	whole := func() {
		t.Helper()
		eventually(t, 2*time.Second, "goprof is gone: "+untouched(p.pid), func() bool { return untouched(p.pid) == "" })
	}
	r := rand.New(rand.NewSource(time.Now().UnixNano()))
	threads := len(tasks(p.pid))
	// Every other one is asked politely, which takes another way out.
	ends := []syscall.Signal{syscall.SIGKILL, syscall.SIGINT, syscall.SIGKILL, syscall.SIGTERM}
	for i := 0; i < 2*kills; i++ {
		g := record(t, nil, "attach", "--looks", inTurnLooks(i/2), fmt.Sprint(p.pid))
		time.Sleep(time.Duration(r.Int63n(int64(200 * time.Millisecond))))
		g.signal(ends[i%len(ends)])
		g.wait(10 * time.Second)
		whole()
	}
	for i := 0; i < cycles; i++ {
		g := record(t, nil, "attach", "--looks", inTurnLooks(i), "--duration", "100ms", fmt.Sprint(p.pid))
		if status := g.wait(10 * time.Second); status != 0 {
			t.Fatalf("goprof attach: status %d\n%s", status, g.err())
		}
		whole()
	}
	used := cpuTime(t, p.pid)
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if why := untouched(p.pid); why != "" {
			t.Fatal(why)
		}
	}
	if cpuTime(t, p.pid) < used+20*time.Millisecond {
		t.Error("threads.spin does not go on")
	}
	if n := len(tasks(p.pid)); n < threads || n > threads+8 {
		t.Errorf("%d threads, there were %d", n, threads)
	}
	if n := strings.Count(dump(t, p.pid), "threads.blocked("); n != 500 {
		t.Errorf("%d goroutines wait in read, want 500", n)
	}
}

// Shows: the kill of goprof run leaves its child alone, too.
func TestRunKilled(t *testing.T) {
	t.Parallel()
	g := record(t, nil, "run", target("1.26-sw"), "exitcode", "-dur", "2s", "0")
	g.ready()
	child := g.readyPid()
	t.Cleanup(func() { syscall.Kill(child, syscall.SIGKILL) })
	time.Sleep(300 * time.Millisecond)
	g.signal(syscall.SIGKILL)
	g.wait(5 * time.Second)
	if why := untouched(child); why != "" {
		t.Error(why)
	}
	eventually(t, 10*time.Second, "the child comes to its end", func() bool { return strings.Contains(g.out(), "TRUTH exit status 0") })
}

// Shows: looking at a process costs it no memory.
func TestMemoryOfTarget(t *testing.T) {
	each(t, eachVersion, true, func(t *testing.T, build string) {
		p := startTarget(t, build, "waitreasons", "-dur", "2m")
		time.Sleep(500 * time.Millisecond)
		rss, swap := kilobytes(t, p.pid, "VmRSS"), kilobytes(t, p.pid, "VmSwap")
		attach(t, p.pid, 3*time.Second)
		dump(t, p.pid)
		if grown := kilobytes(t, p.pid, "VmRSS") + kilobytes(t, p.pid, "VmSwap") - rss - swap; grown > 1024 {
			t.Errorf("the target has grown by %d kB (from %d)", grown, rss+swap)
		}
	})
}

// Shows: a stopped process can be profiled and dumped, and stays stopped until someone else lets it go.
func TestStoppedTarget(t *testing.T) {
	each(t, eachVersion, true, func(t *testing.T, build string) {
		p := startTarget(t, build, "busy", "-dur", "2m")
		// It says READY before its workers have begun.
		eventually(t, 10*time.Second, "it works", func() bool { return cpuTime(t, p.pid) > 100*time.Millisecond })
		p.signal(syscall.SIGSTOP)
		stopped := func() bool { return allStopped(p.pid) }
		eventually(t, 5*time.Second, "the target is stopped", stopped)
		used := cpuTime(t, p.pid)
		// A thread that is let go out of a stop goes back into it by itself, and needs a core for that.
		stays := func(after string) {
			eventually(t, 5*time.Second, "stopped after "+after, stopped)
			if more := cpuTime(t, p.pid) - used; more > 20*time.Millisecond {
				t.Errorf("it used %v meanwhile", more)
			}
		}
		text := dump(t, p.pid)
		if v := parseStacks(t, text); len(v) < 4 || !strings.Contains(text, "busy.work(") {
			t.Errorf("dump of a stopped process:\n%s", text)
		}
		stays("the dump")
		attach(t, p.pid, time.Second)
		stays("attach")
		used = cpuTime(t, p.pid)
		p.signal(syscall.SIGCONT)
		eventually(t, 5*time.Second, "the target goes on", func() bool { return cpuTime(t, p.pid) > used+100*time.Millisecond })
		if why := untouched(p.pid); why != "" {
			t.Error(why)
		}
	})
}

// allStopped says whether each thread is stopped by a signal.
func allStopped(pid int) bool {
	for _, tid := range tasks(pid) {
		if state(pid, tid) != "T" {
			return false
		}
	}
	return true
}

// Shows: wherever the threads of a process were when it was stopped, also on their way out of a system call, the
// stacks of running goroutines are read.
func TestStoppedAnywhere(t *testing.T) {
	n := 60
	if testing.Short() {
		n = 12
	}
	each(t, eachVersion, true, func(t *testing.T, build string) {
		p := startTarget(t, build, "burst", "-threads", "2", "-on", "0", "-off", "0", "-dur", "2m")
		eventually(t, 10*time.Second, "it works", func() bool { return cpuTime(t, p.pid) > 100*time.Millisecond })
		calls := 0
		for i := 0; i < n; i++ {
			p.signal(syscall.SIGSTOP)
			eventually(t, 5*time.Second, "the target is stopped", func() bool { return allStopped(p.pid) })
			text := dump(t, p.pid)
			if found := strings.Count(text, "burst.work("); found != 2 || strings.Contains(text, "(moved") {
				t.Fatalf("stopped for the %dth time:\n%s", i+1, text)
			}
			calls += strings.Count(text, "syscall.RawSyscall(")
			p.signal(syscall.SIGCONT)
			time.Sleep(time.Duration(i%7) * time.Millisecond)
		}
		if t.Logf("%d stacks in a system call", calls); calls == 0 {
			t.Error("none was stopped in a system call: nothing shown")
		}
	})
}

// cpuTime is what the process has used.
func cpuTime(t testing.TB, pid int) (sum time.Duration) {
	for _, tid := range tasks(pid) {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, tid))
		if f := strings.Fields(string(data)); len(f) > 0 {
			ns, _ := strconv.ParseInt(f[0], 10, 64)
			sum += time.Duration(ns)
		}
	}
	return
}
