// Command bench measures what goprof costs, the program it looks at and itself, and other profilers beside it. test/bench/run
// builds what it needs and calls it; the text of table.go says how it measures.
//
// The exit status is 1 when a row could not be measured or a figure cannot be true (plausible.go), else 0: verdicts stand in
// the table.
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
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	rateHz = 101 // goprof's default
	warmUp = time.Second
)

type settings struct {
	goprof, target                     string // programs
	rows                               string
	pairs, conns, nice                 int
	windowTime, peerWindow, firstVisit time.Duration
	rowTime                            time.Duration
	commit, version                    string
	records, results                   string // folder and file
	without                            string // why the target has no sentry-go and fgprof
	render                             bool
}

// count of what the row's load counts; 0: as many as cores.
func (s *settings) count(r row) int {
	if r.load == "echo" {
		return s.conns
	}
	return 0
}

var (
	rowName  = regexp.MustCompile(`^([1-9]\d{0,6})(k|M|)-(cpu|echo|idle)$`)
	suffixes = map[string]int{"": 1, "k": 1000, "M": 1000000}
)

const (
	mostGoroutines = 4000000
	stormParked    = 10
)

func rowNamed(name string) (r row, err error) {
	if name == "threads" {
		return row{name, name, stormParked}, nil
	}
	m := rowName.FindStringSubmatch(name)
	if m == nil {
		return r, fmt.Errorf("no row %q: N-cpu, N-echo, N-idle with N as 10, 1k or 1M; threads; or a pattern of the default rows",
			name)
	}
	n, err := strconv.Atoi(m[1])
	if n *= suffixes[m[2]]; n > mostGoroutines {
		return r, fmt.Errorf("row %s: at most %d goroutines", name, mostGoroutines)
	}
	return row{name, m[3], n}, err
}

func defaultRows() (v []string) {
	for _, n := range []string{"10", "1k", "10k", "100k", "1M"} {
		for _, load := range []string{"idle", "echo", "cpu"} {
			v = append(v, n+"-"+load)
		}
	}
	return append(v, "threads")
}

// chooseRows: names and patterns, separated by commas.
func chooseRows(list string) (v []row, err error) {
	var names []string
	for _, word := range strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == ' ' }) {
		found := false
		for _, name := range defaultRows() {
			if ok, _ := path.Match(word, name); ok {
				names, found = append(names, name), true
			}
		}
		if !found {
			names = append(names, word)
		}
	}
	if names == nil {
		names = defaultRows()
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
	s := &settings{}
	flag.StringVar(&s.goprof, "goprof", "build/goprof", "program to measure")
	flag.StringVar(&s.target, "target", "", "build of test/bench/target or test/bench/peers")
	flag.StringVar(&s.rows, "rows", "", "rows, or patterns of "+strings.Join(defaultRows(), " "))
	flag.IntVar(&s.pairs, "pairs", 20, "pairs of windows, at least (made even)")
	flag.DurationVar(&s.windowTime, "window", 2*time.Second, "length of a window")
	flag.DurationVar(&s.peerWindow, "peer-window", 2*time.Second, "length of another profiler's window")
	flag.DurationVar(&s.firstVisit, "first", 10*time.Second, "length of goprof's first visit")
	flag.DurationVar(&s.rowTime, "row-time", 330*time.Second, "a row takes no further pairs beyond this")
	flag.IntVar(&s.conns, "conns", 2, "connections of the echo load; 2 use about one core")
	flag.IntVar(&s.nice, "nice", 0, "priority of all that is measured, against other programs (-20: best)")
	flag.StringVar(&s.commit, "commit", "unknown", "goprof's commit, for the table")
	flag.StringVar(&s.records, "records", "results", "folder for a record of each row")
	flag.StringVar(&s.results, "results", "RESULTS.md", "the table")
	flag.StringVar(&s.without, "without", "", "why the target is built without sentry-go and fgprof, for the table")
	flag.BoolVar(&s.render, "render", false, "only make the table anew from the records")
	flag.Parse()
	s.pairs = (s.pairs + 1) / 2 * 2
	switch {
	case flag.NArg() > 0:
		return nil, nil, fmt.Errorf("what is %q? Rows are named by -rows", flag.Arg(0))
	case s.nice < -20 || s.nice > 19:
		return nil, nil, errors.New("-nice is -20 to 19")
	case s.pairs < 2 || s.pairs > 1000:
		return nil, nil, errors.New("-pairs is 2 to 1000")
	case s.windowTime < time.Second/2 || s.windowTime > 10*time.Second: // a stretch of two must end before goprof's own window
		return nil, nil, errors.New("-window is 0.5s to 10s")
	case s.peerWindow < time.Second || s.peerWindow > 20*time.Second: // sentry-go profiles for 30 s
		return nil, nil, errors.New("-peer-window is 1s to 20s")
	case s.firstVisit < time.Second || s.firstVisit > 25*time.Second:
		return nil, nil, errors.New("-first is 1s to 25s")
	}
	rows, err := chooseRows(s.rows)
	return s, rows, err
}

// run measures rows, one after the other, and keeps each as soon as it is there; false when one is missing or wrong.
// checkFigures fails before the first row, not after it, where goprof has no such figures.
func checkFigures(s *settings) error {
	dir, err := os.MkdirTemp("", "goprof-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "check.envelope")
	cmd := exec.Command(s.goprof, "run", "-q", "--no-dsn", "-o", file, s.target, "-n", "10")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond)
	in.Close() // at the end of its input the target ends
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("goprof run: %v", err)
	}
	data, err := os.ReadFile(file)
	if err == nil {
		_, err = parseEnvelope(data)
	}
	return err
}

func run(ctx context.Context, s *settings, rows []row) (ok bool) {
	if err := checkFigures(s); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		return false
	}
	ok = true
	for _, r := range rows {
		if ctx.Err() != nil {
			return false
		}
		fmt.Fprintf(os.Stderr, "bench: %s, at most %v\n", r.name, s.rowTime)
		if err := runRow(ctx, s, r); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", r.name, err)
			ok = false
		}
	}
	return ok
}

func runRow(ctx context.Context, s *settings, r row) error {
	begun := time.Now()
	m, err := measure(ctx, s, r)
	if err != nil {
		return err
	}
	kept := recordOf(m, s)
	kept.Date, kept.Seconds = begun.UTC().Format("2006-01-02 15:04 UTC"), time.Since(begun).Seconds()
	fmt.Print(rowText(kept), gatesTable([]*record{kept}), "\n")
	for _, d := range kept.Doubts {
		if d.Wrong {
			return fmt.Errorf("is not kept: %s", d.Text)
		}
	}
	if err := saveRecord(s.records, kept); err != nil {
		return err
	}
	return publish(s.records, s.results)
}

func work() error {
	s, rows, err := parseFlags()
	if err != nil {
		return err
	}
	if s.render {
		return publish(s.records, s.results)
	}
	out, err := exec.Command(s.goprof, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s --version: %w", s.goprof, err)
	}
	s.version = strings.TrimSpace(string(out))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	undo, err := setNice(s.nice)
	if err != nil {
		return err
	}
	defer undo()
	if !run(ctx, s, rows) {
		return errors.New("rows are missing, or have figures that cannot be true")
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
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
