package crowd

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Parked goroutines have as many frames as the table says.
func TestDepths(t *testing.T) {
	total := 0
	for _, d := range depths {
		total += d
	}
	if mean := float64(total) / float64(len(depths)); mean < 15 || mean > 16.5 {
		t.Errorf("%.2f frames on average", mean)
	}
	before := runtime.NumGoroutine()
	p := park(len(depths))
	defer close(p.c)
	if n := runtime.NumGoroutine() - before; n != len(depths) {
		t.Fatalf("%d goroutines", n)
	}
	records := make([]runtime.StackRecord, 100)
	n, _ := runtime.GoroutineProfile(records)
	seen := map[int]int{}
	for _, r := range records[:n] {
		frames := runtime.CallersFrames(r.Stack())
		count, parked := -1, false // runtime.goexit is none of its frames
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			count++
			parked = parked || strings.HasSuffix(f.Function, ".rest")
		}
		if parked {
			seen[count]++
		}
	}
	want := map[int]int{}
	for _, d := range depths {
		want[d]++
	}
	if !reflect.DeepEqual(seen, want) {
		t.Errorf("goroutines by number of frames: %v, not %v", seen, want)
	}
}

func TestHistogram(t *testing.T) {
	var h, old histogram
	if h.quantile(0.5) != 0 {
		t.Error("of nothing")
	}
	h.add(1 << 40)
	h.since(&old)
	for i := 0; i < 990; i++ {
		h.add(12000)
	}
	for i := 0; i < 10; i++ {
		h.add(1000000)
	}
	d := h.since(&old)
	for _, c := range []struct{ q, want float64 }{{0.5, 12}, {0.989, 12}, {0.995, 1000}, {1, 1000}} {
		if got := d.quantile(c.q); got > c.want || got < c.want*15/16 {
			t.Errorf("quantile %v: %v", c.q, got)
		}
	}
	for _, ns := range []uint64{0, 1, 15, 16, 17, 31, 32, 1 << 20, math.MaxUint64} {
		var one histogram
		one.add(ns)
		want := float64(ns)
		if ns < 16 { // no finer than that
			want = float64(ns | 16)
		}
		if got := one.quantile(1) * 1e3; got > want || got < want*0.93 {
			t.Errorf("%d ns: %v", ns, got)
		}
	}
}

func zipped(b ...byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	z.Close()
	return out.Bytes()
}

func TestProfileSamples(t *testing.T) {
	// Two samples, one packed {3, 9}, one not: 2, 8; between them a string and a number.
	n, err := profileSamples(zipped(0x12, 4, 0x12, 2, 3, 9, 0x32, 1, 'x', 0x48, 7, 0x12, 6, 0x08, 5, 0x10, 2, 0x10, 8))
	if err != nil || n != 5 {
		t.Errorf("%d %v", n, err)
	}
	for _, b := range [][]byte{{0x12, 9, 1}, {0x12}, {0x15, 1, 2, 3, 4}} {
		if _, err := profileSamples(zipped(b...)); err == nil {
			t.Errorf("%v is no error", b)
		}
	}
	if _, err := profileSamples([]byte("no")); err == nil {
		t.Error("what is not packed is no error")
	}
}

// burn waits until the process has used so much CPU time: on a busy machine that takes longer.
func burn(d time.Duration) {
	used := func() time.Duration {
		var r syscall.Rusage
		syscall.Getrusage(syscall.RUSAGE_SELF, &r)
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	for begun := used(); used() < begun+d; {
		time.Sleep(10 * time.Millisecond)
	}
}

// Each contender really samples, and again after it was switched off.
func TestContenders(t *testing.T) {
	l, err := startLoad("cpu", 1)
	if err != nil {
		t.Fatal(err)
	}
	c := &control{load: l, goroutines: 10}
	for _, name := range order {
		for i := 0; i < 2; i++ {
			if answer, err := c.switchOn(name); err != nil || answer != "OK" {
				t.Fatalf("%s: %s %v", name, answer, err)
			}
			if _, err := c.begin("100000000"); err != nil {
				t.Fatal(err)
			}
			burn(400 * time.Millisecond)
			if answer, err := c.end(""); err != nil || !strings.HasPrefix(answer, "WINDOW ns=") || strings.Contains(answer, "ops=0 ") {
				t.Errorf("%s: %s %v", name, answer, err)
			}
			if answer, err := c.switchOff(""); err != nil || strings.Contains(answer, "samples=0") {
				t.Errorf("%s: %s %v", name, answer, err)
			}
		}
		if answer, err := c.free(""); err != nil || answer != "OK" {
			t.Errorf("%s %v", answer, err)
		}
	}
}

func TestServe(t *testing.T) {
	in, send, _ := os.Pipe()
	receive, out, _ := os.Pipe()
	send.WriteString("list\nend x\nfoo\noff\non nothing\n")
	send.Close()
	c := &control{load: &load{}}
	c.serve(in, out)
	out.Close()
	var got bytes.Buffer
	got.ReadFrom(receive)
	lines := strings.Split(got.String(), "\n")
	for i, want := range []string{"LIST pprof CPU,GoroutineProfile,runtime.Stack", "WINDOW ns=", `ERROR no command "foo"`,
		"ERROR no contender is on", `ERROR no contender "nothing"`} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("%q, not %q", lines[i], want)
		}
	}
}

// Shows: what leaves a program next to nothing ends its window by itself, and what was done is that of the window.
func TestEndsByItself(t *testing.T) {
	const d = 50 * time.Millisecond
	held := &ticking{hz: 1000, prepare: func(*ticking, int) {}, sample: func(*ticking) { time.Sleep(20 * time.Millisecond) }}
	contenders["held"] = held
	defer delete(contenders, "held")
	l, err := startLoad("idle", 0)
	if err != nil {
		t.Fatal(err)
	}
	c := &control{load: l}
	for i := 0; i < 2; i++ {
		if _, err := c.switchOn("held"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.begin(strconv.FormatInt(d.Nanoseconds(), 10)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * d) // as if nobody could be told to stop
		text, err := c.end("")
		var ns, ops int64
		if _, scanErr := fmt.Sscanf(text, "WINDOW ns=%d ops=%d", &ns, &ops); err != nil || scanErr != nil {
			t.Fatal(text, err)
		}
		if got := time.Duration(ns); got < d || got > 6*d {
			t.Errorf("a window of %v", got)
		}
		off, err := c.switchOff("")
		var samples int64
		if _, scanErr := fmt.Sscanf(off, "OFF ns=%d samples=%d", &ns, &samples); err != nil || scanErr != nil {
			t.Fatal(off, err)
		}
		if samples < 1 || samples > 20 || time.Duration(ns) > 7*d {
			t.Errorf("%d samples in %v", samples, time.Duration(ns))
		}
	}
	if _, err := c.begin("soon"); err == nil {
		t.Error("a window without a length")
	}
}
