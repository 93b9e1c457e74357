/*
 * timely.c: being on time without being greedy; see look.h. A refusal (no CAP_SYS_NICE, RLIMIT_RTPRIO,
 * RT_GROUP_SCHED) is no error: ticks are then late more often, which the health figures show.
 */
#include <sched.h>

#include "sample/look.h"

enum { TICK_PRIORITY = 1 };	/* the lowest real-time one: above all ordinary tasks, below all others */

void timely_enter(void)
{
	const struct sched_param param = { .sched_priority = TICK_PRIORITY };

	sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param);
}

void timely_leave(void)
{
	const struct sched_param param = { 0 };

	sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &param);
}
