// What threads of C must not notice: their waits are not broken, their signals and timers not lost (test/targets/cwaits).
package live

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// zero: these numbers of the last line of the kind are.
func zero(t *testing.T, text, line string, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if n := truth(t, text, line, key); n != 0 {
			t.Errorf("%s: %s is %.0f:\n%s", line, key, n, tail(text))
		}
	}
}

// Shows: waits of C code with a timeout are not broken by our stops, though these meet them all the time; nor are they
// healed where a signal has broken them: each of those arrives, with its value, and ends the wait.
func TestWaitsOfC(t *testing.T) {
	d := lasting(20*time.Second, 6*time.Second)
	for build, rate := range map[string]string{"1.26-cgo": "1000", "1.19-cgo": "101"} {
		build, rate := build, rate
		t.Run(build, func(t *testing.T) {
			t.Parallel()
			r, status := run(t, d+time.Minute, "--looks", "ptrace", "--rate", rate, target(build), "cwaits", "-waits", "-queued", "-dur", d.String())
			if status != 0 {
				t.Fatalf("status %d\n%s", status, tail(r.err()))
			}
			p, out := r.profile(), r.out()
			t.Logf("%.0f threads captured, %.0f late-blocked, %.0f waits restarted", p.figure(t, "threads captured"),
				p.figure(t, "late-blocked"), p.figure(t, "waits restarted"))
			zero(t, out, "TRUTH waits", "epoll_eintr", "recv_eintr", "timeouts", "failed")
			zero(t, out, "TRUTH queued", "wrong")
			sameTruth(t, out, "TRUTH queued", "sent", "handled", 1)
			if truth(t, out, "TRUTH waits", "rounds") < 1000 || truth(t, out, "TRUTH queued", "interrupted") < 100 {
				t.Errorf("it did next to nothing:\n%s", tail(out))
			}
			if p.figure(t, "waits restarted") < 1 {
				t.Error("no stop has met a wait: nothing shown")
			}
			for _, function := range []string{"in_epoll", "in_recv", "signalled"} {
				if p.wall(with(function)) == 0 {
					t.Errorf("no stop has met %s", function)
				}
			}
		})
	}
}

// sameTruth: both numbers of a line are there and equal, but for what was on its way when the line was made.
func sameTruth(t *testing.T, text, line, a, b string, slack float64) {
	t.Helper()
	x, y := truth(t, text, line, a), truth(t, text, line, b)
	if t.Logf("%s: %s %.0f, %s %.0f", line, a, x, b, y); x == 0 || y > x+slack || y < x-slack {
		t.Errorf("%s: %s is %.0f, %s %.0f:\n%s", line, a, x, b, y, tail(text))
	}
}

// Shows: no expiration of a POSIX timer (of real time; of CPU time by SIGPROF) and no SIGURG is lost, in threads that we
// stop all the time.
func TestTimersOfC(t *testing.T) {
	d := lasting(15*time.Second, 5*time.Second)
	each(t, inTurn(0, "1.26-cgo-sw", "1.19-cgo-sw"), true, func(t *testing.T, build string) {
		r, status := run(t, d+time.Minute, "--looks", "ptrace", "--rate", "1000", target(build), "cwaits", "-timer", "-sigurg", "-dur", d.String())
		if status != 0 {
			t.Fatalf("status %d\n%s", status, tail(r.err()))
		}
		out := r.out()
		sameTruth(t, out, "TRUTH timer", "due", "got", 1)
		sameTruth(t, out, "TRUTH cpu", "due", "got", 20)
		zero(t, out, "TRUTH sigurg", "lost")
		if n := truth(t, out, "TRUTH sigurg", "sent"); n < 100 {
			t.Errorf("%.0f SIGURG sent", n)
		}
		met := r.profile().figure(t, "signals handed on")
		if t.Logf("%.0f stops met a signal", met); met < 1 {
			t.Error("no stop has met a signal: nothing shown")
		}
	})
}

var profileTotal = regexp.MustCompile(`Total samples = ([\d.]+)(ms|s)\b`)

// Shows: a program that profiles itself by SIGPROF gets the samples that it would have got, and loses no signal that it
// waits for. (That not one SIGPROF is lost, TestTimersOfC counts.)
func TestOwnProfileOfTarget(t *testing.T) {
	d := lasting(12*time.Second, 4*time.Second)
	each(t, inTurn(0, eachVersion...), true, func(t *testing.T, build string) {
		file := filepath.Join(t.TempDir(), "own.pb.gz")
		// Its samples, as a part of its CPU time.
		part := func(words ...string) float64 {
			p := start(t, nil, words[0], append(words[1:], target(build), "signals", "-dur", d.String(), "-profile", file)...)
			if status := p.wait(d + time.Minute); status != 0 {
				t.Fatalf("status %d\n%s", status, tail(p.err()))
			}
			zero(t, p.out(), "TRUTH lost", "lost")
			text := goTool(t, "pprof", "-top", file)
			m := profileTotal.FindStringSubmatch(text)
			if m == nil {
				t.Fatalf("no total:\n%s", tail(text))
			}
			total, _ := time.ParseDuration(m[1] + m[2])
			cpu := truth(t, p.out(), "TRUTH lost", "cpu_ms")
			t.Logf("%v of samples, %.0f ms of CPU time, %.0f SIGALRM", total, cpu, truth(t, p.out(), "TRUTH lost", "alrm"))
			return float64(total.Milliseconds()) / cpu
		}
		alone := part("env")
		under := part(goprofPath, "run", "-q", "--rate", "1000", "-o", filepath.Join(t.TempDir(), "p.pb.gz"), "--")
		if t.Logf("%.3f alone, %.3f under goprof", alone, under); under < 0.85*alone || under > 1.15*alone {
			t.Errorf("its own samples are %.3f of its CPU time, without goprof %.3f", under, alone)
		}
	})
}

// Shows: a program that makes and ends threads as fast as it can comes to no harm, whatever of them a stop meets.
func TestThreadStorm(t *testing.T) {
	d := lasting(15*time.Second, 4*time.Second)
	each(t, inTurn(1, eachVersion...), true, func(t *testing.T, build string) {
		r, status := run(t, d+time.Minute, target(build), "threads", "-storm", "-dur", d.String())
		if status != 0 {
			t.Fatalf("status %d\n%s", status, tail(r.err()))
		}
		zero(t, r.out(), "TRUTH storm", "bad")
		made, p := truth(t, r.out(), "TRUTH storm", "made"), r.profile()
		t.Logf("%.0f threads in %v; %.0f captured, %v of CPU time in ended threads", made, d, p.figure(t, "threads captured"),
			time.Duration(p.figure(t, "CPU time of ended threads")))
		if made < 500 || p.figure(t, "threads captured") < 10 {
			t.Errorf("%.0f threads made, %.0f captured: nothing shown", made, p.figure(t, "threads captured"))
		}
		p2 := startTarget(t, build, "threads", "-storm", "-dur", (d + 5*time.Second).String())
		for i := 0; i < 5; i++ {
			attach(t, p2.pid, d/5, "--rate", fmt.Sprint([]int{101, 1000}[i%2]))
			dump(t, p2.pid)
		}
		eventually(t, 2*time.Second, "nothing is left", func() bool { return p2.ended() || untouched(p2.pid) == "" })
		if status := p2.wait(time.Minute); status != 0 || !strings.Contains(p2.out(), " bad=0") {
			t.Errorf("status %d\n%s", status, tail(p2.out()))
		}
	})
}
