// Package deep has very deep stacks: deep -n 100000.
//
// Right answer: n frames of deep.rec in one goroutine; deep.even and deep.odd alternate n deep in another. A tool that cuts
// says so and keeps the leaf side. The runtime's own dump shows 100 frames only: do not compare the depth with it.
package deep

import (
	"flag"
	"fmt"
	"time"

	"example.org/goprof/targets/oracle"
)

var gate = make(chan int)

//go:noinline
func rec(n int) int {
	if n == 1 {
		<-gate
		return 1
	}
	return rec(n-1) + 1
}

//go:noinline
func even(n int) int {
	var pad [40]int
	pad[n%40] = n
	if n <= 1 {
		<-gate
		return 1
	}
	return odd(n-1) + pad[n%40]
}

//go:noinline
func odd(n int) int { return even(n-1) + 1 }

// Main is the target.
func Main() {
	depth := flag.Int("n", 1000, "frames")
	dur := flag.Duration("dur", oracle.Long, "run time")
	flag.Parse()
	n := *depth
	go rec(n)
	go even(n)
	time.Sleep(time.Second)
	fmt.Printf("TRUTH deep.rec=%d deep.even=%d deep.odd=%d\n", n, n/2+n%2+(1-n%2), n/2)
	oracle.Start()
	oracle.Park(*dur)
}
