// Package signals counts signals under load: its own SIGPROF profile, a SIGALRM timer every ms, SIGURG from preemption,
// SIGUSR2 in lock step.
//
// Right answer: lost=0 and exit status 0, as without a profiler; status 1 when one was lost. With -profile its own profile
// is kept: its samples are the CPU time of the TRUTH line.
package signals

import (
	"flag"
	"fmt"
	"io"
	"io/ioutil"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"example.org/goprof/targets/oracle"
)

// keep writes what comes to a file, if there is to be one.
func keep(name string, from io.Reader, n chan<- int64) {
	to := io.Writer(ioutil.Discard)
	if name != "" {
		f, err := os.Create(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "signals:", err)
			os.Exit(2)
		}
		defer f.Close()
		to = f
	}
	written, _ := io.Copy(to, from)
	n <- written
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 8*time.Second, "run time")
	file := flag.String("profile", "", "where to write its own profile")
	flag.Parse()
	oracle.Start()
	var alrm, lost, rounds int64
	ch := make(chan os.Signal, 1<<16)
	signal.Notify(ch, syscall.SIGALRM)
	go func() {
		for range ch {
			atomic.AddInt64(&alrm, 1)
		}
	}()
	iv := [4]int64{0, 1000, 0, 1000} // interval, value: 1 ms
	syscall.Syscall(syscall.SYS_SETITIMER, 0, uintptr(unsafe.Pointer(&iv)), 0)
	pr, pw := io.Pipe()
	prof := make(chan int64, 1)
	go keep(*file, pr, prof)
	cpu := oracle.ProcessCPU()
	pprof.StartCPUProfile(pw)
	go func() {
		for {
			oracle.Sink++
		}
	}() // never yields: only SIGURG preempts it
	go func() {
		for {
			runtime.GC()
			time.Sleep(10 * time.Millisecond)
		}
	}()
	u2 := make(chan os.Signal, 1)
	signal.Notify(u2, syscall.SIGUSR2)
	end := time.Now().Add(*dur)
	for time.Now().Before(end) {
		syscall.Kill(os.Getpid(), syscall.SIGUSR2)
		select {
		case <-u2:
			rounds++
		case <-time.After(2 * time.Second):
			lost++
		}
	}
	cpu = oracle.ProcessCPU() - cpu
	pprof.StopCPUProfile()
	pw.Close()
	fmt.Printf("TRUTH lost=%d (must be 0) rounds=%d alrm=%d (of <=%d) profile_bytes=%d (>0) cpu_ms=%d\n", lost, rounds,
		atomic.LoadInt64(&alrm), dur.Milliseconds(), <-prof, cpu/1e6)
	if lost > 0 {
		os.Exit(1)
	}
}
