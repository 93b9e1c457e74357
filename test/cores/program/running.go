package main

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

//go:noinline
func descend(n int, f func()) int {
	var pad [16]int
	if n == 0 {
		f()
		return 0
	}
	pad[n&15] = descend(n-1, f)
	return pad[n&15] + 1
}

// deep calls f below n frames.
func deep(n int, f func()) { descend(n, f) }

// rest leaves a goroutine parked below n frames.
func rest(n int) { go deep(n, park) }

func locked() {
	runtime.LockOSThread()
	spin()
}

// traceback is on the system stack most of its time.
func traceback() {
	deep(20, func() {
		for buf := make([]byte, 64*1024); ; {
			runtime.Stack(buf, false)
		}
	})
}

// yield is in the scheduler, on the system stack, most of its time.
func yield() {
	for {
		runtime.Gosched()
	}
}

// growing makes goroutines whose stacks grow.
func growing() {
	done := make(chan int)
	for {
		go func() { done <- descend(500, func() {}) }()
		<-done
	}
}

// preempted goroutines: more spin than there are processors, so that some stand where a signal met them.
func preempted() {
	for i := 0; i < runtime.GOMAXPROCS(0)+1; i++ {
		go spin()
	}
}

//go:noinline
func clock() {
	for end := time.Now().Add(long); time.Now().Before(end); {
		sink++
	}
}

// storm sends a signal every 50 microseconds.
func storm() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGALRM)
	every := [4]int64{0, 50, 0, 50} // interval and first, seconds and microseconds
	syscall.Syscall(syscall.SYS_SETITIMER, 0, uintptr(unsafe.Pointer(&every)), 0)
	for i := 0; i < 2; i++ {
		go spin()
	}
}
