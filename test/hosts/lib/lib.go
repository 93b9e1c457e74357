// Package main is a library for hosts of another language (-buildmode=c-shared): a goroutine that spins and some that
// are parked. It is built more than once; the linker's -X flag gives each its name and its number of goroutines.
package main

import "C"

import (
	"fmt"
	"os"
	"time"
)

var (
	name   = "a"
	parked = "2"
)

var sink uint64

//go:noinline
func spin(until time.Time) {
	for n := uint64(1); ; n++ {
		sink = sink*6364136223846793005 + n
		if n%(1<<16) == 0 && time.Now().After(until) {
			return
		}
	}
}

//go:noinline
func spinA(until time.Time) { spin(until) }

//go:noinline
func spinB(until time.Time) { spin(until) }

//go:noinline
func park(c chan int) { <-c }

//export Start
func Start() {
	var n int
	fmt.Sscan(parked, &n)
	for i := 0; i < n; i++ {
		go park(make(chan int))
	}
	until := time.Now().Add(time.Minute)
	if name == "a" {
		go spinA(until)
	} else {
		go spinB(until)
	}
	time.Sleep(20 * time.Millisecond)
	fmt.Fprintf(os.Stderr, "library %s is up\n", name)
}

func main() {}
