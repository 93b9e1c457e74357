/*
 * clock.c: the machine's clocks behind the interface that tests replace.
 *
 * The only place that asks the kernel for the time. clock_gettime on these clocks cannot fail on
 * any kernel that goprof runs on (they are older than 4.18), so no error is passed up.
 */
#include <errno.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"

enum {
	ANCHOR_TRIES = 4,
	ANCHOR_GOOD_NSEC = 5000,	/* a bracket this narrow needs no second try */
};

static uint64_t nsec_of(clockid_t id)
{
	struct timespec ts = { 0 };

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static uint64_t system_mono(const struct clock *c)
{
	(void)c;
	return nsec_of(CLOCK_MONOTONIC);
}

static uint64_t system_real(const struct clock *c)
{
	(void)c;
	return nsec_of(CLOCK_REALTIME);
}

static uint64_t system_boot(const struct clock *c)
{
	(void)c;
	return nsec_of(CLOCK_BOOTTIME);
}

static bool system_sleep_until(const struct clock *c, uint64_t deadline)
{
	struct timespec ts = {
		.tv_sec = (time_t)(deadline / NSEC_PER_SEC),
		.tv_nsec = (long)(deadline % NSEC_PER_SEC),
	};

	(void)c;
	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) != EINTR;
}

const struct clock system_clock = {
	.mono = system_mono,
	.real = system_real,
	.boot = system_boot,
	.sleep_until = system_sleep_until,
};

/*
 * The clocks cannot be read together: the others are read between two readings of mono, and the
 * narrowest of a few such brackets wins, since the thread may lose its CPU inside one.
 */
struct clock_anchor clock_anchor(const struct clock *c)
{
	struct clock_anchor best = { 0 };
	uint64_t best_width = UINT64_MAX;

	for (int i = 0; i < ANCHOR_TRIES && best_width > ANCHOR_GOOD_NSEC; i++) {
		uint64_t before = c->mono(c), real = c->real(c), boot = c->boot(c);
		uint64_t width = c->mono(c) - before;

		if (width >= best_width)
			continue;
		best_width = width;
		best = (struct clock_anchor){ .mono = before + width / 2, .real = real, .boot = boot };
	}
	return best;
}

static uint64_t cpu_by(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t cpu_of_thread(void)
{
	return cpu_by(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t cpu_of_process(void)
{
	return cpu_by(CLOCK_PROCESS_CPUTIME_ID);
}
