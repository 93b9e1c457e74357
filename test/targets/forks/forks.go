// Package forks starts children as fast as it can beside a spinning goroutine.
//
// Right answer: bad=0: every child ends with status 3. Children are not profiled, not stopped, not left with patched code;
// forks.spin and forks.Main are the only hot functions of the target.
package forks

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"time"

	"example.org/goprof/targets/oracle"
)

//go:noinline
func spin() {
	for {
		oracle.Sink++
	}
}

// Main is the target.
func Main() {
	child := flag.Bool("child", false, "exit with status 3 at once")
	dur := flag.Duration("dur", 8*time.Second, "run time")
	flag.Parse()
	if *child {
		os.Exit(3)
	}
	oracle.Start()
	go spin()
	bad, n := 0, 0
	for end := time.Now().Add(*dur); time.Now().Before(end); n++ {
		err := exec.Command("/proc/self/exe", "forks", "-child").Run()
		if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != 3 {
			bad++
			fmt.Println("child:", err)
		}
	}
	fmt.Printf("TRUTH children=%d bad=%d (must be 0); only forks.spin and forks.Main belong to the profile\n", n, bad)
}
