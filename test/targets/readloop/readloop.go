// Package readloop blocks in read(2) again and again, from two call sites in turn. The goroutine is never seen to
// wait (its status is syscall), and a profiler that keeps an old stack because nothing seems to have changed shows
// the wrong site.
//
// Right answer: wall time of goroutine readloop.reader split between readloop.siteA and readloop.siteB as the TRUTH line
// says: about 70 : 30, 7 ms and 3 ms a turn, varying by 40 %.
package readloop

import (
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"example.org/goprof/targets/oracle"
)

// wall time in ns and number of reads, by site
var wall, reads [2]int64

//go:noinline
func siteA(fd int, b []byte) { read(fd, b); oracle.Sink++ }

//go:noinline
func siteB(fd int, b []byte) { read(fd, b); oracle.Sink += 2 }

// read reads one byte. It may be inlined into its site or not.
func read(fd int, b []byte) {
	for {
		n, err := syscall.Read(fd, b)
		if err == syscall.EINTR {
			continue
		}
		if n != 1 {
			fmt.Println("BAD read:", n, err)
			os.Exit(1)
		}
		return
	}
}

//go:noinline
func reader(fd int) {
	var b [1]byte
	t := time.Now()
	for {
		for i, site := range [2]func(int, []byte){siteA, siteB} {
			site(fd, b[:])
			now := time.Now()
			atomic.AddInt64(&wall[i], int64(now.Sub(t)))
			atomic.AddInt64(&reads[i], 1)
			t = now
		}
	}
}

//go:noinline
func writer(fd int, r oracle.Rand, delay [2]time.Duration, jitter float64) {
	for {
		for _, d := range delay {
			time.Sleep(time.Duration(r.Vary(float64(d), jitter)))
			syscall.Write(fd, []byte{0})
		}
	}
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 30*time.Second, "run time")
	a := flag.Duration("a", 7*time.Millisecond, "time blocked at siteA")
	b := flag.Duration("b", 3*time.Millisecond, "time blocked at siteB")
	jitter := flag.Float64("jitter", 0.4, "vary both by this part")
	seed := flag.Uint64("seed", 1, "seed")
	flag.Parse()

	var p [2]int
	if err := syscall.Pipe(p[:]); err != nil {
		panic(err)
	}
	go reader(p[0])
	go writer(p[1], oracle.Rand(*seed), [2]time.Duration{*a, *b}, *jitter)
	oracle.Start()
	time.Sleep(*dur)
	wa, wb := atomic.LoadInt64(&wall[0]), atomic.LoadInt64(&wall[1])
	fmt.Printf("TRUTH siteA_ms=%.0f siteB_ms=%.0f siteA=%.1f%% siteB=%.1f%% reads=%d+%d\n", float64(wa)/1e6, float64(wb)/1e6,
		oracle.Percent(wa, wa+wb), oracle.Percent(wb, wa+wb), atomic.LoadInt64(&reads[0]), atomic.LoadInt64(&reads[1]))
}
