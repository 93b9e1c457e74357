package envelope

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
)

const (
	idA = "0123456789abcdef0123456789abcdef"
	idP = "1123456789abcdef0123456789abcdef"
	idT = "2123456789abcdef0123456789abcdef"
)

// The parts of an envelope; tests change one and leave the rest.
type parts struct{ header, transaction, profile string }

func good() parts {
	return parts{
		header: `{"event_id":"` + idA + `"}`,
		transaction: `{"type":"transaction","event_id":"` + idA + `","platform":"go","transaction":"app",` +
			`"start_timestamp":1700000000.123456,"timestamp":1700000001.5,"release":"app@1","environment":"test",` +
			`"sdk":{"name":"goprof","version":"0.1.0"},"spans":[],` +
			`"contexts":{"trace":{"trace_id":"` + idT + `","span_id":"0123456789abcdef","op":"process","status":"ok"},` +
			`"profile":{"profile_id":"` + idP + `"}}}`,
		profile: `{"version":"1","event_id":"` + idP + `","platform":"go","timestamp":"2023-11-14T22:13:20.123456Z",` +
			`"release":"app@1","environment":"test","device":{"architecture":"amd64"},` +
			`"os":{"name":"Linux","version":"6.1"},"runtime":{"name":"go","version":"go1.26"},` +
			`"transaction":{"id":"` + idA + `","name":"app","trace_id":"` + idT + `","active_thread_id":1},` +
			`"profile":{"frames":[` +
			`{"function":"main","module":"main","filename":"main/a.go","abs_path":"/src/a.go","lineno":3,"in_app":true},` +
			`{"function":"work","module":"main","filename":"main/a.go","lineno":9,"in_app":true}],` +
			`"stacks":[[1,0],[0],[]],"samples":[` +
			`{"elapsed_since_start_ns":0,"stack_id":0,"thread_id":1},` +
			`{"elapsed_since_start_ns":10,"stack_id":1,"thread_id":7},` +
			`{"elapsed_since_start_ns":500,"stack_id":2,"thread_id":1},` +
			`{"elapsed_since_start_ns":1000,"stack_id":1,"thread_id":1},` +
			`{"elapsed_since_start_ns":1000,"stack_id":1,"thread_id":7}],` +
			`"thread_metadata":{"1":{"name":"goroutine 1"},"7":{"name":"goroutine 7"}}}}`,
	}
}

func itemOf(kind, payload string) string {
	return fmt.Sprintf(`{"type":"%s","content_type":"application/json","length":%d}`+"\n%s\n", kind, len(payload), payload)
}

func (p parts) bytes() []byte {
	return []byte(p.header + "\n" + itemOf("transaction", p.transaction) + itemOf("profile", p.profile))
}

func TestGood(t *testing.T) {
	whole := good().bytes()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(whole)
	z.Close()
	digits := good()
	digits.profile = strings.NewReplacer(`"thread_id":1}`, `"thread_id":"1"}`, `"thread_id":7}`, `"thread_id":"7"}`,
		`_ns":500`, `_ns":"500"`).Replace(digits.profile)
	withSpan := good()
	withSpan.transaction = strings.Replace(withSpan.transaction, `"spans":[]`, `"spans":[{"span_id":"1123456789abcdef","trace_id":"`+
		idT+`","start_timestamp":1700000000.2,"timestamp":"2023-11-14T22:13:20.5Z"}]`, 1)
	textTime := good()
	textTime.transaction = strings.Replace(textTime.transaction, `1700000000.123456`, `"2023-11-14T23:13:20.123456+01:00"`, 1)
	longest := good()
	longest.transaction = strings.Replace(longest.transaction, `1700000001.5`, `1700000030.5`, 1)
	longest.profile = strings.Replace(longest.profile, `_ns":1000,"stack_id":1,"thread_id":7}]`, `_ns":30000000000,"stack_id":1,"thread_id":7}]`, 1)
	withDSN := good()
	withDSN.header = `{"event_id":"` + idA + `","dsn":"https://key@host:9000/p/42","sent_at":"2023-11-14T22:13:20Z"}`
	for name, data := range map[string][]byte{
		"plain": whole, "gzip": zipped.Bytes(), "no newline at the end": whole[:len(whole)-1],
		"ids as digits": digits.bytes(), "a span": withSpan.bytes(), "time as text": textTime.bytes(),
		"30 s": longest.bytes(), "dsn": withDSN.bytes(),
	} {
		for _, p := range Check(data) {
			t.Errorf("%s: %v", name, p)
		}
	}
}

// change is one replacement in one part: what the service must find there.
type change struct {
	part     byte // 'h'eader, 't'ransaction, 'p'rofile
	from, to string
	want     string // level and code
}

var changes = []change{
	{'h', `{`, `[{`, "E header"},
	{'h', `{`, ` {`, "E framing"},
	{'h', `}`, "}\r", "E framing"},
	{'h', idA, "xyz", "E event-id"},
	{'h', idA, strings.Repeat("0", 32), "E event-id"},
	{'h', `"event_id":"` + idA + `"`, ``, "H event-id"},
	{'h', `}`, `,"event_id":"` + idA + `"}`, "E header"},
	{'h', `}`, `,"dsn":"https://host/1"}`, "E dsn"},
	{'h', `}`, `,"dsn":"https://key@host/x"}`, "E dsn"},
	{'h', `}`, `,"sent_at":1700000000}`, "E sent-at"},
	{'h', `}`, `,"sent_at":"yesterday"}`, "E sent-at"},

	{'t', `{"type"`, `{{"type"`, "E payload"},
	{'t', `"app"`, "\"a\xff\"", "E payload"},
	{'t', `"platform":"go"`, `"platform":"go","platform":"go"`, "E payload"},
	{'t', `"type":"transaction"`, `"type":"event"`, "H event-type"},
	{'t', `"event_id":"0`, `"event_id":"9`, "H event-id"},
	{'t', `"event_id":"0`, `"event_id":"x`, "E uuid"},
	{'t', `"transaction":"app"`, `"transaction":""`, "H transaction-name"},
	{'t', `"transaction":"app"`, `"transaction":5`, "E type"},
	{'t', `"start_timestamp":1700000000.123456,`, ``, "E timestamp"},
	{'t', `"timestamp":1700000001.5`, `"timestamp":null`, "E timestamp"},
	{'t', `1700000001.5`, `1700000000.1`, "E time-order"},
	{'t', `1700000000.123456`, `1700000000.2`, "H link-time"},
	{'t', `"environment":"test"`, `"environment":5`, "E type"},
	{'t', `"sdk":{"name":"goprof","version":"0.1.0"}`, `"sdk":{"name":"goprof"}`, "H sdk"},
	{'t', `"contexts":{`, `"context":{`, "E missing"},
	{'t', `"trace":{`, `"tracer":{`, "E missing"},
	{'t', `"trace_id":"2`, `"trace_id":"x`, "E uuid"},
	{'t', `"span_id":"0123456789abcdef"`, `"span_id":"0123"`, "E span-id"},
	{'t', `"span_id":"0123456789abcdef"`, `"span_id":"0000000000000000"`, "E span-id"},
	{'t', `"status":"ok"`, `"status":"fine"`, "H status"},
	{'t', `"op":"process"`, `"op":1`, "H type"},
	{'t', `"profile_id":"1`, `"profile_id":"9`, "H link"},
	{'t', `"profile_id":"1`, `"profile_id":"x`, "H uuid"},
	{'t', `"profile":{"profile_id":"` + idP + `"}`, `"profile":{}`, "H link"},
	{'t', `"spans":[]`, `"spans":{}`, "E type"},
	{'t', `"spans":[]`, `"spans":[null]`, "E span"},
	{'t', `"spans":[]`, `"spans":[{"span_id":"1123456789abcdef","trace_id":"` + idT + `","start_timestamp":1700000000.5,"timestamp":1700000000.4}]`, "E span"},
	{'t', `"spans":[]`, `"spans":[{"span_id":"1123456789abcdef","trace_id":"` + idT + `","start_timestamp":1700000000.5,"timestamp":1700000009}]`, "H span"},

	{'p', `_ns":1000,"stack_id":1,"thread_id":1}`, `_ns":1000,"stack_id":0,"thread_id":1}`, "H idle-charged"},
	{'p', `"version":"1"`, `"version":1`, "E version"},
	{'p', `"version":"1"`, `"version":"2"`, "E version"},
	{'p', `"event_id":"1`, `"event_id":"9`, "H link"},
	{'p', `"event_id":"` + idP + `",`, ``, "E uuid"},
	{'p', `"event_id"`, `"profile_id":"` + idP + `","event_id"`, "E alias"},
	{'p', `"platform":"go",`, ``, "E missing"},
	{'p', `"2023-11-14T22:13:20.123456Z"`, `1700000000.123456`, "E timestamp"},
	{'p', `22:13:20.123456Z`, `22:13:20.123456`, "E timestamp"},
	{'p', `22:13:20`, `22:61:20`, "E timestamp"},
	{'p', `"environment":"test"`, `"environment":null`, "E type"},
	{'p', `"release":"app@1"`, `"release":7`, "E type"},
	{'p', `"architecture"`, `"arch"`, "E missing"},
	{'p', `"os":{"name":"Linux","version":"6.1"}`, `"os":{"name":"Linux"}`, "E missing"},
	{'p', `"runtime":{"name":"go","version":"go1.26"}`, `"runtime":{"name":"go"}`, "E missing"},
	{'p', `"device"`, `"debug_meta":{},"device"`, "E debug-meta"},
	{'p', `"device"`, `"debug_meta":{"images":[{"type":"elf"}]},"device"`, "E debug-meta"},
	{'p', `"transaction":{`, `"transacted":{`, "E no-transaction"},
	{'p', `"transaction":{"id":"0`, `"transaction":{"id":"9`, "H link"},
	{'p', `"trace_id":"2`, `"trace_id":"9`, "H link"},
	{'p', `"name":"app"`, `"name":""`, "E missing"},
	{'p', `"name":"app"`, `"name":"other"`, "W link"},
	{'p', `,"active_thread_id":1`, ``, "H active-thread"},
	{'p', `"active_thread_id":1`, `"active_thread_id":-1`, "E thread-id"},
	{'p', `"active_thread_id":1`, `"active_thread_id":2`, "H active-thread"},
	{'p', `"active_thread_id":1`, `"active_thread_id":1,"relative_end_ns":1`, "H relative"},
	{'p', `"frames":[`, `"frame":[`, "E missing"},
	{'p', `"function":"work"`, `"function":""`, "H frame-function"},
	{'p', `"function":"work"`, `"function":5`, "E type"},
	{'p', `"lineno":9`, `"lineno":-9`, "E type"},
	{'p', `"lineno":9`, `"lineno":4294967296`, "E type"},
	{'p', `"lineno":9`, `"lineno":9.5`, "E type"},
	{'p', `"in_app":true}]`, `"in_app":"yes"}]`, "E type"},
	{'p', `,"in_app":true}]`, `}]`, "H frame-in-app"},
	{'p', `"lineno":9`, `"instruction_addr":"0x1"`, "H frame-address"},
	{'p', `"lineno":9`, `"lineno":9,"package":"x"`, "W frame-key"},
	{'p', `"filename":"main/a.go","lineno"`, `"filename":"/a.go","lineno"`, "H frame-filename"},
	{'p', `"abs_path":"/src`, `"abs_path":"src`, "W frame-abs-path"},
	{'p', `"function":"work","module":"main","filename":"main/a.go","lineno":9`,
		`"function":"main","module":"other","filename":"main/a.go","lineno":3`, "H frame-collision"},
	{'p', `"stacks":[[1,0],`, `"stacks":[[2,0],`, "E frame-index"},
	{'p', `"stacks":[[1,0],`, `"stacks":[["1",0],`, "E type"},
	{'p', `"stacks":[[1,0],`, `"stacks":[{},`, "E type"},
	{'p', `"stack_id":0`, `"stack_id":3`, "E stack-index"},
	{'p', `"stack_id":0`, `"stack_id":"0"`, "E sample"},
	{'p', `"stack_id":0,`, ``, "E sample"},
	{'p', `_ns":500`, `_ns":500.5`, "E sample"},
	{'p', `_ns":500`, `_ns":-1`, "E sample"},
	{'p', `_ns":500`, `_ns":5`, "H time-order"},
	{'p', `"thread_id":1}`, `"thread_id":"1"}`, "H thread-id"},
	{'p', `"thread_id":1}`, `"thread_id":true}`, "E sample"},
	{'p', `_ns":1000,"stack_id":1,"thread_id":7}]`, `_ns":30000000001,"stack_id":1,"thread_id":7}]`, "E duration"},
	{'p', `"stack_id":1,"thread_id":7}]`, `"stack_id":2,"thread_id":7}]`, "W lone-sample"},
	{'p', `"stack_id":1,"thread_id":1}`, `"stack_id":2,"thread_id":1}`, "H active-thread"},
	{'p', `"stacks":[[1,0],[0],[]]`, `"stacks":[[],[],[]]`, "E too-few-samples"},
	{'p', `"7":{"name":"goroutine 7"}`, `"8":{"name":"goroutine 8"}`, "H thread-metadata"},
	{'p', `"name":"goroutine 7"`, `"name":7`, "E type"},
	{'p', `"name":"goroutine 7"`, ``, "H thread-name"},
	{'p', `"name":"goroutine 7"`, `"name":"x","priority":-1`, "E type"},
}

func TestBad(t *testing.T) {
	for _, c := range changes {
		p := good()
		part := map[byte]*string{'h': &p.header, 't': &p.transaction, 'p': &p.profile}[c.part]
		if !strings.Contains(*part, c.from) {
			t.Fatalf("nothing to change: %c %s", c.part, c.from)
		}
		*part = strings.Replace(*part, c.from, c.to, 1)
		expect(t, fmt.Sprintf("%c %s -> %s", c.part, c.from, c.to), p.bytes(), c.want)
	}
}

// Frames of other shapes than parts.bytes makes.
func TestBadFrames(t *testing.T) {
	p := good()
	whole := string(p.bytes())
	tx, prof := itemOf("transaction", p.transaction), itemOf("profile", p.profile)
	length := fmt.Sprintf(`"length":%d`, len(p.transaction))
	for name, c := range map[string][2]string{
		"empty":                {"", "E framing"},
		"broken gzip":          {"\x1f\x8b\x08", "E gzip"},
		"header only":          {p.header, "H empty"},
		"newline at the end":   {whole + "\n", "E framing"},
		"space at the end":     {whole + " ", "E framing"},
		"blank line between":   {p.header + "\n" + tx + "\n" + prof, "E framing"},
		"no item type":         {strings.Replace(whole, `"type":"profile",`, "", 1), "E item-type"},
		"too long":             {strings.Replace(whole, length, fmt.Sprintf(`"length":%d`, len(p.transaction)+1), 1), "E framing"},
		"too short":            {strings.Replace(whole, length, fmt.Sprintf(`"length":%d`, len(p.transaction)-1), 1), "E framing"},
		"beyond the end":       {strings.Replace(whole, length, `"length":999999`, 1), "E framing"},
		"length as text":       {strings.Replace(whole, length, `"length":"5"`, 1), "E length"},
		"no length":            {strings.Replace(whole, ","+length, "", 1), "W length-missing"},
		"profile alone":        {p.header + "\n" + prof, "E no-transaction"},
		"transaction alone":    {p.header + "\n" + tx, "H link"},
		"two profiles":         {p.header + "\n" + tx + prof + prof, "E item-count"},
		"two transactions":     {p.header + "\n" + tx + tx + prof, "E item-count"},
		"big transaction":      {p.header + "\n" + itemOf("transaction", p.transaction+strings.Repeat(" ", mostTransaction)) + prof, "E size"},
		"big profile":          {p.header + "\n" + tx + itemOf("profile", p.profile+strings.Repeat(" ", mostProfile)), "E size"},
		"something unknown":    {whole + itemOf("session", "{}"), "W item-unknown"},
		"payload is a list":    {p.header + "\n" + tx + itemOf("profile", "[]"), "E payload"},
		"payload is cut short": {p.header + "\n" + tx + itemOf("profile", `{"a":[1,`), "E payload"},
		"two documents":        {p.header + "\n" + tx + itemOf("profile", p.profile+"{}"), "E payload"},
	} {
		expect(t, name, []byte(c[0]), c[1])
	}
}

func expect(t *testing.T, name string, data []byte, want string) {
	t.Helper()
	problems := Check(data)
	for _, p := range problems {
		if string(p.Level)+" "+p.Code == want {
			if Bad(problems) != (p.Level != Warning) && p.Level != Warning {
				t.Errorf("%s: Bad does not tell", name)
			}
			return
		}
	}
	t.Errorf("%s: want %s, got %v", name, want, problems)
}

// Whatever the bytes, there is an answer.
func TestCutAnywhere(t *testing.T) {
	whole := good().bytes()
	for n := range whole[:len(whole)-1] {
		if problems := Check(whole[:n]); !Bad(problems) {
			t.Errorf("cut to %d bytes of %d: taken", n, len(whole))
			break
		}
	}
	for n := range whole {
		changed := bytes.Clone(whole)
		changed[n] ^= 1 << (n % 7)
		Check(changed)
	}
}
