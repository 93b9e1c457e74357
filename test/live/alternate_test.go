// Goroutines that are at two or three places in turn: how long at each, they measure themselves.
package live

import (
	"math"
	"strings"
	"testing"
	"time"
)

const alternatePkg = pkg + "alternate."

// alternating profiles a target that alternates, and compares the wall time at its sites: of the two where it sleeps in
// points, of the one where it is on a CPU in percent of its part of all.
func alternating(t *testing.T, build string, d time.Duration, args ...string) *profile {
	t.Helper()
	p := startTarget(t, build, append([]string{"alternate"}, args...)...)
	prof := attach(t, p.pid, d).profile()
	said := len(p.out())
	eventually(t, 5*time.Second, "it tells of this time", func() bool { return strings.HasSuffix(p.out()[said:], "\n") })
	p.quit()
	wall, told, sum := map[string]float64{}, map[string]float64{}, 0.0
	for _, site := range []string{"siteA", "siteB", "hot"} {
		wall[site] = float64(prof.wall(with(alternatePkg + site)))
		told[site] = truth(t, p.out(), "wall_ms", site)
		sum += wall[site]
	}
	for _, site := range []string{"siteA", "siteB"} {
		got, want := 100*wall[site]/(wall["siteA"]+wall["siteB"]), 100*told[site]/(told["siteA"]+told["siteB"])
		t.Logf("%s: %.2f %%, truth %.2f %%", site, got, want)
		if !(math.Abs(got-want) <= 3) {
			t.Errorf("%s has %.2f %% of the wall time of both sites, truth is %.2f %%", site, got, want)
		}
	}
	// Of a goroutine that waits for a core it is not said that it is in hot: that part is between the two.
	if most, least := told["hot"], truth(t, p.out(), "wall_ms", "work"); most > 0 {
		got := 100 * wall["hot"] / sum
		t.Logf("hot: %.3f %%, truth %.3f %%, without waits for a core %.3f %%", got, most, least)
		if !(got >= 0.75*least && got <= 1.25*most) {
			t.Errorf("hot has %.3f %% of the wall time, truth is %.3f %% to %.3f %%", got, least, most)
		}
	}
	if all := prof.wall(with(alternatePkg + "alternator")); float64(all) < 0.95*sum {
		t.Errorf("%v of %v are below alternator", all, time.Duration(sum))
	}
	return prof
}

// Shows: a goroutine that parks at two places in turn, at one for longer, is seen at each for as long as it was there,
// though its header is the same at both but for a counter.
func TestAlternatingSplit(t *testing.T) {
	builds, d := eachVersion, 20*time.Second
	if !testing.Short() {
		builds = append(append([]string{}, builds...), moreBuilds()...)
	}
	each(t, builds, false, func(t *testing.T, build string) { alternating(t, build, lasting(8*time.Second, 5*time.Second)) })
	if testing.Short() {
		return
	}
	for _, c := range []struct {
		name string
		d    time.Duration
		args []string
	}{
		{"slow", d, []string{"-n", "200", "-a", "70ms", "-b", "30ms"}},
		{"even", d, []string{"-a", "5ms", "-b", "5ms"}},
		// The goroutines come to be in step with one another: what counts is the number of ticks.
		{"as the ticks", 2 * d, []string{"-a", "6.930693ms", "-b", "2.970297ms", "-jitter", "0"}},
	} {
		c := c
		t.Run(c.name, func(t *testing.T) {
			each(t, eachVersion, false, func(t *testing.T, build string) { alternating(t, build, c.d, c.args...) })
		})
	}
}

// Shows: where each tick looks at some of the goroutines only, one that is on a CPU for a short time in each cycle has no
// more of its wall time there than it should, nor less, and so have the places where it waits.
func TestBurstsInRotation(t *testing.T) {
	n, d := "40000", lasting(30*time.Second, 12*time.Second)
	if testing.Short() {
		n = "24000"
	}
	builds := inTurn(1, eachVersion...)
	if !testing.Short() { // before 1.17 something is read of all stacks each time, and so there are more turns
		for _, build := range moreBuilds() {
			if minorOf(build) == 15 {
				builds = append(builds, build)
			}
		}
	}
	each(t, builds, false, func(t *testing.T, build string) {
		prof := alternating(t, build, d, "-parked", n, "-n", "50", "-hot", "1ms", "-a", "48ms", "-b", "32ms")
		done, passes := prof.figure(t, "ticks done"), prof.figure(t, "passes over all goroutines")
		t.Logf("%.0f ticks, %.0f passes, %.0f valid looks", done, passes, prof.figure(t, lookLine))
		if passes < 2 || done < 1.5*passes {
			t.Errorf("%.0f ticks, %.0f passes: no rotation", done, passes)
		}
	})
}
