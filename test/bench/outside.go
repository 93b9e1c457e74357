package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// --- perf ---

type perf struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	since  time.Time
}

var perfCaptured = regexp.MustCompile(`\((\d+) samples\)`)

func perfHere() usable {
	return usableIf("perf record -F 101 -g", &perf{}, "perf", "--version")
}

// usableIf the program is there and says its version.
func usableIf(name string, p profiler, words ...string) usable {
	u := usable{name: name}
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		u.reason = "not installed"
	case err != nil:
		u.reason = "not usable here: " + oneLine(out, err)
	default:
		u.profiler = p
	}
	return u
}

// oneLine is what a program said, in short, or what became of it.
func oneLine(out []byte, err error) string {
	var lines []string
	for _, line := range strings.Split(string(out), "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "[ perf record: Woken") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return fmt.Sprint(err)
	}
	return strings.Join(lines[:min(2, len(lines))], " ")
}

func (p *perf) on(ctx context.Context, b *bench) (int, error) {
	p.stderr.Reset()
	p.cmd = exec.CommandContext(ctx, "perf", "record", "-F", strconv.Itoa(rateHz), "-g", "-o", filepath.Join(b.dir, "perf.data"),
		"-p", strconv.Itoa(b.t.pid))
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT}
	p.cmd.Stderr = &p.stderr
	p.since = time.Now()
	if err := p.cmd.Start(); err != nil {
		return 0, err
	}
	pause(ctx, 2*leastSettle)
	return p.cmd.Process.Pid, nil
}

func (p *perf) off(ctx context.Context, b *bench) (samples, error) {
	v := samples{note: "goroutines on a CPU only, as threads"}
	p.cmd.Process.Signal(syscall.SIGINT)
	v.seconds = time.Since(p.since).Seconds()
	err := p.cmd.Wait()
	os.Remove(filepath.Join(b.dir, "perf.data"))
	if m := perfCaptured.FindSubmatch(p.stderr.Bytes()); m != nil {
		v.n, _ = strconv.ParseFloat(string(m[1]), 64)
	} else if !bytes.Contains(p.stderr.Bytes(), []byte("perf record: Captured")) { // of nothing it gives no number
		return v, fmt.Errorf("not usable here: %s", oneLine(p.stderr.Bytes(), err))
	}
	return v, nil
}

// --- delve ---

// delve attaches, lists all goroutines with their stacks, and goes: as often as a window allows.
type delve struct {
	stop, done chan struct{}
	n          int
	since      time.Time
	err        error
}

func delveHere() usable {
	return usableIf("delve, goroutines -t", &delve{}, "dlv", "version")
}

const delveLimit = 20 * time.Second

// once is one look. Killed in the middle of it, the kernel lets the target go.
func (d *delve) once(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, delveLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "dlv", "attach", strconv.Itoa(pid), "--allow-non-terminal-interactive=true")
	cmd.Stdin = strings.NewReader("goroutines -t\nquit\nn\n")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("not done within %v", delveLimit)
	case err != nil || !strings.Contains(out.String(), " goroutines]"):
		return fmt.Errorf("not usable here: %s", oneLine(out.Bytes(), fmt.Errorf("no goroutines listed: %v", err)))
	}
	return nil
}

func (d *delve) on(ctx context.Context, b *bench) (int, error) {
	*d = delve{stop: make(chan struct{}), done: make(chan struct{}), since: time.Now()}
	pid := b.t.pid
	go func() {
		defer close(d.done)
		for d.err == nil {
			if d.err = d.once(ctx, pid); d.err == nil {
				d.n++
			}
			select {
			case <-d.stop:
				return
			default:
			}
		}
	}()
	return 0, nil
}

func (d *delve) off(ctx context.Context, b *bench) (samples, error) {
	close(d.stop)
	<-d.done
	return samples{seconds: time.Since(d.since).Seconds(), n: float64(d.n), note: "the target stands still meanwhile"}, d.err
}
