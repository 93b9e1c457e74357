// Package echoio copies stdin to stdout byte for byte, and writes a fixed pattern to stderr.
//
// Right answer: stdout equals stdin, stderr is "err 000000" to "err 000999" (-lines), nothing else on either: no TRUTH, no
// READY, and no answer to SIGUSR1. Exit status 0, or 1 when a read or a write failed.
package echoio

import (
	"flag"
	"fmt"
	"io"
	"os"
)

// Main is the target.
func Main() {
	lines := flag.Int("lines", 1000, "lines on stderr")
	flag.Parse()
	done := make(chan error)
	go func() {
		_, err := io.Copy(os.Stdout, os.Stdin)
		done <- err
	}()
	for i := 0; i < *lines; i++ {
		fmt.Fprintf(os.Stderr, "err %06d\n", i)
	}
	if <-done != nil {
		os.Exit(1)
	}
}
