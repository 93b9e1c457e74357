// Package vdso asks for the time and does nothing else.
//
// Right answer: more than 90 % of the samples hold vdso.clock; the leaf is named [vdso] or its Go caller (runtime.nanotime,
// walltime, time.now), never unknown. With -split the time is spent in vdso.clockA and vdso.clockB as the TRUTH line
// says, in cycles that vary by 40 %.
package vdso

import (
	"flag"
	"fmt"
	"runtime"
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

func ask(n int) (sum int) {
	for ; n > 0; n-- {
		sum += time.Now().Nanosecond() & 1
	}
	return
}

//go:noinline
func clockA(n int) int { return ask(n) }

//go:noinline
func clockB(n int) int { return ask(n) + 1 }

func split(end time.Time) {
	runtime.LockOSThread()
	var cpu [2]int64
	for r := oracle.Rand(1); time.Now().Before(end); {
		unit := int(r.Vary(20000, 0.4)) // a cycle is ten of these: about 10 ms
		t := oracle.ThreadCPU()
		clockA(7 * unit)
		u := oracle.ThreadCPU()
		clockB(3 * unit)
		cpu[0], cpu[1] = cpu[0]+u-t, cpu[1]+oracle.ThreadCPU()-u
	}
	fmt.Printf("TRUTH split clockA=%.1f%% clockB=%.1f%%\n", oracle.Percent(cpu[0], cpu[0]+cpu[1]), oracle.Percent(cpu[1], cpu[0]+cpu[1]))
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 6*time.Second, "run time")
	two := flag.Bool("split", false, "two functions, 70 : 30")
	flag.Parse()
	oracle.Start()
	if *two {
		split(time.Now().Add(*dur))
		return
	}
	n := clock(time.Now().Add(*dur))
	fmt.Printf("TRUTH calls=%d; >90%% of the samples hold vdso.clock, leaf [vdso] or runtime.nanotime/walltime/time.now\n", n)
}
