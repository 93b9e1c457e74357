// Reading goroutine dumps: the runtime's (debug=2, debug=1) and goprof's, which has the same form.
package live

import (
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"
)

type stackFrame struct {
	function, args, place, offset string // place is file:line
}

type goroutine struct {
	id      string
	state   string // without the minutes
	locked  bool
	labels  string // as in the header, {} included
	frames  []stackFrame
	creator stackFrame
	parent  string // id, "" where it is not printed
	note    string // indented lines in parentheses, and elided frames
}

var (
	headerLine  = regexp.MustCompile(`^goroutine (\d+)(?: gp=\S+ m=\S+(?: mp=\S+)?)? \[([^\]]*)\](?: (\{.*\}))?:$`)
	placeLine   = regexp.MustCompile(`^\t(.*:\d+)(?: \+(0x[0-9a-f]+))?(?: fp=.*)?$`)
	creatorLine = regexp.MustCompile(`^created by (.*?)(?: in goroutine (\d+))?$`)
	minutesPart = regexp.MustCompile(`, \d+ minutes`)
)

// parseStacks reads a dump. Every line must fit somewhere.
func parseStacks(t testing.TB, text string) (v []*goroutine) {
	t.Helper()
	var g *goroutine
	var frame *stackFrame
	for _, line := range strings.Split(text, "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "END n="):
			g, frame = nil, nil
		case headerLine.MatchString(line):
			m := headerLine.FindStringSubmatch(line)
			g = &goroutine{id: m[1], labels: m[3], state: minutesPart.ReplaceAllString(m[2], "")}
			g.state, g.locked = strings.CutSuffix(g.state, ", locked to thread")
			v = append(v, g)
		case g == nil:
			t.Fatalf("line outside of a goroutine: %q", line)
		case frame != nil && placeLine.MatchString(line):
			m := placeLine.FindStringSubmatch(line)
			frame.place, frame.offset, frame = m[1], m[2], nil
		case strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "..."):
			g.note += line + "\n"
		case creatorLine.MatchString(line):
			m := creatorLine.FindStringSubmatch(line)
			g.creator.function, g.parent, frame = m[1], m[2], &g.creator
		default:
			at := strings.LastIndexByte(line, '(')
			if at < 0 || !strings.HasSuffix(line, ")") {
				t.Fatalf("goroutine %s: neither function nor place: %q", g.id, line)
			}
			g.frames = append(g.frames, stackFrame{function: line[:at], args: line[at:]})
			frame = &g.frames[len(g.frames)-1]
		}
	}
	return
}

// same compares what is known of a frame on both sides. Offsets stand only where a traceback prints them; of
// arguments it is known from outside only whether there are any.
func (f stackFrame) same(o stackFrame) bool {
	return f.function == o.function && f.place == o.place && (f.offset == o.offset || f.offset == "" || o.offset == "") &&
		(f.args == "()") == (o.args == "()")
}

func (f stackFrame) String() string {
	if f.function == "" {
		return "nothing"
	}
	return strings.TrimSpace(f.function + " " + f.place + " " + f.offset)
}

// differs says in what two views of a goroutine differ, "" if in nothing.
func (g *goroutine) differs(o *goroutine) string {
	switch {
	case g.state != o.state:
		return fmt.Sprintf("state %q and %q", g.state, o.state)
	case g.locked != o.locked:
		return fmt.Sprintf("locked to thread %v and %v", g.locked, o.locked)
	case len(g.frames) != len(o.frames):
		return fmt.Sprintf("%d frames and %d:\n%v\n%v", len(g.frames), len(o.frames), g.frames, o.frames)
	case !g.creator.same(o.creator):
		return fmt.Sprintf("created by %v and %v", g.creator, o.creator)
	case g.parent != o.parent:
		return fmt.Sprintf("in goroutine %q and %q", g.parent, o.parent)
	case g.note != o.note:
		return fmt.Sprintf("notes %q and %q", g.note, o.note)
	}
	for i := range g.frames {
		if !g.frames[i].same(o.frames[i]) {
			return fmt.Sprintf("frame %d is %v and %v", i, g.frames[i], o.frames[i])
		}
	}
	return ""
}

func (g *goroutine) in(function string) bool {
	for _, f := range g.frames {
		if f.function == function {
			return true
		}
	}
	return false
}

func byID(v []*goroutine) map[string]*goroutine {
	m := map[string]*goroutine{}
	for _, g := range v {
		m[g.id] = g
	}
	return m
}

// --- labels ---

// parseLabels reads `{key: value, "odd key": "value"}` (goroutine headers) and `{"key":"value"}` (debug=1), and
// gives them as sorted text.
func parseLabels(t testing.TB, text string) string {
	t.Helper()
	var pairs []string
	rest := strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}")
	word := func() (s string) {
		if strings.HasPrefix(rest, `"`) {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				t.Fatalf("labels %q: %v at %q", text, err, rest)
			}
			rest = rest[len(quoted):]
			s, _ = strconv.Unquote(quoted)
			return
		}
		at := strings.IndexAny(rest, ":,")
		if at < 0 {
			at = len(rest)
		}
		s, rest = rest[:at], rest[at:]
		return
	}
	for rest != "" {
		key := word()
		if !strings.HasPrefix(rest, ":") {
			t.Fatalf("labels %q: no colon at %q", text, rest)
		}
		rest = strings.TrimLeft(rest[1:], " ")
		pairs = append(pairs, fmt.Sprintf("%q=%q", key, word()))
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, ","), " ")
	}
	sort.Strings(pairs)
	return strings.Join(pairs, " ")
}

var (
	countLine = regexp.MustCompile(`^(\d+) @( 0x[0-9a-f]+)*$`)
	debugLine = regexp.MustCompile(`^#\t0x[0-9a-f]+\t+(.*)\+0x[0-9a-f]+\t+(.*:\d+)$`)
)

// labelled is labels and stack of a kind of goroutines.
type labelled struct{ labels, stack string }

// parseLabelled reads a debug=1 profile: how many goroutines there are of each kind.
func parseLabelled(t testing.TB, text string) map[labelled]int {
	t.Helper()
	counts := map[labelled]int{}
	for _, record := range strings.Split(text, "\n\n") {
		var kind labelled
		n := 0
		for _, line := range strings.Split(record, "\n") {
			if m := countLine.FindStringSubmatch(line); m != nil {
				n, _ = strconv.Atoi(m[1])
			}
			if labels, ok := strings.CutPrefix(line, "# labels: "); ok {
				kind.labels = parseLabels(t, labels)
			}
			if m := debugLine.FindStringSubmatch(line); m != nil {
				kind.stack += m[1] + " " + m[2] + "\n"
			}
		}
		if n > 0 {
			counts[kind] += n
		}
	}
	return counts
}

func TestParseStacks(t *testing.T) {
	v := parseStacks(t, "goroutine 7 [chan receive, 3 minutes, locked to thread] {a: b, \"c d\": \"x\\ny\"}:\n"+
		"m.(*T[...]).f(0x1, {0x2?})\n\t/a b.go:7 +0x1c\nm.inl(...)\n\t/c.go:8\ncreated by m.init.0 in goroutine 1\n\t/d.go:9 +0x2\n\n"+
		"goroutine 8 [running]:\n\tgoroutine running on other thread; stack unavailable\n")
	if len(v) != 2 || v[0].state != "chan receive" || !v[0].locked || len(v[0].frames) != 2 || v[0].parent != "1" || v[1].note == "" {
		t.Fatalf("%+v", v)
	}
	if f := v[0].frames[0]; f != (stackFrame{"m.(*T[...]).f", "(0x1, {0x2?})", "/a b.go:7", "0x1c"}) {
		t.Errorf("frame %+v", f)
	}
	other := *v[0]
	other.frames = append([]stackFrame{}, v[0].frames...)
	other.frames[1].place = "/c.go:9"
	if v[0].differs(v[0]) != "" || v[0].differs(&other) == "" || v[0].differs(v[1]) == "" {
		t.Error("differs")
	}
	if l := parseLabels(t, v[0].labels); l != `"a"="b" "c d"="x\ny"` || l != parseLabels(t, `{"c d":"x\ny", "a":"b"}`) {
		t.Errorf("labels %s", l)
	}
}
