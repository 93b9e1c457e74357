// Package storm is what stacks that are read without a stop can be torn by: goroutines that wake one another as fast as
// the machine goes, and short ones whose memory the next one gets at once. Each time a goroutine parks it has come there
// by another of 58 paths. All paths have the same first function, the same last one, as many frames and frames of the
// same size: they differ in their middle alone, and nothing in a goroutine's header but a counter of parks tells them
// apart.
//
// Right answer: in any stack the closures of this package's table (glob..funcN or init.funcN) are one and the same. Below
// storm.wait there are 12 of them, storm.halfway between the sixth and the seventh, and then storm.worker; the same of
// storm.rest and storm.child. Anything else is a stack that never was. Calls go through a table: no look at the code can
// tell a wrong caller. TRUTH has the rates.
//
// With -spin each works for a while halfway down: then the upper half of its memory is of the new path and the lower
// one still of the old one. With -calls they wait in read(2), of which newer runtimes do not count anything.
package storm

import (
	"flag"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"example.org/goprof/targets/oracle"
)

const frames = 12

// dive is a way down.
type dive struct {
	down  [frames + 2]func(*dive) // what is called next: a path, 12 times and halfway between, and what waits at its end
	depth int
	ups   uint64
	spin  int

	next  chan struct{} // whom to wake
	own   chan struct{} // by whom to be woken
	pipe  [2]int        // the same two, with -calls: the next one's end to write to, its own one to read from
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
	for i := range d.down {
		d.down[i] = paths[path%uint64(len(paths))]
	}
	d.down[frames/2] = halfway
	d.down[frames+1] = bottom
	d.depth = 0
}

//go:noinline
func halfway(d *dive) {
	for i := 0; i < d.spin; i++ {
		d.ups = d.ups*6364136223846793005 + 1442695040888963407
	}
	d.depth++
	d.down[d.depth](d)
	d.ups++
}

// of workers, and children that have ended
var parks, children int64

// call is the waking and waiting of wait, by system calls.
func (d *dive) call() {
	var b [1]byte
	if d.token {
		syscall.Write(d.pipe[1], b[:])
	}
	for {
		if n, err := syscall.Read(d.pipe[0], b[:]); n == 1 {
			return
		} else if err != syscall.EINTR {
			panic(err)
		}
	}
}

//go:noinline
func wait(d *dive) {
	if d.nap > 0 {
		time.Sleep(d.nap)
		return
	}
	if d.own == nil {
		d.call()
	} else {
		if d.token {
			d.next <- struct{}{}
		}
		<-d.own
	}
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

// ring makes a ring of goroutines, of which the first is awake.
func ring(n int, c config) {
	dives := make([]*dive, n)
	for i := range dives {
		dives[i] = &dive{token: i == 0, spin: c.spin}
	}
	for i, d := range dives {
		next := dives[(i+1)%n]
		if c.calls {
			var p [2]int
			if err := syscall.Pipe(p[:]); err != nil {
				panic(err)
			}
			d.pipe[1], next.pipe[0] = p[1], p[0]
		} else {
			d.next = make(chan struct{})
			next.own = d.next
		}
	}
	for i, d := range dives {
		go worker(d, oracle.Rand(c.seed+uint64(i)), c.rest)
	}
}

type config struct {
	spin  int
	rest  time.Duration
	calls bool
	seed  uint64
}

//go:noinline
func rest(d *dive) {
	<-d.own
	atomic.AddInt64(&children, 1)
}

//go:noinline
func child(gate chan struct{}, path uint64, spin int) {
	d := dive{own: gate, spin: spin}
	d.take(path, rest)
	d.down[0](&d)
	oracle.Sink += d.ups
}

func spawner(r oracle.Rand, spin int) {
	gate := make(chan struct{})
	for {
		for i := 0; i < 64; i++ {
			go child(gate, r.Next(), spin)
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
	spin := flag.Int("spin", 0, "steps of work halfway down")
	calls := flag.Bool("calls", false, "they wait in system calls")
	seed := flag.Uint64("seed", 1, "seed")
	flag.Parse()
	oracle.Start()
	begin := time.Now()
	for i := 0; i < *rings; i++ {
		ring(*size, config{*spin, *nap, *calls, *seed + uint64(i**size)})
	}
	for i := 0; i < *spawners; i++ {
		go spawner(oracle.Rand(*seed+uint64(1000000+i)), *spin)
	}
	time.Sleep(*dur)
	n, made, s := atomic.LoadInt64(&parks), atomic.LoadInt64(&children), time.Since(begin).Seconds()
	fmt.Printf("TRUTH parks=%d (%.0f/s) children=%d (%.0f/s) paths=%d frames=%d\n", n, float64(n)/s, made, float64(made)/s, len(paths), frames)
}
