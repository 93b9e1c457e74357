// Package growstack has stacks that grow, shrink and move all the time, and functions that return through moved frames.
//
// Right answer: bad=0 and exit status 0. A patched return address shows as a crash or a wrong sum. growstack.traced is
// called 501 times a round: the TRUTH line counts.
package growstack

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"example.org/goprof/targets/oracle"
)

//go:noinline
func traced(n int) int { return n + 1 }

//go:noinline
func grow(n int) int {
	var pad [64]int
	if n == 0 {
		return traced(0)
	}
	pad[n&63] = grow(n - 1)
	return traced(pad[n&63])
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 8*time.Second, "run time")
	flag.Parse()
	oracle.Start()
	var calls, bad int64
	var wg sync.WaitGroup
	end := time.Now().Add(*dur)
	for i := 0; i < 8; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for time.Now().Before(end) {
				done := make(chan int)
				go func() { done <- grow(500) }()
				if v := <-done; v != 501 {
					atomic.AddInt64(&bad, 1)
				}
				atomic.AddInt64(&calls, 501)
			}
		}()
	}
	go func() {
		for {
			runtime.GC()
			time.Sleep(20 * time.Millisecond)
		}
	}()
	wg.Wait()
	fmt.Printf("TRUTH calls of growstack.traced=%d bad=%d (must be 0)\n", calls, bad)
	if bad > 0 {
		os.Exit(1)
	}
}
