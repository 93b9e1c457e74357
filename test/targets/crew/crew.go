// Package crew is 50 locked threads that each work through a chain of checksums, every other one with a short sleep in
// the kernel now and then. It shows whether a profiler, alive or killed, has harmed one of them.
//
// Right answer: RESULT depends on -steps, -threads and -seed only, with or without a profiler. After a profiler was
// killed every counter goes on growing: -progress FILE holds one line of counters, replaced each second (read it twice),
// and SIGUSR2 prints "PROGRESS <counters>" on stderr.
package crew

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"example.org/goprof/targets/oracle"
)

// counter is a thread's progress, on a cache line of its own.
type counter struct {
	steps uint64
	_     [56]byte
}

//go:noinline
func step(x uint64) uint64 {
	for i := uint64(0); i < 20000; i++ {
		x = (x ^ i) * 0x9e3779b97f4a7c15
		x ^= x >> 29
	}
	return x
}

// chain does the given number of steps, or works on until stop is set.
//
//go:noinline
func chain(x, steps uint64, sleeps bool, c *counter, stop *int32) uint64 {
	for done := uint64(0); done < steps && atomic.LoadInt32(stop) == 0; {
		x = step(x)
		done++
		atomic.StoreUint64(&c.steps, done)
		if sleeps && done%10 == 0 {
			ts := syscall.NsecToTimespec(1e6)
			syscall.Nanosleep(&ts, nil)
		}
	}
	return x
}

func line(counters []counter) string {
	var b strings.Builder
	for i := range counters {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprint(&b, atomic.LoadUint64(&counters[i].steps))
	}
	b.WriteByte('\n')
	return b.String()
}

// report replaces the file each second by a new one of the same name, so a reader always sees a whole line.
func report(name string, counters []counter) {
	for ; ; time.Sleep(time.Second) {
		f, err := os.Create(name + ".tmp")
		if err != nil {
			fmt.Fprintln(os.Stderr, "crew:", err)
			return
		}
		f.WriteString(line(counters))
		f.Close()
		os.Rename(name+".tmp", name)
	}
}

func answer(c chan os.Signal, counters []counter) {
	for range c {
		fmt.Fprint(os.Stderr, "PROGRESS ", line(counters))
	}
}

// Main is the target.
func Main() {
	steps := flag.Uint64("steps", 5000, "steps of each thread (about 30 us each); 0: work until -dur")
	dur := flag.Duration("dur", oracle.Long, "end after this time even if the steps are not done (then without RESULT)")
	threads := flag.Int("threads", 50, "threads")
	seed := flag.Uint64("seed", 1, "seed")
	progress := flag.String("progress", "", "file to keep the counters in")
	flag.Parse()

	n := *steps
	if n == 0 {
		n = 1 << 63
	}
	counters, sums := make([]counter, *threads), make([]uint64, *threads)
	usr2 := make(chan os.Signal, 8)
	signal.Notify(usr2, syscall.SIGUSR2)
	go answer(usr2, counters)
	if *progress != "" {
		go report(*progress, counters)
	}
	var stop int32
	time.AfterFunc(*dur, func() { atomic.StoreInt32(&stop, 1) })
	oracle.Start()

	var wg sync.WaitGroup
	for i := range counters {
		wg.Add(1)
		go func(i int) {
			defer wg.Done()
			runtime.LockOSThread()
			r := oracle.Rand(*seed*1000 + uint64(i))
			sums[i] = chain(r.Next(), n, i%2 == 1, &counters[i], &stop)
		}(i)
	}
	wg.Wait()

	result, whole := uint64(0), true
	for i, s := range sums {
		result = step(result ^ s)
		whole = whole && counters[i].steps == n
	}
	fmt.Print("TRUTH steps ", line(counters))
	if whole {
		fmt.Printf("RESULT %016x\n", result)
	}
}
