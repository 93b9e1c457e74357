/*
 * kept.c: which frames are kept of a stack that has more than there is room for: half of them from
 * each end, and one PC_GAP for all between. A flame graph needs the root, a reader the leaf; a
 * stack cut at one end would be another stack's prefix.
 *
 * The innermost are written in order. The rest goes round in a ring, so a walk needs no memory but
 * the caller's array, however deep the stack is.
 *
 * Must not know what a frame is.
 */
#include "unwind/unwind_impl.h"

/* The bit that tells bytes from frames in a gap's pc: no count comes near it. */
static const uint64_t in_bytes = (uint64_t)1 << 60;

enum { LEAST_FOR_TWO_ENDS = 3 };	/* a frame, the gap, a frame */

uint64_t pc_gap_frames(const struct pc_frame *f)
{
	return f->kind == PC_GAP && !(f->pc & in_bytes) ? f->pc : 0;
}

uint64_t pc_gap_bytes(const struct pc_frame *f)
{
	return f->kind == PC_GAP && f->pc & in_bytes ? f->pc & ~in_bytes : 0;
}

void kept_init(struct kept *k, struct pc_frame *out, size_t cap)
{
	*k = (struct kept){ .out = out, .cap = cap };
	k->near_max = cap < LEAST_FOR_TWO_ENDS ? cap : cap / 2;
}

static size_t ring_size(const struct kept *k)
{
	return k->cap - k->near;
}

bool kept_add(struct kept *k, gaddr_t pc, enum pc_kind kind)
{
	const struct pc_frame f = { .pc = pc, .kind = kind };

	if (!k->later && !k->gap && k->near < k->near_max) {
		k->out[k->near++] = f;
		return true;
	}
	if (k->cap < LEAST_FOR_TWO_ENDS)
		return false;
	k->out[k->near + k->later++ % ring_size(k)] = f;
	return true;
}

void kept_skip(struct kept *k, uint64_t bytes)
{
	k->later = 0;
	k->gap = in_bytes | bytes;
	if (k->cap >= LEAST_FOR_TWO_ENDS)
		kept_add(k, k->gap, PC_GAP);
}

static bool ring_is_full(const struct kept *k)
{
	return k->later > ring_size(k);
}

bool kept_has_gap(const struct kept *k)
{
	return k->gap || ring_is_full(k);
}

static void reverse(struct pc_frame *v, size_t n)
{
	for (size_t i = 0; i < n / 2; i++) {
		struct pc_frame f = v[i];

		v[i] = v[n - 1 - i];
		v[n - 1 - i] = f;
	}
}

/* The oldest in the ring makes room for the gap, and comes first. */
static void put_in_order(struct kept *k)
{
	struct pc_frame *ring = k->out + k->near;
	size_t n = ring_size(k), oldest = k->later % n;

	ring[oldest] = (struct pc_frame){ .pc = k->gap ? k->gap : k->later - n + 1, .kind = PC_GAP };
	reverse(ring, oldest);
	reverse(ring + oldest, n - oldest);
	reverse(ring, n);
}

size_t kept_finish(struct kept *k, bool whole)
{
	if (!ring_is_full(k))
		return k->near + (size_t)k->later;
	if (!whole)
		return k->near;
	put_in_order(k);
	return k->cap;
}

const struct pc_frame *kept_last(const struct kept *k, size_t i)
{
	if (i < k->later)
		return i < ring_size(k) ? &k->out[k->near + (k->later - 1 - i) % ring_size(k)] : NULL;
	i -= (size_t)k->later;
	return i < k->near ? &k->out[k->near - 1 - i] : NULL;
}
