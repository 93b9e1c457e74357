/*
 * unwind_impl.h: one walk in progress, shared by the files of lib/unwind. Nobody outside
 * includes this.
 *
 *	unwind.c     the walk as a whole: output, native code, how it may end
 *	unwind_go.c  one step over a Go frame
 *	unwind_c.c   C code: over all its frames by native.h, or as one frame
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
	gaddr_t context;		/* the ucontext of the last one */
	unsigned int c_walks;		/* stretches of C code walked */
	unsigned int callbacks;		/* Go functions called from C that were passed, */
	gaddr_t callback_sp;		/* and where the last of them stands on the thread's own stack */
	uint32_t min_frame;		/* of the CPU: bytes of a return address */
	enum unwind_end end;
};

/* One word of the copied memory; false when no view holds all of it. */
bool walk_read(const struct walk *w, gaddr_t addr, uint64_t *ret);

/* Appends a frame; false (and the end is set) when there is no room. */
bool walk_emit(struct walk *w, gaddr_t pc, enum pc_kind kind);

static inline bool place_holds(const struct unwind_place *p, gaddr_t sp)
{
	return p->lo <= sp && sp < p->hi;
}

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

/* ---- unwind_c.c ---- */

/* The thread stands in C code or the vDSO, and where the walk goes on is known: w->at. */
bool walk_native_first(struct walk *w);
/* The walk has come to code that is in no Go function. */
bool walk_native(struct walk *w);
/*
 * Behind the Go function f at pc, cgocallback, stand the C functions that called it, on the thread's
 * own stack; w->at is already where the goroutine itself goes on.
 */
bool walk_callers_in_c(struct walk *w, const struct go_func *f, gaddr_t pc);

#endif
