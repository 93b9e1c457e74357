package main

import (
	"fmt"
	"strings"
)

// --- the text of RESULTS.md ---

const intro = "# Results of `make bench`\n\n" +
	"Made by `test/bench/run` from `test/bench/results/*.json`; `make bench ROW=10k-echo` measures one row anew and\n" +
	"keeps the others. Each row says on what machine, when and of which commit it is.\n"

const method = `
## How it is measured

A row N-load is one process (test/bench/crowd): N goroutines parked in a channel receive below 8 to 19 frames
(15.75 on average), and a load: *cpu* computes on every core, so that none is free and goprof's own CPU comes
out of the target; *echo* has TCP connections on loopback that bounce 64 bytes, two if nothing else is said,
which use about one core of two; *idle* does nothing, and is asked nothing while goprof is measured. *threads*
makes threads as fast as it can and ends them at once.

goprof is attached once per row, as users do it (101 Hz, pprof file and envelope), and measured in two parts:

- **First visit**: the first seconds from its fork on, in which it starts, reads every stack once and settles:
  10 s, for a million goroutines 20 s. Own CPU, and throughput against 10 s right before. One look, without an interval.
- **Steady**: windows with goprof alternate with windows without it in the same process. For those without,
  goprof is suspended (SIGTSTP, as Ctrl-Z does it): it then holds and does nothing, and nothing of it is in the
  target. After it goes on, the next window begins when the files of the stretch before are written, all
  goroutines had a turn, and 0.3 s are over.

The order turns from pair to pair, so that a machine that gets slower or faster favours neither. The ratio is
the median over all pairs of (operations per second with) / (the same without); its 95 % interval is that of the
median by order statistics, which takes no shape of the noise for granted. There are at least 20 pairs, and more
while the half width is above 0.03 and the row's six minutes allow it. The control is the same ratio of two
neighbours without goprof.

Own CPU is that of goprof's process by its own CPU clock: the median of the windows with it, plus what writing
takes (its CPU time from going on until the files are there) once per 29.5 s, as in use. RssAnon is the most
seen at the end of a window and while files are written. Samples are ticks done per second. Each stretch begins
with such a write, in which no tick is done: samples and ticks in time are those of the rest of it, less the
share that a write has of 29.5 s. Coverage is ticks with something to read per whole pass over all goroutines.
*Huge pages* is what the kernel does for heaps that do not ask (/sys/kernel/mm/transparent_hugepage/enabled): with
"always" (the default of Debian and Red Hat) reading all goroutines costs a quarter less than with "madvise" (Ubuntu).
Held is from goprof's wake-up to the release of a thread, by its own clock, within 3 %: median over the
stretches. Start-up is from the start of the command to main.main, as the target says it, with ` + "`goprof run`" + ` in
front and without, in turn, 11 times each. RSS growth is that of the target while goprof is attached.

The others follow in the same process, three pairs each: what works within the target is switched on and off
there. Before the window it may take what its buffers need, its window ends no sooner than its first sample, its
samples are counted from on to off. *runtime.Stack* only takes the text at 101 Hz and does not parse it;
*GoroutineProfile* at 99 Hz counts equal stacks; both are stand-ins that build anywhere. Where a module proxy is
reachable sentry-go (the last release that profiles) and fgprof themselves are measured as well; sentry-go never
stops once it was started, so that its windows without it come first. *pprof* and
*perf* sample goroutines on a CPU only. delve looks as often as it can.

Verdicts: a ratio passes when the upper end of its interval reaches the gate and its half width is at most 0.03;
a wider one is UNDECIDED, which is no pass. Own CPU, throughput and coverage are judged where a core is free: in
the echo rows, and for the idle program by what goprof needs and leaves out; in the cpu rows they only stand
there. All other figures are compared as they are. "aim" is a pass that reaches the aim too.
`

func number(format string, v float64) string { return fmt.Sprintf(format, v) }

// spreadText is a ratio with its interval.
func spreadText(s spread) string {
	if s.N == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f [%.3f, %.3f]", s.Median, s.Low, s.High)
}

func (p pairOf) text(format string) string {
	return fmt.Sprintf(format, p.With) + " / " + fmt.Sprintf(format, p.Without)
}

// tableRow joins cells.
func tableRow(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

func tableHead(cells ...string) string {
	return tableRow(cells...) + strings.Repeat("|---", len(cells)) + "|\n"
}

func resultsText(v []*record) string {
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString("\n## What goprof is held to\n\nIn brackets: gate / aim.\n\n" + gatesTable(v))
	b.WriteString("\n## Beside other profilers\n\nThroughput with it / without it, and samples per second.\n\n")
	b.WriteString(besideTable(v))
	b.WriteString(method)
	for _, r := range v {
		b.WriteString("\n" + rowText(r))
	}
	return b.String()
}

func gatesTable(v []*record) string {
	var b strings.Builder
	b.WriteString(tableHead("row", "gate", "measured", "verdict"))
	for _, r := range v {
		findings, worst := judge(r)
		name := "**" + r.Row + "**"
		if len(findings) == 0 {
			b.WriteString(tableRow(name, "none", "", ""))
		}
		for _, f := range findings {
			b.WriteString(tableRow(name, f.gate, f.text, f.verdict.String()))
			name = ""
		}
		if len(findings) > 1 {
			b.WriteString(tableRow("", "*all*", "", "**"+worst.String()+"**"))
		}
	}
	return b.String()
}

// family is the column of a contender: its name without a version.
func family(name string) string {
	if i := strings.Index(name, " v"); i > 0 {
		return name[:i]
	}
	return name
}

// besideTable has a column for each contender that any row knows.
func besideTable(v []*record) string {
	var names []string
	known := map[string]bool{}
	for _, r := range v {
		for _, p := range r.Peers {
			if f := family(p.Name); !known[f] {
				known[f] = true
				names = append(names, f)
			}
		}
	}
	var b strings.Builder
	b.WriteString(tableHead(append([]string{"row", "goprof"}, names...)...))
	for _, r := range v {
		cells := []string{r.Row, shortText(r.Ratio, r.Samples)}
		for _, name := range names {
			cells = append(cells, peerCell(r, name))
		}
		b.WriteString(tableRow(cells...))
	}
	return b.String()
}

func shortText(ratio spread, samples float64) string {
	s := number("%.1f/s", samples)
	if ratio.N > 0 {
		s = number("%.3f, ", ratio.Median) + s
	}
	return s
}

func peerCell(r *record, name string) string {
	for _, p := range r.Peers {
		switch {
		case family(p.Name) != name:
		case p.Measured:
			return shortText(p.Ratio, p.Samples)
		default:
			return "-"
		}
	}
	return ""
}

// --- one row ---

// line is one figure of a row. Empty: not shown.
type line struct {
	label string
	cell  func(r *record) string
}

func echoOnly(r *record, s string) string {
	if r.Load != "echo" {
		return ""
	}
	return s
}

func loadOnly(r *record, s string) string {
	if r.Rate == 0 {
		return ""
	}
	return s
}

var lines = []line{
	{"throughput, with / without, and its 95 % interval", func(r *record) string {
		return loadOnly(r, fmt.Sprintf("%s, %d pairs", spreadText(r.Ratio), r.Ratio.N))
	}},
	{"control, without / without", func(r *record) string { return loadOnly(r, spreadText(r.Control)) }},
	{"throughput per CPU second of the target", func(r *record) string { return loadOnly(r, spreadText(r.Work)) }},
	{"throughput during the first visit", func(r *record) string { return loadOnly(r, number("%.3f", r.FirstRatio)) }},
	{"echo p50, with / without, us", func(r *record) string { return echoOnly(r, r.P50.text("%.1f")) }},
	{"echo p99, with / without, us", func(r *record) string { return echoOnly(r, r.P99.text("%.1f")) }},
	{"own CPU of a core, steady, with writing", func(r *record) string { return percent(r.ownAll()) }},
	{"own CPU while it samples, median and mean", func(r *record) string {
		return percent(r.Own) + ", " + percent(r.OwnMean)
	}},
	{"writing a window, CPU and wall ms", func(r *record) string {
		return fmt.Sprintf("%.0f, %.0f", r.WriteCPU*1e3, r.WriteWall*1e3)
	}},
	{"own CPU, first visit", func(r *record) string {
		return fmt.Sprintf("%s over %.0f s, %.0f rounds of all", percent(r.FirstOwn), r.FirstVisit, r.FirstRounds)
	}},
	{"stacks put off after it", func(r *record) string { return number("%.0f", r.PutOff) }},
	{"detaching and the last files, CPU ms", func(r *record) string { return number("%.0f", r.EndCPU*1e3) }},
	{"fork to first sample, ms", func(r *record) string { return number("%.0f", r.FirstSample*1e3) }},
	{"RssAnon, most, MiB, and while it writes", func(r *record) string {
		return fmt.Sprintf("%.1f, %.1f", r.Anon, r.WriteAnon)
	}},
	{"samples per second", func(r *record) string { return number("%.1f", r.Samples) }},
	{"ticks in time", func(r *record) string { return percent(r.InTime) }},
	{"ticks gated", func(r *record) string { return percent(r.Gated) }},
	{"ticks per pass over all goroutines", func(r *record) string { return number("%.2f", r.TicksPerPass) }},
	{"a thread is held, median and p99, us", heldText},
	{"threads held per sample", func(r *record) string { return number("%.3f", r.Stops) }},
	{"start to main.main, goprof run / without, ms", func(r *record) string { return r.Startup.text("%.1f") }},
	{"the target: operations per second, without", func(r *record) string { return loadOnly(r, number("%.0f", r.Rate)) }},
	{"  cores used, with / without", func(r *record) string { return r.Cores.text("%.3f") }},
	{"  RSS before, and growth, MiB", func(r *record) string { return fmt.Sprintf("%.1f, %+.1f", r.RSS, r.Growth) }},
	{"other programs, cores", func(r *record) string { return number("%.2f", r.Others+r.Stolen) }},
}

func heldText(r *record) string {
	if r.Captured == 0 {
		return ""
	}
	s := fmt.Sprintf("%.1f, %.0f", r.HeldMedian, r.HeldP99)
	if !r.RealTime {
		s += " (no real-time priority)"
	}
	return s
}

func rowText(r *record) string {
	var b strings.Builder
	_, worst := judge(r)
	fmt.Fprintf(&b, "## %s", r.Row)
	if worst != none {
		fmt.Fprintf(&b, ": %s", worst)
	}
	fmt.Fprintf(&b, "\n\n%s, %s, commit %s, %s. %s. Windows of %g s, the others' of %g s; took %.0f s",
		r.Date, r.Goprof, r.Commit, r.Go, r.Machine, r.Window, r.PeerWindow, r.Seconds)
	if r.Nice != 0 {
		fmt.Fprintf(&b, "; all at nice %d", r.Nice)
	}
	b.WriteString(".\n\n")
	for _, d := range r.Doubts {
		fmt.Fprintf(&b, "**NOISY**: %s.\n\n", d.Text)
	}
	b.WriteString(tableHead("goprof", ""))
	for _, l := range lines {
		if cell := l.cell(r); cell != "" {
			b.WriteString(tableRow(l.label, cell))
		}
	}
	if len(r.Peers) > 0 {
		b.WriteString("\n" + peersTable(r))
	}
	return b.String()
}

func peersTable(r *record) string {
	var b strings.Builder
	b.WriteString(tableHead("beside it", "throughput (least, most)", "samples/s", "target's cores", "own CPU", "p50 us",
		"p99 us", "RSS growth MiB", ""))
	for _, p := range r.Peers {
		if !p.Measured {
			b.WriteString(tableRow(p.Name, "", "", "", "", "", "", "", p.Note))
			continue
		}
		own := ""
		if p.Own > 0 {
			own = percent(p.Own)
		}
		b.WriteString(tableRow(p.Name, loadOnly(r, spreadText(p.Ratio)), number("%.1f", p.Samples), p.Cores.text("%.2f"), own,
			echoOnly(r, p.P50.text("%.1f")), echoOnly(r, p.P99.text("%.1f")), number("%+.1f", p.Growth), p.Note))
	}
	return b.String()
}
