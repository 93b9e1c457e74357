// What passes through goprof run: exit status, signals, stdin, stdout, stderr, and everything a child inherits.
package live

import (
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// result of a program run with or without goprof
type result struct {
	status         int
	stdout, stderr string
}

// both runs a program alone and under goprof (-q, so that stderr is the child's alone).
func both(t *testing.T, options []option, args ...string) (alone, under result, r *recording) {
	t.Helper()
	p := start(t, options, args[0], args[1:]...)
	alone.status = p.wait(time.Minute)
	alone.stdout, alone.stderr = p.out(), p.err()
	r = record(t, options, "run", append([]string{"-q", "--"}, args...)...)
	under.status = r.wait(time.Minute)
	under.stdout, under.stderr = r.out(), r.err()
	r.check()
	return
}

// What differs between any two runs of a program.
var (
	numbers = regexp.MustCompile(`0x[0-9a-f]+|pid=\d+|goroutine \d+|=[\d.]+%?|\[[\d,]+\]`)
	states  = regexp.MustCompile(`gp=\S+ m=\S+|m=\d+|sigcode=-?\d+`)
)

func settled(s string) string { return numbers.ReplaceAllString(states.ReplaceAllString(s, "#"), "#") }

func sameResult(t *testing.T, alone, under result, exact bool) {
	t.Helper()
	if alone.status != under.status {
		t.Errorf("status %d without goprof, %d with it\n%s", alone.status, under.status, tail(under.stderr))
	}
	for _, v := range []struct{ name, alone, under string }{{"stdout", alone.stdout, under.stdout}, {"stderr", alone.stderr, under.stderr}} {
		a, b := v.alone, v.under
		if !exact {
			a, b = settled(a), settled(b)
		}
		if a != b {
			t.Errorf("%s differs: without goprof\n%s\nwith goprof\n%s", v.name, tail(a), tail(b))
		}
	}
}

// Shows: goprof run ends with the status of its child, whatever it is, and the profile is written all the same.
func TestExitStatus(t *testing.T) {
	each(t, eachVersion, true, func(t *testing.T, build string) {
		for _, code := range []int{0, 1, 2, 7, 255} {
			alone, under, r := both(t, nil, target(build), "exitcode", "-dur", "200ms", fmt.Sprint(code))
			sameResult(t, alone, under, false)
			if under.status != code {
				t.Errorf("status %d, want %d", under.status, code)
			}
			if r.profile().wall(with(pkg+"status.wait")) == 0 {
				t.Error("status.wait is not in the profile")
			}
		}
	})
}

// Shows: a child that a signal kills gives 128+n; one that Go turns into a traceback gives that and status 2.
func TestKilledChild(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGINT, syscall.SIGHUP, syscall.SIGSEGV, syscall.SIGABRT, syscall.SIGQUIT} {
		sig := sig
		t.Run(fmt.Sprint(int(sig)), func(t *testing.T) {
			t.Parallel()
			alone, under, r := both(t, nil, target("1.26-sw"), "killself", "-dur", "200ms", fmt.Sprint(int(sig)))
			if alone.status != under.status {
				t.Errorf("status %d without goprof, %d with it", alone.status, under.status)
			}
			if sig == syscall.SIGKILL && under.status != killed {
				t.Errorf("status %d, want %d", under.status, killed)
			}
			if strings.Contains(alone.stderr, "goroutine ") != strings.Contains(under.stderr, "goroutine ") || firstLines(alone.stderr, 2) != firstLines(under.stderr, 2) {
				t.Errorf("stderr without goprof\n%s\nwith it\n%s", tail(alone.stderr), tail(under.stderr))
			}
			if r.profile().wall(anySample) == 0 {
				t.Error("the profile is empty")
			}
		})
	}
}

func firstLines(s string, n int) string {
	lines := strings.SplitN(settled(s), "\n", n+1)
	if len(lines) > n {
		lines = lines[:n]
	}
	return strings.Join(lines, "\n")
}

// Shows: a panic looks as it does without goprof.
func TestPanic(t *testing.T) {
	each(t, eachVersion, true, func(t *testing.T, build string) {
		alone, under, r := both(t, nil, target(build), "busy", "-dur", "300ms", "-panic")
		if under.status != 2 || alone.status != 2 {
			t.Errorf("status %d without goprof, %d with it, want 2", alone.status, under.status)
		}
		text := func(s string) string { return settled(strings.Split(s, "\ngoroutine ")[0]) }
		if want := text(alone.stderr); text(under.stderr) != want || !strings.Contains(want, "panic: runtime error: invalid memory address") {
			t.Errorf("stderr without goprof\n%s\nwith goprof\n%s", want, text(under.stderr))
		}
		if r.profile().wall(with(pkg+"busy.spin")) == 0 {
			t.Error("busy.spin is not in the profile")
		}
	})
}

// Shows: bytes pass unchanged.
func TestStreams(t *testing.T) {
	path := filepath.Join(t.TempDir(), "input")
	input := make([]byte, 8<<20)
	rand.New(rand.NewSource(1)).Read(input)
	if err := os.WriteFile(path, input, 0o666); err != nil {
		t.Fatal(err)
	}
	open := func(t *testing.T) option {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return func(c *exec.Cmd) {
			f.Seek(0, io.SeekStart)
			c.Stdin = f
		}
	}
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		alone, under, _ := both(t, []option{open(t)}, target("1.26-sw"), "echoio", "-lines", "20000")
		sameResult(t, alone, under, true)
		if under.status != 0 || under.stdout != string(input) || countLines(under.stderr, "err 019999") != 1 {
			t.Errorf("status %d, %d bytes of stdout, %d of stderr", under.status, len(under.stdout), len(under.stderr))
		}
	})
	// Through pipes, slowly enough that the profile sees it.
	t.Run("pipe", func(t *testing.T) {
		t.Parallel()
		inR, inW, _ := os.Pipe()
		outR, outW, _ := os.Pipe()
		defer outR.Close()
		r := record(t, []option{stdin(inR), stdout(outW)}, "run", "-q", target("1.19-plain"), "echoio")
		inR.Close()
		outW.Close()
		go func() {
			for i := 0; i < 16; i++ {
				inW.Write(input[i<<19 : (i+1)<<19])
				time.Sleep(20 * time.Millisecond)
			}
			inW.Close()
		}()
		got, err := io.ReadAll(outR)
		if status := r.wait(20 * time.Second); status != 0 || err != nil || !bytes.Equal(got, input) {
			t.Errorf("status %d, error %v, %d bytes", status, err, len(got))
		}
		r.check()
	})
	t.Run("lines", func(t *testing.T) {
		t.Parallel()
		var lines bytes.Buffer
		for i := 0; i < 50000; i++ {
			fmt.Fprintf(&lines, "line %d\n", i)
		}
		name := filepath.Join(t.TempDir(), "lines")
		if err := os.WriteFile(name, lines.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		rewind := func(c *exec.Cmd) { f.Seek(0, io.SeekStart); c.Stdin = f }
		alone, under, _ := both(t, []option{rewind}, target("1.26-sw"), "busy", "-in", "-out", "20000", "-dur", "100ms")
		if countLines(under.stdout, "in: line 49999") != 1 || countLines(under.stderr, "err 19999") != 1 {
			t.Error("lines are missing")
		}
		sameResult(t, alone, under, false)
	})
	// sh closes what goprof and its child then do not have.
	for name, redirect := range map[string]string{"closed stdin": "<&-", "closed stdout": ">&-", "closed stderr": "2>&-", "all closed": "<&- >&- 2>&-"} {
		redirect := redirect
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := `"$@" ` + redirect + `; echo status $?`
			show := "ls /proc/self/fd; cat; exit 3"
			alone := start(t, nil, "sh", "-c", script, "sh", "sh", "-c", show)
			alone.wait(20 * time.Second)
			under := start(t, nil, "sh", "-c", script, "sh", goprofPath, "run", "-q", "-o", filepath.Join(t.TempDir(), "p.pb.gz"), "sh", "-c", show)
			under.wait(20 * time.Second)
			if alone.out() != under.out() || alone.err() != under.err() || !strings.Contains(under.out(), "status ") {
				t.Errorf("without goprof\n%s%s\nwith goprof\n%s%s", alone.out(), alone.err(), under.out(), under.err())
			}
		})
	}
	t.Run("closed pipe", func(t *testing.T) {
		t.Parallel()
		var status [2]int
		for i, path := range []string{target("1.26-sw"), goprofPath} {
			r, w, _ := os.Pipe()
			r.Close()
			args := []string{"echoio"}
			if i == 1 {
				args = append([]string{"run", "-q", "-o", filepath.Join(t.TempDir(), "p.pb.gz"), target("1.26-sw")}, args...)
			}
			p := start(t, []option{open(t), stdout(w)}, path, args...)
			w.Close()
			status[i] = p.wait(20 * time.Second)
		}
		if status[0] != status[1] || status[1] != 128+13 {
			t.Errorf("status %d without goprof, %d with it, want %d (SIGPIPE)", status[0], status[1], 128+13)
		}
	})
}

// Shows: goprof is silent while its child lives, and what it says then comes in one block behind the child's output.
func TestSilentWhileChildLives(t *testing.T) {
	t.Parallel()
	r := record(t, nil, "run", target("1.26-sw"), "server", "-dur", "2s")
	for !r.ended() {
		said, alive := r.err(), len(childrenOf(r.pid)) > 0
		if alive && strings.Contains(said, "goprof") {
			t.Fatalf("said while the child lives: %q", said)
		}
		time.Sleep(20 * time.Millisecond)
	}
	status := r.wait(time.Second)
	r.check()
	if child := withoutSummary(r.err()); status != 0 || !strings.HasPrefix(child, "READY ") || strings.Count(child, "\n") > 1 {
		t.Errorf("status %d, the child's stderr is %q", status, child)
	}
	if strings.Contains(r.out(), "goprof") {
		t.Errorf("goprof wrote to stdout:\n%s", r.out())
	}
	summary := strings.TrimPrefix(r.err(), withoutSummary(r.err()))
	for _, want := range []string{"goprof: " + target("1.26-sw") + " (pid ", "exited with status 0", "on CPU", "self", "goroutines", "health", "p.pb.gz", "go tool pprof", ".envelope"} {
		if !strings.Contains(summary, want) {
			t.Errorf("no %q in\n%s", want, summary)
		}
	}
}

// childrenOf lists the children of a process that are not zombies.
func childrenOf(pid int) (pids []int) {
	for _, tid := range tasks(pid) {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, tid))
		for _, f := range strings.Fields(string(data)) {
			var child int
			if fmt.Sscan(f, &child); state(child, "") != "Z" && state(child, "") != "" {
				pids = append(pids, child)
			}
		}
	}
	return
}

// Shows: a command that is no Go program runs as it does alone; one that cannot be started gives the status of env(1).
func TestOtherCommands(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("echo no\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("echo a shell must not be tried\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status int
		args   []string
	}{
		{0, []string{"true"}},
		{1, []string{"false"}},
		{3, []string{"sh", "-c", "exit 3"}},
		{128 + 11, []string{"sh", "-c", "kill -SEGV $$"}},
		{128 + 15, []string{"sh", "-c", "kill -TERM $$"}},
		{127, []string{"/nonexistent/program"}},
		{127, []string{"no-such-program-anywhere"}},
		{126, []string{dir}},
		{126, []string{text}},
		{126, []string{script}},
	} {
		c := c
		t.Run(strings.ReplaceAll(strings.Join(c.args, " "), dir, "DIR"), func(t *testing.T) {
			t.Parallel()
			r, status := run(t, 20*time.Second, c.args...)
			if status != c.status {
				t.Errorf("status %d, want %d; said\n%s", status, c.status, r.err())
			}
			if !strings.Contains(r.err(), "goprof: ") {
				t.Error("not a word about why there is no profile")
			}
			if files := r.glob("*"); len(files) > 0 {
				t.Errorf("files of nothing: %v", files)
			}
		})
	}
}

// Shows: each kind of failure has its status, and its words begin with goprof.
func TestStatuses(t *testing.T) {
	sleeper := start(t, nil, "sleep", "1m")
	live := startTarget(t, "1.26-sw", "labels", "-dur", "5m")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	nobody := "999999999"
	for _, c := range []struct {
		status  int
		options []option
		args    []string
	}{
		{2, nil, nil},
		{2, nil, []string{"--nonsense"}},
		{2, nil, []string{"nonsense"}},
		{2, nil, []string{"attach", "--nonsense", "1"}},
		{2, nil, []string{"attach"}},
		{2, nil, []string{"attach", "--duration", "soon", fmt.Sprint(live.pid)}},
		{2, nil, []string{"dump", "--nonsense"}},
		{125, nil, []string{"run", "--nonsense", "true"}},
		{125, nil, []string{"run"}},
		{64, nil, []string{"attach", fmt.Sprint(sleeper.pid)}},
		{64, nil, []string{"dump", fmt.Sprint(sleeper.pid)}},
		{66, nil, []string{"attach", nobody}},
		{66, nil, []string{"dump", nobody}},
		{66, nil, []string{"info", nobody}},
		{73, []option{stdout(full)}, []string{"dump", fmt.Sprint(live.pid)}},
		{0, nil, []string{"info"}},
		{0, nil, []string{"--help"}},
		{0, nil, []string{"run", "--help"}},
		{0, nil, []string{"--version"}},
	} {
		c := c
		t.Run(strings.ReplaceAll(strings.Join(c.args, " "), fmt.Sprint(live.pid), "PID"), func(t *testing.T) {
			p := start(t, append(c.options, workdir(t.TempDir())), goprofPath, c.args...)
			if status := p.wait(20 * time.Second); status != c.status {
				t.Errorf("status %d, want %d; said\n%s", status, c.status, p.err())
			}
			if c.status != 0 && !strings.HasPrefix(p.err(), "goprof: ") {
				t.Errorf("said %q", p.err())
			}
			if c.status == 0 && p.out() == "" {
				t.Error("said nothing")
			}
		})
	}
	for _, p := range []*process{sleeper, live} {
		if why := untouched(p.pid); why != "" {
			t.Error(why)
		}
	}
}

// Shows: a child inherits from goprof what it would inherit from the shell, and nothing of goprof's own.
func TestInheritance(t *testing.T) {
	show := `
		ulimit -S -a; ulimit -H -a; umask; pwd; nice; chrt -p $$ | sed 's/[0-9]*.s current/current/'
		cat /proc/$$/timerslack_ns /proc/$$/oom_score_adj /proc/$$/cgroup /proc/$$/loginuid
		grep -E '^(Sig(Blk|Ign)|ShdBlk|Cpus_allowed|NoNewPrivs|Seccomp|Cap|Uid|Gid|Groups|PPid|TracerPid|CoreDumping|Umask)' /proc/$$/status | grep -v PPid
		ls /proc/self/fd; cat <&5; ps -o sid=,pgid= -p $$ | wc -w
		env | grep -v '^_=' | sort
		trap '' HUP; kill -HUP $$; echo survived
		exit 4`
	for _, c := range []struct{ name, before string }{
		{"plain", ""},
		{"changed", "trap '' INT QUIT USR1 PIPE; umask 027; ulimit -S -n 700; ulimit -c 0; cd /; "},
		{"nice", "renice -n 5 -p $$ >/dev/null; "},
	} {
		c := c
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var outs [2]string
			for i, words := range []string{"", goprofPath + " run -q -o " + filepath.Join(t.TempDir(), "p.pb.gz") + " "} {
				f, err := os.Open("/etc/hostname")
				if err != nil {
					t.Fatal(err)
				}
				// Descriptors 3 to 5 are ours to hand on.
				p := start(t, []option{extra(f, f, f), env("SHOW="+show, "odd='\"\n\x01x")}, "sh", "-c", c.before+words+`sh -c "$SHOW"`)
				if status := p.wait(20 * time.Second); status != 4 {
					t.Errorf("status %d: %s", status, p.err())
				}
				outs[i] = p.out()
				f.Close()
			}
			if !strings.Contains(outs[1], "survived") {
				t.Errorf("with goprof\n%s", outs[1])
			}
			for i, a := range strings.Split(outs[0], "\n") {
				if b := append(strings.Split(outs[1], "\n"), make([]string, i+1)...)[i]; a != b {
					t.Errorf("without goprof %q, with it %q", a, b)
				}
			}
		})
	}
}

// Shows: every signal that is sent to goprof run reaches the child, once.
func TestSignalsHandedOn(t *testing.T) {
	t.Parallel()
	r := record(t, []option{env("GOPROF_LIVE_CHILD=signals")}, "run", "-q", self(t))
	r.ready()
	sent := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGQUIT, syscall.SIGWINCH}
	for _, sig := range sent {
		r.signal(sig)
		time.Sleep(50 * time.Millisecond)
	}
	if status := r.wait(30 * time.Second); status != 7 {
		t.Errorf("status %d, want 7", status)
	}
	r.check()
	for _, sig := range sent {
		if n := countLines(r.out(), fmt.Sprint("got ", int(sig))); n != 1 {
			t.Errorf("the child got signal %d %d times", sig, n)
		}
	}
	if r.profile().wall(anySample) == 0 {
		t.Error("the profile is empty")
	}
}
