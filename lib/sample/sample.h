/*
 * sample.h: the tick, 101 times a second: who is on a CPU, what every goroutine does, and in what
 * state of health that was found out. The only layer that knows the whole chain.
 *
 *	ask for threads on a CPU -> read goroutines meanwhile -> unwind, name, store
 */
#ifndef GOPROF_SAMPLE_SAMPLE_H
#define GOPROF_SAMPLE_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"
#include "go/go.h"
#include "profile/profile.h"
#include "target/target.h"
#include "target/tracer.h"

/* Where looks at threads on a CPU come from. */
enum sampler_looks {
	SAMPLER_LOOKS_AUTO,		/* perf events if they can be had and are as good; else stops */
	SAMPLER_LOOKS_PERF,		/* or not at all */
	SAMPLER_LOOKS_PTRACE,
};

struct sampler_options {
	uint32_t rate_hz;		/* 101 */
	uint32_t depth;			/* most frames of a stack; 512 */
	bool system;			/* keep the runtime's own goroutines */
	enum sampler_looks looks;
	bool native;			/* walk C code frame by frame; else one frame stands for it */
	uint64_t seed;			/* of the tick's jitter and the audit; tests fix it */
	/* Asked before each tick: was goprof stopped since (CLOCK_MONOTONIC)? NULL: it never is. */
	bool (*was_stopped)(void *ctx, uint64_t since);
	void *ctx;
};

struct sampler;

/* Everything is borrowed and outlives the sampler. */
struct sampler_parts {
	struct target *target;
	struct go_runtime *runtime;
	struct tracer *tracer;
	struct profile *profile;
	const struct clock *clock;
};

struct error *sampler_create(const struct sampler_parts *parts, const struct sampler_options *o,
			     struct sampler **ret);
void sampler_destroy(struct sampler *s);	/* drains its captures first */
/* What looks come from: "perf events", "ptrace stops"; and why not from perf events though that was tried. */
const char *sampler_looks(const struct sampler *s);
const char *sampler_looks_why(const struct sampler *s);	/* NULL: nothing to tell; borrowed */

enum sampler_event {
	SAMPLER_TICKED,
	SAMPLER_EXECED,		/* same pid, another program: open it anew */
	SAMPLER_ENDED,		/* the target is gone */
	SAMPLER_STALLED,	/* goprof was stopped (options.was_stopped): no tick was done, call sampler_skip */
};

/*
 * Sleeps to the next point of the grid and does one tick. A signal that interrupts the sleep
 * returns early with SAMPLER_TICKED and no tick done. Errors are fatal ones only; everything else
 * is counted in the profile's health.
 */
struct error *sampler_tick(struct sampler *s, enum sampler_event *ret);

/* Spreads what CPU time is still owed and sets the health figures: before a window is closed. */
struct error *sampler_settle(struct sampler *s);

/* Between two windows: the store's tables begin anew (profile_begin_epoch), and what is remembered with them. */
struct error *sampler_begin_epoch(struct sampler *s);

/*
 * goprof was stopped (job control) and is back: ticks of that time are not due, and what the target
 * used meanwhile is not told. To be followed by the end of the window at sampler_last_tick.
 */
struct error *sampler_skip(struct sampler *s);
/* When the last tick was done, CLOCK_MONOTONIC. */
uint64_t sampler_last_tick(const struct sampler *s);

/* Goroutines alive at the last tick, without system ones unless asked for. */
uint32_t sampler_goroutines(const struct sampler *s);

#endif
