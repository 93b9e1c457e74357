// Profiles: every run of goprof attach and goprof run goes through here.
package live

import (
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"example.org/goprof/live/envelope"
)

// recording is one run of `goprof attach` or `goprof run`, writing a pprof file and envelopes.
type recording struct {
	*process
	files string // directory
}

// A way to end that is not goprof's, for tests that kill it.
const killed = 128 + 9

// looksOf chooses where looks at threads come from in a test that does not choose by itself: half of them, always the same
// ones, by stops; the others as goprof likes best. With GOPROF_LOOKS in the environment all of them by that.
func looksOf(t testing.TB, words []string) []string {
	looks := os.Getenv("GOPROF_LOOKS")
	if looks == "" && crc32.ChecksumIEEE([]byte(t.Name()))%2 == 0 {
		looks = "ptrace"
	}
	if looks == "" || strings.Contains(strings.Join(words, " "), "--looks") {
		return nil
	}
	return []string{"--looks", looks}
}

// record starts goprof with outputs of our own. The words behind command are options, then PID or CMD.
func record(t testing.TB, options []option, command string, words ...string) *recording {
	t.Helper()
	files := t.TempDir()
	words = append(looksOf(t, words), words...)
	args := append([]string{command, "-o", filepath.Join(files, "p.pb.gz"), "-o", filepath.Join(files, "w%n.envelope")}, words...)
	return &recording{start(t, options, goprofPath, args...), files}
}

// attach profiles a running process for a time and checks what came of it.
func attach(t testing.TB, pid int, d time.Duration, options ...string) *recording {
	t.Helper()
	words := append([]string{"--duration", fmt.Sprintf("%dms", d.Milliseconds())}, options...)
	r := record(t, nil, "attach", append(words, fmt.Sprint(pid))...)
	if status := r.wait(d + 20*time.Second); status != 0 {
		t.Fatalf("goprof attach: status %d\n%s", status, tail(r.err()))
	}
	r.check()
	return r
}

// run profiles a program from its start to its end and checks what came of it.
func run(t testing.TB, limit time.Duration, words ...string) (*recording, int) {
	t.Helper()
	r := record(t, nil, "run", words...)
	status := r.wait(limit)
	r.check()
	return r, status
}

func (r *recording) glob(pattern string) []string {
	names, err := filepath.Glob(filepath.Join(r.files, pattern))
	if err != nil {
		r.t.Fatal(err)
	}
	sort.Strings(names)
	return names
}

// profile is the pprof file of the whole recording (the first one, if the program called exec).
func (r *recording) profile() *profile {
	r.t.Helper()
	path := filepath.Join(r.files, "p.pb.gz")
	if _, err := os.Stat(path); err != nil {
		r.t.Fatalf("%v: no profile: %v\n%s", r.Args, err, tail(r.err()))
	}
	return openProfile(r.t, path)
}

func (r *recording) envelopes() (v []*windowFile) {
	for _, path := range r.glob("*.envelope") {
		v = append(v, &windowFile{path, openWindow(r.t, path)})
	}
	return
}

type windowFile struct {
	path string
	*window
}

// check is for every recording of every test: what it wrote is acceptable and agrees with itself.
func (r *recording) check() {
	r.t.Helper()
	for _, path := range r.glob("*.envelope") {
		checkEnvelope(r.t, path)
	}
	for _, path := range r.glob("*.pb.gz") {
		checkFigures(r.t, openProfile(r.t, path))
	}
	for _, e := range r.envelopes() {
		checkTimes(r.t, e)
	}
	if left := r.glob("*.tmp*"); len(left) > 0 {
		r.t.Errorf("unfinished files: %v", left)
	}
}

func checkEnvelope(t testing.TB, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	problems := envelope.Check(data)
	for i, p := range problems {
		if i == 10 {
			t.Errorf("%s: and %d more", path, len(problems)-i)
			break
		}
		t.Errorf("%s: %v", path, p)
	}
}

// checkTimes: no thread has more time than the window, and none has a single sample (servers drop those).
func checkTimes(t testing.TB, e *windowFile) {
	t.Helper()
	samples := map[string]int{}
	for _, st := range e.times(t) {
		samples[st.thread]++
	}
	for thread, time := range e.threadTimes(t) {
		if samples[thread] < 2 {
			t.Errorf("%s: thread %s has one sample", e.path, thread)
		}
		if time > e.length()+tick {
			t.Errorf("%s: thread %s has %v in a window of %v", e.path, thread, time, e.length())
		}
	}
}

const tick = time.Second / 101

// The least CPU time in which the sum must be right to 5 %.
const enoughCPU = 500 * time.Millisecond

// checkFigures: the CPU time in the samples, that of the health figures and that of the process are the same.
func checkFigures(t testing.TB, p *profile) {
	t.Helper()
	process := p.figure(t, "CPU time of the process")
	accounted := p.figure(t, "CPU time accounted for")
	sum := float64(p.cpu(anySample))
	if process < float64(enoughCPU) {
		return
	}
	if off := 100 * math.Abs(accounted-process) / process; off > 5 {
		t.Errorf("CPU time accounted for is %.0f ms, of the process %.0f ms: %.1f %% apart", accounted/1e6, process/1e6, off)
	}
	if off := 100 * math.Abs(sum-process) / process; off > 5 {
		t.Errorf("CPU time of all samples is %.0f ms, of the process %.0f ms: %.1f %% apart", sum/1e6, process/1e6, off)
	}
	if wrong := p.figure(t, "call sites wrong"); wrong != 0 {
		t.Errorf("%.0f of %.0f call sites are wrong", wrong, p.figure(t, "call sites audited"))
	}
	for _, s := range p.samples {
		if s.cpu < 0 || s.wall < 0 || s.count < 0 {
			t.Errorf("a negative value: %+v", s)
		}
	}
}

// unbroken joins what goprof broke before column 80.
func unbroken(said string) string { return strings.ReplaceAll(said, "\n        ", " ") }

// quiet says that goprof printed nothing but what the child printed itself.
func withoutSummary(stderr string) string {
	at := strings.Index("\n"+stderr, "\ngoprof: ")
	if at < 0 {
		return stderr
	}
	return stderr[:at]
}
