package envelope

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// What links the profile to its transaction.
type profileFacts struct {
	id, transactionID, traceID, name string
	start                            time.Time
	last                             time.Duration
}

const mostDuration = 30 * time.Second

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func (c *checker) requiredObject(o object, key, path string) object {
	v, ok := o[key].(object)
	if !ok {
		c.refuse("missing", path+"."+key, "missing or no object")
	}
	return v
}

func (c *checker) requiredString(o object, key, path string) {
	if !isString(o[key]) {
		c.refuse("missing", path+"."+key, "missing or no string")
	}
}

func (c *checker) optionalString(o object, key, path string, nullTaken bool) {
	v, given := o[key]
	if given && !isString(v) && !(v == nil && nullTaken) {
		c.refuse("type", path+"."+key, "%v is no string", v)
	}
}

func (c *checker) requiredUUID(o object, key, path string) string {
	if !isUUID(o[key]) {
		c.refuse("uuid", path+"."+key, "missing or no UUID")
	}
	return plainUUID(o[key])
}

func (c *checker) checkProfile(it *item) *profileFacts {
	doc, path := it.doc, it.path+"$"
	f := &profileFacts{}
	if doc["version"] != "1" {
		c.refuse("version", path+".version", "%v, not the string \"1\"", doc["version"])
	}
	f.id = c.profileID(doc, path)
	if !isFilled(doc["platform"]) {
		c.refuse("missing", path+".platform", "missing or no string")
	}
	device := c.requiredObject(doc, "device", path)
	c.requiredString(device, "architecture", path+".device")
	system := c.requiredObject(doc, "os", path)
	c.requiredString(system, "name", path+".os")
	c.requiredString(system, "version", path+".os")
	if v, given := doc["runtime"]; given && v != nil {
		runtime := c.requiredObject(doc, "runtime", path)
		c.requiredString(runtime, "name", path+".runtime")
		c.requiredString(runtime, "version", path+".runtime")
	}
	c.optionalString(doc, "environment", path, false)
	c.optionalString(doc, "dist", path, false)
	c.optionalString(doc, "release", path, true)
	c.checkDebugMeta(doc, path)
	stamp, _ := doc["timestamp"].(string)
	var ok bool
	if f.start, ok = rfc3339(stamp); !ok {
		c.refuse("timestamp", path+".timestamp", "missing or no RFC 3339 string with a zone")
	}
	active, haveActive := c.checkTransactionLink(f, doc, path)
	data := c.requiredObject(doc, "profile", path)
	if data != nil {
		c.checkData(f, data, path+".profile", active, haveActive)
	}
	return f
}

func (c *checker) profileID(doc object, path string) string {
	_, alias := doc["profile_id"]
	_, own := doc["event_id"]
	if alias && own {
		c.refuse("alias", path, "event_id and its alias profile_id together")
	}
	if alias && !own {
		return c.requiredUUID(doc, "profile_id", path)
	}
	return c.requiredUUID(doc, "event_id", path)
}

func (c *checker) checkDebugMeta(doc object, path string) {
	v, given := doc["debug_meta"]
	if !given || v == nil {
		return
	}
	meta, _ := v.(object)
	images, ok := meta["images"].([]any)
	if !ok {
		c.refuse("debug-meta", path+".debug_meta", "no list of images")
	}
	for i, v := range images {
		image, _ := v.(object)
		switch image["type"] {
		case "macho", "symbolic", "sourcemap", "proguard":
		default:
			c.refuse("debug-meta", index(path+".debug_meta.images", i), "type %v is not known", image["type"])
		}
	}
}

func (c *checker) checkTransactionLink(f *profileFacts, doc object, path string) (uint64, bool) {
	path += ".transaction"
	link, ok := doc["transaction"].(object)
	if !ok {
		c.refuse("no-transaction", path, "missing: the profile names no transaction")
		return 0, false
	}
	f.transactionID = c.requiredUUID(link, "id", path)
	f.traceID = c.requiredUUID(link, "trace_id", path)
	f.name, _ = link["name"].(string)
	if f.name == "" {
		c.refuse("missing", path+".name", "missing, empty or no string")
	}
	for _, key := range []string{"relative_start_ns", "relative_end_ns"} {
		if v, given := link[key]; given {
			c.house("relative", path+"."+key, "%v: samples outside are deleted; leave it out", v)
		}
	}
	v, given := link["active_thread_id"]
	if !given {
		c.house("active-thread", path+".active_thread_id", "missing: the call tree stays empty")
		return 0, false
	}
	active, ok := unsignedOrDigits(v)
	if !ok {
		c.refuse("thread-id", path+".active_thread_id", "%v is no unsigned number", v)
	}
	return active, ok
}

type sample struct {
	stack, thread, at uint64
}

func (c *checker) checkData(f *profileFacts, data object, path string, active uint64, haveActive bool) {
	frames := c.list(data, "frames", path)
	c.checkFrames(frames, path)
	stacks := c.list(data, "stacks", path)
	c.checkStacks(stacks, len(frames), path)
	list := c.list(data, "samples", path)
	samples := c.readSamples(list, len(stacks), path)
	for _, s := range samples {
		if d := time.Duration(s.at); d > f.last {
			f.last = d
		}
	}
	if f.last > mostDuration {
		c.refuse("duration", path+".samples", "a sample at %v, %v is the most", f.last, mostDuration)
	}
	kept := c.survivors(samples, stacks, path)
	if len(kept) == 0 {
		c.refuse("too-few-samples", path+".samples", "no thread keeps two samples")
	} else if _, ok := kept[active]; haveActive && !ok {
		c.house("active-thread", path, "the active thread %d keeps no samples", active)
	}
	c.checkIdle(samples, stacks, path)
	c.checkThreads(data, samples, path)
}

// checkIdle looks at samples with an empty stack: the service fills them with what the stacks before and after them have
// in common, so that idle time between equal stacks is charged to them.
func (c *checker) checkIdle(samples []sample, stacks []any, path string) {
	type past struct {
		stack uint64
		idle  bool
	}
	latest := map[uint64]past{}
	for i, s := range samples {
		before, met := latest[s.thread]
		if stack, _ := stacks[s.stack].([]any); len(stack) == 0 {
			latest[s.thread] = past{before.stack, met}
			continue
		}
		if before.idle && before.stack == s.stack {
			c.house("idle-charged", index(path+".samples", i), "thread %d has this stack before and after idle time, which is charged to it", s.thread)
		}
		latest[s.thread] = past{s.stack, false}
	}
}

func (c *checker) list(o object, key, path string) []any {
	v, ok := o[key].([]any)
	if !ok {
		c.refuse("missing", path+"."+key, "missing or no list")
	}
	return v
}

func (c *checker) checkFrames(frames []any, path string) {
	type drawn struct{ filename, function, line string }
	modules := map[drawn]string{}
	for i, v := range frames {
		where := index(path+".frames", i)
		frame, ok := v.(object)
		if !ok {
			c.refuse("type", where, "no object")
			continue
		}
		c.checkFrame(frame, where)
		key := drawn{fmt.Sprint(frame["filename"]), fmt.Sprint(frame["function"]), fmt.Sprint(frame["lineno"])}
		module := fmt.Sprint(frame["module"])
		if other, taken := modules[key]; taken && other != module {
			c.house("frame-collision", where, "drawn as one with the frame of module %s", other)
		}
		modules[key] = module
	}
}

func (c *checker) checkFrame(frame object, where string) {
	for key, v := range frame {
		switch key {
		case "function", "filename", "abs_path", "module", "platform":
			if v != nil && !isString(v) {
				c.refuse("type", where+"."+key, "no string")
			}
		case "lineno", "colno":
			if _, ok := unsigned(v, 32); v != nil && !ok {
				c.refuse("type", where+"."+key, "%v is no unsigned 32-bit number", v)
			}
		case "in_app":
			if _, ok := v.(bool); v != nil && !ok {
				c.refuse("type", where+"."+key, "no boolean")
			}
		case "instruction_addr":
			c.house("frame-address", where, "an address splits one function into many")
		default:
			c.warn("frame-key", where, "%s is dropped by the service", key)
		}
	}
	if !isFilled(frame["function"]) {
		c.house("frame-function", where, "no function")
	}
	if frame["in_app"] == nil {
		c.house("frame-in-app", where, "in_app missing: taken as false")
	}
	if s, _ := frame["filename"].(string); absolute.MatchString(s) {
		c.house("frame-filename", where, "%q is absolute: that belongs in abs_path", s)
	}
	if s, _ := frame["abs_path"].(string); s != "" && !absolute.MatchString(s) {
		c.warn("frame-abs-path", where, "%q is relative", s)
	}
}

func (c *checker) checkStacks(stacks []any, frames int, path string) {
	for i, v := range stacks {
		stack, ok := v.([]any)
		if !ok {
			c.refuse("type", index(path+".stacks", i), "no list")
		}
		for k, v := range stack {
			n, ok := unsigned(v, 64)
			if !ok {
				c.refuse("type", index(index(path+".stacks", i), k), "%v is no unsigned number", v)
			} else if n >= uint64(frames) {
				c.refuse("frame-index", index(path+".stacks", i), "frame %d of %d", n, frames)
			}
		}
	}
}

// readSamples returns those that can be read.
func (c *checker) readSamples(list []any, stacks int, path string) []sample {
	samples := make([]sample, 0, len(list))
	var before uint64
	numbers, strings := false, false
	for i, v := range list {
		o, ok := v.(object)
		if !ok {
			c.refuse("type", index(path+".samples", i), "no object")
			continue
		}
		stack, okStack := unsigned(o["stack_id"], 64)
		thread, okThread := unsignedOrDigits(o["thread_id"])
		at, okAt := unsignedOrDigits(o["elapsed_since_start_ns"])
		if !okStack || !okThread || !okAt {
			c.refuse("sample", index(path+".samples", i), "stack_id %v, thread_id %v, elapsed %v: not all unsigned numbers",
				o["stack_id"], o["thread_id"], o["elapsed_since_start_ns"])
			continue
		}
		if stack >= uint64(stacks) {
			c.refuse("stack-index", index(path+".samples", i), "stack %d of %d", stack, stacks)
			continue
		}
		if at < before {
			c.house("time-order", index(path+".samples", i), "%d ns after %d ns", at, before)
		}
		before = at
		_, number := o["thread_id"].(json.Number)
		numbers, strings = numbers || number, strings || !number
		samples = append(samples, sample{stack, thread, at})
	}
	if numbers && strings {
		c.house("thread-id", path+".samples", "some ids are numbers, some are strings")
	}
	return samples
}

// survivors does what the service does: idle samples at a thread's edges go, then threads with one.
// It returns how many samples each remaining thread has.
func (c *checker) survivors(samples []sample, stacks []any, path string) map[uint64]int {
	type edges struct{ first, last int }
	active := map[uint64]edges{}
	all := map[uint64]bool{}
	for i, s := range samples {
		all[s.thread] = true
		if stack, _ := stacks[s.stack].([]any); len(stack) > 0 {
			e, met := active[s.thread]
			if !met {
				e.first = i
			}
			e.last = i
			active[s.thread] = e
		}
	}
	kept := map[uint64]int{}
	for i, s := range samples {
		if e, met := active[s.thread]; met && i >= e.first && i <= e.last {
			kept[s.thread]++
		}
	}
	for thread := range all {
		if kept[thread] < 2 {
			delete(kept, thread)
			c.warn("lone-sample", path+".samples", "thread %d keeps fewer than two samples: dropped", thread)
		}
	}
	return kept
}

func (c *checker) checkThreads(data object, samples []sample, path string) {
	path += ".thread_metadata"
	used := map[string]bool{}
	for _, s := range samples {
		used[strconv.FormatUint(s.thread, 10)] = true
	}
	v, given := data["thread_metadata"]
	table, ok := v.(object)
	if given && v != nil && !ok {
		c.refuse("type", path, "no object")
		return
	}
	for key, v := range table {
		entry, ok := v.(object)
		if !ok {
			c.refuse("type", path+"."+key, "no object")
			continue
		}
		if name, given := entry["name"]; given && name != nil && !isString(name) {
			c.refuse("type", path+"."+key+".name", "no string")
		} else if !isFilled(name) {
			c.house("thread-name", path+"."+key, "no name")
		}
		if p, given := entry["priority"]; given && p != nil {
			if _, ok := unsigned(p, 32); !ok {
				c.refuse("type", path+"."+key+".priority", "%v is no unsigned 32-bit number", p)
			}
		}
		if !used[key] {
			c.warn("thread-unused", path+"."+key, "no sample: dropped")
		}
	}
	for key := range used {
		if _, ok := table[key]; !ok {
			c.house("thread-metadata", path+"."+key, "missing for a thread with samples")
		}
	}
}

func (c *checker) checkLinks(t *transactionFacts, p *profileFacts, transaction, profile *item) {
	if profile == nil {
		if t != nil && t.profileID != "" {
			c.house("link", transaction.path+"$", "names a profile that is not in the envelope")
		}
		return
	}
	if transaction == nil {
		c.refuse("no-transaction", profile.path, "a profile without its transaction in the same envelope")
		return
	}
	if t == nil || p == nil {
		return
	}
	path := profile.path + "$"
	if p.transactionID != t.id {
		c.house("link", path+".transaction.id", "not the transaction's event_id")
	}
	if p.traceID != t.traceID {
		c.house("link", path+".transaction.trace_id", "not the transaction's trace")
	}
	if p.id != t.profileID {
		c.house("link", path+".event_id", "not the profile_id of the transaction's contexts")
	}
	if p.name != t.name {
		c.warn("link", path+".transaction.name", "not the transaction's name, which wins")
	}
	// Seconds as a number lose what is below a microsecond.
	if p.start.Sub(t.start).Abs() > time.Microsecond {
		c.house("link-time", path+".timestamp", "not the transaction's start: spans and samples are drawn apart")
	}
	if p.start.Add(p.last).After(t.end.Add(time.Millisecond)) {
		c.warn("link-time", path+".profile.samples", "samples reach past the transaction's end")
	}
}
