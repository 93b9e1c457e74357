/*
 * unwind_impl.h: one walk in progress, shared by the files of lib/unwind. Nobody outside
 * includes this.
 *
 *	unwind.c     the walk as a whole: output, native code, how it may end
 *	unwind_go.c  one step over a Go frame
 *	unwind_c.c   C code: over all its frames by native.h, or as one frame
 *	kept.c       which frames are kept of a stack with more than there is room for
 *	far.c        where frames begin at the far end of a stack whose middle is missing
 *	start.c      where to begin
 */
#ifndef GOPROF_UNWIND_UNWIND_IMPL_H
#define GOPROF_UNWIND_UNWIND_IMPL_H

#include "go/pclntab.h"
#include "unwind/unwind.h"

/* The innermost frames in order, then a ring of the outermost. */
struct kept {
	struct pc_frame *out;
	size_t cap;
	size_t near, near_max;		/* of the innermost: how many there are, and may be */
	uint64_t later;			/* frames after those; the last of them are in the ring */
	uint64_t gap;			/* the middle was not read: pc of the gap, with which the ring began */
};

void kept_init(struct kept *k, struct pc_frame *out, size_t cap);
/* False: no room, and none can be made. */
bool kept_add(struct kept *k, gaddr_t pc, enum pc_kind kind);
/* Forgets all but the innermost: the next frames come from the far end, `bytes` further up. */
void kept_skip(struct kept *k, uint64_t bytes);
/* Was a frame left out? */
bool kept_has_gap(const struct kept *k);
/* Puts all in order; how many there are. `whole` false: without the ring where a frame is missing. */
size_t kept_finish(struct kept *k, bool whole);
/* The frame that was added i frames ago (0: the last); NULL: none, or left out. */
const struct pc_frame *kept_last(const struct kept *k, size_t i);

struct walk {
	struct go_runtime *rt;
	const struct unwind_start *start;
	const struct unwind_memory *mem;
	struct mem_view more;		/* what mem->more gave last */
	struct kept kept;
	struct unwind_place at;		/* the frame that comes next */
	bool first;			/* `at` was entered from outside, not by a return */
	bool jumped;			/* gone over to the goroutine's own stack already */
	bool scheduled;			/* the scheduler has chosen another goroutine meanwhile */
	unsigned int signals;		/* signal frames passed */
	gaddr_t context;		/* the ucontext of the last one */
	unsigned int c_walks;		/* stretches of C code walked */
	unsigned int callbacks;		/* Go functions called from C that were passed, */
	gaddr_t callback_sp;		/* and where the last of them stands on the thread's own stack */
	uint32_t min_frame;		/* of the CPU: bytes of a return address */
	enum unwind_end end;
};

/* One word; false when the view does not hold all of it. */
bool view_read(const struct mem_view *v, gaddr_t addr, uint64_t *ret);
/* One word of the copied memory; false when no view holds all of it. */
bool walk_read(struct walk *w, gaddr_t addr, uint64_t *ret);

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

/*
 * Of a place on a goroutine's stack, in a function that neither ends a stack nor leaves it: where
 * the frame ends (its return address lies in the last word), and what the next pc is. 0: such a
 * function it is not.
 */
gaddr_t walk_frame_end(struct walk *w, const struct unwind_place *at, const struct go_func *f,
		       enum pc_kind *next);

/*
 * The bytes of the stack have ended before the stack did. Goes over to its far end, if that was
 * copied and frames can be found there; false, with the end set, if not.
 */
bool walk_far(struct walk *w);

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
/*
 * The same where cgocallback itself, at w->at, stands on that stack; *on: does the walk go on? False:
 * it does not stand there.
 */
bool walk_own_callers_in_c(struct walk *w, const struct go_func *f, gaddr_t pc, bool *on);

#endif
