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
	/* Held times in steps of a quarter octave from 256 ns on: exact enough for median and p99. */
	HELD_BUCKETS = 128, HELD_STEPS = 4, HELD_FIRST_BIT = 8,
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
	uint64_t held[HELD_BUCKETS], n_held;
};

static uint32_t held_bucket(uint64_t ns)
{
	uint32_t bit, step, at;

	if (ns < 1u << HELD_FIRST_BIT)
		return 0;
	bit = 63 - __builtin_clzll(ns);
	step = ns >> (bit - 2) & 3;
	at = (bit - HELD_FIRST_BIT) * HELD_STEPS + step;
	return at < HELD_BUCKETS ? at : HELD_BUCKETS - 1;
}

/* The middle of a bucket. */
static uint64_t held_value(uint32_t bucket)
{
	uint32_t bit = bucket / HELD_STEPS + HELD_FIRST_BIT;

	return ((uint64_t)1 << bit) + ((2 * ((uint64_t)bucket % HELD_STEPS) + 1) << (bit - 3));
}

static uint64_t held_quantile(const struct look_ptrace *lp, uint32_t percent)
{
	uint64_t below = 0, rank = lp->n_held * percent / 100;

	for (uint32_t i = 0; i < HELD_BUCKETS; i++) {
		below += lp->held[i];
		if (lp->n_held && below > rank)
			return held_value(i);
	}
	return 0;
}

void look_ptrace_held(const struct look_source *ls, uint64_t *median, uint64_t *p99)
{
	const struct look_ptrace *lp = (const struct look_ptrace *)ls;

	*median = held_quantile(lp, 50);
	*p99 = held_quantile(lp, 99);
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
	if (c->t_resumed >= c->t_arrived) {
		lp->held[held_bucket(c->t_resumed - c->t_arrived)]++;
		lp->n_held++;
	}
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
	lp->base = (struct look_source){ .name = "ptrace", .begin = begin, .collect_late = collect_late,
					 .collect = collect, .ran = ran, .destroy = destroy };
	lp->parts = *parts;
	*ret = &lp->base;
	return NULL;
}
