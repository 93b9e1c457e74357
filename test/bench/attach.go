package main

import (
	"bytes"
	"context"
	"errors"
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
	cmd := exec.CommandContext(ctx, s.goprof, "attach", "--duration", s.window.String(), "-q", "--no-dsn", "-o", file,
		strconv.Itoa(pid))
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
	healthLine  = regexp.MustCompile(`(?m)^Comment: health: (.*)$`)
	figure      = regexp.MustCompile(`^(.+) (\d+)(?: ns)?$`)
)

// open reads the profile as its users would, by pprof. Not while anything is measured: it takes CPU time.
func (a *attach) open(ctx context.Context, s *settings) error {
	out, err := exec.CommandContext(ctx, s.pprof, "-raw", a.file).Output()
	if err != nil {
		return fmt.Errorf("pprof %s: %w", a.file, err)
	}
	if err := a.parse(string(out)); err != nil {
		return fmt.Errorf("%s: %w", a.file, err)
	}
	return nil
}

// parse reads what pprof -raw prints.
func (a *attach) parse(text string) (err error) {
	m := profileTime.FindStringSubmatch(text)
	if m == nil {
		return errors.New("no time")
	}
	if a.first, err = time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", m[1]); err != nil {
		return err
	}
	a.health = map[string]float64{}
	if m := healthLine.FindStringSubmatch(text); m != nil {
		for _, word := range strings.Split(m[1], ", ") {
			if f := figure.FindStringSubmatch(word); f != nil {
				a.health[f[1]], _ = strconv.ParseFloat(f[2], 64)
			}
		}
	}
	for _, name := range []string{ticksDue, ticksDone, heldMedian, heldP99, ownCPU, headersRead, captured} {
		if _, ok := a.health[name]; !ok {
			return fmt.Errorf("no health figure %q", name)
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
