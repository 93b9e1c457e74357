// Shares of CPU time against the targets' own thread clocks. These tests run alone: a share needs looks, and looks are
// valid only where the target, the sampler and the test do not fight for two cores.
package live

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

const pkg = "example.org/goprof/targets/"

const (
	lookLine  = "valid on-CPU looks"
	movedLine = "looks at threads that went on"
)

// Shows: a known split of CPU time, in every build. Points of tolerance follow the number of looks (one sigma of a 50 %
// share: 1.6 points at 1,000 looks, 0.6 at 8,000, for which there is TestSplits). On a busy machine looks do not weigh the
// same, and sigma is half as much again: then 7 points are 3 sigma, of some fifty shares in a full run. So what is further
// off is measured until there are three times as many looks, with which they are 5.
func TestBusySplit(t *testing.T) {
	builds := allBuilds
	if testing.Short() {
		builds = eachVersion
	}
	each(t, builds, false, func(t *testing.T, build string) {
		looks, points := 1000.0, 7.0
		p := startTarget(t, build, "busy", "-n", "2", "-dur", "5m")
		defer p.quit()
		names := []string{pkg + "busy.alpha", pkg + "busy.beta", pkg + "busy.gamma"}
		cpu, seen, stacks, whole := make([]float64, len(names)), 0.0, 0.0, 0.0
		begin := time.Now()
		want := []float64{50, 30, 20}
		for i := 0; seen < looks; i++ {
			// Two free cores give about 150 a second. A tenth of that is the least we live with.
			if time.Since(begin) > time.Duration(looks/15)*time.Second {
				t.Fatalf("%.0f valid looks after %v, want %.0f: is the machine busy?", seen, time.Since(begin), looks)
			}
			d := 6 * time.Second
			if need := (looks - seen) / 150; need < 5 && i > 0 {
				d = time.Duration(need*1000+1000) * time.Millisecond
			}
			r := attach(t, p.pid, d)
			checkWholeWindow(t, r, "busy.work", 2)
			prof := r.profile()
			seen += prof.figure(t, lookLine)
			share, sum := prof.shares(names...)
			for k := range share {
				cpu[k] += share[k] / 100 * float64(sum)
			}
			stacks += prof.figure(t, "on-CPU stacks") // of all together: the last time may be short
			whole += prof.figure(t, "complete on-CPU stacks")
			checkAudits(t, prof)
			checkCallers(t, prof)
			if off := mostOff(cpu, want); seen >= looks && looks == 1000 && off > points {
				t.Logf("%.1f points off at %.0f looks: more", off, seen)
				looks = 3000
			}
		}
		checkCompleteCounts(t, stacks, whole)
		compareShares(t, names, cpu, want, points, seen)
		if why := untouched(p.pid); why != "" {
			t.Error(why)
		}
	})
}

func compareShares(t testing.TB, names []string, cpu, want []float64, points, looks float64) {
	t.Helper()
	sum := 0.0
	for _, v := range cpu {
		sum += v
	}
	for i, name := range names {
		got := 100 * cpu[i] / sum
		t.Logf("%s: %.1f %%, truth %.1f %% (%.0f looks)", name, got, want[i], looks)
		if !(math.Abs(got-want[i]) <= points) {
			t.Errorf("%s has %.1f %% of the time, truth is %.1f %%, tolerance %.0f points at %.0f looks", name, got, want[i], points, looks)
		}
	}
}

// checkCallers: spin is called by alpha, beta or gamma below work, and nothing else.
func checkCallers(t testing.TB, p *profile) {
	t.Helper()
	astray := p.cpu(func(s *sample) bool {
		at := s.index(pkg + "busy.spin")
		if at < 0 {
			return false
		}
		return at+2 >= len(s.stack) || s.stack[at+2] != pkg+"busy.work"
	})
	if all := p.cpu(with(pkg + "busy.spin")); all == 0 || astray > all/100 {
		t.Errorf("%v of %v in busy.spin have other callers than busy.work", astray, all)
	}
}

// unseen is what may be missing of the time of a goroutine at the ends of a window: two ticks, and those that were not
// done because the machine was busy.
func (r *recording) unseen() time.Duration {
	p := r.profile()
	return tick * time.Duration(2+p.figure(r.t, "ticks due")-p.figure(r.t, "ticks done"))
}

// checkWholeWindow: goroutines that live all the time have the time of the window.
func checkWholeWindow(t testing.TB, r *recording, function string, n int) {
	t.Helper()
	most := r.unseen()
	if len(r.envelopes()) == 0 {
		t.Errorf("no envelope written")
	}
	for _, e := range r.envelopes() {
		times := e.threadTimes(t)
		ids := e.threadsWith(t, pkg+function)
		if len(ids) != n {
			t.Errorf("%d goroutines in %s, want %d: %v", len(ids), function, n, ids)
		}
		for _, id := range append(ids, "1") {
			if off := e.length() - times[id]; off < -2*tick || off > most {
				t.Errorf("goroutine %s has %v in a window of %v, although it existed all the time; %v allowed", id, times[id], e.length(), most)
			}
		}
	}
}

// compareCPU: all samples together are the CPU time that the process itself measured, to 5 %; and hardly any of it is
// without a stack (with [unseen] and [ended threads] any sum could be made to fit).
func compareCPU(t testing.TB, p *profile, ms float64) {
	t.Helper()
	got := p.cpu(anySample).Seconds() * 1e3
	if ms < 1e3*enoughCPU.Seconds() {
		return
	}
	if off := 100 * math.Abs(got-ms) / ms; off > 5 {
		t.Errorf("the samples hold %.0f ms of CPU time, the process measured %.0f ms itself: %.1f %% apart", got, ms, off)
	}
	bare := p.cpu(func(s *sample) bool { return s.has("[unseen]") || s.has("[ended threads]") }).Seconds() * 1e3
	if bare > 0.1*got {
		t.Errorf("%.0f of %.0f ms of CPU time have no stack", bare, got)
	}
}

// checkComplete: of the stacks that were on a CPU, 99 % reach their root, and no return address is wrong. Where there
// are few, three sigma are added for chance.
func checkComplete(t testing.TB, p *profile) {
	t.Helper()
	checkCompleteCounts(t, p.figure(t, "on-CPU stacks"), p.figure(t, "complete on-CPU stacks"))
	checkAudits(t, p)
}

func checkCompleteCounts(t testing.TB, all, whole float64) {
	t.Helper()
	least := 0.99 * all
	if all < 1000 {
		least -= 3 * math.Sqrt(all*0.99*0.01)
	}
	if all < 50 || whole < least {
		t.Errorf("%.0f of %.0f on-CPU stacks are complete (%.2f %%), want 99 %% of at least 50", whole, all, 100*whole/all)
	}
}

func checkAudits(t testing.TB, p *profile) {
	t.Helper()
	if audited, wrong := p.figure(t, "call sites audited"), p.figure(t, "call sites wrong"); audited == 0 || wrong != 0 {
		t.Errorf("%.0f of %.0f audited call sites are wrong", wrong, audited)
	}
}

// Shows: stacks stay whole where they are hard to read (in the vDSO, while they are moved, on the system stack, under
// signals), and the program is as it was: exit status, nothing lost, nothing bad.
func TestHardStacks(t *testing.T) {
	t.Parallel()
	d := lasting(10*time.Second, 4*time.Second)
	for i, c := range []struct {
		target string
		good   string // must be in its TRUTH
		check  func(t *testing.T, p *profile)
	}{
		{"vdso", "TRUTH calls=", checkVdso},
		{"growstack", "bad=0 ", nil},
		{"gcheavy", "TRUTH gc_cpu_fraction=", checkSystemStack},
		{"signals", "TRUTH lost=0 ", nil},
	} {
		c, builds := c, inTurn(i, eachVersion...)
		t.Run(c.target, func(t *testing.T) {
			each(t, builds, false, func(t *testing.T, build string) {
				r, status := run(t, d+time.Minute, target(build), c.target, "-dur", d.String())
				if status != 0 {
					t.Errorf("status %d\n%s", status, tail(r.err()))
				}
				if !strings.Contains(r.out(), c.good) {
					t.Errorf("no %q in its output:\n%s", c.good, tail(r.out()))
				}
				p := r.profile()
				t.Logf("%.0f of %.0f on-CPU stacks complete, %.0f call sites audited", p.figure(t, "complete on-CPU stacks"),
					p.figure(t, "on-CPU stacks"), p.figure(t, "call sites audited"))
				checkComplete(t, p)
				if c.check != nil {
					c.check(t, p)
				}
			})
		})
	}
}

func checkVdso(t *testing.T, p *profile) {
	in, all := p.cpu(with(pkg+"vdso.clock")), p.cpu(anySample)
	if float64(in) <= 0.9*float64(all) {
		t.Errorf("vdso.clock is on the stack in %v of %v", in, all)
	}
}

// The roots of goroutines that the runtime runs for itself: on a system stack, too, but not of the program.
var runtimeRoots = []string{"runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.bgscavenge", "runtime.forcegchelper", "runtime.runfinq",
	"runtime.runFinalizers", "runtime.runCleanups", "runtime.gcenable"}

func checkSystemStack(t *testing.T, p *profile) {
	var on, through, lost int64
	for i := range p.samples {
		s := &p.samples[i]
		at := s.index("runtime.systemstack")
		if at < 0 || s.cpu == 0 {
			continue
		}
		own := false
		for _, root := range runtimeRoots {
			own = own || s.has(root)
		}
		if own {
			continue
		}
		on += s.count
		// Towards the root, behind the switch of stacks.
		if build := s.index(pkg + "gcheavy.build"); build > at && s.index(pkg+"gcheavy.Main") > build {
			through += s.count
		} else if !s.has(pkg + "gcheavy.Main") {
			lost += s.count
			t.Logf("%d looks end on the system stack: %v", s.count, s.stack)
		}
	}
	// Of a thread that went on before its look was over only the copy in its sample is left.
	wentOn := int64(p.figure(t, movedLine))
	t.Logf("%d looks on the system stack for the program: %d go on into gcheavy.build, %d end there; %d threads went on", on, through, lost, wentOn)
	if through < 3 || lost > on/100+wentOn {
		t.Errorf("%d of %d looks on the system stack do not go on into the goroutine; %d do", lost, on, through)
	}
}

// Shows: the sum of the samples is the CPU time that the process measured of itself, and agrees with what the kernel
// accounts to goprof and its child together.
func TestCPUTime(t *testing.T) {
	each(t, eachVersion, false, func(t *testing.T, build string) {
		r, status := run(t, time.Minute, target(build), "server", "-dur", "6s")
		if status != 0 {
			t.Fatalf("status %d", status)
		}
		p := r.profile()
		compareCPU(t, p, truth(t, r.out(), "process_ms=", "process_ms"))
		usage := r.ProcessState.UserTime() + r.ProcessState.SystemTime() // with the child it waited for
		own := time.Duration(p.figure(t, "own CPU"))
		child, sum := usage-own, p.cpu(anySample)
		// goprof's own figure ends before it writes its files: that is in `child` as well.
		if off := child - sum; off < -sum/20 || off > sum/20+150*time.Millisecond {
			t.Errorf("the samples hold %v; goprof and the child used %v, of which goprof says %v are its own", sum, usage, own)
		}
		if own > 6*time.Second/10 {
			t.Errorf("goprof used %v in 6 s", own)
		}
	})
}

var readloopSites = []string{pkg + "readloop.siteA", pkg + "readloop.siteB"}

// readloop is the time at both sites that profiles have seen, and that the target tells, in ns.
type readloop struct {
	seen              time.Duration
	pprof, sent, want [2]float64
}

func (v *readloop) measure(t *testing.T, build string, d time.Duration) {
	t.Helper()
	r, status := run(t, d+time.Minute, target(build), "readloop", "-dur", d.String())
	if status != 0 {
		t.Fatalf("status %d", status)
	}
	p := r.profile()
	v.seen += d
	for i, name := range readloopSites {
		v.want[i] += float64(d) * truth(t, r.out(), "siteA_ms", name[len(pkg+"readloop."):])
		v.pprof[i] += float64(p.wall(with(name)))
		for _, e := range r.envelopes() {
			for _, st := range e.times(t) {
				if st.has(name) {
					v.sent[i] += float64(st.time)
				}
			}
		}
	}
	checkWholeWindowAfter(t, r)
}

// Shows: a goroutine that is always in a system call, but at two places in turn, is not taken for unchanged: the wall
// time of both places is right, in the pprof file and as servers weigh the envelope. A tick has one look at it, so sigma is
// 1.0 points after 20 s, and 3 of them are exceeded once in four hundred times: then it is measured for 40 s more.
func TestReadloopSplit(t *testing.T) {
	const points = 3.0
	d := lasting(40*time.Second, 20*time.Second)
	each(t, []string{"1.26-sw", "1.19-plain"}, true, func(t *testing.T, build string) {
		var v readloop
		v.measure(t, build, d)
		if off := math.Max(mostOff(v.pprof[:], v.want[:]), mostOff(v.sent[:], v.want[:])); off > points {
			t.Logf("%.1f points off after %v: once more", off, d)
			v.measure(t, build, 40*time.Second)
		}
		for from, times := range map[string][]float64{"pprof": v.pprof[:], "envelopes": v.sent[:]} {
			if sum := times[0] + times[1]; sum < 0.95*float64(v.seen) {
				t.Errorf("%s: %v in both places, the runs took %v", from, time.Duration(sum), v.seen)
			}
			t.Log(from)
			compareShares(t, readloopSites, times, percents(v.want[:]), points, v.seen.Seconds()*101)
		}
	})
}

// checkWholeWindowAfter: of a run, only windows after the first one have goroutines that lived all the time.
func checkWholeWindowAfter(t testing.TB, r *recording) {
	t.Helper()
	for i, e := range r.envelopes() {
		if i == 0 {
			continue
		}
		if off := e.length() - e.threadTimes(t)["1"]; off < -2*tick || off > r.unseen() {
			t.Errorf("window %d: goroutine 1 has %v of %v", i+1, e.threadTimes(t)["1"], e.length())
		}
	}
}

// Shows: labels reach the profile.
func TestProfileLabels(t *testing.T) {
	each(t, eachVersion, true, func(t *testing.T, build string) {
		p := startTarget(t, build, "server", "-dur", "1m")
		prof := attach(t, p.pid, 3*time.Second).profile()
		p.quit()
		// Of a thread that went on before its look was over nobody knows the labels any more; there is a count of them.
		unknown := time.Duration(prof.figure(t, "unknown labels")) * tick
		for route, function := range map[string]string{"/order": "server.(*store).put", "/search": "server.(*store).find"} {
			label := fmt.Sprintf("route:[%s]", route)
			all := prof.cpu(with(pkg + function))
			right := prof.cpu(func(s *sample) bool { return s.has(pkg+function) && strings.Contains(s.labels, label) })
			none := prof.cpu(func(s *sample) bool { return s.has(pkg+function) && !strings.Contains(s.labels, "route:") })
			if all == 0 || right == 0 || right+none != all || none > all/50+2*unknown {
				t.Errorf("%v of %v in %s have the label %s, %v none; %v of unknown labels", right, all, function, label, none, unknown)
			}
		}
		if sealed := prof.cpu(with(pkg + "server.seal")); sealed == 0 {
			t.Error("nothing in server.seal")
		}
	})
}
