// How profiles begin and end, and where they go.
package live

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Shows: attach says that it is the right process, ends by --duration, and says that the process runs on. It does.
func TestAttachDuration(t *testing.T) {
	t.Parallel()
	p := startTarget(t, "1.26-sw", "server", "-dur", "2m")
	begin := time.Now()
	r := attach(t, p.pid, 2*time.Second)
	if took := time.Since(begin); took < 2*time.Second || took > 6*time.Second {
		t.Errorf("--duration 2s took %v", took)
	}
	pid := fmt.Sprint(p.pid)
	for _, want := range []string{"goprof: attached to " + pid + " (" + target("1.26-sw") + ", go1.26", "goprof: detached after 2.", pid + " runs on", "threads held", "go tool pprof -http=:"} {
		if !strings.Contains(unbroken(r.err()), want) {
			t.Errorf("no %q in\n%s", want, r.err())
		}
	}
	if r.out() != "" {
		t.Errorf("on stdout: %q", r.out())
	}
	if p.ended() || untouched(p.pid) != "" {
		t.Error("the target does not run on:", untouched(p.pid))
	}
	for _, e := range r.envelopes() {
		if off := e.length() - 2*time.Second; off < -100*time.Millisecond || off > 200*time.Millisecond {
			t.Errorf("the window is %v long", e.length())
		}
	}
}

// Shows: Ctrl-C, SIGTERM and SIGHUP end a profile early, with status 0 and everything written.
func TestAttachEndedBySignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		sig := sig
		t.Run(fmt.Sprint(int(sig)), func(t *testing.T) {
			t.Parallel()
			p := startTarget(t, "1.19-plain", "busy", "-dur", "2m")
			r := record(t, nil, "attach", fmt.Sprint(p.pid))
			eventually(t, 10*time.Second, "goprof has attached", func() bool { return strings.Contains(r.err(), "attached to") })
			time.Sleep(time.Second)
			r.signal(sig)
			if status := r.wait(10 * time.Second); status != 0 {
				t.Errorf("status %d\n%s", status, r.err())
			}
			r.check()
			if r.profile().cpu(with(pkg+"busy.spin")) < 100*time.Millisecond || len(r.envelopes()) != 1 {
				t.Errorf("%v in busy.spin, %d envelopes", r.profile().cpu(with(pkg+"busy.spin")), len(r.envelopes()))
			}
			if why := untouched(p.pid); why != "" {
				t.Error(why)
			}
		})
	}
}

// Shows: a target that ends by itself is no error.
func TestAttachedTargetEnds(t *testing.T) {
	t.Parallel()
	p := startTarget(t, "1.26-sw", "exitcode", "-dur", "2s", "3")
	r := record(t, nil, "attach", fmt.Sprint(p.pid))
	status := r.wait(20 * time.Second)
	r.check()
	if want := fmt.Sprintf("goprof: %d ended after ", p.pid); status != 0 || !strings.Contains(r.err(), want) {
		t.Errorf("status %d, no %q in\n%s", status, want, r.err())
	}
	if s := p.wait(5 * time.Second); s != 3 {
		t.Errorf("the target ended with status %d", s)
	}
	if r.profile().cpu(with(pkg+"status.wait")) == 0 {
		t.Error("status.wait has no CPU time")
	}
}

// Shows: SIGUSR1 closes a window and starts the next; the windows fit together.
func TestAttachWindows(t *testing.T) {
	t.Parallel()
	p := startTarget(t, "1.26-sw", "busy", "-dur", "2m")
	r := record(t, nil, "attach", "--duration", "3s", fmt.Sprint(p.pid))
	eventually(t, 10*time.Second, "goprof has attached", func() bool { return strings.Contains(r.err(), "attached to") })
	for i := 0; i < 2; i++ {
		time.Sleep(700 * time.Millisecond)
		r.signal(syscall.SIGUSR1)
	}
	if status := r.wait(20 * time.Second); status != 0 {
		t.Fatalf("status %d\n%s", status, r.err())
	}
	r.check()
	windows := r.envelopes()
	if len(windows) != 3 {
		t.Fatalf("%d windows, want 3", len(windows))
	}
	for i := 1; i < len(windows); i++ {
		if gap := windows[i].transaction.Start.Sub(windows[i-1].transaction.End.Time); gap < -5*time.Microsecond || gap > 2*tick {
			t.Errorf("%v between windows %d and %d", gap, i, i+1)
		}
	}
}

// Shows: a profile longer than a window is several, none longer than the service takes.
func TestLongProfile(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 35 s")
	}
	t.Parallel()
	p := startTarget(t, "1.26-sw", "server", "-dur", "2m")
	r := attach(t, p.pid, 35*time.Second)
	if n := len(r.envelopes()); n != 2 {
		t.Errorf("%d windows of 35 s, want 2", n)
	}
	checkWholeWindow(t, r, "server.(*pool).janitor", 1)
}

// Shows: --mode cpu gives envelopes that are as good, and shows a goroutine first that was on a CPU.
func TestModeCPU(t *testing.T) {
	t.Parallel()
	p := startTarget(t, "1.26-sw", "server", "-dur", "2m")
	r := attach(t, p.pid, 3*time.Second, "--mode", "cpu")
	for _, e := range r.envelopes() {
		var parked time.Duration
		for _, st := range e.times(t) {
			if st.has(pkg + "server.(*pool).worker") {
				parked += st.time
			}
		}
		if parked > e.length()/2 {
			t.Errorf("parked goroutines have %v of CPU time", parked)
		}
		if active := e.profile.Transaction.Active.String(); active == "1" || e.threadTimes(t)[active] == 0 {
			t.Errorf("goroutine %s is shown first, main waits", active)
		}
	}
	if len(r.envelopes()) == 0 {
		t.Error("no envelope")
	}
}

// Shows: a wrapper that becomes a Go program is profiled as one; one that starts it is not, and goprof says so.
func TestWrappers(t *testing.T) {
	path := target("1.26-sw")
	t.Run("exec", func(t *testing.T) {
		t.Parallel()
		r, status := run(t, 20*time.Second, "sh", "-c", `sleep 0.3; exec "$0" busy -dur 1500ms -exit 5`, path)
		if status != 5 || r.profile().cpu(with(pkg+"busy.spin")) < time.Second/10 {
			t.Errorf("status %d, %v in busy.spin\n%s", status, r.profile().cpu(with(pkg+"busy.spin")), tail(r.err()))
		}
	})
	t.Run("child", func(t *testing.T) {
		t.Parallel()
		r, status := run(t, 20*time.Second, "sh", "-c", `"$0" busy -dur 1500ms; exit 6`, path)
		child := r.readyPid()
		if status != 6 || len(r.glob("*")) > 0 {
			t.Errorf("status %d, files %v", status, r.glob("*"))
		}
		said := strings.Join(strings.Fields(strings.TrimPrefix(r.err(), withoutSummary(r.err()))), " ")
		for _, want := range []string{"Go program", filepath.Base(path), fmt.Sprintf("pid %d", child), "was not profiled"} {
			if !strings.Contains(said, want) {
				t.Errorf("no %q in\n%s", want, r.err())
			}
		}
	})
}

// Shows: a program that replaces itself again and again is followed, and ends as it does alone.
func TestExec(t *testing.T) {
	each(t, eachVersion, true, func(t *testing.T, build string) {
		t.Run("run", func(t *testing.T) {
			t.Parallel()
			r, status := run(t, 30*time.Second, target(build), "execself", "-n", "2")
			if status != 0 || countLines(r.out(), fmt.Sprintf("TRUTH generation 0 pid=%d", generationPid(t, r.process))) != 1 {
				t.Errorf("status %d\n%s%s", status, r.out(), tail(r.err()))
			}
			checkGenerations(t, r, 3)
		})
		t.Run("attach", func(t *testing.T) {
			t.Parallel()
			p := start(t, nil, target(build), "execself", "-n", "2")
			eventually(t, 10*time.Second, "the target runs", func() bool { return strings.Contains(p.out(), "generation 2") })
			r := record(t, nil, "attach", fmt.Sprint(p.pid))
			if status := r.wait(30 * time.Second); status != 0 {
				t.Errorf("status %d\n%s", status, r.err())
			}
			r.check()
			checkGenerations(t, r, 3)
			if s := p.wait(10 * time.Second); s != 0 {
				t.Errorf("the target ended with status %d", s)
			}
			if !strings.Contains(r.err(), "exec") {
				t.Errorf("not a word about the exec:\n%s", r.err())
			}
		})
	})
}

func generationPid(t testing.TB, p *process) (pid int) {
	t.Helper()
	for _, line := range strings.Split(p.out(), "\n") {
		if _, err := fmt.Sscanf(line, "TRUTH generation 2 pid=%d", &pid); err == nil {
			return
		}
	}
	t.Fatalf("no generation 2:\n%s%s", p.out(), tail(p.err()))
	return
}

// checkGenerations: each program under the pid has its profile; each used about 1.5 s.
func checkGenerations(t testing.TB, r *recording, n int) {
	t.Helper()
	paths := r.glob("*.pb.gz")
	if len(paths) != n {
		t.Fatalf("%d profiles for %d programs: %v\n%s", len(paths), n, paths, tail(r.err()))
	}
	for _, path := range paths {
		if cpu := openProfile(t, path).cpu(with(pkg + "execself.generation")); cpu < 50*time.Millisecond {
			t.Errorf("%s: %v in execself.generation\n%s", filepath.Base(path), cpu, tail(r.err()))
		}
	}
}

// Shows: a life of 5 ms is no error and leaves no invalid file.
func TestShortLife(t *testing.T) {
	n := 250 // of each version
	if testing.Short() {
		n = 25
	}
	each(t, eachVersion, true, func(t *testing.T, build string) {
		for i := 0; i < n; i++ {
			r, status := run(t, 20*time.Second, target(build), "short")
			if status != 0 || r.out() != "TRUTH short: exit status 0\n" {
				t.Fatalf("status %d, stdout %q\n%s", status, r.out(), r.err())
			}
			if len(r.glob("*")) == 0 && !strings.Contains(r.err(), "too short for a profile") {
				t.Fatalf("neither a file nor a word:\n%s", r.err())
			}
		}
		if _, status := run(t, 20*time.Second, target(build), "short", "-now"); status != 9 {
			t.Errorf("status %d, want 9", status)
		}
	})
}

// --- where profiles go ---

// Shows: marks in names, several outputs, names of the current directory when none is given.
func TestOutputNames(t *testing.T) {
	t.Parallel()
	words := []string{target("1.26-sw"), "exitcode", "-dur", "500ms", "0"}
	run := func(dir string, args ...string) *process {
		p := start(t, []option{workdir(dir)}, goprofPath, append(append([]string{"run"}, args...), words...)...)
		if status := p.wait(20 * time.Second); status != 0 {
			t.Fatalf("%v: status %d\n%s", args, status, p.err())
		}
		(&recording{p, dir}).check()
		return p
	}
	exists := func(dir, pattern string) string {
		names, _ := filepath.Glob(filepath.Join(dir, pattern))
		if len(names) != 1 {
			entries, _ := os.ReadDir(dir)
			t.Errorf("%s: %v; there are %v", pattern, names, entries)
			return ""
		}
		return names[0]
	}

	dir := t.TempDir()
	p := run(dir, "-o", "%e-%p-%n.envelope", "-o", "a%%b.pb.gz", "--output=second.envelope")
	exists(dir, fmt.Sprintf("targets-1.26-sw-%d-1.envelope", p.readyPid()))
	exists(dir, "a%b.pb.gz")
	exists(dir, "second.envelope")
	first, _ := os.ReadFile(exists(dir, "targets-*-1.envelope"))
	second, _ := os.ReadFile(exists(dir, "second.envelope"))
	if !bytes.Equal(first, second) || len(first) == 0 {
		t.Error("two envelopes of one window differ")
	}

	dir = t.TempDir()
	today := time.Now().Format("2006")
	run(dir)
	exists(dir, "targets-1.26-sw-"+today+"*.pb.gz")
	exists(dir, "targets-1.26-sw-"+today+"*.envelope")

	// What is there already is replaced.
	dir = t.TempDir()
	old := filepath.Join(dir, "old.pb.gz")
	if err := os.WriteFile(old, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	run(dir, "-o", "old.pb.gz")
	openProfile(t, old)
}

// Shows: -o - is stdout: of attach alone, of run behind the child's own output.
func TestOutputStdout(t *testing.T) {
	t.Parallel()
	p := startTarget(t, "1.26-sw", "busy", "-dur", "2m")
	a := start(t, nil, goprofPath, "attach", "--duration", "1s", "-o", "pprof:-", fmt.Sprint(p.pid))
	if status := a.wait(20 * time.Second); status != 0 {
		t.Fatalf("status %d\n%s", status, a.err())
	}
	if prof := openProfile(t, filepath.Join(a.dir, "stdout")); prof.cpu(with(pkg+"busy.spin")) == 0 {
		t.Error("busy.spin has no CPU time")
	}
	p.quit()

	r := start(t, nil, goprofPath, "run", "-o", "envelope:-", target("1.26-sw"), "exitcode", "-dur", "500ms", "0")
	if status := r.wait(20 * time.Second); status != 0 {
		t.Fatalf("status %d\n%s", status, r.err())
	}
	rest, ok := strings.CutPrefix(r.out(), "TRUTH exit status 0\n")
	if !ok {
		t.Fatalf("the child's output does not come first: %.100q", r.out())
	}
	path := filepath.Join(r.dir, "envelope")
	if err := os.WriteFile(path, []byte(rest), 0o666); err != nil {
		t.Fatal(err)
	}
	checkEnvelope(t, path)
	openWindow(t, path)
}

// Shows: what cannot be written is refused before the child is started.
func TestOutputRefused(t *testing.T) {
	t.Parallel()
	p := startTarget(t, "1.26-sw", "labels", "-dur", "2m")
	for _, name := range []string{"/nonexistent/dir/p.pb.gz", "/proc/p.pb.gz", "/etc/hostname/p.pb.gz", "/proc/w%n.envelope", "what.txt", "%q.pb.gz"} {
		marker := filepath.Join(t.TempDir(), "started")
		r := start(t, []option{workdir(t.TempDir())}, goprofPath, "run", "-o", name, "touch", marker)
		if status := r.wait(20 * time.Second); status != 125 || !strings.HasPrefix(r.err(), "goprof: ") {
			t.Errorf("run -o %s: status %d, said %q", name, status, r.err())
		}
		if _, err := os.Stat(marker); err == nil {
			t.Errorf("run -o %s: the child was started", name)
		}
		a := start(t, []option{workdir(t.TempDir())}, goprofPath, "attach", "--duration", "1s", "-o", name, fmt.Sprint(p.pid))
		if status := a.wait(20 * time.Second); status == 0 || !strings.HasPrefix(a.err(), "goprof: ") || strings.Contains(a.err(), "attached to") {
			t.Errorf("attach -o %s: status %d, said %q", name, status, a.err())
		}
	}
	if why := untouched(p.pid); why != "" {
		t.Error(why)
	}
}
