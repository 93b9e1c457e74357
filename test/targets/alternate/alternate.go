// Package alternate has goroutines that are in two or three places in turn: asleep at one call site, asleep at another
// (same depth, same frame sizes: only the runtime's counter of parks tells them apart), and, with -hot, on a CPU
// before that. With -parked there are others besides, so many that a profiler cannot look at all of them each time.
//
// Right answer: wall time below alternate.siteA, alternate.siteB and alternate.hot as the last TRUTH line says (one a
// second; measured by the goroutines themselves): 70 : 30 for the sites by default. Each cycle varies by 40 %. work is
// what the part of hot would be if its goroutines had never waited for a core.
package alternate

import (
	"flag"
	"fmt"
	"sync/atomic"
	"time"

	"example.org/goprof/targets/oracle"
)

// wall time in ns: siteA, siteB, hot; and the work done in hot, in turns of its loop
var (
	wall  [3]int64
	turns int64
)

//go:noinline
func siteA(d time.Duration) { time.Sleep(d); oracle.Sink++ }

//go:noinline
func siteB(d time.Duration) { time.Sleep(d); oracle.Sink += 2 }

//go:noinline
func turn(x uint64) uint64 {
	for i := 0; i < 1000; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

//go:noinline
func hot(d time.Duration) (x uint64) {
	n := int64(0)
	for begin := time.Now(); time.Since(begin) < d; n++ {
		x = turn(x)
	}
	atomic.AddInt64(&turns, n)
	return
}

// turnTime is how long a turn takes that nothing interrupts, in ns.
func turnTime() float64 {
	const n = 200
	best := time.Hour
	for i := 0; i < 10; i++ {
		begin := time.Now()
		for k := 0; k < n; k++ {
			oracle.Sink = turn(oracle.Sink)
		}
		if d := time.Since(begin); d < best {
			best = d
		}
	}
	return float64(best) / n
}

type config struct {
	a, b, hot time.Duration
	jitter    float64
}

//go:noinline
func alternator(c config, r oracle.Rand) {
	now := time.Now()
	spent := func(k int) {
		t := time.Now()
		atomic.AddInt64(&wall[k], int64(t.Sub(now)))
		now = t
	}
	siteA(time.Duration(r.Float() * float64(c.a+c.b))) // they do not go in step
	for now = time.Now(); ; {
		by := r.Vary(1, c.jitter)
		if c.hot > 0 {
			hot(time.Duration(by * float64(c.hot)))
			spent(2)
		}
		siteA(time.Duration(by * float64(c.a)))
		spent(0)
		siteB(time.Duration(by * float64(c.b)))
		spent(1)
	}
}

//go:noinline
func idle(c chan int) { <-c }

// Main is the target.
func Main() {
	dur := flag.Duration("dur", oracle.Long, "run time")
	n := flag.Int("n", 20, "goroutines that alternate")
	parked := flag.Int("parked", 0, "others, which do nothing")
	a := flag.Duration("a", 7*time.Millisecond, "time asleep at siteA")
	b := flag.Duration("b", 3*time.Millisecond, "time asleep at siteB")
	on := flag.Duration("hot", 0, "time on a CPU before that")
	jitter := flag.Float64("jitter", 0.4, "vary each cycle by this part")
	seed := flag.Uint64("seed", 1, "seed")
	flag.Parse()

	each := turnTime()
	never := make(chan int)
	for i := 0; i < *parked; i++ {
		go idle(never)
	}
	time.Sleep(time.Duration(*parked) * 10 * time.Microsecond)
	for i := 0; i < *n; i++ {
		go alternator(config{*a, *b, *on, *jitter}, oracle.Rand(*seed*1000+uint64(i)))
	}
	oracle.Start()
	for end := time.Now().Add(*dur); time.Now().Before(end); {
		time.Sleep(time.Second)
		a, b, h := atomic.LoadInt64(&wall[0]), atomic.LoadInt64(&wall[1]), atomic.LoadInt64(&wall[2])
		all, work := a+b+h, int64(each*float64(atomic.LoadInt64(&turns)))
		fmt.Printf("TRUTH wall_ms=%d siteA=%.3f%% siteB=%.3f%% hot=%.3f%% work=%.3f%%\n", all/1e6, oracle.Percent(a, all),
			oracle.Percent(b, all), oracle.Percent(h, all), oracle.Percent(work, all))
	}
}
