//go:build cgo
// +build cgo

// Package nested calls C that calls Go that calls C, and so on (built with CGO_ENABLED=1 only).
//
// Right answer: whatever is on a CPU goes on to the function that began it, through all Go parts in this order, leaf
// first, C frames between them:
//
//	nested.bottom <- goThree <- three <- goTwo <- two <- goOne <- one <- nested.worker <- runtime.goexit
//
// A third of the time is spent in bottom itself (nested.spin), a third in C called by it, a third on the system stack
// (runtime.Callers). -threads: two threads made by C do the same from goTwo on; their stacks end in goTwo,
// runtime.cgocallback and runtime.goexit. -panics: bottom panics besides, and worker recovers, across all the C
// frames. -signals: SIGALRM each millisecond, handled by the Go runtime, wherever the thread is.
package nested

/*
#cgo CFLAGS: -O2
#cgo LDFLAGS: -lpthread
#include <pthread.h>
#include <stdint.h>
#include <sys/time.h>

extern void goOne(int);
extern void goTwo(int);
extern void goThree(int);

// Not tail calls: the work after the call keeps their frames.
static volatile uint64_t calls;
__attribute__((noinline, unused)) static void c_one(int n) { goOne(n); calls++; }
__attribute__((noinline, unused)) static void c_two(int n) { goTwo(n); calls++; }
__attribute__((noinline, unused)) static void c_three(int n) { goThree(n); calls++; }

__attribute__((noinline, unused)) static void c_spin(uint64_t n)
{
	volatile uint64_t x = 0;

	for (uint64_t i = 0; i < n; i++)
		x += i;
}

static void *c_thread(void *a) { for (;;) goTwo(0); return a; }

__attribute__((unused)) static void c_start(void)
{
	pthread_t t;
	pthread_create(&t, 0, c_thread, 0);
	pthread_create(&t, 0, c_thread, 0);
}

__attribute__((unused)) static void c_alarm(void)
{
	struct itimerval it = { { 0, 1000 }, { 0, 1000 } };
	setitimer(ITIMER_REAL, &it, 0);
}
*/
import "C"

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"example.org/goprof/targets/oracle"
)

var rounds, caught, alarms int64

//go:noinline
func spin(n uint64) (x uint64) {
	for i := uint64(0); i < n; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return
}

//go:noinline
func bottom(panics bool) {
	var pcs [64]uintptr
	spin(100000)
	C.c_spin(100000)
	for i := 0; i < 100; i++ {
		runtime.Callers(0, pcs[:])
	}
	atomic.AddInt64(&rounds, 1)
	if panics && rounds%2 == 0 {
		panic("to be recovered by worker")
	}
}

//export goThree
func goThree(panics C.int) { bottom(panics != 0) }

//export goTwo
func goTwo(panics C.int) { three(panics) }

//export goOne
func goOne(panics C.int) { two(panics) }

//go:noinline
func three(panics C.int) { C.c_three(panics) }

//go:noinline
func two(panics C.int) { C.c_two(panics) }

//go:noinline
func one(panics C.int) { C.c_one(panics) }

//go:noinline
func worker(panics C.int) {
	defer func() {
		if recover() != nil {
			atomic.AddInt64(&caught, 1)
		}
	}()
	one(panics)
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 6*time.Second, "run time")
	threads := flag.Bool("threads", false, "threads made by C besides")
	panics := flag.Bool("panics", false, "panics that are recovered across C frames")
	signals := flag.Bool("signals", false, "SIGALRM each millisecond")
	flag.Parse()
	if *signals {
		c := make(chan os.Signal, 8)
		signal.Notify(c, syscall.SIGALRM)
		go func() {
			for range c {
				atomic.AddInt64(&alarms, 1)
			}
		}()
		C.c_alarm()
	}
	if *threads {
		C.c_start()
	}
	oracle.Start()
	var how C.int
	if *panics {
		how = 1
	}
	done := make(chan int)
	go func() {
		for end := time.Now().Add(*dur); time.Now().Before(end); {
			worker(how)
		}
		close(done)
	}()
	<-done
	fmt.Printf("TRUTH rounds=%d caught=%d alarms=%d\n", atomic.LoadInt64(&rounds), atomic.LoadInt64(&caught), atomic.LoadInt64(&alarms))
}
