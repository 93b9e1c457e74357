// The test program itself as a child of goprof: what cannot be asked of a target.
package live

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// children by the value of GOPROF_LIVE_CHILD; each gives an exit status.
var children = map[string]func() int{"signals": countSignals}

// countSignals prints each signal it gets and ends with status 7 a while after the last one, or with 8 without any.
func countSignals() int {
	c := make(chan os.Signal, 100)
	signal.Notify(c)
	signal.Reset(syscall.SIGURG, syscall.SIGCHLD) // the runtime sends itself SIGURG
	fmt.Fprintf(os.Stderr, "READY pid=%d\n", os.Getpid())
	deadline, status := time.After(20*time.Second), 8
	for {
		select {
		case s := <-c:
			if s != syscall.SIGURG {
				fmt.Println("got", int(s.(syscall.Signal)))
				deadline, status = time.After(time.Second), 7
			}
		case <-deadline:
			return status
		}
	}
}

func self(t testing.TB) string {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// countLines counts the lines that are text.
func countLines(s, text string) (n int) {
	for _, line := range strings.Split(s, "\n") {
		if strings.TrimSpace(line) == text {
			n++
		}
	}
	return
}
