// C code: called from Go, calling Go, in threads and handlers of its own. The target's thread clocks say how the time is
// split; who calls whom is known from its source.
package live

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const cgoPkg = pkg + "cgo."

// With symbols and debug information, and without either.
var nativeBuilds = []string{"1.19-cgo", "1.19-cgo-sw", "1.26-cgo", "1.26-cgo-sw"}

// isPlace: C code without a name is called by its place in its file.
func isPlace(function string) bool {
	file, offset, found := strings.Cut(function, "+0x")
	return found && file != "" && offset != ""
}

// unknownFrame is the first frame of a stack that stands for something unknown, "" if there is none.
func (s *sample) unknownFrame() string {
	for _, f := range s.stack {
		switch f {
		case "[C]", "[unknown]", "[gap]", "[incomplete]", "[truncated]":
			return f
		}
	}
	return ""
}

// inOrder: the functions stand in the stack in this order, from the leaf on; others may stand between them.
func (s *sample) inOrder(functions ...string) bool {
	for _, f := range s.stack {
		if len(functions) > 0 && f == functions[0] {
			functions = functions[1:]
		}
	}
	return len(functions) == 0
}

// mostly: of the CPU time that matches `of`, no more than a part in a hundred does not match `is`. Of threads that went on
// before a perf look at them was over less is known (there is a figure of them): their stacks may be cut.
func (p *profile) mostly(t testing.TB, what string, of, is func(*sample) bool) {
	t.Helper()
	all := p.cpu(of)
	not := p.cpu(func(s *sample) bool { return of(s) && !is(s) })
	if all == 0 {
		if p.figure(t, lookLine) > 100 {
			t.Errorf("%s: no such time at all", what)
		}
		return
	}
	cut := p.cpu(func(s *sample) bool { return of(s) && !is(s) && s.has("[truncated]") })
	wentOn := time.Duration(float64(p.cpu(anySample)) * p.figure(t, movedLine) / max(p.figure(t, lookLine), 1))
	t.Logf("%s: %v, of it otherwise: %v (%v cut, %v of threads that went on)", what, all, not, cut, wentOn)
	if not-min(cut, wentOn) <= all/100 {
		return
	}
	t.Errorf("%s: %v of %v are otherwise", what, not, all)
	for i, shown := 0, 0; i < len(p.samples) && shown < 5; i++ {
		if s := &p.samples[i]; s.cpu > 0 && of(s) && !is(s) {
			t.Errorf("  %v: %s", time.Duration(s.cpu), strings.Join(s.stack, " < "))
			shown++
		}
	}
}

func known(s *sample) bool { return s.unknownFrame() == "" }

// ofWorker: time of the target's worker, in whatever language.
func ofWorker(s *sample) bool { return s.has(cgoPkg + "worker") }

// Shows: C, Go, and Go called from C have their shares, all of it below the worker, and C functions have their names.
func TestNativeSplit(t *testing.T) {
	looks, points := 4000.0, 5.0 // 6 sigma of a share of 50 %, 4 where looks do not weigh the same; TestSplits has more
	if testing.Short() {
		looks, points = 1000, 8
	}
	each(t, inTurn(2, nativeBuilds...), false, func(t *testing.T, build string) {
		want, most := looks, points
		if strings.HasSuffix(build, "-sw") {
			want, most = 1000, 8 // what is different there is names
		}
		p := startTarget(t, build, "cgo", "-callback", "-dur", "15m")
		defer p.quit()
		cpu, seen, begin := make([]float64, 3), 0.0, time.Now()
		for seen < want {
			if time.Since(begin) > 4*time.Minute {
				t.Fatalf("%.0f valid looks after %v, want %.0f: is the machine busy?", seen, time.Since(begin), want)
			}
			prof := attach(t, p.pid, 12*time.Second).profile()
			seen += prof.figure(t, lookLine)
			checkNative(t, prof, build)
			for i, is := range []func(*sample) bool{
				with(cgoPkg + "_Cfunc_c_spin"),
				func(s *sample) bool { return s.has(cgoPkg+"spinGo") && !s.has(cgoPkg+"goSpin") },
				with(cgoPkg + "goSpin"),
			} {
				cpu[i] += float64(prof.cpu(is))
			}
		}
		told := func(key string) float64 { return truth(t, p.out(), "worker", key) }
		compareShares(t, []string{"C", "Go", "Go from C"}, cpu, []float64{told("c"), told("go"), told("go_from_c")}, most, seen)
		if why := untouched(p.pid); why != "" {
			t.Error(why)
		}
	})
}

// checkNative: what must hold for every profile of the worker with -callback.
func checkNative(t testing.TB, p *profile, build string) {
	t.Helper()
	p.mostly(t, "C spins, below the worker", with(cgoPkg+"_Cfunc_c_spin"), ofWorker)
	p.mostly(t, "no frame of the worker unknown", ofWorker, known)
	stripped := strings.HasSuffix(build, "-sw")
	spins := func(s *sample) bool {
		if stripped {
			return len(s.stack) > 1 && isPlace(s.stack[0]) && isPlace(s.stack[1]) && s.stack[0] != s.stack[1]
		}
		return s.inOrder("c_leaf", "c_middle", "c_spin", "runtime.cgocall") && s.index("c_leaf") == 0
	}
	inC := func(s *sample) bool {
		return s.has(cgoPkg+"_Cfunc_c_spin") && s.index(cgoPkg+"_Cfunc_c_spin") > 1 && s.stack[0] != "runtime.cgocall"
	}
	p.mostly(t, "C functions by name or place", inC, spins)
	p.mostly(t, "Go from C", with(cgoPkg+"goSpin"), func(s *sample) bool {
		callback := stripped || s.inOrder("runtime.cgocallback", "goSpin", "c_callback", "runtime.cgocall")
		return callback && s.inOrder(cgoPkg+"goSpin", "runtime.cgocallback", "goSpin", "runtime.cgocall", cgoPkg+"worker")
	})
	if n := p.figure(t, "lost in C"); n > 0 {
		t.Errorf("%.0f walks lost in C", n)
	}
	if p.figure(t, "C frames") == 0 {
		t.Error("no C frames counted")
	}
}

// Shows: threads that C made, with and without calls into Go, down to their first function, under their own names.
func TestNativeThreads(t *testing.T) {
	t.Parallel()
	each(t, inTurn(3, "1.19-cgo", "1.26-cgo", "1.19-cgo-static", "1.26-cgo-static"), false, func(t *testing.T, build string) {
		p := startTarget(t, build, "cgo", "-threads", "-dur", "5m")
		defer p.quit()
		r := attach(t, p.pid, lasting(10*time.Second, 5*time.Second))
		prof := r.profile()
		prof.mostly(t, "the thread that is never in Go", with("c_thread"), func(s *sample) bool {
			return s.inOrder("c_leaf", "c_thread") && s.index("c_thread") < len(s.stack)-1 && !s.has("runtime.goexit") && known(s)
		})
		prof.mostly(t, "the thread that calls Go", with("c_thread_go"), func(s *sample) bool {
			// On the way in and out, one look in a hundred, it is in the runtime.
			called := s.inOrder(cgoPkg+"spinGo", "runtime.cgocallback") || strings.HasPrefix(s.stack[0], "runtime.")
			return called && s.inOrder("runtime.cgocallback", "goSpin", "c_thread_go") &&
				s.index("c_thread_go") < len(s.stack)-1 && !s.has("runtime.goexit") && known(s)
		})
		all, spins := prof.cpu(with("c_thread_go")), prof.cpu(func(s *sample) bool { return s.inOrder(cgoPkg+"spinGo", "c_thread_go") })
		if spins < all*8/10 {
			t.Errorf("of %v in the thread that calls Go %v are in what it calls", all, spins)
		}
		named := false
		for _, e := range r.envelopes() {
			for _, thread := range e.profile.Profile.Names {
				named = named || strings.Contains(thread.Name, "[non-Go] c-alone")
			}
		}
		if !named {
			t.Error("no thread named [non-Go] c-alone in the envelope")
		}
	})
}

// Shows: C -> Go -> C -> Go -> C, each stretch of C between the Go code that called it and the Go code it called.
func TestNativeNest(t *testing.T) {
	t.Parallel()
	each(t, inTurn(2, "1.19-cgo", "1.26-cgo", "1.26-cgo-sw", "1.19-cgo-static", "1.26-cgo-static"), false, func(t *testing.T, build string) {
		const depth = 5
		p := startTarget(t, build, "cgo", "-nest", fmt.Sprint(depth), "-dur", "5m")
		defer p.quit()
		prof := attach(t, p.pid, lasting(10*time.Second, 5*time.Second)).profile()
		order := []string{"runtime.cgocall", cgoPkg + "_Cfunc_c_spin"}
		for i := 0; i < depth; i++ {
			order = append(order, cgoPkg+"goNest", "runtime.cgocallback", "goNest")
			if !strings.HasSuffix(build, "-sw") {
				order = append(order, "c_nest")
			}
			order = append(order, "runtime.cgocall", cgoPkg+"_Cfunc_c_nest")
		}
		order = append(order, cgoPkg+"worker")
		prof.mostly(t, "the nest", func(s *sample) bool { return s.index(cgoPkg+"goNest") > 2 }, func(s *sample) bool {
			return s.inOrder(order...) && known(s)
		})
	})
}

// Shows: a handler in C and what it interrupted, be that C or Go.
func TestNativeSignal(t *testing.T) {
	t.Parallel()
	each(t, inTurn(0, "1.19-cgo", "1.26-cgo"), false, func(t *testing.T, build string) {
		p := startTarget(t, build, "cgo", "-signal", "-dur", "5m")
		defer p.quit()
		time.Sleep(200 * time.Millisecond) // thread made last is known by then
		prof := attach(t, p.pid, lasting(15*time.Second, 8*time.Second)).profile()
		handler := with("c_handler")
		over := func(function string) time.Duration {
			return prof.cpu(func(s *sample) bool { return s.inOrder("c_leaf", "c_handler", function, cgoPkg+"worker") })
		}
		if over("c_spin") == 0 || over(cgoPkg+"spinGo") == 0 {
			t.Errorf("handler over C: %v, over Go: %v", over("c_spin"), over(cgoPkg+"spinGo"))
		}
		// Between two goroutines it may interrupt the scheduler, which stands below no goroutine.
		prof.mostly(t, "handlers", handler, known)
	})
}

// Shows: the C library and the vDSO have names, though the program is stripped.
func TestNativeLibrary(t *testing.T) {
	t.Parallel()
	each(t, inTurn(0, "1.19-cgo-sw", "1.26-cgo"), false, func(t *testing.T, build string) {
		p := startTarget(t, build, "cgo", "-vdso", "-dur", "5m")
		defer p.quit()
		prof := attach(t, p.pid, lasting(10*time.Second, 5*time.Second)).profile()
		prof.mostly(t, "the time in C", with(cgoPkg+"_Cfunc_c_clock"), func(s *sample) bool { return known(s) && ofWorker(s) })
		if prof.cpu(func(s *sample) bool { return s.inOrder("clock_gettime", cgoPkg+"_Cfunc_c_clock", cgoPkg+"worker") }) == 0 {
			t.Error("no time in clock_gettime of the C library")
		}
		if prof.cpu(func(s *sample) bool { return strings.HasPrefix(s.stack[0], "__vdso_") && ofWorker(s) }) == 0 {
			t.Error("no time in the vDSO by name")
		}
	})
}

// Shows: pprof files list the images with their build ids.
func TestNativeMappings(t *testing.T) {
	t.Parallel()
	p := startTarget(t, "1.26-cgo-sw", "cgo", "-vdso", "-dur", "5m")
	defer p.quit()
	r := attach(t, p.pid, 5*time.Second)
	text := goTool(t, "pprof", "-raw", filepath.Join(r.files, "p.pb.gz"))
	libc, err := exec.Command("sh", "-c", fmt.Sprintf("awk '/libc[.]so/ { print $6; exit }' /proc/%d/maps", p.pid)).Output()
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimSpace(string(libc))
	for _, line := range strings.Split(text[strings.Index(text, "\nMappings"):], "\n") {
		f := strings.Fields(line)
		if len(f) >= 4 && f[2] == path && len(f[3]) == 40 && strings.Contains(line, "[FN]") {
			return
		}
	}
	t.Errorf("no mapping of %s with a build id:\n%s", path, text[strings.Index(text, "\nMappings"):])
}

// Shows: --no-native leaves one mark for C, and the Go part as it was.
func TestNoNative(t *testing.T) {
	p := startTarget(t, "1.26-cgo", "cgo", "-callback", "-dur", "5m")
	defer p.quit()
	prof := attach(t, p.pid, 6*time.Second, "--no-native").profile()
	if n := prof.figure(t, "C frames"); n != 0 {
		t.Errorf("%v C frames counted", n)
	}
	prof.mostly(t, "C is one mark", with("[C]"), func(s *sample) bool {
		return len(s.stack) > 1 && s.stack[0] == "[C]" && s.stack[1] == "runtime.cgocall" && ofWorker(s)
	})
	prof.mostly(t, "Go from C", with(cgoPkg+"goSpin"), func(s *sample) bool {
		return !s.has("c_callback") && s.inOrder("runtime.cgocallback", cgoPkg+"_Cfunc_c_callback", cgoPkg+"worker")
	})
	// Four sigma, were each look to weigh twice as much.
	n := prof.figure(t, lookLine)
	if share, _ := prof.shares("[C]", cgoPkg+"spinGo"); n < 50 || math.Abs(share[0]-50) > 3+4*50*math.Sqrt2/math.Sqrt(n) {
		t.Errorf("C has %.0f %% at %.0f looks, truth is 50", share[0], n)
	}
}
