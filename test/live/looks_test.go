// Where looks at threads on a CPU come from: perf events or ptrace stops. Both must give the same shares; with perf
// events nothing is ever stopped.
package live

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

var perfIsOk = sync.OnceValue(func() string {
	out, err := exec.Command(goprofPath, "info").CombinedOutput()
	if err != nil {
		return fmt.Sprintf("goprof info: %v", err)
	}
	if regexp.MustCompile(`(?m)^ *perf_event_open +ok`).Match(out) {
		return ""
	}
	return "perf events cannot be had here: " + string(regexp.MustCompile(`(?m)^ *perf_event_open.*`).Find(out))
})

func needsPerf(t testing.TB) {
	t.Helper()
	if why := perfIsOk(); why != "" {
		t.Skip(why)
	}
}

// eachSource runs f with both, in subtests of their own.
func eachSource(t *testing.T, f func(t *testing.T, looks string)) {
	t.Helper()
	for _, looks := range []string{"perf", "ptrace"} {
		t.Run(looks, func(t *testing.T) {
			if looks == "perf" {
				needsPerf(t)
			}
			f(t, looks)
		})
	}
}

var sourceNames = map[string]string{"perf": "perf events", "ptrace": "ptrace stops"}

// checkSource: the profile says where its looks come from, and its figures agree.
func checkSource(t testing.TB, r *recording, looks string) {
	t.Helper()
	p := r.profile()
	if all := strings.Join(p.comments, "\n"); !strings.Contains(all, "threads on a CPU were looked at by "+sourceNames[looks]) {
		t.Errorf("no word of %s in the comments:\n%s", sourceNames[looks], all)
	}
	for _, e := range r.envelopes() {
		if said := e.transaction.Contexts.Goprof.Looks; said != sourceNames[looks] {
			t.Errorf("the envelope says %q, not %s", said, sourceNames[looks])
		}
	}
	if looks != "perf" {
		return
	}
	for _, name := range []string{"late-blocked", "waits restarted", "threads that came late", "signals handed on", "threads held by another tracer"} {
		if n := p.figure(t, name); n != 0 {
			t.Errorf("%s: %.0f, although nothing is stopped", name, n)
		}
	}
	if all, valid := p.figure(t, "threads captured"), p.figure(t, lookLine); all != valid {
		t.Errorf("%.0f of %.0f looks are valid; a sample always is", valid, all)
	}
	// Most threads stand still for their reader. Where they do not, as a rule the goroutine is known all the same.
	all, moved, nobody := p.figure(t, lookLine), p.figure(t, movedLine), p.figure(t, "looks without a goroutine")
	t.Logf("%.0f looks, %.0f at threads that went on, %.0f of them without a goroutine; %.0f lost", all, moved, nobody, p.figure(t, "perf samples lost"))
	if nobody > 0.02*all+5 {
		t.Errorf("%.0f of %.0f looks have no goroutine", nobody, all)
	}
}

// Shows: in the vDSO, on the system stack and in the kernel looks by perf know their goroutine too.
func TestHardStacksBySource(t *testing.T) {
	d := lasting(20*time.Second, 5*time.Second)
	for _, c := range []struct {
		target string
		check  func(t *testing.T, p *profile)
	}{
		{"vdso", checkVdso},
		{"gcheavy", checkSystemStack},
		{"signals", nil},
		{"growstack", nil},
	} {
		t.Run(c.target, func(t *testing.T) {
			eachSource(t, func(t *testing.T, looks string) {
				r, status := run(t, d+time.Minute, "--looks", looks, target("1.26-sw"), c.target, "-dur", d.String())
				if status != 0 {
					t.Errorf("status %d\n%s", status, tail(r.err()))
				}
				checkSource(t, r, looks)
				checkComplete(t, r.profile())
				if c.check != nil {
					c.check(t, r.profile())
				}
			})
		})
	}
}

// Shows: with perf events nobody is traced and nothing stopped: another tracer, which comes while goprof records, has
// the process for itself and takes nothing away. At no time does a thread name goprof as its tracer.
func TestPerfStopsNothing(t *testing.T) {
	needsPerf(t)
	p := startTarget(t, "1.26-sw", "busy", "-n", "2", "-dur", "2m")
	r := record(t, nil, "attach", "-v", "--looks", "perf", "--duration", "4s", fmt.Sprint(p.pid))
	eventually(t, 10*time.Second, "goprof has attached", func() bool { return strings.Contains(r.err(), "attached to") })
	looked, end := 0, time.Now().Add(time.Second)
	for ; time.Now().Before(end); looked++ {
		if why := untouched(p.pid); why != "" {
			t.Fatal(why)
		}
	}
	tracer(t, p.pid, 1.5).wait(10 * time.Second)
	if status := r.wait(20 * time.Second); status != 0 {
		t.Fatalf("status %d\n%s", status, r.err())
	}
	r.check()
	checkSource(t, r, "perf")
	for _, name := range []string{"threads held by another tracer", "threads that may not be held"} {
		if n := r.profile().figure(t, name); n != 0 {
			t.Errorf("%s: %v", name, n)
		}
	}
	t.Logf("looked %d times at all threads", looked)
}

// Shows: where the kernel refuses perf events, auto stops threads and says so and why; who insists is told what helps.
func TestPerfRefused(t *testing.T) {
	wrap, p := wrapper(t), startTarget(t, "1.26-sw", "busy", "-dur", "2m")
	refused(t, 67, nil, []string{"perf events are not permitted", "why a seccomp filter", "do "}, wrap, "noperf", goprofPath, "attach", "--looks", "perf", fmt.Sprint(p.pid))
	files := t.TempDir()
	out := filepath.Join(files, "p.pb.gz")
	a := start(t, nil, wrap, "noperf", goprofPath, "attach", "-v", "--duration", "500ms", "-o", out, fmt.Sprint(p.pid))
	if status := a.wait(20 * time.Second); status != 0 {
		t.Fatalf("status %d\n%s", status, a.err())
	}
	said := strings.Join(strings.Fields(a.err()), " ")
	for _, want := range []string{"looks: by ptrace stops: perf events are not permitted: a seccomp filter", "looks by ptrace stops"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, a.err())
		}
	}
	prof := openProfile(t, out)
	if all := strings.Join(prof.comments, "\n"); !strings.Contains(all, "looked at by ptrace stops (perf events are not permitted: a seccomp filter") {
		t.Errorf("the comments do not say why:\n%s", all)
	}
	if prof.figure(t, lookLine) == 0 {
		t.Error("no looks")
	}
	info := start(t, nil, wrap, "noperf", goprofPath, "info")
	info.wait(20 * time.Second)
	if said := strings.Join(strings.Fields(info.out()), " "); !strings.Contains(said, "perf_event_open missing (Operation not permitted): threads on a CPU are stopped for a look") {
		t.Errorf("info says\n%s", info.out())
	}
}

// Shows: without privilege perf events are no match for stops, which auto then takes; asked for, they are still right.
func TestPerfWithoutPrivilege(t *testing.T) {
	needsPerf(t)
	root(t)
	program, ours := filepath.Join(openDir(t), "app"), filepath.Join(openDir(t), "goprof")
	for from, to := range map[string]string{target("1.26-sw"): program, goprofPath: ours} {
		if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for looks, want := range map[string]string{"auto": "looks by ", "perf": "looks by perf events"} {
		files := openDir(t)
		p := start(t, []option{as(nobody), workdir(files)}, ours, "run", "-v", "--looks", looks, "--no-dsn", "-o", filepath.Join(files, "p.pb.gz"), program, "busy", "-n", "2", "-dur", lasting(20*time.Second, 5*time.Second).String())
		status := p.wait(time.Minute)
		said := strings.Join(strings.Fields(p.err()), " ")
		if status == 67 && looks == "perf" && strings.Contains(said, "kernel.perf_event_paranoid is") {
			t.Logf("refused: %s", said)
			continue
		}
		if status != 0 || !strings.Contains(said, want) {
			t.Errorf("%s: status %d, no %q in\n%s", looks, status, want, p.err())
			continue
		}
		prof := openProfile(t, filepath.Join(files, "p.pb.gz"))
		names := []string{pkg + "busy.alpha", pkg + "busy.beta", pkg + "busy.gamma"}
		share, _ := prof.shares(names...)
		n := prof.figure(t, lookLine)
		t.Logf("%s: %s; %.0f looks, %.0f at threads that went on, shares %.1f", looks, regexp.MustCompile(`looks by [a-z ]+`).FindString(said), n, prof.figure(t, movedLine), share)
		for i, want := range []float64{50, 30, 20} {
			if math.Abs(share[i]-want) > 1+4*50/math.Sqrt(n) {
				t.Errorf("%s: %s has %.1f %%, truth %.1f", looks, names[i], share[i], want)
			}
		}
	}
}
