// Package oracle is what every target shares: the program's own view of itself, to compare a profiler with.
//
// On SIGUSR1 the process writes $ODD_DUMP (all stacks, the runtime's debug=2 form) and then $ODD_DUMP.1 (debug=1,
// with labels); each gets its name only when it is complete and ends in a line "END n=<goroutines>". Without
// ODD_DUMP both go to stderr. The oracle adds two goroutines of its own (oracle.loop and os/signal.loop), and the
// one that writes a dump shows as running in it.
package oracle

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"syscall"
	"time"
	"unsafe"
)

// Sink keeps the compiler from removing work that has no other effect.
var Sink uint64

// Long is the default -dur of targets that only sit there: a forgotten one ends by itself.
const Long = 10 * time.Minute

// Start answers SIGUSR1 from now on and says on stderr that the target is in the state its TRUTH lines describe.
func Start() {
	c := make(chan os.Signal, 8)
	signal.Notify(c, syscall.SIGUSR1)
	go loop(c)
	fmt.Fprintf(os.Stderr, "READY pid=%d go=%s\n", os.Getpid(), runtime.Version())
}

func loop(c chan os.Signal) {
	for range c {
		name := os.Getenv("ODD_DUMP")
		dump(name, 2)
		dump(name+".1", 1)
	}
}

func dump(name string, debug int) {
	f := os.Stderr
	toFile := os.Getenv("ODD_DUMP") != ""
	if toFile {
		var err error
		if f, err = os.Create(name + ".tmp"); err != nil {
			fmt.Fprintln(os.Stderr, "oracle:", err)
			return
		}
	}
	pprof.Lookup("goroutine").WriteTo(f, debug)
	fmt.Fprintf(f, "END n=%d\n", runtime.NumGoroutine())
	if toFile {
		f.Close()
		os.Rename(name+".tmp", name)
	}
}

// Main runs a target that only sits there: whatever was started is given time to come to rest.
func Main(starts ...func()) {
	dur := flag.Duration("dur", Long, "run time")
	flag.Parse()
	for _, start := range starts {
		start()
	}
	time.Sleep(300 * time.Millisecond)
	Start()
	Park(*dur)
}

// Park holds the calling goroutine in a select without cases and ends the process (status 0) after d.
func Park(d time.Duration) {
	time.AfterFunc(d, func() { os.Exit(0) })
	select {}
}

// ThreadCPU is the CPU time of the calling thread in ns. Meaningful only in a goroutine that is locked to its thread.
func ThreadCPU() int64 { return clock(3) } // CLOCK_THREAD_CPUTIME_ID

// ProcessCPU is the CPU time of the whole process in ns.
func ProcessCPU() int64 { return clock(2) } // CLOCK_PROCESS_CPUTIME_ID

func clock(id uintptr) int64 {
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// Percent is 100 part/whole, 0 for an empty whole.
func Percent(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// Rand is splitmix64: the same numbers for the same seed in every Go version.
type Rand uint64

// Next returns 64 random bits.
func (r *Rand) Next() uint64 {
	*r += 0x9e3779b97f4a7c15
	x := uint64(*r)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Float returns a number in [0,1).
func (r *Rand) Float() float64 { return float64(r.Next()>>11) / (1 << 53) }

// Vary returns n times a factor evenly spread over [1-by, 1+by).
func (r *Rand) Vary(n, by float64) float64 { return n * (1 + by*(2*r.Float()-1)) }
