/*
 * unwind.c: the walk as a whole. It keeps the output and names the ways a walk can end; a step over
 * a Go frame is in unwind_go.c, what to do outside Go code in unwind_c.c.
 *
 * A walk sees nothing but copied bytes and the program's own tables: no process, no clock. Each
 * step leads up the stack by a word at least, and a walk changes stacks a few times at most: the
 * number of bytes bounds the work, whatever they say.
 *
 * Upstream: src/runtime/traceback.go (unwinder; gentraceback before Go 1.21).
 */
#include "unwind/unwind_impl.h"

#include <string.h>

static const char *const end_names[UNWIND_END_COUNT] = {
	[UNWIND_COMPLETE]	= "complete",
	[UNWIND_GAP]		= "frames in the middle are left out",
	[UNWIND_DEPTH]		= "deeper than the limit",
	[UNWIND_NO_MEMORY]	= "its stack was not read to the end",
	[UNWIND_NO_FUNCTION]	= "a return address in no function",
	[UNWIND_NO_DELTA]	= "a frame of unknown size",
	[UNWIND_NATIVE]		= "code that is no Go code",
	[UNWIND_BAD_SP]		= "the stack pointer left the stack",
	[UNWIND_SPWRITE]	= "a function that moves the stack pointer",
	[UNWIND_NOWHERE]	= "nothing to start from",
};

const char *unwind_end_name(enum unwind_end end)
{
	return (unsigned int)end < UNWIND_END_COUNT ? end_names[end] : "unknown";
}

gaddr_t pc_frame_lookup(const struct pc_frame *f, gaddr_t entry)
{
	/* At its entry a function has not called anything yet: it has never run. */
	return f->kind == PC_RETURN && f->pc > entry ? f->pc - 1 : f->pc;
}

bool pc_frames_call(const struct pc_frame *callee, const struct pc_frame *caller)
{
	return caller->kind == PC_RETURN && callee->kind != PC_NATIVE && callee->kind != PC_GAP;
}

enum call_site unwind_call_site(struct go_runtime *rt, const struct pc_frame *callee,
				const struct pc_frame *caller)
{
	gaddr_t pc = go_pc_real(rt, callee->pc);
	struct pc_frame at = { .kind = callee->kind };
	struct go_func f;

	if (!pc_frames_call(callee, caller))
		return CALL_SITE_FREE;
	if (!go_func_find(rt, pc, &f))
		return CALL_SITE_UNKNOWN;
	at.pc = pc;
	return go_call_site(rt, go_pc_real(rt, caller->pc), pc_frame_lookup(&at, f.entry));
}

bool view_read(const struct mem_view *v, gaddr_t addr, uint64_t *ret)
{
	if (addr < v->low || v->len < sizeof(*ret) || addr - v->low > v->len - sizeof(*ret))
		return false;
	memcpy(ret, v->bytes + (addr - v->low), sizeof(*ret));
	return true;
}

bool walk_read(struct walk *w, gaddr_t addr, uint64_t *ret)
{
	for (size_t i = 0; i < w->mem->n; i++)
		if (view_read(&w->mem->views[i], addr, ret))
			return true;
	if (!w->mem->more)
		return false;
	if (view_read(&w->more, addr, ret))
		return true;
	/* Only a goroutine's stack has an end that is known. */
	if (addr < w->at.lo || addr >= w->at.hi || !w->mem->more(w->mem->ctx, addr, &w->more))
		return false;
	return view_read(&w->more, addr, ret);
}

bool walk_end(struct walk *w, enum unwind_end end)
{
	w->end = end;
	return false;
}

bool walk_emit(struct walk *w, gaddr_t pc, enum pc_kind kind)
{
	return kept_add(&w->kept, pc, kind) || walk_end(w, UNWIND_DEPTH);
}

bool walk_can_jump(const struct walk *w)
{
	const struct unwind_place *g = &w->start->goroutine;

	return !w->jumped && g->pc && !place_holds(g, w->at.sp);
}

void walk_jump(struct walk *w)
{
	w->at = w->start->goroutine;
	w->first = true;
	w->jumped = true;
}

void walk_set_bounds(struct walk *w)
{
	const struct unwind_place *g = &w->start->goroutine;
	bool on_goroutine = place_holds(g, w->at.sp);

	w->at.lo = on_goroutine ? g->lo : 0;
	w->at.hi = on_goroutine ? g->hi : 0;
}

static bool walk_step(struct walk *w)
{
	gaddr_t pc = go_pc_real(w->rt, w->at.pc);
	struct go_func f;

	if (w->at.kind == PC_NATIVE || !go_func_find(w->rt, pc, &f))
		return walk_native(w);
	return walk_go(w, &f, pc);
}

/* The frames in order, and what can be said of the end when some are missing. */
static size_t finish(struct walk *w, enum unwind_end *end)
{
	bool gap = kept_has_gap(&w->kept);

	*end = w->end;
	if (gap && w->end == UNWIND_COMPLETE)
		*end = UNWIND_GAP;
	/* What lies between two gaps helps nobody. */
	else if (gap && w->end == UNWIND_NO_MEMORY)
		*end = UNWIND_DEPTH;
	return kept_finish(&w->kept, *end != UNWIND_DEPTH);
}

size_t unwind(struct go_runtime *rt, const struct unwind_start *start,
	      const struct unwind_memory *mem, struct pc_frame *out, size_t cap, enum unwind_end *end)
{
	struct walk w = {
		.rt = rt, .start = start, .mem = mem, .at = start->at, .first = true,
		.min_frame = arch_host()->min_frame, .end = UNWIND_NOWHERE,
	};
	bool on = true;

	kept_init(&w.kept, out, cap);
	if (start->native_first)
		on = walk_native_first(&w);
	if (on && !start->at.pc)
		on = walk_end(&w, start->native_first ? UNWIND_NATIVE : UNWIND_NOWHERE);
	while (on)
		on = walk_step(&w);
	return finish(&w, end);
}
