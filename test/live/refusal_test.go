// What goprof refuses, in which words and with which status; and that a refused process is left alone.
package live

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// nobody has no right to anything here.
const nobody = 65534

// openDir is a new folder that every user may enter and write to (those of t.TempDir are ours alone).
func openDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "goprof-live-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func copyFile(t testing.TB, from, to string, mode os.FileMode) string {
	t.Helper()
	// By another process: a child that is forked here meanwhile would have the file open for writing, and then it cannot be
	// executed.
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %s", out)
	}
	if err := os.Chmod(to, mode); err != nil {
		t.Fatal(err)
	}
	return to
}

// as runs a program as another user.
func as(uid uint32) option {
	return attr(func(a *syscall.SysProcAttr) { a.Credential = &syscall.Credential{Uid: uid, Gid: uid} })
}

var (
	wrapOnce sync.Once
	wrapPath string
	wrapErr  error
)

// wrapper is test/wrap/wrap.c, built for this run.
func wrapper(t testing.TB) string {
	t.Helper()
	wrapOnce.Do(func() {
		dir, err := os.MkdirTemp("/tmp", "goprof-wrap-")
		if err == nil {
			err = os.Chmod(dir, 0o755)
		}
		if err != nil {
			wrapErr = err
			return
		}
		wrapPath = filepath.Join(dir, "wrap")
		if out, err := exec.Command("cc", "-O1", "-o", wrapPath, filepath.Join(rootDir, "test/wrap/wrap.c")).CombinedOutput(); err != nil {
			wrapErr = fmt.Errorf("%v: %s", err, out)
		}
		leftovers = append(leftovers, dir)
	})
	if wrapErr != nil {
		t.Skipf("cannot build test/wrap/wrap.c: %v", wrapErr)
	}
	return wrapPath
}

// refused runs goprof, or what leads to it, and compares its status and what it says on stderr.
func refused(t testing.TB, status int, options []option, words []string, args ...string) {
	t.Helper()
	p := start(t, append([]option{workdir(openDir(t))}, options...), args[0], args[1:]...)
	got := p.wait(20 * time.Second)
	said := strings.Join(strings.Fields(p.err()), " ")
	if got != status || !strings.HasPrefix(said, "goprof: ") {
		t.Errorf("%v: status %d, want %d; said\n%s", args, got, status, p.err())
	}
	for _, word := range words {
		if !strings.Contains(said, word) {
			t.Errorf("%v: no %q in\n%s", args, word, p.err())
		}
	}
	for _, l := range strings.Split(p.err(), "\n") {
		if len(l) > 80 && !strings.HasPrefix(l, "  do ") {
			t.Errorf("%v: a line of %d columns: %s", args, len(l), l)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(p.Dir, "*")); len(files) > 0 {
		t.Errorf("%v: files of nothing: %v", args, files)
	}
}

func root(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
}

// Shows: words that are no process of a program end with a sentence and a status, and nothing is stopped.
func TestRefusedPids(t *testing.T) {
	t.Parallel()
	live := startTarget(t, "1.26-sw", "labels", "-dur", "5m")
	sleeper := start(t, nil, "sleep", "1m")
	tid := tasks(live.pid)[1]
	// A zombie: its parent does not wait.
	parent := start(t, nil, "sh", "-c", `sh -c 'sleep 0.3; exit 3' & echo $! >&2; exec sleep 1m`)
	zombie := 0
	eventually(t, 5*time.Second, "there is a zombie", func() bool {
		fmt.Sscan(parent.err(), &zombie)
		return zombie > 0 && state(zombie, "") == "Z"
	})
	cases := []struct {
		word   string
		status int
		said   string
	}{
		{"0", 66, "there is no process 0"},
		{"-1", 2, "-1"},
		{"1099511627776", 66, "there is no process 1099511627776"},
		{"999999999", 66, "there is no process 999999999"},
		{tid, 66, "it is a thread of process " + fmt.Sprint(live.pid)},
		{fmt.Sprint(zombie), 66, "has already ended"},
		{fmt.Sprint(sleeper.pid), 64, "is not a Go program"},
	}
	if stat, err := os.ReadFile("/proc/2/stat"); err == nil && strings.HasPrefix(string(stat), "2 (kthreadd)") {
		cases = append(cases, struct {
			word   string
			status int
			said   string
		}{"2", 64, "is a thread of the kernel"})
	}
	for _, c := range cases {
		for _, command := range []string{"attach", "dump", "info"} {
			refused(t, c.status, nil, []string{c.said}, goprofPath, command, c.word)
		}
	}
	for _, command := range []string{"attach", "dump"} {
		refused(t, 2, nil, []string{"'word' is ", "the id of a process"}, goprofPath, command, "word")
		refused(t, 2, nil, []string{"'' is ", "the id of a process"}, goprofPath, command, "")
		refused(t, 66, nil, []string{"there is no process 99999999999999999999999"}, goprofPath, command, "99999999999999999999999")
		refused(t, 2, nil, []string{"is goprof itself"}, "sh", "-c", `exec "$0" `+command+` $$`, goprofPath)
	}
	for _, p := range []*process{live, sleeper, parent} {
		if why := untouched(p.pid); why != "" {
			t.Errorf("%v: %s", p.Args, why)
		}
	}
}

// Shows: the first process of a pid namespace is a process like any other.
func TestRefusedPidOne(t *testing.T) {
	t.Parallel()
	root(t)
	refused(t, 64, nil, []string{"1 (/", "is not a Go program"}, "unshare", "-pf", "--mount-proc", "sh", "-c", `"$0" attach 1; exit $?`, goprofPath)
}

// Shows: the processes of other users are refused to a plain user, who is told why and what helps; root is not.
func TestRefusedUser(t *testing.T) {
	t.Parallel()
	root(t)
	dir := openDir(t)
	ours := copyFile(t, goprofPath, filepath.Join(dir, "goprof"), 0o755)
	program := copyFile(t, target("1.26-sw"), filepath.Join(dir, "program"), 0o755)
	sealed := copyFile(t, target("1.26-sw"), filepath.Join(dir, "sealed"), 0o711) // who cannot read it cannot look into it
	of := func(uid uint32, path string) *process {
		p := start(t, []option{as(uid)}, path, "busy", "-dur", "2m")
		p.ready()
		return p
	}
	roots, own, unreadable := of(0, program), of(nobody, program), of(nobody, sealed)
	place := "sudo goprof "
	if _, err := os.Stat("/.dockerenv"); err == nil {
		place = "goprof " // of the line for Docker
	}
	for _, command := range []string{"attach", "dump", "info"} {
		pid := fmt.Sprint(roots.pid)
		refused(t, 67, []option{as(nobody)}, []string{"not permitted", "why it belongs to user root (0), you are", "do ", place + command + " " + pid}, ours, command, pid)
		pid = fmt.Sprint(unreadable.pid)
		refused(t, 67, []option{as(nobody)}, []string{"not permitted", "why it has made itself unreadable", place + command + " " + pid}, ours, command, pid)
	}
	for _, p := range []*process{roots, own, unreadable} {
		attach(t, p.pid, 300*time.Millisecond)
		if why := untouched(p.pid); why != "" {
			t.Error(why)
		}
	}
	// Its own processes are open to a plain user, as far as Yama lets it.
	if _, err := os.Stat("/proc/sys/kernel/yama"); err != nil {
		files := openDir(t)
		p := start(t, []option{as(nobody), workdir(files)}, ours, "attach", "--duration", "500ms", "-o", filepath.Join(files, "p.pb.gz"), fmt.Sprint(own.pid))
		if status := p.wait(20 * time.Second); status != 0 || !strings.Contains(p.err(), "detached") {
			t.Errorf("status %d\n%s", status, p.err())
		}
	}
}

// Shows: root without the capability, and root of a user namespace, are told what they lack.
func TestRefusedCapability(t *testing.T) {
	t.Parallel()
	root(t)
	p := startTarget(t, "1.26-sw", "busy", "-dur", "2m")
	pid := fmt.Sprint(p.pid)
	refused(t, 67, nil, []string{"not permitted", "CAP_SYS_PTRACE", "do "}, "setpriv", "--bounding-set", "-sys_ptrace", goprofPath, "attach", pid)
	if exec.Command("unshare", "-Ur", "true").Run() == nil {
		refused(t, 67, nil, []string{"not permitted", "another user namespace"}, "unshare", "-Ur", goprofPath, "attach", pid)
	}
	if why := untouched(p.pid); why != "" {
		t.Error(why)
	}
}

// Shows: behind a filter that forbids ptrace goprof says so, with a status of its own; what needs no ptrace works.
func TestRefusedFilter(t *testing.T) {
	t.Parallel()
	p := startTarget(t, "1.26-sw", "busy", "-dur", "2m")
	wrap, pid := wrapper(t), fmt.Sprint(p.pid)
	words := []string{"goprof cannot trace any process here", "a seccomp filter on goprof forbids ptrace", "do "}
	refused(t, 69, nil, words, wrap, "block", goprofPath, "attach", pid)
	refused(t, 69, nil, words, wrap, "block", goprofPath, "info")
	marker := filepath.Join(openDir(t), "started")
	refused(t, 125, nil, []string{"cannot start", "it may not be traced", "seccomp filter"}, wrap, "block", goprofPath, "run", "touch", marker)
	if _, err := os.Stat(marker); err == nil {
		t.Error("the child was started")
	}
	info := start(t, nil, wrap, "block", goprofPath, "info")
	info.wait(20 * time.Second)
	for _, want := range []string{"ptrace seize missing (Operation not permitted): no thread can be stopped", "process_vm_readv missing (Operation not permitted)", "/proc/PID/mem ok", "SCHED_FIFO "} {
		if said := strings.Join(strings.Fields(info.out()), " "); !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, info.out())
		}
	}
	// Goroutines at rest are read, not stopped.
	d := start(t, nil, wrap, "block", goprofPath, "dump", pid)
	if status := d.wait(20 * time.Second); status != 0 || !strings.Contains(d.out(), "busy.Main()") {
		t.Errorf("dump: status %d\n%s%s", status, tail(d.err()), tail(d.out()))
	}
	if why := untouched(p.pid); why != "" {
		t.Error(why)
	}
}

// Shows: without a word behind it, info tells what can be done here: everything, where these tests run.
func TestInfoFacilities(t *testing.T) {
	t.Parallel()
	p := start(t, nil, goprofPath, "info")
	if status := p.wait(20 * time.Second); status != 0 || p.err() != "" {
		t.Errorf("status %d\n%s", status, p.err())
	}
	said := strings.Join(strings.Fields(p.out()), " ")
	for _, want := range []string{"ptrace seize ok", "ptrace interrupt ok", "ptrace registers ok", "ptrace detach ok", "process_vm_readv ", "/proc/PID/mem ok", "task/TID/syscall ok", "task/TID/schedstat ", "/proc/PID/map_files ", "pidfd_open ", "perf_event_open ", "SCHED_FIFO ", "CPU clock of a process ok, moves in steps of", "kernel "} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, p.out())
		}
	}
}

// tracer seizes a process for a time, as strace would.
func tracer(t testing.TB, pid int, seconds float64) *process {
	t.Helper()
	p := start(t, nil, wrapper(t), "seize", fmt.Sprint(pid), fmt.Sprint(seconds))
	eventually(t, 5*time.Second, "the other tracer is at work", func() bool { return strings.Contains(p.out(), "SEIZED") })
	if strings.Contains(p.out(), "SEIZED 0") {
		t.Skip("another tracer is not permitted here")
	}
	return p
}

// Shows: a process that somebody else traces is refused, with the tracer's name; afterwards it is free.
func TestRefusedTraced(t *testing.T) {
	t.Parallel()
	p := startTarget(t, "1.26-sw", "busy", "-dur", "2m")
	by := tracer(t, p.pid, 2.5)
	refused(t, 68, nil, []string{"it is being traced", fmt.Sprintf("wrap (pid %d) traces it", by.pid), "let wrap detach first"}, goprofPath, "attach", fmt.Sprint(p.pid))
	by.wait(20 * time.Second)
	attach(t, p.pid, 300*time.Millisecond)
	if why := untouched(p.pid); why != "" {
		t.Error(why)
	}
}

// Shows: a tracer that comes while goprof records takes some looks away; they are counted, and told.
func TestPassingTracer(t *testing.T) {
	t.Parallel()
	p := startTarget(t, "1.26-sw", "busy", "-dur", "2m")
	r := record(t, nil, "attach", "-v", "--looks", "ptrace", "--duration", "3s", fmt.Sprint(p.pid))
	eventually(t, 10*time.Second, "goprof has attached", func() bool { return strings.Contains(r.err(), "attached to") })
	tracer(t, p.pid, 1.5).wait(10 * time.Second)
	if status := r.wait(20 * time.Second); status != 0 {
		t.Fatalf("status %d\n%s", status, r.err())
	}
	r.check()
	if n := r.profile().figure(t, "threads held by another tracer"); n < 5 {
		t.Errorf("%v looks were taken away\n%s", n, tail(r.err()))
	}
	if n := r.profile().figure(t, "threads that may not be held"); n != 0 {
		t.Errorf("%v times goprof thinks it was not permitted", n)
	}
	if why := untouched(p.pid); why != "" {
		t.Error(why)
	}
}

// goTarget finds the target below a process.
func goTarget(t testing.TB, pid int) int {
	t.Helper()
	for _, child := range childrenOf(pid) {
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", child)); strings.HasPrefix(string(name), "targets-") {
			return child
		}
		if found := goTarget(t, child); found > 0 {
			return found
		}
	}
	return 0
}

// Shows: attach has a status for a program that is too old, and for a service and for a file that do not take the profile.
func TestRefusedAfterwards(t *testing.T) {
	t.Parallel()
	p := startTarget(t, "1.26-sw", "busy", "-dur", "2m")
	for _, c := range []struct {
		status int
		said   string
		words  []string
	}{
		{74, "could not be sent", []string{"--dsn", "http://0123456789abcdef0123456789abcdef@127.0.0.1:1/1"}},
		{73, "No space left", []string{"-o", "pprof:-"}},
	} {
		options := []option{workdir(t.TempDir())}
		if c.status == 73 {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer full.Close()
			options = append(options, stdout(full))
		}
		g := start(t, options, goprofPath, append(append([]string{"attach", "--duration", "300ms"}, c.words...), fmt.Sprint(p.pid))...)
		if status := g.wait(20 * time.Second); status != c.status || !strings.Contains(strings.Join(strings.Fields(g.err()), " "), c.said) {
			t.Errorf("%v: status %d, want %d and %q\n%s", c.words, status, c.status, c.said, g.err())
		}
	}
	if why := untouched(p.pid); why != "" {
		t.Error(why)
	}
	q := start(t, nil, tooOld(t), "busy", "-dur", "1m")
	q.ready()
	refused(t, 65, nil, []string{"go1.11"}, goprofPath, "attach", fmt.Sprint(q.pid))
}

// Shows: one recording of a process at a time. dump and info may look beside it; a goprof that was killed is in
// nobody's way, and neither is one that records another process.
func TestTwoGoprofs(t *testing.T) {
	t.Parallel()
	p, other := startTarget(t, "1.26-sw", "busy", "-dur", "2m"), startTarget(t, "1.19-plain", "busy", "-dur", "2m")
	first := record(t, nil, "attach", fmt.Sprint(p.pid))
	eventually(t, 10*time.Second, "goprof has attached", func() bool { return strings.Contains(first.err(), "attached to") })
	for i := 0; i < 2; i++ {
		refused(t, 68, nil, []string{"another goprof records it already", fmt.Sprintf("goprof's pid %d", first.pid), fmt.Sprintf("kill -INT %d", first.pid)}, goprofPath, "attach", fmt.Sprint(p.pid))
	}
	attach(t, other.pid, 300*time.Millisecond)
	for i := 0; i < 10; i++ {
		if text := dump(t, p.pid); !strings.Contains(text, "busy.Main()") {
			t.Errorf("dump beside attach:\n%s", text)
		}
	}
	if first.ended() {
		t.Fatalf("the first one has ended:\n%s", first.err())
	}
	first.signal(syscall.SIGKILL)
	first.wait(5 * time.Second)
	eventually(t, 5*time.Second, "nothing is held", func() bool { return untouched(p.pid) == "" })
	attach(t, p.pid, 300*time.Millisecond)
	if locks, _ := filepath.Glob("/run/goprof/*.lock"); len(locks) > 16 {
		t.Errorf("%d lock files are left", len(locks))
	}
	// Seen from inside of a pid namespace it is the same process, with the same lock.
	inner := start(t, nil, "unshare", "-pf", "--mount-proc", "sh", "-c", `"$1" busy -dur 1m & sleep 0.5; exec "$0" attach --duration 3s -o "$2" $!`, goprofPath, target("1.26-sw"), filepath.Join(openDir(t), "p.pb.gz"))
	eventually(t, 10*time.Second, "goprof has attached inside", func() bool { return inner.ended() || strings.Contains(inner.err(), "attached to") })
	if strings.Contains(inner.err(), "attached to") {
		refused(t, 68, nil, []string{"another goprof records it already", "in another container"}, goprofPath, "attach", fmt.Sprint(goTarget(t, inner.pid)))
	} else {
		t.Logf("no pid namespaces here: %s", inner.err())
	}
	// The child of run is recorded by its run.
	r := record(t, nil, "run", target("1.26-sw"), "exitcode", "-dur", "2s", "0")
	r.ready()
	time.Sleep(100 * time.Millisecond)
	refused(t, 68, nil, []string{fmt.Sprintf("goprof's pid %d", r.pid)}, goprofPath, "attach", fmt.Sprint(r.readyPid()))
	if status := r.wait(20 * time.Second); status != 0 {
		t.Errorf("status %d\n%s", status, r.err())
	}
	r.check()
}
