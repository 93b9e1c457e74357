/*
 * unwind_go.c: one step of a walk over a Go frame.
 *
 * The frame's size is in the function table, by the exact pc, also for return addresses: the
 * caller's stack pointer is sp + size + the return address, and the word below it is the next pc.
 * Around that stand the rules for functions which leave the stack they were called on: system
 * stack switches, signal frames, and assembly that sets its stack pointer as it likes.
 *
 * Must not know where the bytes come from, nor line numbers or names for people.
 *
 * Upstream: src/runtime/traceback.go (resolveInternal, next), asm_amd64.s (systemstack, mcall,
 * morestack, asmcgocall, cgocallback), sys_linux_amd64.s (sigtramp).
 */
#include "unwind/unwind_impl.h"

#include <string.h>

enum {
	SIGNALS_MAX = 2,	/* a handler can be interrupted itself, hardly more often */
	STACK_ALIGN = 8,
	/* The interrupted registers in the kernel's signal frame, from the ucontext on. */
	UCONTEXT_SP = 160, UCONTEXT_PC = 168,
};

/* What a role means for a walk, where the flags of the table do not say it (none before Go 1.17). */
enum role_trait {
	ROLE_TOP	= 1 << 0,	/* nothing stands above it */
	ROLE_SWITCH	= 1 << 1,	/* goes from the goroutine's stack to the thread's */
	ROLE_SPWRITE	= 1 << 2,
	ROLE_KEEPS_SP	= 1 << 3,	/* flagged SPWRITE, but its frame holds on both stacks */
	ROLE_INJECTS	= 1 << 4,	/* its caller did not call it: it was interrupted */
	ROLE_PARKS	= 1 << 5,	/* a switch after which the goroutine may be put aside */
};

static const uint8_t role_traits[] = {
	[GO_FUNC_NORMAL]	= 0,
	[GO_FUNC_GOEXIT]	= ROLE_TOP,
	[GO_FUNC_MSTART]	= ROLE_TOP,
	[GO_FUNC_RT0_GO]	= ROLE_TOP,
	[GO_FUNC_SYSTEMSTACK]	= ROLE_SWITCH | ROLE_SPWRITE,
	[GO_FUNC_MCALL]		= ROLE_SWITCH | ROLE_SPWRITE | ROLE_PARKS,
	[GO_FUNC_MORESTACK]	= ROLE_SWITCH | ROLE_SPWRITE | ROLE_PARKS,
	[GO_FUNC_ASMCGOCALL]	= ROLE_SWITCH | ROLE_SPWRITE,
	[GO_FUNC_GOGO]		= ROLE_SPWRITE,
	[GO_FUNC_CGOCALLBACK]	= ROLE_KEEPS_SP,
	[GO_FUNC_SIGPANIC]	= ROLE_INJECTS,
	[GO_FUNC_ASYNC_PREEMPT]	= ROLE_INJECTS,
	[GO_FUNC_DEBUG_CALL]	= ROLE_INJECTS,
};

static unsigned int traits_of(const struct go_func *f)
{
	size_t role = (size_t)f->role;
	unsigned int t = role < sizeof(role_traits) ? role_traits[role] : 0;

	if (f->flags & GO_FUNC_TOPFRAME)
		t |= ROLE_TOP;
	if (f->flags & GO_FUNC_SPWRITE && !(t & ROLE_KEEPS_SP))
		t |= ROLE_SPWRITE;
	return t;
}

/*
 * Has the scheduler run since the goroutine left its stack? Then the thread's current goroutine is
 * the next one, not the one that left. Rare enough to go by names.
 */
static bool scheduler_ran(struct walk *w)
{
	for (size_t i = 0; i < w->n; i++) {
		struct go_func f;
		const char *name;

		if (w->out[i].kind == PC_NATIVE || !go_func_find(w->rt, w->out[i].pc, &f))
			continue;
		name = go_func_name(w->rt, &f);
		if (!strcmp(name, "runtime.schedule") || !strcmp(name, "runtime.execute"))
			return true;
	}
	return false;
}

/* The caller's stack pointer, or 0 with the end set. */
static gaddr_t caller_sp(struct walk *w, const struct go_func *f, gaddr_t pc)
{
	const struct unwind_place *at = &w->at;
	int32_t delta = f->pcsp ? go_func_spdelta(w->rt, f, pc) : -1;
	gaddr_t fp;

	w->end = UNWIND_NO_DELTA;
	if (delta < 0)
		return 0;
	w->end = UNWIND_BAD_SP;
	if (at->sp % STACK_ALIGN || delta % STACK_ALIGN)
		return 0;
	if (__builtin_add_overflow(at->sp, (gaddr_t)delta + w->min_frame, &fp))
		return 0;
	if (at->hi && (at->sp < at->lo || fp > at->hi))
		return 0;
	return fp;
}

/* On to the caller of the frame at w->at. */
static bool step_return(struct walk *w, const struct go_func *f, gaddr_t pc, enum pc_kind kind)
{
	gaddr_t fp = caller_sp(w, f, pc);

	if (!fp)
		return false;
	if (!walk_read(w, fp - w->min_frame, &w->at.pc))
		return walk_end(w, UNWIND_NO_MEMORY);
	w->at.sp = fp;
	w->at.kind = kind;
	w->first = false;
	return true;
}

/*
 * The end of the thread's own stack: its frame was called on the goroutine's. When that goroutine
 * has been put aside, nothing is missing. systemstack saved a pc inside systemstack_switch, which
 * stands for the same call and is left out.
 */
static bool step_switch(struct walk *w, unsigned int traits)
{
	struct go_func to;

	if (traits & ROLE_PARKS && (!w->start->goroutine.hi || scheduler_ran(w)))
		return walk_end(w, UNWIND_COMPLETE);
	if (!walk_can_jump(w))
		return walk_end(w, UNWIND_SPWRITE);
	walk_jump(w);
	if (!go_func_find(w->rt, w->at.pc, &to) || to.role != GO_FUNC_SYSTEMSTACK_SWITCH)
		return true;
	return step_return(w, &to, w->at.pc, PC_RETURN);
}

/* Over a frame that the kernel wrote: on to what the signal interrupted. */
static bool step_signal(struct walk *w, gaddr_t context)
{
	uint64_t pc, sp;

	if (w->signals++ == SIGNALS_MAX)
		return walk_end(w, UNWIND_BAD_SP);
	if (!walk_read(w, context + UCONTEXT_PC, &pc) || !walk_read(w, context + UCONTEXT_SP, &sp))
		return walk_end(w, UNWIND_NO_MEMORY);
	w->at = (struct unwind_place){ .pc = pc, .sp = sp, .kind = PC_EXACT };
	w->context = context;
	walk_set_bounds(w);
	w->first = true;
	return true;
}

/* The handler: the kernel called it, its caller's frame is the kernel's. */
static bool step_handler(struct walk *w, const struct go_func *f, gaddr_t pc)
{
	gaddr_t context = caller_sp(w, f, pc);

	return context && step_signal(w, context);
}

/* They call the vDSO on the thread's stack and touch sp for nothing else. */
static bool calls_vdso(struct walk *w, const struct go_func *f)
{
	static const char *const names[] = {
		"runtime.nanotime1", "runtime.walltime", "runtime.walltime1", "time.now", "runtime.vgetrandom1",
	};
	const char *name = go_func_name(w->rt, f);

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* May this frame be passed although its function sets sp freely? */
static bool spwrite_passes(struct walk *w, const struct go_func *f, unsigned int traits)
{
	/* It saved this pc and sp itself, before it touched sp. */
	if (w->first && w->at.kind == PC_RETURN)
		return true;
	/*
	 * These touch sp only to leave the goroutine's stack, and come back to the same value: as
	 * long as sp is on it, their frame holds. (Only goroutines' stacks have known bounds.)
	 */
	return w->at.hi && (traits & ROLE_SWITCH || calls_vdso(w, f));
}

bool walk_go(struct walk *w, const struct go_func *f, gaddr_t pc)
{
	unsigned int traits = traits_of(f);

	if (!walk_emit(w, pc, w->at.kind))
		return false;
	if (f->role == GO_FUNC_SIGTRAMP)
		return step_handler(w, f, pc);
	/* The handler has returned into it, to a stack pointer that is the frame itself. */
	if (f->role == GO_FUNC_SIGRETURN)
		return step_signal(w, w->at.sp);
	if (traits & ROLE_SPWRITE && !spwrite_passes(w, f, traits))
		return traits & ROLE_SWITCH ? step_switch(w, traits) : walk_end(w, UNWIND_SPWRITE);
	if (traits & ROLE_TOP)
		return walk_end(w, UNWIND_COMPLETE);
	if (!step_return(w, f, pc, traits & ROLE_INJECTS ? PC_INJECTED : PC_RETURN))
		return false;
	return f->role != GO_FUNC_CGOCALLBACK || walk_callers_in_c(w, f, pc);
}
