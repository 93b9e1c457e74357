// Package churn makes and ends goroutines as fast as it can.
//
// Right answer: every stack of a child is churn.leaf<-churn.childA/B/C or the child alone; their counts are near 6:3:1;
// created by churn.spawner; no torn stack.
package churn

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"example.org/goprof/targets/oracle"
)

var made [3]int64

//go:noinline
func leaf(k int, wg *sync.WaitGroup) { atomic.AddInt64(&made[k], 1); wg.Done() }

//go:noinline
func childA(wg *sync.WaitGroup) { leaf(0, wg) }

//go:noinline
func childB(wg *sync.WaitGroup) { leaf(1, wg) }

//go:noinline
func childC(wg *sync.WaitGroup) { leaf(2, wg) }

//go:noinline
func spawner(end time.Time) {
	for time.Now().Before(end) {
		var wg sync.WaitGroup
		wg.Add(1000)
		for i := 0; i < 100; i++ {
			for j := 0; j < 6; j++ {
				go childA(&wg)
			}
			for j := 0; j < 3; j++ {
				go childB(&wg)
			}
			go childC(&wg)
		}
		wg.Wait()
	}
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 8*time.Second, "run time")
	flag.Parse()
	oracle.Start()
	spawner(time.Now().Add(*dur))
	n := made[0] + made[1] + made[2]
	fmt.Printf("TRUTH goroutines=%d (%d/s) left=%d; any child stack is churn.leaf<-churn.childX or a prefix; created by churn.spawner\n", n, n*1000/(1+dur.Milliseconds()), runtime.NumGoroutine())
}
