package main

import (
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
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
		if s := spreadOf(v); s.Certain && s.Low <= math.Ln2 && math.Ln2 <= s.High {
			held++
		}
	}
	if share := float64(held) / rounds; share < 0.94 || share > 0.985 {
		t.Errorf("held in %.3f of cases", share)
	}
}

func TestSpreadOfFew(t *testing.T) {
	if s := spreadOf([]float64{3, 1, 2}); s != (spread{2, 1, 3, 3, false}) || s.halfWidth() != 1 {
		t.Errorf("%+v", s)
	}
	if s := spreadOf(nil); s != (spread{}) {
		t.Errorf("%+v", s)
	}
	if got := median([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Errorf("median %v", got)
	}
}

const envelope = `{"event_id": "43"}
{"type": "transaction", "length": 9}
{"type": "transaction", "start_timestamp": 1796036233.614994, "contexts": {"goprof": {"window": 1, "health": {
"ticks_due": 202`

const envelopeRest = `, "ticks_done": 200, "ticks_left_out_as_idle": 3, "threads_captured": 9, "held_median_ns": 10240,
"held_p99_ns": 40960, "tracer_rank__2_fifo__1_nice_": 2, "goroutine_headers_read": 7, "passes_over_all_goroutines": 5,
"stacks_put_off": 0}}}}
{"type": "profile", "length": 2}
{}
`

func wholeEnvelope() string {
	return strings.ReplaceAll(envelope, "{\n", "{") + strings.ReplaceAll(envelopeRest, ",\n", ",")
}

func TestParseEnvelope(t *testing.T) {
	p, err := parseEnvelope([]byte(wholeEnvelope()))
	if err != nil {
		t.Fatal(err)
	}
	if d := p.first.Sub(time.UnixMicro(1796036233614994)); d < -time.Microsecond || d > time.Microsecond {
		t.Errorf("first tick %v", p.first)
	}
	for name, want := range map[string]float64{ticksDue: 202, ticksGated: 3, heldP99: 40960, rank: 2, passes: 5} {
		if p.health[name] != want {
			t.Errorf("%s: %v", name, p.health[name])
		}
	}
	for _, part := range append(healthNames, `"health"`) {
		if _, err := parseEnvelope([]byte(strings.Replace(wholeEnvelope(), part, "x", 1))); err == nil {
			t.Errorf("without %s it is no error", part)
		}
	}
}

func TestParseAnswers(t *testing.T) {
	v, err := parseSpeed("ns=2000000000 ops=50 p50_us=12.5 p99_us=40.0")
	if err != nil || v != (speed{2, 50, 12.5, 40}) {
		t.Errorf("%v %v", v, err)
	}
	n, err := parseSamples("ns=500000000 samples=7 note=on a CPU only")
	if err != nil || n != (samples{0.5, 7, "on a CPU only"}) {
		t.Errorf("%v %v", n, err)
	}
	for _, text := range []string{"", "ns=x"} {
		if _, err := parseSpeed(text); err == nil {
			t.Errorf("%q is no error", text)
		}
		if _, err := parseSamples(text); err == nil {
			t.Errorf("%q is no error", text)
		}
	}
}

// Every window with goprof is compared with a neighbour, in both orders alike; each control is two neighbours without.
func TestSeries(t *testing.T) {
	var v series
	at := map[*window]int{}
	for i := 0; i < 20; i++ {
		w := &window{with: isWith(i)}
		at[w] = i
		v = append(v, w)
	}
	if len(v.pairs()) != 10 || len(v.controls()) != 4 || len(v.with()) != 10 || len(v.without()) != 10 {
		t.Fatalf("%d pairs, %d controls, %d with", len(v.pairs()), len(v.controls()), len(v.with()))
	}
	for name, pairs := range map[string][]pair{"pairs": v.pairs(), "controls": v.controls()} {
		drift := 0
		for _, p := range pairs {
			if d := at[p.a] - at[p.b]; d != 1 && d != -1 {
				t.Errorf("%s: windows %d and %d are no neighbours", name, at[p.a], at[p.b])
			}
			drift += at[p.a] - at[p.b]
			if p.a.with != (name == "pairs") || p.b.with {
				t.Errorf("%s: windows %d and %d", name, at[p.a], at[p.b])
			}
		}
		if drift != 0 {
			t.Errorf("%s favour one order", name)
		}
	}
}

func TestInterleaved(t *testing.T) {
	var v series
	for i := 0; i < 6; i++ {
		v = append(v, &window{with: i >= 3, seconds: float64(i)})
	}
	for i, p := range v.interleaved().pairs() {
		if !p.a.with || p.b.with || p.a.seconds != float64(i+3) || p.b.seconds != float64(i) {
			t.Errorf("pair %d: %v %v", i, p.a, p.b)
		}
	}
}

func TestChooseRows(t *testing.T) {
	for list, want := range map[string][]row{
		"*k-idle":           {{"1k-idle", "idle", 1000}, {"10k-idle", "idle", 10000}, {"100k-idle", "idle", 100000}},
		"7-cpu, 1M-echo ":   {{"7-cpu", "cpu", 7}, {"1M-echo", "echo", 1000000}},
		"threads,2500-idle": {{"threads", "threads", 10}, {"2500-idle", "idle", 2500}},
	} {
		got, err := chooseRows(list)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v %v", list, got, err)
		}
	}
	if got, err := chooseRows(""); err != nil || len(got) != 16 {
		t.Errorf("by default: %v %v", got, err)
	}
	for _, list := range []string{"echo", "0-cpu", "5M-cpu", "10-threads", "1m-cpu", "threads-10"} {
		if _, err := chooseRows(list); err == nil {
			t.Errorf("%s is a row", list)
		}
	}
}

func healthOf(due, done, gated, rounds float64) map[string]float64 {
	return map[string]float64{ticksDue: due, ticksDone: done, ticksGated: gated, passes: rounds, headersRead: rounds * 1000,
		captured: 400, heldMedian: 10240, heldP99: 40960, rank: 2}
}

// smallRow is 20 pairs at half the operations with goprof, which uses a tenth of a core and writes for 0.2 s.
func smallRow() *measured {
	m := &measured{row: row{"1k-echo", "echo", 1000}, rssBefore: 10 * mib, rssAfter: 11 * mib, end: time.Second}
	window := func(with bool) *window {
		w := &window{with: with, seconds: 2, cores: 1, speed: speed{2, 2000, 10, 30}}
		if with {
			w.speed, w.own, w.cores, w.anon = speed{2, 1000, 11, 50}, 200*time.Millisecond, 1.1, 5*mib
		}
		return w
	}
	m.before, m.first = window(false), window(true)
	m.first.own, m.first.anon = 3*time.Second, 6*mib
	m.forked = time.Unix(1000, 0)
	m.stretches = []float64{10}
	m.profiles = []*profile{{m.forked.Add(30 * time.Millisecond), healthOf(1010, 1000, 0, 900)}}
	for i := 0; i < 40; i++ {
		m.series = append(m.series, window(isWith(i)))
		if i%4 == 0 {
			m.writes = append(m.writes, write{100 * time.Millisecond, 200 * time.Millisecond, 7 * mib})
			m.stretches = append(m.stretches, 4.5)
			m.profiles = append(m.profiles, &profile{m.forked, healthOf(454, 430, 43, 387)})
		}
	}
	return m
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

func TestRecord(t *testing.T) {
	s := &settings{windowTime: 2 * time.Second, firstVisit: 10 * time.Second}
	r := recordOf(smallRow(), s)
	working := 1 - 0.2/windowLength
	for name, v := range map[string][2]float64{
		"ratio": {r.Ratio.Median, 0.5}, "control": {r.Control.Median, 1}, "work": {r.Work.Median, 0.5 / 1.1},
		"rate": {r.Rate, 1000},
		"own":  {r.Own, 0.1}, "own with writing": {r.ownAll(), 0.1 + 0.1/windowLength}, "first own": {r.FirstOwn, 0.3},
		"first ratio": {r.FirstRatio, 0.5}, "first sample": {r.FirstSample, 0.03}, "first rounds": {r.FirstRounds, 900},
		"anon": {r.Anon, 6}, "anon, writing": {r.WriteAnon, 7}, "p50": {r.P50.With, 11}, "p99": {r.P99.Without, 30}, "held": {r.HeldMedian, 10.24},
		"samples": {r.Samples, 430 / 4.3 * working}, "in time": {r.InTime, 430 / (454 - 0.2*rateHz) * working},
		"gated": {r.Gated, 0.1}, "ticks per pass": {r.TicksPerPass, 1}, "growth": {r.Growth, 1}, "end": {r.EndCPU, 1},
	} {
		if !near(v[0], v[1]) {
			t.Errorf("%s: %v, not %v", name, v[0], v[1])
		}
	}
	if len(r.Doubts) != 0 {
		t.Errorf("%v", r.Doubts)
	}
}

// Each doubt comes when there is reason for it, and only then.
func TestDoubts(t *testing.T) {
	s := &settings{windowTime: 2 * time.Second, firstVisit: 10 * time.Second}
	for name, c := range map[string]struct {
		change func(m *measured)
		wrong  bool
	}{
		"ticks":   {func(m *measured) { m.profiles[3].health[ticksDue] = 900 }, true},
		"unseen":  {func(m *measured) { m.profiles[3].health[headersRead] = 900 }, true},
		"first":   {func(m *measured) { m.profiles[0].first = m.forked.Add(-time.Second) }, true},
		"held":    {func(m *measured) { m.profiles[0].health[heldMedian] = 0; setHealth(m, heldMedian, 1e6) }, true},
		"own CPU": {func(m *measured) { change(m.series.with(), func(w *window) { w.own = 0 }) }, true},
		"faster":  {func(m *measured) { change(m.series.with(), func(w *window) { w.speed.ops = 3000 }) }, true},
		"nothing": {func(m *measured) { change(m.series, func(w *window) { w.speed.ops = 0 }) }, true},
		"control": {func(m *measured) { drift(m.series) }, false},
		"visit":   {func(m *measured) { m.profiles[0].health[passes] = 0 }, false},
		"put off": {func(m *measured) { m.profiles[4].health[putOff] = 301 }, false},
		"few":     {func(m *measured) { m.series = m.series[:8] }, false},
		"others":  {func(m *measured) { m.others, m.stolen = 0.06, 0.06 }, false},
		"starved": {func(m *measured) { m.row.load = "cpu"; change(m.series, func(w *window) { w.cores = 0.1 }) }, false},
		"":        {func(*measured) {}, false},
	} {
		m := smallRow()
		c.change(m)
		v := recordOf(m, s).Doubts
		found := false
		for _, d := range v {
			found = found || d.Wrong == c.wrong
		}
		if found != (name != "") {
			t.Errorf("%s: %v", name, v)
		}
	}
}

func setHealth(m *measured, name string, v float64) {
	for _, p := range m.profiles {
		p.health[name] = v
	}
}

// drift: the first of each control does a tenth more.
func drift(v series) {
	for _, p := range v.controls() {
		p.a.speed.ops *= 1.1
	}
}

func change(v series, f func(*window)) {
	for _, w := range v {
		f(w)
	}
}

func TestRatioVerdict(t *testing.T) {
	l := limits{0.97, 0.99}
	for _, c := range []struct {
		s    spread
		want verdict
	}{
		{spread{0.98, 0.97, 0.995, 20, true}, aim},
		{spread{0.965, 0.95, 0.98, 20, true}, pass},
		{spread{0.95, 0.94, 0.969, 20, true}, fail},
		{spread{0.99, 0.95, 1.03, 20, true}, undecided},
		{spread{0.99, 0.99, 0.99, 4, false}, undecided},
		{spread{}, undecided},
	} {
		if got := ratioVerdict(c.s, l); got != c.want {
			t.Errorf("%v: %v, not %v", c.s, got, c.want)
		}
	}
}

// goodRow reaches all aims; each change alone makes one gate fail.
func goodRow(load string, n int) *record {
	narrow := spread{1, 0.99, 1.01, 20, true}
	return &record{Row: load, Load: load, N: n, Ratio: narrow, Control: narrow, Rate: 1, Own: 0.001, Anon: 1,
		TicksPerPass: 1, Gated: 1, InTime: 1, Captured: 1000, RealTime: true, HeldMedian: 5, HeldP99: 50, Samples: 101,
		Peers: []peerRecord{
			{Name: "runtime.Stack", Ratio: spread{0.03, 0.03, 0.03, 3, false}, Samples: 7, Measured: true},
			{Name: "GoroutineProfile", Ratio: spread{0.8, 0.8, 0.8, 3, false}, Samples: 60, Measured: true}}}
}

func TestGates(t *testing.T) {
	for _, c := range []struct {
		load   string
		n      int
		change func(r *record)
		want   verdict
	}{
		{"echo", 1000, func(r *record) {}, aim},
		{"echo", 1000, func(r *record) { r.Own = 0.035 }, pass},
		{"echo", 1000, func(r *record) { r.Own, r.WriteCPU = 0.035, 0.3 }, fail},
		{"cpu", 1000, func(r *record) { r.Own, r.Ratio = 0.5, spread{} }, aim},
		{"idle", 1000, func(r *record) { r.Own = 0.009 }, pass},
		{"idle", 1000, func(r *record) { r.Own = 0.011 }, fail},
		{"idle", 1000, func(r *record) { r.Gated = 0.5 }, fail},
		{"echo", 1000, func(r *record) { r.Anon = 16.1 }, fail},
		{"echo", 1000, func(r *record) { r.WriteAnon = 16.1 }, fail},
		{"echo", 1000, func(r *record) { r.TicksPerPass = 1.1 }, fail},
		{"echo", 1000, func(r *record) { r.TicksPerPass = 0 }, fail},
		{"echo", 100000, func(r *record) { r.TicksPerPass = 10.2 }, aim},
		{"echo", 100000, func(r *record) { r.InTime = 0.94 }, fail},
		{"echo", 1000000, func(r *record) { r.TicksPerPass = 120 }, fail},
		{"echo", 1000, func(r *record) { r.HeldMedian = 11 }, pass},
		{"echo", 1000, func(r *record) { r.HeldP99 = 2000 }, fail},
		{"echo", 1000, func(r *record) { r.HeldP99, r.RealTime = 2000, false }, aim},
		{"echo", 1000, func(r *record) { r.Ratio = spread{0.99, 0.9, 1.1, 20, true} }, undecided},
		{"threads", 10, func(r *record) { r.Ratio = spread{0.9, 0.89, 0.91, 20, true} }, fail},
		{"threads", 10, func(r *record) {}, aim},
		{"echo", 10, func(r *record) { r.Captured, r.Own, r.Anon = 0, 1, 1000 }, none},
		{"cpu", 10000, func(r *record) {}, aim},
		{"cpu", 10000, func(r *record) { r.Peers[0].Ratio.Median = 0.05 }, pass},
		{"cpu", 10000, func(r *record) { r.Peers[0].Ratio.Median = 0.1 }, fail},
		{"echo", 10000, func(r *record) { r.Peers[0].Samples = 20 }, fail},
		{"echo", 10000, func(r *record) { r.Peers[1].Samples = 102 }, fail},
		{"echo", 10000, func(r *record) { r.Peers[1].Ratio.Median = 1.1 }, fail},
	} {
		r := goodRow(c.load, c.n)
		c.change(r)
		if v, worst := judge(r); worst != c.want {
			t.Errorf("%d-%s: %v, not %v: %v", c.n, c.load, worst, c.want, v)
		}
	}
}

// One row measured anew leaves the others as they are.
func TestPublish(t *testing.T) {
	dir := t.TempDir()
	records, file := filepath.Join(dir, "results"), filepath.Join(dir, "RESULTS.md")
	for i, name := range []string{"1M-echo", "threads", "10-idle", "10-echo", "10-echo"} {
		row, err := rowNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		r := goodRow(row.load, row.n)
		r.Row, r.Commit = name, string(rune('a'+i))
		if err := saveRecord(records, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := publish(records, file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := -1
	for _, part := range []string{"10-idle: aim", "commit c", "10-echo: aim", "commit e", "1M-echo: aim", "commit a",
		"threads: aim", "commit b"} {
		next := strings.Index(string(text), part)
		if next <= at {
			t.Errorf("%q is not in its place", part)
		}
		at = next
	}
	if strings.Contains(string(text), "commit d") {
		t.Error("the old row is still there")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "*.part")); left != nil {
		t.Errorf("left: %v", left)
	}
	if err := os.WriteFile(recordFile(records, "10-idle"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := publish(records, file); err == nil {
		t.Error("half a record is no error")
	}
	if now, _ := os.ReadFile(file); string(now) != string(text) {
		t.Error("the table is gone")
	}
}
