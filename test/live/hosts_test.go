// Programs in which Go comes otherwise than as the executable: built from test/hosts by gcc and the go command.
package live

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func hostSource(name string) string { return filepath.Join(rootDir, "test", "hosts", name) }

func must(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, tail(string(text)))
	}
}

// cHost compiles test/hosts/NAME.c.
func cHost(t testing.TB, name string, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), name)
	must(t, exec.Command("gcc", append([]string{"-O1", "-Wall", "-o", out, hostSource(name + ".c")}, flags...)...))
	return out
}

// goHost builds a package of a module with cgo, in dir, by the toolchain of a version.
func goHost(t testing.TB, version, dir, out string, args ...string) {
	t.Helper()
	if version != "1.19" || len(args) > 0 {
		args = append([]string{"-buildvcs=false"}, args...)
	}
	goBuild{version: version, dir: dir, cgo: true, args: args}.into(t, out)
}

// copyProgram copies a program. Not by this process: a child that it starts meanwhile would keep the file open for
// writing, and such a file cannot be executed.
func copyProgram(t testing.TB, from, to string) {
	t.Helper()
	must(t, exec.Command("cp", from, to))
}

// startHost starts a program below which a target runs and waits until that can be looked at.
func startHost(t testing.TB, options []option, path string, args ...string) *process {
	t.Helper()
	p := start(t, append(options, env("ODD_DUMP="+filepath.Join(t.TempDir(), "dump"))), path, args...)
	p.ready()
	return p
}

// sameAsItself compares what goprof dump says with the target's own view.
func sameAsItself(t *testing.T, p *process, least, busy int, options ...string) {
	t.Helper()
	before, _ := p.dumped()
	text := dump(t, p.pid, options...)
	after, _ := p.dumped()
	if n := compareDumps(t, before, text, after, busy); n < least {
		t.Errorf("%d parked goroutines compared, want at least %d", n, least)
	}
	if why := untouched(p.pid); why != "" {
		t.Error(why)
	}
}

// foundIn is what goprof info says about where Go was found.
func foundIn(t testing.TB, pid int, options ...string) string {
	t.Helper()
	p := start(t, nil, goprofPath, append(append([]string{"info"}, options...), fmt.Sprint(pid))...)
	if status := p.wait(20 * time.Second); status != 0 {
		t.Fatalf("goprof info: status %d\n%s", status, p.err())
	}
	for _, line := range strings.Split(p.out(), "\n") {
		if i := strings.Index(line, "Go found in"); i >= 0 {
			return strings.TrimSpace(line[i+len("Go found in"):])
		}
	}
	t.Fatalf("goprof info does not say where it found Go:\n%s", p.out())
	return ""
}

// functions counts the frames of each function in a dump.
func functions(t testing.TB, text string) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, g := range parseStacks(t, text) {
		for _, f := range g.frames {
			n[f.function]++
		}
	}
	return n
}
