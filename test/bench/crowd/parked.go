package crowd

import (
	"sync/atomic"
	"time"
)

// parked is goroutines that wait in a channel receive, below 8 to 19 frames.
type parked struct {
	c chan int
	n int64
}

// Frames of a parked goroutine, from gopark to what its go statement calls: 15.75 on average.
var depths = [...]int{8, 12, 14, 15, 16, 16, 17, 17, 18, 18, 19, 19}

// otherFrames is those beside the functions that call each other: rest, chanrecv1, chanrecv, gopark.
const otherFrames = 4

// sink keeps the calls below from becoming jumps.
var sink int64

//go:noinline
func (p *parked) rest() {
	atomic.AddInt64(&p.n, 1)
	<-p.c
}

// A few names in turn, so that deep stacks do not look like one recursion.

//go:noinline
func (p *parked) accept(depth int) {
	if depth <= 1 {
		p.rest()
	} else {
		p.decode(depth - 1)
	}
	sink++
}

//go:noinline
func (p *parked) decode(depth int) {
	if depth <= 1 {
		p.rest()
	} else {
		p.serve(depth - 1)
	}
	sink++
}

//go:noinline
func (p *parked) serve(depth int) {
	if depth <= 1 {
		p.rest()
	} else {
		p.decode(depth - 1)
	}
	sink++
}

// park starts n of them and returns when all wait.
func park(n int) *parked {
	p := &parked{c: make(chan int)}
	for i := 0; i < n; i++ {
		go p.accept(depths[i%len(depths)] - otherFrames)
	}
	for atomic.LoadInt64(&p.n) < int64(n) {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond) // the last of them is between its count and its receive
	return p
}
