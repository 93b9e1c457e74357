/*
 * consumer.c: a short queue and the thread behind it. A failure is kept for the sampling thread, which
 * decides what becomes of the recording; windows that come after it are told all the same.
 */
#include "cmd/consumer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "export/export.h"
#include "profile/profile.h"

/* Waiting, beside the one at hand: with the open one a minute and a half of the program's life. */
enum { QUEUE_MAX = 2 };

struct consumer {
	consumer_tell *tell;
	void *ctx;
	struct aggregate *aggregate;	/* the thread's until it is joined */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct closed_window *queue[QUEUE_MAX];	/* first in, first out */
	uint32_t n;
	bool closing, joined;
	struct error *error;		/* the first */
};

static void window_cleanup(struct window **w)
{
	window_free(*w);
}

static struct error *consume(struct consumer *c, struct closed_window *closed)
{
	_cleanup_(window_cleanup) struct window *w = closed_window_open(closed);
	struct error *err;

	log_info("record", "window %u: %u ticks, %u goroutines", w->number, w->n_ticks, w->n_tracks);
	err = aggregate_window(c->aggregate, w);
	return err ? err : c->tell(c->ctx, w);
}

static void *consumer_main(void *arg)
{
	struct consumer *c = arg;

	pthread_mutex_lock(&c->lock);
	while (c->n || !c->closing) {
		struct closed_window *w;
		struct error *err;

		if (!c->n) {
			pthread_cond_wait(&c->changed, &c->lock);
			continue;
		}
		w = c->queue[0];
		c->n--;
		memmove(c->queue, c->queue + 1, c->n * sizeof(w));
		pthread_cond_broadcast(&c->changed);
		pthread_mutex_unlock(&c->lock);
		err = consume(c, w);
		pthread_mutex_lock(&c->lock);
		if (!c->error)
			c->error = err;
		else
			error_free(err);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static struct error *start(struct consumer *c)
{
	pthread_condattr_t attr;
	int number;

	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->changed, &attr);
	pthread_condattr_destroy(&attr);
	number = pthread_create(&c->thread, NULL, consumer_main, c);
	if (number == 0)
		return NULL;
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	return error_why(error_new(ERROR_FACILITY, "cannot start a thread"), "%s", strerror(number));
}

struct error *consumer_create(consumer_tell *tell, void *ctx, struct consumer **ret)
{
	struct consumer *c = calloc(1, sizeof(*c));
	struct error *err;

	if (!c)
		return &err_nomem;
	c->tell = tell;
	c->ctx = ctx;
	err = aggregate_create(&c->aggregate);
	if (!err)
		err = start(c);
	if (err) {
		aggregate_destroy(c->aggregate);
		free(c);
		return err;
	}
	*ret = c;
	return NULL;
}

void consumer_join(struct consumer *c)
{
	if (c->joined)
		return;
	pthread_mutex_lock(&c->lock);
	c->closing = true;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	c->joined = true;
}

void consumer_destroy(struct consumer *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	while (c->n)
		closed_window_free(c->queue[--c->n]);
	pthread_mutex_unlock(&c->lock);
	consumer_join(c);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	aggregate_destroy(c->aggregate);
	error_free(c->error);
	free(c);
}

static struct timespec deadline_in(uint64_t ns)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec += (time_t)(ns / NSEC_PER_SEC);
	ts.tv_nsec += (long)(ns % NSEC_PER_SEC);
	if (ts.tv_nsec >= NSEC_PER_SEC) {
		ts.tv_sec++;
		ts.tv_nsec -= NSEC_PER_SEC;
	}
	return ts;
}

bool consumer_has_room(struct consumer *c, uint64_t wait_ns)
{
	struct timespec until = deadline_in(wait_ns == UINT64_MAX ? 0 : wait_ns);
	int failed = 0;
	bool room;

	pthread_mutex_lock(&c->lock);
	while (c->n == QUEUE_MAX && wait_ns && !failed) {
		if (wait_ns == UINT64_MAX)
			failed = pthread_cond_wait(&c->changed, &c->lock);
		else
			failed = pthread_cond_timedwait(&c->changed, &c->lock, &until);
	}
	room = c->n < QUEUE_MAX;
	pthread_mutex_unlock(&c->lock);
	return room;
}

void consumer_put(struct consumer *c, struct closed_window *w)
{
	pthread_mutex_lock(&c->lock);
	c->queue[c->n++] = w;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

struct error *consumer_take_error(struct consumer *c)
{
	struct error *err;

	pthread_mutex_lock(&c->lock);
	err = take(c->error);
	pthread_mutex_unlock(&c->lock);
	return err;
}

struct aggregate *consumer_aggregate(struct consumer *c)
{
	return c->aggregate;
}
