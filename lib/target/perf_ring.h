/*
 * perf_ring.h: the records in a ring that the kernel fills for a perf event. Bytes in, values out; what a
 * record says about its own size is not believed before it is compared with what there is.
 *
 * Upstream text: perf_event_open(2), "MMAP layout"; include/uapi/linux/perf_event.h.
 */
#ifndef GOPROF_TARGET_PERF_RING_H
#define GOPROF_TARGET_PERF_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/arch.h"

/* The data part of a ring; positions only rise and wrap at `size`, a power of two. */
struct perf_ring {
	const uint8_t *data;
	uint64_t size;
	uint64_t head, tail;	/* what lies between them is there to be read */
};

enum perf_kind {
	PERF_NONE,		/* the ring is empty */
	PERF_SAMPLE,
	PERF_LOST,		/* the ring was full: so many records did not fit */
	PERF_THROTTLED,		/* the kernel took fewer samples for a while */
	PERF_OTHER,
	PERF_BROKEN,		/* it cannot be told where the next record begins: all has been passed over */
};

struct perf_sample {
	uint32_t pid, tid;	/* in the pid namespace of who opened the event */
	uint32_t cpu;
	uint64_t time;		/* ns, of the clock that the event was opened with */
	uint64_t count;		/* what the event had counted: ns on a CPU */
	bool in_kernel;
	bool has_regs;
	uint64_t regs[PERF_REGS_MAX];	/* in the order of the bits of the mask */
	uint64_t stack_at;	/* ring position of the stack's bytes; the first is the one at SP */
	uint32_t stack_len;	/* that hold: 0 when there are none */
};

struct perf_record {
	enum perf_kind kind;
	uint64_t end;		/* ring position behind it: the tail once it has been used */
	uint64_t lost;		/* of PERF_LOST */
	struct perf_sample sample;	/* of PERF_SAMPLE */
};

/*
 * The record at the tail. `regs`: the mask that the event was opened with. A sample that does not hold
 * what was asked for, or is longer than it may be, is PERF_OTHER.
 */
void perf_ring_record(const struct perf_ring *r, uint64_t regs, struct perf_record *ret);
/* Where the bytes at a position stand, until the tail goes on; NULL: they go across the ring's end. */
const uint8_t *perf_ring_bytes(const struct perf_ring *r, uint64_t at, size_t len);
/* Bytes at a position, across the ring's end. */
void perf_ring_copy(const struct perf_ring *r, uint64_t at, void *buf, size_t len);

#endif
