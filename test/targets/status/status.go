// Package status holds the targets exitcode N and killself SIG.
//
// Right answer: exit status N, or death by signal SIG as far as Go leaves it to the kernel (SIGTERM, SIGKILL, SIGINT, SIGHUP;
// SIGQUIT and SIGSEGV print stacks and exit with status 2), with and without a profiler.
package status

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"example.org/goprof/targets/oracle"
)

// wait spins lightly for -dur and returns the number given as argument.
func wait(what string) int {
	dur := flag.Duration("dur", 500*time.Millisecond, "run time")
	flag.Parse()
	n, err := strconv.Atoi(flag.Arg(0))
	if err != nil {
		fmt.Fprintf(os.Stderr, "usage: targets %s [-dur D] NUMBER\n", what)
		os.Exit(2)
	}
	oracle.Start()
	for end := time.Now().Add(*dur); time.Now().Before(end); {
		oracle.Sink++
	}
	return n
}

// ExitCode is the target exitcode.
func ExitCode() {
	n := wait("exitcode")
	fmt.Printf("TRUTH exit status %d\n", n)
	os.Exit(n)
}

// KillSelf is the target killself.
func KillSelf() {
	n := wait("killself")
	fmt.Printf("TRUTH signal %d\n", n)
	syscall.Kill(os.Getpid(), syscall.Signal(n))
	time.Sleep(time.Second) // a signal that is ignored: status 0
}
