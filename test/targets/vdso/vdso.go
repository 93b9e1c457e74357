// Package vdso asks for the time and does nothing else.
//
// Right answer: more than 90 % of the samples hold vdso.clock; the leaf is named [vdso] or its Go caller (runtime.nanotime,
// walltime, time.now), never unknown.
package vdso

import (
	"flag"
	"fmt"
	"time"

	"example.org/goprof/targets/oracle"
)

//go:noinline
func clock(end time.Time) (n int) {
	for time.Now().Before(end) {
		n++
	}
	return
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 6*time.Second, "run time")
	flag.Parse()
	oracle.Start()
	n := clock(time.Now().Add(*dur))
	fmt.Printf("TRUTH calls=%d; >90%% of the samples hold vdso.clock, leaf [vdso] or runtime.nanotime/walltime/time.now\n", n)
}
