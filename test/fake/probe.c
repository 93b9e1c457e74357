/*
 * probe.c: drives a tracer as the sampler does; see probe.h.
 */
#include "fake/probe.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "fake/child.h"

enum { PROBE_STACK = 16384, BUDGET_NS = 3 * NSEC_PER_MSEC };

static void check(struct error *err)
{
	if (!err)
		return;
	fprintf(stderr, "probe: %s: %s\n", err->what, err->why ? err->why : "");
	abort();
}

void probe_open(struct probe *p, pid_t pid)
{
	size_t n = PROBE_THREADS;

	check(target_open_live(pid, &p->target));
	check(tracer_create(&p->tracer));
	check(target_tids(p->target, p->tids, &n));
	p->n = 0;
	for (size_t i = 0; i < n && i < PROBE_THREADS; i++)
		if (!task_open(p->target, p->tids[i], &p->tasks[p->n]))
			p->tids[p->n++] = p->tids[i];
}

void probe_close(struct probe *p)
{
	tracer_destroy(p->tracer);
	for (size_t i = 0; i < p->n; i++)
		task_close(p->tasks[i]);
	target_close(p->target);
}

void probe_hook(void *ctx, const struct target *t, const struct capture_request *rq, struct capture *c)
{
	struct span s = { .addr = c->regs.sp, .buf = c->bytes, .len = PROBE_STACK };

	(void)ctx;
	(void)rq;
	if (target_read_v(t, &s, 1))
		return;
	c->views[0] = (struct mem_view){ c->regs.sp, (uint32_t)s.done, c->bytes };
	c->n_views = 1;
}

static struct capture_request request(struct task *k, uint64_t cookie)
{
	struct capture_request rq = { .task = k, .cookie = cookie,
				      .t_tick = system_clock.mono(&system_clock) };

	task_read_times(k, &rq.before);
	return rq;
}

size_t probe_ask_all(struct probe *p, uint64_t cookie)
{
	struct capture_request rq[PROBE_THREADS];

	for (size_t i = 0; i < p->n; i++)
		rq[i] = request(p->tasks[i], cookie);
	return tracer_capture(p->tracer, p->target, rq, p->n, BUDGET_NS, probe_hook, NULL);
}

bool probe_owes(struct probe *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (tracer_owes(p->tracer, p->tids[i]))
			return true;
	return false;
}

struct capture *probe_take(struct probe *p, pid_t tid, uint64_t cookie)
{
	struct capture *c;

	for (size_t i = 0; i < p->n; i++) {
		if (p->tids[i] != tid)
			continue;
		struct capture_request rq = request(p->tasks[i], cookie);
		tracer_capture(p->tracer, p->target, &rq, 1, BUDGET_NS, probe_hook, NULL);
		for (int tries = 0; tries < 1000; tries++)
			if (tracer_collect(p->tracer, system_clock.mono(&system_clock) + 10 * NSEC_PER_MSEC,
					   &c, 1))
				return c;
			else
				test_sleep_us(1000);
	}
	fprintf(stderr, "probe: no capture of %d came back\n", tid);
	abort();
}
