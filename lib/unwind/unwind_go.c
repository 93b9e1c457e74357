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
 * morestack, asmcgocall, cgocallback), sys_linux_amd64.s (sigtramp), race_amd64.s (racecall).
 */
#include "unwind/unwind_impl.h"

#include <string.h>

enum {
	SIGNALS_MAX = 2,	/* a handler can be interrupted itself, hardly more often */
	STACK_ALIGN = 8,
	C_STACK_ALIGN = 16,	/* what C wants of sp at a call */
	RACECALL_CODE_MAX = 256,
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
	[GO_FUNC_RACECALL]	= ROLE_SWITCH | ROLE_SPWRITE,
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

static bool is_named(struct walk *w, const struct go_func *f, const char *const *names, size_t n)
{
	const char *name = go_func_name(w->rt, f);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* Was the frame that was added last in gogo? */
static bool in_gogo(struct walk *w)
{
	const struct pc_frame *callee = kept_last(&w->kept, 0);
	struct go_func f;

	return callee && callee->kind != PC_NATIVE && go_func_find(w->rt, callee->pc, &f) &&
	       f.role == GO_FUNC_GOGO;
}

/*
 * Has the scheduler run since the goroutine left its stack? Then the thread's current goroutine is
 * the next one, not the one that left. Asked on the thread's own stack only: rare enough to go by
 * names.
 */
static void note_scheduler(struct walk *w, const struct go_func *f)
{
	static const char *const chooses[] = { "runtime.schedule", "runtime.execute" };
	static const char *const hands_over[] = { "runtime.coroswitch_m" };

	if (w->at.hi || w->scheduled)
		return;
	w->scheduled = is_named(w, f, chooses, 2) || (is_named(w, f, hands_over, 1) && in_gogo(w));
}

/* Where the frame at `at` ends, that is the caller's stack pointer; or 0 with w->end set. */
static gaddr_t frame_end(struct walk *w, const struct unwind_place *at, const struct go_func *f,
			 gaddr_t pc)
{
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

/* Memory has ended at `fp`: the far end of a goroutine's stack may be at hand all the same. */
static bool step_over_gap(struct walk *w)
{
	return w->at.hi ? walk_far(w) : walk_end(w, UNWIND_NO_MEMORY);
}

/* On to the caller of the frame at w->at. */
static bool step_return(struct walk *w, const struct go_func *f, gaddr_t pc, enum pc_kind kind)
{
	gaddr_t fp = frame_end(w, &w->at, f, pc);

	if (!fp)
		return false;
	if (!walk_read(w, fp - w->min_frame, &w->at.pc))
		return step_over_gap(w);
	w->at.sp = fp;
	w->at.kind = kind;
	w->at.racecall = 0;
	w->first = false;
	return true;
}

/*
 * Called on a thread's own stack (that is how the runtime makes threads through C) asmcgocall stays
 * there: it makes room, aligns sp, and keeps the old one below a zero, which stands where it keeps g
 * when it switches. Puts that sp into w->at; false: not so.
 */
static bool back_on_thread(struct walk *w, const struct go_func *f, gaddr_t pc)
{
	static const struct { int since; uint8_t room, at; } rows[] = { { 22, 16, 0 }, { 0, 64, 40 } };
	int minor = go_runtime_build(w->rt)->minor;	/* 0: unknown, so rather a new one */
	bool old_way = minor && minor < rows[0].since;
	struct unwind_place before = w->at;
	gaddr_t kept = before.sp + rows[old_way].at, fp;
	uint64_t sp, g, caller;

	if (before.hi || before.kind != PC_RETURN || !walk_read(w, kept, &sp) ||
	    !walk_read(w, kept + sizeof(sp), &g) || g || sp - before.sp - rows[old_way].room >= C_STACK_ALIGN)
		return false;
	w->at.sp = sp;
	fp = frame_end(w, &w->at, f, pc);
	if (fp && walk_read(w, fp - w->min_frame, &caller) && go_follows_call(w->rt, caller))
		return true;
	w->at = before;
	return false;
}

/*
 * The end of the thread's own stack: its frame was called on the goroutine's. When that goroutine
 * has been put aside, nothing is missing. systemstack saved a pc inside systemstack_switch, which
 * stands for the same call and is left out.
 */
static bool step_switch(struct walk *w, const struct go_func *f, gaddr_t pc, unsigned int traits)
{
	struct go_func to;

	if (traits & ROLE_PARKS && (w->start->between || w->scheduled))
		return walk_end(w, UNWIND_COMPLETE);
	if (f->role == GO_FUNC_ASMCGOCALL && back_on_thread(w, f, pc))
		return step_return(w, f, pc, PC_RETURN);
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
	const struct arch *arch = arch_host();
	const uint16_t *at = arch->dwarf_ucontext;
	uint64_t pc, sp;

	if (w->signals++ == SIGNALS_MAX)
		return walk_end(w, UNWIND_BAD_SP);
	if (!walk_read(w, context + at[arch->dwarf_pc], &pc) || !walk_read(w, context + at[arch->dwarf_sp], &sp))
		return walk_end(w, UNWIND_NO_MEMORY);
	w->at = (struct unwind_place){ .pc = pc, .sp = sp, .kind = PC_EXACT };
	/* Only a handler that interrupted racecall asks for it. */
	if (!walk_read(w, context + at[arch->dwarf_racecall], &w->at.racecall))
		w->at.racecall = 0;
	w->context = context;
	walk_set_bounds(w);
	w->first = true;
	return true;
}

/* The handler: the kernel called it, its caller's frame is the kernel's. */
static bool step_handler(struct walk *w, const struct go_func *f, gaddr_t pc)
{
	gaddr_t context = frame_end(w, &w->at, f, pc);

	return context && step_signal(w, context);
}

/*
 * The scheduler sends a goroutine on: gogo loads its stack pointer and jumps to where it left.
 * Before that the frame is an ordinary one on the thread's stack.
 */
static bool step_gogo(struct walk *w, const struct go_func *f, gaddr_t pc)
{
	const struct unwind_place *left = &w->start->goroutine;

	if (!w->at.hi)
		return step_return(w, f, pc, PC_RETURN);
	if (!w->start->resume_pc || (left->pc && left->sp != w->at.sp))
		return walk_end(w, UNWIND_SPWRITE);
	w->at.pc = w->start->resume_pc;
	w->at.kind = PC_RETURN;
	w->first = true;
	w->jumped = true;
	return true;
}

/* In the parent sp is the caller's. In the child it is the first function, and nothing called it. */
static bool step_clone(struct walk *w, const struct go_func *f, gaddr_t pc)
{
	gaddr_t fp = frame_end(w, &w->at, f, pc);
	uint64_t caller;

	if (!fp)
		return false;
	if (!walk_read(w, fp - w->min_frame, &caller))
		return walk_end(w, UNWIND_NO_MEMORY);
	if (go_call_site(w->rt, caller, f->entry) != CALL_SITE_RIGHT)
		return walk_end(w, UNWIND_COMPLETE);
	return step_return(w, f, pc, PC_RETURN);
}

static bool is_clone(struct walk *w, const struct go_func *f)
{
	static const char *const names[] = { "runtime.clone" };

	return is_named(w, f, names, 1);
}

/* They call the vDSO on the thread's stack and touch sp for nothing else. */
static bool calls_vdso(struct walk *w, const struct go_func *f)
{
	static const char *const names[] = {
		"runtime.nanotime1", "runtime.walltime", "runtime.walltime1", "time.now", "runtime.vgetrandom1",
	};

	return is_named(w, f, names, sizeof(names) / sizeof(*names));
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
	if (w->at.hi)
		return traits & ROLE_SWITCH || calls_vdso(w, f);
	/* Before they call the vDSO, and after it, they have noted so in the m. */
	return w->first && w->start->no_vdso && calls_vdso(w, f);
}

/* Does sp wait in that register when pc is about to run? The code before it tells. */
static bool racecall_kept_sp(struct walk *w, const struct go_func *f, gaddr_t pc)
{
	const struct arch *arch = arch_host();
	uint8_t code[RACECALL_CODE_MAX];
	size_t n = pc - f->entry < sizeof(code) ? pc - f->entry : sizeof(code);

	n = go_code_read(w->rt, f->entry, code, n);
	return memmem(code, n, arch->racecall_insn, arch->racecall_len);
}

/*
 * Programs built with -race call their detector on the thread's own stack; sp waits in a register. If they
 * were there before, it has been aligned at most.
 */
static bool step_racecall(struct walk *w, const struct go_func *f, gaddr_t pc)
{
	gaddr_t sp = w->at.racecall;

	if (w->first && !racecall_kept_sp(w, f, pc))
		return step_return(w, f, pc, PC_RETURN);
	if (!place_holds(&w->start->goroutine, sp) && sp - w->at.sp >= C_STACK_ALIGN)
		return walk_end(w, UNWIND_SPWRITE);
	w->at.sp = sp;
	walk_set_bounds(w);
	return step_return(w, f, pc, PC_RETURN);
}

/* A frame whose function sets sp freely. */
static bool step_spwrite(struct walk *w, const struct go_func *f, gaddr_t pc, unsigned int traits)
{
	if (f->role == GO_FUNC_RACECALL)
		return step_racecall(w, f, pc);
	if (traits & ROLE_SWITCH)
		return step_switch(w, f, pc, traits);
	if (w->first && f->role == GO_FUNC_GOGO)
		return step_gogo(w, f, pc);
	if (w->first && is_clone(w, f))
		return step_clone(w, f, pc);
	return walk_end(w, UNWIND_SPWRITE);
}

gaddr_t walk_frame_end(struct walk *w, const struct unwind_place *at, const struct go_func *f,
		       enum pc_kind *next)
{
	unsigned int traits = traits_of(f);

	if (traits & ~(unsigned int)(ROLE_KEEPS_SP | ROLE_INJECTS) || f->role == GO_FUNC_SIGRETURN)
		return 0;
	*next = traits & ROLE_INJECTS ? PC_INJECTED : PC_RETURN;
	return frame_end(w, at, f, at->pc);
}

bool walk_go(struct walk *w, const struct go_func *f, gaddr_t pc)
{
	unsigned int traits = traits_of(f);
	uint64_t gap = w->kept.gap;
	bool on;

	note_scheduler(w, f);
	if (!walk_emit(w, pc, w->at.kind))
		return false;
	if (f->role == GO_FUNC_SIGTRAMP)
		return step_handler(w, f, pc);
	/* The handler has returned into it, to a stack pointer that is the frame itself. */
	if (f->role == GO_FUNC_SIGRETURN)
		return step_signal(w, w->at.sp);
	if (traits & ROLE_SPWRITE && !spwrite_passes(w, f, traits))
		return step_spwrite(w, f, pc, traits);
	if (traits & ROLE_TOP)
		return walk_end(w, UNWIND_COMPLETE);
	/* A thread made by C on its way into Go or out of it: still, or again, on its own stack. */
	if (f->role == GO_FUNC_CGOCALLBACK && !w->at.hi && walk_own_callers_in_c(w, f, pc, &on))
		return on;
	if (!step_return(w, f, pc, traits & ROLE_INJECTS ? PC_INJECTED : PC_RETURN))
		return false;
	/* Its callers are missing with all else, when the step led over a gap. */
	return f->role != GO_FUNC_CGOCALLBACK || w->kept.gap != gap || walk_callers_in_c(w, f, pc);
}
