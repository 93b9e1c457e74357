// Package short lives for about 5 ms.
//
// Right answer: exit status 0 and the output intact, no error about a lost process, few samples or none. With -now: exit
// status 9 before it has made a goroutine.
package short

import (
	"flag"
	"fmt"
	"os"
	"time"

	"example.org/goprof/targets/oracle"
)

// Main is the target.
func Main() {
	now := flag.Bool("now", false, "exit at once with status 9")
	flag.Parse()
	if *now {
		os.Exit(9)
	}
	for t := time.Now(); time.Since(t) < 4*time.Millisecond; {
		oracle.Sink++
	}
	fmt.Println("TRUTH short: exit status 0")
}
