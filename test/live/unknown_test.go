// Versions that goprof has no layout for, or the wrong one: copies of the targets whose version text was overwritten.
// The rest of them is as it was, so the runtime's own dumps and the layout of the true version say what is right.
package live

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// newest stands for a version that nobody knows yet.
const newest = "99"

// notItsOwn gives a minor version whose layout is another one: an older one where there is any.
func notItsOwn(build string) string {
	minor, _, _ := strings.Cut(strings.TrimPrefix(build, "1."), "-")
	if minor <= "18" {
		return "22"
	}
	if minor <= "22" {
		return "17"
	}
	return "22"
}

// disguised copies a build, says that it is of another minor version, and takes functions' names away.
func disguised(t testing.TB, build, minor string, nameless ...string) string {
	t.Helper()
	data, err := os.ReadFile(target(build))
	if err != nil {
		t.Fatal(err)
	}
	old := regexp.MustCompile(fmt.Sprintf(`go1\.%d\.\d+`, minorOf(build))).Find(data)
	if old == nil {
		t.Fatalf("%s: no version text", build)
	}
	text := "go1." + minor + "."
	text += strings.Repeat("1", len(old)-len(text))
	data = bytes.ReplaceAll(data, old, []byte(text))
	for _, name := range nameless {
		whole := []byte("\x00" + name + "\x00")
		if !bytes.Contains(data, whole) {
			t.Fatalf("%s: no function %s", build, name)
		}
		data = bytes.ReplaceAll(data, whole, []byte("\x00"+strings.Repeat("?", len(name))+"\x00"))
	}
	path := filepath.Join(t.TempDir(), "targets-"+build+"-as-"+minor)
	syscall.ForkLock.RLock() // a child that is born meanwhile would have it open for writing: "text file busy"
	err = os.WriteFile(path, data, 0o777)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func startDisguised(t testing.TB, path string, args ...string) *process {
	t.Helper()
	p := start(t, []option{env("ODD_DUMP=" + filepath.Join(t.TempDir(), "dump"))}, path, args...)
	p.ready()
	return p
}

func info(t testing.TB, of string) string {
	t.Helper()
	p := start(t, nil, goprofPath, "info", "-v", of)
	if status := p.wait(20 * time.Second); status != 0 {
		t.Fatalf("goprof info -v %s: status %d\n%s", of, status, tail(p.err()))
	}
	return p.out()
}

var memberLine = regexp.MustCompile(`(?m)^ +(runtime\.\w+\.\S+) +offset (\d+), \d+ bytes +\((.*)\)$`)

// members gives "offset (source)" of each member that is known.
func members(text string) map[string][2]string {
	v := map[string][2]string{}
	for _, m := range memberLine.FindAllStringSubmatch(text, -1) {
		v[m[1]] = [2]string{m[2], m[3]}
	}
	return v
}

// What goprof cannot do without, and what a program with labels, goroutines that wait and time to read shows.
var needed = []string{
	"g.stack.lo", "g.stack.hi", "g.m", "g.sched.sp", "g.sched.pc", "g.sched.g", "g.sched.bp", "g.atomicstatus", "g.goid",
	"g.startpc", "g.gopc", "g.waitreason", "g.labels", "g.syscallsp", "g.syscallpc", "m.g0", "m.procid", "m.gsignal", "m.curg",
	"m.alllink", "m.vdsoSP", "m.vdsoPC", "moduledata.gofunc",
}

// compareMembers: what was found is what the true version has.
func compareMembers(t *testing.T, build, found string) {
	t.Helper()
	truth, got := members(info(t, target(build))), members(found)
	for name, v := range got {
		if truth[name][0] != v[0] {
			t.Errorf("%s: offset %s by %s, but it is %q", name, v[0], v[1], truth[name][0])
		}
		if v[1] == "table" && !strings.HasPrefix(name, "runtime.moduledata.") {
			t.Errorf("%s comes from the table of a version that this is not", name)
		}
	}
	for _, name := range needed {
		if got["runtime."+name][0] == "" && truth["runtime."+name][0] != "" {
			t.Errorf("%s was not found", name)
		}
	}
	if strings.Contains(found, "RESTRICTED") {
		t.Errorf("restricted:\n%s", tail(found))
	}
}

// knownBuilds are those whose dumps can be compared. In older ones nothing but the version tells which functions are
// wrappers (1.17) and which have arguments (1.16).
func knownBuilds() []string {
	builds := allBuilds
	if testing.Short() {
		return builds
	}
	for _, build := range moreBuilds() {
		if build >= "1.18" {
			builds = append(builds, build)
		}
	}
	return builds
}

// Shows: of the oldest versions, too, nothing is claimed that is not so.
func TestUnknownVersionOldest(t *testing.T) {
	for _, build := range []string{"1.15-plain", "1.16-plain", "1.17-plain"} {
		build := build
		t.Run(build, func(t *testing.T) {
			if _, err := os.Stat(target(build)); err != nil {
				t.Skip("not built: ", err)
			}
			t.Parallel()
			p := startDisguised(t, disguised(t, build, newest), "labels", "-dur", "1m")
			compareMembers(t, build, info(t, fmt.Sprint(p.pid)))
			dump(t, p.pid)
			p.quit()
		})
	}
}

// Shows: a program of a version without a layout, or with a wrong one, is read as right as under its own name: all
// members that are claimed are right, and the dump is the runtime's own.
func TestUnknownVersion(t *testing.T) {
	each(t, knownBuilds(), true, func(t *testing.T, build string) {
		for _, minor := range []string{newest, notItsOwn(build)} {
			path := disguised(t, build, minor)
			p := startDisguised(t, path, "labels", "-dur", "1m")
			compareMembers(t, build, info(t, fmt.Sprint(p.pid)))
			before, _ := p.dumped()
			text := dump(t, p.pid)
			after, _ := p.dumped()
			if n := compareDumps(t, before, text, after, 0); n < 53 {
				t.Errorf("as 1.%s: %d parked goroutines compared", minor, n)
			}
			if why := untouched(p.pid); why != "" {
				t.Error("after the dump: " + why)
			}
			p.quit()
		}
	})
}

// Shows: wait reasons, inlined calls, wrappers and generic functions of an unknown version are told as the runtime does.
func TestUnknownVersionNames(t *testing.T) {
	t.Parallel()
	for target, least := range map[string]int{"names": 16, "waitreasons": 200, "generics": 9} {
		target, least := target, least
		t.Run(target, func(t *testing.T) {
			each(t, knownBuilds(), true, func(t *testing.T, build string) {
				p := startDisguised(t, disguised(t, build, newest), target, "-dur", "1m")
				before, _ := p.dumped()
				text := dump(t, p.pid)
				after, _ := p.dumped()
				if n := compareDumps(t, before, text, after, 0); n < least {
					t.Errorf("%d parked goroutines compared, want %d", n, least)
				}
				p.quit()
			})
		})
	}
}

// Shows: where the process can prove nothing (gopark cannot be found), the program's debug information does.
func TestUnknownVersionDebugInformation(t *testing.T) {
	builds := []string{}
	for _, build := range knownBuilds() {
		if strings.HasSuffix(build, "-plain") {
			builds = append(builds, build)
		}
	}
	each(t, builds, true, func(t *testing.T, build string) {
		p := startDisguised(t, disguised(t, build, newest, "runtime.gopark"), "labels", "-dur", "1m")
		found := info(t, fmt.Sprint(p.pid))
		compareMembers(t, build, found)
		for name, v := range members(found) {
			if !strings.HasPrefix(name, "runtime.moduledata.") && v[1] != "debug information" {
				t.Errorf("%s by %s", name, v[1])
			}
		}
		before, _ := p.dumped()
		text := dump(t, p.pid)
		after, _ := p.dumped()
		if n := compareDumps(t, before, strings.ReplaceAll(text, "??????????????", "runtime.gopark"), after, 0); n < 53 {
			t.Errorf("%d parked goroutines compared", n)
		}
		p.quit()
	})
}

var searched = regexp.MustCompile(`(?m)^ +(runtime\.\w+) +(0x[0-9a-f]+) +\(search in data\)$`)

// Shows: where neither symbols nor code tell, the runtime's variables are found in the data of the process.
func TestUnknownVersionVariables(t *testing.T) {
	builds := []string{}
	for _, build := range allBuilds {
		if strings.HasSuffix(build, "-sw") && !strings.Contains(build, "pie") {
			builds = append(builds, build)
		}
	}
	each(t, builds, true, func(t *testing.T, build string) {
		path := disguised(t, build, newest, "runtime.allgadd", "runtime.forEachGRace", "runtime.mcommoninit",
			"runtime.waitReason.String")
		p := startDisguised(t, path, "labels", "-dur", "1m")
		found := info(t, fmt.Sprint(p.pid))
		compareMembers(t, build, found)
		truth, got := addresses(t, target(build)), map[string]string{}
		for _, m := range searched.FindAllStringSubmatch(found, -1) {
			got[m[1]] = m[2]
		}
		for _, name := range []string{"runtime.allgs", "runtime.allm", "runtime.waitReasonStrings"} {
			if got[name] == "" || got[name] != truth[name] {
				t.Errorf("%s: found at %q, is at %s", name, got[name], truth[name])
			}
		}
		before, _ := p.dumped()
		text := dump(t, p.pid)
		after, _ := p.dumped()
		if n := compareDumps(t, before, text, after, 0); n < 53 {
			t.Errorf("%d parked goroutines compared", n)
		}
		p.quit()
	})
}

// Shows: where nothing can be proved, goprof says so, tells threads and no goroutines, or refuses if it is asked to.
func TestRestricted(t *testing.T) {
	each(t, []string{"1.19-sw", "1.26-sw", "1.26-pie-sw"}, true, func(t *testing.T, build string) {
		path := disguised(t, build, newest, "runtime.main", "runtime.gopark", "runtime.allgadd", "runtime.mcommoninit",
			"runtime.systemstack", "runtime.newproc", "runtime.forEachGRace", "runtime.waitReason.String")
		p := startDisguised(t, path, "busy", "-dur", "1m")
		found := info(t, fmt.Sprint(p.pid))
		if !strings.Contains(found, "RESTRICTED") {
			t.Errorf("not restricted:\n%s", tail(found))
		}
		for name, v := range members(found) {
			if !strings.HasPrefix(name, "runtime.moduledata.") {
				t.Errorf("%s at %s by %s", name, v[0], v[1])
			}
		}
		for _, args := range [][]string{{"dump"}, {"attach", "--strict"}} {
			g := start(t, []option{workdir(t.TempDir())}, goprofPath, append(args, fmt.Sprint(p.pid))...)
			if status := g.wait(20 * time.Second); status != 65 || !strings.Contains(g.err(), "does not fit") {
				t.Errorf("%v: status %d, want 65; said\n%s", args, status, g.err())
			}
		}
		if why := untouched(p.pid); why != "" {
			t.Error(why)
		}
		p.quit()
	})
}

// Shows: a program that is run from its first instruction on is waited for, not judged too early.
func TestUnknownVersionFromTheStart(t *testing.T) {
	each(t, eachVersion, true, func(t *testing.T, build string) {
		path := disguised(t, build, newest)
		g := start(t, []option{workdir(t.TempDir())}, goprofPath, "run", "--strict", "-o", "out.pb.gz", path, "busy", "-dur", "3s")
		if status := g.wait(60 * time.Second); status != 0 {
			t.Errorf("status %d\n%s", status, tail(g.err()))
		}
		if strings.Contains(strings.ToLower(g.err()), "restricted") {
			t.Errorf("said\n%s", tail(g.err()))
		}
	})
}
