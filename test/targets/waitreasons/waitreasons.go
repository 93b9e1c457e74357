// Package waitreasons parks goroutines in every way a program can wait.
//
// Right answer: 20 park functions; number k (from 0, in the order of the TRUTH lines) holds k+1 goroutines, 210 in
// all, each with the wait reason of its kind. Syscall and Nanosleep are blocked system calls: status syscall,
// not waiting. Runtime goroutines (force gc, sweeper, scavenger, finalizer) come besides and are in the dump only
// with GOTRACEBACK=system.
package waitreasons

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"example.org/goprof/targets/oracle"
)

var (
	mu, mu2 sync.Mutex
	rw, rw2 sync.RWMutex
	cond    = sync.NewCond(&mu2)
	wg      sync.WaitGroup
	once    sync.Once
	nilc    chan int
	never   = make(chan int)
	full    = make(chan int)
	ln      net.Listener
	pr, pw  *os.File // the write end: never written to, and not left to the collector to close
	fds     [2]int
)

func parkChanReceive() { <-never }
func parkChanSend()    { full <- 1 }
func parkNilReceive()  { <-nilc }
func parkNilSend()     { nilc <- 1 }
func parkSelect() {
	select {
	case <-never:
	case full <- 2:
	}
}
func parkSelectNoCases() { select {} }
func parkSleep()         { time.Sleep(time.Hour) }
func parkAccept()        { ln.Accept() }
func parkPipeRead()      { pr.Read(make([]byte, 1)) }
func parkMutex()         { mu.Lock() }
func parkRWLock()        { rw.Lock() }
func parkRWRLock()       { rw2.RLock() }
func parkCond()          { mu2.Lock(); cond.Wait() }
func parkWaitGroup()     { wg.Wait() }
func parkOnce()          { once.Do(func() { <-never }) }
func parkSyscall()       { syscall.Read(fds[0], make([]byte, 1)) }

// parkNanosleep goes back to sleep when a signal has woken its thread.
func parkNanosleep() {
	for {
		ts := syscall.Timespec{Sec: 3600}
		syscall.Nanosleep(&ts, nil)
	}
}

func parkTimer()  { <-time.NewTimer(time.Hour).C }
func parkLocked() { runtime.LockOSThread(); <-never }
func parkRange() {
	for range never {
	}
}

// Main is the target.
func Main() { oracle.Main(Start) }

// Start parks all of them.
func Start() {
	ln, _ = net.Listen("tcp", "127.0.0.1:0")
	pr, pw, _ = os.Pipe()
	syscall.Pipe(fds[:])
	mu.Lock()
	rw.RLock()
	rw2.Lock()
	wg.Add(1)
	runtime.SetFinalizer(new([64]byte), func(*[64]byte) {}) // starts the finalizer goroutine
	names := []string{"ChanReceive", "ChanSend", "NilReceive", "NilSend", "Select", "SelectNoCases", "Sleep", "Accept", "PipeRead", "Mutex",
		"RWLock", "RWRLock", "Cond", "WaitGroup", "Once", "Syscall", "Nanosleep", "Timer", "Locked", "Range"}
	for k, f := range []func(){parkChanReceive, parkChanSend, parkNilReceive, parkNilSend, parkSelect, parkSelectNoCases, parkSleep, parkAccept, parkPipeRead,
		parkMutex, parkRWLock, parkRWRLock, parkCond, parkWaitGroup, parkOnce, parkSyscall, parkNanosleep, parkTimer, parkLocked, parkRange} {
		for i := 0; i <= k; i++ {
			go f()
		}
		fmt.Printf("TRUTH waitreasons.park%s %d\n", names[k], k+1)
	}
}
