// What surrounds a process while it is looked at: namespaces, users, files, filters, control groups; and what goprof does not do
// to it.
package live

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Shows: wherever and however a process runs, its profile is the one it has elsewhere, and it ends as it would alone.
func TestSurroundings(t *testing.T) {
	build := "1.26-sw"
	type surroundings struct {
		name string
		make func(t *testing.T, dir string) *process // "busy" for 20 s, in a folder of its own
		ours []string                                // goprof is started by these words
	}
	args := []string{"busy", "-dur", "20s"}
	shell := func(t *testing.T, script string, words ...string) *process {
		return start(t, nil, "sh", append([]string{"-c", script, "sh"}, words...)...)
	}
	cases := []surroundings{
		{"deleted", func(t *testing.T, dir string) *process {
			path := copyFile(t, target(build), dir+"/b", 0o755)
			p := start(t, nil, path, args...)
			p.ready()
			os.Remove(path)
			return p
		}, nil},
		{"replaced", func(t *testing.T, dir string) *process {
			path := copyFile(t, target(build), dir+"/b", 0o755)
			p := start(t, nil, path, args...)
			p.ready()
			os.Rename(copyFile(t, target("1.19-plain"), dir+"/new", 0o755), path)
			return p
		}, nil},
		{"truncated successor", func(t *testing.T, dir string) *process {
			path := copyFile(t, target(build), dir+"/b", 0o755)
			p := start(t, nil, path, args...)
			p.ready()
			os.WriteFile(dir+"/new", []byte("\x7fELF"), 0o755)
			os.Rename(dir+"/new", path)
			return p
		}, nil},
		{"link with another name", func(t *testing.T, dir string) *process {
			os.Symlink(target(build), dir+"/l")
			p := exec.Command(dir + "/l")
			p.Args = append([]string{"we ird"}, args...)
			return start(t, []option{func(c *exec.Cmd) { c.Path, c.Args = p.Path, p.Args }}, dir+"/l")
		}, nil},
		{"mount namespace", func(t *testing.T, dir string) *process {
			return shell(t, `exec unshare -m sh -c 'mount -t tmpfs none "$1" && cp "$0" "$1/hidden" && cd "$1" && shift && exec ./hidden "$@"' "$@"`, append([]string{target(build), dir}, args...)...)
		}, nil},
		{"pid namespace", func(t *testing.T, dir string) *process {
			return start(t, nil, "unshare", append([]string{"-pf", "--mount-proc", target(build)}, args...)...)
		}, nil},
		{"user namespace", func(t *testing.T, dir string) *process {
			return start(t, nil, "unshare", append([]string{"-Ur", target(build)}, args...)...)
		}, nil},
		{"chroot", func(t *testing.T, dir string) *process {
			copyFile(t, target(build), dir+"/b", 0o755)
			return start(t, nil, "chroot", append([]string{dir, "/b"}, args...)...)
		}, nil},
		{"other user", func(t *testing.T, dir string) *process {
			return start(t, []option{as(nobody)}, copyFile(t, target(build), dir+"/b", 0o755), args...)
		}, nil},
		{"set-user-id", func(t *testing.T, dir string) *process {
			path := copyFile(t, target(build), dir+"/b", 0o755)
			if os.Chown(path, nobody, nobody) != nil || os.Chmod(path, 0o755|os.ModeSetuid) != nil {
				t.Skip("cannot set the bit")
			}
			p := start(t, nil, path, args...)
			p.ready()
			if uid := strings.Fields(field(p.pid, "", "Uid")); uid[1] != fmt.Sprint(nobody) {
				t.Skip("the bit does nothing here")
			}
			return p
		}, nil},
		{"file in memory", func(t *testing.T, dir string) *process {
			return start(t, []option{env("GOPROF_LIVE_CHILD=memfd")}, self(t), append([]string{target(build)}, args...)...)
		}, nil},
		{"no new privileges", func(t *testing.T, dir string) *process {
			return start(t, nil, wrapper(t), append([]string{"nnp", target(build)}, args...)...)
		}, nil},
		{"filter that refuses", func(t *testing.T, dir string) *process {
			return start(t, nil, wrapper(t), append([]string{"block", target(build)}, args...)...)
		}, nil},
		{"filter that kills", func(t *testing.T, dir string) *process {
			return start(t, nil, wrapper(t), append([]string{"kill", target(build)}, args...)...)
		}, nil},
		{"little address space", func(t *testing.T, dir string) *process {
			return shell(t, `ulimit -v 1500000; exec "$@"`, append([]string{target(build)}, args...)...)
		}, nil},
		{"goprof with few descriptors", func(t *testing.T, dir string) *process {
			return start(t, nil, target(build), args...)
		}, []string{"sh", "-c", `ulimit -n 40; exec "$@"`, "sh"}},
		{"goprof in a user namespace of the target's", func(t *testing.T, dir string) *process {
			return start(t, nil, "unshare", append([]string{"-Ur", target(build)}, args...)...)
		}, []string{"nsenter"}},
	}
	for _, c := range cases {
		c := c
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			root(t)
			p := c.make(t, openDir(t))
			p.ready()
			pid := p.insidePid(t)
			files := openDir(t)
			words := append([]string{}, c.ours...)
			if len(words) == 1 { // enter it
				words = []string{"nsenter", "-U", "-t", fmt.Sprint(pid), "--preserve-credentials"}
			}
			words = append(words, goprofPath, "attach", "--duration", "1s", "-o", files+"/p.pb.gz", "-o", files+"/w%n.envelope", fmt.Sprint(pid))
			r := &recording{start(t, []option{workdir("/")}, words[0], words[1:]...), files}
			r.good(20 * time.Second)
			// On a machine that leaves it hardly any time there is no share to speak of.
			cpu, all := r.profile().cpu(with(pkg+"busy.spin")), r.profile().cpu(anySample)
			if all > 200*time.Millisecond && cpu < all*7/10 || r.profile().wall(with(pkg+"busy.work")) == 0 {
				t.Errorf("%v of %v in busy.spin\n%s", cpu, all, tail(r.err()))
			}
			if text := dump(t, pid); !strings.Contains(text, pkg+"busy.Main()") {
				t.Errorf("dump:\n%s", tail(text))
			}
			if why := untouched(pid); why != "" {
				t.Error(why)
			}
			used := cpuTime(t, pid)
			eventually(t, 5*time.Second, "the target goes on", func() bool { return cpuTime(t, pid) > used+30*time.Millisecond })
		})
	}
}

// insidePid is the pid of the target as we see it: the process itself or, where unshare has forked, its child.
func (p *process) insidePid(t testing.TB) int {
	t.Helper()
	if children := childrenOf(p.pid); len(children) == 1 {
		return children[0]
	}
	return p.pid
}

// Shows: a program that has mapped its own file more than once is found where it runs.
func TestMappedAgain(t *testing.T) {
	t.Parallel()
	p := start(t, []option{env("GOPROF_LIVE_CHILD=mapped")}, self(t))
	p.ready()
	r := attach(t, p.pid, time.Second)
	if cpu, all := r.profile().cpu(with("example.org/goprof/live.spinMapped")), r.profile().cpu(anySample); cpu < all*7/10 || cpu == 0 {
		t.Errorf("%v of %v in spinMapped\n%s", cpu, all, tail(r.err()))
	}
}

// Shows: goprof run starts a set-user-id program as it would be started without goprof, as root; it says what a plain
// user loses.
func TestRunSetuid(t *testing.T) {
	t.Parallel()
	root(t)
	dir := openDir(t)
	ours := copyFile(t, goprofPath, dir+"/goprof", 0o755)
	program := copyFile(t, "/bin/cat", dir+"/show", 0o755)
	if os.Chown(program, 1, 1) != nil || os.Chmod(program, 0o755|os.ModeSetuid) != nil {
		t.Skip("cannot set the bit")
	}
	uid := func(words ...string) (string, *process) {
		p := start(t, []option{workdir(openDir(t))}, words[0], words[1:]...)
		if status := p.wait(20 * time.Second); status != 0 {
			t.Errorf("%v: status %d\n%s", words, status, p.err())
		}
		for _, l := range strings.Split(p.out(), "\n") {
			if strings.HasPrefix(l, "Uid:") {
				return strings.Fields(l)[2], p
			}
		}
		return "", p
	}
	alone, _ := uid(program, "/proc/self/status")
	if alone != "1" {
		t.Skip("the bit does nothing here")
	}
	if with, p := uid(goprofPath, "run", program, "/proc/self/status"); with != "1" || strings.Contains(p.err(), "set-user-ID") {
		t.Errorf("as root: effective user %s, want 1\n%s", with, p.err())
	}
	with, p := uid("setpriv", "--reuid", fmt.Sprint(nobody), "--regid", fmt.Sprint(nobody), "--clear-groups", ours, "run", program, "/proc/self/status")
	if with != fmt.Sprint(nobody) || !strings.Contains(strings.Join(strings.Fields(p.err()), " "), "set-user-ID") {
		t.Errorf("as a plain user: effective user %s; said\n%s", with, p.err())
	}
}

// --- control groups ---

type cgroup struct {
	t           testing.TB
	dir         string
	file        string
	frozen, run string // what to write there
}

// freezers and throttles of both versions, where they are mounted here.
func cgroups(t testing.TB, kind string) (v []*cgroup) {
	t.Helper()
	candidates := map[string][]cgroup{
		"freeze": {
			{file: "cgroup.freeze", dir: "/sys/fs/cgroup", frozen: "1", run: "0"},
			{file: "cgroup.freeze", dir: "/sys/fs/cgroup/unified", frozen: "1", run: "0"},
			{file: "freezer.state", dir: "/sys/fs/cgroup/freezer", frozen: "FROZEN", run: "THAWED"},
		},
		"throttle": { // 1 ms in 200
			{file: "cpu.max", dir: "/sys/fs/cgroup", frozen: "1000 200000", run: "max 100000"},
			{file: "cpu.cfs_quota_us", dir: "/sys/fs/cgroup/cpu", frozen: "1000", run: "-1"},
		},
	}
	for _, c := range candidates[kind] {
		c := c
		c.t = t
		c.dir = filepath.Join(c.dir, fmt.Sprintf("goprof-live-%d-%s", os.Getpid(), kind))
		if os.Mkdir(c.dir, 0o755) != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(c.dir, c.file)); err != nil {
			os.Remove(c.dir)
			continue
		}
		v = append(v, &c)
		t.Cleanup(func() {
			for i := 0; i < 100 && os.Remove(c.dir) != nil; i++ {
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	if len(v) == 0 {
		t.Skip("no control groups to write to")
	}
	return
}

func (c *cgroup) write(file, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, file), []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// hold freezes or throttles a process; the end of the test lets it go.
func (c *cgroup) hold(p *process) {
	c.t.Helper()
	c.write("cgroup.procs", fmt.Sprint(p.pid))
	c.t.Cleanup(func() { os.WriteFile(filepath.Join(c.dir, c.file), []byte(c.run), 0o644) })
	c.write(c.file, c.frozen)
}

func (c *cgroup) letGo() { c.t.Helper(); c.write(c.file, c.run) }

// Shows: a process that is frozen before or while it is recorded holds nothing up, is not thawed, and goes on as if nothing
// had been when it is.
func TestFrozen(t *testing.T) {
	for _, c := range cgroups(t, "freeze") {
		c := c
		t.Run(c.file, func(t *testing.T) {
			p := startTarget(t, "1.26-sw", "busy", "-n", "3", "-dur", "2m")
			r := attached(t, p.pid, "--duration", "1500ms")
			time.Sleep(500 * time.Millisecond)
			c.hold(p)
			begin := time.Now()
			r.good(10 * time.Second)
			if took := time.Since(begin); took > 3*time.Second {
				t.Errorf("goprof ended after %v", took)
			}
			used := cpuTime(t, p.pid)
			r = attach(t, p.pid, 500*time.Millisecond)
			if !strings.Contains(r.err(), fmt.Sprintf("goprof: %d is frozen", p.pid)) {
				t.Errorf("not said:\n%s", r.err())
			}
			if text := dump(t, p.pid); !strings.Contains(text, "busy.Main()") {
				t.Errorf("dump:\n%s", text)
			}
			if now := cpuTime(t, p.pid); now > used+2*time.Millisecond { // what the kernel's own stops take
				t.Errorf("it ran for %v while it was frozen", now-used)
			}
			c.letGo()
			eventually(t, 5*time.Second, "the target goes on", func() bool { return cpuTime(t, p.pid) > used+50*time.Millisecond })
			eventually(t, 2*time.Second, "nothing is held", func() bool { return untouched(p.pid) == "" })
			attach(t, p.pid, 300*time.Millisecond)
			p.quit()
		})
	}
}

// Shows: a process that hardly ever has a core comes to its stops late; goprof ends in time and leaves nothing behind.
func TestThrottled(t *testing.T) {
	for _, c := range cgroups(t, "throttle") {
		c := c
		t.Run(c.file, func(t *testing.T) {
			p := startTarget(t, "1.26-sw", "busy", "-n", "3", "-dur", "2m")
			c.hold(p)
			begin := time.Now()
			r := attach(t, p.pid, 2*time.Second)
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("2 s took %v", took)
			}
			if cpu := r.profile().cpu(anySample); cpu > 300*time.Millisecond {
				t.Errorf("%v of CPU time", cpu)
			}
			c.letGo()
			used := cpuTime(t, p.pid)
			eventually(t, 5*time.Second, "the target goes on", func() bool { return cpuTime(t, p.pid) > used+100*time.Millisecond })
			if why := untouched(p.pid); why != "" {
				t.Error(why)
			}
			p.quit()
		})
	}
}

// Shows: goprof in a container that may use little CPU time says how much of that it takes.
func TestOwnQuota(t *testing.T) {
	for _, c := range cgroups(t, "throttle") {
		c := c
		t.Run(c.file, func(t *testing.T) {
			p := startTarget(t, "1.26-sw", "threads", "-n", "20", "-dur", "2m")
			limit := map[string]string{"cpu.max": "20000 100000", "cpu.cfs_quota_us": "20000"}[c.file]
			t.Cleanup(func() { os.WriteFile(filepath.Join(c.dir, c.file), []byte(c.run), 0o644) })
			if err := os.WriteFile(filepath.Join(c.dir, c.file), []byte(limit), 0o644); err != nil {
				t.Fatal(err)
			}
			// From its start: with real-time threads it might not be let in.
			r := start(t, []option{workdir(t.TempDir())}, "sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(c.dir, "cgroup.procs"),
				goprofPath, "attach", "-v", "--duration", "3s", fmt.Sprint(p.pid))
			if status := r.wait(20 * time.Second); status != 0 {
				t.Fatalf("status %d\n%s", status, tail(r.err()))
			}
			said := strings.Join(strings.Fields(r.err()), " ")
			if !strings.Contains(said, "% of what its cgroup may use") {
				t.Errorf("nothing said of a fifth of a core:\n%s", tail(r.err()))
			}
			// A fifth of three seconds.
			if granted := regexp.MustCompile(`CPU time our cgroup grants +(\d+) ms`).FindStringSubmatch(r.err()); granted == nil {
				t.Errorf("no figure of it:\n%s", r.err())
			} else if ms, _ := strconv.Atoi(granted[1]); ms < 590 || ms > 700 {
				t.Errorf("%d ms granted, not 600", ms)
			}
			p.quit()
		})
	}
}

// --- what goprof does not do ---

// Shows: the program that is looked at is never started, whatever is asked of it; nor is anything else.
func TestNeverExecuted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "starts")
	trace := []option{env("GOPROF_LIVE_CHILD=trace", "TRACE="+file)}
	starts := func() int {
		data, _ := os.ReadFile(file)
		return strings.Count(string(data), "\n")
	}
	p := start(t, trace, self(t))
	p.ready()
	for _, words := range [][]string{
		{"info", self(t)}, {"info", fmt.Sprint(p.pid)}, {"dump", fmt.Sprint(p.pid)},
		{"attach", "--duration", "300ms", "-o", dir + "/p.pb.gz", fmt.Sprint(p.pid)},
	} {
		g := start(t, trace, goprofPath, words...)
		if status := g.wait(20 * time.Second); status != 0 {
			t.Errorf("%v: status %d\n%s", words, status, g.err())
		}
		if n := starts(); n != 1 {
			t.Fatalf("%v: the target was started %d times", words, n)
		}
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		return
	}
	log := filepath.Join(dir, "calls")
	g := start(t, nil, strace, "-f", "-o", log, "-e", "trace=execve,execveat", goprofPath, "info", fmt.Sprint(p.pid))
	g.wait(20 * time.Second)
	data, _ := os.ReadFile(log)
	if n := strings.Count(string(data), "execve"); n != 1 { // its own
		t.Errorf("%d executions:\n%s", n, data)
	}
}

// Shows: an idle process has the memory it had before it was looked at, however many goroutines it has and however big its
// program is.
func TestMemoryOfIdle(t *testing.T) {
	idle := map[string]func(t *testing.T) int{
		"many goroutines": func(t *testing.T) int { return startTarget(t, "1.26-sw", "many", "-n", "8").pid },
		"server":          func(t *testing.T) int { return startTarget(t, "1.26-sw", "server", "-clients", "0", "-dur", "2m").pid },
		// The go command while it waits: a big program, stripped.
		"go command": func(t *testing.T) int {
			dir := t.TempDir()
			os.WriteFile(dir+"/x.go", []byte("package main\n\nfunc main() {}\n"), 0o644)
			stripped := dir + "/go"
			root := goroot(t, "1.26")
			tool := filepath.Join(root, "bin", "go")
			if out, err := exec.Command("strip", "-o", stripped, tool).CombinedOutput(); err != nil {
				t.Skipf("strip: %s", out)
			}
			settings := env(goSettings(root, "1.26", false, false)...)
			p := start(t, []option{workdir(dir), settings}, stripped, "run", "-exec", "sh -c 'exec sleep 60'", "x.go")
			eventually(t, 60*time.Second, "it waits for its child", func() bool {
				for _, child := range childrenOf(p.pid) {
					if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", child)); string(name) == "sleep\n" {
						return true
					}
				}
				return false
			})
			return p.pid
		},
	}
	for name, make := range idle {
		make := make
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			pid := make(t)
			time.Sleep(time.Second)
			size := func() int { return kilobytes(t, pid, "VmRSS") + kilobytes(t, pid, "VmSwap") }
			before := size()
			attach(t, pid, 2*time.Second)
			dump(t, pid)
			if grown := size() - before; grown > 1024 {
				t.Errorf("grown by %d kB, from %d", grown, before)
			}
		})
	}
}
