package envelope

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// An object is a JSON object; numbers in it are json.Number.
type object = map[string]any

// parseObject is strict where encoding/json is not: a key may not come twice, as the service refuses
// such documents, and the bytes must be UTF-8.
func parseObject(data []byte) (object, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := value(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the document")
	}
	o, ok := v.(object)
	if !ok {
		return nil, errors.New("not a JSON object")
	}
	return o, nil
}

func value(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, noEOF(err)
	}
	switch t {
	case json.Delim('{'):
		return members(d)
	case json.Delim('['):
		return elements(d)
	}
	return t, nil
}

func members(d *json.Decoder) (any, error) {
	o := object{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, noEOF(err)
		}
		key, _ := t.(string)
		if _, twice := o[key]; twice {
			return nil, fmt.Errorf("key %q comes twice", key)
		}
		if o[key], err = value(d); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return o, noEOF(err)
}

func elements(d *json.Decoder) (any, error) {
	list := []any{}
	for d.More() {
		v, err := value(d)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.Token()
	return list, noEOF(err)
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ---- values as the service reads them ----

// unsigned takes a JSON integer only: no fraction, no exponent, no sign.
func unsigned(v any, bits int) (uint64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	u, err := strconv.ParseUint(n.String(), 10, bits)
	return u, err == nil
}

// unsignedOrDigits takes a string of digits, too.
func unsignedOrDigits(v any) (uint64, bool) {
	if s, ok := v.(string); ok {
		u, err := strconv.ParseUint(strings.TrimPrefix(s, "+"), 10, 64)
		return u, err == nil
	}
	return unsigned(v, 64)
}

func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil && !math.IsInf(f, 0)
}

var (
	uuidForm = regexp.MustCompile(`^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$`)
	spanForm = regexp.MustCompile(`^[0-9a-fA-F]{16}$`)
	timeForm = regexp.MustCompile(`^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$`)
	keyForm  = regexp.MustCompile(`^[0-9A-Za-z]+$`)
	absolute = regexp.MustCompile(`^([/\\]|[A-Za-z]:[/\\])`)
)

func isUUID(v any) bool {
	s, ok := v.(string)
	return ok && uuidForm.MatchString(s) && strings.Trim(s, "0-") != ""
}

func plainUUID(v any) string {
	s, _ := v.(string)
	return strings.ToLower(strings.ReplaceAll(s, "-", ""))
}

func isSpanID(v any) bool {
	s, ok := v.(string)
	return ok && spanForm.MatchString(s) && strings.Trim(s, "0") != ""
}

func isDSN(v any) bool {
	s, ok := v.(string)
	if !ok {
		return false
	}
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.User == nil || u.Hostname() == "" {
		return false
	}
	project := u.Path[strings.LastIndex(u.Path, "/")+1:]
	_, err = strconv.ParseUint(project, 10, 64)
	return err == nil && keyForm.MatchString(u.User.Username())
}

func rfc3339(s string) (time.Time, bool) {
	if !timeForm.MatchString(s) {
		return time.Time{}, false
	}
	s = strings.ToUpper(strings.Replace(s, " ", "T", 1))
	t, err := time.Parse(time.RFC3339Nano, s)
	return t, err == nil
}

// eventTime takes seconds as a number, too: events may have either.
func eventTime(v any) (time.Time, bool) {
	if s, ok := v.(string); ok {
		return rfc3339(s)
	}
	f, ok := number(v)
	if !ok || math.Abs(f) > 1e11 {
		return time.Time{}, false
	}
	sec, frac := math.Modf(f)
	return time.Unix(int64(sec), int64(frac*1e9)), true
}
