// Programs as they are shipped, against the traceback that each prints when it dies.
package live

import (
	"bytes"
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

// realPaths runs scripts/real-programs: the programs that are there, by name, and why others are not. -short fetches
// nothing.
func realPaths(t testing.TB, names ...string) (paths, missing map[string]string) {
	t.Helper()
	var args []string
	if testing.Short() {
		args = append(args, "--cached")
	}
	cmd := exec.Command(filepath.Join(rootDir, "scripts", "real-programs"), append(append(args, filepath.Join(cacheDir(), "real")), names...)...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, said.String())
	}
	paths, missing = map[string]string{}, map[string]string{}
	for _, line := range strings.Split(string(out), "\n") {
		if f := strings.Fields(line); len(f) == 3 {
			paths[f[0]] = f[2]
		}
	}
	for _, line := range strings.Split(said.String(), "\n") {
		if name, why, ok := strings.Cut(strings.TrimPrefix(line, "SKIP "), ": "); ok {
			missing[name] = why
		}
	}
	return
}

// Shows: goprof reads programs as they are shipped, of every Go version that it knows: info tells what the go command
// tells, a profile under load is complete and passes the audit, and a dump is what the program itself prints when it
// dies a moment later.
func TestRealPrograms(t *testing.T) {
	var names []string
	if testing.Short() {
		names = shortPrograms
	}
	paths, missing := realPaths(t, names...)
	for _, r := range realPrograms {
		r := r
		if wanted := len(names) == 0; !wanted && !strings.Contains(" "+strings.Join(names, " ")+" ", " "+r.name+" ") {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			path := paths[r.name]
			if path == "" {
				t.Skip("not there: ", missing[r.name])
			}
			t.Parallel()
			checkInfo(t, path)
			recordReal(t, &r, path)
			compareDeath(t, &r, path)
		})
	}
}

// --- info ---

var (
	infoVersion    = regexp.MustCompile(`(?m)^  Go version +(go\S+)`)
	infoMode       = regexp.MustCompile(`(?m)^  -buildmode +(\S+)`)
	buildMode      = regexp.MustCompile(`(?m)^\tbuild\t-buildmode=(\S+)`)
	infoFixed      = regexp.MustCompile(`(?m)^  addresses +(fixed|position independent),`)
	refusedVersion = regexp.MustCompile(`(?m)^goprof: .* was built by (go1[^\s,]+)`)
	knownVersions  = regexp.MustCompile(`(?m)^  Go versions known +(.*)$`)
	knownRange     = regexp.MustCompile(`go1\.(\d+)(?: to go1\.(\d+))?`)
)

// isKnown: a version is one of those that info lists ("go1.19 and go1.21 to go1.27").
func isKnown(info, version string) bool {
	var minor int
	fmt.Sscanf(version, "go1.%d", &minor)
	for _, m := range knownRange.FindAllStringSubmatch(submatch(knownVersions, info), -1) {
		var from, to int
		fmt.Sscan(m[1], &from)
		if fmt.Sscan(m[2], &to); m[2] == "" {
			to = from
		}
		if minor >= from && minor <= to {
			return true
		}
	}
	return minor == 0
}

func submatch(expression *regexp.Regexp, text string) string {
	if m := expression.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// checkInfo compares what goprof tells of a file with the go command and with the header of the file.
func checkInfo(t *testing.T, path string) {
	t.Helper()
	p := start(t, nil, goprofPath, "info", path)
	status := p.wait(20 * time.Second)
	if version := submatch(refusedVersion, unbroken(p.err())); status == 65 && !isKnown(p.out(), version) {
		t.Skipf("built by %s, which goprof does not know", version)
	}
	if status != 0 {
		t.Fatalf("goprof info: status %d\n%s%s", status, p.out(), p.err())
	}
	version := submatch(infoVersion, p.out())
	truth, err := exec.Command(filepath.Join(goroot(t, "1.26"), "bin", "go"), "version", "-m", path).Output()
	if f := strings.Fields(string(truth)); err == nil && len(f) > 1 {
		if version != f[1] {
			t.Errorf("info tells version %q, the go command %q", version, f[1])
		}
		if got, want := submatch(infoMode, p.out()), submatch(buildMode, string(truth)); got != want {
			t.Errorf("info tells -buildmode %q, the go command %q", got, want)
		}
	} else if file, err := os.ReadFile(path); err != nil || version == "" || !bytes.Contains(file, []byte(version)) {
		// No build information: the version must at least stand in the file.
		t.Errorf("info tells version %q, which is not in the file (%v)", version, err)
	} else if !strings.Contains(p.out(), version+"   (the runtime's version string)") {
		t.Errorf("the go command finds no build information, info says\n%s", p.out())
	}
	header := make([]byte, 18)
	if f, err := os.Open(path); err == nil {
		f.Read(header)
		f.Close()
	}
	const sharedObject = 3 // ET_DYN
	if pie := submatch(infoFixed, p.out()) == "position independent"; pie != (header[16] == sharedObject) {
		t.Errorf("position independent: %v, type of the file is %d", pie, header[16])
	}
}

// --- a profile under load ---

func recordReal(t *testing.T, r *realProgram, path string) {
	t.Helper()
	g, p := r.start(t, path)
	defer g.quit()
	stop := r.atWork(p)
	got := attach(t, g.pid, 3*time.Second)
	if n := stop(); r.work != nil && n < 20 {
		t.Errorf("%d pieces of work in 3 s", n)
	}
	if g.ended() {
		t.Fatalf("%v ended with status %d:\n%s", g.Args, statusOf(g.ProcessState), tail(g.err()))
	}
	if why := untouched(g.pid); why != "" {
		t.Error(why)
	}
	profile := got.profile()
	figure := func(name string) float64 { return profile.figure(t, name) }
	if figure("call sites wrong") != 0 {
		t.Errorf("%.0f of %.0f call sites are wrong", figure("call sites wrong"), figure("call sites audited"))
	}
	if figure("call sites audited") < 1 {
		t.Error("no stack has been audited")
	}
	if all, whole := figure("stacks"), figure("complete stacks"); all < 1 || whole < 0.95*all {
		t.Errorf("%.0f of %.0f stacks are complete", whole, all)
	}
	looks, whole := figure("on-CPU stacks"), figure("complete on-CPU stacks")
	// Deep ones are cut, and marked. (A file formatter gets to syntax that is nested five hundred deep.)
	if lost := looks - whole - figure("cut"); lost > 0.01*looks && lost > 2 {
		t.Errorf("%.0f of %.0f on-CPU stacks are complete", whole, looks)
	}
	if least := 100.0; r.busy && looks < least {
		t.Errorf("%.0f looks at a program that has a core to itself, want at least %.0f", looks, least)
	}
	// How busy this machine is decides whether ticks come in time, and what works in bursts on many threads has
	// seconds in which none of the looks met a thread. Nothing else may be wrong.
	said := strings.ReplaceAll(got.err(), "\n          ", " ")
	verdict, excused := submatch(regexp.MustCompile(`(?m)^.*\b(good: .*|CHECK: .*)$`), said), lateTicks
	if !r.busy {
		excused = inBursts
	}
	if bad := strings.TrimPrefix(verdict, "CHECK: "); verdict == "" || bad != verdict && !excused.MatchString(bad) {
		t.Errorf("verdict %q", verdict)
	}
	t.Logf("%.0f on-CPU stacks, %.0f complete; %.0f call sites audited; %s", looks, whole, figure("call sites audited"), verdict)
}

// Only what is wrong or always said stands behind CHECK.
const (
	ofMachine = `[\d,]+ of [\d,]+ ticks \([\d,]+ late: cores busy\), |\d+\.\d % of threads came late, `
	ofBursts  = `[1-4]?\d\.\d % of CPU time without a stack, `
	notBad    = `([\d,]+ of [\d,]+ ticks at|looks by|threads held|\d+\.\d % of stacks)`
)

var (
	lateTicks = regexp.MustCompile(`^(` + ofMachine + `)+` + notBad)
	inBursts  = regexp.MustCompile(`^(` + ofMachine + `|` + ofBursts + `)+` + notBad)
)

// --- death ---

// deathOf gives the goroutines that a dying program prints, without its own messages, goroutine 0 and the registers.
func deathOf(t testing.TB, text string) []*goroutine {
	t.Helper()
	var blocks []string
	_, text, _ = strings.Cut(text, "\nPC=")
	for _, block := range strings.Split(text, "\n\n") {
		header, _, _ := strings.Cut(block, "\n")
		if headerLine.MatchString(header) && !strings.HasPrefix(header, "goroutine 0 ") {
			blocks = append(blocks, block)
		}
	}
	return parseStacks(t, strings.Join(blocks, "\n\n")+"\n")
}

// dumpAndKill makes a dump, kills the program at once, and gives what goprof and the program itself say of its
// goroutines: all of them, with all frames of the runtime, which from Go 1.18 on it prints anyway.
func dumpAndKill(t *testing.T, r *realProgram, path string) (user, all, theirs map[string]*goroutine) {
	t.Helper()
	g, _ := r.start(t, path, env("GOTRACEBACK=system"))
	short := dump(t, g.pid)
	text := dump(t, g.pid, "--system")
	deadly := r.deadly
	if deadly == 0 {
		deadly = syscall.SIGQUIT
	}
	g.signal(deadly)
	g.wait(30 * time.Second)
	own := parseStacks(t, text)
	user, all, theirs = byID(parseStacks(t, short)), byID(own), byID(deathOf(t, g.err()))
	if len(all) != len(own) {
		t.Errorf("%d goroutines, but %d ids", len(own), len(all))
	}
	if len(theirs) == 0 {
		t.Fatalf("%v printed no goroutines:\n%s", g.Args, tail(g.err()))
	}
	return
}

// hidden: frames that a traceback of a panic, and so goprof, leaves out: what is not exported of the runtime, and
// wrappers that the compiler makes. Up to Go 1.21 those of go statements have the name of an ordinary closure; they
// stand where a goroutine starts.
func (f stackFrame) hidden(starts bool) bool {
	name, ofRuntime := strings.CutPrefix(f.function, "runtime.")
	last := f.function[strings.LastIndexAny(f.function, ".)")+1:]
	return ofRuntime && !exportedName.MatchString(name) || f.place == "<autogenerated>:1" || strings.HasSuffix(last, "-fm") ||
		wrapperName.MatchString(last) || starts && closureName.MatchString(last)
}

var (
	exportedName = regexp.MustCompile(`^(\(\*?\w+(\[.*\])?\)\.|\w+\.)?[A-Z]`)
	wrapperName  = regexp.MustCompile(`^(gowrap|deferwrap)\d+$`)
	closureName  = regexp.MustCompile(`^(func)?\d+$`)
)

// within says in what a goroutine of ours does not fit one with all frames: each frame of ours must be there, in that
// order, and what is left out must be what is hidden. Of goroutines that are hidden as a whole all frames are shown.
func (g *goroutine) within(all *goroutine) string {
	whole := len(g.frames) > 0 && g.frames[len(g.frames)-1].function == "runtime.goexit"
	left := g.frames
	for i, f := range all.frames {
		switch {
		case len(left) > 0 && f.same(left[0]):
			left = left[1:]
		case whole || !f.hidden(i+2 == len(all.frames)):
			return fmt.Sprintf("frame %v is not there, or not in its place:\n%v\n%v", f, g.frames, all.frames)
		}
	}
	switch {
	case len(left) > 0:
		return fmt.Sprintf("frame %v is one too many:\n%v\n%v", left[0], g.frames, all.frames)
	case g.creator.function == "" && !all.creator.hidden(false) && all.creator.function != "":
		return fmt.Sprintf("no creator, but %v", all.creator)
	case g.creator.function != "" && (!g.creator.same(all.creator) || g.parent != all.parent):
		return fmt.Sprintf("created by %v in %q and %v in %q", g.creator, g.parent, all.creator, all.parent)
	case g.locked != all.locked:
		return fmt.Sprintf("locked to thread %v and %v", g.locked, all.locked)
	}
	return ""
}

// compareDeath: a goroutine that is the same in two dumps and in the same state when the program dies did not move, as
// nothing is asked of the program; if one did after all, it is not the same one in the next try.
func compareDeath(t *testing.T, r *realProgram, path string) {
	t.Helper()
	const tries = 3
	for try := 1; ; try++ {
		compared, moved, wrong := 0, 0, []string{}
		user, all, theirs := dumpAndKill(t, r, path)
		for id, g := range theirs {
			o, u := all[id], user[id]
			switch {
			case !g.parked() || r.busy && g.state == "syscall":
				continue
			case o == nil || o.state != g.state || u != nil && u.differs(o) != "":
				moved++
				continue
			case o.within(g) != "":
				wrong = append(wrong, fmt.Sprintf("goroutine %s: goprof and the runtime: %s", id, o.within(g)))
				continue
			}
			compared++
			if (u == nil) != g.ofRuntime() {
				moved++ // it ended or began between the dumps
			}
		}
		for id := range all {
			if theirs[id] == nil {
				moved++
			}
		}
		few := 2 + len(theirs)/20
		t.Logf("%d goroutines, %d of them equal, %d moved, %d differ", len(theirs), compared, moved, len(wrong))
		if len(wrong) == 0 && (moved <= few || r.busy) && compared >= r.least {
			return
		}
		if try == tries {
			t.Errorf("%d parked goroutines are equal, want at least %d; %d moved, want at most %d; %d differ:\n%s",
				compared, r.least, moved, few, len(wrong), tail(strings.Join(wrong, "\n")))
			return
		}
	}
}

// ofRuntime: it starts in a function of the runtime that is not the one of main. (unique has one of the runtime's.)
func (g *goroutine) ofRuntime() bool {
	n := len(g.frames)
	return n > 1 && strings.HasPrefix(g.frames[n-2].function, "runtime.") && g.frames[n-2].function != "runtime.main"
}

func TestKnown(t *testing.T) {
	info := "  file   x go1.1\n  Go versions known           go1.19 and go1.21 to go1.27\n"
	for version, want := range map[string]bool{"go1.19.8": true, "go1.20": false, "go1.21rc2": true, "go1.24.1": true, "go1.27": true, "go1.28": false, "": true} {
		if isKnown(info, version) != want {
			t.Errorf("%q is known: %v", version, !want)
		}
	}
}

func TestDeathOf(t *testing.T) {
	v := deathOf(t, "log line\nSIGQUIT: quit\nPC=0x46ac01 m=0 sigcode=0\n\ngoroutine 0 [idle]:\nruntime.futex(0x0?, ...)\n\t/a/b.s:5 +0x1\n\n"+
		"goroutine 7 [select]:\nm.f()\n\t/m.go:7 +0x1c\ncreated by m.g\n\t/m.go:2 +0x2\n\nrax    0x7\nrbx    0x8\n")
	if len(v) != 1 || v[0].id != "7" || len(v[0].frames) != 1 {
		t.Fatalf("%+v", v)
	}
	all := *v[0]
	all.frames = []stackFrame{{function: "runtime.gopark", place: "p:1"}, v[0].frames[0], {function: "runtime.goexit", place: "x:1"}}
	if v[0].within(&all) != "" || all.within(v[0]) == "" || all.within(&all) != "" {
		t.Error("within")
	}
	all.frames[0].function = "m.g"
	if v[0].within(&all) == "" {
		t.Error("within: a frame is missing")
	}
	for name, hidden := range map[string]bool{"runtime.gopark": true, "runtime.(*scavengerState).park": true, "runtime.GC": false,
		"runtime.(*Frames).Next": false, "m.T.f-fm": true, "m.f.gowrap2": true, "m.f.func1": false, "m.f": false} {
		if f := (stackFrame{function: name}); f.hidden(false) != hidden {
			t.Errorf("%s: hidden is %v", name, !hidden)
		}
	}
}
