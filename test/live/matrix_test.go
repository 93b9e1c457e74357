// Every Go version in every link form: what is read from a process without goprof having been built for it.
package live

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// All forms of scripts/build-targets but race, which only two versions have.
var (
	matrixForms  = []string{"plain", "pie-sw", "cgo", "sw", "pie", "cgo-sw", "trimpath", "cgo-pie-sw", "cgo-static"}
	raceVersions = map[string]bool{"1.19": true, "1.26": true}
)

// movedReleases have other layouts than the releases of the same version that are tested anyway.
var movedReleases = []string{"1.16.0", "1.23.0", "1.23.12", "1.24.13"}

// matrixVersions are all versions that can be had.
func matrixVersions(t *testing.T) (v []string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(rootDir, "scripts", "go-toolchains"))
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go-toolchains: %v\n%s", err, said.String())
	}
	for _, line := range strings.Split(said.String(), "\n") {
		if strings.HasPrefix(line, "SKIP ") {
			t.Log(line)
		}
	}
	for _, line := range strings.Split(string(out), "\n") {
		if f := strings.Fields(line); len(f) == 3 {
			v = append(v, f[0])
		}
	}
	return
}

// formsOf: with -short each version in one form, and of 12 versions or more each form in some version.
func formsOf(i int, version string) []string {
	switch {
	case strings.Count(version, ".") > 1:
		return []string{"plain"}
	case !testing.Short() && raceVersions[version]:
		return append([]string{"race"}, matrixForms...)
	case !testing.Short():
		return matrixForms
	case version == "1.19":
		return []string{"race"}
	}
	return []string{matrixForms[i%len(matrixForms)]}
}

func buildMatrix(t *testing.T, version string, forms []string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(rootDir, "scripts", "build-targets"), "--forms", strings.Join(forms, ","), targetsDir, version)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, tail(string(out)))
	}
}

// Shows: whatever the version and the form, a dump of parked goroutines is the runtime's own: id, state, wait reason,
// functions, places, offsets, creators and labels; every stack is whole; and the variables of the runtime are found by
// the rules where its symbols say that they are.
func TestMatrix(t *testing.T) {
	versions := matrixVersions(t)
	if !testing.Short() {
		versions = append(versions, movedReleases...)
	}
	for i, version := range versions {
		version, forms := version, formsOf(i, version)
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			buildMatrix(t, version, forms)
			for _, form := range forms {
				build := version + "-" + form
				t.Run(form, func(t *testing.T) {
					began := time.Now()
					matrixDump(t, build)
					if !strings.HasSuffix(form, "sw") {
						matrixGlobals(t, build)
					}
					t.Logf("%v", time.Since(began))
				})
			}
		})
	}
}

func matrixDump(t *testing.T, build string) {
	p := startTarget(t, build, "matrix", "-dur", "1m")
	before, _ := p.dumped()
	text := dump(t, p.pid, "--labels")
	after, truth := p.dumped()
	if why := untouched(p.pid); why != "" {
		t.Error("after the dump: " + why)
	}
	p.quit()

	// 16 below names.park, 210 waiting, 52 with labels, main, 8 hard to walk (9 where the finalizer's is shown),
	// 8 generic.
	least := 16 + 210 + 52 + 1 + 8
	if minorOf(build) >= 18 {
		least += 8
	}
	if n := compareDumps(t, before, text, after, 0); n < least {
		t.Errorf("%d parked goroutines compared, want at least %d", n, least)
	}
	labelOracle(t, truth)
	compareLabels(t, truth, text)
	// goprof notes below a stack that it does not end in the goroutine's first function.
	for _, g := range parseStacks(t, text) {
		if g.parked() && g.note != "" {
			t.Errorf("goroutine %s: %s", g.id, g.note)
		}
	}
}

// Shows: the same for programs that other linkers have put together.
func TestLinkers(t *testing.T) {
	t.Parallel()
	var builds []string
	for _, version := range []string{"1.26", "1.19"} {
		for _, form := range []string{"lld-pie-sw", "lld", "mold-pie-sw", "mold", "gold-pie-sw", "gold"} {
			builds = append(builds, version+"-"+form)
		}
	}
	each(t, inTurn(0, builds...), false, func(t *testing.T, build string) {
		version, form, _ := strings.Cut(build, "-")
		linker, _, _ := strings.Cut(form, "-")
		if _, err := exec.LookPath("ld." + linker); err != nil {
			t.Skip("no such linker here: ", err)
		}
		buildMatrix(t, version, []string{form})
		matrixDump(t, build)
		if !strings.HasSuffix(form, "sw") {
			matrixGlobals(t, build)
		}
	})
}

// labelOracle makes sure that the runtime's own profile tells the labels that the target has set.
func labelOracle(t *testing.T, truth string) {
	t.Helper()
	counts := map[string]int{}
	for kind, n := range parseLabelled(t, truth) {
		if strings.Contains(kind.stack, "labels.park ") {
			counts[kind.labels] += n
		}
	}
	for r := 0; r < 3; r++ {
		for u := 0; u < 4; u++ {
			labels := fmt.Sprintf(`"route"="/r%d" "step"="inner" "user"="u%d"`, r, u)
			if counts[labels] != 2*(r+1) {
				t.Errorf("the runtime's own profile has %d goroutines with %s, want %d", counts[labels], labels, 2*(r+1))
			}
		}
	}
	if counts[""] != 1 || counts[`"dup"="last"`] != 1 {
		t.Errorf("the runtime's own profile has %d goroutines without labels and %d with dup=last", counts[""], counts[`"dup"="last"`])
	}
}

// matrixGlobals: what is found in a program without sections, and so without symbols, is what its symbols say.
func matrixGlobals(t *testing.T, build string) {
	data, err := os.ReadFile(target(build))
	if err != nil {
		t.Fatal(err)
	}
	file, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]uint64{}
	for _, s := range symbols {
		want[s.Name] = s.Value
	}
	if want["runtime.allgptr"] == 0 { // 1.15: the slice serves as both
		want["runtime.allgptr"], want["runtime.allglen"] = want["runtime.allgs"], want["runtime.allgs"]+8
	}
	// e_shoff, e_shnum and e_shstrndx of the ELF header
	binary.LittleEndian.PutUint64(data[0x28:], 0)
	binary.LittleEndian.PutUint32(data[0x3c:], 0)
	bare := filepath.Join(t.TempDir(), "bare")
	if err := os.WriteFile(bare, data, 0o755); err != nil {
		t.Fatal(err)
	}
	found := addresses(t, bare)
	for _, name := range []string{"allgs", "allglen", "allgptr", "allm", "allp", "sched", "gomaxprocs", "waitReasonStrings"} {
		name = "runtime." + name
		if at := fmt.Sprintf("%#x", want[name]); want[name] == 0 || found[name] != at {
			t.Errorf("%s: %q by the rules, %s by its symbol", name, found[name], at)
		}
	}
}

// Shows: the same for stripped builds, each against a twin that has symbols. Up to 1.19 its data may lie a little further
// on, but then all of it.
func TestMatrixTwins(t *testing.T) {
	if testing.Short() {
		t.Skip("a twin of every stripped build takes minutes")
	}
	stripped := []string{"sw", "pie-sw", "cgo-sw", "cgo-pie-sw"}
	for _, version := range matrixVersions(t) {
		version := version
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			buildMatrix(t, version, stripped)
			for _, form := range stripped {
				build := version + "-" + form
				t.Run(form, func(t *testing.T) {
					withSymbols, without := twins(t, build)
					whole, bare := addresses(t, withSymbols), addresses(t, without)
					moved := map[int64]bool{}
					for name, at := range whole {
						var symbol, rule int64
						fmt.Sscanf(at, "0x%x", &symbol)
						if fmt.Sscanf(bare[name], "0x%x", &rule); symbol == 0 || rule == 0 {
							t.Errorf("%s: %q in the stripped build, %q by its symbol", name, bare[name], at)
						}
						moved[rule-symbol] = true
					}
					if len(whole) < 8 || len(moved) != 1 || !moved[0] && minorOf(version) > 19 {
						t.Errorf("%v in the stripped build, %v by symbols", bare, whole)
					}
				})
			}
		})
	}
}
