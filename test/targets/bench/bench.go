// Package bench measures its own throughput, to find what a profiler costs it, with many parked goroutines besides.
//
// Every 100 ms it prints the operations done so far:
//
//	T <unix_ns> <ops>                          -load cpu
//	T <unix_ns> <ops> <p50_us> <p99_us>        -load echo: latency within these 100 ms
//
// so that a harness takes the difference between any two of them. -load cpu hashes in bench.hash on -workers goroutines;
// -load echo bounces 64 bytes over -conns TCP connections on 127.0.0.1. -n goroutines are parked in bench.(*crowd).rest
// (chan receive) below -depth frames in all; -wake of them a second are woken and park again. The last line is
// TRUTH with the totals.
package bench

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math/bits"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"example.org/goprof/targets/oracle"
)

// --- parked goroutines ---

type crowd struct {
	c      chan int
	parked int64
	woken  int64
}

//go:noinline
func (w *crowd) rest() {
	atomic.AddInt64(&w.parked, 1)
	for range w.c {
		atomic.AddInt64(&w.woken, 1)
	}
}

// A few names in turn, so that deep stacks do not look like one recursion.

//go:noinline
func (w *crowd) accept(depth int) { w.decode(depth - 1); oracle.Sink++ }

//go:noinline
func (w *crowd) decode(depth int) {
	if depth <= 1 {
		w.rest()
	} else {
		w.serve(depth - 1)
	}
}

//go:noinline
func (w *crowd) serve(depth int) {
	var pad [16]uint64
	if depth <= 1 {
		w.rest()
	} else {
		w.decode(depth - 1)
	}
	oracle.Sink += pad[depth&15]
}

func (w *crowd) wake(perSecond int) {
	const tick = 10 * time.Millisecond
	due := 0.0
	for t := time.Now(); ; {
		time.Sleep(tick)
		now := time.Now()
		due += float64(perSecond) * now.Sub(t).Seconds()
		for t = now; due >= 1; due-- {
			w.c <- 1
		}
	}
}

// --- load cpu ---

//go:noinline
func hash(x uint64) uint64 {
	for i := uint64(0); i < 1000; i++ {
		x = (x ^ i) * 0x9e3779b97f4a7c15
		x ^= x >> 29
	}
	return x
}

// counter is on a cache line of its own.
type counter struct {
	ops uint64
	_   [56]byte
}

//go:noinline
func compute(c *counter) {
	x := uint64(1)
	for {
		x = hash(x)
		atomic.AddUint64(&c.ops, 1)
	}
}

// --- load echo ---

// latencies is a histogram with 16 steps to a power of two.
type latencies [64 * 16]uint64

func (h *latencies) add(ns uint64) {
	k := bits.Len64(ns | 16)
	atomic.AddUint64(&h[k*16+int(ns>>uint(k-5)&15)], 1)
}

// since is what came in after old was taken; old becomes the state of now.
func (h *latencies) since(old *latencies) (d latencies) {
	for i := range h {
		n := atomic.LoadUint64(&h[i])
		d[i], old[i] = n-old[i], n
	}
	return
}

// quantile in us.
func (h *latencies) quantile(q float64) float64 {
	var sum, at uint64
	for _, n := range h {
		sum += n
	}
	for i, n := range h {
		if at += n; n > 0 && float64(at) >= q*float64(sum) {
			k := uint(i / 16)
			return float64(uint64(16+i%16)<<(k-5)) / 1e3
		}
	}
	return 0
}

//go:noinline
func serveEcho(c net.Conn) {
	var b [64]byte
	for {
		if _, err := io.ReadFull(c, b[:]); err != nil {
			return
		}
		c.Write(b[:])
	}
}

//go:noinline
func askEcho(c net.Conn, n *counter, h *latencies) {
	var b [64]byte
	for {
		t := time.Now()
		c.Write(b[:])
		if _, err := io.ReadFull(c, b[:]); err != nil {
			panic(err)
		}
		h.add(uint64(time.Since(t)))
		atomic.AddUint64(&n.ops, 1)
	}
}

func startEcho(counters []counter, h *latencies) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	for i := range counters {
		ask, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		serve, err := l.Accept()
		if err != nil {
			return err
		}
		go serveEcho(serve)
		go askEcho(ask, &counters[i], h)
	}
	return nil
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 30*time.Second, "run time")
	load := flag.String("load", "cpu", "cpu or echo")
	n := flag.Int("n", 0, "parked goroutines")
	depth := flag.Int("depth", 16, "frames of each parked goroutine")
	wake := flag.Int("wake", 0, "parked goroutines to wake in a second")
	workers := flag.Int("workers", runtime.GOMAXPROCS(0), "goroutines that compute (cpu)")
	conns := flag.Int("conns", 4, "connections (echo)")
	every := flag.Duration("every", 100*time.Millisecond, "time between T lines")
	outName := flag.String("o", "", "file for the T lines (stdout)")
	flag.Parse()

	out := os.Stdout
	if *outName != "" {
		var err error
		if out, err = os.Create(*outName); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
	}

	w := &crowd{c: make(chan int)}
	for i := 0; i < *n; i++ {
		go w.accept(*depth - 1)
	}
	for atomic.LoadInt64(&w.parked) < int64(*n) {
		time.Sleep(time.Millisecond)
	}
	if *wake > 0 && *n > 0 {
		go w.wake(*wake)
	}

	var lat latencies
	var counters []counter
	echo := *load == "echo"
	switch *load {
	case "cpu":
		counters = make([]counter, *workers)
		for i := range counters {
			go compute(&counters[i])
		}
	case "echo":
		counters = make([]counter, *conns)
		if err := startEcho(counters, &lat); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
	default:
		fmt.Fprintln(os.Stderr, "bench: -load is cpu or echo")
		os.Exit(2)
	}
	oracle.Start()

	var last latencies
	var ops uint64
	b := bufio.NewWriter(out)
	start := time.Now()
	for next := start; time.Since(start) < *dur; {
		ops = 0
		for i := range counters {
			ops += atomic.LoadUint64(&counters[i].ops)
		}
		fmt.Fprintf(b, "T %d %d", time.Now().UnixNano(), ops)
		if echo {
			d := lat.since(&last)
			fmt.Fprintf(b, " %.1f %.1f", d.quantile(0.5), d.quantile(0.99))
		}
		fmt.Fprintln(b)
		b.Flush()
		next = next.Add(*every)
		time.Sleep(time.Until(next))
	}
	fmt.Fprintf(b, "TRUTH load=%s ops=%d per_s=%.0f parked=%d woken=%d process_ms=%.0f", *load, ops,
		float64(ops)/time.Since(start).Seconds(), *n, atomic.LoadInt64(&w.woken), float64(oracle.ProcessCPU())/1e6)
	if echo {
		fmt.Fprintf(b, " p50_us=%.1f p99_us=%.1f", last.quantile(0.5), last.quantile(0.99))
	}
	fmt.Fprintln(b)
	b.Flush()
}
