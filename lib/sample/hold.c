/*
 * hold.c: what is copied while a thread is held, and nothing else: no allocation, no lock, no
 * look-up of a name. One to three reads, a few microseconds; some more where ms wander (wandering.c).
 *
 *	note:   [ m ][ current g ][ mark of its labels ] ... [ address of that m ][ g0's sched.sp ]
 *	views:  1. the stack at SP, which may have come with the registers
 *	        2. the goroutine's own stack, when SP stands elsewhere
 *	        3. the thread's own stack, when SP stands on the signal stack, or on the goroutine's
 *	           and C functions have called into Go
 *	        4. the far end of the goroutine's stack, when it is longer than there is room
 *
 * SP stands elsewhere when the thread is on its system stack (systemstack, mcall, morestack, the
 * vDSO, C code) or on its signal stack. Then the goroutine goes on where it was left: the vDSO
 * call's SP, the system call's, or the saved scheduler SP. Which of them holds is decided when the
 * copy is walked (lib/unwind/start.c); here the lowest of them is where the copy begins. On the
 * signal stack the kernel has noted where the thread was interrupted: that holds before all others.
 *
 * C frames are larger than Go's and nothing tells how many there are: of a thread's own stack more is
 * copied where a call into C is in progress, or the thread was made by C. Threads of programs that
 * call no C are held as briefly as ever.
 */
#include <string.h>

#include "go/pclntab.h"
#include "sample/sample_impl.h"

enum {
	FIRST_BYTES = 4096,	/* most stacks end within it */
	SYSTEM_BYTES = 8192,	/* of a system stack: they are small, and only joined to the goroutine's */
	BEYOND_BYTES = 512,	/* of it above what the runtime takes for its end */
	TOP_BYTES = 16 * 1024,	/* of a goroutine's stack when nothing says how much is used */
	FAR_BYTES = 8192,	/* of the far end of one that is too long to be copied whole */
};

/* Built with -race? The programs say so since Go 1.18. */
static bool has_race_detector(struct go_runtime *rt)
{
	const struct go_build *build = rt ? go_runtime_build(rt) : NULL;
	struct go_func f;
	uint32_t pos = 0;
	char value[8];

	if (!build)
		return false;
	if (build->minor >= 18)
		return go_build_setting(build, "-race", value, sizeof(value)) && !strcmp(value, "true");
	return go_func_by_name(rt, "racecall", &pos, &f);
}

struct hold_plan hold_plan_make(const struct reader *r, bool native)
{
	/* Without ms nothing tells how much of a stack is wanted, and the thread's own is all there is. */
	struct hold_plan plan = { .layout = *r->layout, .g_span = r->g_span, .m_span = r->m_span,
				  .native = native || !r->goroutines, .race = has_race_detector(r->rt),
				  .rt = r->rt };

	return plan;
}

/* ---- which part of the thread's own stack ---- */

/* The thread's own stack, if there may be C frames on it. */
struct own_stack {
	bool wanted;
	gaddr_t end;		/* not to be read beyond */
	gaddr_t callbacks;	/* where C has called into Go, the innermost such call */
};

_Static_assert(GO_SPANS_MAX + 3 * sizeof(uint64_t) <= CAPTURE_NOTE,
	       "a note holds an m, a g, the mark of its labels, the m's address and the callbacks");

/* The words at the end of the note. */
enum { NOTED_CALLBACKS = CAPTURE_NOTE - sizeof(gaddr_t), NOTED_M = NOTED_CALLBACKS - sizeof(gaddr_t) };

static void note_word(struct capture *c, size_t at, gaddr_t v)
{
	memcpy(c->note + at, &v, sizeof(v));
}

void hold_note_m(struct capture *c, gaddr_t m)
{
	note_word(c, NOTED_CALLBACKS, 0);
	note_word(c, NOTED_M, m);
}

static gaddr_t noted_word(const struct capture *c, size_t at)
{
	gaddr_t v;

	memcpy(&v, c->note + at, sizeof(v));
	return v;
}

gaddr_t hold_read_callbacks(const struct capture *c)
{
	return noted_word(c, NOTED_CALLBACKS);
}

/*
 * Threads that Go made have a stack of known bounds; of those that C made the runtime guesses them
 * (a goroutine without a start function is theirs), and above the call into Go are C frames.
 */
static struct own_stack own_stack(const struct target *t, const struct hold_plan *plan, struct capture *c,
				  const struct m_look *m, const struct g_look *g)
{
	struct own_stack own = { .wanted = plan->native && (m->ncgo > 0 || (g && !g->startpc)) };
	struct span v[] = {
		{ .addr = m->g0 + (gaddr_t)plan->layout.f[GO_G_STACK_HI].offset, .buf = &own.end,
		  .len = sizeof(own.end) },
		{ .addr = m->g0 + (gaddr_t)plan->layout.f[GO_G_SCHED_SP].offset, .buf = &own.callbacks,
		  .len = sizeof(own.callbacks) },
	};

	if (!own.wanted)
		return own;
	if (target_read_v(t, v, 2) || v[1].done != v[1].len || (g && !g->startpc))
		own.end = UINT64_MAX;
	if (v[1].done != v[1].len)
		own.callbacks = 0;
	note_word(c, NOTED_CALLBACKS, own.callbacks);
	return own;
}

/* ---- copying ---- */

static void add_view(struct capture *c, gaddr_t low, const uint8_t *bytes, size_t len)
{
	if (len && c->n_views < CAPTURE_VIEWS)
		c->views[c->n_views++] = (struct mem_view){ .low = low, .len = len, .bytes = bytes };
}

/* [low, hi) behind the `used` bytes, at most `most` of it: all of it, or its two ends. */
static void copy_ends(const struct target *t, struct capture *c, gaddr_t low, gaddr_t hi, size_t used, size_t most)
{
	size_t room = CAPTURE_BYTES - used < most ? CAPTURE_BYTES - used : most;
	bool all = hi - low <= room;
	struct span v[2] = { { .addr = low, .buf = c->bytes + used, .len = all ? hi - low : room } };

	if (!all && room > FAR_BYTES) {
		v[0].len -= FAR_BYTES;
		v[1] = (struct span){ .addr = hi - FAR_BYTES, .buf = c->bytes + used + v[0].len, .len = FAR_BYTES };
	}
	if (!v[0].len || target_read_v(t, v, v[1].len ? 2 : 1))
		return;
	add_view(c, low, v[0].buf, v[0].done);
	if (v[1].len && v[0].done == v[0].len)
		add_view(c, v[1].addr, v[1].buf, v[1].done);
}

/*
 * Nothing says where a goroutine left its stack for the race detector: racecall keeps that in a register,
 * which C functions may have put on their stack. Lower than `low`, or that.
 */
static gaddr_t lowest_kept(const struct capture *c, const struct g_look *g, gaddr_t low)
{
	const struct arch *arch = arch_host();
	gaddr_t at;

	memcpy(&at, c->regs.raw + arch->dwarf_raw[arch->dwarf_racecall], sizeof(at));
	if (at >= g->stack_lo && at < low)
		low = at;
	for (size_t i = 0; c->n_views && i + sizeof(at) <= c->views[0].len && i < FIRST_BYTES; i += sizeof(at)) {
		memcpy(&at, c->views[0].bytes + i, sizeof(at));
		if (at >= g->stack_lo && at < low)
			low = at;
	}
	return low;
}

/* The goroutine's own stack, from the lowest place where it may go on. */
static void copy_goroutine_stack(const struct target *t, const struct hold_plan *plan, struct capture *c,
				 const struct g_look *g, const struct m_look *m, gaddr_t interrupted, size_t used)
{
	const gaddr_t candidates[] = { m->vdso_sp, g->syscall_sp, g->sched_sp };
	gaddr_t low = g->stack_hi;

	for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++)
		if (candidates[i] >= g->stack_lo && candidates[i] < low)
			low = candidates[i];
	if (interrupted >= g->stack_lo && interrupted < g->stack_hi)
		low = interrupted;
	if (plan->race)
		low = lowest_kept(c, g, low);
	/* A signal handler whose frame was not found. */
	if (low == g->stack_hi && g->stack_hi > g->stack_lo)
		low = g->stack_hi - g->stack_lo < TOP_BYTES ? g->stack_lo : g->stack_hi - TOP_BYTES;
	if (low < g->stack_hi)
		copy_ends(t, c, low, g->stack_hi, used, HOLD_STACK_BYTES);
}

/* The first view was not cut where the memory ends. */
static bool goes_on(const struct capture *c)
{
	return c->n_views && c->views[0].len >= FIRST_BYTES;
}

/* The rest of a thread's own stack of which the first bytes were not all; one view with them. */
static void copy_rest(const struct target *t, struct capture *c, gaddr_t limit)
{
	struct mem_view *view = &c->views[0];
	gaddr_t next = view->low + view->len;
	struct span s = { .addr = next, .buf = c->bytes + view->len };

	if (next >= limit)
		return;
	capture_own(c, view);
	s.len = limit - next;
	if (s.len > HOLD_STACK_BYTES - view->len)
		s.len = HOLD_STACK_BYTES - view->len;
	if (!target_read_v(t, &s, 1))
		view->len += s.done;
}

/* SP stands on the goroutine's own stack: all of that stack, and nothing beyond its end. */
static void copy_own(const struct target *t, struct capture *c, gaddr_t hi)
{
	struct mem_view *view = &c->views[0];

	if (view->len > hi - view->low)
		view->len = hi - view->low;
	else if (goes_on(c) && view->low + view->len < hi)
		copy_ends(t, c, view->low + view->len, hi, view->len, HOLD_STACK_BYTES - view->len);
}

struct bounds {
	gaddr_t lo, hi;		/* as stack.lo and stack.hi stand in a g */
};

static size_t used_bytes(const struct capture *c)
{
	size_t used = 0;

	for (uint32_t i = 0; i < c->n_views; i++)
		used += c->views[i].len;
	return used;
}

/* A part of a stack as a view of its own. */
static void copy_part(const struct target *t, struct capture *c, gaddr_t low, gaddr_t end, size_t most)
{
	size_t used = used_bytes(c);
	struct span s = { .addr = low, .buf = c->bytes + used, .len = most };

	if (low >= end)
		return;
	if (s.len > end - low)
		s.len = end - low;
	if (s.len > CAPTURE_BYTES - used)
		s.len = CAPTURE_BYTES - used;
	if (!target_read_v(t, &s, 1))
		add_view(c, low, s.buf, s.done);
}

/*
 * The sp that a signal interrupted: the kernel's frame for the handler lies in the copy, and names
 * the signal stack that it runs on. 0: not found.
 */
static gaddr_t interrupted_sp(const struct capture *c, const struct bounds *signal)
{
	const struct arch *arch = arch_host();
	const struct mem_view *v = &c->views[0];
	size_t stack = arch->ucontext_stack, sp_at = arch->dwarf_ucontext[arch->dwarf_sp];
	gaddr_t base, sp;
	uint64_t size;

	for (size_t at = 0; at + sp_at + sizeof(sp) <= v->len && at + stack + 16 + sizeof(size) <= v->len; at += 8) {
		memcpy(&base, v->bytes + at + stack, sizeof(base));
		memcpy(&size, v->bytes + at + stack + 16, sizeof(size));
		if (base != signal->lo || size != signal->hi - signal->lo)
			continue;
		memcpy(&sp, v->bytes + at + sp_at, sizeof(sp));
		return sp;
	}
	return 0;
}

/*
 * SP on the signal stack: returns where the thread was interrupted, 0 when that was not found. If
 * it was off the goroutine's stack (the scheduler, C code), the thread's own is copied from there;
 * if it was Go code called from C, for its callers. A system stack's end is known roughly: some
 * bytes more are asked for.
 */
static gaddr_t copy_interrupted(const struct target *t, struct capture *c, const struct hold_plan *plan,
				const struct m_look *m, const struct g_look *g, const struct own_stack *own)
{
	struct bounds system = { 0 }, signal = { 0 };
	gaddr_t sp, at = plan->layout.f[GO_G_STACK_LO].offset, end = own->wanted ? own->end : UINT64_MAX;
	size_t most = own->wanted ? HOLD_STACK_BYTES / 2 : SYSTEM_BYTES;	/* room for the goroutine's is left */
	struct span v[] = {
		{ .addr = m->g0 + at, .buf = &system, .len = sizeof(system) },
		{ .addr = m->gsignal + at, .buf = &signal, .len = sizeof(signal) },
	};

	if (!m->gsignal || target_read_v(t, v, 2) || v[1].done != sizeof(signal))
		return 0;
	if (c->regs.sp < signal.lo || c->regs.sp >= signal.hi || system.hi < SYSTEM_BYTES)
		return 0;
	sp = interrupted_sp(c, &signal);
	if (g && sp >= g->stack_lo && sp < g->stack_hi) {
		if (own->callbacks)
			copy_part(t, c, own->callbacks, end, most);
	} else if (sp) {
		copy_part(t, c, sp, end, most);
	} else {
		copy_part(t, c, system.hi - SYSTEM_BYTES + BEYOND_BYTES, UINT64_MAX, SYSTEM_BYTES);
	}
	return sp;
}

static void copy_stacks(const struct target *t, const struct hold_plan *plan, struct capture *c,
			const struct m_look *m, const struct g_look *g)
{
	struct own_stack own = own_stack(t, plan, c, m, g);
	gaddr_t sp = c->regs.sp, end = sp + SYSTEM_BYTES, interrupted = 0;

	if (g && c->n_views && sp >= g->stack_lo && sp < g->stack_hi) {
		copy_own(t, c, g->stack_hi);
		if (own.callbacks)
			copy_part(t, c, own.callbacks, own.end, HOLD_STACK_BYTES);
		return;
	}
	if (own.wanted)
		end = own.end > sp ? own.end : sp + HOLD_STACK_BYTES;
	if (goes_on(c))
		copy_rest(t, c, end);
	if (c->n_views)
		interrupted = copy_interrupted(t, c, plan, m, g, &own);
	if (g)
		copy_goroutine_stack(t, plan, c, g, m, interrupted, used_bytes(c));
}

/* The current goroutine's header, unless the guess was right and it is there already. */
static bool read_curg(const struct target *t, const struct hold_plan *plan, const struct m_look *m,
		      gaddr_t guess, struct span *g)
{
	if (!m->curg)
		return false;
	if (m->curg == guess && g->done == plan->g_span)
		return true;
	g->addr = m->curg;
	return !target_read_v(t, g, 1) && g->done == plan->g_span;
}

/*
 * What a label pointer leads to may be another set's as soon as the goroutine goes on: the mark
 * says later whether it still is this one's.
 */
static void note_labels(const struct target *t, const struct hold_plan *plan, struct capture *c,
			const struct g_look *g)
{
	uint64_t mark;

	if (!g->labels || go_labels_mark(&plan->layout, t, g->labels, &mark))
		return;
	memcpy(c->note + c->note_len, &mark, sizeof(mark));
	c->note_len += sizeof(mark);
}

bool hold_read_mark(const struct hold_plan *plan, const struct capture *c, uint64_t *mark)
{
	uint32_t at = plan->m_span + plan->g_span;

	if (c->note_len != at + sizeof(*mark))
		return false;
	memcpy(mark, c->note + at, sizeof(*mark));
	return true;
}

/* An m and its current goroutine. */
struct owned {
	gaddr_t at;		/* 0: none is known */
	struct m_look m;
	bool has_g;
	struct g_look g;
};

/* The m at `at`, of which all bytes stand at the note's begin, and its goroutine. */
static struct owned parse_owned(const struct target *t, const struct hold_plan *plan, struct capture *c, gaddr_t at,
				gaddr_t guess, struct span *g)
{
	struct owned o = { .at = at };

	m_parse(&plan->layout, at, c->note, &o.m);
	o.has_g = read_curg(t, plan, &o.m, guess, g);
	if (o.has_g)
		g_parse(&plan->layout, o.m.curg, g->buf, &o.g);
	return o;
}

/*
 * Does the thread hold this m? Up to Go 1.21 one that was given back still names the last thread that had
 * it, until another takes it; its goroutine, which stays with it and has no start function, is dead
 * meanwhile. (Any other one that is dead is about to leave its m.)
 */
static bool is_held(const struct go_layout *l, const struct m_look *m, const struct g_look *curg)
{
	return !curg || curg->m != m->m || curg->startpc || !go_has(l, GO_G_STARTPC) ||
	       (curg->status != G_DEAD && curg->status != G_DEADEXTRA);
}

/* Taking an m a thread writes its id first, then wakes the goroutine: still the same id, so it was this thread. */
static bool still_names(const struct target *t, const struct hold_plan *plan, gaddr_t m, uint64_t procid)
{
	uint64_t now = 0;
	struct span s = { .addr = m + (gaddr_t)plan->layout.f[GO_M_PROCID].offset, .buf = &now, .len = sizeof(now) };

	return !target_read_v(t, &s, 1) && s.done == s.len && now == procid;
}

static bool is_its_own(const struct target *t, const struct hold_plan *plan, const struct owned *o, uint64_t procid)
{
	if (!procid)
		return true;
	if (o->m.procid != procid || !is_held(&plan->layout, &o->m, o->has_g ? &o->g : NULL))
		return false;
	return !plan->wandering || !wandering_any(plan->wandering) || still_names(t, plan, o->at, procid);
}

/* The m that is the thread's now, among those that wander; it replaces in the note what was there. */
static struct owned find_wandering(const struct target *t, const struct hold_plan *plan, struct capture *c,
				   uint64_t procid, struct span *g)
{
	gaddr_t ms[WANDERING_MAX];
	size_t n = wandering_find(plan->wandering, t, &plan->layout, procid, ms);

	for (size_t i = 0; i < n; i++) {
		struct span s = { .addr = ms[i], .buf = c->note, .len = plan->m_span };
		struct owned o;

		if (target_read_v(t, &s, 1) || s.done != s.len)
			continue;
		o = parse_owned(t, plan, c, ms[i], 0, g);
		if (is_its_own(t, plan, &o, procid))
			return o;
	}
	return (struct owned){ .at = 0 };
}

/* The thread's m: the one it was thought to have, of which `done` bytes have come into the note, or another. */
static struct owned own_m(const struct target *t, const struct hold_plan *plan, const struct capture_request *rq,
			  struct capture *c, size_t done, struct span *g)
{
	uint64_t procid = rq->hint[HINT_PROCID];
	struct owned o = { .at = 0 };

	if (!rq->hint[HINT_M] || done != plan->m_span)
		return o;
	o = parse_owned(t, plan, c, rq->hint[HINT_M], rq->hint[HINT_G], g);
	if (is_its_own(t, plan, &o, procid))
		return o;
	if (!plan->wandering || !procid)
		return (struct owned){ .at = 0 };
	return find_wandering(t, plan, c, procid, g);
}

bool hold_note_fits(const struct hold_plan *plan)
{
	return plan->m_span + plan->g_span + 3 * sizeof(uint64_t) <= CAPTURE_NOTE;
}

gaddr_t hold_g_register(const struct capture *c)
{
	const struct arch *arch = arch_host();
	gaddr_t at;

	memcpy(&at, c->regs.raw + arch->dwarf_raw[arch->dwarf_g], sizeof(at));
	return at;
}

/* Has the stack at SP come with the registers, and enough of it to be of use? */
static bool has_stack(struct capture *c)
{
	if (!goes_on(c))
		c->n_views = 0;
	return c->n_views > 0;
}

void hold_hook(void *ctx, const struct target *t, const struct capture_request *rq, struct capture *c)
{
	const struct hold_plan *plan = ctx;
	struct span v[3] = {
		{ .addr = c->regs.sp, .buf = c->bytes, .len = FIRST_BYTES },
		{ .addr = rq->hint[HINT_M], .buf = c->note, .len = plan->m_span },
		{ .addr = rq->hint[HINT_G], .buf = c->note + plan->m_span, .len = plan->g_span },
	};
	size_t from = has_stack(c) ? 1 : 0, to = !rq->hint[HINT_M] ? 1 : rq->hint[HINT_G] ? 3 : 2;
	struct owned own;

	note_word(c, NOTED_CALLBACKS, 0);
	if (!hold_note_fits(plan) || (from < to && target_read_v(t, v + from, to - from)))
		return;
	if (!from)
		add_view(c, c->regs.sp, c->bytes, v[0].done);
	own = own_m(t, plan, rq, c, v[1].done, &v[2]);
	if (!own.at) {
		if (plan->native && goes_on(c))
			copy_rest(t, c, c->regs.sp + HOLD_STACK_BYTES);
		return;
	}
	note_word(c, NOTED_M, own.at);
	c->note_len = plan->m_span + (own.has_g ? plan->g_span : 0);
	copy_stacks(t, plan, c, &own.m, own.has_g ? &own.g : NULL);
	if (own.has_g)
		note_labels(t, plan, c, &own.g);
}

bool hold_read(const struct hold_plan *plan, const struct capture *c, const struct thread *th,
	       struct m_look *m, struct g_look *curg, bool *has_curg)
{
	*has_curg = false;
	if (c->note_len < plan->m_span)
		return false;
	m_parse(&plan->layout, noted_word(c, NOTED_M), c->note, m);
	if (!th->procid || m->procid != th->procid)
		return false;
	if (m->curg && c->note_len >= plan->m_span + plan->g_span) {
		g_parse(&plan->layout, m->curg, c->note + plan->m_span, curg);
		if (!is_held(&plan->layout, m, curg))
			return false;
		/* Between two goroutines m.curg may be one that has left already: the g tells. */
		*has_curg = curg->goid != 0 && curg->m == m->m;
		curg->t_before = c->t_arrived;
		curg->t_after = c->t_resumed;
	}
	return true;
}
