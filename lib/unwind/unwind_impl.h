/*
 * unwind_impl.h: one walk in progress, shared by the files of lib/unwind. Nobody outside
 * includes this.
 *
 *	unwind.c     the walk as a whole: output, native code, how it may end
 *	unwind_go.c  one step over a Go frame
 *	start.c      where to begin
 */
#ifndef GOPROF_UNWIND_UNWIND_IMPL_H
#define GOPROF_UNWIND_UNWIND_IMPL_H

#include "go/pclntab.h"
#include "unwind/unwind.h"

struct walk {
	struct go_runtime *rt;
	const struct unwind_start *start;
	const struct unwind_memory *mem;
	struct pc_frame *out;
	size_t cap, n;
	struct unwind_place at;		/* the frame that comes next */
	bool first;			/* `at` was entered from outside, not by a return */
	bool jumped;			/* gone over to the goroutine's own stack already */
	unsigned int signals;		/* signal frames passed */
	uint32_t min_frame;		/* of the CPU: bytes of a return address */
	enum unwind_end end;
};

/* One word of the copied memory; false when no view holds all of it. */
bool walk_read(const struct walk *w, gaddr_t addr, uint64_t *ret);

/* Appends a frame; false (and the end is set) when there is no room. */
bool walk_emit(struct walk *w, gaddr_t pc, enum pc_kind kind);

/* Ends the walk: always false, so that a step can `return walk_end(...)`. */
bool walk_end(struct walk *w, enum unwind_end end);

/* Is the walk off the goroutine's stack, and is there a place on it to go on at? */
bool walk_can_jump(const struct walk *w);
/* Goes over to the goroutine's own stack. */
void walk_jump(struct walk *w);
/* The stack that sp points into, as far as its bounds are known. */
void walk_set_bounds(struct walk *w);

/* Passes the Go frame at w->at; false when the walk has ended there. */
bool walk_go(struct walk *w, const struct go_func *f, gaddr_t pc);

#endif
