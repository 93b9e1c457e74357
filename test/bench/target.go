package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// target is the program that is looked at: package crowd says what its lines mean.
type target struct {
	cmd       *exec.Cmd
	pid       int
	goVersion string
	in        io.WriteCloser
	out       *bufio.Reader
	stderr    strings.Builder
	ended     chan struct{}
	stopOnce  sync.Once
	starved   atomic.Bool // killed, because the machine had hardly any memory left
}

var ready = regexp.MustCompile(`^READY pid=(\d+) go=(\S+)`)

// startLimit is for a million goroutines on a busy machine.
const startLimit = 90 * time.Second

// startTarget starts it and waits until its goroutines are parked. It ends with us, and with ctx.
// The caller is on the main thread, which lives as long as we do: Pdeathsig looks at threads.
func startTarget(ctx context.Context, s *settings, r row) (*target, error) {
	t := &target{ended: make(chan struct{})}
	t.cmd = exec.CommandContext(ctx, s.target, "-load", r.load, "-n", strconv.Itoa(r.n), "-count", strconv.Itoa(s.count(r)))
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	t.cmd.Stderr = &t.stderr
	out, err := t.cmd.StdoutPipe()
	if err == nil {
		t.in, err = t.cmd.StdinPipe()
	}
	if err == nil {
		err = t.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	t.pid, t.out = t.cmd.Process.Pid, bufio.NewReader(out)
	go t.guard()
	line := ""
	for !strings.HasPrefix(line, "READY") && err == nil {
		line, err = t.line(startLimit)
	}
	m := ready.FindStringSubmatch(line)
	if m == nil {
		t.stop()
		return nil, fmt.Errorf("the target did not come up: %v %s", err, strings.TrimSpace(t.stderr.String()))
	}
	t.goVersion = m[2]
	return t, nil
}

// guard kills it before the machine runs out of memory: some contenders take very much for a million goroutines.
func (t *target) guard() {
	const leastAvailable = 0.10
	for {
		select {
		case <-t.ended:
			return
		case <-time.After(100 * time.Millisecond):
		}
		if memoryAvailable() < leastAvailable {
			t.starved.Store(true)
			t.cmd.Process.Kill()
			return
		}
	}
}

// line waits for the next one. A target that says nothing for so long is killed: what it does then cannot be measured.
func (t *target) line(limit time.Duration) (string, error) {
	late := time.AfterFunc(limit, func() { t.cmd.Process.Kill() })
	line, err := t.out.ReadString('\n')
	if !late.Stop() {
		return "", fmt.Errorf("no answer of the target within %v", limit)
	}
	if t.starved.Load() {
		return "", errors.New("needed more memory than this machine has")
	}
	if err != nil {
		return "", fmt.Errorf("the target has ended: %w", err)
	}
	return strings.TrimSpace(line), nil
}

// ask sends a command and gives what stands behind the first word of its answer.
func (t *target) ask(limit time.Duration, command, want string) (string, error) {
	if _, err := fmt.Fprintln(t.in, command); err != nil {
		return "", fmt.Errorf("the target has ended: %w", err)
	}
	line, err := t.line(limit)
	if err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	word, rest, _ := strings.Cut(line, " ")
	if word != want {
		return "", fmt.Errorf("%s: %s", command, line)
	}
	return rest, nil
}

// speed is what the target did in a window, by its own clock.
type speed struct {
	seconds  float64
	ops      float64
	p50, p99 float64 // us; echo only
}

func parseSpeed(text string) (v speed, err error) {
	var ns, ops int64
	if _, err = fmt.Sscanf(text, "ns=%d ops=%d p50_us=%f p99_us=%f", &ns, &ops, &v.p50, &v.p99); err != nil {
		return v, fmt.Errorf("%q: %w", text, err)
	}
	v.seconds, v.ops = float64(ns)/1e9, float64(ops)
	return v, nil
}

// samples is what a contender within the target obtained.
type samples struct {
	seconds float64
	n       float64
	note    string
}

func parseSamples(text string) (v samples, err error) {
	var ns, n int64
	if _, err = fmt.Sscanf(text, "ns=%d samples=%d", &ns, &n); err != nil {
		return v, fmt.Errorf("%q: %w", text, err)
	}
	_, v.note, _ = strings.Cut(text, "note=")
	v.seconds, v.n = float64(ns)/1e9, float64(n)
	return v, nil
}

const answerLimit = 20 * time.Second

func (t *target) begin(window time.Duration) error {
	_, err := t.ask(answerLimit, fmt.Sprintf("begin %d", window.Nanoseconds()), "OK")
	return err
}

// end may wait for a contender's first sample.
func (t *target) end(limit time.Duration) (speed, error) {
	text, err := t.ask(limit, "end", "WINDOW")
	if err != nil {
		return speed{}, err
	}
	return parseSpeed(text)
}

func (t *target) cpu() (time.Duration, error) { return processCPU(t.pid) }

func (t *target) stop() {
	t.stopOnce.Do(func() {
		close(t.ended)
		t.cmd.Process.Kill()
		t.cmd.Wait()
	})
}
