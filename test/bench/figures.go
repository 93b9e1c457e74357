package main

// figures is one row of measurement, worked out: a column of the table.
type figures struct {
	*measured
	ratio, control, work spread    // with / without; without / without; the ratio for work per CPU second
	rate                 float64   // operations per second, without
	cores                float64   // that the target used, without
	ownAll, ownSampling  float64   // share of a core: whole run of goprof, its sampling
	startEnd             float64   // CPU seconds outside the sampling
	memory               float64   // goprof's most, KB
	firstSample          []float64 // s, from fork
	heldMedian, heldP99  float64   // ns
	stops, samples       float64   // threads held per sample, samples per second
	p50, p99             [2]float64
}

func each(windows []*window, f func(*window) float64) (v []float64) {
	for _, w := range windows {
		v = append(v, f(w))
	}
	return
}

func ratios(pairs []pair, f func(*window) float64) spread {
	var v []float64
	for _, p := range pairs {
		v = append(v, f(p.a)/f(p.b))
	}
	return spreadOf(v)
}

func rateOf(w *window) float64 { return w.speed.rate }
func workOf(w *window) float64 { return w.speed.rate / w.cores }

// health is a figure of goprof's own, of each window with it.
func (m *measured) health(name string) []float64 {
	return each(m.with(), func(w *window) float64 { return w.attach.health[name] })
}

func (f *figures) own(s *settings) {
	with := f.with()
	f.ownAll = median(each(with, func(w *window) float64 {
		return w.attach.cpu.Seconds() / w.attach.exited.Sub(w.attach.forked).Seconds()
	}))
	f.ownSampling = median(f.health(ownCPU)) / 1e9 / s.window.Seconds()
	f.startEnd = median(each(with, func(w *window) float64 { return w.attach.cpu.Seconds() - w.attach.health[ownCPU]/1e9 }))
	f.memory = quantile(each(with, func(w *window) float64 { return w.attach.memory }), 1)
	f.firstSample = each(with, func(w *window) float64 { return w.attach.first.Sub(w.attach.forked).Seconds() })
	f.heldMedian, f.heldP99 = median(f.health(heldMedian)), median(f.health(heldP99))
	done := sum(f.health(ticksDone))
	f.stops = sum(f.health(captured)) / done
	f.samples = done / float64(len(with)) / s.window.Seconds()
}

func (f *figures) latency() {
	for i, windows := range [][]*window{f.with(), f.without()} {
		var p50, p99 []float64
		for _, w := range windows {
			p50, p99 = append(p50, w.speed.p50...), append(p99, w.speed.p99...)
		}
		f.p50[i], f.p99[i] = median(p50), median(p99)
	}
}

func figuresOf(m *measured, s *settings) *figures {
	f := &figures{measured: m}
	f.ratio = ratios(m.pairs, rateOf)
	f.work = ratios(m.pairs, workOf)
	f.control = ratios(m.controls, rateOf)
	f.rate = median(each(m.without(), rateOf))
	f.cores = median(each(m.without(), func(w *window) float64 { return w.cores }))
	f.own(s)
	f.latency()
	return f
}
