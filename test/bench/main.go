// Command bench measures what goprof costs: the program it looks at, and itself. test/bench/run builds what it needs and calls it.
//
// A row is one run of test/targets bench: a load (echo, cpu) and a number of parked goroutines. Windows with goprof alternate
// with windows without it on the same process, so that what differs between two processes or two minutes does not count
// (measure.go). The exit status is 1 when a row could not be measured or a figure cannot be true (plausible.go), else 0: a missed
// aim is marked in the table.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	rateHz = 101                    // goprof's default
	every  = 100 * time.Millisecond // between the target's lines
	edge   = every                  // left out at both ends of a window
	warmUp = time.Second
)

type settings struct {
	goprof, target, pprof string // programs
	rows                  string
	pairs, conns, nice    int
	window                time.Duration
	commit, version, load string
	results               string
	write, writeNoisy     bool
	begun                 time.Time
}

// rowTime is how long a row takes, about.
func (s *settings) rowTime() time.Duration {
	return time.Duration(2*s.pairs+1)*s.window + time.Duration(s.pairs)*s.window/20 + 2*warmUp
}

var rowName = regexp.MustCompile(`^(echo|cpu)-(\d+)$`)

func rowNamed(name string) (r row, err error) {
	m := rowName.FindStringSubmatch(name)
	if m == nil {
		return r, fmt.Errorf("no row %q: echo-N or cpu-N, or a pattern of the default rows", name)
	}
	n, err := strconv.Atoi(m[2])
	return row{name, m[1], n}, err
}

var defaultRows = []string{"echo-10", "echo-1000", "cpu-10", "cpu-1000"}

// chooseRows: names and patterns, separated by commas.
func chooseRows(list string) (v []row, err error) {
	var names []string
	for _, word := range strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == ' ' }) {
		found := false
		for _, name := range defaultRows {
			if ok, _ := path.Match(word, name); ok {
				names, found = append(names, name), true
			}
		}
		if !found {
			names = append(names, word)
		}
	}
	if names == nil {
		names = defaultRows
	}
	for _, name := range names {
		r, err := rowNamed(name)
		if err != nil {
			return nil, err
		}
		v = append(v, r)
	}
	return v, nil
}

func parseFlags() (*settings, []row, error) {
	s := &settings{begun: time.Now()}
	flag.StringVar(&s.goprof, "goprof", "build/goprof", "program to measure")
	flag.StringVar(&s.target, "target", "", "build of test/targets")
	flag.StringVar(&s.pprof, "pprof", "", "pprof, to open profiles")
	flag.StringVar(&s.rows, "rows", "", "rows: echo-N, cpu-N, or patterns of "+strings.Join(defaultRows, " "))
	flag.IntVar(&s.pairs, "pairs", 20, "pairs of windows (made even)")
	flag.DurationVar(&s.window, "window", 2*time.Second, "length of a window")
	flag.IntVar(&s.conns, "conns", 2, "connections of the echo load; 2 use about one core")
	flag.IntVar(&s.nice, "nice", 0, "priority of all that is measured, against other programs (-20: best)")
	flag.StringVar(&s.commit, "commit", "unknown", "goprof's commit, for the report")
	flag.StringVar(&s.results, "results", "RESULTS.md", "file for -write")
	flag.BoolVar(&s.write, "write", false, "write the results file too, unless the figures are noisy")
	flag.BoolVar(&s.writeNoisy, "write-noisy", false, "write it in any case")
	flag.Parse()
	s.pairs = (s.pairs + 1) / 2 * 2
	if s.nice < -20 || s.nice > 19 {
		return nil, nil, errors.New("-nice is -20 to 19")
	}
	if s.pairs < 2 || s.pairs > 1000 || s.window < time.Second || s.window > time.Minute || flag.NArg() > 0 {
		return nil, nil, errors.New("2 to 1000 pairs, windows of 1s to 1m, and no other words, please")
	}
	rows, err := chooseRows(s.rows)
	if err != nil {
		return nil, nil, err
	}
	out, err := exec.Command(s.goprof, "--version").Output()
	s.version = strings.TrimSpace(string(out))
	s.load = readFile("/proc/loadavg")
	return s, rows, err
}

// run gives the table; false when a row is missing or wrong.
func run(ctx context.Context, s *settings, rows []row) (columns []*figures, ok bool) {
	ok = true
	for _, r := range rows {
		if ctx.Err() != nil {
			return columns, false
		}
		fmt.Fprintf(os.Stderr, "bench: %s, %v\n", r.name, s.rowTime().Round(time.Second))
		m, err := measure(ctx, s, r)
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", r.name, err)
			ok = false
			continue
		}
		columns = append(columns, figuresOf(m, s))
	}
	return columns, ok
}

// writeResults keeps the report, if its figures are worth it.
func writeResults(s *settings, columns []*figures, text string) error {
	for _, f := range columns {
		for _, d := range doubtsOf(f, s) {
			if d.wrong || !s.writeNoisy {
				return fmt.Errorf("%s is not written: %s: %s", s.results, f.row.name, d.text)
			}
		}
	}
	return os.WriteFile(s.results, []byte("# Results of `make bench`\n\nWritten by `test/bench/run -write`.\n\n```\n"+text+"```\n"), 0o666)
}

func bench() error {
	s, rows, err := parseFlags()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	undo, err := setNice(s.nice)
	if err != nil {
		return err
	}
	defer undo()
	columns, ok := run(ctx, s, rows)
	if len(columns) == 0 {
		return errors.New("nothing was measured")
	}
	text := tableText(columns, s)
	fmt.Print(text)
	for _, f := range columns {
		for _, d := range doubtsOf(f, s) {
			ok = ok && !d.wrong
		}
	}
	if !ok {
		return errors.New("figures are missing or cannot be true")
	}
	if s.write || s.writeNoisy {
		return writeResults(s, columns, text)
	}
	return nil
}

const autogroup = "/proc/self/autogroup"

var groupNice = regexp.MustCompile(`nice (-?\d+)`)

// setNice gives us and our children a priority. Where the scheduler groups sessions, that of the session is what counts; it
// is put back by undo, as the user's shell may belong to it.
func setNice(nice int) (undo func(), err error) {
	undo = func() {}
	if nice == 0 {
		return undo, nil
	}
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, nice); err != nil { // of this thread; children inherit it
		return undo, fmt.Errorf("-nice %d: %w", nice, err)
	}
	before := groupNice.FindStringSubmatch(readFile(autogroup))
	if before == nil || readFile("/proc/sys/kernel/sched_autogroup_enabled") != "1" {
		return undo, nil
	}
	if err := os.WriteFile(autogroup, []byte(strconv.Itoa(nice)), 0); err != nil {
		return undo, fmt.Errorf("-nice %d: %w", nice, err)
	}
	return func() { os.WriteFile(autogroup, []byte(before[1]), 0) }, nil
}

// Children die with the thread that started them: all are started by the main one.
func init() { runtime.LockOSThread() }

func main() {
	if err := bench(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
