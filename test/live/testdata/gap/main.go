// gap: C code stands before the first Go function in .text, GAP_BYTES of it (the test writes the number here).
// Functions of a few bytes side by side hold a goroutine each: tables that are off by one function give other names.
package main

/*
__asm__(".pushsection .text.unlikely,\"ax\",@progbits\n\t.skip GAP_BYTES,0x90\n\t.popsection");

static int one(void) { return 1; }
*/
import "C"

import (
	"fmt"
	"os"
)

var never = make(chan int)

//go:noinline
func alpha() { <-never }

//go:noinline
func beta() { <-never }

//go:noinline
func gamma() { <-never }

//go:noinline
func delta() { <-never }

func main() {
	for _, f := range []func(){alpha, beta, gamma, delta} {
		go f()
	}
	fmt.Fprintf(os.Stderr, "READY pid=%d %d\n", os.Getpid(), C.one())
	select {}
}
