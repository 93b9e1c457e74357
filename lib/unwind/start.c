/*
 * start.c: where a walk begins. For a goroutine that is not on a thread its status decides; for a
 * thread its registers, its m and its current goroutine, in the order in which the runtime's own
 * profiler decides: C code, vDSO, Go text, unknown.
 *
 * Status does not say who is on a CPU (a collecting thread stands on its own stack while its
 * goroutine counts as waiting): that is the caller's question, not this file's.
 *
 * Upstream: src/runtime/proc.go (sigprof), traceback.go (initAt, traceback1), runtime2.go.
 */
#include <string.h>

#include "go/pclntab.h"
#include "unwind/unwind.h"

enum start_from { START_NEVER, START_SAVED, START_SYSCALL };

static const uint8_t start_table[] = {
	[G_IDLE]	= START_NEVER,
	[G_RUNNABLE]	= START_SAVED,
	[G_RUNNING]	= START_NEVER,		/* its registers are on a thread */
	[G_SYSCALL]	= START_SYSCALL,
	[G_WAITING]	= START_SAVED,
	[G_DEAD]	= START_NEVER,
	[G_COPYSTACK]	= START_NEVER,		/* between two stacks */
	[G_PREEMPTED]	= START_SAVED,
	[G_LEAKED]	= START_SAVED,
	[G_DEADEXTRA]	= START_NEVER,
};

static bool on_stack(const struct g_look *g, gaddr_t sp)
{
	return g->stack_lo <= sp && sp < g->stack_hi;
}

/*
 * While a stack is moved one of its two bounds is old for an instant, and between them may lie anything,
 * other threads' stacks too. All stacks of goroutines have a power of two for their size.
 */
static bool bounds_hold(const struct g_look *g)
{
	gaddr_t size = g->stack_hi - g->stack_lo;

	return g->stack_lo < g->stack_hi && !(size & (size - 1));
}

static struct unwind_place place_on(const struct g_look *g, gaddr_t pc, gaddr_t sp)
{
	return (struct unwind_place){
		.pc = pc, .sp = sp, .kind = PC_RETURN, .lo = g->stack_lo, .hi = g->stack_hi,
	};
}

bool unwind_start_parked(const struct g_look *g, struct unwind_start *ret)
{
	uint8_t from = g->status < sizeof(start_table) ? start_table[g->status] : START_NEVER;
	bool syscall = from == START_SYSCALL || g->syscall_sp;
	gaddr_t pc = syscall ? g->syscall_pc : g->sched_pc;
	gaddr_t sp = syscall ? g->syscall_sp : g->sched_sp;

	if (from == START_NEVER || !pc || !on_stack(g, sp))
		return false;
	*ret = (struct unwind_start){ .at = place_on(g, pc, sp) };
	return true;
}

/*
 * Where the goroutine left its stack for the thread's own. The runtime clears sched.sp when it
 * comes back, so a value of old is not taken for one of now; nor is one of another stack.
 */
static struct unwind_place left_at(const struct g_look *curg, const struct m_look *m)
{
	if (!curg || !m || curg->m != m->m || !bounds_hold(curg))
		return (struct unwind_place){ .pc = 0 };
	if (!on_stack(curg, curg->sched_sp))
		return place_on(curg, 0, 0);	/* its bounds still tell stacks apart */
	return place_on(curg, curg->sched_pc, curg->sched_sp);
}

static bool calls_c(const struct m_look *m, const struct g_look *curg)
{
	return m && m->ncgo > 0 && curg && curg->syscall_pc && on_stack(curg, curg->syscall_sp);
}

/* Registers or vDSO entry: on the goroutine's stack or on one whose bounds nobody knows well. */
static struct unwind_place place_at(const struct g_look *curg, gaddr_t pc, gaddr_t sp, enum pc_kind kind)
{
	struct unwind_place p = { .pc = pc, .sp = sp, .kind = kind };

	if (curg && bounds_hold(curg) && on_stack(curg, sp)) {
		p.lo = curg->stack_lo;
		p.hi = curg->stack_hi;
	}
	return p;
}

bool unwind_start_thread(struct go_runtime *rt, const struct regs *r, const struct m_look *m,
			 const struct g_look *curg, struct unwind_start *ret)
{
	struct unwind_start s = {
		.goroutine = left_at(curg, m), .between = m && !curg,
		.resume_pc = curg && m && curg->m == m->m ? curg->sched_pc : 0,
		.no_vdso = m && m->vdso_known && !m->vdso_sp,
	};
	const struct arch *arch = arch_host();
	struct go_func f;
	bool go;

	if (!r->pc)
		return false;
	go = go_func_find(rt, go_pc_real(rt, r->pc), &f);
	if (calls_c(m, curg)) {
		s.in_c = true;
		s.goroutine = place_on(curg, curg->syscall_pc, curg->syscall_sp);
	}
	if (s.in_c && !go) {
		s.at = s.goroutine;
		s.native_first = true;
		s.native_pc = r->pc;
	} else if (m && m->vdso_sp && m->vdso_pc) {
		/* The pc of the caller; the registers may be anywhere between it and the vDSO. */
		s.at = place_at(curg, m->vdso_pc, m->vdso_sp, PC_RETURN);
		s.native_first = !go;
		s.native_pc = go ? 0 : r->pc;
	} else {
		s.at = place_at(curg, r->pc, r->sp, go ? PC_EXACT : PC_NATIVE);
		memcpy(&s.at.racecall, r->raw + arch->dwarf_raw[arch->dwarf_racecall], sizeof(s.at.racecall));
	}
	*ret = s;
	return true;
}
