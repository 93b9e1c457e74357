package crowd

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"time"
)

// counter is on a cache line of its own.
type counter struct {
	ops uint64
	_   [56]byte
}

// load is what the program does beside its parked goroutines.
type load struct {
	counters []counter
	times    histogram // of each operation; echo only
}

func (l *load) ops() (n uint64) {
	for i := range l.counters {
		n += atomic.LoadUint64(&l.counters[i].ops)
	}
	return
}

// loads by name: each starts count of whatever it counts.
var loads = map[string]func(l *load, count int) error{
	"idle":    func(*load, int) error { return nil },
	"cpu":     startCompute,
	"echo":    startEcho,
	"threads": startThreads,
}

// --- cpu ---

//go:noinline
func hash(x uint64) uint64 {
	for i := uint64(0); i < 1000; i++ {
		x = (x ^ i) * 0x9e3779b97f4a7c15
		x ^= x >> 29
	}
	return x
}

//go:noinline
func compute(c *counter) {
	for x := uint64(1); ; {
		x = hash(x)
		atomic.AddUint64(&c.ops, 1)
	}
}

func startCompute(l *load, count int) error {
	l.counters = make([]counter, count)
	for i := range l.counters {
		go compute(&l.counters[i])
	}
	return nil
}

// --- echo ---

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
func askEcho(c net.Conn, n *counter, times *histogram) {
	var b [64]byte
	for {
		t := time.Now()
		c.Write(b[:])
		if _, err := io.ReadFull(c, b[:]); err != nil {
			panic(err)
		}
		times.add(uint64(time.Since(t)))
		atomic.AddUint64(&n.ops, 1)
	}
}

func startEcho(l *load, count int) error {
	l.counters = make([]counter, count)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	for i := range l.counters {
		ask, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			return err
		}
		serve, err := listener.Accept()
		if err != nil {
			return err
		}
		go serveEcho(serve)
		go askEcho(ask, &l.counters[i], &l.times)
	}
	return nil
}

// --- threads ---

// shortLived is a goroutine that takes its thread with it when it ends.
//
//go:noinline
func shortLived(c *counter, done chan<- struct{}) {
	runtime.LockOSThread()
	atomic.AddUint64(&c.ops, 1)
	done <- struct{}{}
}

//go:noinline
func spawn(c *counter) {
	done := make(chan struct{})
	for {
		go shortLived(c, done)
		<-done
	}
}

// startThreads has count goroutines make a new thread each, over and over.
func startThreads(l *load, count int) error {
	l.counters = make([]counter, count)
	for i := range l.counters {
		go spawn(&l.counters[i])
	}
	return nil
}

func startLoad(name string, count int) (*load, error) {
	start := loads[name]
	if start == nil {
		return nil, fmt.Errorf("no load %q", name)
	}
	if count <= 0 {
		count = runtime.NumCPU()
	}
	l := &load{}
	return l, start(l, count)
}
