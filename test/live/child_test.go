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
	"unsafe"
)

// children by the value of GOPROF_LIVE_CHILD; each gives an exit status.
var children = map[string]func() int{"signals": countSignals, "exit-elsewhere": exitElsewhere, "trace": leaveTrace, "memfd": execMemory, "mapped": mapAgain,
	"stops-itself": stopItself}

// exitElsewhere ends with status 5 on a thread that is not the first one.
func exitElsewhere() int {
	fmt.Println("ends")
	go func() {
		runtime.LockOSThread()
		os.Exit(5)
	}()
	select {}
}

// execMemory becomes the program that its arguments name, from a file that is in no folder.
func execMemory() int {
	name := []byte("no file\x00")
	fd, _, errno := syscall.Syscall(319, uintptr(unsafe.Pointer(&name[0])), 0, 0) // memfd_create on amd64
	data, err := os.ReadFile(os.Args[1])
	if errno != 0 || err != nil {
		return 77
	}
	os.NewFile(fd, "").Write(data)
	fmt.Println(syscall.Exec(fmt.Sprintf("/proc/self/fd/%d", fd), os.Args[1:], os.Environ()))
	return 1
}

var spun int

//go:noinline
func spinMapped() {
	for {
		spun++
	}
}

// mapAgain has its own program mapped three times over and spins.
func mapAgain() int {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return 1
	}
	info, _ := f.Stat()
	for _, prot := range []int{syscall.PROT_READ, syscall.PROT_READ | syscall.PROT_EXEC, syscall.PROT_READ} {
		if _, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), prot, syscall.MAP_PRIVATE); err != nil {
			return 1
		}
	}
	time.AfterFunc(time.Minute, func() { os.Exit(0) })
	fmt.Fprintf(os.Stderr, "READY pid=%d\n", os.Getpid())
	spinMapped()
	return 0
}

// stopItself catches Ctrl-Z, takes its time, stops by SIGSTOP as editors do, and ends with status 7 when it goes on.
func stopItself() int {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTSTP)
	fmt.Fprintf(os.Stderr, "READY pid=%d\n", os.Getpid())
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		return 8
	}
	time.Sleep(200 * time.Millisecond)
	syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	time.Sleep(300 * time.Millisecond)
	return 7
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
