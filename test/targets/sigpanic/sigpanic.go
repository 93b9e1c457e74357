// Package sigpanic recovers from nil dereferences and divisions by zero in a loop.
//
// Right answer: bad=0: every SIGSEGV and SIGFPE reaches the program; stacks through runtime.sigpanic go on into
// sigpanic.deref and sigpanic.div.
package sigpanic

import (
	"flag"
	"fmt"
	"time"

	"example.org/goprof/targets/oracle"
)

type T struct{ pad [5000]int }

//go:noinline
func deref(p *T) int { return p.pad[4] }

//go:noinline
func div(a, b int) int { return a / b }

//go:noinline
func try(f func()) (ok bool) {
	defer func() { ok = recover() != nil }()
	f()
	return
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 6*time.Second, "run time")
	flag.Parse()
	oracle.Start()
	n, bad := 0, 0
	for end := time.Now().Add(*dur); time.Now().Before(end); n++ {
		if !try(func() { deref(nil) }) || !try(func() { div(1, 0) }) {
			bad++
		}
	}
	fmt.Printf("TRUTH rounds=%d bad=%d (must be 0): every SIGSEGV and SIGFPE must reach the program\n", n, bad)
}
