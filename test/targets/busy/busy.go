// Package busy is the base target: a known split of CPU time.
//
// Right answer: busy.alpha : busy.beta : busy.gamma = 50 : 30 : 20, each through busy.spin, called by busy.work below
// runtime.goexit; the TRUTH lines hold what the threads' own CPU clocks say. Exit status, signal, panic text, stdout
// and stderr are those of a run without a profiler. The cycles vary in length by 40 % so that no sampler can fall
// into step with them; within a cycle the proportions are exact.
package busy

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"example.org/goprof/targets/oracle"
)

// split is CPU time in ns spent below alpha, beta and gamma.
type split [3]int64

func (s *split) load() (r split, sum int64) {
	for i := range s {
		r[i] = atomic.LoadInt64(&s[i])
		sum += r[i]
	}
	return
}

func (s split) print(who string, sum int64) {
	fmt.Printf("TRUTH %s cpu_ms=%.0f alpha=%.1f%% beta=%.1f%% gamma=%.1f%%\n", who, float64(sum)/1e6,
		oracle.Percent(s[0], sum), oracle.Percent(s[1], sum), oracle.Percent(s[2], sum))
}

//go:noinline
func spin(n int) (x uint64) {
	for i := 0; i < n; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return
}

//go:noinline
func alpha(n int) uint64 { return spin(n) }

//go:noinline
func beta(n int) uint64 { return spin(n) + 1 }

//go:noinline
func gamma(n int) uint64 { return spin(n) + 2 }

func work(seed uint64, cpu *split) {
	runtime.LockOSThread()
	r := oracle.Rand(seed)
	var x uint64
	for {
		unit := int(r.Vary(1000000, 0.4)) // a cycle is ten of these, 13 ms or so
		t0 := oracle.ThreadCPU()
		x += alpha(5 * unit)
		t1 := oracle.ThreadCPU()
		x += beta(3 * unit)
		t2 := oracle.ThreadCPU()
		x += gamma(2 * unit)
		t3 := oracle.ThreadCPU()
		atomic.AddInt64(&cpu[0], t1-t0)
		atomic.AddInt64(&cpu[1], t2-t1)
		atomic.AddInt64(&cpu[2], t3-t2)
		atomic.StoreUint64(&oracle.Sink, x)
	}
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 5*time.Second, "run time")
	n := flag.Int("n", 1, "workers")
	seed := flag.Uint64("seed", 1, "seed of the cycle lengths")
	code := flag.Int("exit", 0, "exit status")
	sig := flag.Int("sig", 0, "end by this signal")
	pan := flag.Bool("panic", false, "end by a panic in a second goroutine")
	out := flag.Int("out", 0, "lines on stdout and on stderr")
	in := flag.Bool("in", false, "copy stdin lines to stdout")
	mem := flag.Int("mem", 0, "MiB to hold")
	flag.Parse()

	oracle.Start()
	hold, cpus := make([]byte, *mem<<20), make([]split, *n)
	for i := range cpus {
		go work(*seed+uint64(i), &cpus[i])
	}
	for i := 0; i < *out; i++ {
		fmt.Printf("out %d\n", i)
		fmt.Fprintf(os.Stderr, "err %d\n", i)
	}
	if *in {
		for s := bufio.NewScanner(os.Stdin); s.Scan(); {
			fmt.Println("in:", s.Text())
		}
	}
	time.Sleep(*dur)

	var all split
	var total int64
	for i := range cpus {
		c, sum := cpus[i].load()
		c.print(fmt.Sprint("worker=", i), sum)
		for k := range all {
			all[k] += c[k]
		}
		total += sum
	}
	all.print("total", total)

	if *pan {
		go func() { var p *int; *p = len(hold) }()
		time.Sleep(time.Second)
	}
	if *sig != 0 && syscall.Kill(os.Getpid(), syscall.Signal(*sig)) == nil {
		time.Sleep(time.Second)
	}
	runtime.KeepAlive(hold)
	os.Exit(*code)
}
