// goprof dump against the runtime's own dump.
package live

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// dump runs goprof dump; what it says on stderr must be one sentence.
func dump(t testing.TB, pid int, options ...string) string {
	t.Helper()
	p := start(t, nil, goprofPath, append(append([]string{"dump"}, options...), fmt.Sprint(pid))...)
	if status := p.wait(20 * time.Second); status != 0 {
		t.Fatalf("goprof dump: status %d\n%s", status, tail(p.err()))
	}
	if said := p.err(); !strings.HasPrefix(said, "goprof: ") || strings.Count(said, "\n") != 1+strings.Count(said, "\n        ") {
		t.Errorf("goprof dump says %q", said)
	}
	return p.out()
}

// oracle: a goroutine of the target's own view, which works while it makes a dump.
func (g *goroutine) isOracle() bool {
	return strings.HasSuffix(g.creator.function, "/oracle.Start") || strings.HasPrefix(g.creator.function, "os/signal.")
}

// parked: its stack is at rest. System calls are: one that moved differs between the two dumps of the target.
func (g *goroutine) parked() bool { return g.state != "running" && g.state != "runnable" }

// Shows: every parked goroutine of a dump is that of the runtime's own traceback: id, state, wait reason, locked,
// functions with inlined ones and generic arguments, file and line, offset, creator and its goroutine. The dump of
// goprof lies between two of the target; goroutines that are the same in both must be the same in it.
func TestDump(t *testing.T) {
	t.Parallel()
	builds := allBuilds
	if !testing.Short() {
		builds = append(builds, moreBuilds()...)
	}
	for _, c := range []struct {
		target string
		least  int // goroutines that must have been compared
		busy   int // goroutines that do not rest, even if both dumps happen to find them at the same place
		since  int // Go 1.since
	}{
		{"names", 16, 0, 0}, {"waitreasons", 211, 0, 0}, {"labels", 53, 0, 0}, {"generics", 9, 0, 18}, {"echo", 202, 2, 0},
	} {
		c := c
		t.Run(c.target, func(t *testing.T) {
			each(t, builds, true, func(t *testing.T, build string) {
				if minorOf(versionOf(build)) < c.since {
					t.Skip("the language does not have it")
				}
				p := startTarget(t, build, c.target, "-dur", "1m")
				n := 0
				// One that has only just been made may still be on its way when the target looks first.
				for try := 0; try < 3 && n < c.least && !t.Failed(); try++ {
					before, _ := p.dumped()
					text := dump(t, p.pid)
					after, _ := p.dumped()
					n = compareDumps(t, before, text, after, c.busy)
				}
				if n < c.least {
					t.Errorf("%d parked goroutines compared, want at least %d", n, c.least)
				}
				if why := untouched(p.pid); why != "" {
					t.Error("after the dump: " + why)
				}
				p.quit()
			})
		})
	}
}

// inlinedRuntime are frames of the runtime that only Go 1.15 shows: it asks whether to hide an inlined function by the name
// of the function that holds it. goprof hides them as all later versions do.
var inlinedRuntime = regexp.MustCompile(`(?m)^runtime\.[a-z]\w*\(\.\.\.\)\n\t.*\n`)

func compareDumps(t *testing.T, before, text, after string, busy int) (compared int) {
	t.Helper()
	before, after = inlinedRuntime.ReplaceAllString(before, ""), inlinedRuntime.ReplaceAllString(after, "")
	own := parseStacks(t, text)
	ours, second := byID(own), byID(parseStacks(t, after))
	if len(ours) != len(own) {
		t.Errorf("%d goroutines, but %d ids", len(own), len(ours))
	}
	wrong, told := 0, []string{}
	complain := func(id, what string) {
		if wrong++; wrong <= 5+busy {
			told = append(told, fmt.Sprintf("goroutine %s: %s", id, what))
		}
	}
	first := byID(parseStacks(t, before))
	for id, g := range first {
		again := second[id]
		if again == nil || !g.parked() || g.differs(again) != "" {
			continue
		}
		o := ours[id]
		switch {
		case o == nil:
			complain(id, "is missing")
		case o.differs(g) != "" && (!g.isOracle() || o.parked()):
			complain(id, "goprof and the runtime: "+o.differs(g))
		default:
			compared++
		}
	}
	for id, g := range ours {
		if first[id] == nil && second[id] == nil {
			complain(id, fmt.Sprintf("does not exist (%s, created by %v)", g.state, g.creator))
		}
	}
	if wrong > busy {
		t.Errorf("%d goroutines are wrong:\n%s", wrong, strings.Join(told, "\n"))
	}
	return
}

// Shows: the labels of a dump are those of the runtime's own profile, for each stack.
func TestDumpLabels(t *testing.T) {
	builds := allBuilds
	if !testing.Short() {
		builds = append(builds, moreBuilds()...)
	}
	each(t, builds, true, func(t *testing.T, build string) {
		p := startTarget(t, build, "labels", "-dur", "1m")
		_, truth := p.dumped()
		if plain := dump(t, p.pid); strings.Contains(plain, "] {") {
			t.Error("labels in a dump that did not ask for them")
		}
		text := dump(t, p.pid, "--labels")
		p.quit()

		compareLabels(t, truth, text)
	})
}

// compareLabels holds the labels of a dump against those of the runtime's own profile (debug=1).
func compareLabels(t *testing.T, truth, text string) {
	t.Helper()
	want, got := parseLabelled(t, truth), map[labelled]int{}
	for _, g := range parseStacks(t, text) {
		kind := labelled{labels: parseLabels(t, g.labels)}
		for _, f := range g.frames {
			kind.stack += f.function + " " + f.place + "\n"
		}
		got[kind]++
	}
	parks := 0
	for kind, n := range want {
		if !strings.Contains(kind.stack, "labels.park ") {
			continue
		}
		parks += n
		if got[kind] != n {
			t.Errorf("%d goroutines with labels %.300s, want %d, at\n%s", got[kind], kind.labels, n, kind.stack)
		}
	}
	if parks != 52 {
		t.Errorf("the target has %d goroutines in labels.park", parks)
	}
}

// tooOld makes a program of a version that goprof does not know: a build that says another one in its build information
// (whose text is of the same length) and in the string behind runtime.buildVersion.
func tooOld(t *testing.T) string {
	data, err := os.ReadFile(target("1.19-plain"))
	if err != nil {
		t.Fatal(err)
	}
	was := regexp.MustCompile(`go1\.19\.\d+`).Find(data)
	is := append([]byte("go1.11"), was[len("go1.19"):]...)
	path := filepath.Join(t.TempDir(), "old")
	if err := os.WriteFile(path, bytes.ReplaceAll(data, was, is), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// Shows: a Go program of a version that goprof does not know is refused in words, and left alone.
func TestTooOld(t *testing.T) {
	t.Parallel()
	p := startProgram(t, tooOld(t), "labels", "-dur", "1m")
	for _, command := range []string{"attach", "dump"} {
		g := start(t, []option{workdir(t.TempDir())}, goprofPath, command, fmt.Sprint(p.pid))
		if status := g.wait(20 * time.Second); status != 65 || !strings.Contains(g.err(), "go1.11") {
			t.Errorf("%s: status %d, want 65; said\n%s", command, status, g.err())
		}
	}
	if why := untouched(p.pid); why != "" {
		t.Error(why)
	}
}
