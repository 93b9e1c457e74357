// The test program itself as a child of goprof: what cannot be asked of a target.
package live

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// children by the value of GOPROF_LIVE_CHILD; each gives an exit status.
var children = map[string]func() int{"signals": countSignals, "exit-elsewhere": exitElsewhere, "trace": leaveTrace}

// exitElsewhere ends with status 5 on a thread that is not the first one.
func exitElsewhere() int {
	fmt.Println("ends")
	go func() {
		runtime.LockOSThread()
		os.Exit(5)
	}()
	select {}
}

// leaveTrace adds a line to a file: whoever starts this program again can be told by that. Then it waits.
func leaveTrace() int {
	f, err := os.OpenFile(os.Getenv("TRACE"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return 1
	}
	fmt.Fprintln(f, os.Getpid())
	f.Close()
	fmt.Fprintf(os.Stderr, "READY pid=%d\n", os.Getpid())
	time.Sleep(time.Minute)
	return 0
}

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
