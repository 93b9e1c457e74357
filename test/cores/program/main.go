// program: what the core files of test/cores are made of. Small on purpose: so are the cores then.
//
//	program MODE     mix: goroutines that rest, in many ways; the others: one thread runs at an interesting place
//
// It speaks as the targets do (READY on stderr, its own view on SIGUSR1) and ends by itself after a while.
package main

import (
	"fmt"
	"os"
	"sort"
	"time"

	"example.org/goprof/targets/oracle"
)

const long = 5 * time.Minute

// modes by name; a file of its own adds those that need cgo.
var modes = map[string]func(){
	"deep":        func() { rest(1000); deep(300, spin) },
	"gopanic":     func() { panicked(spin) },
	"handler":     func() { storm(); spin() },
	"locked":      locked,
	"mcall":       yield,
	"mix":         mix,
	"morestack":   growing,
	"preempted":   preempted,
	"sigpanic":    func() { nilDereferenced(spin) },
	"systemstack": traceback,
	"vdso":        clock,
}

// sink keeps the compiler from removing work that has no other effect. Racy, and nobody minds.
var sink uint64

// spin calls nothing: only a signal takes it off its thread.
//
//go:noinline
func spin() {
	for {
		sink++
	}
}

func main() {
	if len(os.Args) != 2 || modes[os.Args[1]] == nil {
		var names []string
		for name := range modes {
			names = append(names, name)
		}
		sort.Strings(names)
		fmt.Fprintln(os.Stderr, "usage: program MODE; modes:", names)
		os.Exit(2)
	}
	time.AfterFunc(long, func() { os.Exit(0) })
	go modes[os.Args[1]]()
	time.Sleep(200 * time.Millisecond)
	oracle.Start()
	select {}
}
