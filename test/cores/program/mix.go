package main

import (
	"context"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"time"
)

var (
	never    = make(chan int)
	full     = make(chan int)
	nothing  chan int
	mutex    sync.Mutex
	rw       sync.RWMutex
	cond     = sync.NewCond(new(sync.Mutex))
	group    sync.WaitGroup
	blocking [2]int
	in, out  *os.File
	listener net.Listener
)

//go:noinline
func park() { <-never }

// ---- ways to be named ----

type value struct{ n int }
type parker interface{ Park() }
type embeds struct{ parker }
type function func()

func (v value) Val()    { park() }
func (v *value) Park()  { park() }
func (f function) Run() { f() }

func closures(n int) func() {
	return func() {
		func() {
			park()
			sink += uint64(n)
		}()
	}
}

func inner()  { park() } // inlined
func middle() { inner() }
func outer()  { middle() }

//go:noinline
func inlined() { outer(); sink++ }

var named = []func(){
	value{}.Val, (&value{}).Park, func() { embeds{&value{}}.Park() }, function(park).Run, closures(1), inlined,
	func() { defer park() },
	func() { defer func() { recover(); park() }(); panic("recovered") },
	func() { panicked(park) }, func() { nilDereferenced(park) },
	func() { defer park(); runtime.Goexit() },
	func() { strings.Map(func(r rune) rune { park(); return r }, "x") },
}

// panicked calls f while a panic is under way; nobody ever sees the panic.
//
//go:noinline
func panicked(f func()) { defer f(); panic("never seen: f does not come back") }

//go:noinline
func deref(p *[5000]int) int { return p[4000] }

//go:noinline
func nilDereferenced(f func()) { defer f(); sink += uint64(deref(nil)) }

// ---- ways to wait ----

var waiting = []func(){
	func() { full <- 1 }, func() { <-nothing }, func() { nothing <- 1 }, func() { select {} },
	func() {
		select {
		case <-never:
		case full <- 2:
		}
	},
	mutex.Lock, rw.Lock, func() { cond.L.Lock(); cond.Wait() }, group.Wait, func() { time.Sleep(time.Hour) },
	func() { in.Read(make([]byte, 1)) }, func() { listener.Accept() },
	func() { syscall.Read(blocking[0], make([]byte, 1)) },
	func() { runtime.LockOSThread(); park() },
}

// ---- labels ----

func labelled(pairs ...string) {
	go pprof.Do(context.Background(), pprof.Labels(pairs...), func(context.Context) {
		go park() // inherits them
		park()
	})
}

func mix() {
	mutex.Lock()
	rw.Lock()
	group.Add(1)
	syscall.Pipe(blocking[:])
	in, out, _ = os.Pipe()
	listener, _ = net.Listen("tcp", "127.0.0.1:0")
	for _, f := range named {
		go f()
	}
	for _, f := range waiting {
		go f()
	}
	labelled("route", "/", "user", "u1")
	labelled("", "empty key", "empty value", "", "quote", `"x"`, "line", "a\nb", "utf8", "ü", "long", strings.Repeat("x", 300))
	labelled("a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "f", "6", "g", "7", "h", "8", "i", "9", "j", "10")
	runtime.GC() // what the collector has seen blocked has a time since
	park()
}
