//go:build cgo
// +build cgo

// Package cgo spends its time in C called from Go, and in Go (built with CGO_ENABLED=1 only).
//
// Right answer: the split of the TRUTH line, about 50 : 50 between C (cgo._Cfunc_c_spin below runtime.cgocall) and Go
// (cgo.spinGo), both called by cgo.worker. With -callback a third part is Go called from C (cgo.goSpin, still rooted in
// cgo.worker across the C frames). With -threads two threads made by C come besides: one never enters Go and has no
// goroutine, one enters Go for each call.
package cgo

/*
#cgo CFLAGS: -O2 -fno-omit-frame-pointer
#cgo LDFLAGS: -lpthread
#include <pthread.h>
#include <stdint.h>

extern void goSpin(uint64_t);

__attribute__((noinline, unused)) static uint64_t c_leaf(uint64_t n)
{
	volatile uint64_t x = 0;

	for (uint64_t i = 0; i < n; i++)
		x += i;
	return x;
}

__attribute__((noinline, unused)) static uint64_t c_spin(uint64_t n) { return c_leaf(n) + 1; }
__attribute__((noinline, unused)) static int c_callback(uint64_t n) { goSpin(n); return n & 1; } // not a tail call

static void *c_thread(void *a) { for (;;) c_leaf(1 << 20); return a; }
static void *c_thread_go(void *a) { for (;;) goSpin(1 << 20); return a; }

__attribute__((unused)) static void c_start(void)
{
	pthread_t t;
	pthread_create(&t, 0, c_thread, 0);
	pthread_create(&t, 0, c_thread_go, 0);
}
*/
import "C"

import (
	"flag"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"example.org/goprof/targets/oracle"
)

// CPU time in ns: C, Go, Go called from C
var cpu [3]int64

//go:noinline
func spinGo(n uint64) (x uint64) {
	for i := uint64(0); i < n; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return
}

//export goSpin
func goSpin(n C.uint64_t) { spinGo(uint64(n)) }

// steps finds how many steps of f take 5 ms.
func steps(f func(n uint64)) uint64 {
	const n = 1000000
	best := int64(1 << 62)
	for i := 0; i < 5; i++ {
		t := oracle.ThreadCPU()
		f(n)
		if t = oracle.ThreadCPU() - t; t < best {
			best = t
		}
	}
	return uint64(n * 5e6 / float64(best))
}

//go:noinline
func worker(callback bool) {
	runtime.LockOSThread()
	nC := steps(func(n uint64) { C.c_spin(C.uint64_t(n)) })
	nGo := steps(func(n uint64) { spinGo(n) })
	r := oracle.Rand(1)
	for {
		by := r.Vary(1, 0.4)
		t0 := oracle.ThreadCPU()
		C.c_spin(C.uint64_t(float64(nC) * by))
		t1 := oracle.ThreadCPU()
		spinGo(uint64(float64(nGo) * by))
		t2 := oracle.ThreadCPU()
		atomic.AddInt64(&cpu[0], t1-t0)
		atomic.AddInt64(&cpu[1], t2-t1)
		if callback {
			C.c_callback(C.uint64_t(float64(nGo) * by))
			atomic.AddInt64(&cpu[2], oracle.ThreadCPU()-t2)
		}
	}
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 8*time.Second, "run time")
	callback := flag.Bool("callback", false, "a third of the time in Go called from C")
	threads := flag.Bool("threads", false, "two spinning threads made by C besides")
	flag.Parse()
	if *threads {
		C.c_start()
	}
	go worker(*callback)
	oracle.Start()
	time.Sleep(*dur)
	c, g, cb := atomic.LoadInt64(&cpu[0]), atomic.LoadInt64(&cpu[1]), atomic.LoadInt64(&cpu[2])
	sum := c + g + cb
	fmt.Printf("TRUTH worker cpu_ms=%.0f c=%.1f%% go=%.1f%% go_from_c=%.1f%%\n", float64(sum)/1e6,
		oracle.Percent(c, sum), oracle.Percent(g, sum), oracle.Percent(cb, sum))
}
