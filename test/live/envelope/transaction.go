package envelope

import "time"

// What the profile must agree with.
type transactionFacts struct {
	id, traceID, profileID string
	name                   string
	start, end             time.Time
}

var statuses = map[string]bool{
	"ok": true, "cancelled": true, "unknown": true, "unknown_error": true, "invalid_argument": true,
	"deadline_exceeded": true, "not_found": true, "already_exists": true, "permission_denied": true,
	"resource_exhausted": true, "failed_precondition": true, "aborted": true, "out_of_range": true,
	"unimplemented": true, "internal_error": true, "unavailable": true, "data_loss": true,
	"unauthenticated": true, "error": true,
}

func (c *checker) checkTransaction(it *item, header object) *transactionFacts {
	doc, path := it.doc, it.path+"$"
	f := &transactionFacts{}
	if doc["type"] != "transaction" {
		c.house("event-type", path+".type", "%v, not \"transaction\"", doc["type"])
	}
	f.id = c.eventID(doc, header, path)
	c.transactionTimes(f, doc, path)
	f.name, _ = doc["transaction"].(string)
	if v, given := doc["transaction"]; given && v != nil && !isString(v) {
		c.refuse("type", path+".transaction", "no string")
	} else if f.name == "" {
		c.house("transaction-name", path+".transaction", "missing or empty")
	}
	for _, key := range []string{"platform", "release", "environment", "dist", "server_name"} {
		c.optionalString(doc, key, path, true)
	}
	sdk, _ := doc["sdk"].(object)
	if !isFilled(sdk["name"]) || !isFilled(sdk["version"]) {
		c.house("sdk", path+".sdk", "no name and version: the profile may be filtered as of a deprecated SDK")
	}
	c.checkContexts(f, doc, path)
	c.checkSpans(f, doc, path)
	return f
}

func isString(v any) bool {
	_, ok := v.(string)
	return ok
}

func isFilled(v any) bool {
	s, ok := v.(string)
	return ok && s != ""
}

// eventID: the header's wins.
func (c *checker) eventID(doc, header object, path string) string {
	own, given := doc["event_id"]
	if !given {
		c.house("event-id", path+".event_id", "missing")
	} else if !isUUID(own) {
		c.refuse("uuid", path+".event_id", "%v is no UUID", own)
	}
	outer := header["event_id"]
	if isUUID(outer) {
		if isUUID(own) && plainUUID(own) != plainUUID(outer) {
			c.house("event-id", path+".event_id", "not the one of the envelope, which wins")
		}
		return plainUUID(outer)
	}
	return plainUUID(own)
}

func (c *checker) transactionTimes(f *transactionFacts, doc object, path string) {
	var haveStart, haveEnd bool
	if f.start, haveStart = eventTime(doc["start_timestamp"]); !haveStart {
		c.refuse("timestamp", path+".start_timestamp", "missing or no time")
	}
	if f.end, haveEnd = eventTime(doc["timestamp"]); !haveEnd {
		c.refuse("timestamp", path+".timestamp", "missing or no time")
	}
	if haveStart && haveEnd && f.end.Before(f.start) {
		c.refuse("time-order", path+".timestamp", "ends before it starts")
	}
}

func (c *checker) checkContexts(f *transactionFacts, doc object, path string) {
	contexts, ok := doc["contexts"].(object)
	if !ok {
		c.refuse("missing", path+".contexts", "missing or no object")
		return
	}
	trace, ok := contexts["trace"].(object)
	if !ok {
		c.refuse("missing", path+".contexts.trace", "missing or no object")
	} else {
		if f.traceID = plainUUID(trace["trace_id"]); !isUUID(trace["trace_id"]) {
			c.refuse("uuid", path+".contexts.trace.trace_id", "missing or no UUID")
		}
		if !isSpanID(trace["span_id"]) {
			c.refuse("span-id", path+".contexts.trace.span_id", "missing or not 16 hex digits")
		}
		if s, given := trace["status"]; given {
			if name, _ := s.(string); !statuses[name] {
				c.house("status", path+".contexts.trace.status", "%v is no status", s)
			}
		}
		if op, given := trace["op"]; given && !isString(op) {
			c.house("type", path+".contexts.trace.op", "no string")
		}
	}
	profile, _ := contexts["profile"].(object)
	f.profileID = plainUUID(profile["profile_id"])
	if v, given := profile["profile_id"]; given && !isUUID(v) {
		c.house("uuid", path+".contexts.profile.profile_id", "no UUID: the service clears it")
	}
}

// checkSpans: one bad span refuses the transaction, and the profile with it.
func (c *checker) checkSpans(f *transactionFacts, doc object, path string) {
	v, given := doc["spans"]
	if !given || v == nil {
		return
	}
	spans, ok := v.([]any)
	if !ok {
		c.refuse("type", path+".spans", "no list")
		return
	}
	if len(spans) > 1000 {
		c.house("span-count", path+".spans", "%d; clients stop at 1000", len(spans))
	}
	for i, v := range spans {
		where := index(path+".spans", i)
		span, ok := v.(object)
		if !ok {
			c.refuse("span", where, "no object")
			continue
		}
		if !isSpanID(span["span_id"]) || !isUUID(span["trace_id"]) {
			c.refuse("span", where, "span_id or trace_id missing or malformed")
		} else if plainUUID(span["trace_id"]) != f.traceID {
			c.house("span", where+".trace_id", "not the transaction's trace")
		}
		start, haveStart := eventTime(span["start_timestamp"])
		end, haveEnd := eventTime(span["timestamp"])
		if !haveStart || !haveEnd {
			c.refuse("span", where, "start_timestamp or timestamp missing or no time")
		} else if end.Before(start) {
			c.refuse("span", where, "ends before it starts")
		} else if start.Before(f.start) || end.After(f.end) {
			c.house("span", where, "reaches out of the transaction")
		}
	}
}
