package live

import (
	"strings"
	"testing"
	"time"
)

// Shows: goroutines that end before a tick sees them are counted, and of a program that makes none it is not claimed.
func TestNeverSeen(t *testing.T) {
	each(t, inTurn(1, eachVersion...), false, func(t *testing.T, build string) {
		const d = 3 * time.Second
		r, status := run(t, d+time.Minute, target(build), "churn", "-dur", d.String())
		if status != 0 {
			t.Fatalf("status %d\n%s", status, tail(r.err()))
		}
		made, told := truth(t, r.out(), "goroutines=", "goroutines"), r.profile().figure(t, "goroutines never seen")
		if t.Logf("%.0f goroutines made, at least %.0f never seen", made, told); told > made || told < 0.8*made {
			t.Errorf("%.0f goroutines made, at least %.0f never seen", made, told)
		}
		if !strings.Contains(unbroken(r.err()), "more ended before they were looked at") {
			t.Errorf("not said:\n%s", r.err())
		}
		quiet, _ := run(t, d+time.Minute, target(build), "busy", "-dur", "1s")
		if told := quiet.profile().figure(t, "goroutines never seen"); told != 0 {
			t.Errorf("busy: %.0f goroutines never seen", told)
		}
	})
}
