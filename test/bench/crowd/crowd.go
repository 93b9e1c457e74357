// Package crowd is the program that the bench looks at: -n goroutines parked in a channel receive below 8 to 19 frames, and a
// load beside them. It is driven by lines on stdin, each answered by one on stdout, and ends with its input:
//
//	begin NS           OK                  a window of that length begins; some contenders end with it by themselves
//	end                WINDOW ns=N ops=N p50_us=X p99_us=X      what was done since; not before the contender that is on
//	                                       has taken one sample
//	on NAME            OK                  switches a profiler on within the program (contender.go)
//	off                OFF ns=N samples=N note=TEXT             and off again: since on
//	free               OK                  gives buffers of contenders, and what the heap does not use, back to the system
//	list               LIST NAME,NAME...   the contenders, in the order in which they are to be measured;
//	                                       with a ! behind those that go on for ever, once they were on
//
// or ERROR TEXT. Its first line is START ns=N, the time from the start of the command that led to it, which whoever starts it
// leaves in BENCH_BORN (CLOCK_MONOTONIC, ns), to main.main; its second is READY, when all goroutines are parked.
package crowd

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

func monotonic() int64 {
	const clockMonotonic = 1
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// control is the state between two lines.
type control struct {
	load       *load
	goroutines int
	begun      time.Time
	ops        uint64
	times      histogram
	on         Contender
	onSince    time.Time
	ends       bool                   // it ends by itself, after the window
	over       atomic.Pointer[window] // what stood when the contender ended by itself
}

// window is what was done in one.
type window struct {
	at    time.Time // its end
	ns    int64
	ops   uint64
	times histogram
}

func (c *control) begin(arg string) (string, error) {
	ns, err := strconv.ParseInt(arg, 10, 64)
	if err != nil {
		return "", err
	}
	c.load.times.since(&c.times)
	c.ops, c.begun = c.load.ops(), time.Now()
	if b, ok := c.on.(bounded); ok {
		c.ends = true
		b.EndAfter(time.Duration(ns), func() { c.over.Store(c.now()) })
	}
	return "OK", nil
}

// now is what has been done since the window began.
func (c *control) now() *window {
	w := &window{at: time.Now(), ops: c.load.ops() - c.ops}
	w.ns, w.times = w.at.Sub(c.begun).Nanoseconds(), c.load.times.since(&c.times)
	return w
}

// enough is what has been done when the contender has at least one sample: its cost is that of whole samples. What ends by
// itself does so after one.
func (c *control) enough() *window {
	for c.on != nil {
		if n, known := c.on.Samples(); !c.ends && (n > 0 || !known) {
			break
		}
		if w := c.over.Load(); w != nil {
			return w
		}
		time.Sleep(time.Millisecond)
	}
	return c.now()
}

func (c *control) end(string) (string, error) {
	w := c.enough()
	return fmt.Sprintf("WINDOW ns=%d ops=%d p50_us=%.1f p99_us=%.1f", w.ns, w.ops, w.times.quantile(0.5), w.times.quantile(0.99)), nil
}

func (c *control) switchOn(name string) (string, error) {
	if c.on != nil {
		return "", fmt.Errorf("another contender is on")
	}
	next := contenders[name]
	if next == nil {
		return "", fmt.Errorf("no contender %q", name)
	}
	if err := next.Start(c.goroutines); err != nil {
		return "", err
	}
	c.on, c.onSince, c.ends = next, time.Now(), false
	c.over.Store(nil)
	return "OK", nil
}

func (c *control) switchOff(string) (string, error) {
	if c.on == nil {
		return "", fmt.Errorf("no contender is on")
	}
	end := time.Now()
	if w := c.over.Swap(nil); w != nil {
		end = w.at
	}
	ns := end.Sub(c.onSince).Nanoseconds()
	samples, note, err := c.on.Stop()
	c.on = nil
	return fmt.Sprintf("OFF ns=%d samples=%d note=%s", ns, samples, note), err
}

func (c *control) free(string) (string, error) {
	if c.on == nil {
		forget()
	}
	debug.FreeOSMemory()
	return "OK", nil
}

func (c *control) list(string) (string, error) {
	names := append([]string(nil), order...)
	for i, name := range names {
		if endless[name] {
			names[i] += "!"
		}
	}
	return "LIST " + strings.Join(names, ","), nil
}

var commands = map[string]func(c *control, arg string) (string, error){
	"begin": (*control).begin,
	"end":   (*control).end,
	"on":    (*control).switchOn,
	"off":   (*control).switchOff,
	"free":  (*control).free,
	"list":  (*control).list,
}

// serve answers lines until there are no more.
func (c *control) serve(in *os.File, out *os.File) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		word, arg, _ := strings.Cut(lines.Text(), " ")
		answer, err := "", fmt.Errorf("no command %q", word)
		if f := commands[word]; f != nil {
			answer, err = f(c, arg)
		}
		if err != nil {
			answer = "ERROR " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Fprintln(out, answer)
	}
}

// Main is the whole program.
func Main() {
	now := monotonic()
	n := flag.Int("n", 0, "parked goroutines")
	name := flag.String("load", "idle", "idle, cpu, echo, threads")
	count := flag.Int("count", 0, "computing goroutines, connections, makers of threads (default: as many as cores)")
	startOnly := flag.Bool("start-only", false, "end when the first line is said")
	flag.Parse()

	born, err := strconv.ParseInt(os.Getenv("BENCH_BORN"), 10, 64)
	if err != nil {
		born = now
	}
	fmt.Printf("START ns=%d\n", now-born)
	if *startOnly {
		return
	}
	park(*n)
	l, err := startLoad(*name, *count)
	if err != nil {
		fmt.Fprintln(os.Stderr, "target:", err)
		os.Exit(1)
	}
	fmt.Printf("READY pid=%d go=%s\n", os.Getpid(), runtime.Version())
	c := &control{load: l, goroutines: *n}
	c.serve(os.Stdin, os.Stdout)
}
