/*
 * output_writer.c: a queue and the thread behind it. Failures are kept with the delivery and told
 * at the end; a window that the service does not take becomes a file, so nothing is lost.
 *
 * Must not know windows.
 */
#include "cmd/output_writer.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cmd/command.h"
#include "cmd/output_file.h"
#include "cmd/output_format.h"
#include "cmd/output_name.h"
#include "sentry/sentry.h"

struct writer {
	const struct dsn *dsn;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct delivery *first, **last;
	struct delivery *next;		/* the first that is not delivered yet */
	uint64_t waiting;		/* bytes of that one and of those behind it */
	bool bounded;
	bool closing, forget, ended;
	bool joined;
	void *left;			/* whose writer this is, once nobody waits for it any more */
};

/* ---- one delivery ---- */

/* Writes the file; where its name is taken and must be kept, under the next number. */
static struct error *deliver_file(struct delivery *d)
{
	struct error *err = output_file_write(d->path, d->data, d->len, d->replace);

	for (uint32_t i = d->number + 1; err == &err_notfound && i < d->number + 100; i++) {
		char *name = output_numbered(d->path, d->format->suffix, i);

		if (!name)
			return &err_nomem;
		err = output_file_write(name, d->data, d->len, false);
		if (err) {
			free(name);
			continue;
		}
		free(d->path);
		d->path = name;
	}
	return err;
}

static struct error *deliver_stdout(struct delivery *d)
{
	return output_fd_write(STDOUT_FILENO, "to stdout", d->data, d->len);
}

static void deliver_service(struct writer *w, struct delivery *d)
{
	struct http_answer answer = { 0 };
	_cleanup_free_ char *agent = NULL;
	struct error *err, *kept;

	if (asprintf(&agent, "goprof/%s", goprof_version()) < 0)
		agent = NULL;
	err = http_send_envelope(w->dsn, d->data, d->len, agent ? agent : "goprof", &answer);
	if (!err) {
		log_info("send", "window %u: %zu bytes, status %ld", d->number, d->len, answer.status);
		d->state = DELIVERY_DONE;
		return;
	}
	d->error = err;
	kept = deliver_file(d);
	d->state = kept ? DELIVERY_LOST : DELIVERY_KEPT;
	error_free(kept);
}

static void deliver(struct writer *w, struct delivery *d)
{
	if (d->sink == DELIVERY_SERVICE) {
		deliver_service(w, d);
	} else {
		d->error = d->sink == DELIVERY_FILE ? deliver_file(d) : deliver_stdout(d);
		d->state = d->error ? DELIVERY_LOST : DELIVERY_DONE;
	}
	free(take(d->data));
}

/* ---- the thread ---- */

static void *writer_main(void *arg)
{
	struct writer *w = arg;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct delivery *d = w->forget ? NULL : w->next;

		if (!d && w->closing)
			break;
		if (!d) {
			pthread_cond_wait(&w->changed, &w->lock);
			continue;
		}
		pthread_mutex_unlock(&w->lock);
		deliver(w, d);
		pthread_mutex_lock(&w->lock);
		w->next = d->next;
		w->waiting -= d->len;
		pthread_cond_broadcast(&w->changed);
	}
	w->ended = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

struct error *writer_create(const struct dsn *dsn, struct writer **ret)
{
	struct writer *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;
	int number;

	if (!w)
		return &err_nomem;
	w->dsn = dsn;
	w->last = &w->first;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->changed, &attr);
	pthread_condattr_destroy(&attr);
	number = pthread_create(&w->thread, NULL, writer_main, w);
	if (number != 0) {
		pthread_cond_destroy(&w->changed);
		pthread_mutex_destroy(&w->lock);
		free(w);
		return error_why(error_new(ERROR_FACILITY, "cannot start a thread"), "%s",
				 strerror(number));
	}
	*ret = w;
	return NULL;
}

void delivery_free(struct delivery *d)
{
	free(d->path);
	free(d->data);
	error_free(d->error);
	free(d);
}

void writer_destroy(struct writer *w)
{
	struct delivery *next;

	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->closing = w->forget = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
	if (!w->joined)
		pthread_join(w->thread, NULL);
	for (struct delivery *d = w->first; d; d = next) {
		next = d->next;
		delivery_free(d);
	}
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

void writer_put(struct writer *w, struct delivery *d)
{
	d->next = NULL;
	pthread_mutex_lock(&w->lock);
	while (w->bounded && w->waiting && w->waiting + d->len > WRITER_MOST)
		pthread_cond_wait(&w->changed, &w->lock);
	w->waiting += d->len;
	*w->last = d;
	w->last = &d->next;
	if (!w->next)
		w->next = d;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

void writer_set_bounded(struct writer *w, bool bounded)
{
	pthread_mutex_lock(&w->lock);
	w->bounded = bounded;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

bool writer_join(struct writer *w, bool (*drop)(void *ctx), void *ctx)
{
	bool ended;

	pthread_mutex_lock(&w->lock);
	w->closing = true;
	pthread_cond_broadcast(&w->changed);
	while (!w->ended) {
		struct timespec ts;

		clock_gettime(CLOCK_MONOTONIC, &ts);
		ts.tv_nsec += 100 * NSEC_PER_MSEC;
		if (ts.tv_nsec >= NSEC_PER_SEC) {
			ts.tv_sec++;
			ts.tv_nsec -= NSEC_PER_SEC;
		}
		pthread_cond_timedwait(&w->changed, &w->lock, &ts);
		if (!w->ended && drop(ctx))
			break;
	}
	ended = w->ended;
	/* The owner forgets itself now, but what it holds is still in use here. */
	w->left = ended ? NULL : ctx;
	pthread_mutex_unlock(&w->lock);
	if (!ended)
		return false;
	pthread_join(w->thread, NULL);
	w->joined = true;
	return true;
}

const struct delivery *writer_deliveries(const struct writer *w)
{
	return w->first;
}
