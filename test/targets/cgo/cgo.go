//go:build cgo
// +build cgo

// Package cgo spends its time in C called from Go, and in Go (built with CGO_ENABLED=1 only).
//
// Right answer: the split of the last TRUTH line (one a second), about 50 : 50 between C (c_leaf below c_spin below cgo._Cfunc_c_spin and
// runtime.cgocall) and Go (cgo.spinGo), all below cgo.worker. With -callback a quarter of the time is Go called from C
// (cgo.goSpin below c_callback, rooted in cgo.worker across the C frames), a quarter Go. With -nest N: Go calls C calls
// Go, N times over, then spins in C; all levels below cgo.worker. With -signal a handler in C (c_handler, a tenth of the
// time) interrupts Go and C alike. With -threads two threads made by C come besides: one, "c-alone", never enters Go and
// has no goroutine, one enters Go for each call. -vdso: C asks for the time.
package cgo

/*
#cgo CFLAGS: -O2 -D_GNU_SOURCE
#cgo LDFLAGS: -lpthread
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

extern void goSpin(uint64_t);
extern void goNest(int, uint64_t);

__attribute__((noinline, unused)) static uint64_t c_leaf(uint64_t n)
{
	volatile uint64_t x = 0;

	for (uint64_t i = 0; i < n; i++)
		x += i;
	return x;
}

// Inlined into c_spin: a name that only debug information knows.
__attribute__((always_inline, unused)) static inline uint64_t c_middle(uint64_t n) { return c_leaf(n) + 2; }
__attribute__((noinline, unused)) static uint64_t c_spin(uint64_t n) { return c_middle(n) + 1; }
__attribute__((noinline, unused)) static int c_callback(uint64_t n) { goSpin(n); return n & 1; } // not a tail call
__attribute__((noinline, unused)) static int c_nest(int depth, uint64_t n) { goNest(depth, n); return depth & 1; }

__attribute__((noinline, unused)) static int64_t c_clock(uint64_t n)
{
	struct timespec ts = { 0 };

	while (n--)
		clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_nsec;
}

static uint64_t handler_steps;
static volatile int64_t handler_ns;

static int64_t thread_cpu(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static void c_handler(int sig)
{
	int64_t t = thread_cpu();

	(void)sig;
	c_leaf(handler_steps);
	handler_ns += thread_cpu() - t;
}

static void *c_alarm(void *worker)
{
	struct timespec pause = { .tv_nsec = 7300000 };

	for (;;) {
		nanosleep(&pause, 0);
		pthread_kill((pthread_t)worker, SIGUSR2);
	}
	return 0;
}

__attribute__((unused)) static int64_t c_handled(void) { return handler_ns; }

// The calling thread is interrupted from now on.
__attribute__((unused)) static void c_alarms(uint64_t steps)
{
	struct sigaction sa;
	pthread_t t;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = c_handler;
	sa.sa_flags = SA_ONSTACK | SA_RESTART;
	handler_steps = steps;
	sigaction(SIGUSR2, &sa, 0);
	pthread_create(&t, 0, c_alarm, (void *)pthread_self());
}

static void *c_thread(void *a)
{
	pthread_setname_np(pthread_self(), "c-alone");
	for (;;)
		c_leaf(1 << 20);
	return a;
}

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

//export goNest
func goNest(depth C.int, n C.uint64_t) {
	if depth > 1 {
		C.c_nest(depth-1, n)
	} else {
		C.c_spin(n)
	}
}

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

// part is one kind of work: how much of it is done in a turn, and the CPU time that it took.
type part struct {
	work func(n uint64)
	n    uint64
	cpu  *int64
}

// parts is what a turn of the worker consists of.
func parts(callback, clock bool, nest int) []part {
	c := func(n uint64) { C.c_spin(C.uint64_t(n)) }
	g := func(n uint64) { spinGo(n) }
	nC, nGo := steps(c), steps(g)
	switch {
	case nest > 0:
		return []part{{func(n uint64) { C.c_nest(C.int(nest), C.uint64_t(n)) }, nC, &cpu[0]}, {g, nGo, &cpu[1]}}
	case clock:
		return []part{{func(n uint64) { C.c_clock(C.uint64_t(n)) }, nGo / 20, &cpu[0]}, {g, nGo, &cpu[1]}}
	case callback:
		return []part{{c, 2 * nC, &cpu[0]}, {g, nGo, &cpu[1]}, {func(n uint64) { C.c_callback(C.uint64_t(n)) }, nGo, &cpu[2]}}
	}
	return []part{{c, nC, &cpu[0]}, {g, nGo, &cpu[1]}}
}

//go:noinline
func worker(callback, alarms, clock bool, nest int) {
	runtime.LockOSThread()
	v := parts(callback, clock, nest)
	r := oracle.Rand(1)
	if alarms {
		C.c_alarms(C.uint64_t(v[0].n / 6))
	}
	for {
		by := r.Vary(1, 0.4)
		t := oracle.ThreadCPU()
		for _, p := range v {
			p.work(uint64(float64(p.n) * by))
			now := oracle.ThreadCPU()
			atomic.AddInt64(p.cpu, now-t)
			t = now
		}
	}
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 8*time.Second, "run time")
	callback := flag.Bool("callback", false, "a quarter of the time in Go called from C")
	nest := flag.Int("nest", 0, "C is called below that many calls from C into Go")
	alarms := flag.Bool("signal", false, "a handler in C interrupts the worker")
	clock := flag.Bool("vdso", false, "C asks for the time")
	threads := flag.Bool("threads", false, "two spinning threads made by C besides")
	flag.Parse()
	if *threads {
		C.c_start()
	}
	go worker(*callback, *alarms, *clock, *nest)
	oracle.Start()
	for end := time.Now().Add(*dur); time.Now().Before(end); {
		time.Sleep(time.Second)
		tell()
	}
}

// tell prints how the time is split up to now.
func tell() {
	c, g, cb := atomic.LoadInt64(&cpu[0]), atomic.LoadInt64(&cpu[1]), atomic.LoadInt64(&cpu[2])
	sum := c + g + cb
	fmt.Printf("TRUTH worker cpu_ms=%.0f c=%.1f%% go=%.1f%% go_from_c=%.1f%% handler=%.1f%%\n", float64(sum)/1e6,
		oracle.Percent(c, sum), oracle.Percent(g, sum), oracle.Percent(cb, sum), oracle.Percent(int64(C.c_handled()), sum))
}
