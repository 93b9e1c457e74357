// Programs that tests start, and what /proc says of them.
package live

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is a program that a test started. Its output goes to files: a reader is never in its way, and a child that
// outlives it holds nothing up.
type process struct {
	*exec.Cmd
	t    testing.TB
	dir  string        // new; its files go there
	done chan struct{} // closed when it has ended
	pid  int
}

type option func(*exec.Cmd)

func env(vars ...string) option { return func(c *exec.Cmd) { c.Env = append(c.Env, vars...) } }
func stdin(f *os.File) option   { return func(c *exec.Cmd) { c.Stdin = f } }
func stdout(f *os.File) option  { return func(c *exec.Cmd) { c.Stdout = f } }
func workdir(dir string) option { return func(c *exec.Cmd) { c.Dir = dir } }
func extra(f ...*os.File) option {
	return func(c *exec.Cmd) { c.ExtraFiles = append(c.ExtraFiles, f...) }
}
func attr(f func(*syscall.SysProcAttr)) option {
	return func(c *exec.Cmd) { f(c.SysProcAttr) }
}

// start starts a program in a process group of its own, with stdin from /dev/null. Whatever of it is alive at the
// end of the test is killed.
func start(t testing.TB, options []option, path string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(path, args...), t: t, dir: t.TempDir(), done: make(chan struct{})}
	p.Env = append(os.Environ(), mark)
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	for _, o := range options {
		o(p.Cmd)
	}
	if p.Stdout == nil {
		p.Stdout = p.create("stdout")
	}
	if p.Stderr == nil {
		p.Stderr = p.create("stderr")
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	p.pid = p.Process.Pid
	go func() {
		p.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		syscall.Kill(-p.pid, syscall.SIGKILL)
		p.Process.Kill()
		<-p.done
	})
	return p
}

func (p *process) create(name string) *os.File {
	f, err := os.Create(filepath.Join(p.dir, name))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { f.Close() })
	return f
}

func (p *process) text(name string) string {
	data, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}

func (p *process) out() string { return p.text("stdout") }
func (p *process) err() string { return p.text("stderr") }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait waits for its end and gives its exit status as a shell would: 128+n for signal n.
func (p *process) wait(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		p.t.Fatalf("%v: no end after %v; stderr:\n%s", p.Args, limit, tail(p.err()))
	}
	return statusOf(p.ProcessState)
}

func statusOf(state *os.ProcessState) int {
	if ws := state.Sys().(syscall.WaitStatus); ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// quit ends a target that has done its duty.
func (p *process) quit() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

func tail(s string) string {
	if len(s) > 3000 {
		return "..." + s[len(s)-3000:]
	}
	return s
}

// eventually waits until ok says so.
func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not after %v: %s", limit, what)
		}
	}
}

// --- targets ---

// startTarget starts a target and waits until it says that it can be looked at.
func startTarget(t testing.TB, build string, args ...string) *process {
	t.Helper()
	return startProgram(t, target(build), args...)
}

// startProgram is the same for a build that lies elsewhere.
func startProgram(t testing.TB, path string, args ...string) *process {
	t.Helper()
	dump := filepath.Join(t.TempDir(), "dump")
	p := start(t, []option{env("ODD_DUMP=" + dump)}, path, args...)
	p.ready()
	return p
}

func (p *process) ready() {
	p.t.Helper()
	eventually(p.t, 20*time.Second, fmt.Sprint(p.Args, " says READY"), func() bool {
		if p.ended() {
			p.t.Fatalf("%v ended with status %d before it was ready:\n%s", p.Args, statusOf(p.ProcessState), tail(p.err()))
		}
		return strings.Contains(p.err(), "READY ")
	})
}

var readyLine = regexp.MustCompile(`READY pid=(\d+)`)

// readyPid is the pid that the target below this process has told.
func (p *process) readyPid() int {
	m := readyLine.FindStringSubmatch(p.err())
	if m == nil {
		p.t.Fatalf("%v: no READY line", p.Args)
	}
	pid, _ := strconv.Atoi(m[1])
	return pid
}

// dumped asks a target for its own view of itself: debug=2 and debug=1.
func (p *process) dumped() (string, string) {
	p.t.Helper()
	name := ""
	for _, v := range p.Env {
		if strings.HasPrefix(v, "ODD_DUMP=") {
			name = strings.TrimPrefix(v, "ODD_DUMP=")
		}
	}
	os.Remove(name)
	os.Remove(name + ".1")
	p.signal(syscall.SIGUSR1)
	var texts [2]string
	for i, suffix := range []string{"", ".1"} {
		eventually(p.t, 20*time.Second, "dump of the target itself", func() bool {
			data, err := os.ReadFile(name + suffix)
			texts[i] = string(data)
			return err == nil
		})
	}
	return texts[0], texts[1]
}

// truth gives the number behind key= in the TRUTH lines that contain line.
func truth(t testing.TB, text, line, key string) float64 {
	t.Helper()
	value := -1.0
	for _, l := range strings.Split(text, "\n") {
		if !strings.HasPrefix(l, "TRUTH") || !strings.Contains(l, line) {
			continue
		}
		for _, word := range strings.Fields(l) {
			if strings.HasPrefix(word, key+"=") {
				number := strings.TrimRight(strings.TrimPrefix(word, key+"="), "%;,)")
				if v, err := strconv.ParseFloat(number, 64); err == nil {
					value = v
				}
			}
		}
	}
	if value < 0 {
		t.Fatalf("no %s= in a TRUTH line with %q:\n%s", key, line, tail(text))
	}
	return value
}

// --- /proc ---

// field reads "Name: value" of /proc/PID/status or of one of its tasks.
func field(pid int, task, name string) string {
	path := fmt.Sprintf("/proc/%d/status", pid)
	if task != "" {
		path = fmt.Sprintf("/proc/%d/task/%s/status", pid, task)
	}
	data, _ := os.ReadFile(path)
	for _, line := range strings.Split(string(data), "\n") {
		if strings.HasPrefix(line, name+":") {
			return strings.TrimSpace(strings.TrimPrefix(line, name+":"))
		}
	}
	return ""
}

// state is the letter of a process or of one of its tasks: R, S, T, t...; "" when it is gone.
func state(pid int, task string) string {
	if s := field(pid, task, "State"); s != "" {
		return s[:1]
	}
	return ""
}

func tasks(pid int) (tids []string) {
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, e := range entries {
		tids = append(tids, e.Name())
	}
	return
}

// untouched says what of a process shows that a tracer is or was there: "" if nothing does.
func untouched(pid int) string {
	tids := tasks(pid)
	if len(tids) == 0 {
		return "the process is gone"
	}
	for _, tid := range tids {
		if tracer := field(pid, tid, "TracerPid"); tracer != "0" && tracer != "" {
			return "task " + tid + " is traced by " + tracer
		}
		if s := state(pid, tid); s == "T" || s == "t" {
			return "task " + tid + " is in state " + s
		}
	}
	return ""
}

func kilobytes(t testing.TB, pid int, name string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSuffix(field(pid, "", name), " kB"))
	if err != nil {
		t.Fatalf("%s of %d: %v", name, pid, err)
	}
	return n
}
