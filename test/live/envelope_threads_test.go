// Threads of envelopes: all goroutines, or some that they share.
package live

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

// threadNames of an envelope, with the part before " #": whose thread it is.
func (e *window) threadNames() (names map[string]string, owners map[string]int) {
	names, owners = map[string]string{}, map[string]int{}
	for id, v := range e.profile.Profile.Names {
		names[id] = v.Name
		if owner, _, shared := strings.Cut(v.Name, " #"); shared {
			owners[owner]++
		}
	}
	return
}

// Shows: whether threads are goroutines, or are shared by entry function or label, an envelope has all the time that the
// pprof file of the same recording has, in all and in each handler; and a label's threads are its handlers'.
func TestEnvelopeThreads(t *testing.T) {
	const order, search = pkg + "server.(*shop).handleOrder", pkg + "server.(*shop).handleSearch"
	functions := []string{order, search, pkg + "server.(*pool).worker", "net/http.(*conn).serve", ""}
	each(t, inTurn(2, eachVersion...), false, func(t *testing.T, build string) {
		p := startTarget(t, build, "server", "-clients", "8", "-dur", "1m")
		defer p.quit()
		for _, by := range []string{"goroutine", "entry", "label:route"} {
			r := attach(t, p.pid, lasting(5*time.Second, 3*time.Second), "--threads", by, "--max-threads", "0")
			prof, e := r.profile(), r.envelopes()[0]
			names, owners := e.threadNames()
			times := e.times(t)
			for _, f := range functions {
				want, got := prof.wall(anySample), time.Duration(0)
				if f != "" {
					want = prof.wall(with(f))
				}
				for i := range times {
					if f == "" && len(times[i].stack) > 0 || times[i].has(f) {
						got += times[i].time
					}
				}
				if off := math.Abs(float64(got)/float64(want) - 1); off > 0.01 || want == 0 {
					t.Errorf("%s: %v of %q in the envelope, %v in the pprof file", by, got, f, want)
				}
			}
			active := names[e.profile.Transaction.Active.String()]
			t.Logf("%s: %d threads, active %q", by, len(names), active)
			if by == "goroutine" && (len(owners) > 0 || !strings.HasPrefix(active, "goroutine 1:")) {
				t.Errorf("%s: active %q, shared %v", by, active, owners)
			} else if by != "goroutine" && (owners["net/http.(*conn).serve"] == 0 || !strings.Contains(active, " #")) {
				t.Errorf("%s: active %q, shared %v", by, active, owners)
			}
			if by == "label:route" && (owners["route=/order"] == 0 || owners["route=/search"] == 0) {
				t.Errorf("%s: %v", by, owners)
			}
			for i := range times {
				if name := names[times[i].thread]; strings.HasPrefix(name, "route=/order ") && times[i].has(search) {
					t.Errorf("%q has a stack %v", name, times[i].stack)
					break
				}
			}
		}
	})
}

// Shows: ten thousand goroutines are all there if that is wished, each with all its time, in less than 10 MB; else it is
// said how many are not.
func TestEnvelopeOfMany(t *testing.T) {
	each(t, inTurn(0, eachVersion...), false, func(t *testing.T, build string) {
		const n = 8 // of 1, 2, ... 50 times as many goroutines
		p := startTarget(t, build, "many", "-n", fmt.Sprint(n))
		defer p.quit()
		r := attach(t, p.pid, 3*time.Second, "--max-threads", "0")
		e := r.envelopes()[0]
		file, err := os.Stat(e.path)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d threads, %d bytes", len(e.profile.Profile.Names), file.Size())
		if file.Size() > 10e6 {
			t.Errorf("%d bytes", file.Size())
		}
		sites := map[string]int{}
		for _, v := range e.profile.Profile.Names {
			_, entry, _ := strings.Cut(v.Name, ": ")
			if siteName.MatchString(entry) {
				sites[siteName.FindStringSubmatch(entry)[1]]++
			}
		}
		for k := 1; k <= 50; k++ {
			if got := sites[fmt.Sprint(k)]; got != k*n {
				t.Errorf("%d goroutines of site %d, want %d", got, k, k*n)
			}
		}
		if said := strings.Join(strings.Fields(r.err()), " "); strings.Contains(said, "note ") {
			t.Errorf("said, though nothing was left out:\n%s", r.err())
		}
		r = attach(t, p.pid, time.Second)
		if said := strings.Join(strings.Fields(r.err()), " "); !strings.Contains(said, "leaves out up to 9,") {
			t.Errorf("not said what was left out:\n%s", r.err())
		}
		if got := len(r.envelopes()[0].profile.Profile.Names); got != 1000 {
			t.Errorf("%d threads", got)
		}
		r = attach(t, p.pid, time.Second, "--threads", "entry")
		said := strings.Join(strings.Fields(r.err()), " ")
		if !strings.Contains(said, "told as the average of a group") || strings.Contains(said, "leaves out") {
			t.Errorf("not said that there are groups:\n%s", r.err())
		}
		names, grouped := r.envelopes()[0].profile.Profile.Names, 0
		for _, v := range names {
			var members int
			if n, _ := fmt.Sscanf(v.Name, "%d goroutines: ", &members); n == 1 {
				grouped += members
			}
		}
		if grouped < n*1275*9/10 || len(names) > 1000 {
			t.Errorf("%d goroutines in groups, %d threads", grouped, len(names))
		}
	})
}
