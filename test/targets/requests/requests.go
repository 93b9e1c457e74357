// Package requests gives each request labels of its own, which never come again, as a server does that puts the id of
// the request into its labels.
//
// Right answer: -n goroutines in requests.serve, each there all the time. Each has the label route=/brief in
// requests.brief and route=/long in requests.long, in turn, and with both a request= that no other has. The TRUTH line
// tells the number of requests, the part of the wall time that all of them together were in each, by their own clocks,
// and the CPU time of the process, all from READY to the end.
package requests

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"example.org/goprof/targets/oracle"
)

type totals struct{ requests, brief, long int64 }

//go:noinline
func wait(d time.Duration) { time.Sleep(d) }

//go:noinline
func brief(d time.Duration) { wait(d); oracle.Sink++ }

//go:noinline
func long(d time.Duration) { wait(d); oracle.Sink++ }

// timed runs f with labels of its own and tells how long it took.
func timed(id, route string, f func(time.Duration), d time.Duration) int64 {
	begin := time.Now()
	labels := pprof.Labels("route", route, "request", id)
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), labels))
	f(d)
	return int64(time.Since(begin))
}

func serve(t *totals, pause time.Duration, digits int, r oracle.Rand) {
	next := func() string { return fmt.Sprintf("%0*d", digits, atomic.AddInt64(&t.requests, 1)) }
	for {
		d := r.Vary(float64(pause), 0.3)
		atomic.AddInt64(&t.brief, timed(next(), "/brief", brief, time.Duration(0.6*d)))
		atomic.AddInt64(&t.long, timed(next(), "/long", long, time.Duration(1.4*d)))
	}
}

// Main is the target.
func Main() {
	n := flag.Int("n", 1000, "goroutines")
	pause := flag.Duration("pause", 40*time.Millisecond, "mean time of a request")
	digits := flag.Int("digits", 32, "length of request=")
	dur := flag.Duration("dur", oracle.Long, "run time")
	flag.Parse()

	var t totals
	for i := 0; i < *n; i++ {
		go serve(&t, *pause, *digits, oracle.Rand(i))
	}
	process := oracle.ProcessCPU()
	oracle.Start()
	time.Sleep(*dur)
	process = oracle.ProcessCPU() - process
	b, l := atomic.LoadInt64(&t.brief), atomic.LoadInt64(&t.long)
	fmt.Printf("TRUTH requests=%d brief=%.2f%% long=%.2f%% process_ms=%.1f\n", atomic.LoadInt64(&t.requests),
		oracle.Percent(b, b+l), oracle.Percent(l, b+l), float64(process)/1e6)
	os.Exit(0)
}
