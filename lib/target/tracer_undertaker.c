/*
 * tracer_undertaker.c: a second thread that breaks one deadlock, and does nothing else.
 *
 * A thread that calls exec holds its process's cred_guard_mutex while it waits for all other
 * threads to be gone. PTRACE_SEIZE of any of them waits for the same mutex, not to be interrupted;
 * and a thread that is seized already is gone only when somebody has waited for it. So a tracer
 * that has seized one thread and is about to seize the next stands still for ever, and the target's
 * exec with it. Any thread of the tracer's process may do the waiting: this one does it when the
 * tracer thread has been inside one SEIZE for too long.
 *
 * Upstream text: ptrace_attach in kernel/ptrace.c, de_thread in fs/exec.c, do_wait in
 * kernel/exit.c (which walks all threads of the caller's process).
 */
#include <errno.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "target/tracer_impl.h"

enum {
	TOO_LONG_NS = 10 * NSEC_PER_MSEC,
	WATCH_NS = 100 * NSEC_PER_MSEC,	/* looks by itself; requesters call it sooner */
	REST_NS = NSEC_PER_SEC,		/* after so long without a capture it sleeps until the next */
};

void undertaker_call(struct tracer *tr)
{
	uint64_t since = atomic_load(&tr->seizing_since), now;

	if (!since)
		return;
	now = tracer_now();
	if (now > since && now - since > TOO_LONG_NS)
		pthread_cond_signal(&tr->work);
}

/* The main thread is left alone: exec collects it by itself, and its status is the process's. */
static void bury(struct tracer *tr)
{
	for (uint64_t w = tr->owed; w; w &= w - 1) {
		const struct slot *s = &tr->pool[__builtin_ctzll(w)];
		siginfo_t info;

		if (s->capture.tid != s->pid)
			waitid(P_PID, (id_t)s->capture.tid, &info, WEXITED | WNOHANG | __WALL);
	}
}

static void rest(struct tracer *tr, uint64_t now)
{
	bool busy = tr->asked | tr->owed || atomic_load(&tr->seizing_since);
	uint64_t end = now + (busy ? TOO_LONG_NS : WATCH_NS);
	struct timespec ts = { (time_t)(end / NSEC_PER_SEC), (long)(end % NSEC_PER_SEC) };

	tr->undertaker_rests = now - tr->t_begin > REST_NS;
	if (tr->undertaker_rests)
		pthread_cond_wait(&tr->work, &tr->lock);
	else
		pthread_cond_timedwait(&tr->work, &tr->lock, &ts);
	tr->undertaker_rests = false;
}

static void *undertaker_main(void *arg)
{
	struct tracer *tr = arg;

	rank_raise();
	pthread_mutex_lock(&tr->lock);
	while (!tr->stop) {
		uint64_t now = tracer_now(), since = atomic_load(&tr->seizing_since);

		if (since && now > since && now - since > TOO_LONG_NS)
			bury(tr);
		rest(tr, now);
	}
	pthread_mutex_unlock(&tr->lock);
	return NULL;
}

int undertaker_start(struct tracer *tr)
{
	return pthread_create(&tr->undertaker, NULL, undertaker_main, tr);
}
