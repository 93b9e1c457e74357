/*
 * unwind_c.c: a walk that comes to code which is no Go code: C called from Go, C threads, handlers
 * in C, the vDSO. Its frames come from native.c; here stands where the registers for it are, and
 * where the walk goes on behind it.
 *
 *	C called from Go: its last frame returns into asmcgocall, and the goroutine's own stack goes
 *		on where it was left. So what is lost in C costs one mark, never the Go part.
 *	Go called from C: below cgocallback the goroutine's stack goes on with the Go code that
 *		called C. The C functions between stand on the thread's own stack, where g0's sched.sp
 *		marks the innermost such call and the word there the next one.
 *
 * Nothing is believed half: where such a stretch does not end in what the goroutine's stack says,
 * it is taken back.
 *
 * Upstream: src/runtime/asm_amd64.s (asmcgocall, cgocallback, cgocallback_gofunc up to Go 1.15),
 * src/runtime/cgo/asm_amd64.s (crosscall2), abi_amd64.h (PUSH_REGS_HOST_TO_ABI0).
 */
#include <string.h>

#include "unwind/native.h"
#include "unwind/unwind_impl.h"

enum {
	LOWEST_CODE = 0x1000,		/* the first page is never mapped */
	C_WALKS_MAX = 32,		/* stretches of C in one stack that are walked */
	C_FRAMES_MAX = 256,		/* of one of them */
	CALLBACK_FRAMES_MAX = 4,	/* from cgocallback to crosscall2; more than one up to Go 1.15 */
};

/* User addresses of a 64-bit CPU with four levels of page tables. */
static const gaddr_t highest_code = (gaddr_t)1 << 47;

/*
 * What crosscall2 keeps for its caller in C, by the size of its frame: where from its sp on. Up to Go
 * 1.15; up to 1.21; from 1.22 on, where it pushes bp twice and the second one is its own.
 */
struct saved_row {
	int32_t frame;
	struct { uint8_t reg, at; } v[6];	/* reg: as DWARF numbers them */
};

static const struct saved_row saved_rows[] = {
	{ 0x58, { { 3, 0x18 }, { 12, 0x28 }, { 13, 0x30 }, { 14, 0x38 }, { 15, 0x40 }, { 6, 0x50 } } },
	{ 0x48, { { 3, 0x18 }, { 12, 0x20 }, { 13, 0x28 }, { 14, 0x30 }, { 15, 0x38 }, { 6, 0x40 } } },
	{ 0x50, { { 3, 0x18 }, { 12, 0x20 }, { 13, 0x28 }, { 14, 0x30 }, { 15, 0x38 }, { 6, 0x48 } } },
};

static bool is_go(void *ctx, gaddr_t pc)
{
	struct walk *w = ctx;
	struct go_func f;

	return go_func_find(w->rt, go_pc_real(w->rt, pc), &f);
}

static enum go_func_role role_at(struct walk *w, gaddr_t pc)
{
	struct go_func f;

	return go_func_find(w->rt, go_pc_real(w->rt, pc), &f) ? f.role : GO_FUNC_NORMAL;
}

/* Could there be code at pc at all? Decides between "C code" and "garbage". */
static bool plausible_code(const struct walk *w, gaddr_t pc)
{
	return pc >= LOWEST_CODE && pc < highest_code && !place_holds(&w->at, pc);
}

/* One frame for C code that could not be walked. */
static bool emit_mark(struct walk *w)
{
	return walk_emit(w, 0, PC_NATIVE);
}

/*
 * C code at w->at whose registers are not known: one frame. What C frames tell is a pc within the
 * instruction, so of a return address the byte before it.
 */
static bool emit_place(struct walk *w)
{
	return walk_emit(w, w->at.kind == PC_RETURN ? w->at.pc - 1 : w->at.pc, PC_NATIVE);
}

/* C frames one behind the other, and what came behind them. */
struct stretch {
	enum native_end end;
	struct unwind_place at;		/* on NATIVE_REACHED_GO */
	struct pc_frame v[C_FRAMES_MAX];
	size_t n;
};

static void walk_c(struct walk *w, const struct native_start *from, struct stretch *ret)
{
	ret->end = native_walk(w->start->native, from, w->mem, is_go, w, ret->v, C_FRAMES_MAX, &ret->n, &ret->at);
	w->c_walks++;
}

static bool emit_stretch(struct walk *w, const struct stretch *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (!walk_emit(w, s->v[i].pc, s->v[i].kind))
			return false;
	return true;
}

/* ---- C called from Go, and C that nothing called ---- */

/* The registers that a signal handler's frame holds. */
static bool context_regs(struct walk *w, struct dwarf_regs *ret)
{
	const struct arch *arch = arch_host();

	*ret = (struct dwarf_regs){ .known = 0 };
	for (uint32_t i = 0; i < arch->dwarf_n; i++) {
		if (!walk_read(w, w->context + arch->dwarf_ucontext[i], &ret->v[i]))
			return false;
		ret->known |= (uint32_t)1 << i;
	}
	return true;
}

/* The registers in which the code at w->at stands, where they can be known. */
static bool registers_here(struct walk *w, struct native_start *ret)
{
	*ret = (struct native_start){ .returned = false };
	if (!w->start->native || w->c_walks == C_WALKS_MAX)
		return false;
	if (w->at.kind == PC_NATIVE && w->start->regs) {
		*ret = native_start_held(w->start->regs);
		return true;
	}
	return w->at.kind == PC_EXACT && w->context && context_regs(w, &ret->regs);
}

/* On to the goroutine's own stack, if this is C code that it called; else the walk is over. */
static bool jump_or_end(struct walk *w)
{
	if (!w->start->in_c || !walk_can_jump(w))
		return walk_end(w, UNWIND_NATIVE);
	walk_jump(w);
	return true;
}

static bool go_on_in_go(struct walk *w, const struct unwind_place *at)
{
	if (w->start->in_c && walk_can_jump(w) && role_at(w, at->pc) == GO_FUNC_ASMCGOCALL) {
		walk_jump(w);
		return true;
	}
	w->at = *at;
	walk_set_bounds(w);
	w->first = at->kind == PC_EXACT;
	return true;
}

bool walk_native(struct walk *w)
{
	struct native_start from;
	struct stretch s;

	if (!plausible_code(w, w->at.pc))
		return walk_end(w, UNWIND_NO_FUNCTION);
	if (!registers_here(w, &from))
		return emit_place(w) && jump_or_end(w);
	walk_c(w, &from, &s);
	if (!emit_stretch(w, &s))
		return false;
	if (s.end == NATIVE_REACHED_GO)
		return go_on_in_go(w, &s.at);
	if (s.end == NATIVE_BOTTOM && !w->start->in_c)
		return walk_end(w, UNWIND_COMPLETE);
	return emit_mark(w) && jump_or_end(w);
}

bool walk_native_first(struct walk *w)
{
	struct native_start from = { .returned = false };
	struct stretch s;

	if (!w->start->native || !w->start->regs)
		return walk_emit(w, w->start->native_pc, PC_NATIVE);
	from = native_start_held(w->start->regs);
	walk_c(w, &from, &s);
	if (!emit_stretch(w, &s))
		return false;
	if (s.end != NATIVE_REACHED_GO)
		return emit_mark(w);
	/* A handler in C that interrupted Go code, which then called C: not the way the m says. */
	if (w->start->in_c && role_at(w, s.at.pc) != GO_FUNC_ASMCGOCALL)
		return go_on_in_go(w, &s.at);
	return true;
}

/* ---- Go called from C ---- */

/* Where the next call from C into Go stands on the thread's own stack, from the innermost on. */
static bool next_callback(struct walk *w)
{
	uint64_t sp = w->start->callbacks;

	if (w->callbacks++ && (!w->callback_sp || !walk_read(w, w->callback_sp, &sp) || sp <= w->callback_sp))
		sp = 0;
	w->callback_sp = sp;
	return sp != 0;
}

/* The caller of crosscall2, with the registers that crosscall2 keeps for it. */
static bool crosscall_caller(struct walk *w, gaddr_t sp, int32_t frame, struct native_start *ret)
{
	const struct arch *arch = arch_host();
	const struct saved_row *row = NULL;

	for (size_t i = 0; i < sizeof(saved_rows) / sizeof(*saved_rows); i++)
		if (saved_rows[i].frame == frame)
			row = &saved_rows[i];
	*ret = (struct native_start){ .returned = true };
	if (!row || !walk_read(w, sp + (gaddr_t)frame, &ret->regs.v[arch->dwarf_pc]))
		return false;
	ret->regs.v[arch->dwarf_sp] = sp + (gaddr_t)frame + w->min_frame;
	ret->regs.known = (uint32_t)1 << arch->dwarf_pc | (uint32_t)1 << arch->dwarf_sp;
	for (size_t i = 0; i < sizeof(row->v) / sizeof(*row->v); i++) {
		if (!walk_read(w, sp + row->v[i].at, &ret->regs.v[row->v[i].reg]))
			return false;
		ret->regs.known |= (uint32_t)1 << row->v[i].reg;
	}
	return true;
}

/* From cgocallback's frame on the thread's own stack to the C function that called into Go. */
static bool caller_in_c(struct walk *w, const struct go_func *f, gaddr_t pc, struct native_start *ret)
{
	gaddr_t sp = w->callback_sp;
	struct go_func at = *f;

	for (int i = 0; i <= CALLBACK_FRAMES_MAX; i++) {
		int32_t frame = at.pcsp ? go_func_spdelta(w->rt, &at, pc) : -1;

		if (frame < 0)
			return false;
		if (strcmp(go_func_name(w->rt, &at), "crosscall2") == 0)
			return crosscall_caller(w, sp, frame, ret);
		if (!walk_read(w, sp + (gaddr_t)frame, &pc) || !go_func_find(w->rt, pc, &at))
			return false;
		sp += (gaddr_t)frame + w->min_frame;
	}
	return false;
}

/* Behind C frames that were walked: on, or the end. */
static bool behind_stretch(struct walk *w, const struct stretch *s)
{
	if (s->end == NATIVE_REACHED_GO)
		return go_on_in_go(w, &s->at);
	if (s->end == NATIVE_BOTTOM)
		return walk_end(w, UNWIND_COMPLETE);
	return emit_mark(w) && walk_end(w, UNWIND_NATIVE);
}

bool walk_own_callers_in_c(struct walk *w, const struct go_func *f, gaddr_t pc, bool *on)
{
	gaddr_t before = w->callback_sp;
	struct native_start from;
	struct stretch s;

	if (!w->start->native || w->c_walks >= C_WALKS_MAX)
		return false;
	w->callback_sp = w->at.sp;
	if (!caller_in_c(w, f, pc, &from)) {
		w->callback_sp = before;
		return false;
	}
	w->callbacks++;
	walk_c(w, &from, &s);
	*on = emit_stretch(w, &s) && behind_stretch(w, &s);
	return true;
}

bool walk_callers_in_c(struct walk *w, const struct go_func *f, gaddr_t pc)
{
	/* A goroutine of a thread made by C: it begins with this call, and so does its thread in C. */
	bool first_call = role_at(w, w->at.pc) == GO_FUNC_GOEXIT;
	struct native_start from;
	struct stretch s;

	if (!w->start->native)
		return true;
	/* Behind a gap nobody knows how many such calls lie between: which of them this is. */
	if (w->kept.gap)
		return emit_mark(w);
	if (!next_callback(w) || w->c_walks >= C_WALKS_MAX || !caller_in_c(w, f, pc, &from))
		return emit_mark(w);
	walk_c(w, &from, &s);
	if (s.end == NATIVE_BOTTOM && first_call)
		return emit_stretch(w, &s) && walk_end(w, UNWIND_COMPLETE);
	if (s.end == NATIVE_REACHED_GO && !first_call && role_at(w, s.at.pc) == GO_FUNC_ASMCGOCALL)
		return emit_stretch(w, &s);
	/* Something else than the goroutine's stack says: none of it is believed. */
	if (s.end == NATIVE_BOTTOM || s.end == NATIVE_REACHED_GO)
		return emit_mark(w);
	return emit_stretch(w, &s) && emit_mark(w);
}
