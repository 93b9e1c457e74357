/*
 * look_ptrace.c: on-CPU looks by stopping the threads that are on a CPU for some microseconds
 * each. Works wherever ptrace does.
 *
 * Which threads: those whose syscall file says "running" and whose clock moved lately. Whether a
 * look carries CPU time is decided by oncpu_valid; one that does not may still show a stack.
 */
#include <stdlib.h>

#include "sample/look.h"

enum {
	REQUESTS_MAX = 64,
	BUDGET_NS = 3 * NSEC_PER_MSEC,	/* polling for one tick's arrivals, at most */
};

struct look_ptrace {
	struct look_source base;
	struct look_source_parts parts;
	uint32_t tick;
	bool tick_late;
	bool ran;
	uint64_t late_before;		/* requests older than this belonged to a late tick */
	struct capture *late[REQUESTS_MAX];	/* came after their tick was over, oldest first */
	size_t n_late;
	struct held held;
};

static void figures(const struct look_source *ls, struct look_figures *ret)
{
	const struct look_ptrace *lp = (const struct look_ptrace *)ls;

	*ret = (struct look_figures){
		.held_median = held_quantile(&lp->held, 50), .held_p99 = held_quantile(&lp->held, 99),
		.rank = tracer_rank(lp->parts.tracer),
	};
}

static int by_arrival(const void *a, const void *b)
{
	const struct capture *x = *(struct capture *const *)a, *y = *(struct capture *const *)b;

	return (x->t_arrived > y->t_arrived) - (x->t_arrived < y->t_arrived);
}

static size_t take_all(struct look_ptrace *lp, uint64_t deadline, struct capture **got)
{
	size_t n = tracer_collect(lp->parts.tracer, deadline, got, REQUESTS_MAX);

	qsort(got, n, sizeof(*got), by_arrival);
	return n;
}

/* Its m and its goroutine. */
static void say_what_is_read(const struct hold_plan *plan, struct capture_request *rq, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		rq[i].soon[0].addr = rq[i].hint[HINT_M];
		rq[i].soon[0].len = rq[i].hint[HINT_M] ? plan->m_span : 0;
		rq[i].soon[1].addr = rq[i].hint[HINT_G];
		rq[i].soon[1].len = rq[i].hint[HINT_G] ? plan->g_span : 0;
	}
}

static void begin(struct look_source *ls, uint32_t tick, bool tick_late)
{
	struct look_ptrace *lp = (struct look_ptrace *)ls;
	const struct look_source_parts *p = &lp->parts;
	struct capture_request rq[REQUESTS_MAX];
	size_t n;

	lp->tick = tick;
	lp->tick_late = tick_late;
	if (tick_late)
		lp->late_before = reader_now(p->reader);
	lp->n_late = take_all(lp, 0, lp->late);
	lp->ran = lp->n_late > 0;
	n = threads_running(p->threads, p->reader, p->tracer, rq, REQUESTS_MAX);
	lp->ran |= n > 0;
	say_what_is_read(p->plan, rq, n);
	if (n)
		tracer_capture(p->tracer, p->reader->target, rq, n, BUDGET_NS, hold_hook, (void *)p->plan);
}

static bool is_valid(const struct look_ptrace *lp, const struct capture *c)
{
	const struct arch *arch = target_arch(lp->parts.reader->target);
	const struct oncpu_facts f = {
		.t_tick = c->t_tick,
		.t_arrived = c->t_arrived,
		.in_time = c->in_time,
		.tick_late = lp->tick_late || c->t_tick < lp->late_before,
		.waits = c->regs.syscall_nr >= 0 && arch->syscall_waits(c->regs.syscall_nr),
		.before = c->before,
		.held = c->held,
	};

	return oncpu_valid(&f);
}

static void count(struct look_ptrace *lp, const struct capture *c, bool valid)
{
	struct profile *p = lp->parts.profile;

	profile_health_add(p, HEALTH_LOOKS, 1);
	profile_health_add(p, HEALTH_LOOKS_VALID, valid);
	profile_health_add(p, HEALTH_LATE_BLOCKED, c->late_blocked);
	profile_health_add(p, HEALTH_HEALED, c->healed);
	profile_health_add(p, HEALTH_NOT_ARRIVED, !c->in_time);
	profile_health_add(p, HEALTH_SIGNALS_PASSED, c->signal != 0);
	if (c->t_resumed >= c->t_arrived)
		held_add(&lp->held, c->t_resumed - c->t_arrived);
}

static struct error *take_one(struct look_ptrace *lp, const struct capture *c, bool late, look_done *done,
			      void *ctx)
{
	struct thread *th = threads_find(lp->parts.threads, c->tid);
	struct look look = { .thread = th, .capture = c, .late = late };

	if (!th)
		return NULL;
	if (c->status == CAPTURE_GONE)
		th->gone = true;
	profile_health_add(lp->parts.profile, HEALTH_BUSY, c->status == CAPTURE_BUSY);
	profile_health_add(lp->parts.profile, HEALTH_DENIED, c->status == CAPTURE_DENIED);
	if (c->status != CAPTURE_OK)
		return NULL;
	thread_clock(th, &c->held, reader_now(lp->parts.reader));
	look.oncpu = is_valid(lp, c);
	count(lp, c, look.oncpu);
	return done(ctx, &look);
}

static struct error *hand_out(struct look_ptrace *lp, struct capture **got, size_t n, bool late,
			      look_done *done, void *ctx)
{
	struct error *err = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!err)
			err = take_one(lp, got[i], late, done, ctx);
		tracer_recycle(lp->parts.tracer, got[i]);
	}
	return err;
}

static struct error *collect_late(struct look_source *ls, look_done *done, void *ctx)
{
	struct look_ptrace *lp = (struct look_ptrace *)ls;
	size_t n = lp->n_late;

	lp->n_late = 0;
	return hand_out(lp, lp->late, n, true, done, ctx);
}

static struct error *collect(struct look_source *ls, uint64_t deadline, look_done *done, void *ctx)
{
	struct look_ptrace *lp = (struct look_ptrace *)ls;
	struct capture *got[REQUESTS_MAX];
	size_t n = take_all(lp, deadline, got);

	return hand_out(lp, got, n, false, done, ctx);
}

static bool ran(const struct look_source *ls)
{
	const struct look_ptrace *lp = (const struct look_ptrace *)ls;

	return lp->ran || threads_owed(lp->parts.threads, lp->parts.tracer);
}

/*
 * What has come and was not taken yet must not be taken by the next sampler, whose target may be another
 * program with the same thread ids (exec).
 */
static void destroy(struct look_source *ls)
{
	struct look_ptrace *lp = (struct look_ptrace *)ls;
	struct capture *got[REQUESTS_MAX];
	size_t n;

	while ((n = tracer_collect(lp->parts.tracer, 0, got, REQUESTS_MAX)) > 0)
		while (n > 0)
			tracer_recycle(lp->parts.tracer, got[--n]);
	while (lp->n_late > 0)
		tracer_recycle(lp->parts.tracer, lp->late[--lp->n_late]);
	free(ls);
}

struct error *look_ptrace_create(const struct look_source_parts *parts, struct look_source **ret)
{
	struct look_ptrace *lp = calloc(1, sizeof(*lp));

	if (!lp)
		return &err_nomem;
	lp->base = (struct look_source){ .name = "ptrace stops", .begin = begin, .collect_late = collect_late,
					 .collect = collect, .ran = ran, .figures = figures,
					 .destroy = destroy };
	lp->parts = *parts;
	*ret = &lp->base;
	return NULL;
}
