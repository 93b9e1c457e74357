/*
 * perf.c: the life of a set of perf events, the table of watched threads, and the pool of looks that go
 * from the readers to whoever collects them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "target/perf_impl.h"
#include "target/tracer_impl.h"

/* Whoever collects may be busy with something else for so long: on each CPU a thread may run meanwhile. */
enum { LOOKS_LEAST = 64, BUSY_NS = 250 * NSEC_PER_MSEC };

enum { PERIOD_LEAST_NS = 20 * NSEC_PER_USEC };	/* the kernel itself takes no shorter one than half of it */

/* ---- the table ---- */

struct perf_watch *perf_take(struct perf *p, pid_t tid, struct perf_hints *hints)
{
	struct perf_watch *w = NULL;
	uint32_t i;

	pthread_mutex_lock(&p->lock);
	i = map64_get(&p->by_tid, (uint64_t)tid);
	if (i != MAP_NONE) {
		w = p->watches[i];
		w->busy++;
		*hints = w->hints;
	}
	pthread_mutex_unlock(&p->lock);
	return w;
}

void perf_give(struct perf *p, struct perf_watch *w)
{
	pthread_mutex_lock(&p->lock);
	if (--w->busy == 0)
		pthread_cond_broadcast(&p->idle);
	pthread_mutex_unlock(&p->lock);
}

void perf_set_hints(struct perf *p, struct perf_watch *w, const struct perf_hints *h)
{
	pthread_mutex_lock(&p->lock);
	w->hints = *h;
	pthread_mutex_unlock(&p->lock);
}

static struct error *enter(struct perf *p, struct perf_watch *w)
{
	struct error *err;

	pthread_mutex_lock(&p->lock);
	err = array_reserve(&p->watches, &p->cap_watches, p->n_watches + 1, sizeof(*p->watches));
	if (!err)
		err = map64_put(&p->by_tid, (uint64_t)w->tid, p->n_watches);
	if (!err)
		p->watches[p->n_watches++] = w;
	pthread_mutex_unlock(&p->lock);
	return err;
}

/* Out of the table, and no reader has it any more. */
static void leave(struct perf *p, struct perf_watch *w)
{
	struct perf_watch *last;
	uint32_t i;

	pthread_mutex_lock(&p->lock);
	i = map64_get(&p->by_tid, (uint64_t)w->tid);
	map64_del(&p->by_tid, (uint64_t)w->tid);
	last = p->watches[--p->n_watches];
	p->watches[i] = last;
	if (last != w)
		error_free(map64_put(&p->by_tid, (uint64_t)last->tid, i));	/* replaces: needs no memory */
	while (w->busy)
		pthread_cond_wait(&p->idle, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

static void watch_free(const struct perf *p, struct perf_watch *w)
{
	if (!w)
		return;
	for (uint32_t i = 0; w->sampling && i < p->n_readers; i++)
		if (w->sampling[i] >= 0)
			close(w->sampling[i]);
	if (w->counting >= 0)
		close(w->counting);
	free(w->sampling);
	free(w);
}

/*
 * All its events, or an errno. The first sample is as likely to come now as at any time of a period: so a thread
 * that does not live for a whole one has its right share of samples, too.
 */
static int open_events(struct perf *p, struct perf_watch *w)
{
	const struct perf_options *o = &p->options;
	uint64_t first = PERIOD_LEAST_NS + perf_random(&p->random) % o->period_ns;
	int errnum = perf_event_open_counting(w->tid, o->ability.user_only, &w->counting);

	for (uint32_t i = 0; !errnum && i < p->n_readers; i++)
		errnum = perf_event_open_sampling(w->tid, p->readers[i].cpu, first, o->ability.user_only,
						  p->readers[i].ring.fd, &w->sampling[i]);
	return errnum;
}

static struct perf_watch *watch_new(const struct perf *p, pid_t tid, const struct perf_hints *h)
{
	struct perf_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	*w = (struct perf_watch){ .tid = tid, .hints = *h, .counting = -1 };
	w->sampling = malloc(p->n_readers * sizeof(*w->sampling));
	if (!w->sampling) {
		free(w);
		return NULL;
	}
	for (uint32_t i = 0; i < p->n_readers; i++)
		w->sampling[i] = -1;
	return w;
}

struct error *perf_watch_thread(struct perf *p, pid_t tid, const struct perf_hints *h, struct perf_watch **ret)
{
	struct perf_watch *w = watch_new(p, tid, h);
	struct error *err = NULL;
	int errnum;

	if (!w)
		return &err_nomem;
	errnum = open_events(p, w);
	if (errnum)
		err = perf_event_error(errnum);
	if (!err)
		err = enter(p, w);
	if (err) {
		watch_free(p, w);
		return err;
	}
	*ret = w;
	return NULL;
}

void perf_unwatch(struct perf *p, struct perf_watch *w)
{
	leave(p, w);
	watch_free(p, w);
}

/* ---- looks ---- */

struct perf_look *perf_look_take(struct perf *p)
{
	struct perf_look *l = NULL;

	pthread_mutex_lock(&p->lock);
	if (p->n_free)
		l = p->free[--p->n_free];
	pthread_mutex_unlock(&p->lock);
	return l;
}

void perf_look_done(struct perf *p, struct perf_look *l)
{
	pthread_mutex_lock(&p->lock);
	p->done[(p->done_at + p->n_done++) % p->n_pool] = l;
	pthread_mutex_unlock(&p->lock);
}

size_t perf_collect(struct perf *p, struct perf_look **out, size_t cap)
{
	size_t n = 0;

	pthread_mutex_lock(&p->lock);
	for (; n < cap && p->n_done; p->n_done--) {
		out[n++] = p->done[p->done_at];
		p->done_at = (p->done_at + 1) % p->n_pool;
	}
	pthread_mutex_unlock(&p->lock);
	return n;
}

void perf_recycle(struct perf *p, struct perf_look *l)
{
	pthread_mutex_lock(&p->lock);
	p->free[p->n_free++] = l;
	pthread_mutex_unlock(&p->lock);
}

struct perf_counts perf_counts(struct perf *p)
{
	return (struct perf_counts){
		.lost = atomic_exchange(&p->lost, 0), .throttled = atomic_exchange(&p->throttled, 0),
	};
}

enum tracer_rank perf_rank(const struct perf *p)
{
	return p->n_readers ? atomic_load(&p->readers[0].rank) : TRACER_ORDINARY;
}

/* ---- create, destroy ---- */

static void init_lock(struct perf *p)
{
	pthread_mutexattr_t ma;

	pthread_mutexattr_init(&ma);
	pthread_mutexattr_setprotocol(&ma, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&p->lock, &ma);
	pthread_mutexattr_destroy(&ma);
	pthread_cond_init(&p->idle, NULL);
}

static struct error *init_pool(struct perf *p)
{
	p->n_pool = LOOKS_LEAST + p->n_readers * (uint32_t)(BUSY_NS / p->options.period_ns);
	p->pool = calloc(p->n_pool, sizeof(*p->pool));
	p->free = calloc(p->n_pool, sizeof(*p->free));
	p->done = calloc(p->n_pool, sizeof(*p->done));
	if (!p->pool || !p->free || !p->done)
		return &err_nomem;
	/* The one given back last is taken next: few of them are ever touched. */
	for (uint32_t i = p->n_pool; i-- > 0;)
		p->free[p->n_free++] = &p->pool[i];
	return NULL;
}

void perf_destroy(struct perf *p)
{
	if (!p)
		return;
	perf_readers_stop(p);
	while (p->n_watches > 0)
		watch_free(p, p->watches[--p->n_watches]);
	for (uint32_t i = 0; p->readers && i < p->n_readers; i++)
		if (p->readers[i].ring.map)
			perf_event_close_ring(&p->readers[i].ring);
	if (p->stop_fd >= 0)
		close(p->stop_fd);
	sem_destroy(&p->ready);
	pthread_cond_destroy(&p->idle);
	pthread_mutex_destroy(&p->lock);
	map64_deinit(&p->by_tid);
	free(p->watches);
	free(p->readers);
	free(p->pool);
	free(p->free);
	free(p->done);
	free(p);
}

struct error *perf_create(const struct perf_options *o, struct perf **ret)
{
	struct perf *p = calloc(1, sizeof(*p));
	struct error *err;

	if (!p)
		return &err_nomem;
	p->options = *o;
	p->random = tracer_now() | 1;
	init_lock(p);
	sem_init(&p->ready, 0, 0);
	map64_init(&p->by_tid);
	p->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = p->stop_fd < 0 ? error_new(ERROR_FACILITY, "eventfd: %s", strerror(errno)) : NULL;
	if (!err)
		err = perf_readers_init(p);
	if (!err)
		err = init_pool(p);
	if (!err)
		err = perf_readers_start(p);
	if (err) {
		perf_destroy(p);
		return err;
	}
	*ret = p;
	return NULL;
}
