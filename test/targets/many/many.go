// Package many parks a great number of goroutines: many -n 78 has 99,450.
//
// Right answer: 50 call sites, one closure and one line each; site k (from 0) holds (k+1)*n goroutines. None is counted
// twice, and looking at them pauses the process for a bounded time. A dump on SIGUSR1 takes seconds.
package many

import (
	"flag"
	"fmt"
	"reflect"
	"runtime"
	"time"

	"example.org/goprof/targets/oracle"
)

var c = make(chan int)
var sites = []func(){
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
	func() { <-c },
}

// Main is the target.
func Main() {
	n := flag.Int("n", 78, "goroutines at the first site")
	dur := flag.Duration("dur", oracle.Long, "run time")
	flag.Parse()
	scale := *n
	for k, f := range sites {
		for i := 0; i < (k+1)*scale; i++ {
			go f()
		}
	}
	time.Sleep(2 * time.Second)
	pc := reflect.ValueOf(sites[0]).Pointer()
	_, line := runtime.FuncForPC(pc).FileLine(pc)
	fmt.Printf("TRUTH total=%d site k: (k+1)*%d at line %d+k\n", 1275*scale, scale, line)
	oracle.Start()
	oracle.Park(*dur)
}
