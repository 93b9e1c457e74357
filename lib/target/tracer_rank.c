/*
 * tracer_rank.c: how the tracer thread stands with the scheduler.
 *
 * A tracer that loses its core while it holds a thread holds it for milliseconds: real-time class
 * brings the 99th percentile of a hold from milliseconds to some tens of microseconds. It may be
 * refused even to root (RT_GROUP_SCHED, RLIMIT_RTPRIO), so there is a chain, and its end is named in
 * the health figures. Upstream text: sched(7), setpriority(2) "C library/kernel differences".
 */
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "target/tracer_impl.h"

enum { RANK_NICE = -20, RANK_FIFO = 1 };

void rank_read(struct rank *ret)
{
	struct sched_param p = { 0 };

	ret->policy = sched_getscheduler(0);
	sched_getparam(0, &p);
	ret->priority = p.sched_priority;
	ret->nice = getpriority(PRIO_PROCESS, (id_t)gettid());
	int slack = prctl(PR_GET_TIMERSLACK);
	ret->timer_slack = slack > 0 ? (unsigned long)slack : 0;
}

enum tracer_rank rank_raise(void)
{
	struct sched_param p = { .sched_priority = RANK_FIFO };

	prctl(PR_SET_TIMERSLACK, 1ul);
	if (!sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &p))
		return TRACER_REAL_TIME;
	if (!setpriority(PRIO_PROCESS, (id_t)gettid(), RANK_NICE))
		return TRACER_NICE;
	return TRACER_ORDINARY;
}

const char *tracer_rank_name(enum tracer_rank rank)
{
	static const char *const names[TRACER_RANK_COUNT] = {
		[TRACER_ORDINARY] = "ordinary", [TRACER_NICE] = "nice -20", [TRACER_REAL_TIME] = "SCHED_FIFO",
	};

	return rank < TRACER_RANK_COUNT ? names[rank] : "???";
}

void rank_set(const struct rank *r)
{
	struct sched_param p = { .sched_priority = r->priority };

	/* Without privilege SCHED_RESET_ON_FORK cannot be taken back; it does no harm. */
	if (sched_setscheduler(0, r->policy, &p))
		sched_setscheduler(0, r->policy | SCHED_RESET_ON_FORK, &p);
	setpriority(PRIO_PROCESS, (id_t)gettid(), r->nice);
	if (r->timer_slack)
		prctl(PR_SET_TIMERSLACK, r->timer_slack);
}
