/*
 * recording.h: the profile of one program: store, sampler, windows to the outputs, and at the end
 * what the summary tells of it. A program that calls exec becomes another recording, because
 * goroutine ids begin anew.
 */
#ifndef GOPROF_CMD_RECORDING_H
#define GOPROF_CMD_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "cmd/summary.h"
#include "sample/sample.h"

struct go_runtime;
struct options;
struct outputs;
struct recording;
struct target;
struct tracer;

/* Windows of a Sentry profile must stay below 30 s. */
#define WINDOW_NS (UINT64_C(29500) * NSEC_PER_MSEC)

/* All borrowed; they outlive the recording. */
struct recording_parts {
	const struct options *options;
	const struct clock *clock;
	const char *command;		/* "run", "attach" */
	struct target *target;
	struct go_runtime *runtime;
	struct tracer *tracer;
	struct outputs *outputs;
};

struct error *recording_begin(const struct recording_parts *parts, struct recording **ret);
/* Drops what is not in a window yet. NULL is fine. */
void recording_destroy(struct recording *r);

/* One tick; closes windows as they become full. Errors are fatal for the recording. */
struct error *recording_tick(struct recording *r, enum sampler_event *ret);
/* Closes the open window now, or as soon as there is room for it. */
struct error *recording_close_window(struct recording *r);
/*
 * Around the time in which goprof is stopped (Ctrl-Z): it is left out, and said. The window ends where
 * the stop began, as a window longer than 30 s would not be taken by the service.
 */
void recording_pause(struct recording *r);
struct error *recording_resume(struct recording *r, uint64_t paused_at);

/* A SIGCONT was taken since the last tick. */
void recording_continued(struct recording *r);

/*
 * How long nothing was done, how long the window would be with that time in it, and whether SIGCONT came
 * meanwhile: was goprof stopped? Many new goroutines or a starved machine make a long gap as well, but send
 * no signal; what they take belongs to the profile, unless no window could hold it.
 */
bool recording_was_stopped(uint64_t gap_ns, uint64_t window_ns, bool continued);

/* What becomes of the open window. */
enum window_fate {
	WINDOW_GOES_ON,
	WINDOW_ENDS,
	WINDOW_ENDS_ANYWAY,	/* even if it is lost, as there is no room for it at the consumer's */
};

struct window_facts {
	uint64_t age_ns;	/* at the latest tick that would still belong to it */
	bool full;		/* it holds as much as it may (profile_window_full) */
	bool wanted;		/* its end was asked for */
	bool room;		/* the consumer can take it */
};

/* Due, it goes on while the consumer is behind, but never to 30 s: the service would not take it. */
enum window_fate recording_window_fate(const struct window_facts *f);

uint64_t recording_age(const struct recording *r);	/* ns since it began, without pauses */
uint32_t recording_ticks(const struct recording *r);	/* done so far */
uint32_t recording_goroutines(const struct recording *r);

/* What is left when a recording has ended. */
struct recording_result {
	struct recording_result *next;
	struct arena arena;		/* backing of all strings and rows */
	const char *exe, *go_version;
	uint32_t ticks;
	uint64_t ns;			/* how long it recorded */
	bool kept;			/* long enough for outputs */
	struct error *error;		/* an output that failed meanwhile; owned */
	struct summary summary;
};

enum { RECORDING_TICKS_LEAST = 2 };

/* Closes the last window and the outputs' part of it; destroys `r` in any case. */
struct error *recording_end(struct recording *r, struct recording_result **ret);
void recording_result_free(struct recording_result *v);

/* recording_meta.c: what the store says about the program; strings live in `a`. */
struct error *recording_meta(const struct recording_parts *p, struct arena *a,
			     struct profile_meta *ret);
/* The program's file as people know it (without " (deleted)"); in `a`, NULL when memory is short. */
const char *recording_exe(const struct target *t, struct arena *a);
/* recording_tables.c: the rows of the summary, copied into v->arena. */
struct aggregate;
struct error *recording_tables(struct aggregate *a, struct recording_result *v);

#endif
