// Package burst computes in short bursts on many threads: what a sampler that looks at threads one by one, or only
// while they happen to run, gets wrong.
//
// Right answer: the CPU split between burst.hotA and burst.hotB (70 : 30 by default, each through burst.spin, called by
// burst.work; with -fixed both within each burst, hotA first) and the CPU totals of the TRUTH line. threads_ms is the whole CPU time of the burst threads, process_ms
// that of the process, over the same time.
package burst

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"example.org/goprof/targets/oracle"
)

// tally is what one thread measured of itself, in ns.
type tally struct {
	hotA, hotB, thread int64
	bursts             int64
}

//go:noinline
func spin(n int) (x uint64) {
	for i := 0; i < n; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return
}

//go:noinline
func hotA(n int) uint64 { return spin(n) }

//go:noinline
func hotB(n int) uint64 { return spin(n) + 1 }

// speed is the number of spin steps in a ns of CPU time.
func speed() float64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const steps = 2000000
	best := int64(1 << 62)
	for i := 0; i < 5; i++ {
		t := oracle.ThreadCPU()
		spin(steps)
		if t = oracle.ThreadCPU() - t; t < best {
			best = t
		}
	}
	return steps / float64(best)
}

type config struct {
	on, off, period time.Duration
	jitter          float64
	partA           float64
	fixed           bool
	speed           float64
	end             time.Time
}

// part is what f has of a burst.
func part(f func(int) uint64, share, steps float64, ns *int64) {
	if share == 0 {
		return
	}
	begin := oracle.ThreadCPU()
	f(int(share * steps))
	*ns += oracle.ThreadCPU() - begin
}

func work(c config, r oracle.Rand, t *tally) {
	runtime.LockOSThread()
	first := oracle.ThreadCPU()
	for next := time.Now(); next.Before(c.end); t.bursts++ {
		n, a := r.Vary(float64(c.on)*c.speed, c.jitter), c.partA
		if !c.fixed && r.Float() < a {
			a = 1
		} else if !c.fixed {
			a = 0
		}
		part(hotA, a, n, &t.hotA)
		part(hotB, 1-a, n, &t.hotB)
		if c.period > 0 {
			next = next.Add(c.period)
			time.Sleep(time.Until(next))
		} else {
			time.Sleep(time.Duration(r.Vary(float64(c.off), c.jitter)))
			next = time.Now()
		}
	}
	t.thread = oracle.ThreadCPU() - first
}

// Main is the target.
func Main() {
	threads := flag.Int("threads", 8, "locked threads")
	dur := flag.Duration("dur", 30*time.Second, "run time")
	on := flag.Duration("on", time.Millisecond, "CPU time of a burst")
	off := flag.Duration("off", 9*time.Millisecond, "sleep between bursts")
	period := flag.Duration("period", 0, "time from the start of a burst to that of the next, instead of -off")
	fixed := flag.Bool("fixed", false, "each burst is hotA and then hotB: where it stands is a matter of its phase")
	jitter := flag.Float64("jitter", 0, "vary both by this part, e.g. 0.4")
	partA := flag.Float64("a", 0.7, "part of the bursts spent in hotA")
	seed := flag.Uint64("seed", 1, "seed")
	flag.Parse()

	c := config{*on, *off, *period, *jitter, *partA, *fixed, speed(), time.Now().Add(*dur)}
	oracle.Start()
	process := oracle.ProcessCPU()
	tallies := make([]tally, *threads)
	var wg sync.WaitGroup
	for i := range tallies {
		wg.Add(1)
		go func(i int) {
			defer wg.Done()
			cycle := *on + *off
			if *period > 0 {
				cycle = *period
			}
			time.Sleep(time.Duration(i) * cycle / time.Duration(*threads)) // spread over the cycle
			work(c, oracle.Rand(*seed*1000+uint64(i)), &tallies[i])
		}(i)
	}
	wg.Wait()
	process = oracle.ProcessCPU() - process

	var t tally
	for _, k := range tallies {
		t.hotA, t.hotB, t.thread, t.bursts = t.hotA+k.hotA, t.hotB+k.hotB, t.thread+k.thread, t.bursts+k.bursts
	}
	fmt.Printf("TRUTH bursts=%d hotA_ms=%.1f hotB_ms=%.1f hotA=%.1f%% hotB=%.1f%% threads_ms=%.1f process_ms=%.1f\n",
		t.bursts, float64(t.hotA)/1e6, float64(t.hotB)/1e6, oracle.Percent(t.hotA, t.hotA+t.hotB),
		oracle.Percent(t.hotB, t.hotA+t.hotB), float64(t.thread)/1e6, float64(process)/1e6)
	os.Exit(0)
}
