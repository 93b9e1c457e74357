package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// goprof is one run of it on the target: attached once, and suspended (SIGTSTP, as Ctrl-Z does it) for the windows without it.
// Suspended it holds nothing and does nothing. When it goes on it closes the window of its own that had begun at the last such
// time: so there is one envelope for each stretch in which it worked, with the health figures of that stretch.
type goprof struct {
	cmd      *exec.Cmd
	pid      int
	dir      string
	forked   time.Time
	stderr   strings.Builder
	stretch  int  // number of the stretch that is on, or was last
	working  bool // not suspended
	finished bool
}

const (
	leastSettle = 300 * time.Millisecond
	stopLimit   = 15 * time.Second // a window of a million goroutines takes seconds to write on a busy machine
)

func startGoprof(s *settings, pid int, dir string) (*goprof, error) {
	g := &goprof{dir: dir, stretch: 1, working: true}
	g.cmd = exec.Command(s.goprof, "attach", "-q", "--no-dsn", "-o", filepath.Join(dir, "all.pb.gz"),
		"-o", filepath.Join(dir, "%n.envelope"), strconv.Itoa(pid))
	// Nothing less ends it while it is suspended; and it does no harm.
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	g.cmd.Stderr = &g.stderr
	g.forked = time.Now()
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	g.pid = g.cmd.Process.Pid
	return g, nil
}

func envelopeFile(dir string, stretch int) string {
	return filepath.Join(dir, strconv.Itoa(stretch)+".envelope")
}

// until polls; what it waited for did not come: false.
func until(ctx context.Context, limit time.Duration, done func() bool) bool {
	for end := time.Now().Add(limit); !done(); {
		if time.Now().After(end) || !pause(ctx, time.Millisecond) {
			return done()
		}
	}
	return true
}

// suspend returns when it stands still and nobody holds a thread of the target.
func (g *goprof) suspend(ctx context.Context, target int) error {
	if err := g.cmd.Process.Signal(syscall.SIGTSTP); err != nil {
		return fmt.Errorf("goprof has ended: %w %s", err, strings.TrimSpace(g.stderr.String()))
	}
	if !until(ctx, stopLimit, func() bool { return isStopped(g.pid) }) {
		return errors.New("goprof does not stop on SIGTSTP")
	}
	if isTraced(target) {
		return errors.New("goprof was suspended while it held a thread of the target")
	}
	g.working = false
	return nil
}

// write is what goprof does at the end of a window.
type write struct {
	cpu, wall time.Duration
	anon      float64 // its RssAnon, KB: the most meanwhile
}

// resume returns when it has written the envelope of the stretch before and is back at its work. The write is all until
// the file was there; the least settle follows, in which caches fill again, and a whole round of all goroutines.
func (g *goprof) resume(ctx context.Context, settle time.Duration) (w write, err error) {
	began := time.Now()
	before, err := processCPU(g.pid)
	if err != nil {
		return w, err
	}
	if err := g.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return w, err
	}
	written := func() bool {
		w.anon = max(w.anon, statusKB(g.pid, "RssAnon"))
		_, err := os.Stat(envelopeFile(g.dir, g.stretch))
		return err == nil
	}
	if !until(ctx, stopLimit, written) {
		return w, fmt.Errorf("no %s within %v of SIGCONT", envelopeFile(g.dir, g.stretch), stopLimit)
	}
	after, err := processCPU(g.pid)
	if err != nil {
		return w, err
	}
	w.cpu, w.wall = after-before, time.Since(began)
	g.stretch++
	g.working = true
	if !pause(ctx, max(settle, leastSettle)) {
		return w, ctx.Err()
	}
	return w, nil
}

// finish detaches it and waits for its end. spent is its CPU time for that.
func (g *goprof) finish() (spent time.Duration, err error) {
	g.finished = true
	before, err := processCPU(g.pid)
	if err != nil {
		return 0, fmt.Errorf("goprof has ended: %w %s", err, strings.TrimSpace(g.stderr.String()))
	}
	g.cmd.Process.Signal(syscall.SIGINT)
	g.cmd.Process.Signal(syscall.SIGCONT)
	late := time.AfterFunc(answerLimit, func() { g.cmd.Process.Kill() })
	defer late.Stop()
	if err := g.cmd.Wait(); err != nil {
		return 0, fmt.Errorf("goprof attach: %w %s", err, strings.TrimSpace(g.stderr.String()))
	}
	all := g.cmd.ProcessState.UserTime() + g.cmd.ProcessState.SystemTime()
	return max(0, all-before), nil
}

// stop is for the ways out that are none of the measurement's.
func (g *goprof) stop() {
	if !g.finished {
		g.finish()
	}
}

// profile is what goprof wrote about one stretch.
type profile struct {
	first  time.Time          // its first tick
	health map[string]float64 // figures by name; ns for times
}

// envelopeLine is what of an envelope is read here: the transaction tells of the profile.
type envelopeLine struct {
	Start    float64 `json:"start_timestamp"` // s since 1970
	Contexts struct {
		Goprof struct{ Health map[string]float64 }
	}
}

// parseEnvelope: each line is a value of its own.
func parseEnvelope(data []byte) (*profile, error) {
	for _, text := range bytes.Split(data, []byte("\n")) {
		var line envelopeLine
		if json.Unmarshal(text, &line) != nil || line.Contexts.Goprof.Health == nil {
			continue
		}
		sec, frac := math.Modf(line.Start)
		p := &profile{time.Unix(int64(sec), int64(frac*1e9)), line.Contexts.Goprof.Health}
		for _, name := range healthNames {
			if _, ok := p.health[name]; !ok {
				return nil, fmt.Errorf("no health figure %q", name)
			}
		}
		return p, nil
	}
	return nil, errors.New("no health figures")
}

func openProfile(file string) (*profile, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p, err := parseEnvelope(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// The health figures that are used here, by the names that the envelope gives them.
const (
	ticksDue    = "ticks_due"
	ticksDone   = "ticks_done"
	ticksGated  = "ticks_left_out_as_idle"
	heldMedian  = "held_median_ns"
	heldP99     = "held_p99_ns"
	rank        = "tracer_rank__2_fifo__1_nice_"
	headersRead = "goroutine_headers_read"
	passes      = "passes_over_all_goroutines"
	putOff      = "stacks_put_off"
	captured    = "threads_captured"
)

var healthNames = []string{ticksDue, ticksDone, ticksGated, heldMedian, heldP99, rank, headersRead, passes, putOff,
	captured}
