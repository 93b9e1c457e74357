// The Go toolchains that scripts/go-toolchains keeps: to open profiles and to build twins of the targets.
package live

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
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

// twin builds the targets in the form of a stripped build, but with the symbol table. The linker flags are part of the
// build information in the program: flags of the same length that change nothing keep every address where it is.
func twin(t testing.TB, build string) string {
	t.Helper()
	version, form, _ := strings.Cut(build, "-")
	root, dir := goroot(t, version), t.TempDir()
	mod, err := os.ReadFile(filepath.Join(rootDir, "test", "targets", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	modfile := filepath.Join(dir, "go.mod")
	text := strings.Replace(string(mod), "go 1.19", "go "+version, 1)
	if err := os.WriteFile(modfile, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	out, cgo := filepath.Join(dir, "twin"), "CGO_ENABLED=0"
	args := []string{"build", "-modfile", modfile, "-ldflags", "-f -f", "-o", out} // for -s -w
	if minorOf(version) >= 18 {
		args = append(args, "-buildvcs=false")
	}
	if strings.Contains(form, "pie") {
		args = append(args, "-buildmode=pie")
	}
	if strings.HasPrefix(form, "cgo") {
		cgo = "CGO_ENABLED=1"
	}
	cmd := exec.Command(filepath.Join(root, "bin", "go"), append(args, ".")...)
	cmd.Dir = filepath.Join(rootDir, "test", "targets")
	cmd.Env = append(os.Environ(), "GOROOT="+root, "GOTOOLCHAIN=local", "GOENV=off", "GOPROXY=off", "GOSUMDB=off", "GOFLAGS=-mod=mod",
		"GO111MODULE=on", "GOPATH="+filepath.Join(cacheDir(), "gopath"), "GOCACHE="+filepath.Join(cacheDir(), "build", version), cgo)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
	}
	return out
}
