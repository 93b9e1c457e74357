// goprof dump of core files: what a core gives is what the process gave.
package live

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dumpOf runs goprof dump with these words.
func dumpOf(t testing.TB, words ...string) (out, said string, status int) {
	t.Helper()
	p := start(t, nil, goprofPath, append([]string{"dump"}, words...)...)
	status = p.wait(60 * time.Second)
	return p.out(), p.err(), status
}

func mustDump(t testing.TB, words ...string) string {
	t.Helper()
	out, said, status := dumpOf(t, words...)
	if status != 0 {
		t.Fatalf("goprof dump %v: status %d\n%s", words, status, tail(said))
	}
	return out
}

// maker is the tool of scripts/make-core that writes the cores; built beside goprof when it is not there.
func maker(t testing.TB) string {
	t.Helper()
	dir := filepath.Dir(goprofPath)
	path := filepath.Join(dir, "test", "cores", "maker")
	if out, err := exec.Command("make", "-s", "-C", rootDir, "O="+dir, path).CombinedOutput(); err != nil {
		t.Fatalf("the maker of cores cannot be built: %v\n%s", err, out)
	}
	return path
}

// stop stops all threads of a target as a shell would, and waits until they stand.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	eventually(p.t, 10*time.Second, "all threads stopped", func() bool { return allStopped(p.pid) })
}

// A stopped process goes on to wait: its minutes grow, and a core knows no time.
var minutes = regexp.MustCompile(`, \d+ minutes`)

// sameText compares two dumps goroutine by goroutine. Of one that goprof could not catch on a live process (its thread
// was stopped on the way out of a system call) a core may tell more.
func sameText(t testing.TB, what, live, core string) {
	t.Helper()
	x := strings.Split(minutes.ReplaceAllString(live, ""), "\n\n")
	y := strings.Split(minutes.ReplaceAllString(core, ""), "\n\n")
	if len(x) != len(y) {
		t.Fatalf("%s: %d goroutines of the process, %d of the core", what, len(x), len(y))
	}
	missed := 0
	for i := range x {
		switch {
		case x[i] == y[i]:
		case strings.Contains(x[i], "(moved while it was read)"):
			missed++
		default:
			t.Errorf("%s: the process gave\n%s\nand the core\n%s", what, tail(x[i]), tail(y[i]))
		}
	}
	if missed > 2 {
		t.Errorf("%s: %d goroutines of the process were not caught", what, missed)
	}
}

// Shows: the core of a stopped process gives the very text that the process gives, running goroutines and labels
// included; and the process is as it was.
func TestCoreOfStopped(t *testing.T) {
	t.Parallel()
	tool := maker(t)
	for i, c := range []struct{ target, holds string }{
		{"names", "names.park("}, {"labels", "{route: /r1, "}, {"busy", "busy.work("}, {"lockos", "lockos.lockedSpin("},
		{"sigpanic", "sigpanic.Main("}, {"gcheavy", "gcheavy.Main("},
	} {
		c, i := c, i
		t.Run(c.target, func(t *testing.T) {
			t.Parallel()
			each(t, inTurn(i, allBuilds...), true, func(t *testing.T, build string) {
				p := startTarget(t, build, c.target, "-dur", "1m")
				p.stop()
				live := mustDump(t, "--system", "--labels", fmt.Sprint(p.pid))
				core := filepath.Join(t.TempDir(), "a")
				if out, err := exec.Command(tool, fmt.Sprint(p.pid), core).CombinedOutput(); err != nil {
					t.Fatalf("maker: %v\n%s", err, out)
				}
				text := mustDump(t, "--system", "--labels", core+".core", "--exe", core+".exe")
				sameText(t, "core", live, text)
				if !strings.Contains(text, c.holds) {
					t.Errorf("no %q in the dump:\n%s", c.holds, tail(text))
				}
				// The program itself fits, too: it is the one that the core names.
				sameText(t, "core with the program where it was", live, mustDump(t, "--system", "--labels", core+".core"))
				p.quit()
			})
		})
	}
}

// Shows: the same for gcore(1) of gdb, which writes other pieces and counts file offsets in another way.
func TestCoreByGcore(t *testing.T) {
	gcore, err := exec.LookPath("gcore")
	if err != nil {
		t.Skip("gcore: ", err)
	}
	if testing.Short() {
		t.Skip("gcore writes more than a gigabyte: not with -short")
	}
	each(t, eachVersion, false, func(t *testing.T, build string) {
		p := startTarget(t, build, "labels", "-dur", "5m")
		p.stop()
		live := mustDump(t, "--labels", fmt.Sprint(p.pid))
		prefix := filepath.Join(t.TempDir(), "core")
		if out, err := exec.Command(gcore, "-o", prefix, fmt.Sprint(p.pid)).CombinedOutput(); err != nil {
			t.Skipf("gcore does not work here: %v\n%s", err, tail(string(out)))
		}
		sameText(t, "gcore", live, mustDump(t, "--labels", fmt.Sprintf("%s.%d", prefix, p.pid)))
		p.quit()
	})
}

// kernelCore starts a program that may leave a core, lets f do what kills it, and gives the core's path.
func kernelCore(t testing.TB, f func(p *process), path string, args ...string) string {
	t.Helper()
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if name := strings.TrimSpace(string(pattern)); err != nil || name == "" || strings.ContainsAny(name[:1], "|@/") {
		t.Skipf("kernel.core_pattern is %q: the kernel leaves no core in the working directory", name)
	}
	dir := t.TempDir()
	words := append([]string{"-c", `ulimit -c unlimited || exit 99; exec "$@"`, "sh", path}, args...)
	p := start(t, []option{workdir(dir), env("GOTRACEBACK=crash", "ODD_DUMP="+filepath.Join(dir, "dump"))}, "/bin/sh", words...)
	f(p)
	if status := p.wait(20 * time.Second); status == 99 {
		t.Skip("ulimit -c unlimited is not permitted")
	}
	cores, _ := filepath.Glob(filepath.Join(dir, "core*"))
	if len(cores) != 1 {
		t.Skipf("the kernel has left %d cores (core_pattern %q)", len(cores), strings.TrimSpace(string(pattern)))
	}
	return cores[0]
}

// Shows: a core that the kernel writes when a Go program crashes holds every goroutine that rested as the runtime
// itself told it before, and those that ran with their stacks.
func TestCoreByKernel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		target, runs string
		least        int
	}{
		{"names", "", 16}, {"waitreasons", "", 200}, {"busy", "busy.work(", 0},
	} {
		c := c
		t.Run(c.target, func(t *testing.T) {
			each(t, allBuilds, true, func(t *testing.T, build string) {
				var own string
				core := kernelCore(t, func(p *process) {
					p.ready()
					own, _ = p.dumped()
					p.signal(syscall.SIGABRT)
				}, target(build), c.target, "-dur", "1m")
				text := mustDump(t, core)
				if c.least > 0 {
					if n := compareDumps(t, own, text, own, 0); n < c.least {
						t.Errorf("%d parked goroutines compared, want at least %d", n, c.least)
					}
				}
				if !strings.Contains(text, c.runs) {
					t.Errorf("nothing of %s in\n%s", c.runs, tail(text))
				}
			})
		})
	}
}

// Shows: what is no core, or the core of something else, is refused in words and with a status that tells why.
func TestCoreRefused(t *testing.T) {
	tool, dir := maker(t), t.TempDir()
	p := startTarget(t, eachVersion[1], "names", "-dur", "1m")
	if out, err := exec.Command(tool, fmt.Sprint(p.pid), filepath.Join(dir, "a")).CombinedOutput(); err != nil {
		t.Fatalf("maker: %v\n%s", err, out)
	}
	p.quit()
	good, err := os.ReadFile(filepath.Join(dir, "a.core"))
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	arm := append([]byte(nil), good...)
	arm[18] = 183 // e_machine: AArch64
	core, exe := filepath.Join(dir, "a.core"), filepath.Join(dir, "a.exe")
	for _, c := range []struct {
		status int
		says   string
		words  []string
	}{
		{0, " goroutines of ", []string{core, "--exe", exe}},
		{2, "is not a core file", []string{goprofPath}},
		{2, "compressed by gzip", []string{file("z", []byte("\x1f\x8b\x08"))}},
		{2, "it is a directory", []string{dir}},
		{2, "is neither the id of a process nor a file", []string{"no-such-program"}},
		{66, "there is no file", []string{filepath.Join(dir, "missing")}},
		{65, "of another CPU", []string{file("arm", arm)}},
		{65, "cut off", []string{file("cut", good[:len(good)/2]), "--exe", exe}},
		{2, "another file than the one that ran", []string{core, "--exe", target(eachVersion[0])}},
		{2, "--exe is for core files", []string{"1", "--exe", exe}},
	} {
		out, said, status := dumpOf(t, c.words...)
		if status != c.status || !strings.Contains(strings.Join(strings.Fields(said), " "), c.says) {
			t.Errorf("dump %v: status %d, want %d; said\n%s", c.words, status, c.status, said)
		}
		if status != 0 && out != "" {
			t.Errorf("dump %v: failed, but printed\n%s", c.words, tail(out))
		}
	}
}

// Shows: the core of a program that is not Go is refused as such.
func TestCoreOfAnotherProgram(t *testing.T) {
	core := kernelCore(t, func(p *process) {
		eventually(t, 10*time.Second, "sleep runs", func() bool { return field(p.pid, "", "Name") == "sleep" })
		p.signal(syscall.SIGABRT)
	}, "/bin/sleep", "60")
	if _, said, status := dumpOf(t, core); status != 64 || !strings.Contains(said, "is not a Go program") {
		t.Errorf("status %d, want 64; said\n%s", status, said)
	}
}

// Shows: the kernel gives the threads of a container the ids that the program knows, so its core can be read outside.
func TestCoreOfContainer(t *testing.T) {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("unshare: ", err)
	}
	if out, err := exec.Command(unshare, "-pf", "true").CombinedOutput(); err != nil {
		t.Skipf("no pid namespaces here: %v %s", err, out)
	}
	script := `"$0" names -dur 1m & while ! [ -e ready ]; do sleep 0.05; done; kill -ABRT $!; wait`
	core := kernelCore(t, func(p *process) {
		p.ready()
		if err := os.WriteFile(filepath.Join(p.Dir, "ready"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}, unshare, "-pf", "sh", "-c", script, target(eachVersion[1]))
	if text := mustDump(t, core); strings.Count(text, "names.park(") < 15 {
		t.Errorf("%d goroutines in names.park, want at least 15", strings.Count(text, "names.park("))
	}
}
