// Ticks at which nothing has run are left out: a process that waits costs next to nothing, and the profile is the same.
package live

import (
	"math"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

const gatedLine = "ticks left out as idle"

// coarse tells whether the kernel charges CPU time less often than goprof looks: then no tick can be left out.
func coarse(t *testing.T) bool {
	t.Helper()
	const monotonicCoarse = 6
	var step syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETRES, monotonicCoarse, uintptr(unsafe.Pointer(&step)), 0); errno != 0 {
		t.Fatal(errno)
	}
	return time.Duration(step.Nano()) >= time.Second/101
}

// Shows: the goroutines of an idle process are told as long as they were there, though hardly any tick has looked.
func TestIdleIsGated(t *testing.T) {
	if coarse(t) {
		t.Skip("the scheduler's tick is too rare here")
	}
	each(t, eachVersion, true, func(t *testing.T, build string) {
		p := startTarget(t, build, "waitreasons", "-dur", "1m")
		time.Sleep(500 * time.Millisecond)
		const d = 3 * time.Second
		prof := attach(t, p.pid, d).profile()
		done, gated := prof.figure(t, "ticks done"), prof.figure(t, gatedLine)
		if gated < 0.8*done {
			t.Errorf("%.0f of %.0f ticks were left out", gated, done)
		}
		for _, function := range []string{"parkRange", "parkSelect", "parkMutex"} {
			goroutines := 0
			for _, g := range parseStacks(t, dump(t, p.pid)) {
				if g.in(pkg + "waitreasons." + function) {
					goroutines++
				}
			}
			wall := prof.wall(with(pkg + "waitreasons." + function))
			if want := time.Duration(goroutines) * d; wall < want*9/10 || wall > want*11/10 {
				t.Errorf("%d goroutines in %s for %v: %v in all", goroutines, function, d, wall)
			}
		}
	})
}

// Shows: ten thousand goroutines that wait are left alone before Go 1.17, too, where each header needs some of its stack to
// be believed: looking at all of them comes to an end, and each has been seen where it is.
func TestIdleWithoutCounter(t *testing.T) {
	if coarse(t) {
		t.Skip("the scheduler's tick is too rare here")
	}
	build := buildWithoutCounter(t)
	p := startTarget(t, build, "many", "-n", "8")
	const d, all = 5 * time.Second, 8 * 1275
	prof := attach(t, p.pid, d).profile()
	done, gated, own := prof.figure(t, "ticks done"), prof.figure(t, gatedLine), time.Duration(prof.figure(t, "own CPU"))
	t.Logf("%.0f of %.0f ticks were left out, own CPU %v; %.0f stacks read, %.0f put off, %.0f believed unread", gated, done, own,
		prof.figure(t, "stacks"), prof.figure(t, "stacks put off"), prof.figure(t, "unchanged"))
	if gated < 0.5*done {
		t.Errorf("%.0f of %.0f ticks were left out", gated, done)
	}
	if own > d/8 {
		t.Errorf("%v of CPU time in %v", own, d)
	}
	if wall := prof.wall(with("runtime.chanrecv1")); wall < all*d*9/10 || wall > all*d*11/10 {
		t.Errorf("%d goroutines for %v: %v in all", all, d, wall)
	}
}

// Shows: between bursts of a millisecond ticks are left out, and no CPU time is lost by that.
func TestBurstsAreNotGated(t *testing.T) {
	if coarse(t) {
		t.Skip("the scheduler's tick is too rare here")
	}
	d := lasting(12*time.Second, 4*time.Second)
	each(t, inTurn(0, eachVersion...), false, func(t *testing.T, build string) {
		r, status := run(t, d+time.Minute, target(build), "burst", "-threads", "1", "-on", "1ms", "-off", "30ms", "-jitter", "0.4",
			"-dur", d.String())
		if status != 0 {
			t.Fatalf("status %d\n%s", status, tail(r.err()))
		}
		prof := r.profile()
		done, gated := prof.figure(t, "ticks done"), prof.figure(t, gatedLine)
		if t.Logf("%.0f of %.0f ticks were left out", gated, done); gated < 0.1*done || gated > 0.9*done {
			t.Errorf("%.0f of %.0f ticks were left out: nothing shown", gated, done)
		}
		// What the process did before it began to measure, and after, is in the profile as well.
		own, all := time.Duration(1e6*truth(t, r.out(), "bursts=", "process_ms")), prof.cpu(anySample)
		if all < own*95/100 || all > own*105/100+40*time.Millisecond {
			t.Errorf("%v of CPU time, the process says %v", all, own)
		}
		// That sum holds without a single look: the bursts must have been seen, but for those after the last look at their
		// thread. Looks come with each tick's worth of its CPU time, by chance: nine without one are one in ten thousand.
		// Of the process's other threads, which run for a few us at a time, none may have been seen.
		bursts := time.Duration(1e6 * truth(t, r.out(), "bursts=", "threads_ms"))
		if unseen := prof.cpu(with("[unseen]")); unseen > all-bursts+9*tick {
			t.Errorf("%v of %v were not seen, %v are those of the bursts", unseen, all, bursts)
		}
		// And where it was: few looks meet a burst, and each of them stands for the CPU time of its thread since the last.
		in := time.Duration(1e6 * (truth(t, r.out(), "bursts=", "hotA_ms") + truth(t, r.out(), "bursts=", "hotB_ms")))
		hot := prof.cpu(with(pkg+"burst.hotA")) + prof.cpu(with(pkg+"burst.hotB"))
		part, looks := in.Seconds()/own.Seconds(), prof.figure(t, lookLine)
		least := part - 4*math.Sqrt(part*(1-part)/max(looks, 1))
		t.Logf("%v of %v in the bursts by %.0f looks, %v by the process itself", hot, all, looks, in)
		if looks < 5 || hot.Seconds() < least*all.Seconds() {
			t.Errorf("%v of %v in the bursts by %.0f looks, want at least %.0f %%", hot, all, looks, 100*least)
		}
	})
}
