// Package threads has many threads blocked in read(2): threads -n 500.
//
// Right answer: n goroutines in threads.blocked with status syscall on as many threads, threads.spin running.
package threads

import (
	"flag"
	"fmt"
	"io/ioutil"
	"os"
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

// Main is the target.
func Main() {
	count := flag.Int("n", 500, "threads")
	dur := flag.Duration("dur", oracle.Long, "run time")
	flag.Parse()
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
