// What goprof needs itself, and what it costs the target, on programs with very many functions.
package live

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Bounds, each several times what is measured: 15 MB of memory; a first look 20 ms after the start.
const (
	mostOwnMemory = 64 << 10 // kB
	mostForLook   = 3 * 150 * time.Millisecond
	mostGrown     = 1 << 10 // kB of the target
	mostPageTable = 128     // kB of the target
)

// watched starts goprof and tells the most memory that it had: VmHWM never sinks, and is looked at until it ends.
func watched(t *testing.T, limit time.Duration, args ...string) (p *process, most int) {
	t.Helper()
	p = start(t, nil, goprofPath, args...)
	hangs := time.AfterFunc(limit, func() { p.Process.Kill() })
	defer hangs.Stop()
	most = mostHeld(p)
	if status := statusOf(p.ProcessState); status != 0 || most == 0 {
		t.Fatalf("%v: status %d, %d kB\n%s", p.Args, status, most, tail(p.err()))
	}
	return
}

// memory of a process: resident and swapped, and its page tables, in kB.
func memory(t testing.TB, pid int) (held, tables int) {
	return kilobytes(t, pid, "VmRSS") + kilobytes(t, pid, "VmSwap"), kilobytes(t, pid, "VmPTE")
}

// checkSize: a process that does nothing does not grow because goprof looks at it, by more than it does alone. Some
// grow once in their first minute, whoever looks; what goprof costs, it costs each of three.
func checkSize(t *testing.T, start func() *process) {
	t.Helper()
	const tries = 3
	grown := mostGrown + 1
	for i := 0; i < tries && grown > mostGrown; i++ {
		p := start()
		grown = min(grown, profiledGrowth(t, p.pid))
		p.quit()
	}
	if grown > mostGrown {
		t.Errorf("each of %d targets has grown by %d kB or more", tries, grown)
	}
}

// profiledGrowth is by how many kB a process is larger after an attach and a dump, beyond what it grows alone.
func profiledGrowth(t *testing.T, pid int) int {
	t.Helper()
	const length = 2 * time.Second
	start, _ := memory(t, pid)
	time.Sleep(length)
	before, tables := memory(t, pid)
	alone := before - start
	if alone < 0 {
		alone = 0
	}

	dir := t.TempDir()
	began := time.Now()
	_, most := watched(t, length+20*time.Second, "attach", "--duration", length.String(), "-o", dir+"/p.pb.gz", "-o", dir+"/w.envelope", fmt.Sprint(pid))
	after, tablesAfter := memory(t, pid)
	p, mostDump := watched(t, 20*time.Second, "dump", fmt.Sprint(pid))
	afterDump, _ := memory(t, pid)

	checkEnvelope(t, dir+"/w.envelope")
	e := openWindow(t, dir+"/w.envelope")
	first := e.length()
	for _, s := range e.profile.Profile.Samples {
		if ns, err := s.Elapsed.Int64(); err == nil && time.Duration(ns) < first {
			first = time.Duration(ns)
		}
	}
	first += e.transaction.Start.Sub(began)
	t.Logf("attach: %d kB, first look after %v; dump: %d kB; target: %d kB, %+d alone, %+d profiled, %+d dumped; page tables %+d kB",
		most, first, mostDump, before, alone, after-before, afterDump-after, tablesAfter-tables)
	if most > mostOwnMemory || mostDump > mostOwnMemory {
		t.Errorf("goprof has %d kB (attach), %d kB (dump), want at most %d", most, mostDump, mostOwnMemory)
	}
	if first > mostForLook || first <= 0 {
		t.Errorf("first look after %v, want at most %v", first, mostForLook)
	}
	if tablesAfter-tables > mostPageTable {
		t.Errorf("the page tables of the target have grown by %d kB", tablesAfter-tables)
	}
	if len(parseStacks(t, p.out())) == 0 {
		t.Error("the dump is empty")
	}
	return max(after, afterDump) - before - alone
}

// Shows: on a stripped program of 130,000 functions goprof needs a few MB, begins at once, and costs the target nothing.
func TestSize(t *testing.T) {
	t.Run("prometheus", func(t *testing.T) {
		paths, missing := realPaths(t, "prometheus")
		if paths["prometheus"] == "" {
			t.Skip("not there: ", missing["prometheus"])
		}
		for _, r := range realPrograms {
			if r.name == "prometheus" {
				checkSize(t, func() *process {
					p, _ := r.start(t, paths[r.name])
					return p
				})
			}
		}
	})
	t.Run("generated", func(t *testing.T) {
		if testing.Short() {
			t.Skip("takes 20 s to build")
		}
		path := manyFunctions(t)
		checkSize(t, func() *process {
			p := start(t, nil, path)
			p.ready()
			return p
		})
	})
}

// manyFunctions builds a stripped program of 50,000 functions, in many packages so that they are compiled side by
// side. All of them can be called, as far as the linker knows.
func manyFunctions(t testing.TB) string {
	t.Helper()
	const packages, each = 50, 1000
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var imports, tables strings.Builder
	for i := 0; i < packages; i++ {
		var code, names strings.Builder
		for k := 0; k < each; k++ {
			fmt.Fprintf(&code, "//go:noinline\nfunc Function%d(x int) int {\n\tif x > %d {\n\t\tpanic(x)\n\t}\n\treturn x * %d\n}\n\n", k, k, i)
			fmt.Fprintf(&names, "\tFunction%d,\n", k)
		}
		write(fmt.Sprintf("p%d/p.go", i), fmt.Sprintf("package p%d\n\nvar All = []func(int) int{\n%s}\n\n%s", i, names.String(), code.String()))
		fmt.Fprintf(&imports, "\t\"many/p%d\"\n", i)
		fmt.Fprintf(&tables, "\tp%d.All,\n", i)
	}
	write("go.mod", "module many\n\ngo 1.26\n")
	write("main.go", fmt.Sprintf("package main\n\nimport (\n\t\"os\"\n\t\"time\"\n\t\"fmt\"\n%s)\n\nvar all = [][]func(int) int{\n%s}\n\n"+
		"func main() {\n\tsum := 0\n\tfor _, p := range all {\n\t\tsum += p[len(os.Args)](1)\n\t}\n"+
		"\tfmt.Fprintf(os.Stderr, \"READY pid=%%d %%d\\n\", os.Getpid(), sum)\n\tfor {\n\t\ttime.Sleep(time.Minute)\n\t}\n}\n", imports.String(), tables.String()))
	out := filepath.Join(t.TempDir(), "many")
	// Objects of 50,000 functions are of use to nobody else.
	goBuild{version: "1.26", dir: dir, objects: filepath.Join(t.TempDir(), "objects"), args: []string{"-ldflags", "-s -w", "."}}.into(t, out)
	return out
}
