// More goroutines than a tick can read: each has its turn.
package live

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var siteName = regexp.MustCompile(`^example\.org/goprof/targets/many\.(?:init|glob\.)\.func(\d+)$`)

// Shows: of a hundred thousand goroutines at 50 places each place has its part of the wall time, though a tick looks at a
// tenth of them; and when all have been looked at and nothing runs, ticks are left out.
func TestRotation(t *testing.T) {
	n, d, most := 78, 40*time.Second, 2.0
	if testing.Short() {
		n, d, most = 24, 5*time.Second, 15
	}
	each(t, inTurn(1, eachVersion...), false, func(t *testing.T, build string) {
		p := startTarget(t, build, "many", "-n", strconv.Itoa(n))
		r := attach(t, p.pid, d)
		p.quit()
		prof := r.profile()
		walls, sum := make([]float64, 50), 0.0
		for i := range prof.samples {
			s := &prof.samples[i]
			for _, name := range s.stack {
				if m := siteName.FindStringSubmatch(name); m != nil {
					k, _ := strconv.Atoi(m[1])
					walls[k-1] += float64(s.wall)
					sum += float64(s.wall)
				}
			}
		}
		all := float64(n) * 1275
		if seen := sum / (all * float64(d)); seen < 0.7 || seen > 1.02 {
			t.Errorf("%.1f %% of the goroutines' wall time were seen", 100*seen)
		}
		// Points, and percent of a site's own part: the least of them has 0.08 % of all. What is off comes from the start,
		// when whose turn it was first was a matter of chance, and of memory: those of a site lie side by side.
		points, percent := 0.0, 0.0
		for k, wall := range walls {
			got, want := 100*wall/sum, 100*float64(k+1)/1275
			off := math.Abs(got - want)
			points, percent = math.Max(points, off), math.Max(percent, 100*off/want)
			if !(off <= 0.1 && 100*off/want <= most) {
				t.Errorf("site %d has %.4f %% of the wall time, want %.4f", k, got, want)
			}
		}
		t.Logf("%.0f goroutines: %.4f points off at most, %.3f %% of a site's part", all, points, percent)
		done, gated, passes := prof.figure(t, "ticks done"), prof.figure(t, gatedLine), prof.figure(t, "passes over all goroutines")
		t.Logf("%.0f ticks, %.0f left out, %.0f passes, %.0f stacks put off", done, gated, passes, prof.figure(t, "stacks put off"))
		if done-gated < 3*passes || passes < 2 || gated < done/4 {
			t.Errorf("%.0f ticks, %.0f left out, %.0f passes", done, gated, passes)
		}
		if said := strings.Join(strings.Fields(r.err()), " "); !strings.Contains(said, "each goroutine looked at every") {
			t.Errorf("not said:\n%s", r.err())
		}
	})
}
