/*
 * perf_ring.c: see perf_ring.h. The order of a sample's parts is that of perf_event_open(2), for the
 * sample_type of perf_event.c.
 */
#include "target/perf_ring.h"

#include <linux/perf_event.h>
#include <string.h>

const uint8_t *perf_ring_bytes(const struct perf_ring *r, uint64_t at, size_t len)
{
	uint64_t from = at & (r->size - 1);

	return len <= r->size - from ? r->data + from : NULL;
}

void perf_ring_copy(const struct perf_ring *r, uint64_t at, void *buf, size_t len)
{
	uint64_t from = at & (r->size - 1), first = r->size - from < len ? r->size - from : len;

	memcpy(buf, r->data + from, first);
	memcpy((uint8_t *)buf + first, r->data, len - first);
}

/* What of a record has not been read yet. */
struct rest {
	const struct perf_ring *ring;
	uint64_t at, end;
	bool short_;		/* more was asked for than there is */
};

static uint64_t next_word(struct rest *r)
{
	uint64_t v = 0;

	if (r->end - r->at < sizeof(v)) {
		r->short_ = true;
		return 0;
	}
	perf_ring_copy(r->ring, r->at, &v, sizeof(v));
	r->at += sizeof(v);
	return v;
}

/* The size that was asked for, its bytes, and how many of them hold. */
static void parse_stack(struct rest *r, struct perf_sample *s)
{
	uint64_t len = next_word(r), held;

	if (!len || r->short_)
		return;
	if (len > r->end - r->at) {
		r->short_ = true;
		return;
	}
	s->stack_at = r->at;
	r->at += len;
	held = next_word(r);
	s->stack_len = (uint32_t)(held < len ? held : len);
}

static bool parse_sample(struct rest *r, uint64_t mask, struct perf_sample *s)
{
	uint64_t ids = next_word(r);

	s->pid = (uint32_t)ids;
	s->tid = (uint32_t)(ids >> 32);
	s->time = next_word(r);
	s->cpu = (uint32_t)next_word(r);
	s->count = next_word(r);
	s->has_regs = next_word(r) == PERF_SAMPLE_REGS_ABI_64;	/* of an ending thread there are none */
	for (int i = 0, n = __builtin_popcountll(mask); s->has_regs && i < n && i < PERF_REGS_MAX; i++)
		s->regs[i] = next_word(r);
	if (s->has_regs)
		parse_stack(r, s);
	return !r->short_;
}

void perf_ring_record(const struct perf_ring *r, uint64_t regs, struct perf_record *ret)
{
	struct perf_event_header h;
	struct rest rest = { .ring = r, .at = r->tail + sizeof(h) };
	uint64_t there = r->head - r->tail;

	*ret = (struct perf_record){ .kind = PERF_NONE, .end = r->tail };
	if (!there)
		return;
	ret->kind = PERF_BROKEN;
	ret->end = r->head;
	if (there < sizeof(h) || there > r->size)
		return;
	perf_ring_copy(r, r->tail, &h, sizeof(h));
	if (h.size < sizeof(h) || h.size % sizeof(uint64_t) || h.size > there)
		return;
	ret->end = rest.end = r->tail + h.size;
	ret->kind = PERF_OTHER;
	if (h.type == PERF_RECORD_SAMPLE) {
		ret->sample.in_kernel = (h.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
		ret->kind = parse_sample(&rest, regs, &ret->sample) ? PERF_SAMPLE : PERF_OTHER;
	} else if (h.type == PERF_RECORD_LOST) {
		next_word(&rest);	/* the event's number */
		ret->lost = next_word(&rest);
		ret->kind = rest.short_ ? PERF_OTHER : PERF_LOST;
	} else if (h.type == PERF_RECORD_THROTTLE) {
		ret->kind = PERF_THROTTLED;
	}
}
