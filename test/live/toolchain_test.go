// The Go toolchains that scripts/go-toolchains keeps: to open profiles and to build twins of the targets.
package live

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var toolchains struct {
	sync.Mutex
	roots map[string]string // by version
}

// goroot is the GOROOT of a version.
func goroot(t testing.TB, version string) string {
	t.Helper()
	toolchains.Lock()
	defer toolchains.Unlock()
	if root := toolchains.roots[version]; root != "" {
		return root
	}
	out, err := exec.Command(filepath.Join(rootDir, "scripts", "go-toolchains"), version).Output()
	f := strings.Fields(string(out))
	if len(f) != 3 {
		t.Fatalf("no toolchain for Go %s (scripts/go-toolchains: %v)", version, err)
	}
	if toolchains.roots == nil {
		toolchains.roots = map[string]string{}
	}
	toolchains.roots[version] = f[1]
	return f[1]
}

// goTool runs a tool of Go 1.19, the last one that ships them ready made. What it can open, newer ones can.
func goTool(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(goroot(t, "1.19"), "pkg", "tool", "linux_amd64", name), args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.String())
	}
	return string(out)
}

// goSettings are for a go command of a toolchain that asks nobody: nothing of the user's, nothing from the network.
func goSettings(root, version string, cgo, modules bool) []string {
	v := []string{"GOROOT=" + root, "GOTOOLCHAIN=local", "GOENV=off", "GOPROXY=off", "GOSUMDB=off",
		"GOPATH=" + filepath.Join(cacheDir(), "gopath"), "GOCACHE=" + filepath.Join(cacheDir(), "build", version), "CGO_ENABLED=0",
		"GO111MODULE=off", "GOFLAGS="}
	if cgo {
		v = append(v, "CGO_ENABLED=1") // the last one counts
	}
	if modules {
		v = append(v, "GO111MODULE=on", "GOFLAGS=-mod=mod")
	}
	return v
}

// goBuild is a program that `go build` makes. Linking takes seconds, and the same sources give the same program: what was
// built once is kept in the cache.
type goBuild struct {
	version string
	dir     string // of the sources; all files below it are read
	modfile string // in place of dir's go.mod; "": that one
	gopath  bool   // without modules
	cgo     bool
	objects string // GOCACHE; "": the version's own
	args    []string
	placed  bool // where the sources are is part of the program, and matters
}

// kept is where the program is, or will be, in the cache.
func (b goBuild) kept(t testing.TB) string {
	t.Helper()
	sum, place := sha256.New(), ""
	if b.placed {
		place = b.dir
	}
	fmt.Fprintf(sum, "%s %s %v %v %q %q\n", goroot(t, b.version), b.version, b.gopath, b.cgo, b.args, place)
	add := func(path string) error {
		text, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%q %d\n%s", strings.TrimPrefix(path, b.dir), len(text), text)
		return err
	}
	err := filepath.WalkDir(b.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		return add(path)
	})
	if err == nil && b.modfile != "" {
		var text []byte
		text, err = os.ReadFile(b.modfile)
		fmt.Fprintf(sum, "%s", text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cacheDir(), "built", fmt.Sprintf("%x", sum.Sum(nil)[:16]))
}

// into puts the program at out.
func (b goBuild) into(t testing.TB, out string) {
	t.Helper()
	kept := b.kept(t)
	if _, err := os.Stat(kept); err != nil {
		b.build(t, kept)
	}
	now := time.Now()
	os.Chtimes(kept, now, now)
	copyProgram(t, kept, out)
}

func (b goBuild) build(t testing.TB, kept string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(kept), 0o777); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(kept), "new")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	root, fresh := goroot(t, b.version), filepath.Join(dir, "program")
	args := []string{"build", "-o", fresh}
	if b.modfile != "" {
		args = append(args, "-modfile", b.modfile)
	}
	settings := goSettings(root, b.version, b.cgo, !b.gopath)
	if b.objects != "" {
		settings = append(settings, "GOCACHE="+b.objects)
	}
	cmd := exec.Command(filepath.Join(root, "bin", "go"), append(args, b.args...)...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), settings...)
	must(t, cmd)
	if err := os.Rename(fresh, kept); err != nil {
		t.Fatal(err)
	}
}

// forgetBuilds removes what no test has asked for in two weeks.
func forgetBuilds() {
	old, _ := filepath.Glob(filepath.Join(cacheDir(), "built", "*"))
	for _, path := range old {
		if st, err := os.Stat(path); err == nil && time.Since(st.ModTime()) > 14*24*time.Hour {
			os.RemoveAll(path)
		}
	}
}

// twins are the targets in the form of a stripped build, but with the symbol table, and once more without it: the place of
// the sources is in the program, too, and targets that are kept may come from another one. The linker flags are part of
// the build information: flags of the same length that change nothing keep every address where it is.
func twins(t testing.TB, build string) (whole, stripped string) {
	t.Helper()
	return linked(t, build, "-f -f"), linked(t, build, "-s -w")
}

func linked(t testing.TB, build, ldflags string) string {
	t.Helper()
	version, form, _ := strings.Cut(build, "-")
	dir := t.TempDir()
	mod, err := os.ReadFile(filepath.Join(rootDir, "test", "targets", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	modfile := filepath.Join(dir, "go.mod")
	text := strings.Replace(string(mod), "go 1.19", "go "+version, 1)
	if err := os.WriteFile(modfile, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "twin")
	args := []string{"-ldflags", ldflags}
	if minorOf(version) >= 18 {
		args = append(args, "-buildvcs=false")
	}
	if strings.Contains(form, "pie") {
		args = append(args, "-buildmode=pie")
	}
	cgo := strings.HasPrefix(form, "cgo")
	goBuild{version: version, dir: filepath.Join(rootDir, "test", "targets"), modfile: modfile, cgo: cgo, args: append(args, "."), placed: true}.into(t, out)
	return out
}
