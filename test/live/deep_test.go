// Deep stacks: whole where they fit, and where they do not both ends with one mark between them, in every output.
package live

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const gapMark = "[gap]"

// isDeep says that it belongs to one of the goroutines of the target that recurse.
func isDeep(stack []string) bool {
	for _, f := range stack {
		if strings.HasPrefix(f, pkg+"deep.") && f != pkg+"deep.Main" {
			return true
		}
	}
	return false
}

// deepStacks collects the stacks of the recursing goroutines, from the pprof file and the envelopes.
func deepStacks(t testing.TB, r *recording) map[string][][]string {
	stacks := map[string][][]string{}
	p := r.profile()
	for i := range p.samples {
		if s := p.samples[i].stack; isDeep(s) {
			stacks["pprof"] = append(stacks["pprof"], s)
		}
	}
	for _, e := range r.envelopes() {
		for _, st := range e.times(t) {
			if isDeep(st.stack) {
				stacks["envelope"] = append(stacks["envelope"], st.stack)
			}
		}
	}
	return stacks
}

// counted is what a stack of the target consists of, in the order that the target says.
type counted struct{ leaf, deep, gaps, root int }

// count goes through a stack from its leaf and fails at the first frame out of order.
func count(t testing.TB, stack []string) (c counted) {
	t.Helper()
	before := ""
	for i, f := range stack {
		name := strings.TrimPrefix(f, pkg+"deep.")
		switch {
		case f == gapMark:
			c.gaps++
		case name == "rec" || name == "even" || name == "odd":
			c.deep++
			if name == "even" && before == "even" || name == "odd" && before == "odd" {
				t.Errorf("frame %d: %s called by %s", i, before, name)
			}
			if c.root > 0 {
				t.Errorf("frame %d: %s above the root", i, f)
			}
		case name == "first" || name == "second" || f == "runtime.goexit":
			c.root++
		case c.deep > 0:
			t.Errorf("frame %d: %s in the middle of a recursion", i, f)
		default:
			c.leaf++
		}
		before = name
	}
	return
}

// deepBuilds: with old frames and new ones.
func deepBuilds() []string {
	if testing.Short() {
		return eachVersion
	}
	return append([]string{"1.19-plain", "1.26-sw", "1.26-pie-sw", "1.26-cgo-sw"}, moreBuilds()...)
}

// Shows: a recursion of a thousand calls is whole at --depth 4096, parked and in a system call, down to the last frame.
func TestDeepWhole(t *testing.T) {
	t.Parallel()
	each(t, deepBuilds(), false, func(t *testing.T, build string) {
		for _, leaf := range []string{"parked", "blocked"} {
			p := startTarget(t, build, "deep", "-n", "1000", "-leaf", leaf, "-dur", "1m")
			r := attach(t, p.pid, time.Second, "--depth", "4096")
			p.quit()
			for from, stacks := range deepStacks(t, r) {
				if len(stacks) < 2 {
					t.Errorf("%s, %s: %d deep stacks", leaf, from, len(stacks))
				}
				for _, s := range stacks {
					c, want := count(t, s), 1000
					if s[len(s)-2] == pkg+"deep.second" {
						want = int(truth(t, p.out(), "deep.rec", "deep.even") + truth(t, p.out(), "deep.rec", "deep.odd"))
					}
					if c.deep != want || c.gaps != 0 || c.root != 2 || c.leaf == 0 {
						t.Errorf("%s, %s: %+v, want %d deep frames", leaf, from, c, want)
					}
				}
			}
		}
	})
}

// Shows: stacks deeper than the limit keep both ends around one mark: leaf and root are there, and all of it in order.
// At the default depth, for goroutines that are parked, in a system call, and running.
func TestDeepEnds(t *testing.T) {
	each(t, deepBuilds(), true, func(t *testing.T, build string) {
		for _, leaf := range []string{"parked", "blocked", "runs"} {
			for _, n := range []int{100000, 1000} {
				if testing.Short() && n < 100000 {
					continue
				}
				p := startTarget(t, build, "deep", "-n", fmt.Sprint(n), "-leaf", leaf, "-dur", "1m")
				r := attach(t, p.pid, 1500*time.Millisecond)
				p.quit()
				all := deepStacks(t, r)
				for _, from := range []string{"pprof", "envelope"} {
					checkEnds(t, fmt.Sprintf("%s, %d, %s", leaf, n, from), all[from], leaf)
				}
				if wrong := r.profile().figure(t, "call sites wrong"); wrong != 0 {
					t.Errorf("%s, %d: %.0f wrong call sites", leaf, n, wrong)
				}
			}
		}
	})
}

func checkEnds(t *testing.T, what string, stacks [][]string, leaf string) {
	t.Helper()
	roots := map[string]int{}
	for _, s := range stacks {
		c := count(t, s)
		if c.gaps != 1 || c.root != 2 || c.leaf == 0 || c.deep < 40 || s[len(s)-1] != "runtime.goexit" {
			t.Errorf("%s: %+v of %d frames; leaf %s, root %s", what, c, len(s), s[0], s[len(s)-1])
			continue
		}
		near := 0
		for s[near] != gapMark {
			near++
		}
		if far := len(s) - near - 1; near < 20 || far < 10 || len(s) > 512+8 { // inlined ones come on top
			t.Errorf("%s: %d frames, %d at the leaf, %d at the root", what, len(s), near, far)
		}
		if !(&sample{stack: s}).has(pkg + "deep." + leaf) {
			t.Errorf("%s: no deep.%s", what, leaf)
		}
		roots[s[len(s)-2]]++
	}
	if roots[pkg+"deep.first"] == 0 || roots[pkg+"deep.second"] == 0 {
		t.Errorf("%s: roots %v of %d stacks", what, roots, len(stacks))
	}
}

var elidedFrames = regexp.MustCompile(`(?m)^\.\.\.(\d+) frames elided\.\.\.$`)

// Shows: a dump says how many frames it leaves out, exactly, of a hundred thousand; of five million, that there are more.
func TestDeepDump(t *testing.T) {
	each(t, []string{"1.26-sw", "1.19-plain"}, false, func(t *testing.T, build string) {
		const n = 100000
		p := startTarget(t, build, "deep", "-n", fmt.Sprint(n), "-dur", "1m")
		text := dump(t, p.pid)
		p.quit()
		for _, g := range parseStacks(t, elidedFrames.ReplaceAllString(text, "...")) {
			if len(g.frames) > 2 && (g.in(pkg+"deep.first") || g.in(pkg+"deep.second")) && g.in(pkg+"deep.parked") && len(g.frames) != 100 {
				t.Errorf("goroutine %s: %d frames", g.id, len(g.frames))
			}
		}
		var left []int
		for _, m := range elidedFrames.FindAllStringSubmatch(text, -1) {
			v, _ := strconv.Atoi(m[1])
			left = append(left, v)
		}
		// n, the function that begins it and the one that waits; in the other goroutine one more.
		if want := []int{n + 2 - 100, n + 3 - 100}; minorOf(versionOf(build)) >= 21 && fmt.Sprint(left) != fmt.Sprint(want) {
			t.Errorf("%v frames elided, want %v", left, want)
		}
	})
}

// Shows: a stack of 160 MB is a goroutine like any other: listed, soon, with both ends, in little memory.
func TestDeepest(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	const build = "1.26-sw"
	p := startTarget(t, build, "deep", "-n", "5000000", "-one", "-dur", "2m")
	defer p.quit()
	begin := time.Now()
	g := start(t, nil, goprofPath, "dump", fmt.Sprint(p.pid))
	if status := g.wait(30 * time.Second); status != 0 {
		t.Fatalf("status %d\n%s", status, tail(g.err()))
	}
	usage := g.ProcessState.SysUsage()
	t.Logf("dumped in %v", time.Since(begin))
	if kb := usage.(*syscall.Rusage).Maxrss; kb > 100<<10 {
		t.Errorf("goprof took %d KB for it", kb)
	}
	text := g.out()
	if !strings.Contains(text, "deep.parked(") || !strings.Contains(text, "deep.first(") {
		t.Errorf("an end is missing:\n%.3000s", text)
	}
	if !strings.Contains(text, "...additional frames elided...\n\t(") || !strings.Contains(text, "KiB of its stack between these frames were not read)") {
		t.Error("no mark")
	}
	r := attach(t, p.pid, 1500*time.Millisecond)
	p.quit()
	for from, stacks := range deepStacks(t, r) {
		for _, s := range stacks {
			if c := count(t, s); c.gaps != 1 || c.root != 2 || c.leaf == 0 {
				t.Errorf("%s: %+v", from, c)
			}
		}
	}
}
