// Package switches spends its time where one stack ends and another begins, or where a stack is not what its calls
// made it: switches -kind NAME.
//
// Right answer, for every kind: whatever was looked at on a CPU goes on to the function that began it, in this order,
// leaf first (runtime functions between them left out), and ends in runtime.goexit:
//
//	callers     switches.callers <- switches.descend (20 times) <- switches.askCallers
//	gosched     switches.yields, and the scheduler's own stacks, which end in runtime.mstart or runtime.mcall
//	pingpong    switches.ping or switches.pong
//	panics      switches.busy <- switches.deferred <- runtime.gopanic <- switches.panics
//	faults      switches.busy <- switches.deferred <- runtime.sigpanic <- switches.loads or switches.divides <- switches.faults
//	goexits     switches.busy <- switches.deferred <- runtime.Goexit <- switches.goexits
//	recovered   switches.busy <- switches.afterRecover <- switches.recovered
//	timers      switches.busy <- switches.onTimer (a goroutine of its own for each)
//	finalizers  switches.busy <- switches.finalizer, in the runtime's finalizer goroutine
//	threads     switches.busy <- switches.endsLocked: its thread ends with it
//	syscalls    switches.calls
//	preempted   switches.neverYields, stopped by signals all the time
//	maps        switches.fills, with the runtime's allocator and collector below
//	clock       switches.asks: the time of day, from the vDSO on the thread's stack
//
// With -signals a SIGALRM comes each millisecond, wherever the thread is.
package switches

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sort"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"example.org/goprof/targets/oracle"
)

var end time.Time

func over() bool { return time.Now().After(end) }

// busy works for about n times 3 ns.
//
//go:noinline
func busy(n int) (x uint64) {
	for i := 0; i < n; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return
}

const some = 20000

// --- runtime.Callers walks its goroutine on the system stack ---

//go:noinline
func callers(pcs []uintptr) int { return runtime.Callers(0, pcs) }

//go:noinline
func descend(n int, pcs []uintptr) int {
	if n == 1 {
		sum := 0
		for i := 0; i < 1000; i++ {
			sum += callers(pcs)
		}
		return sum
	}
	return descend(n-1, pcs) + 1
}

func askCallers() {
	var pcs [64]uintptr
	for !over() {
		descend(20, pcs[:])
	}
}

// --- mcall: a goroutine leaves its thread ---

func yields() {
	for !over() {
		for i := 0; i < 100; i++ {
			runtime.Gosched()
		}
	}
}

func gosched() {
	go yields()
	yields()
}

func ping(a, b chan int) {
	for !over() {
		a <- 1
		<-b
	}
	close(a)
}

func pong(a, b chan int) {
	for range a {
		b <- 1
	}
}

func pingpong() {
	a, b := make(chan int), make(chan int, 1)
	go pong(a, b)
	ping(a, b)
}

// --- panics and Goexit: deferred calls above frames that are given up ---

//go:noinline
func deferred() { busy(some) }

func catch() { recover() }

//go:noinline
func panics(why interface{}) {
	defer catch()
	defer deferred()
	panic(why)
}

type record struct{ pad [5000]int }

//go:noinline
func loads(p *record) int { return p.pad[4] }

//go:noinline
func divides(a, b int) int { return a / b }

//go:noinline
func faults(f func()) {
	defer catch()
	defer deferred()
	f()
}

func goexits(done chan int) {
	defer close(done)
	defer deferred()
	runtime.Goexit()
}

//go:noinline
func afterRecover() { busy(some) }

//go:noinline
func recovered() {
	func() {
		defer catch()
		panic("recovered at once")
	}()
	afterRecover()
}

// --- goroutines that the runtime makes ---

var fired, finalized int64

func onTimer() { busy(some); atomic.AddInt64(&fired, 1) }

func timers() {
	for !over() {
		for i := 0; i < 10; i++ {
			time.AfterFunc(time.Duration(i)*50*time.Microsecond, onTimer)
		}
		time.Sleep(time.Millisecond)
	}
}

func finalizer(*[99]byte) { busy(some); atomic.AddInt64(&finalized, 1) }

func finalizers() {
	for !over() {
		for i := 0; i < 100; i++ {
			runtime.SetFinalizer(new([99]byte), finalizer)
		}
		runtime.GC()
		time.Sleep(5 * time.Millisecond)
	}
}

func endsLocked(done chan int) {
	runtime.LockOSThread()
	busy(100 * some)
	close(done)
}

// --- and the rest ---

//go:noinline
func calls(fd int) {
	var b [1]byte
	for i := 0; i < 100; i++ {
		syscall.Getppid()
		syscall.Read(fd, b[:])
	}
}

func syscalls() {
	fd, err := syscall.Open("/dev/zero", syscall.O_RDONLY, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for !over() {
		calls(fd)
	}
}

var stop int32

//go:noinline
func neverYields() (x uint64) {
	for atomic.LoadInt32(&stop) == 0 {
		x++
	}
	return
}

func preempted() {
	go neverYields()
	go neverYields()
	for !over() {
		runtime.GC()
	}
	atomic.StoreInt32(&stop, 1)
}

//go:noinline
func fills(n int) map[int][]byte {
	m := map[int][]byte{}
	for i := 0; i < n; i++ {
		m[i] = make([]byte, i%512)
	}
	return m
}

var kept map[int][]byte

//go:noinline
func asks() (n int) {
	for i := 0; i < 1000; i++ {
		n += time.Now().Nanosecond()
	}
	return
}

var alarms int64

func alarm() {
	c := make(chan os.Signal, 8)
	signal.Notify(c, syscall.SIGALRM)
	go func() {
		for range c {
			atomic.AddInt64(&alarms, 1)
		}
	}()
	each := [4]int64{0, 1000, 0, 1000} // interval and first, in seconds and microseconds
	syscall.Syscall(syscall.SYS_SETITIMER, 0, uintptr(unsafe.Pointer(&each)), 0)
}

func repeat(f func()) func() {
	return func() {
		for !over() {
			f()
		}
	}
}

func waited(f func(done chan int)) func() {
	return repeat(func() {
		done := make(chan int)
		go f(done)
		<-done
	})
}

var kinds = map[string]func(){
	"callers":  askCallers,
	"gosched":  gosched,
	"pingpong": pingpong,
	"panics":   repeat(func() { panics("again") }),
	"faults": repeat(func() {
		faults(func() { loads(nil) })
		faults(func() { divides(1, 0) })
	}),
	"goexits":    waited(goexits),
	"recovered":  repeat(recovered),
	"timers":     timers,
	"finalizers": finalizers,
	"threads":    waited(endsLocked),
	"syscalls":   syscalls,
	"preempted":  preempted,
	"maps":       repeat(func() { kept = fills(5000) }),
	"clock":      repeat(func() { asks() }),
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 6*time.Second, "run time")
	kind := flag.String("kind", "callers", "what to do")
	signals := flag.Bool("signals", false, "a SIGALRM each millisecond")
	flag.Parse()
	if kinds[*kind] == nil {
		names := make([]string, 0, len(kinds))
		for name := range kinds {
			names = append(names, name)
		}
		sort.Strings(names)
		fmt.Fprintln(os.Stderr, "kinds:", names)
		os.Exit(2)
	}
	if *signals {
		alarm()
	}
	oracle.Start()
	end = time.Now().Add(*dur)
	done := make(chan int)
	go func() {
		kinds[*kind]()
		close(done)
	}()
	<-done
	fmt.Printf("TRUTH kind=%s fired=%d finalized=%d alarms=%d\n", *kind, atomic.LoadInt64(&fired), atomic.LoadInt64(&finalized), atomic.LoadInt64(&alarms))
}
