package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// attach is one run of goprof on the target.
type attach struct {
	file           string
	forked, exited time.Time
	cpu            time.Duration // of all of it, from its rusage
	memory         float64       // its most, KB, shortly before its end
	// Filled by open, from the profile:
	first  time.Time          // its first tick
	health map[string]float64 // figures by name; ns for times
}

// runAttach runs goprof for one window. Whatever happens, it has ended afterwards.
func runAttach(ctx context.Context, s *settings, pid int, file string) (*attach, error) {
	ctx, cancel := context.WithTimeout(ctx, s.window+15*time.Second)
	defer cancel()
	a := &attach{file: file}
	cmd := exec.CommandContext(ctx, s.goprof, "attach", "--duration", s.window.String(), "-q", "--no-dsn", "-o", file, strconv.Itoa(pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	a.forked = time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pause(ctx, s.window*8/10)
	a.memory = statusKB(cmd.Process.Pid, "VmHWM")
	err := cmd.Wait()
	a.exited = time.Now()
	if err != nil {
		return nil, fmt.Errorf("goprof attach: %w %s", err, strings.TrimSpace(stderr.String()))
	}
	a.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return a, nil
}

var (
	profileTime = regexp.MustCompile(`(?m)^Time: (.*)$`)
	healthLine  = regexp.MustCompile(`(?:health: |, )([^,:\n]+?) (\d+)(?: ns)?`)
)

// open reads the profile as its users would, by pprof. Not while anything is measured: it takes CPU time.
func (a *attach) open(ctx context.Context, s *settings) error {
	out, err := exec.CommandContext(ctx, s.pprof, "-raw", a.file).Output()
	if err != nil {
		return fmt.Errorf("pprof %s: %w", a.file, err)
	}
	m := profileTime.FindSubmatch(out)
	if m == nil {
		return fmt.Errorf("%s has no time", a.file)
	}
	if a.first, err = time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", string(m[1])); err != nil {
		return err
	}
	a.health = map[string]float64{}
	for _, m := range healthLine.FindAllSubmatch(out, -1) {
		a.health[string(m[1])], _ = strconv.ParseFloat(string(m[2]), 64)
	}
	for _, name := range []string{ticksDue, ticksDone, heldMedian, heldP99, ownCPU, headersRead, captured} {
		if _, ok := a.health[name]; !ok {
			return fmt.Errorf("%s has no health figure %q", a.file, name)
		}
	}
	return nil
}

// The health figures that are used here, by the names that the profile gives them.
const (
	ticksDue    = "ticks due"
	ticksDone   = "ticks done"
	heldMedian  = "held median"
	heldP99     = "held p99"
	ownCPU      = "own CPU"
	headersRead = "goroutine headers read"
	captured    = "threads captured"
)
