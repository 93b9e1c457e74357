// Package lockos has goroutines locked to their threads.
//
// Right answer: the goroutine and thread pairs of the TRUTH lines; once a second a locked goroutine ends and takes its
// thread with it, so the list of threads changes.
package lockos

import (
	"flag"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"example.org/goprof/targets/oracle"
)

var never = make(chan int)

func tid(s string) {
	runtime.LockOSThread()
	fmt.Printf("TRUTH %s tid=%d\n", s, syscall.Gettid())
}

func lockedSpin() {
	tid("lockos.lockedSpin")
	for {
		oracle.Sink++
	}
}
func lockedSyscall() {
	tid("lockos.lockedSyscall")
	for {
		ts := syscall.Timespec{Nsec: 5e8}
		syscall.Nanosleep(&ts, nil)
	}
}
func lockedChan()  { tid("lockos.lockedChan"); <-never }
func lockedExits() { tid("lockos.lockedExits (thread ends with it)") }

// Main is the target. It must run on the first thread.
func Main() {
	dur := flag.Duration("dur", oracle.Long, "run time")
	flag.Parse()
	fmt.Printf("TRUTH lockos.Main tid=%d\n", syscall.Gettid())
	go lockedSpin()
	go lockedSyscall()
	go lockedChan()
	oracle.Start()
	for end := time.Now().Add(*dur); time.Now().Before(end); {
		go lockedExits()
		time.Sleep(time.Second)
	}
}
