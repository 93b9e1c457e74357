// Package asmfn spends its time in assembly.
//
// Right answer: the CPU shares of the TRUTH line for asmfn.leaf (no frame), asmfn.framed (96-byte frame, calls Go) and
// asmfn.pushes (moves SP inside its loop: walkers by frame pointer and by table differ here); every sample goes on
// into asmfn.work.
package asmfn

import (
	"flag"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"example.org/goprof/targets/oracle"
)

func leaf(n uint64) uint64   // spins n times, no frame
func framed(n uint64) uint64 // 96-byte frame, calls ·goBack, then spins
func pushes(n uint64) uint64 // pushes/pops in its loop (SP moves between instructions)

//go:noinline
func goBack(n uint64) uint64 { return n + 1 }

var cpu [3]int64

func work() {
	runtime.LockOSThread()
	r := oracle.Rand(1)
	for {
		unit := uint64(r.Vary(2e6, 0.4)) // no sampler falls into step
		t := oracle.ThreadCPU()
		leaf(5 * unit)
		u := oracle.ThreadCPU()
		framed(3 * unit)
		v := oracle.ThreadCPU()
		pushes(unit / 2)
		w := oracle.ThreadCPU()
		atomic.AddInt64(&cpu[0], u-t)
		atomic.AddInt64(&cpu[1], v-u)
		atomic.AddInt64(&cpu[2], w-v)
	}
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 6*time.Second, "run time")
	flag.Parse()
	oracle.Start()
	go work()
	time.Sleep(*dur)
	a, b, c := atomic.LoadInt64(&cpu[0]), atomic.LoadInt64(&cpu[1]), atomic.LoadInt64(&cpu[2])
	fmt.Printf("TRUTH asmfn.leaf=%.1f%% asmfn.framed=%.1f%% asmfn.pushes=%.1f%% all under asmfn.work\n",
		oracle.Percent(a, a+b+c), oracle.Percent(b, a+b+c), oracle.Percent(c, a+b+c))
}
