package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// target is the program that is looked at: test/targets bench.
type target struct {
	cmd       *exec.Cmd
	pid       int
	points    string // file of its T lines
	goVersion string
}

var ready = regexp.MustCompile(`^READY pid=\d+ go=(\S+)`)

// startTarget starts it and waits until its goroutines are parked. It ends by itself after dur, with us, and with ctx.
// The caller is on the main thread, which lives as long as we do: Pdeathsig looks at threads.
func startTarget(ctx context.Context, s *settings, r row, dir string, dur time.Duration) (*target, error) {
	t := &target{points: filepath.Join(dir, "points")}
	t.cmd = exec.CommandContext(ctx, s.target, "bench", "-load", r.load, "-n", strconv.Itoa(r.n), "-conns", strconv.Itoa(s.conns),
		"-every", every.String(), "-dur", dur.String(), "-o", t.points)
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := t.cmd.StderrPipe()
	if err == nil {
		err = t.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	t.pid = t.cmd.Process.Pid
	timer := time.AfterFunc(30*time.Second, func() { t.cmd.Process.Kill() })
	defer timer.Stop()
	lines := bufio.NewReader(stderr)
	line, _ := lines.ReadString('\n')
	m := ready.FindStringSubmatch(line)
	if m == nil {
		t.stop()
		return nil, fmt.Errorf("the target did not come up: %s", strings.TrimSpace(line))
	}
	t.goVersion = m[1]
	go io.Copy(io.Discard, lines)
	return t, nil
}

func (t *target) stop() {
	t.cmd.Process.Kill()
	t.cmd.Wait()
}

// cpu is the CPU time of the process, from its own clock: exact, unlike /proc/PID/stat.
func (t *target) cpu() (time.Duration, error) {
	var ts syscall.Timespec
	clock := uintptr(^t.pid<<3 | 2) // clock_getcpuclockid(3), which is arithmetic only
	if _, _, e := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0); e != 0 {
		return 0, fmt.Errorf("the target has ended: %w", e)
	}
	return time.Duration(ts.Nano()), nil
}

// statusKB is a figure of /proc/PID/status in KB; 0 when there is none.
func statusKB(pid int, name string) float64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut("\n"+string(data), "\n"+name+":")
	if f := strings.Fields(rest); len(f) > 0 {
		kb, _ := strconv.ParseFloat(f[0], 64)
		return kb
	}
	return 0
}

// machineTimes is what all cores together did since boot: at work, and taken away by the host of a virtual machine.
func machineTimes() (busy, stolen time.Duration) {
	const hz = 100 // USER_HZ, the same on every Linux that Go knows
	data, _ := os.ReadFile("/proc/stat")
	f := strings.Fields(strings.SplitN(string(data), "\n", 2)[0])
	for i, word := range f {
		n, _ := strconv.ParseInt(word, 10, 64)
		switch i { // cpu user nice system idle iowait irq softirq steal
		case 1, 2, 3, 6, 7:
			busy += time.Duration(n) * time.Second / hz
		case 8:
			stolen = time.Duration(n) * time.Second / hz
		}
	}
	return
}
