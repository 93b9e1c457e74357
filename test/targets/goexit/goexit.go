// Package goexit ends its main goroutine by runtime.Goexit and lives on.
//
// Right answer: goroutine 1 is gone (status dead); goexit.survivor runs; exit status 5 after 8 s (-dur).
package goexit

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"example.org/goprof/targets/oracle"
)

//go:noinline
func survivor() {
	for {
		oracle.Sink++
	}
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 8*time.Second, "run time")
	flag.Parse()
	oracle.Start()
	go survivor()
	go func() {
		time.Sleep(*dur)
		fmt.Println("TRUTH goroutine 1 is gone (status dead); goexit.survivor running; exit code 5")
		os.Exit(5)
	}()
	runtime.Goexit()
}
