// Package storm is what stacks that are read without a stop can be torn by: goroutines that wake one another as fast as
// the machine goes, and short ones whose memory the next one gets at once. Each time a goroutine parks it has come there
// by another of 58 paths. All paths have the same first function, the same last one, as many frames and frames of the
// same size: they differ in their middle alone, and nothing in a goroutine's header but a counter of parks tells them
// apart.
//
// Right answer: in any stack the closures of this package's table (glob..funcN or init.funcN) are one and the same. Below
// storm.wait there are 12 of them and then storm.worker; below storm.rest 12 and then storm.child. Anything else is a
// stack that never was. Calls go through a table: no look at the code can tell a wrong caller. TRUTH has the rates.
package storm

import (
	"flag"
	"fmt"
	"sync/atomic"
	"time"

	"example.org/goprof/targets/oracle"
)

const frames = 12

// dive is a way down.
type dive struct {
	down  [frames + 1]func(*dive) // what is called next: a path, 12 times, and what waits at its end
	depth int
	ups   uint64

	next  chan struct{} // whom to wake
	own   chan struct{} // by whom to be woken
	token bool          // awake: the next one is to be woken
	nap   time.Duration // how long to sleep instead
}

var paths = [...]func(*dive){
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
	func(d *dive) { d.depth++; d.down[d.depth](d); d.ups++ },
}

// take goes down one of the paths.
func (d *dive) take(path uint64, bottom func(*dive)) {
	for i := range d.down[:frames] {
		d.down[i] = paths[path%uint64(len(paths))]
	}
	d.down[frames] = bottom
	d.depth = 0
}

// of workers, and children that have ended
var parks, children int64

//go:noinline
func wait(d *dive) {
	if d.nap > 0 {
		time.Sleep(d.nap)
		return
	}
	if d.token {
		d.next <- struct{}{}
	}
	<-d.own
	d.token = true
	atomic.AddInt64(&parks, 1)
}

// Of a ring one goroutine is awake; a nap of it is one of all.
//
//go:noinline
func worker(d *dive, r oracle.Rand, rest time.Duration) {
	for napped := time.Now(); ; {
		d.nap = 0
		if rest > 0 && d.token && r.Next()%64 == 0 && time.Since(napped) > time.Duration(r.Vary(float64(rest), 0.8)) {
			d.nap = time.Duration(r.Vary(float64(rest), 0.8))
		}
		d.take(r.Next(), wait)
		d.down[0](d)
		if d.nap > 0 {
			napped = time.Now()
		}
	}
}

func ring(n int, seed uint64, rest time.Duration) {
	c := make([]chan struct{}, n)
	for i := range c {
		c[i] = make(chan struct{})
	}
	for i := range c {
		go worker(&dive{own: c[i], next: c[(i+1)%n], token: i == 0}, oracle.Rand(seed+uint64(i)), rest)
	}
}

//go:noinline
func rest(d *dive) {
	<-d.own
	atomic.AddInt64(&children, 1)
}

//go:noinline
func child(gate chan struct{}, path uint64) {
	d := dive{own: gate}
	d.take(path, rest)
	d.down[0](&d)
	oracle.Sink += d.ups
}

func spawner(r oracle.Rand) {
	gate := make(chan struct{})
	for {
		for i := 0; i < 64; i++ {
			go child(gate, r.Next())
		}
		for i := 0; i < 64; i++ {
			gate <- struct{}{}
		}
	}
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 8*time.Second, "run time")
	rings := flag.Int("rings", 4, "rings of goroutines, of each of which one is awake")
	size := flag.Int("size", 50, "goroutines in a ring")
	nap := flag.Duration("rest", 0, "about how long a ring runs, and then sleeps (0: it never does)")
	spawners := flag.Int("spawners", 0, "makers of short goroutines")
	seed := flag.Uint64("seed", 1, "seed")
	flag.Parse()
	oracle.Start()
	begin := time.Now()
	for i := 0; i < *rings; i++ {
		ring(*size, *seed+uint64(i**size), *nap)
	}
	for i := 0; i < *spawners; i++ {
		go spawner(oracle.Rand(*seed + uint64(1000000+i)))
	}
	time.Sleep(*dur)
	n, made, s := atomic.LoadInt64(&parks), atomic.LoadInt64(&children), time.Since(begin).Seconds()
	fmt.Printf("TRUTH parks=%d (%.0f/s) children=%d (%.0f/s) paths=%d frames=%d\n", n, float64(n)/s, made, float64(made)/s, len(paths), frames)
}
