// Ctrl-C and Ctrl-Z at a terminal.
package live

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// terminal opens a new pseudo terminal: the side that types and reads, and the side that programs have.
func terminal(t testing.TB) (typist, tty *os.File) {
	t.Helper()
	typist, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { typist.Close() })
	var unlock, number int32
	for _, call := range []struct {
		request uintptr
		value   *int32
	}{{syscall.TIOCSPTLCK, &unlock}, {syscall.TIOCGPTN, &number}} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, typist.Fd(), call.request, uintptr(unsafe.Pointer(call.value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return typist, tty
}

// onTerminal makes a process leader of a session with the terminal as its own, in the foreground.
func onTerminal(tty *os.File) option {
	return func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
		c.Stdin = tty
	}
}

// Shows: Ctrl-C goes to the foreground process group, so to goprof and to its child; the child gets exactly one SIGINT,
// ends as it likes, and the profile is written.
func TestCtrlC(t *testing.T) {
	t.Parallel()
	typist, tty := terminal(t)
	r := record(t, []option{onTerminal(tty), env("GOPROF_LIVE_CHILD=signals")}, "run", self(t))
	r.ready()
	time.Sleep(300 * time.Millisecond)
	typist.Write([]byte{3})
	status := r.wait(30 * time.Second)
	r.check()
	if n := countLines(r.out(), "got 2"); n != 1 || status != 7 {
		t.Errorf("the child got SIGINT %d times; status %d, want 7\n%s", n, status, tail(r.err()))
	}
	if r.profile().wall(anySample) == 0 || len(r.envelopes()) == 0 {
		t.Error("no profile")
	}
}

// Shows: a child that does not care about SIGINT dies of it, and goprof says 130 and writes the profile.
func TestCtrlCKills(t *testing.T) {
	t.Parallel()
	typist, tty := terminal(t)
	r := record(t, []option{onTerminal(tty)}, "run", target("1.26-sw"), "busy", "-dur", "1m")
	r.ready()
	time.Sleep(time.Second) // on a busy machine a thread is not met on a core at every tick
	typist.Write([]byte{3})
	status := r.wait(30 * time.Second)
	r.check()
	if status != 130 || !strings.Contains(r.err(), "SIGINT") {
		t.Errorf("status %d, want 130\n%s", status, tail(r.err()))
	}
	if r.profile().wall(with(pkg+"busy.spin")) == 0 {
		t.Error("busy.spin is not in the profile")
	}
}

// Shows: Ctrl-Z gives the terminal back to the shell, fg goes on, and the status is the child's.
func TestCtrlZ(t *testing.T) {
	t.Run("stopped", func(t *testing.T) { testCtrlZ(t, "none", target("1.26-sw"), "exitcode", "-dur", "2s", "7") })
	t.Run("stops itself", func(t *testing.T) { testCtrlZ(t, "stops-itself", self(t)) })
}

func testCtrlZ(t *testing.T, as string, words ...string) {
	t.Parallel()
	typist, tty := terminal(t)
	files := t.TempDir()
	said := files + "/said"
	// bash takes the terminal behind its stderr for job control.
	ownStderr := func(c *exec.Cmd) { c.Stderr = tty }
	script := `"$@" 2>"$SAID"; echo stopped $?; sleep 0.3; fg >/dev/null; echo status $?`
	shell := start(t, []option{onTerminal(tty), ownStderr, env("SAID="+said, "GOPROF_LIVE_CHILD="+as)}, "bash", append([]string{"-m", "-c", script, "bash",
		goprofPath, "run", "-o", files + "/p.pb.gz", "-o", files + "/w%n.envelope"}, words...)...)
	child := 0
	eventually(t, 10*time.Second, "the child is ready", func() bool {
		data, _ := os.ReadFile(said)
		_, err := fmt.Sscanf(string(data), "READY pid=%d", &child)
		return err == nil
	})
	parent, _ := strconv.Atoi(field(child, "", "PPid"))
	t.Cleanup(func() { syscall.Kill(-parent, syscall.SIGKILL) })
	time.Sleep(300 * time.Millisecond)
	typist.Write([]byte{26})
	// 128 and SIGTSTP or SIGSTOP
	eventually(t, 5*time.Second, "the shell has its terminal back", func() bool { return strings.Contains(shell.out(), "stopped 14") })
	if s := state(child, ""); s != "T" {
		t.Errorf("the child is in state %s", s)
	}
	shell.wait(30 * time.Second)
	data, _ := os.ReadFile(said)
	if !strings.Contains(shell.out(), "status 7\n") || !strings.Contains(string(data), "exited with status 7") {
		t.Errorf("the shell says %q, goprof\n%s", shell.out(), data)
	}
	(&recording{shell, files}).check()
}
