// What has no end must not cost memory without end: labels that never come again, and outputs that take nothing. What is
// given up for that is told, and the rest is right.
package live

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"
)

const requestsPkg = pkg + "requests."

// How much goprof may hold, in kB: windows and their tables (24 MB each, when full) in the making, at the consumer and
// waiting for it, and what is on its way to outputs. Measured are 65 MB with free outputs and 160 MB with stuck ones.
const (
	mostOfLabels = 120 << 10
	mostOfStuck  = 320 << 10
)

// Shows: of a program that gives each request labels of its own, for longer than tables are kept, goprof does not hold
// more and more; windows become shorter; all of the time is there, each place has its part of it, and it is said how many
// label sets were merged.
func TestLabelsWithoutEnd(t *testing.T) {
	const n = 1000
	d := lasting(75*time.Second, 20*time.Second)
	each(t, inTurn(1, eachVersion...), false, func(t *testing.T, build string) {
		p := startTarget(t, build, "requests", "-n", fmt.Sprint(n), "-digits", "300", "-dur", (d + 5*time.Second).String())
		r := record(t, nil, "attach", "--duration", d.String(), fmt.Sprint(p.pid))
		// The first two windows and their consumer show what it needs; what comes later needs no more.
		var early, most int
		for begin := time.Now(); !r.ended(); time.Sleep(10 * time.Millisecond) {
			var kb int
			if fmt.Sscanf(field(r.pid, "", "VmHWM"), "%d kB", &kb); kb > most {
				most = kb
			}
			if time.Since(begin) < d*2/3 {
				early = most
			}
		}
		if status := r.wait(time.Minute); status != 0 {
			t.Fatalf("status %d\n%s", status, tail(r.err()))
		}
		r.check()
		p.wait(time.Minute)
		prof := r.profile()
		merged, anew := prof.figure(t, "rare label sets merged"), prof.figure(t, "times tables were begun anew")
		t.Logf("%d kB, %d kB in the first two thirds; %d windows, tables begun anew %.0f times, %.0f label sets merged", most, early,
			len(r.envelopes()), anew, merged)
		if most > mostOfLabels || most > early+early/4 {
			t.Errorf("goprof held %d kB, %d kB in the first two thirds", most, early)
		}
		if anew < 1 || merged < 1000 || len(r.envelopes()) < 2 {
			t.Errorf("%d windows, tables begun anew %.0f times, %.0f label sets merged: nothing shown", len(r.envelopes()), anew, merged)
		}
		if said := unbroken(r.err()); !strings.Contains(strings.Join(strings.Fields(said), " "), "rare label sets merged") {
			t.Errorf("not said:\n%s", r.err())
		}

		// All of them are there all the time: their sum is no matter of chance.
		if all, want := prof.wall(with(requestsPkg+"serve")), n*d; all < want*98/100 || all > want*101/100 {
			t.Errorf("%v in requests.serve, want %v", all, want)
		}
		// Whoever is in one place for 50 ms is there at five ticks; sigma is far less than a point.
		brief, long := float64(prof.wall(with(requestsPkg+"brief"))), float64(prof.wall(with(requestsPkg+"long")))
		got, want := 100*brief/(brief+long), truth(t, p.out(), "requests=", "brief")
		if t.Logf("brief %.2f %%, truth %.2f %%", got, want); math.Abs(got-want) > 3 {
			t.Errorf("brief has %.2f %% of the wall time, truth is %.2f %%", got, want)
		}
		labelled, wrong := 0, 0
		for i := range prof.samples {
			s := &prof.samples[i]
			if !strings.Contains(s.labels, "request:[") {
				continue
			}
			labelled++
			// Between the new labels and the call, or its end and the next labels, is a moment.
			if s.has(requestsPkg+"brief") && !strings.Contains(s.labels, "route:[/brief]") ||
				s.has(requestsPkg+"long") && !strings.Contains(s.labels, "route:[/long]") {
				wrong++
			}
		}
		if t.Logf("%d stacks have kept their labels, %d those of another place", labelled, wrong); labelled < 100 || labelled > 60000 || wrong > labelled/100 {
			t.Errorf("%d stacks have kept their labels, %d those of another place", labelled, wrong)
		}
	})
}

// Shows: behind an output that takes nothing (a pipe that nobody reads) no more is kept than there may be. Then windows are
// lost, and it is said how many and of how long; that time is in no figure, and all other time is as it should be; once
// the pipe is read everything else is written, whole.
func TestWindowsLost(t *testing.T) {
	const n = 1000
	p := startTarget(t, "1.26-sw", "requests", "-n", fmt.Sprint(n), "-digits", "2000")
	stuck := filepath.Join(t.TempDir(), "stuck.envelope")
	if err := syscall.Mkfifo(stuck, 0o600); err != nil {
		t.Fatal(err)
	}
	r := record(t, nil, "attach", "-v", "-o", stuck, "-o", filepath.Join(t.TempDir(), "other%n.envelope"), fmt.Sprint(p.pid))
	losses := func() int { return strings.Count(r.err(), " is lost: ") }
	eventually(t, 4*time.Minute, "three windows are lost", func() bool {
		if r.ended() {
			t.Fatalf("it has ended\n%s", tail(r.err()))
		}
		return losses() >= 3
	})
	most := kilobytes(t, r.pid, "VmHWM")
	if why := untouched(p.pid); strings.Contains(why, "state") {
		t.Error(why)
	}
	// Someone reads: from now on nothing is lost any more.
	pipe, err := os.OpenFile(stuck, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan []byte)
	go func() {
		data, _ := io.ReadAll(pipe)
		read <- data
	}()
	first := <-read
	lost := losses()
	time.Sleep(4 * time.Second)
	r.signal(syscall.SIGINT)
	if status := r.wait(time.Minute); status != 73 {
		t.Errorf("status %d, want 73\n%s", status, tail(r.err()))
	}
	if now := losses(); now > lost+1 { // one may have been on its way
		t.Errorf("%d windows were lost when the pipe was read, %d at the end", lost, now)
	}
	lost = losses()
	r.check()

	prof, windows := r.profile(), r.envelopes()
	figure, lostTime := prof.figure(t, "windows lost"), time.Duration(prof.figure(t, "time of lost windows"))
	if int(figure) != lost || lostTime <= 0 {
		t.Errorf("%d windows are lost, %.0f of %v in the profile", lost, figure, lostTime)
	}
	said := strings.Join(strings.Fields(r.err()), " ")
	all := lost + len(windows) + strings.Count(said, "note no envelope for 1 window:") // the last one may be very short
	for _, want := range []string{fmt.Sprintf("goprof: %d of %d windows are lost: ", lost, all), fmt.Sprintf(" %d windows of ", lost)} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, tail(r.err()))
		}
	}
	sort.Slice(windows, func(i, k int) bool { return windows[i].transaction.Start.Before(windows[k].transaction.Start.Time) })
	// Windows follow one another; what is between two of them is what was lost.
	var told, between time.Duration
	for i, e := range windows {
		if told += e.length(); i > 0 {
			between += e.transaction.Start.Sub(windows[i-1].transaction.End.Time)
		}
	}
	t.Logf("%d windows of %v, %d lost of %v, %v between those told; %d kB", len(windows), told, lost, lostTime, between, most)
	if off := between - lostTime; off < -time.Millisecond || off > time.Duration(len(windows))*2*tick {
		t.Errorf("%v are missing between the windows, %v are said to be lost", between, lostTime)
	}
	// A last window of a single look has no envelope, but stands in the profile.
	if wall, want := prof.wall(with(requestsPkg+"serve")), n*told; wall < want*95/100 || wall > want*103/100 {
		t.Errorf("%v in requests.serve, want %v", wall, want)
	}
	if most > mostOfStuck {
		t.Errorf("goprof held %d kB", most)
	}
	// What came through the pipe is the first window, as in the file beside it.
	if beside, err := os.ReadFile(windows[0].path); err != nil || string(beside) != string(first) {
		t.Errorf("%d bytes came through the pipe, the file has %d: %v", len(first), len(beside), err)
	}
}
