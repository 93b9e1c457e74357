/*
 * hold.c: what is copied while a thread is held, and nothing else: no allocation, no lock, no
 * look-up of a name. Two or three reads, a few microseconds.
 *
 *	note:   [ m ][ current g ][ mark of its labels ]
 *	views:  1. the stack at SP   2. the goroutine's own stack, when SP stands elsewhere
 *	        3. the system stack, when SP stands on the signal stack
 *
 * SP stands elsewhere when the thread is on its system stack (systemstack, mcall, morestack, the
 * vDSO, C code) or on its signal stack. Then the goroutine goes on where it was left: the vDSO
 * call's SP, the system call's, or the saved scheduler SP. Which of them holds is decided when the
 * copy is walked (lib/unwind/start.c); here the lowest of them is where the copy begins.
 */
#include <string.h>

#include "sample/sample_impl.h"

enum {
	FIRST_BYTES = 4096,	/* most stacks end within it */
	SYSTEM_BYTES = 8192,	/* of a system stack: they are small, and only joined to the goroutine's */
	TOP_BYTES = 16 * 1024,	/* of a goroutine's stack when nothing says how much is used */
};

struct hold_plan hold_plan_make(const struct reader *r)
{
	struct hold_plan plan = { .layout = *r->layout, .g_span = r->g_span, .m_span = r->m_span };

	return plan;
}

static void add_view(struct capture *c, gaddr_t low, const uint8_t *bytes, size_t len)
{
	if (len && c->n_views < CAPTURE_VIEWS)
		c->views[c->n_views++] = (struct mem_view){ .low = low, .len = len, .bytes = bytes };
}

/* The goroutine's own stack, from the lowest place where it may go on. */
static void copy_goroutine_stack(const struct target *t, struct capture *c, const struct g_look *g,
				 const struct m_look *m, size_t used)
{
	const gaddr_t candidates[] = { m->vdso_sp, g->syscall_sp, g->sched_sp };
	struct span s = { .buf = c->bytes + used };
	gaddr_t low = g->stack_hi;

	for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++)
		if (candidates[i] >= g->stack_lo && candidates[i] < low)
			low = candidates[i];
	/* A signal handler: the interrupted sp stands in its frame, to be found by the walk. */
	if (low == g->stack_hi && g->stack_hi > g->stack_lo)
		low = g->stack_hi - g->stack_lo < TOP_BYTES ? g->stack_lo : g->stack_hi - TOP_BYTES;
	s.addr = low;
	s.len = g->stack_hi - low;
	if (s.len > CAPTURE_BYTES - used)
		s.len = CAPTURE_BYTES - used;
	if (!s.len || target_read_v(t, &s, 1))
		return;
	add_view(c, low, s.buf, s.done);
}

/* The rest of a stack of which the first bytes were not all; one view with them. */
static void copy_rest(const struct target *t, struct capture *c, gaddr_t limit)
{
	struct mem_view *view = &c->views[0];
	gaddr_t next = view->low + view->len;
	struct span s = { .addr = next, .buf = c->bytes + view->len };

	if (next >= limit)
		return;
	s.len = limit - next;
	if (s.len > CAPTURE_BYTES - view->len)
		s.len = CAPTURE_BYTES - view->len;
	if (!target_read_v(t, &s, 1))
		view->len += s.done;
}

/* SP stands on the goroutine's own stack: all of that stack, and nothing beyond its end. */
static void copy_own(const struct target *t, struct capture *c, gaddr_t hi)
{
	struct mem_view *view = &c->views[0];

	if (view->len > hi - view->low)
		view->len = hi - view->low;
	else if (view->len == FIRST_BYTES)
		copy_rest(t, c, hi);
}

struct bounds {
	gaddr_t lo, hi;		/* as stack.lo and stack.hi stand in a g */
};

/* SP on the signal stack: what was interrupted may be the scheduler, on the system stack. */
static void copy_interrupted(const struct target *t, struct capture *c, const struct hold_plan *plan,
			     const struct m_look *m)
{
	struct bounds system = { 0 }, signal = { 0 };
	gaddr_t at = plan->layout.f[GO_G_STACK_LO].offset;
	struct span v[] = {
		{ .addr = m->g0 + at, .buf = &system, .len = sizeof(system) },
		{ .addr = m->gsignal + at, .buf = &signal, .len = sizeof(signal) },
	};
	struct span top = { .buf = c->bytes + c->views[0].len, .len = SYSTEM_BYTES };

	if (!m->gsignal || target_read_v(t, v, 2) || v[1].done != sizeof(signal))
		return;
	if (c->regs.sp < signal.lo || c->regs.sp >= signal.hi || system.hi < SYSTEM_BYTES)
		return;
	top.addr = system.hi - SYSTEM_BYTES;
	if (!target_read_v(t, &top, 1))
		add_view(c, top.addr, top.buf, top.done);
}

static size_t used_bytes(const struct capture *c)
{
	size_t used = 0;

	for (uint32_t i = 0; i < c->n_views; i++)
		used += c->views[i].len;
	return used;
}

static void copy_stacks(const struct target *t, const struct hold_plan *plan, struct capture *c,
			const struct m_look *m, const struct g_look *g)
{
	gaddr_t sp = c->regs.sp;

	if (g && c->n_views && sp >= g->stack_lo && sp < g->stack_hi) {
		copy_own(t, c, g->stack_hi);
		return;
	}
	if (c->n_views && c->views[0].len == FIRST_BYTES)
		copy_rest(t, c, sp + SYSTEM_BYTES);
	if (c->n_views)
		copy_interrupted(t, c, plan, m);
	if (g)
		copy_goroutine_stack(t, c, g, m, used_bytes(c));
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

void hold_hook(void *ctx, const struct target *t, const struct capture_request *rq, struct capture *c)
{
	const struct hold_plan *plan = ctx;
	struct span v[3] = {
		{ .addr = c->regs.sp, .buf = c->bytes, .len = FIRST_BYTES },
		{ .addr = rq->hint[0], .buf = c->note, .len = plan->m_span },
		{ .addr = rq->hint[1], .buf = c->note + plan->m_span, .len = plan->g_span },
	};
	struct m_look m;
	struct g_look g;

	if (plan->m_span + plan->g_span + sizeof(uint64_t) > sizeof(c->note) ||
	    target_read_v(t, v, !rq->hint[0] ? 1 : rq->hint[1] ? 3 : 2))
		return;
	add_view(c, c->regs.sp, c->bytes, v[0].done);
	if (!rq->hint[0] || v[1].done != plan->m_span)
		return;
	c->note_len = plan->m_span;
	m_parse(&plan->layout, rq->hint[0], c->note, &m);
	if (read_curg(t, plan, &m, rq->hint[1], &v[2])) {
		c->note_len += plan->g_span;
		g_parse(&plan->layout, m.curg, v[2].buf, &g);
		copy_stacks(t, plan, c, &m, &g);
		note_labels(t, plan, c, &g);
	} else {
		copy_stacks(t, plan, c, &m, NULL);
	}
}

bool hold_read(const struct hold_plan *plan, const struct capture *c, const struct thread *th,
	       struct m_look *m, struct g_look *curg, bool *has_curg)
{
	*has_curg = false;
	if (!th->m || c->note_len < plan->m_span)
		return false;
	m_parse(&plan->layout, th->m, c->note, m);
	if (!th->procid || m->procid != th->procid)
		return false;
	if (m->curg && c->note_len >= plan->m_span + plan->g_span) {
		g_parse(&plan->layout, m->curg, c->note + plan->m_span, curg);
		/* Between two goroutines m.curg may be one that has left already: the g tells. */
		*has_curg = curg->goid != 0 && curg->m == th->m;
		curg->t_before = c->t_arrived;
		curg->t_after = c->t_resumed;
	}
	return true;
}
