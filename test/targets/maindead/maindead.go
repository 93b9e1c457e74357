// Package maindead ends its first thread by a raw exit(2); the process lives on in the others for 10 s (-dur).
//
// Right answer: tid==pid is a zombie, so the leader's maps, exe and mem read empty or fail while those in
// /proc/PID/task/OTHER work; maindead.survivor is found; exit status 6.
package maindead

import (
	"flag"
	"fmt"
	"os"
	"syscall"
	"time"

	"example.org/goprof/targets/oracle"
)

//go:noinline
func survivor() {
	for {
		oracle.Sink++
	}
}

// Main is the target. It must run on the first thread.
func Main() {
	dur := flag.Duration("dur", 10*time.Second, "run time")
	flag.Parse()
	oracle.Start()
	go survivor()
	go func() {
		time.Sleep(*dur)
		fmt.Println("TRUTH leader was a zombie (State: Z in /proc/PID/status), maindead.survivor was running; exit code 6")
		os.Exit(6)
	}()
	time.Sleep(500 * time.Millisecond)
	syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
}
