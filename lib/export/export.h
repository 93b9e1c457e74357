/*
 * export.h: formats. An exporter reads windows and writes bytes to a stream; it knows neither the
 * process nor where the bytes go (file, stdout, service).
 */
#ifndef GOPROF_EXPORT_EXPORT_H
#define GOPROF_EXPORT_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "profile/profile.h"

/* What a thread of an envelope is. */
enum export_threads {
	EXPORT_BY_GOROUTINE,
	EXPORT_BY_ENTRY,		/* goroutines of one entry function share threads */
	EXPORT_BY_LABEL,		/* those with one value of a label; without it: by entry function */
};

struct export_options {
	enum profile_mode mode;
	uint32_t max_threads;		/* in an envelope; 0 = all */
	bool active_busiest;		/* active thread: the busiest; else active_goid */
	uint64_t active_goid;		/* 0: goroutine 1; if not there, sharing threads, in cpu mode: busiest */
	enum export_threads threads;
	const char *label;		/* of EXPORT_BY_LABEL; borrowed */
	struct export_told *told;	/* what was not told in full is added here; borrowed, NULL: nowhere */
};

/* Never added up: they are different things. */
struct export_counts {
	uint32_t goroutines;
	uint32_t threads;		/* of the process, without a goroutine */
	uint32_t shared;		/* threads of an envelope that goroutines share in turn */
};

/* What the envelopes of a run do not tell in full. Counts are the largest of all windows. */
struct export_told {
	uint32_t windows;		/* envelopes that were made */
	uint32_t thinned;		/* of them, those that have less detail, as they would be larger than 10 MB */
	uint32_t too_big;		/* of these, those that were more than the service takes */
	uint64_t bytes;			/* most of one envelope's profile */
	struct export_counts grouped;	/* told as an average */
	struct export_counts left_out;	/* not there */
	bool cut;			/* also what does not fit into what the service takes was left out */
	bool labelled;			/* somebody had the label that was asked for */
};

/* Where bytes go. */
struct sink {
	struct error *(*write)(struct sink *s, const void *data, size_t len);
};

/* A sink that collects in a buffer of the caller's. */
struct buf_sink {
	struct sink sink;
	struct buf *out;
};

struct buf_sink buf_sink_to(struct buf *out);

/*
 * ---- pprof: all windows of a run in one gzipped protobuf ----
 * Windows may be freed at once. What is told of the whole run is kept in tables of its own, up to a bound;
 * beyond that the label sets, then the stacks, with least time are put together under one name each.
 */

struct pprof;

struct error *pprof_create(const struct export_options *o, struct pprof **ret);
struct error *pprof_window(struct pprof *x, const struct window *w);
struct error *pprof_finish(struct pprof *x, struct sink *out);	/* writes everything */
/* Rows that lost their label set, or their stack, as there were too many: into HEALTH_*_MERGED. */
void pprof_health(const struct pprof *x, uint64_t health[HEALTH_COUNT]);
void pprof_destroy(struct pprof *x);

/* ---- Sentry, sample format v1: one transaction and one profile per window ---- */

struct sentry_v1 {
	struct buf transaction;			/* a JSON payload */
	uint64_t profile_len;			/* bytes of the other one, which sentry_v1_profile writes */
	char event_id[33], profile_id[33], trace_id[33];	/* 32 hex digits */
	uint32_t threads;			/* that are told */
	struct export_counts left_out;		/* those that are not */
	struct export_counts grouped;		/* told as part of a group only */
	bool labelled;				/* somebody has the label that was asked for */
	bool thinned;				/* less detail, as it would be larger than 10 MB */
	bool too_big;				/* and more than the service takes; */
	bool cut;				/* so much that threads had to be left out */
	struct sentry_plan *plan;		/* the profile to be written; private */
};

/*
 * Builds the transaction and lays out the profile, of the first 29.5 s. ERROR_NOT_FOUND: fewer than
 * two ticks, or no goroutine with two samples: nothing may be sent (say so). What is large is told with
 * less detail, what is too big for the service is thinned, then grouped, at last with fewer threads
 * (sentry_plan.c). The window must outlive *ret.
 * sentry_v1_deinit is needed only after success.
 */
struct error *sentry_v1_build(const struct window *w, const struct export_options *o,
			      struct sentry_v1 *ret);
/* Writes the profile in pieces, exactly profile_len bytes; never held in memory as a whole. */
struct error *sentry_v1_profile(const struct sentry_v1 *v, struct sink *out);
void sentry_v1_deinit(struct sentry_v1 *v);

/* ---- what people and other formats ask of a window (aggregate.c) ---- */

/* One line of a table: where CPU or wall time went. */
struct top_function {
	const char *function, *file;
	uint32_t line;
	uint64_t self_ns, total_ns;	/* on-CPU */
};

/*
 * Accumulates over windows, which may be freed at once; used by the summary. It grows with the program's
 * code, not with time. Texts in its answers live as long as it does.
 */
struct aggregate;

struct error *aggregate_create(struct aggregate **ret);
void aggregate_destroy(struct aggregate *a);
struct error *aggregate_window(struct aggregate *a, const struct window *w);
/* Functions by self on-CPU time, descending. Borrowed until the next call on `a`. */
struct error *aggregate_functions(struct aggregate *a, const struct top_function **ret, size_t *n);

struct top_group {
	const char *state, *entry, *file;
	uint32_t line;
	double average;			/* goroutines on average over the time measured */
};

/* Goroutines by state and entry function, most first. */
struct error *aggregate_groups(struct aggregate *a, const struct top_group **ret, size_t *n);
uint64_t aggregate_goroutines_seen(const struct aggregate *a);
double aggregate_goroutines_average(const struct aggregate *a);
uint64_t aggregate_cpu_ns(const struct aggregate *a);	/* credited to stacks */
uint64_t aggregate_unseen_ns(const struct aggregate *a);
uint64_t aggregate_ended_ns(const struct aggregate *a);
uint64_t aggregate_wall_ns(const struct aggregate *a);	/* window time */
const uint64_t *aggregate_health(const struct aggregate *a);	/* HEALTH_COUNT values */

#endif
