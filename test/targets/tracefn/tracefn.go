// Package tracefn calls functions a known number of times and leaves them in every way there is. Attach in the first second.
//
// Right answer (calls): plain 1050, manyReturns 1000, guard 1000, panics 1000 (500 leave by a panic), nargs 1000 (no
// BAD line: register and stack arguments are intact), tiny 1000 (one-byte body), slow2ms 200 (2 ms or more each), fib 1973
// (recursion), exits 50 (left by Goexit). The line RESULT 1750035 610 is unchanged.
package tracefn

import (
	"flag"
	"fmt"
	"runtime"
	"time"

	"example.org/goprof/targets/oracle"
)

//go:noinline
func plain(n int) int { return n * 3 }

//go:noinline
func slow2ms() { time.Sleep(2 * time.Millisecond) }

//go:noinline
func manyReturns(n int) string {
	switch {
	case n%5 == 0:
		return "a"
	case n%3 == 0:
		return "bb"
	case n%2 == 0:
		return "ccc"
	}
	return ""
}

//go:noinline
func panics(n int) int {
	if n%2 == 0 {
		panic(n)
	}
	return n
}

//go:noinline
func guard(n int) (r int) { defer func() { recover() }(); return panics(n) }

//go:noinline
func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

//go:noinline
func exits() { defer plain(1); runtime.Goexit() }

//go:noinline
func nargs(a, b, c, d, e, f, g, h, i, j, k, l int, x, y float64) (int, float64, string) {
	return a + b + c + d + e + f + g + h + i + j + k + l, x * y, "ok"
}

//go:noinline
func tiny() {}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", time.Second, "time before the first call")
	flag.Parse()
	oracle.Start()
	time.Sleep(*dur)
	s := 0
	for i := 0; i < 1000; i++ {
		s += plain(i) + len(manyReturns(i)) + guard(i)
		a, b, c := nargs(i, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 2.5, 4)
		if a != i+66 || b != 10 || c != "ok" {
			fmt.Println("BAD nargs", a, b, c)
		}
		tiny()
	}
	for i := 0; i < 200; i++ {
		slow2ms()
	}
	for i := 0; i < 50; i++ {
		done := make(chan int)
		go func() { defer close(done); exits() }()
		<-done
	}
	fmt.Println("RESULT", s, fib(15), "TRUTH plain=1050 manyReturns=1000 guard=1000 panics=1000(500 leave by panic) nargs=1000 tiny=1000 slow2ms=200(>=2ms each) fib=1973 exits=50(never return)")
}
