/*
 * timely.c: being on time without being greedy; see look.h. A refusal (no CAP_SYS_NICE, RLIMIT_RTPRIO,
 * RT_GROUP_SCHED) is no error: ticks are then late more often, which the health figures show.
 */
#include <sched.h>

#include "sample/look.h"

enum { TICK_PRIORITY = 1 };	/* the lowest real-time one: above all ordinary tasks, below all others */

struct timely timely_given(void)
{
	struct sched_param param = { 0 };
	int policy = sched_getscheduler(0);

	sched_getparam(0, &param);
	return (struct timely){ .policy = policy < 0 ? SCHED_OTHER : policy, .priority = param.sched_priority };
}

void timely_enter(struct timely *t)
{
	const struct sched_param param = { .sched_priority = TICK_PRIORITY };

	if (!t->raised)
		t->raised = !sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param);
}

void timely_leave(struct timely *t)
{
	const struct sched_param param = { .sched_priority = t->priority };

	if (t->raised)
		t->raised = sched_setscheduler(0, t->policy | SCHED_RESET_ON_FORK, &param) != 0;
}
