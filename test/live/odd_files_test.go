// Programs whose files are put together in unusual ways: C code before the Go code, symbols and sections taken away
// afterwards, names of kilobytes.
package live

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// builtFrom builds a program of testdata, with text of its source replaced (old, new, ...) and more words for `go build`.
func builtFrom(t testing.TB, version, source string, cgo bool, replace []string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(rootDir, "test", "live", "testdata", source, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), source)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(strings.NewReplacer(replace...).Replace(string(text))), 0o666); err != nil {
		t.Fatal(err)
	}
	goBuild{version: version, dir: dir, gopath: true, cgo: cgo, args: append(args, "main.go")}.into(t, out)
	return out
}

// strip gives a copy without symbols, as packagers make it.
func strip(t testing.TB, path string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), filepath.Base(path))
	if text, err := exec.Command("strip", "-o", out, path).CombinedOutput(); err != nil {
		t.Fatalf("strip %s: %v\n%s", path, err, text)
	}
	return out
}

var nmText = regexp.MustCompile(`(?m)^ *([0-9a-f]+) [Tt] runtime\.text$`)

// gapOf is how far the first Go function is from the start of .text.
func gapOf(t testing.TB, path string) (gap uint64) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := nmText.FindStringSubmatch(goTool(t, "nm", path))
	if m == nil {
		t.Fatalf("%s: no symbol runtime.text", path)
	}
	var text uint64
	fmt.Sscanf(m[1], "%x", &text)
	return text - f.Section(".text").Addr
}

// Shows: where the C linker puts code of its own before the Go code, names are right all the same, whatever there is of
// it, in programs with fixed addresses and without.
func TestTextGaps(t *testing.T) {
	gaps := []int{0x1, 0x40, 0x720, 0x10000}
	if testing.Short() {
		gaps = gaps[2:3]
	}
	for _, version := range versions {
		for _, mode := range []string{"exe", "pie"} {
			for _, gap := range gaps {
				version, mode, gap := version, mode, gap
				t.Run(fmt.Sprintf("%s-%s-%#x", version, mode, gap), func(t *testing.T) {
					t.Parallel()
					whole := builtFrom(t, version, "gap", true, []string{"GAP_BYTES", fmt.Sprint(gap)},
						"-buildmode="+mode, "-ldflags", "-linkmode=external")
					if found := gapOf(t, whole); found < uint64(gap) {
						t.Fatalf("a gap of %#x, want at least %#x", found, gap)
					}
					path := strip(t, whole)
					r := &realProgram{name: "gap", args: words(), least: 5}
					checkInfo(t, path)
					compareDeath(t, r, path)
				})
			}
		}
	}
}

// manyBuilds are all that there are, or those that differ most.
func manyBuilds() []string {
	if testing.Short() {
		return []string{"1.19-pie-sw", "1.26-pie-sw", "1.26-cgo-sw"}
	}
	return append(append([]string{}, allBuilds...), moreBuilds()...)
}

// compareSelf starts a copy of the targets and compares a dump with its own.
func compareSelf(t *testing.T, path string) {
	t.Helper()
	own := filepath.Join(t.TempDir(), "dump")
	p := start(t, []option{env("ODD_DUMP=" + own)}, path, "names", "-dur", "1m")
	p.ready()
	before, _ := p.dumped()
	text := dump(t, p.pid)
	after, _ := p.dumped()
	if n := compareDumps(t, before, text, after, 0); n < 16 {
		t.Errorf("%d parked goroutines compared, want at least 16", n)
	}
	p.quit()
}

// Shows: strip moves the sections of a file, and segments stay; goprof reads by segments.
func TestStripped(t *testing.T) {
	each(t, manyBuilds(), true, func(t *testing.T, build string) { compareSelf(t, strip(t, target(build))) })
}

// Shows: without section headers everything is found by content: the same addresses, the same dump.
func TestNoSections(t *testing.T) {
	each(t, manyBuilds(), true, func(t *testing.T, build string) {
		data, err := os.ReadFile(target(build))
		if err != nil {
			t.Fatal(err)
		}
		const offset, counts = 40, 60 // of e_shoff; of e_shnum and e_shstrndx
		binary.LittleEndian.PutUint64(data[offset:], 0)
		binary.LittleEndian.PutUint32(data[counts:], 0)
		path := filepath.Join(t.TempDir(), "none")
		if err := os.WriteFile(path, data, 0o777); err != nil {
			t.Fatal(err)
		}
		with, without := addresses(t, target(build)), addresses(t, path)
		for name, at := range with {
			if without[name] != at {
				t.Errorf("%s: %s with section headers, %q without", name, at, without[name])
			}
		}
		compareSelf(t, path)
	})
}

// Shows: a name of kilobytes stays text that both formats can carry: one name everywhere, no half characters.
func TestLongNames(t *testing.T) {
	t.Parallel()
	p := start(t, nil, builtFrom(t, "1.26", "longnames", false, nil, "-ldflags", "-s -w"))
	p.ready()
	r := attach(t, p.pid, 2*time.Second)
	prof := r.profile()
	spinning, all := prof.cpu(with("main.(*box[...]).spin")), prof.cpu(anySample)
	if spinning == 0 || float64(spinning) < 0.8*float64(all) {
		t.Errorf("%v of %v in main.(*box[...]).spin", spinning, all)
	}
	for _, e := range r.envelopes() {
		data, err := os.ReadFile(e.path)
		if err != nil || !utf8.Valid(data) {
			t.Errorf("%s is no UTF-8 (%v)", e.path, err)
		}
		spinning, parked := false, false
		for _, st := range e.times(t) {
			spinning = spinning || st.has("main.(*box[...]).spin")
			parked = parked || st.has("main.(*box[...]).park")
		}
		if !spinning || !parked {
			t.Errorf("spin is there: %v, park is there: %v", spinning, parked)
		}
	}
	if text := dump(t, p.pid); !strings.Contains(text, "main.(*box[...]).park(...)\n") || !utf8.ValidString(text) {
		t.Errorf("dump:\n%.3000s", text)
	}
}
