package main

import (
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMedianRank(t *testing.T) {
	// From tables of the sign test.
	for n, want := range map[int]int{1: 0, 5: 0, 6: 1, 8: 1, 9: 2, 10: 2, 15: 4, 20: 6, 25: 8, 100: 40} {
		if got := medianRank(n); got != want {
			t.Errorf("%d figures: rank %d, want %d", n, got, want)
		}
	}
}

// The interval holds the true median in 95 % of cases, whatever the shape.
func TestSpreadCovers(t *testing.T) {
	const rounds = 4000
	random := rand.New(rand.NewSource(1))
	held := 0
	for i := 0; i < rounds; i++ {
		v := make([]float64, 20)
		for j := range v {
			v[j] = random.ExpFloat64()
		}
		if s := spreadOf(v); s.certain && s.low <= math.Ln2 && math.Ln2 <= s.high {
			held++
		}
	}
	if share := float64(held) / rounds; share < 0.94 || share > 0.985 {
		t.Errorf("held in %.3f of cases", share)
	}
}

func TestSpreadOfFew(t *testing.T) {
	if s := spreadOf([]float64{3, 1, 2}); s != (spread{2, 1, 3, 3, false}) {
		t.Errorf("%+v", s)
	}
	if s := spreadOf(nil); s.n != 0 || !math.IsNaN(s.median) {
		t.Errorf("%+v", s)
	}
	if got := median([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Errorf("median %v", got)
	}
}

func pointsFile(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "points")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadPoints(t *testing.T) {
	v, err := readPoints(pointsFile(t, "T 100 5 1.5 2.5\nT 200 9\nTRUTH load=cpu ops=9\nT 300"))
	if err != nil || len(v) != 2 || v[0] != (point{time.Unix(0, 100), 5, 1.5, 2.5}) || v[1].ops != 9 {
		t.Errorf("%v %v", v, err)
	}
	for _, text := range []string{"T 200 5\nT 100 6\n", "T 100 5\nT 200 4\n"} {
		if _, err := readPoints(pointsFile(t, text)); err == nil {
			t.Errorf("%q is no error", text)
		}
	}
}

func TestSpeedBetween(t *testing.T) {
	var v []point
	start := time.Unix(1000, 0)
	for i := 0; i < 30; i++ { // 1000 a second, but ten times as fast in the edges
		ops := int64(100 * i)
		if i < 6 || i > 24 {
			ops = int64(100*i + 1000*(i/15))
		}
		v = append(v, point{start.Add(time.Duration(i) * every), ops, float64(i), 0})
	}
	s, err := speedBetween(v, start.Add(5*every), start.Add(25*every))
	if err != nil || math.Abs(s.rate-1000) > 1e-6 {
		t.Errorf("%+v %v", s, err)
	}
	if len(s.p50) != 18 || s.p50[0] != 7 { // points 6 to 24; the first one's latencies are from before
		t.Errorf("p50 %v", s.p50)
	}
	if _, err := speedBetween(v, start.Add(5*every), start.Add(10*every)); err == nil {
		t.Error("4 points are enough")
	}
	if _, err := speedBetween(make([]point, 0), start, start.Add(time.Second)); err == nil {
		t.Error("no points are enough")
	}
}

const rawProfile = `PeriodType:  
Period: 0
Time: 2026-11-29 21:27:34.570925123 +0000 UTC
Duration: 2.00
Comment: goprof 0.1.0, mode wall, 101 Hz, 1 window
Comment: targets (pid 1, go1.26.11)
Comment: health: ticks due 202, ticks done 200, threads captured 9, held median 10240 ns, held p99 40960 ns, goroutine headers read 7, own CPU 77 ns
Samples:
`

func TestParseProfile(t *testing.T) {
	var a attach
	if err := a.parse(rawProfile); err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 11, 29, 21, 27, 34, 570925123, time.UTC); !a.first.Equal(want) {
		t.Errorf("first tick %v", a.first)
	}
	figures := map[string]float64{ticksDue: 202, ticksDone: 200, captured: 9, heldMedian: 10240, heldP99: 40960, headersRead: 7, ownCPU: 77}
	for name, want := range figures {
		if a.health[name] != want {
			t.Errorf("%s: %v", name, a.health[name])
		}
	}
	for _, part := range []string{"Time:", "held p99 ", "own CPU "} {
		if err := a.parse(strings.Replace(rawProfile, part, "x", 1)); err == nil {
			t.Errorf("without %q it is no error", part)
		}
	}
}

// Every window with goprof is compared with a neighbour, in both orders alike; each control is two neighbours without.
func TestJoin(t *testing.T) {
	m := &measured{}
	at := map[*window]int{}
	for i := 0; i <= 16; i++ {
		w := &window{}
		if i%4 == 1 || i%4 == 2 {
			w.attach = &attach{}
		}
		at[w] = i
		m.windows = append(m.windows, w)
	}
	m.join()
	if len(m.pairs) != 8 || len(m.controls) != 4 {
		t.Fatalf("%d pairs, %d controls", len(m.pairs), len(m.controls))
	}
	for name, pairs := range map[string][]pair{"pairs": m.pairs, "controls": m.controls} {
		drift := 0
		for _, p := range pairs {
			if d := at[p.a] - at[p.b]; d != 1 && d != -1 {
				t.Errorf("%s: windows %d and %d are no neighbours", name, at[p.a], at[p.b])
			}
			drift += at[p.a] - at[p.b]
			if (p.a.attach != nil) != (name == "pairs") || p.b.attach != nil {
				t.Errorf("%s: windows %d and %d", name, at[p.a], at[p.b])
			}
		}
		if drift != 0 {
			t.Errorf("%s favour one order", name)
		}
	}
}

func TestChooseRows(t *testing.T) {
	for list, want := range map[string][]row{
		"":                {{"echo-10", "echo", 10}, {"echo-1000", "echo", 1000}, {"cpu-10", "cpu", 10}, {"cpu-1000", "cpu", 1000}},
		"*-1000":          {{"echo-1000", "echo", 1000}, {"cpu-1000", "cpu", 1000}},
		"cpu-7, echo-10 ": {{"cpu-7", "cpu", 7}, {"echo-10", "echo", 10}},
	} {
		got, err := chooseRows(list)
		if err != nil || len(got) != len(want) {
			t.Errorf("%q: %v %v", list, got, err)
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%q: %v", list, got)
			}
		}
	}
	if _, err := chooseRows("echo"); err == nil {
		t.Error("echo is a row")
	}
}

func onWindow(s *settings, change func(a *attach)) *window {
	at := time.Unix(1000, 0)
	a := &attach{forked: at, first: at.Add(30 * time.Millisecond), exited: at.Add(s.window + 50*time.Millisecond), cpu: 60 * time.Millisecond}
	a.health = map[string]float64{ticksDue: 202, ticksDone: 201, headersRead: 201 * 1010, captured: 400, heldMedian: 10240,
		heldP99: 40960, ownCPU: 50e6}
	change(a)
	return &window{attach: a}
}

// Each doubt comes when there is reason for it, and only then.
func TestDoubts(t *testing.T) {
	s := &settings{window: 2 * time.Second}
	sure := func(v float64) spread { return spread{v, v - 0.01, v + 0.01, 20, true} }
	none := func(*attach) {}
	for name, c := range map[string]struct {
		attach func(a *attach)
		row    func(f *figures)
		wrong  bool
	}{
		"ticks":   {func(a *attach) { a.health[ticksDue] = 150 }, nil, true},
		"unseen":  {func(a *attach) { a.health[headersRead] = 201 * 900 }, nil, true},
		"own CPU": {func(a *attach) { a.health[ownCPU] = 90e6 }, nil, true},
		"first":   {func(a *attach) { a.first = a.forked.Add(-time.Millisecond) }, nil, true},
		"held":    {func(a *attach) { a.health[heldMedian] = 50e3 }, nil, true},
		"faster":  {none, func(f *figures) { f.ratio = sure(1.2) }, true},
		"control": {none, func(f *figures) { f.control = sure(0.95) }, false},
		"wide":    {none, func(f *figures) { f.control = spread{1, 0.9, 1.1, 20, true} }, false},
		"few":     {none, func(f *figures) { f.ratio = spread{1, 0.9, 1.1, 4, false} }, false},
		"others":  {none, func(f *figures) { f.others = 0.5 }, false},
		"starved": {none, func(f *figures) { f.cores = 0.1 }, false},
		"":        {none, nil, false},
	} {
		f := &figures{measured: &measured{row: row{"cpu-1000", "cpu", 1000}}, ratio: sure(0.98), control: sure(1), cores: 1e6}
		f.windows = []*window{onWindow(s, none), onWindow(s, c.attach)}
		if c.row != nil {
			c.row(f)
		}
		v := doubtsOf(f, s)
		if want := name != ""; len(v) > 0 != want || len(v) > 1 || want && v[0].wrong != c.wrong {
			t.Errorf("%s: %v", name, v)
		}
	}
}
