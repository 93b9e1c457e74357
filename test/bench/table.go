package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"time"
)

// line is one line of the table. A cell that misses its aim is marked.
type line struct {
	label string
	cell  func(f *figures) string
	aim   string
	miss  func(f *figures) bool
}

const (
	labelWidth = 33
	cellWidth  = 14
)

func number(format string, v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

func interval(s spread) string {
	if s.n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f-%.3f", s.low, s.high)
}

func withAndWithout(v [2]float64) string {
	format := "%.1f / %.1f"
	if v[0] >= 1000 || v[1] >= 1000 {
		format = "%.0f / %.0f"
	}
	return fmt.Sprintf(format, v[0], v[1])
}

func echoOnly(f *figures, v [2]float64) string {
	if f.row.load != "echo" {
		return ""
	}
	return withAndWithout(v)
}

var lines = []line{
	{"throughput, with / without", func(f *figures) string { return number("%.3f", f.ratio.median) }, ">= 0.97 (echo)",
		func(f *figures) bool { return f.row.load == "echo" && f.ratio.median < 0.97 }},
	{"  95 % interval of the median", func(f *figures) string { return interval(f.ratio) }, "", nil},
	{"control, without / without", func(f *figures) string { return number("%.3f", f.control.median) }, "1", nil},
	{"  95 % interval of the median", func(f *figures) string { return interval(f.control) }, "", nil},
	{"the same per CPU second", func(f *figures) string { return number("%.3f", f.work.median) }, "", nil},
	{"own CPU, % of a core, whole run", func(f *figures) string { return number("%.1f", f.ownAll*100) }, "<= 10 (1,000)",
		func(f *figures) bool { return f.row.n == 1000 && f.ownAll > 0.10 }},
	{"  while it samples", func(f *figures) string { return number("%.1f", f.ownSampling*100) }, "", nil},
	{"  start and end, CPU ms", func(f *figures) string { return number("%.0f", f.startEnd*1e3) }, "", nil},
	{"own memory, most, MB", func(f *figures) string { return number("%.1f", f.memory/1e3) }, "", nil},
	{"attach to first sample, ms", func(f *figures) string { return number("%.0f", median(f.firstSample)*1e3) }, "", nil},
	{"  worst", func(f *figures) string { return number("%.0f", quantile(f.firstSample, 1)*1e3) }, "", nil},
	{"a thread is held, median, us", func(f *figures) string { return number("%.1f", f.heldMedian/1e3) }, "<= 10",
		func(f *figures) bool { return f.heldMedian > 10.3e3 }}, // goprof's steps: 8.2, 10.2, 12.3 us
	{"  p99, us", func(f *figures) string { return number("%.0f", f.heldP99/1e3) }, "<= 500",
		func(f *figures) bool { return f.heldP99 > 500e3 }},
	{"threads held per sample", func(f *figures) string { return number("%.2f", f.stops) }, "", nil},
	{"samples per second", func(f *figures) string { return number("%.1f", f.samples) }, fmt.Sprint(rateHz),
		func(f *figures) bool { return f.samples < 0.95*rateHz }},
	{"echo p50, with / without, us", func(f *figures) string { return echoOnly(f, f.p50) }, "", nil},
	{"echo p99, with / without, us", func(f *figures) string { return echoOnly(f, f.p99) }, "", nil},
	{"the target: 1,000 op/s, without", func(f *figures) string { return number("%.1f", f.rate/1e3) }, "", nil},
	{"  cores used, without", func(f *figures) string { return number("%.2f", f.cores) }, "", nil},
	{"  memory (VmRSS) before, MB", func(f *figures) string { return number("%.1f", f.rssBefore/1e3) }, "", nil},
	{"  its growth, MB", func(f *figures) string { return number("%+.1f", (f.rssAfter-f.rssBefore)/1e3) }, "", nil},
	{"other programs, cores", func(f *figures) string { return number("%.2f", f.others+f.stolen) }, "0", nil},
}

func (l *line) text(columns []*figures) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s", labelWidth, l.label)
	any := false
	for _, f := range columns {
		cell := l.cell(f)
		any = any || cell != ""
		if l.miss != nil && l.miss(f) {
			cell = "! " + cell
		}
		fmt.Fprintf(&b, "%*s", cellWidth, cell)
	}
	if !any {
		return ""
	}
	return strings.TrimRight(b.String()+"  "+l.aim, " ") + "\n"
}

// tableText is the whole report.
func tableText(columns []*figures, s *settings) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s", labelWidth, "")
	for _, f := range columns {
		fmt.Fprintf(&b, "%*s", cellWidth, f.row.name)
	}
	b.WriteString("  aim\n")
	for i := range lines {
		b.WriteString(lines[i].text(columns))
	}
	for _, f := range columns {
		for _, d := range doubtsOf(f, s) {
			kind := "NOISY"
			if d.wrong {
				kind = "WRONG"
			}
			fmt.Fprintf(&b, "%s %s: %s\n", kind, f.row.name, d.text)
		}
	}
	b.WriteString("\n" + methodText(s) + "\n" + machineText(columns, s))
	return b.String()
}

func methodText(s *settings) string {
	return fmt.Sprintf(`"! ": misses its aim. echo-N, cpu-N: N parked goroutines 16 frames deep, and %d TCP connections on
loopback that bounce 64 bytes, or one computing goroutine per core (no core is free then: goprof's own
CPU comes out of the target). %d windows of %v with goprof beside as many without, in turned order;
%v off both ends of each; a control is two neighbours without goprof. Medians over the windows.
First sample: from the fork of goprof to the first tick (the profile's time). Held: from goprof's
wake-up to the release, by goprof's own clock, in steps of a quarter octave. Samples: ticks done.
`, s.conns, s.pairs, s.window, edge)
}

func readFile(path string) string {
	data, _ := os.ReadFile(path)
	return strings.TrimSpace(string(data))
}

func cpuModel() string {
	_, rest, _ := strings.Cut(readFile("/proc/cpuinfo"), "model name")
	name, _, _ := strings.Cut(rest, "\n")
	return strings.Trim(name, "\t: ")
}

func machineText(columns []*figures, s *settings) string {
	var b strings.Builder
	fmt.Fprintf(&b, "machine  %d cores, %s\n", runtime.NumCPU(), cpuModel())
	fmt.Fprintf(&b, "kernel   Linux %s, load %s at the start", readFile("/proc/sys/kernel/osrelease"), s.load)
	if s.nice != 0 {
		fmt.Fprintf(&b, ", all measured at nice %d", s.nice)
	}
	b.WriteString("\n")
	if len(columns) > 0 {
		fmt.Fprintf(&b, "target   %s, %s\n", columns[0].goVersion, s.target)
	}
	fmt.Fprintf(&b, "goprof   %s, commit %s\n", s.version, s.commit)
	fmt.Fprintf(&b, "date     %s, took %v\n", s.begun.UTC().Format("2006-01-02 15:04 UTC"), time.Since(s.begun).Round(time.Second))
	return b.String()
}
