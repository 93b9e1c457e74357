//go:build cgo
// +build cgo

package main

/*
#cgo CFLAGS: -O2 -fno-omit-frame-pointer
#cgo LDFLAGS: -lpthread
#include <pthread.h>
#include <stdint.h>

extern void again(uint64_t);
extern void enter(void);

__attribute__((noinline, unused)) static uint64_t c_spin(uint64_t n)
{
	volatile uint64_t x = 0;

	for (uint64_t i = 0; i < n; i++)
		x += i;
	return x;
}

__attribute__((noinline, unused)) static int c_back(uint64_t n) { again(n); return n & 1; } // no tail call

static void *c_thread(void *a) { enter(); return a; }
__attribute__((unused)) static void c_start(void)
{
	pthread_t t;
	pthread_create(&t, 0, c_thread, 0);
}
*/
import "C"

func init() {
	modes["c"] = inC
	modes["extra"] = func() { C.c_start(); park() }
	modes["nested"] = func() { nest(3) }
}

//go:noinline
func inC() {
	for {
		C.c_spin(1 << 40)
	}
}

// nest goes n times into C and back.
//
//go:noinline
func nest(n int) {
	if n == 0 {
		spin()
	}
	C.c_back(C.uint64_t(n))
}

//export again
func again(n C.uint64_t) { nest(int(n) - 1) }

// enter is called by a thread that C has made.
//
//export enter
func enter() { spin() }
