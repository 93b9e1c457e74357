// Package gcheavy does little else than allocate.
//
// Right answer: GC workers (runtime.gcBgMarkWorker) and assists are visible; samples on a system stack go on into
// gcheavy.build<-gcheavy.Main; the share of GC is near gc_cpu_fraction.
package gcheavy

import (
	"flag"
	"fmt"
	"runtime"
	"time"

	"example.org/goprof/targets/oracle"
)

type node struct{ l, r *node }

//go:noinline
func build(d int) *node {
	if d == 0 {
		return &node{}
	}
	return &node{build(d - 1), build(d - 1)}
}

var keep [8]*node

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 8*time.Second, "run time")
	flag.Parse()
	oracle.Start()
	for i, end := 0, time.Now().Add(*dur); time.Now().Before(end); i++ {
		keep[i%8] = build(16)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Printf("TRUTH gc_cpu_fraction=%.2f cycles=%d; stacks on the system stack must go on into the goroutine (gcheavy.build under gcheavy.Main)\n", m.GCCPUFraction, m.NumGC)
}
