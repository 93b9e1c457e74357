// Package badframes parks goroutines with stacks that are hard to walk.
//
// Right answer: 9 goroutines in badframes.park: a 1 MiB frame, 800 bytes of arguments, defer in a loop, a deferred call
// while a panic is under way (runtime.gopanic in the middle), one during Goexit, an AfterFunc, a finalizer (in the
// finalizer goroutine, which some versions hide from debug=2), a promoted-method wrapper, a method expression.
package badframes

import (
	"fmt"
	"runtime"
	"time"

	"example.org/goprof/targets/oracle"
)

var c = make(chan int)

//go:noinline
func park() { <-c }

//go:noinline
func bigFrame() int {
	var a [1 << 17]int
	a[len(a)-1] = 1
	park()
	return a[time.Now().Nanosecond()%len(a)]
}

//go:noinline
func manyArgs(a [100]int) int { park(); return a[3] }

func deferLoop() {
	for i := 0; i < 100; i++ {
		defer func(i int) {
			if i == 42 {
				park()
			}
		}(i)
	}
}

func panicking()           { defer park(); panic("never seen: a deferred call is parked") }
func goexiting()           { defer park(); runtime.Goexit() }
func afterFunc()           { park() }
func finalizing(*[99]byte) { park() }

type base struct{ pad [3]int }

func (b *base) Method(n int) int { park(); return n }

type wrap struct {
	x int
	*base
}
type iface interface{ Method(int) int }

func viaWrapper() { var i iface = &wrap{1, &base{}}; i.Method(1) }
func viaExpr()    { f := (*wrap).Method; f(&wrap{1, &base{}}, 2) }

// Main is the target.
func Main() { oracle.Main(Start) }

// Start parks all of them.
func Start() {
	go bigFrame()
	go manyArgs([100]int{})
	go deferLoop()
	go panicking()
	go goexiting()
	go viaWrapper()
	go viaExpr()
	time.AfterFunc(10*time.Millisecond, afterFunc)
	runtime.SetFinalizer(&[99]byte{}, finalizing)
	runtime.GC()
	runtime.GC()
	fmt.Println("TRUTH 9 goroutines in badframes.park (one of them the finalizer goroutine, hidden from debug=2 as a system goroutine on some versions)")
}
