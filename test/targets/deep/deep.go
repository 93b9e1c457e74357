// Package deep has very deep stacks: deep -n 100000.
//
// Right answer: n frames of deep.rec in one goroutine; deep.even and deep.odd alternate n deep in another (not with
// -one). Their leaf is deep.parked, deep.blocked (in a system call) or deep.runs, as -leaf says, their root deep.first
// or deep.second. A tool that cuts says so and keeps the leaf side. The runtime's own dump shows 100 frames only: do
// not compare the depth with it.
package deep

import (
	"flag"
	"fmt"
	"os"
	"syscall"
	"time"

	"example.org/goprof/targets/oracle"
)

var gate = make(chan int)

//go:noinline
func parked() int { return <-gate }

//go:noinline
func blocked() int {
	for {
		call := syscall.Timespec{Sec: 3600}
		syscall.Nanosleep(&call, nil)
	}
}

//go:noinline
func runs() (n int) {
	for {
		n++
		oracle.Sink += uint64(n)
	}
}

var leaf func() int

//go:noinline
func rec(n int) int {
	if n == 1 {
		return leaf() + 1
	}
	return rec(n-1) + 1
}

//go:noinline
func even(n int) int {
	var pad [40]int
	pad[n%40] = n
	if n <= 1 {
		return leaf() + pad[n%40]
	}
	return odd(n-1) + pad[n%40]
}

//go:noinline
func odd(n int) int { return even(n-1) + 1 }

//go:noinline
func first(n int) int { return rec(n) + 1 }

//go:noinline
func second(n int) int { return even(n) + 1 }

// Main is the target.
func Main() {
	depth := flag.Int("n", 1000, "frames")
	dur := flag.Duration("dur", oracle.Long, "run time")
	at := flag.String("leaf", "parked", "where they stand: parked, blocked, runs")
	one := flag.Bool("one", false, "deep.rec only")
	flag.Parse()
	n := *depth
	leaf = map[string]func() int{"parked": parked, "blocked": blocked, "runs": runs}[*at]
	if leaf == nil {
		flag.Usage()
		os.Exit(2)
	}
	go first(n)
	if !*one {
		go second(n)
	}
	time.Sleep(time.Second)
	fmt.Printf("TRUTH deep.rec=%d deep.even=%d deep.odd=%d\n", n, n/2+n%2+(1-n%2), n/2)
	oracle.Start()
	oracle.Park(*dur)
}
