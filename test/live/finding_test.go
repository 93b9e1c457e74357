// Where Go is: in files that are gone or elsewhere, behind a loader, in libraries, in plugins, in memory only.
package live

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var pieBuilds = []string{"1.19-pie-sw", "1.26-pie-sw"}

// Shows: the program's file is the one that runs, whatever its name leads to by now, and whatever else of it is mapped.
func TestFoundInFile(t *testing.T) {
	t.Parallel()
	memfd := cHost(t, "memfd")
	mapself := cHost(t, "mapself", "-shared", "-fPIC")
	for _, c := range []struct {
		name   string
		builds []string
		start  func(t *testing.T, dir, build string) *process
	}{
		{"symlink and odd name", eachVersion, func(t *testing.T, dir, build string) *process {
			link := filepath.Join(dir, "link")
			os.Symlink(target(build), link)
			return startHost(t, nil, "bash", "-c", `exec -a "we ird (deleted)" "$0" names -dur 1m`, link)
		}},
		{"deleted", append(eachVersion, pieBuilds...), func(t *testing.T, dir, build string) *process {
			path := filepath.Join(dir, "b")
			copyProgram(t, target(build), path)
			p := startHost(t, nil, path, "names", "-dur", "1m")
			os.Remove(path)
			return p
		}},
		{"replaced", append(eachVersion, pieBuilds...), func(t *testing.T, dir, build string) *process {
			path, other := filepath.Join(dir, "b"), filepath.Join(dir, "other")
			copyProgram(t, target(build), path)
			copyProgram(t, target("1.26-cgo-sw"), other)
			p := startHost(t, nil, path, "names", "-dur", "1m")
			if err := os.Rename(other, path); err != nil {
				t.Fatal(err)
			}
			return p
		}},
		{"memfd", append(eachVersion, pieBuilds...), func(t *testing.T, dir, build string) *process {
			return startHost(t, nil, memfd, target(build), "names", "-dur", "1m")
		}},
		{"mapped again", pieBuilds, func(t *testing.T, dir, build string) *process {
			return startHost(t, []option{env("LD_PRELOAD=" + mapself)}, target(build), "names", "-dur", "1m")
		}},
		{"mount namespace", eachVersion, func(t *testing.T, dir, build string) *process {
			return startHost(t, nil, "unshare", "-m", "sh", "-c", `mount -t tmpfs none /mnt && cp "$0" /mnt/b && exec /mnt/b names -dur 1m`, target(build))
		}},
	} {
		c := c
		t.Run(c.name, func(t *testing.T) {
			each(t, c.builds, true, func(t *testing.T, build string) {
				p := c.start(t, t.TempDir(), build)
				sameAsItself(t, p, 16, 0)
				if where := foundIn(t, p.pid); where != "its file" {
					t.Errorf("found in %q", where)
				}
				p.quit()
			})
		})
	}
	t.Run("chroot", func(t *testing.T) {
		dir := t.TempDir()
		copyProgram(t, target("1.26-sw"), filepath.Join(dir, "b"))
		p := start(t, nil, "chroot", dir, "/b", "names", "-dur", "1m")
		p.ready()
		if n := functions(t, dump(t, p.pid))[pkg+"names.park"]; n < 10 {
			t.Errorf("%d parked goroutines", n)
		}
		p.quit()
	})
}

// Shows: a program that was started through a loader by hand is found, by dump, attach and run.
func TestFoundThroughLoader(t *testing.T) {
	loader := "/lib64/ld-linux-x86-64.so.2"
	each(t, pieBuilds, true, func(t *testing.T, build string) {
		p := startHost(t, nil, loader, target(build), "names", "-dur", "1m")
		sameAsItself(t, p, 16, 0)
		if where := foundIn(t, p.pid); where != "the library targets-"+build {
			t.Errorf("found in %q", where)
		}
		p.quit()
		r, status := run(t, 30*time.Second, loader, target(build), "busy", "-dur", "2s")
		if status != 0 {
			t.Errorf("status %d\n%s", status, r.err())
		}
		if cpu := r.profile().cpu(with(pkg + "busy.spin")); cpu == 0 {
			t.Errorf("busy.spin is not in the profile\n%s", r.err())
		}
	})
}

// Shows: a program that is only in memory is profiled from there, with its headers and without, and does not grow.
func TestFoundInMemory(t *testing.T) {
	packed := cHost(t, "packed")
	each(t, []string{"1.19-sw", "1.19-pie-sw", "1.26-sw", "1.26-pie-sw"}, true, func(t *testing.T, build string) {
		for _, flags := range []string{"-", "w", "wx", "wm"} {
			p := startHost(t, nil, packed, flags, target(build), "names", "-dur", "1m")
			before := kilobytes(t, p.pid, "VmRSS")
			if where := foundIn(t, p.pid); where != "memory that belongs to no file" {
				t.Errorf("%s: found in %q", flags, where)
			}
			if grown := kilobytes(t, p.pid, "VmRSS") - before; grown > 1024 {
				t.Errorf("%s: grown by %d kB", flags, grown)
			}
			sameAsItself(t, p, 16, 0)
			p.quit()
		}
		r, status := run(t, 30*time.Second, packed, "w", target(build), "busy", "-dur", "2s")
		if cpu := r.profile().cpu(with(pkg + "busy.spin")); status != 0 || cpu == 0 {
			t.Errorf("status %d, busy.spin on CPU %v\n%s", status, cpu, r.err())
		}
	})
}

// Shows: Go in libraries of a program in C: one is found, of two the user has to choose, and the one that was chosen has
// nothing of the other.
func TestFoundInLibraries(t *testing.T) {
	t.Parallel()
	host := cHost(t, "cshared", "-ldl")
	each(t, versions, false, func(t *testing.T, version string) {
		dir := t.TempDir()
		a, b := filepath.Join(dir, "a.so"), filepath.Join(dir, "b.so")
		goHost(t, version, hostSource("lib"), a, "-buildmode=c-shared", "-ldflags", "-s -w")
		goHost(t, version, hostSource("lib"), b, "-buildmode=c-shared", "-ldflags", "-s -w -X main.name=b -X main.parked=3")

		p := start(t, nil, host, a)
		p.ready()
		if where := foundIn(t, p.pid); where != "the library a.so" {
			t.Errorf("found in %q", where)
		}
		if n := functions(t, dump(t, p.pid)); n["main.park"] != 2 || n["main.spinA"] != 1 {
			t.Errorf("functions %v", n)
		}
		os.Remove(a) // the library that is mapped is still there
		if n := functions(t, dump(t, p.pid)); n["main.park"] != 2 {
			t.Errorf("deleted: functions %v", n)
		}
		p.quit()

		goHost(t, version, hostSource("lib"), a, "-buildmode=c-shared", "-ldflags", "-s -w")
		p = start(t, nil, host, a, b)
		p.ready()
		for _, command := range []string{"dump", "attach", "info"} {
			g := start(t, []option{workdir(t.TempDir())}, goprofPath, command, fmt.Sprint(p.pid))
			said := ""
			status := g.wait(20 * time.Second)
			said = unbroken(g.err())
			if status == 0 || !strings.Contains(said, "holds 2 Go runtimes") || !strings.Contains(said, "a.so and b.so") || !strings.Contains(said, "--runtime a.so") {
				t.Errorf("%s: status %d, says %s", command, status, said)
			}
		}
		for _, c := range []struct {
			lib    string
			parked int
			spin   string
			not    string
		}{{"a.so", 2, "main.spinA", "main.spinB"}, {"b.so", 3, "main.spinB", "main.spinA"}} {
			n := functions(t, dump(t, p.pid, "--runtime", c.lib))
			if n["main.park"] != c.parked || n[c.spin] != 1 || n[c.not] != 0 {
				t.Errorf("%s: functions %v", c.lib, n)
			}
			prof := attach(t, p.pid, 2*time.Second, "--runtime", c.lib).profile()
			if prof.cpu(with(c.spin)) == 0 || prof.wall(with(c.not)) != 0 {
				t.Errorf("%s: %s on CPU %v, %s %v", c.lib, c.spin, prof.cpu(with(c.spin)), c.not, prof.wall(with(c.not)))
			}
		}
		g := start(t, nil, goprofPath, "dump", "--runtime", "c.so", fmt.Sprint(p.pid))
		if status := g.wait(20 * time.Second); status == 0 || !strings.Contains(g.err(), "c.so") {
			t.Errorf("status %d, says %s", status, g.err())
		}
		p.quit()

		// Loaded a second after the start of the host.
		r := record(t, nil, "run", host, "-slow", a)
		r.ready()
		time.Sleep(2500 * time.Millisecond)
		r.signal(syscall.SIGTERM)
		r.wait(20 * time.Second)
		r.check()
		if prof := r.profile(); prof.cpu(with("main.spinA")) == 0 {
			t.Errorf("loaded later: main.spinA is not in the profile\n%s", r.err())
		}
	})
}

// Shows: functions of plugins have names, of one that comes while goprof looks, too.
func TestPlugins(t *testing.T) {
	t.Parallel()
	each(t, versions, false, func(t *testing.T, version string) {
		dir := t.TempDir()
		must(t, exec.Command("cp", "-r", hostSource("plugin")+"/.", dir))
		must(t, exec.Command("cp", "-r", filepath.Join(dir, "p"), filepath.Join(dir, "q")))
		host, p1, p2 := filepath.Join(dir, "host.exe"), filepath.Join(dir, "p.so"), filepath.Join(dir, "q.so")
		goHost(t, version, dir, host, "./host")
		goHost(t, version, dir, p1, "-buildmode=plugin", "-ldflags", "-s -w", "./p")
		goHost(t, version, dir, p2, "-buildmode=plugin", "./q")
		p := start(t, nil, host, p1, p2)
		p.ready()
		n := functions(t, dump(t, p.pid))
		if n["plugged/p.Park"] != 2 || n["plugged/p.Spin"] != 1 {
			t.Errorf("one plugin: functions %v", n)
		}
		prof := attach(t, p.pid, 3*time.Second).profile()
		for _, f := range []string{"plugged/p.Spin", "plugged/q.Spin"} {
			if prof.cpu(with(f)) == 0 {
				t.Errorf("%s is not in the profile", f)
			}
		}
		if prof.wall(with("plugged/q.Park")) == 0 {
			t.Error("goroutines that wait in the plugin that came later are not in the profile")
		}
		n = functions(t, dump(t, p.pid))
		if n["plugged/p.Park"] != 2 || n["plugged/q.Park"] != 2 || n["plugged/q.Spin"] != 1 {
			t.Errorf("two plugins: functions %v", n)
		}
		if where := foundIn(t, p.pid); where != "its file" {
			t.Errorf("found in %q", where)
		}
		p.quit()
	})
}

// Shows: what is no Go program is refused in words, untouched, and it does not grow because it was searched.
func TestNoGo(t *testing.T) {
	for _, c := range []struct {
		name, says string
		flags      []string
	}{
		{"no Go", "is not a Go program", nil},
		{"static", "is not a Go program", []string{"-static"}},
		{"gccgo", "was built by gccgo", []string{"-DGCCGO"}},
	} {
		c := c
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			host := cHost(t, "nongo", c.flags...)
			p := start(t, nil, host)
			p.ready()
			before := kilobytes(t, p.pid, "VmRSS") + kilobytes(t, p.pid, "VmPTE")
			for _, command := range []string{"dump", "attach", "info"} {
				g := start(t, []option{workdir(t.TempDir())}, goprofPath, command, fmt.Sprint(p.pid))
				if status := g.wait(20 * time.Second); status == 0 || !strings.Contains(unbroken(g.err()), c.says) {
					t.Errorf("%s: status %d, says %s", command, status, g.err())
				}
			}
			if grown := kilobytes(t, p.pid, "VmRSS") + kilobytes(t, p.pid, "VmPTE") - before; grown > 1024 {
				t.Errorf("grown by %d kB", grown)
			}
			if why := untouched(p.pid); why != "" {
				t.Error(why)
			}
			p.quit()
			r, status := run(t, 20*time.Second, host, "short")
			if status != 5 || !strings.Contains(unbroken(r.err()), c.says) {
				t.Errorf("run: status %d, says %s", status, r.err())
			}
		})
	}
}
