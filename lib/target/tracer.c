/*
 * tracer.c: the tracer thread: its start, its loop, its end, and the queue of calls that are run
 * in it.
 *
 * The loop never waits for a requester and never spins (a real-time thread that does keeps the very
 * thread from its stop that it waits for): between looks it sleeps on its wake-up descriptor, on
 * the signal that stops raise, and on the children's descriptors. All signals are blocked in it. When it ends, the kernel detaches whatever is still seized (exit_ptrace), so even
 * a thread that never came to its stop is left alone.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/tracer_impl.h"

enum { FIXED_POLLED = 2, CHILDREN_POLLED = 32, DESTROY_NS = 100 * NSEC_PER_MSEC };

uint64_t tracer_now(void)
{
	return system_clock.mono(&system_clock);
}

void tracer_wake(struct tracer *tr)
{
	const uint64_t one = 1;

	/* Cannot fail but for a full counter, which wakes as well. */
	if (write(tr->wake_fd, &one, sizeof(one)) < 0)
		return;
}

/* ---- calls ---- */

void tracer_call(struct tracer *tr, void (*f)(struct tracer *tr, void *arg), void *arg)
{
	struct tracer_call call = { .run = f, .arg = arg };
	struct tracer_call **end;

	pthread_mutex_lock(&tr->lock);
	for (end = &tr->calls; *end; end = &(*end)->next)
		;
	*end = &call;
	pthread_mutex_unlock(&tr->lock);
	tracer_wake(tr);

	pthread_mutex_lock(&tr->lock);
	while (!call.done)
		pthread_cond_wait(&tr->answers, &tr->lock);
	pthread_mutex_unlock(&tr->lock);
}

static bool run_next_call(struct tracer *tr)
{
	pthread_mutex_lock(&tr->lock);
	struct tracer_call *call = tr->calls;
	if (call)
		tr->calls = call->next;
	pthread_mutex_unlock(&tr->lock);
	if (!call)
		return false;

	call->run(tr, call->arg);

	pthread_mutex_lock(&tr->lock);
	call->done = true;	/* from here on it is the requester's stack again */
	pthread_cond_broadcast(&tr->answers);
	pthread_mutex_unlock(&tr->lock);
	return true;
}

/* ---- the loop ---- */

static void sleep_until_woken(struct tracer *tr, uint64_t ns)
{
	struct pollfd fds[FIXED_POLLED + CHILDREN_POLLED] = {
		{ .fd = tr->wake_fd, .events = POLLIN },
		{ .fd = tr->stop_fd, .events = POLLIN },
	};
	struct child *of[FIXED_POLLED + CHILDREN_POLLED];
	const struct timespec ts = { (time_t)(ns / NSEC_PER_SEC), (long)(ns % NSEC_PER_SEC) };
	nfds_t n = FIXED_POLLED;
	struct signalfd_siginfo info;
	uint64_t count;

	/* Only this thread changes the list of children. */
	for (struct child *c = tr->children; c && n < FIXED_POLLED + CHILDREN_POLLED; c = c->next) {
		if (c->pidfd < 0 || c->status.ended)
			continue;
		of[n] = c;
		fds[n++] = (struct pollfd){ .fd = c->pidfd, .events = POLLIN };
	}
	if (ppoll(fds, n, ns == UINT64_MAX ? NULL : &ts, NULL) <= 0)
		return;
	for (nfds_t i = FIXED_POLLED; i < n; i++)
		of[i]->pidfd_ready = fds[i].revents != 0;
	/* Emptied before the looks that follow: what comes after them wakes again. */
	if (fds[0].revents && read(tr->wake_fd, &count, sizeof(count)) < 0)
		return;
	if (fds[1].revents && read(tr->stop_fd, &info, sizeof(info)) < 0)
		return;
}

static bool stop_wanted(struct tracer *tr)
{
	pthread_mutex_lock(&tr->lock);
	bool stop = tr->stop;
	pthread_mutex_unlock(&tr->lock);
	return stop;
}

static void *tracer_main(void *arg)
{
	struct tracer *tr = arg;

	tr->tid = gettid();
	rank_read(&tr->given);
	enum tracer_rank rank = rank_raise();
	pthread_mutex_lock(&tr->lock);
	tr->rank = rank;
	pthread_mutex_unlock(&tr->lock);

	while (!stop_wanted(tr)) {
		while (run_next_call(tr))
			;
		tracer_begin_asked(tr);
		uint64_t owed = tracer_poll_owed(tr);
		if (!owed)
			continue;
		uint64_t children = tracer_poll_children(tr);
		sleep_until_woken(tr, owed < children ? owed : children);
	}
	return NULL;
}

/* ---- create, destroy ---- */

static void init_locks(struct tracer *tr)
{
	pthread_mutexattr_t ma;
	pthread_condattr_t ca;

	pthread_mutexattr_init(&ma);
	pthread_mutexattr_setprotocol(&ma, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&tr->lock, &ma);
	pthread_mutexattr_destroy(&ma);
	pthread_condattr_init(&ca);
	pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
	pthread_cond_init(&tr->answers, &ca);
	pthread_cond_init(&tr->work, &ca);
	pthread_condattr_destroy(&ca);
}

static void tracer_free(struct tracer *tr)
{
	if (!tr)
		return;
	while (tr->children) {
		struct child *c = tr->children;
		tr->children = c->next;
		child_free(c);
	}
	pthread_cond_destroy(&tr->answers);
	pthread_cond_destroy(&tr->work);
	pthread_mutex_destroy(&tr->lock);
	if (tr->wake_fd >= 0)
		close(tr->wake_fd);
	if (tr->stop_fd >= 0)
		close(tr->stop_fd);
	free(tr->pool);
	free(tr);
}

static void tracer_guard(struct tracer **tr)
{
	tracer_free(*tr);
}

static void stop_threads(struct tracer *tr, bool undertaker)
{
	pthread_mutex_lock(&tr->lock);
	tr->stop = true;
	pthread_cond_signal(&tr->work);
	pthread_mutex_unlock(&tr->lock);
	tracer_wake(tr);
	pthread_join(tr->thread, NULL);
	if (undertaker)
		pthread_join(tr->undertaker, NULL);
}

/* Signals are for the other threads: their handlers must interrupt *their* sleep. */
static int start_threads(struct tracer *tr)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int r = pthread_create(&tr->thread, NULL, tracer_main, tr);
	if (!r) {
		r = undertaker_start(tr);
		if (r)
			stop_threads(tr, false);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

static void nothing(struct tracer *tr, void *arg)
{
	(void)tr;
	(void)arg;
}

/*
 * A thread that comes to its stop raises SIGCHLD. Blocked in every thread it stays for the
 * descriptor; unblocked in one it would be dropped there, and would break that thread's sleep.
 */
static int open_stop_fd(void)
{
	sigset_t stops;

	sigemptyset(&stops);
	sigaddset(&stops, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &stops, NULL);
	return signalfd(-1, &stops, SFD_CLOEXEC | SFD_NONBLOCK);
}

struct error *tracer_create(struct tracer **ret)
{
	_cleanup_(tracer_guard) struct tracer *tr = calloc(1, sizeof(*tr));

	if (!tr)
		return &err_nomem;
	init_locks(tr);
	tr->stop_fd = -1;
	tr->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	tr->pool = calloc(TRACER_POOL, sizeof(*tr->pool));
	tr->free = UINT64_MAX;
	if (!tr->pool)
		return &err_nomem;
	pthread_sigmask(SIG_SETMASK, NULL, &tr->given_mask);
	tr->stop_fd = open_stop_fd();
	if (tr->wake_fd < 0 || tr->stop_fd < 0)
		return error_new(ERROR_FACILITY, "cannot make an event descriptor: %m");
	int r = start_threads(tr);
	if (r) {
		errno = r;
		return error_new(ERROR_FACILITY, "cannot start the tracer thread: %m");
	}
	tracer_call(tr, nothing, NULL);	/* its rank is known from here on */
	*ret = take(tr);
	return NULL;
}

enum tracer_rank tracer_rank(const struct tracer *tr)
{
	return tr->rank;
}

void tracer_destroy(struct tracer *tr)
{
	if (!tr)
		return;
	tracer_drain(tr, NULL, DESTROY_NS);
	stop_threads(tr, true);
	tracer_free(tr);
}
