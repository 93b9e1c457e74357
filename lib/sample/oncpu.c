/*
 * oncpu.c: which looks at a thread carry CPU time, and how a gain is spread over them. Pure
 * arithmetic: no process, no clock.
 *
 * A thread that the kernel took off its core stands at a biased place: woken but not yet run, it
 * stands in futex or epoll; preempted, it stands at the end of a system call. Only threads that
 * were on a core at the tick are an unbiased sample of where CPU time goes. schedstat tells: its
 * second field is the time spent waiting for a core, its third counts how often the thread was
 * put on one.
 */
#include "sample/sample_impl.h"

enum { WAIT_SLACK_NS = 30 * NSEC_PER_USEC };

bool oncpu_valid(const struct oncpu_facts *f)
{
	uint64_t waited, ours;

	/* A kernel without these statistics: the call it stands in is all there is to go by. */
	if (!f->held.slices)
		return !f->tick_late && f->in_time && !f->waits;
	/* Never put on a core between tick and hold: it ran all the time. */
	if (f->held.slices == f->before.slices)
		return true;
	/* When its wait began decides; long after the tick that cannot be told. */
	if (f->tick_late || !f->in_time || f->t_arrived < f->t_tick)
		return false;
	/* A woken thread that waits for a core stands in the call it waited in. */
	if (f->waits)
		return false;
	if (f->held.wait_ns < f->before.wait_ns)
		return false;
	/*
	 * It waited no longer than we have been at it: we pushed it off its core ourselves.
	 * Longer: it was off the core before the tick.
	 */
	waited = f->held.wait_ns - f->before.wait_ns;
	ours = f->t_arrived - f->t_tick;
	return waited <= ours + WAIT_SLACK_NS;
}

uint64_t oncpu_share(uint64_t gain, uint32_t n, uint32_t i)
{
	return gain / n + (i < gain % n);
}
