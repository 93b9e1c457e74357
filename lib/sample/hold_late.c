/*
 * hold_late.c: the goroutine of a thread that has gone on since its registers and the top of its stack
 * were taken, as far as it can be told then.
 *
 * What is read now is of now. But the stack pointer is of then, and at any time a stack belongs to one
 * goroutine only. If it lies within the bounds of a goroutine that the thread still has, or that Go code
 * held in its register for it, that one it was. (Had it ended, and its struct and stack been given to
 * another in the some microseconds since, that other would be named.) On the system stack, in C code and in
 * the vDSO nothing tells; nor does anything tell which labels it had. Those stay unknown.
 *
 * The note is laid out as in hold.c.
 */
#include <string.h>

#include "sample/sample_impl.h"

/* Bounds and number, and the same at a second reading: not in the middle of a change. */
static bool read_owner(const struct target *t, const struct hold_plan *plan, gaddr_t at, gaddr_t sp, uint8_t *bytes,
		       struct g_look *ret)
{
	struct span v = { .addr = at, .buf = bytes, .len = plan->g_span };
	struct g_look again;
	gaddr_t size;

	if (!at || at % sizeof(gaddr_t))
		return false;
	for (struct g_look *g = &again; g; g = g == &again ? ret : NULL) {
		if (target_read_v(t, &v, 1) || v.done != v.len)
			return false;
		g_parse(&plan->layout, at, bytes, g);
	}
	size = ret->stack_hi - ret->stack_lo;
	if (!ret->goid || ret->goid != again.goid || ret->stack_lo != again.stack_lo || ret->stack_hi != again.stack_hi)
		return false;
	return !(size & (size - 1)) && sp >= ret->stack_lo && sp < ret->stack_hi;
}

static void put_word(uint8_t *bytes, const struct go_field_at *f, const void *v, size_t len)
{
	memcpy(bytes + f->offset, v, len);
}

/* Where it has left its stack for another, and whether it has at all, is of now: a walk must not go on there. */
static void forget_places(const struct hold_plan *plan, struct capture *c)
{
	static const enum go_field of_g[] = { GO_G_SCHED_SP, GO_G_SCHED_PC, GO_G_SYSCALLSP, GO_G_SYSCALLPC };
	static const enum go_field of_m[] = { GO_M_VDSOSP, GO_M_VDSOPC };
	const struct go_field_at *f = plan->layout.f;
	const gaddr_t none = 0;

	for (size_t i = 0; i < sizeof(of_g) / sizeof(*of_g); i++)
		if (f[of_g[i]].offset >= 0)
			put_word(c->note + plan->m_span, &f[of_g[i]], &none, sizeof(none));
	for (size_t i = 0; i < sizeof(of_m) / sizeof(*of_m); i++)
		if (f[of_m[i]].offset >= 0)
			put_word(c->note, &f[of_m[i]], &none, sizeof(none));
}

/* It has left the thread since; then it was running there. */
static void put_back(const struct hold_plan *plan, struct capture *c, gaddr_t m, gaddr_t g)
{
	const struct go_field_at *f = plan->layout.f;
	const uint32_t running = G_RUNNING;

	put_word(c->note, &f[GO_M_CURG], &g, sizeof(g));
	put_word(c->note + plan->m_span, &f[GO_G_M], &m, sizeof(m));
	put_word(c->note + plan->m_span, &f[GO_G_ATOMICSTATUS], &running, sizeof(running));
}

void hold_late_hook(void *ctx, const struct target *t, const struct capture_request *rq, struct capture *c)
{
	const struct hold_plan *plan = ctx;
	gaddr_t at = rq->hint[HINT_M];
	struct span v = { .addr = at, .buf = c->note, .len = plan->m_span };
	struct m_look m;
	struct g_look g;

	if (!at || !hold_note_fits(plan) || target_read_v(t, &v, 1) || v.done != v.len)
		return;
	m_parse(&plan->layout, at, c->note, &m);
	if (!m.procid || m.procid != rq->hint[HINT_PROCID])
		return;
	if (read_owner(t, plan, m.curg, c->regs.sp, c->note + plan->m_span, &g) && g.m == at) {
		c->note_len = plan->m_span + plan->g_span;
	} else if (read_owner(t, plan, hold_g_register(c), c->regs.sp, c->note + plan->m_span, &g)) {
		put_back(plan, c, at, g.g);
		c->note_len = plan->m_span + plan->g_span;
	}
	if (c->note_len)
		forget_places(plan, c);
	hold_note_m(c, c->note_len ? at : 0);
}
