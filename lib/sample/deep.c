/*
 * deep.c: one stack that is too long to be read together with others. The walk itself asks for the
 * next piece, so memory is bounded however deep the stack is, and a walk that ends early has not
 * read for nothing. Beyond a limit only the two ends are read; where frames begin at the far end is
 * lib/unwind's question (far.c).
 *
 * Whether the goroutine stood still meanwhile is the caller's question (stacks.c).
 */
#include "sample/sample_impl.h"

enum {
	PIECE_BYTES = 192 * 1024,
	FAR_BYTES = 32 * 1024,		/* behind the pieces in the buffer */
};

_Static_assert(PIECE_BYTES + FAR_BYTES <= DEEP_BUFFER, "the buffer holds a piece and the far end");

struct pieces {
	const struct reader *r;
	uint8_t *buffer;
	gaddr_t end;			/* nothing is read beyond */
	struct error *err;		/* fatal */
};

bool read_piece(const struct target *t, gaddr_t addr, uint8_t *buf, size_t len, struct mem_view *ret,
		struct error **err)
{
	struct span s = { .addr = addr, .buf = buf, .len = len };

	if (*err)
		return false;
	*err = target_read_v(t, &s, 1);
	if (*err || !s.done)
		return false;
	*ret = (struct mem_view){ .low = addr, .len = s.done, .bytes = buf };
	return true;
}

/* unwind_more */
static bool next_piece(void *ctx, gaddr_t addr, struct mem_view *ret)
{
	struct pieces *p = ctx;
	uint64_t left = addr < p->end ? p->end - addr : 0;

	return left && read_piece(p->r->target, addr, p->buffer, left < PIECE_BYTES ? left : PIECE_BYTES, ret,
				  &p->err);
}

struct error *deep_walk(const struct reader *r, const struct unwind_start *start, uint64_t most,
			uint8_t *buffer, struct pc_frame *out, uint32_t depth, size_t *n,
			enum unwind_end *end)
{
	const gaddr_t hi = start->at.hi;
	struct pieces p = { .r = r, .buffer = buffer, .end = hi };
	struct mem_view far = { .len = 0 };
	struct unwind_memory mem = { .views = &far, .n = 0, .more = next_piece, .ctx = &p };

	if (hi - start->at.sp > most) {
		p.end = start->at.sp + STACK_BATCH_MAX;
		mem.n = read_piece(r->target, hi - FAR_BYTES, buffer + PIECE_BYTES, FAR_BYTES, &far, &p.err);
	}
	*n = unwind(r->rt, start, &mem, out, depth, end);
	/* Cut on purpose, and no way to tell where frames begin at the far end. */
	if (*end == UNWIND_NO_MEMORY && p.end != hi)
		*end = UNWIND_DEPTH;
	return p.err;
}
