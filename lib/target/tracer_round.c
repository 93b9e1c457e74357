/*
 * tracer_round.c: the requester's side of captures: asking, collecting, handing back, giving up.
 *
 * Nothing here traces. A round is what one tracer_capture asked for; it is over when each of its
 * threads has come or its polling time is up, and only then does tracer_collect stop waiting. What
 * comes later is collected with a later round.
 */
#include <time.h>

#include "base/clock.h"
#include "target/tracer_impl.h"

static bool owes_locked(const struct tracer *tr, pid_t tid)
{
	for (uint64_t w = tr->asked | tr->owed; w; w &= w - 1)
		if (tr->pool[__builtin_ctzll(w)].capture.tid == tid)
			return true;
	return false;
}

bool tracer_owes(struct tracer *tr, pid_t tid)
{
	pthread_mutex_lock(&tr->lock);
	bool owes = owes_locked(tr, tid);
	pthread_mutex_unlock(&tr->lock);
	return owes;
}

/* Everything but the big arrays: those are as long as their lengths say. */
static void slot_fill(struct slot *s, const struct capture_request *rq)
{
	struct capture *c = &s->capture;

	c->status = CAPTURE_GONE;
	c->tid = task_tid(rq->task);
	c->cookie = rq->cookie;
	c->t_tick = rq->t_tick;
	c->t_arrived = c->t_resumed = 0;
	c->before = c->held = rq->before;
	c->in_time = c->late_blocked = c->healed = false;
	c->signal = 0;
	c->n_views = c->note_len = 0;
	c->regs.raw_len = 0;
	s->rq = *rq;
	s->wait_tid = c->tid;
	s->void_ = false;
}

size_t tracer_capture(struct tracer *tr, const struct target *t, const struct capture_request *v,
		      size_t n, uint64_t budget_ns, capture_hook *hook, void *ctx)
{
	size_t accepted = 0;
	uint64_t deadline = tracer_now() + budget_ns;

	pthread_mutex_lock(&tr->lock);
	for (size_t i = 0; i < n && tr->free; i++) {
		unsigned at = (unsigned)__builtin_ctzll(tr->free);	/* the lowest: warm in the cache */
		struct slot *s = &tr->pool[at];

		if (owes_locked(tr, task_tid(v[i].task)))
			continue;
		slot_fill(s, &v[i]);
		s->target = t;
		s->pid = target_pid(t);
		s->hook = hook;
		s->ctx = ctx;
		s->deadline = deadline;
		tr->free &= ~(1ull << at);
		tr->asked |= 1ull << at;
		tr->round |= 1ull << at;
		accepted++;
	}
	pthread_mutex_unlock(&tr->lock);
	if (accepted)
		tracer_wake(tr);
	return accepted;
}

/* False when the time is over. */
static bool wait_answers(struct tracer *tr, uint64_t deadline)
{
	struct timespec ts = { (time_t)(deadline / NSEC_PER_SEC), (long)(deadline % NSEC_PER_SEC) };

	return pthread_cond_timedwait(&tr->answers, &tr->lock, &ts) == 0;
}

size_t tracer_collect(struct tracer *tr, uint64_t deadline, struct capture **out, size_t cap)
{
	size_t n = 0;

	undertaker_call(tr);
	pthread_mutex_lock(&tr->lock);
	while (deadline && tr->round && wait_answers(tr, deadline))
		;
	while (tr->done && n < cap) {
		out[n++] = &tr->pool[__builtin_ctzll(tr->done)].capture;
		tr->done &= tr->done - 1;
	}
	pthread_mutex_unlock(&tr->lock);
	return n;
}

void tracer_recycle(struct tracer *tr, struct capture *c)
{
	const struct slot *s = (const struct slot *)c;

	pthread_mutex_lock(&tr->lock);
	tr->free |= 1ull << (s - tr->pool);
	pthread_mutex_unlock(&tr->lock);
}

/* What is asked or owed for this target; for all when t is NULL. */
static uint64_t outstanding(const struct tracer *tr, const struct target *t)
{
	uint64_t found = 0;

	for (uint64_t w = tr->asked | tr->owed; w; w &= w - 1)
		if (!t || tr->pool[__builtin_ctzll(w)].target == t)
			found |= w & -w;
	return found;
}

bool tracer_drain(struct tracer *tr, const struct target *t, uint64_t timeout_ns)
{
	uint64_t deadline = tracer_now() + timeout_ns;

	pthread_mutex_lock(&tr->lock);
	uint64_t mine = outstanding(tr, t);
	tr->dropped |= mine;
	/* A slot that was freed and asked for anew meanwhile is another's: compare what is dropped. */
	while ((tr->dropped & mine) && wait_answers(tr, deadline))
		;
	bool clean = !(tr->dropped & mine);
	pthread_mutex_unlock(&tr->lock);
	return clean;
}
