//go:build go1.23
// +build go1.23

// Package coro holds iter.Pull coroutines (Go 1.23 and newer).
//
// Right answer: 7 goroutines in coro.gen.func1 with wait reason coroutine; their stacks end in runtime.corostart.
package coro

import (
	"flag"
	"fmt"
	"iter"
	"time"

	"example.org/goprof/targets/oracle"
)

//go:noinline
func gen(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < n; i++ {
			if !yield(i) {
				return
			}
		}
	}
}

// nexts keeps the iterators alive.
var nexts []func() (int, bool)

// Main is the target.
func Main() {
	dur := flag.Duration("dur", oracle.Long, "run time")
	flag.Parse()
	for i := 0; i < 7; i++ {
		next, _ := iter.Pull(gen(10))
		next()
		nexts = append(nexts, next)
	}
	next, stop := iter.Pull(gen(1))
	next()
	stop()
	time.Sleep(100 * time.Millisecond)
	fmt.Println("TRUTH 7 goroutines in coro.gen.func1 with wait reason coroutine; stacks end in runtime.corostart")
	oracle.Start()
	oracle.Park(*dur)
}
