/*
 * export_impl.h: what the files of lib/export share. Nobody outside includes it.
 */
#ifndef GOPROF_EXPORT_EXPORT_IMPL_H
#define GOPROF_EXPORT_EXPORT_IMPL_H

#include "base/array.h"
#include "base/map.h"
#include "export/export.h"

/* ---- shown.c: a stack as profiles show it ---- */

struct shown_frame {
	profile_id id;
	bool ends_location;	/* the physical function: the next frame is its caller */
};

/* Reused from stack to stack; zeroed before the first. */
struct shown {
	struct shown_frame *v;	/* leaf first, compiler wrappers left out */
	uint32_t n, cap;
	const char *mark;	/* stands for missing callers at the root; NULL: none are missing */
};

struct error *shown_of(struct shown *s, const struct profile *p, profile_id stack);
void shown_deinit(struct shown *s);

/* "wall" or "cpu". */
const char *export_mode_name(enum profile_mode mode);

/* ---- keyset.c: numbers for things that are told by their bytes ---- */

struct keyset_key {
	size_t offset;
	uint32_t len;
};

struct keyset {
	struct mapb map;
	struct buf bytes;
	struct keyset_key *v;
	uint32_t n, cap;
};

/* Must not be moved afterwards. */
void keyset_init(struct keyset *k);
void keyset_deinit(struct keyset *k);
/* The number of the key; *fresh tells whether it was new, and then it is the highest so far. */
struct error *keyset_add(struct keyset *k, const void *key, size_t len, uint32_t *ret, bool *fresh);
/* What it takes of memory. */
size_t keyset_bytes(const struct keyset *k);
/* Borrowed until the next keyset_add. */
const void *keyset_get(const struct keyset *k, uint32_t i, size_t *len);

/* ---- sentry_frames.c: the tables of frames and stacks of one payload ---- */

struct sentry_stacks {
	const struct profile *p;	/* borrowed */
	struct keyset frames;		/* struct frame_key */
	struct keyset drawn;		/* what the flame graph tells frames apart by */
	struct keyset stacks;		/* arrays of frame numbers */
	struct map64 by_id;		/* stack id of the profile -> number in `stacks` */
	uint32_t *drawn_module;		/* module of each entry of `drawn` */
	uint32_t cap_drawn;
	struct buf frames_json;
	struct shown shown;
	uint32_t *scratch;
	uint32_t cap_scratch;
};

void sentry_stacks_init(struct sentry_stacks *s, const struct profile *p);
void sentry_stacks_deinit(struct sentry_stacks *s);
/* The number of a stack in the payload. */
struct error *sentry_stack(struct sentry_stacks *s, profile_id stack, uint32_t *ret);
/* "frames":[...],"stacks":[...] */
void sentry_stacks_json(const struct sentry_stacks *s, struct buf *b);

/* ---- sentry_threads.c: which goroutines are told ---- */

struct sentry_thread {
	uint64_t key;
	const struct window_track **tracks;	/* in order of time; several only if the key came again */
	uint32_t n_tracks;
	uint64_t cpu_ns;
	uint32_t changes;			/* intervals */
};

struct sentry_threads {
	const struct window_track **tracks;	/* all of the window, by key and time */
	struct sentry_thread *v;		/* those that are told first, the left out behind them */
	uint32_t told, n;
	uint64_t active;			/* key of the active one, always among the told */
	uint32_t goroutines;			/* in the window, told or not */
};

/* What decides how a window becomes samples. */
struct sentry_view {
	const struct window *w;
	enum profile_mode mode;
	uint64_t limit;			/* CLOCK_MONOTONIC: nothing later is told */
};

struct error *sentry_threads_choose(const struct sentry_view *view, const struct export_options *o,
				    struct sentry_threads *ret);
void sentry_threads_deinit(struct sentry_threads *t);
/* {"ID":{"name":...},...} of those told */
void sentry_threads_json(const struct sentry_threads *t, const struct profile *p, struct buf *b);

/* ---- sentry_samples.c: from intervals to samples ---- */

struct sentry_sample {
	uint64_t at;			/* since the window's start */
	uint32_t thread;		/* index into sentry_threads.v */
	uint32_t stack;
	uint32_t order;			/* keeps equal instants in order */
};

struct sentry_samples {
	struct sentry_sample *v;
	uint32_t n, cap;
};

/* Is an interval of this length shown at all, and with its stack? */
bool sentry_interval_told(const struct sentry_view *view, const struct interval *iv);
struct error *sentry_samples_of(const struct sentry_view *view, const struct sentry_threads *t,
				struct sentry_stacks *stacks, struct sentry_samples *ret);
void sentry_samples_deinit(struct sentry_samples *s);
void sentry_samples_json(const struct sentry_samples *s, const struct sentry_threads *t,
			 struct buf *b);

/* ---- sentry_v1.c ---- */

/* sentry_v1_build with another limit for the profile's bytes; tests use a small one. */
struct error *sentry_v1_build_limited(const struct window *w, const struct export_options *o,
				      size_t most_bytes, struct sentry_v1 *ret);

#endif
