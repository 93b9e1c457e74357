// Package execself replaces itself in the same process: execself -n 3.
//
// Right answer: n+1 generations of Go in one pid, each 1.5 s in execself.generation, then /bin/sleep 1 (not Go); exit status
// 0. Every exec makes the old address map void; the target never crashes.
package execself

import (
	"flag"
	"fmt"
	"os"
	"syscall"
	"time"

	"example.org/goprof/targets/oracle"
)

//go:noinline
func generation(n int) {
	for t := time.Now(); time.Since(t) < 1500*time.Millisecond; {
		for i := 0; i < 1<<16; i++ {
			oracle.Sink += uint64(n)
		}
	}
}

// Main is the target.
func Main() {
	left := flag.Int("n", 3, "generations to come")
	flag.Parse()
	n := *left
	fmt.Printf("TRUTH generation %d pid=%d\n", n, os.Getpid())
	go func() { select {} }()
	generation(n)
	if n == 0 {
		fmt.Println(syscall.Exec("/bin/sleep", []string{"sleep", "1"}, os.Environ()))
	}
	fmt.Println(syscall.Exec("/proc/self/exe", []string{"targets", "execself", "-n", fmt.Sprint(n - 1)}, os.Environ()))
}
