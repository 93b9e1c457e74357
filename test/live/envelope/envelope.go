// Package envelope judges Sentry envelopes that carry a profile as the service would: HTTP 200 says
// nothing about a profile, the service drops bad ones later and in silence. So the rules of its
// acceptance (getsentry/relay, relay-profiling and the envelope parser) are written down here a second
// time, in another language than the code that must keep them, and the tests of goprof run every
// envelope through them.
//
// It knows the items that goprof sends, transaction and profile (sample format 1), and no others.
package envelope

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// A Level says what a problem means.
type Level byte

const (
	Error   Level = 'E' // the service refuses or drops it
	House   Level = 'H' // the service takes it, but what it shows is wrong or useless
	Warning Level = 'W' // worth a look
)

// A Problem is one thing that is wrong with an envelope.
type Problem struct {
	Level   Level
	Code    string // short and stable, for tests
	Path    string // "$" header, "item[N]" header of an item, "item[N]$" its payload
	Message string
}

func (p Problem) String() string {
	return fmt.Sprintf("%c %s %s: %s", p.Level, p.Code, p.Path, p.Message)
}

// Bad reports whether any of the problems is more than a warning.
func Bad(problems []Problem) bool {
	for _, p := range problems {
		if p.Level != Warning {
			return true
		}
	}
	return false
}

const (
	mib             = 1 << 20
	mostEnvelope    = 200 * mib
	mostTransaction = 1 * mib
	mostProfile     = 50 * mib
	perCode         = 20 // problems with one code; the rest would only scroll
)

type checker struct {
	problems []Problem
	counts   map[string]int
}

func (c *checker) add(level Level, code, path, format string, args ...any) {
	c.counts[code]++
	if c.counts[code] <= perCode {
		c.problems = append(c.problems, Problem{level, code, path, fmt.Sprintf(format, args...)})
	}
}

func (c *checker) refuse(code, path, format string, args ...any) {
	c.add(Error, code, path, format, args...)
}

func (c *checker) house(code, path, format string, args ...any) {
	c.add(House, code, path, format, args...)
}

func (c *checker) warn(code, path, format string, args ...any) {
	c.add(Warning, code, path, format, args...)
}

type item struct {
	path    string
	header  object
	kind    string
	payload []byte
	doc     object // nil when the payload is no object
}

// Check returns what is wrong with an envelope, which may be gzipped. None: it is as it should be.
func Check(data []byte) []Problem {
	c := &checker{counts: map[string]int{}}
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		plain, err := gunzip(data)
		if err != nil {
			c.refuse("gzip", "$", "%v", err)
			return c.problems
		}
		data = plain
	}
	if len(data) > mostEnvelope {
		c.refuse("size", "$", "%d bytes, %d are taken", len(data), mostEnvelope)
	}
	header, items := c.split(data)
	if header != nil {
		c.checkAll(header, items)
	}
	return c.problems
}

func gunzip(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, mostEnvelope+1))
}

// split cuts the frame. A nil header: the service can make nothing of it.
func (c *checker) split(data []byte) (object, []*item) {
	line, rest, _ := bytes.Cut(data, []byte{'\n'})
	header := c.headerLine(line, "$")
	if header == nil {
		return nil, nil
	}
	var items []*item
	for n := 0; len(rest) > 0; n++ {
		it := &item{path: fmt.Sprintf("item[%d]", n)}
		ok := false
		if rest, ok = c.next(it, rest); !ok {
			return nil, nil
		}
		items = append(items, it)
	}
	return header, items
}

// next takes one item off rest and returns what follows it.
func (c *checker) next(it *item, rest []byte) ([]byte, bool) {
	line, rest, _ := bytes.Cut(rest, []byte{'\n'})
	it.header = c.headerLine(line, it.path)
	if it.header == nil {
		return nil, false
	}
	kind, ok := it.header["type"].(string)
	if !ok {
		c.refuse("item-type", it.path, "no type")
		return nil, false
	}
	it.kind = kind
	length, given := it.header["length"]
	if !given || length == nil {
		c.warn("length-missing", it.path, "no length: the payload ends at its first newline")
		it.payload, rest, _ = bytes.Cut(rest, []byte{'\n'})
		return rest, true
	}
	n, ok := unsigned(length, 32)
	if !ok {
		c.refuse("length", it.path, "length %v is no unsigned 32-bit number", length)
		return nil, false
	}
	if n > uint64(len(rest)) {
		c.refuse("framing", it.path, "length %d, but %d bytes follow", n, len(rest))
		return nil, false
	}
	it.payload, rest = rest[:n], rest[n:]
	if len(rest) > 0 && rest[0] != '\n' {
		c.refuse("framing", it.path, "byte %q behind the payload, not a newline", rest[0])
		return nil, false
	}
	if len(rest) > 0 {
		rest = rest[1:]
	}
	return rest, true
}

func (c *checker) headerLine(line []byte, path string) object {
	if len(bytes.TrimSpace(line)) == 0 {
		c.refuse("framing", path, "an empty line where a header should be")
		return nil
	}
	if len(bytes.TrimSpace(line)) != len(line) {
		c.refuse("framing", path, "white space around a header")
		return nil
	}
	doc, err := parseObject(line)
	if err != nil {
		c.refuse("header", path, "%v", err)
		return nil
	}
	return doc
}

func (c *checker) checkAll(header object, items []*item) {
	if len(items) == 0 {
		c.house("empty", "$", "no items: it is thrown away")
	}
	c.checkHeader(header)
	var transaction, profile *item
	for _, it := range items {
		switch it.kind {
		case "transaction":
			c.only(&transaction, it, mostTransaction)
		case "profile":
			c.only(&profile, it, mostProfile)
		default:
			c.warn("item-unknown", it.path, "nothing is known of items of type %q", it.kind)
		}
	}
	var event *transactionFacts
	if transaction != nil && transaction.doc != nil {
		event = c.checkTransaction(transaction, header)
	}
	var facts *profileFacts
	if profile != nil && profile.doc != nil {
		facts = c.checkProfile(profile)
	}
	c.checkLinks(event, facts, transaction, profile)
}

// only parses an item of which there may be one.
func (c *checker) only(slot **item, it *item, most int) {
	if *slot != nil {
		c.refuse("item-count", it.path, "a second %s: the whole envelope is refused", it.kind)
		return
	}
	*slot = it
	if len(it.payload) > most {
		c.refuse("size", it.path, "%d bytes, %d are taken", len(it.payload), most)
	}
	doc, err := parseObject(it.payload)
	if err != nil {
		c.refuse("payload", it.path+"$", "%v", err)
		return
	}
	it.doc = doc
}

func (c *checker) checkHeader(h object) {
	if id, given := h["event_id"]; !given {
		c.house("event-id", "$.event_id", "missing: the service makes one up")
	} else if !isUUID(id) {
		c.refuse("event-id", "$.event_id", "%v is no UUID", id)
	}
	if dsn, given := h["dsn"]; given && dsn != nil && !isDSN(dsn) {
		c.refuse("dsn", "$.dsn", "no DSN that can be used")
	}
	if at, given := h["sent_at"]; given && at != nil {
		if s, ok := at.(string); !ok {
			c.refuse("sent-at", "$.sent_at", "no string")
		} else if _, ok := rfc3339(s); !ok {
			c.refuse("sent-at", "$.sent_at", "%q is no time", s)
		}
	}
}
