/*
 * clock.h: time is handed in, never asked for: weights and windows are tested with a clock of the
 * test's own. All values are nanoseconds.
 */
#ifndef GOPROF_BASE_CLOCK_H
#define GOPROF_BASE_CLOCK_H

#include <stdint.h>

struct clock {
	uint64_t (*mono)(const struct clock *c);	/* CLOCK_MONOTONIC: stamps of looks and ticks */
	uint64_t (*real)(const struct clock *c);	/* CLOCK_REALTIME: anchors of windows */
	uint64_t (*boot)(const struct clock *c);	/* CLOCK_BOOTTIME: minus mono, it tells a suspend */
	/* Sleeps until mono() >= deadline; false when a signal woke it before. */
	_Bool (*sleep_until)(const struct clock *c, uint64_t deadline);
	void *ctx;
};

/* The machine's clocks. */
extern const struct clock system_clock;

enum { NSEC_PER_USEC = 1000, NSEC_PER_MSEC = 1000000, NSEC_PER_SEC = 1000000000 };

/* The three clocks at one instant. */
struct clock_anchor {
	uint64_t mono, real, boot;
};

struct clock_anchor clock_anchor(const struct clock *c);

/* CPU time, ns: of the calling thread, without the times when it had no core; and of the whole process. */
uint64_t cpu_of_thread(void);
uint64_t cpu_of_process(void);

#endif
