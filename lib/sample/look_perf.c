/*
 * look_perf.c: on-CPU looks by perf events, see target/perf.h. No thread is stopped.
 *
 * A sample stands for a period of its thread's own CPU time, so all of them are valid looks; when they
 * come has nothing to do with the ticks. One counts for the tick at which it is taken out, and replaces
 * what that tick would read of its goroutine: so a goroutine that is on a CPU for a tenth of the time is
 * shown there for a tenth of the ticks. A thread that runs all the time has no sample in some ticks: as
 * long as it runs what it ran, it goes on as it was last seen.
 *
 * A watched thread costs a descriptor per CPU, and each sample of any thread some time: the kernel wakes
 * whoever might wait for an event of that CPU's ring, one by one. All threads are watched while they are
 * few; where there are many, only those that have used a CPU lately. What cannot be watched is counted; its
 * time is told as [unseen].
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "sample/look.h"
#include "target/perf.h"

enum {
	LOOKS_MAX = 256,		/* taken out per tick; what is more waits for the next */
	RUNNING_MAX = 256,
	ALL_MOST = 48,			/* as long as there are no more, threads are watched whether they run or not */
};

/* Where there are many threads: without CPU time for so long one is given up. */
static const uint64_t cold_ns = 5ull * NSEC_PER_SEC;
static const uint64_t hot_ns = NSEC_PER_SEC;
static const uint64_t retry_ns = NSEC_PER_SEC;

struct watched {
	pid_t tid;
	struct perf_watch *watch;
	gaddr_t m;			/* as its hints say */
	uint64_t procid;
};

struct look_perf {
	struct look_source base;
	struct look_source_parts parts;
	struct perf *perf;
	struct watched *v;
	uint32_t n, cap;
	struct map64 by_tid;		/* -> index in v */
	uint64_t refused_at;		/* when an event was refused; 0: none was lately */
	bool told;			/* which cause it had */
	struct perf_look *looks[LOOKS_MAX];
	size_t n_looks;
	struct capture_request running[RUNNING_MAX];
	size_t n_running;
	struct held held;
};

/* ---- hooks, in the readers ---- */

/* Go code has its goroutine in a register: a good guess. */
static void held_hook(void *plan, const struct target *t, const struct capture_request *rq, struct capture *c)
{
	struct capture_request guessed = *rq;

	guessed.hint[HINT_G] = hold_g_register(c);
	hold_hook(plan, t, &guessed, c);
	hold_keep_labels(plan, t, c);
}

/* ---- which threads are watched ---- */

static struct perf_hints hints_of(const struct thread *th)
{
	return (struct perf_hints){ .v = { [HINT_M] = th->m, [HINT_PROCID] = th->procid } };
}

static struct error *watch(struct look_perf *lp, struct thread *th)
{
	const struct perf_hints hints = hints_of(th);
	struct watched *w;
	struct error *err = array_reserve(&lp->v, &lp->cap, lp->n + 1, sizeof(*lp->v));

	if (err)
		return err;
	w = &lp->v[lp->n];
	*w = (struct watched){ .tid = th->tid, .m = th->m, .procid = th->procid };
	err = perf_watch_thread(lp->perf, th->tid, &hints, &w->watch);
	if (err)
		return err;
	err = map64_put(&lp->by_tid, (uint64_t)th->tid, lp->n);
	if (err) {
		perf_unwatch(lp->perf, w->watch);
		return err;
	}
	lp->n++;
	return NULL;
}

static void unwatch(struct look_perf *lp, uint32_t i)
{
	struct watched *last = &lp->v[--lp->n];

	perf_unwatch(lp->perf, lp->v[i].watch);
	map64_del(&lp->by_tid, (uint64_t)lp->v[i].tid);
	lp->v[i] = *last;
	if (i < lp->n)
		error_free(map64_put(&lp->by_tid, (uint64_t)last->tid, i));	/* replaces: needs no memory */
}

static bool is_cold(const struct thread *th, uint64_t now, uint64_t ns)
{
	return now - th->moved_at >= ns;
}

/* Those that have ended, or keep the place of others; what is known of the rest is told to the readers. */
static void review(struct look_perf *lp, uint64_t now)
{
	uint64_t limit = lp->refused_at || lp->parts.threads->n > ALL_MOST ? cold_ns : UINT64_MAX;

	for (uint32_t i = 0; i < lp->n;) {
		struct watched *w = &lp->v[i];
		const struct thread *th = threads_find(lp->parts.threads, w->tid);

		if (!th || th->gone || is_cold(th, now, limit)) {
			unwatch(lp, i);
			continue;
		}
		if (w->m != th->m || w->procid != th->procid) {
			const struct perf_hints hints = hints_of(th);

			w->m = th->m;
			w->procid = th->procid;
			perf_set_hints(lp->perf, w->watch, &hints);
		}
		i++;
	}
}

/* No more can be had: what there is goes on. */
static bool is_limit(const struct error *err)
{
	return err->kind == ERROR_DENIED || err->kind == ERROR_FACILITY;
}

static void refused(struct look_perf *lp, const struct error *err, uint64_t now)
{
	lp->refused_at = now;
	if (!lp->told)
		log_info("looks", "not all threads can be watched: %s", err->what);
	lp->told = true;
}

/* Watches who is not yet. An error is one that every thread would meet, or memory. */
static struct error *watch_new(struct look_perf *lp, uint64_t now)
{
	struct threads *ts = lp->parts.threads;
	bool many = ts->n > ALL_MOST;
	struct error *err = NULL;

	if (lp->refused_at && now - lp->refused_at < retry_ns)
		return NULL;
	lp->refused_at = 0;
	for (uint32_t i = 0; !err && i < ts->n; i++) {
		struct thread *th = ts->v[i];

		if (th->gone || map64_get(&lp->by_tid, (uint64_t)th->tid) != MAP_NONE)
			continue;
		if (many && (!th->ran || is_cold(th, now, hot_ns)))
			continue;
		err = watch(lp, th);
		if (err == &err_gone)
			err = NULL;
	}
	if (err && is_limit(err))
		refused(lp, err, now);
	return err;
}

/* How many that run are not watched. */
static uint64_t count_unwatched(const struct look_perf *lp)
{
	uint64_t n = 0;

	for (size_t i = 0; lp->refused_at && i < lp->n_running; i++)
		n += map64_get(&lp->by_tid, lp->running[i].cookie) == MAP_NONE;
	return n;
}

/* Threads that have just been found may not live long. */
static struct error *follow(struct look_source *ls)
{
	struct look_perf *lp = (struct look_perf *)ls;
	uint64_t now = reader_now(lp->parts.reader);
	struct error *err;

	review(lp, now);
	err = watch_new(lp, now);
	if (!err || !is_limit(err))
		return err;
	error_free(err);
	return NULL;
}

/* ---- the tick ---- */

static void begin(struct look_source *ls, uint32_t tick, bool tick_late)
{
	struct look_perf *lp = (struct look_perf *)ls;
	const struct look_source_parts *p = &lp->parts;

	(void)tick;
	(void)tick_late;
	lp->n_looks = perf_collect(lp->perf, lp->looks, LOOKS_MAX);
	lp->n_running = threads_running(p->threads, p->reader, p->tracer, lp->running, RUNNING_MAX);
}

static void count(struct look_perf *lp, const struct perf_look *l)
{
	struct profile *p = lp->parts.profile;
	const struct capture *c = &l->capture;

	profile_health_add(p, HEALTH_LOOKS, 1);
	profile_health_add(p, HEALTH_LOOKS_VALID, 1);
	profile_health_add(p, HEALTH_LOOKS_MOVED, !l->held);
	profile_health_add(p, HEALTH_LOOKS_NOBODY, !l->held && !c->note_len);
	if (l->held && c->t_resumed >= c->t_arrived)
		held_add(&lp->held, c->t_resumed - c->t_arrived);
}

static struct error *take_one(struct look_perf *lp, struct perf_look *l, look_done *done, void *ctx)
{
	uint64_t now = reader_now(lp->parts.reader);
	struct thread *th = threads_find(lp->parts.threads, l->capture.tid);
	const struct look look = { .thread = th, .capture = &l->capture, .oncpu = true, .sampled = true,
				   .moved = !l->held };

	/* What was read after an exec is another program's. */
	if (!th || target_life(lp->parts.reader->target) != TARGET_ALIVE)
		return NULL;
	count(lp, l);
	th->moved_at = now;
	/* Seen from here on: it is this tick's look. */
	l->capture.t_arrived = l->capture.t_resumed = now;
	return done(ctx, &look);
}

/* Before anything else is read: what this tick reads then is newer. */
static struct error *collect_late(struct look_source *ls, look_done *done, void *ctx)
{
	struct look_perf *lp = (struct look_perf *)ls;
	struct error *err = NULL;

	for (size_t i = 0; i < lp->n_looks; i++) {
		if (!err)
			err = take_one(lp, lp->looks[i], done, ctx);
		perf_recycle(lp->perf, lp->looks[i]);
	}
	lp->n_looks = 0;
	for (size_t i = 0; !err && i < lp->n_running; i++) {
		const struct capture_request *rq = &lp->running[i];
		const struct look still = { .thread = threads_find(lp->parts.threads, (pid_t)rq->cookie),
					    .g = rq->hint[HINT_G] };

		if (still.thread)
			err = done(ctx, &still);
	}
	return err;
}

static struct error *collect(struct look_source *ls, uint64_t deadline, look_done *done, void *ctx)
{
	struct look_perf *lp = (struct look_perf *)ls;
	struct profile *p = lp->parts.profile;
	struct perf_counts counts = perf_counts(lp->perf);

	(void)deadline;
	(void)done;
	(void)ctx;
	profile_health_add(p, HEALTH_LOOKS_LOST, counts.lost);
	profile_health_add(p, HEALTH_LOOKS_THROTTLED, counts.throttled);
	profile_health_add(p, HEALTH_LOOKS_UNWATCHED, count_unwatched(lp));
	return NULL;
}

static bool ran(const struct look_source *ls)
{
	const struct look_perf *lp = (const struct look_perf *)ls;

	return lp->n_looks || lp->n_running;
}

static void figures(const struct look_source *ls, struct look_figures *ret)
{
	const struct look_perf *lp = (const struct look_perf *)ls;

	*ret = (struct look_figures){
		.held_median = held_quantile(&lp->held, 50), .held_p99 = held_quantile(&lp->held, 99),
		.rank = perf_rank(lp->perf),
	};
}

static void destroy(struct look_source *ls)
{
	struct look_perf *lp = (struct look_perf *)ls;

	perf_destroy(lp->perf);
	map64_deinit(&lp->by_tid);
	free(lp->v);
	free(lp);
}

/* Is it as good as stopping threads is? */
static struct error *judge(const struct perf_ability *a, pid_t pid)
{
	if (a->user_only)
		return error_todo(error_new(ERROR_DENIED, "perf events are permitted, but not inside of the kernel"),
				  "sudo sysctl kernel.perf_event_paranoid=1, or start goprof as root");
	if (!a->held_ns)
		return error_new(ERROR_FACILITY, "perf events do not do here: threads go on before they are read");
	if (!perf_reaches(pid))
		return error_new(ERROR_FACILITY, "perf events do not do here: goprof may not use all CPUs of the process");
	if (!perf_has_room(ALL_MOST))
		return error_todo(error_new(ERROR_FACILITY, "perf events do not do here: too few descriptors"),
				  "ulimit -n 65536");
	return NULL;
}

static struct error *begin_watch(struct look_perf *lp, uint64_t period_ns, const struct perf_ability *ability)
{
	const struct target *t = lp->parts.reader->target;
	const struct perf_options o = {
		.target = t, .pid = target_pid(t), .period_ns = period_ns, .ability = *ability,
		.held = held_hook, .late = hold_late_hook, .ctx = (void *)lp->parts.plan,
	};
	struct error *err = perf_create(&o, &lp->perf);

	/* Limits that are met later are told; not even one thread is a refusal. */
	if (!err)
		err = watch_new(lp, reader_now(lp->parts.reader));
	if (!err || !is_limit(err) || !lp->n)
		return err;
	error_free(err);
	return NULL;
}

struct error *look_perf_create(const struct look_source_parts *parts, uint64_t period_ns, bool at_all_costs,
			       struct look_source **ret)
{
	static const char user_only[] = "perf events (not inside of the kernel)";
	struct perf_ability ability;
	struct look_perf *lp;
	struct error *err = perf_try(&ability);

	if (!err && !at_all_costs)
		err = judge(&ability, target_pid(parts->reader->target));
	if (err)
		return err;
	lp = calloc(1, sizeof(*lp));
	if (!lp)
		return &err_nomem;
	lp->base = (struct look_source){
		.name = ability.user_only ? user_only : "perf events", .begin = begin, .collect_late = collect_late,
		.collect = collect, .follow = follow, .ran = ran, .figures = figures, .destroy = destroy,
	};
	lp->parts = *parts;
	map64_init(&lp->by_tid);
	err = begin_watch(lp, period_ns, &ability);
	if (err) {
		destroy(&lp->base);
		return err;
	}
	*ret = &lp->base;
	return NULL;
}
