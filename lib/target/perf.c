/*
 * perf.c: the life of a set of perf events, the table of watched threads, and the pool of looks that go
 * from the readers to whoever collects them.
 *
 * A watch is known to the readers by place and generation, never by pointer: what epoll tells may be
 * older than the table.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "target/perf_impl.h"

enum { LOOKS_LEAST = 64, LOOKS_PER_READER = 4 };

/* ---- the table ---- */

uint64_t perf_key(const struct perf_watch *w)
{
	return (uint64_t)w->generation << 32 | w->slot;
}

struct perf_watch *perf_take(struct perf *p, uint64_t key, struct perf_hints *hints)
{
	uint32_t slot = (uint32_t)key;
	struct perf_watch *w;

	pthread_mutex_lock(&p->lock);
	w = p->watches[slot];
	if (w && (perf_key(w) != key || w->closing || w->busy))
		w = NULL;
	if (w) {
		w->busy = true;
		*hints = w->hints;
	}
	pthread_mutex_unlock(&p->lock);
	return w;
}

void perf_give(struct perf *p, struct perf_watch *w)
{
	pthread_mutex_lock(&p->lock);
	w->busy = false;
	if (w->closing)
		pthread_cond_broadcast(&p->idle);
	pthread_mutex_unlock(&p->lock);
}

void perf_set_hints(struct perf *p, struct perf_watch *w, const struct perf_hints *h)
{
	pthread_mutex_lock(&p->lock);
	w->hints = *h;
	pthread_mutex_unlock(&p->lock);
}

/* A place in the table. False: it is full. */
static bool enter(struct perf *p, struct perf_watch *w)
{
	bool room;

	pthread_mutex_lock(&p->lock);
	room = p->n_free_slots > 0;
	if (room) {
		w->slot = p->free_slots[--p->n_free_slots];
		w->generation = ++p->generations[w->slot];
		p->watches[w->slot] = w;
	}
	pthread_mutex_unlock(&p->lock);
	return room;
}

/* Out of the table, and no reader has it any more. */
static void leave(struct perf *p, struct perf_watch *w)
{
	pthread_mutex_lock(&p->lock);
	w->closing = true;
	while (w->busy)
		pthread_cond_wait(&p->idle, &p->lock);
	p->watches[w->slot] = NULL;
	p->free_slots[p->n_free_slots++] = w->slot;
	pthread_mutex_unlock(&p->lock);
}

struct error *perf_watch_thread(struct perf *p, pid_t tid, const struct perf_hints *h, struct perf_watch **ret)
{
	struct perf_watch *w = calloc(1, sizeof(*w));
	int errnum;

	if (!w)
		return &err_nomem;
	w->tid = tid;
	w->hints = *h;
	errnum = perf_event_begin(tid, p->options.period_ns, p->options.ability.user_only, &w->event);
	if (errnum) {
		free(w);
		return perf_event_error(errnum);
	}
	errnum = enter(p, w) ? 0 : EMFILE;
	if (!errnum) {
		errnum = perf_reader_add(p, 0, w);
		if (errnum)
			leave(p, w);
	}
	if (errnum) {
		perf_event_end(&w->event);
		free(w);
		return perf_event_error(errnum);
	}
	*ret = w;
	return NULL;
}

void perf_unwatch(struct perf *p, struct perf_watch *w)
{
	leave(p, w);
	perf_reader_remove(p, w);
	perf_event_end(&w->event);
	free(w);
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
	return (struct perf_counts){ .lost = atomic_exchange(&p->lost, 0), .throttled = atomic_exchange(&p->throttled, 0) };
}

const char *perf_priority(const struct perf *p)
{
	return p->n_readers ? atomic_load(&p->readers[0].priority) : "normal";
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

static struct error *init_tables(struct perf *p)
{
	p->watches = calloc(PERF_WATCHES_MAX, sizeof(*p->watches));
	p->generations = calloc(PERF_WATCHES_MAX, sizeof(*p->generations));
	p->free_slots = calloc(PERF_WATCHES_MAX, sizeof(*p->free_slots));
	if (!p->watches || !p->generations || !p->free_slots)
		return &err_nomem;
	while (p->n_free_slots < PERF_WATCHES_MAX) {
		p->free_slots[p->n_free_slots] = PERF_WATCHES_MAX - 1 - p->n_free_slots;
		p->n_free_slots++;
	}
	return NULL;
}

static struct error *init_pool(struct perf *p)
{
	p->n_pool = LOOKS_LEAST + LOOKS_PER_READER * p->n_readers;
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
	for (uint32_t i = 0; p->watches && i < PERF_WATCHES_MAX; i++) {
		if (!p->watches[i])
			continue;
		perf_event_end(&p->watches[i]->event);
		free(p->watches[i]);
	}
	if (p->stop_fd >= 0)
		close(p->stop_fd);
	pthread_cond_destroy(&p->idle);
	pthread_mutex_destroy(&p->lock);
	free(p->watches);
	free(p->generations);
	free(p->free_slots);
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
	init_lock(p);
	p->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = p->stop_fd < 0 ? error_new(ERROR_FACILITY, "eventfd: %s", strerror(errno)) : init_tables(p);
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
