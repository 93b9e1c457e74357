// Package threads has many threads blocked in read(2): threads -n 500.
//
// Right answer: n goroutines in threads.blocked with status syscall on as many threads, threads.spin running. With -storm
// threads are made and ended as fast as the machine goes instead; each does a sum of its own, and none is wrong (bad=0).
package threads

import (
	"flag"
	"fmt"
	"io/ioutil"
	"os"
	"runtime"
	"syscall"
	"time"

	"example.org/goprof/targets/oracle"
)

//go:noinline
func blocked(fd int) { syscall.Read(fd, make([]byte, 1)) }

//go:noinline
func spin() {
	for {
		oracle.Sink++
	}
}

//go:noinline
func sum(seed uint64) (x uint64) {
	for x = seed; seed > 0; seed-- {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return
}

// storm makes goroutines that end while they are locked to their threads, which end with them.
func storm(end time.Time) (made, bad int) {
	var want [8]uint64
	for i := range want {
		want[i] = sum(uint64(1000 + i))
	}
	done := make(chan bool)
	for time.Now().Before(end) {
		for i := range want {
			go func(i int) {
				runtime.LockOSThread()
				done <- sum(uint64(1000+i)) == want[i]
			}(i)
		}
		for range want {
			if !<-done {
				bad++
			}
			made++
		}
	}
	return
}

// Main is the target.
func Main() {
	count := flag.Int("n", 500, "threads")
	dur := flag.Duration("dur", oracle.Long, "run time")
	storms := flag.Bool("storm", false, "make threads and let them end, all the time")
	flag.Parse()
	if *storms {
		oracle.Start()
		made, bad := storm(time.Now().Add(*dur))
		fmt.Printf("TRUTH storm made=%d (%.0f/s) bad=%d\n", made, float64(made)/dur.Seconds(), bad)
		return
	}
	n := *count
	var p [2]int
	syscall.Pipe(p[:])
	for i := 0; i < n; i++ {
		go blocked(p[0])
	}
	time.Sleep(time.Second)
	d, _ := ioutil.ReadDir("/proc/self/task")
	fmt.Printf("TRUTH threads=%d threads.blocked=%d (syscall) threads.spin=1 (running)\n", len(d), n)
	oracle.Start()
	time.AfterFunc(*dur, func() { os.Exit(0) })
	spin()
}
