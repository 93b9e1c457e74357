package main

import (
	"math"
	"path/filepath"
	"strings"
)

// record is one row of measurement, worked out. It is kept as results/ROW.json, from which RESULTS.md is made: rows that are
// not measured anew keep their figures, machine, date and commit.
type record struct {
	Row, Load string
	N         int

	Machine, Go, Goprof, Commit, Date string
	Nice                              int
	Seconds                           float64 // that the row took
	Window, PeerWindow, FirstVisit    float64 // s
	Others, Stolen                    float64 // cores that other programs used; that the host took away

	Ratio, Control, Work spread    // with / without; without / without; the ratio for work per CPU second
	Rate                 float64   // operations per second, without
	Rates                []float64 // of each window, in the order of time: without, with, with, without, and so on
	Cores                pairOf    // that the target used
	P50, P99             pairOf    // us

	Own         float64 // share of a core while it samples: median of the windows
	OwnMean     float64
	WriteCPU    float64 // CPU seconds for what is due at the end of a window of 29.5 s
	WriteAnon   float64 // MiB, the most during it
	WriteWall   float64 // s of the same, in which no tick is done
	FirstOwn    float64 // share of a core in the first seconds, from the fork on
	FirstRatio  float64 // throughput in them, to that before
	FirstRounds float64 // whole passes over all goroutines in them
	PutOff      float64 // stacks that could not be read in their turn, after them
	FirstSample float64 // s, from the fork to the first tick
	EndCPU      float64 // CPU seconds from SIGINT to its end
	Anon        float64 // MiB, the most at the end of a window

	HeldMedian, HeldP99 float64 // us
	RealTime            bool
	Captured            float64 // threads held, in all
	Stops               float64 // threads held per tick
	Samples             float64 // ticks per second
	InTime              float64 // share of ticks
	TicksPerPass        float64
	Gated               float64 // share of ticks

	Startup     pairOf  // ms to main.main
	RSS, Growth float64 // of the target before, MiB; and while goprof was attached
	Doubts      []doubt
	Peers       []peerRecord
}

// pairOf is a figure with the profiler and without it.
type pairOf struct{ With, Without float64 }

type peerRecord struct {
	Name, Note string
	Measured   bool // else the note says why not
	Ratio      spread
	Samples    float64 // per second
	Cores      pairOf
	Own        float64 // share of a core of its own process; 0: it has none
	P50, P99   pairOf
	Growth     float64 // of the target, MiB
}

const windowLength = 29.5 // s, of goprof's own windows

func each[T any](v []T, f func(T) float64) (out []float64) {
	for _, x := range v {
		out = append(out, f(x))
	}
	return
}

// finite: JSON knows no other numbers. What cannot be told is 0 and not shown.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

func ratios(pairs []pair, f func(*window) float64) spread {
	var v []float64
	for _, p := range pairs {
		if r := f(p.a) / f(p.b); !math.IsNaN(r) && !math.IsInf(r, 0) {
			v = append(v, r)
		}
	}
	return spreadOf(v)
}

func workOf(w *window) float64  { return w.rate() / w.cores }
func coresOf(w *window) float64 { return w.cores }
func ownOf(w *window) float64   { return w.own.Seconds() / w.seconds }

func (v series) both(f func(*window) float64) pairOf {
	return pairOf{finite(median(each(v.with(), f))), finite(median(each(v.without(), f)))}
}

func p50Of(w *window) float64 { return w.speed.p50 }
func p99Of(w *window) float64 { return w.speed.p99 }

const mib = 1024 // KB

// throughput: what goprof takes from the target.
func (r *record) throughput(m *measured) {
	r.Ratio = ratios(m.series.pairs(), (*window).rate)
	r.Work = ratios(m.series.pairs(), workOf)
	r.Control = ratios(m.series.controls(), (*window).rate)
	r.Rate = finite(median(each(m.series.without(), (*window).rate)))
	r.Rates = each(m.series, (*window).rate)
	r.Cores = m.series.both(coresOf)
	r.P50, r.P99 = m.series.both(p50Of), m.series.both(p99Of)
	r.FirstRatio = finite(m.first.rate() / m.before.rate())
}

// own: what goprof needs itself.
func (r *record) own(m *measured) {
	with := each(m.series.with(), ownOf)
	r.Own, r.OwnMean = median(with), sum(with)/float64(len(with))
	r.WriteCPU = finite(median(each(m.writes, func(w write) float64 { return w.cpu.Seconds() })))
	r.WriteAnon = quantile(each(m.writes, func(w write) float64 { return w.anon }), 1) / mib
	r.WriteWall = finite(median(each(m.writes, func(w write) float64 { return w.wall.Seconds() })))
	r.FirstOwn = m.first.own.Seconds() / r.FirstVisit
	r.FirstSample = m.profiles[0].first.Sub(m.forked).Seconds()
	r.EndCPU = m.end.Seconds()
	anon := append(series{m.first}, m.series.with()...)
	r.Anon = quantile(each(anon, func(w *window) float64 { return w.anon }), 1) / mib
}

// ownAll adds the share of what is written once in each of goprof's own windows.
func (r *record) ownAll() float64 { return r.Own + r.WriteCPU/windowLength }

// health: what goprof says of itself, in the stretches after its first visit. Rounds go on from one to the next. Each of
// these stretches begins with a write, as in use each window of 29.5 s does: the writes are taken out, and put in again in
// that proportion.
func (r *record) health(m *measured) {
	steady, seconds := m.profiles[1:], sum(m.stretches[1:])
	for _, w := range m.writes {
		seconds -= w.wall.Seconds()
	}
	r.FirstRounds = m.profiles[0].health[passes]
	of := func(name string) []float64 { return each(steady, func(p *profile) float64 { return p.health[name] }) }
	due, done, gated := sum(of(ticksDue)), sum(of(ticksDone)), sum(of(ticksGated))
	r.HeldMedian, r.HeldP99 = median(of(heldMedian))/1e3, median(of(heldP99))/1e3
	r.RealTime = median(of(rank)) == 2
	r.Captured = sum(of(captured))
	r.PutOff = sum(of(putOff))
	r.Stops, r.Gated = finite(r.Captured/done), finite(gated/done)
	working := 1 - r.WriteWall/windowLength
	r.Samples = finite(min(rateHz, done/seconds) * working)
	r.InTime = finite(min(1, done/(due-(sum(m.stretches[1:])-seconds)*rateHz)) * working)
	r.TicksPerPass = finite((done - gated) / sum(of(passes)))
}

func peerRecordOf(p *peer) peerRecord {
	v := peerRecord{Name: p.name, Note: p.note, Measured: len(p.rates) > 0, Ratio: ratios(p.series.pairs(), (*window).rate)}
	v.Samples = finite(median(p.rates))
	v.Cores, v.P50, v.P99 = p.series.both(coresOf), p.series.both(p50Of), p.series.both(p99Of)
	if p.process {
		v.Own = finite(median(each(p.series.with(), ownOf)))
	}
	v.Growth = p.growth / mib
	return v
}

func recordOf(m *measured, s *settings) *record {
	r := &record{Row: m.row.name, Load: m.row.load, N: m.row.n, Machine: machineName(), Go: m.goVersion, Goprof: s.version,
		Commit: s.commit, Nice: s.nice, Window: s.windowTime.Seconds(), PeerWindow: s.peerWindow.Seconds(),
		FirstVisit: s.firstTime(m.row).Seconds(), Others: m.others, Stolen: m.stolen}
	r.throughput(m)
	r.own(m)
	r.health(m)
	r.Startup = pairOf{m.startup[0].Median, m.startup[1].Median}
	r.RSS, r.Growth = m.rssBefore/mib, (m.rssAfter-m.rssBefore)/mib
	for _, p := range m.peers {
		r.Peers = append(r.Peers, peerRecordOf(p))
	}
	r.Doubts = doubtsOf(m, r)
	return r
}

// peer by the beginning of its name; nil: not measured.
func (r *record) peer(name string) *peerRecord {
	for i := range r.Peers {
		if p := &r.Peers[i]; strings.HasPrefix(p.Name, name) && p.Measured {
			return p
		}
	}
	return nil
}

func recordFile(dir, row string) string { return filepath.Join(dir, row+".json") }
