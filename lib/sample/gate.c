/*
 * gate.c: has anything run in the process since the last tick? If not, every goroutine is where it was,
 * and the tick is over before it has begun. A process that waits costs next to nothing then, however
 * many goroutines it has. Before that all of them must have been looked at since something ran: by one round
 * that began when nothing did.
 *
 * No single witness is enough. No thread may be on a CPU now, nor at the last look. The process clock
 * stands still while a thread runs, until the kernel's next scheduler tick: so that must come more often
 * than ours. A thread that began after the last look and has not been charged yet holds a P: so all Ps
 * must be idle. What remains is C code of threads that are not Go's and that ran between two ticks, and
 * the next tick finds its time on the clock.
 *
 * Upstream: src/runtime/proc.go (pidleput, procresize), runtime2.go (schedt.npidle).
 */
#include "sample/sampler_impl.h"

void gate_init(struct gate *g, const struct reader *r, uint64_t period)
{
	*g = (struct gate){
		.usable = r->goroutines && (go_runtime_caps(r->rt) & GO_CAP_SCHED) &&
			  go_has(r->layout, GO_SCHED_NPIDLE) &&
			  go_runtime_globals(r->rt)[GO_GOMAXPROCS].addr && target_cpu_step(r->target) < period,
	};
}

static bool all_ps_idle(const struct reader *r)
{
	const struct go_global_at *globals = go_runtime_globals(r->rt);
	uint32_t idle = 0, all = 0;
	struct span v[] = {
		{ .addr = globals[GO_SCHED].addr + (gaddr_t)r->layout->f[GO_SCHED_NPIDLE].offset, .buf = &idle,
		  .len = sizeof(idle) },
		{ .addr = globals[GO_GOMAXPROCS].addr, .buf = &all, .len = sizeof(all) },
	};
	struct error *err = target_read_v(r->target, v, 2);

	error_free(err);
	return !err && v[0].done == v[0].len && v[1].done == v[1].len && all && idle == all;
}

bool gate_stood_still(struct gate *g, const struct reader *r)
{
	uint64_t before = g->cpu_ns;

	g->still = g->usable && target_cpu_ns(r->target, &g->cpu_ns) && g->cpu_ns == before;
	return g->still;
}

/* The clock was read first: what began to run behind that has moved it by the next tick, or is seen there. */
bool gate_is_shut(struct gate *g, const struct reader *r, bool runs)
{
	bool was_idle = g->idle;

	g->idle = g->usable && !runs && all_ps_idle(r);
	if (!g->idle || !was_idle || !g->still)
		g->valid = g->all_seen = false;
	return g->all_seen;
}

void gate_note(struct gate *g, const struct gate_tick *t)
{
	if (t->ran)
		g->idle = false;
	if (t->round_began)
		g->valid = g->idle;
	if (t->ran || t->put_off)
		g->valid = g->all_seen = false;
	if (t->round_ended && g->valid)
		g->all_seen = true;
}
