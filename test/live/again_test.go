// The same process, looked at again and again.
package live

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

var attachedLine = regexp.MustCompile(`(?m)^goprof: attached to .*? goroutines`)

// Shows: the tenth profile of a process begins with the same facts as the first and is as complete, at a thousand looks
// a second, too: nothing is kept from one look to the next that could be wrong there, and nothing stays behind in the
// process.
func TestAgainAndAgain(t *testing.T) {
	times, length := 10, time.Second
	if testing.Short() {
		times, length = 3, 500*time.Millisecond
	}
	each(t, eachVersion, true, func(t *testing.T, build string) {
		p := startTarget(t, build, "waitreasons", "-dur", "5m")
		before, _ := p.dumped()
		facts, looks := "", 0.0
		for i := 0; i < times; i++ {
			rate := "101"
			if i%2 == 1 {
				rate = "1000"
			}
			r := attach(t, p.pid, length, "--rate", rate)
			said := attachedLine.FindString(unbroken(r.err()))
			if facts == "" {
				facts = said
			}
			if said != facts || said == "" {
				t.Errorf("profile %d begins with %q, the first one with %q", i+1, said, facts)
			}
			prof := r.profile()
			looks += prof.figure(t, "ticks done")
			if all, whole := prof.figure(t, "stacks"), prof.figure(t, "complete stacks"); all < 200 || whole < all {
				t.Errorf("profile %d: %.0f of %.0f stacks are complete", i+1, whole, all)
			}
			for function, n := range map[string]int{"waitreasons.parkRange": 20, "waitreasons.parkMutex": 10, "waitreasons.parkSyscall": 16} {
				checkWholeWindow(t, r, function, n)
			}
		}
		if least := 100 * length.Seconds() * float64(times); looks < least {
			t.Errorf("%.0f looks in all, want at least %.0f", looks, least)
		}
		text := dump(t, p.pid)
		for i := 0; i < times; i++ {
			if again := minutesPart.ReplaceAllString(dump(t, p.pid), ""); again != minutesPart.ReplaceAllString(text, "") {
				t.Errorf("dump %d is another one:\n%s", i+2, strings.Join(unlike(text, again), "\n"))
			}
		}
		after, _ := p.dumped()
		if n := compareDumps(t, before, text, after, 0); n < 211 {
			t.Errorf("%d parked goroutines compared, want at least 211", n)
		}
		if why := untouched(p.pid); why != "" {
			t.Error(why)
		}
	})
}

// unlike gives the first lines in which two texts differ.
func unlike(a, b string) (v []string) {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := 0; i < len(x) && i < len(y) && len(v) < 5; i++ {
		if x[i] != y[i] {
			v = append(v, fmt.Sprintf("line %d: %q and %q", i+1, x[i], y[i]))
		}
	}
	return
}
