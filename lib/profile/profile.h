/*
 * profile.h: the store. What was seen goes in as plain values, windows come out.
 *
 * The unit is the interval: a goroutine (or a thread without one) keeps one stack, state and
 * label set from one look to the next. An observation that changes nothing extends the interval;
 * a goroutine that is not mentioned keeps its interval, so an unchanged one costs nothing. Wall
 * time is interval length; on-CPU time is credited apart. Tables of strings, frames, stacks and
 * label sets outlive windows, but not a run: what is not in use any more goes with its epoch.
 *
 * Knows no process, no Go, no format. A store belongs to one thread. A closed window belongs to whoever
 * was given it, and may be used and freed in another thread while the store goes on, or is no more.
 */
#ifndef GOPROF_PROFILE_PROFILE_H
#define GOPROF_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"

/* ---- tables ---- */

/* Ids are indices into the tables of one epoch (profile_begin_epoch). Id 0 of strings is "". */
typedef uint32_t profile_id;

enum profile_frame_flag {	/* the same bits as enum frame_flag of symbol.h */
	PROFILE_FRAME_INLINED = 1, PROFILE_FRAME_WRAPPER = 2, PROFILE_FRAME_RUNTIME_HIDDEN = 4,
	PROFILE_FRAME_IN_APP = 8, PROFILE_FRAME_NATIVE = 16, PROFILE_FRAME_PSEUDO = 32,
};

struct profile_frame {
	profile_id function, module, name, file, abs_path;	/* strings */
	uint32_t line, start_line;
	uint32_t flags;
};

struct profile_stack {
	const profile_id *frames;	/* leaf first */
	uint32_t n;
	uint32_t flags;			/* enum profile_stack_flag */
};

enum profile_stack_flag {
	PROFILE_STACK_COMPLETE = 1,
	PROFILE_STACK_CUT = 2,		/* deeper than asked for */
};

struct profile_label {
	profile_id key, value;
};

struct profile_labels {
	const struct profile_label *v;	/* sorted by key */
	uint32_t n;
};

enum {
	PROFILE_LABELS_NONE = 0,
	PROFILE_LABELS_UNKNOWN = 1,	/* could not be read: not the same as none */
	PROFILE_STACK_EMPTY = 0,
};

/* ---- images: files that hold the C code of frames ---- */

struct profile_image {
	profile_id name;		/* string: the `module` of its frames (those flagged NATIVE) */
	profile_id path, build_id;	/* strings; 0 unknown */
	uint64_t start, end;		/* where its code stands in the process */
	uint64_t offset;		/* in the file, of `start` */
	bool lines;			/* its frames have files and lines, where the compiler told them */
};

/* ---- goroutines and threads ---- */

/* Keys: the goid; for a thread without a goroutine PROFILE_THREAD_KEY + its tid. */
#define PROFILE_THREAD_KEY ((uint64_t)1 << 40)

struct profile_track_info {
	uint64_t key;
	profile_id entry;		/* string: function it was started with, or "[gc]", "[scheduler]", "[non-Go]" */
	profile_id entry_file;		/* string: "server.go" of the go statement, for people */
	uint32_t entry_line;
	profile_id created_by;		/* string; 0 unknown */
	bool system;			/* the runtime's own */
};

/* ---- what one look says ---- */

struct profile_observation {
	uint64_t key;
	profile_id stack;
	profile_id state;		/* string: "running", "syscall", "chan receive", ... */
	profile_id labels;
	uint64_t t_before, t_after;	/* CLOCK_MONOTONIC: the look happened within */
	uint32_t weight;		/* looks it stands for; 1 without rotation */
	bool oncpu;			/* its thread was on a CPU at a valid look of this tick */
};

/* Names an observation on a CPU for later credit of CPU time. */
struct profile_ref {
	uint32_t window, track, interval;
};

/* ---- the store ---- */

/*
 * A store. A const one is for looking up: of windows it is what they know of it, its tables and meta as they
 * were when the window was closed.
 */
struct profile;

enum profile_mode { PROFILE_WALL, PROFILE_CPU };

/* What the whole profile is about. Strings are copied. */
struct profile_meta {
	const char *program;		/* base name of the executable */
	const char *exe;		/* its path */
	const char *command;		/* as goprof was called: "run" or "attach" */
	int pid;
	const char *go_version, *main_module, *main_path;
	const char *release, *environment, *server_name;
	const char *os_name, *os_version, *arch;
	const char *goprof_version;
	uint32_t rate_hz;
	enum profile_mode mode;
	const char *looks;		/* where looks at threads on a CPU come from; NULL: not told */
	const char *restricted;		/* why only threads on a CPU could be seen; NULL: all was */
};

struct error *profile_create(const struct clock *clock, const struct profile_meta *meta,
			     struct profile **ret);
void profile_destroy(struct profile *p);

/* When a store has enough. There are usual ones; tests set small ones, right after profile_create. */
struct profile_limits {
	size_t table_bytes;		/* at a window's end: the next epoch begins (more where more is in use) */
	size_t window_table_bytes;	/* at any time: the window is full */
	uint32_t window_intervals;	/* likewise; at least two for each goroutine; on a CPU one counts twice */
};

void profile_set_limits(struct profile *p, const struct profile_limits *limits);
const struct profile_meta *profile_meta(const struct profile *p);
/* The target became another program (exec), or its version was learnt late. */
struct error *profile_set_meta(struct profile *p, const struct profile_meta *meta);

/* Interning. Equal content gives the equal id. */
struct error *profile_string(struct profile *p, const char *s, size_t len, profile_id *ret);
struct error *profile_frame(struct profile *p, const struct profile_frame *f, profile_id *ret);
struct error *profile_stack(struct profile *p, const profile_id *frames, uint32_t n, uint32_t flags,
			    profile_id *ret);
struct error *profile_labels(struct profile *p, const struct profile_label *v, uint32_t n,
			     profile_id *ret);

/* An image. Of several of one name the first is kept. */
struct error *profile_image(struct profile *p, const struct profile_image *image);

/* Looking up; ids come from this store, in this epoch. Borrowed, valid as long as the epoch, or the window. */
const char *profile_string_get(const struct profile *p, profile_id id);
const struct profile_frame *profile_frame_get(const struct profile *p, profile_id id);
struct profile_stack profile_stack_get(const struct profile *p, profile_id id);
struct profile_labels profile_labels_get(const struct profile *p, profile_id id);
/* How many there are: ids are 0 .. n-1. Those of a window's were there when it was closed. */
uint32_t profile_string_count(const struct profile *p);
uint32_t profile_frame_count(const struct profile *p);
uint32_t profile_stack_count(const struct profile *p);
uint32_t profile_labels_count(const struct profile *p);
/* In the order in which they were told. NULL: no such one. */
uint32_t profile_image_count(const struct profile *p);
const struct profile_image *profile_image_get(const struct profile *p, uint32_t i);
/* The image of a frame's C code, as an index; profile_image_count(p) when it has none. */
uint32_t profile_image_of(const struct profile *p, profile_id frame);

/*
 * First mention of a key in the store; later calls for the same key change nothing until it is
 * gone: then it comes back as itself (equal facts) or as another track with the same key.
 */
struct error *profile_track(struct profile *p, const struct profile_track_info *info);
/* False again once the key is gone. */
bool profile_has_track(const struct profile *p, uint64_t key);
/* Also of one that is gone, until its window is closed. */
bool profile_track_get(const struct profile *p, uint64_t key, struct profile_track_info *ret);

/* Places for tracks, in use or free. */
uint32_t profile_track_count(const struct profile *p);

/* A tick begins. Opens the first window when there is none. */
struct error *profile_tick(struct profile *p, uint64_t t_mono);
/* err_notfound: the key was never tracked, or no tick has begun. */
struct error *profile_observe(struct profile *p, const struct profile_observation *o,
			      struct profile_ref *ret);
/* The goroutine has ended (or its goid was reused): its interval ends at t. */
void profile_gone(struct profile *p, uint64_t key, uint64_t t);
/* CPU time for an observation of the open window; false when its window is closed, or it was not on a CPU. */
bool profile_credit(struct profile *p, struct profile_ref ref, uint64_t ns);
/* CPU time that belongs to no observation. */
void profile_credit_unseen(struct profile *p, uint64_t ns);
void profile_credit_ended(struct profile *p, uint64_t ns);

/* ---- health ---- */

enum health_id {
#define X(id, name, unit, threshold, text) HEALTH_##id,
#include "profile/health.inc"
#undef X
	HEALTH_COUNT,
};
enum health_unit { HEALTH_UNIT_COUNT, HEALTH_UNIT_NS };

struct health_row {
	const char *name;
	enum health_unit unit;
	uint64_t threshold;
	const char *text;
};

extern const struct health_row health_table[HEALTH_COUNT];

/* Adds to a counter of the open window. */
void profile_health_add(struct profile *p, enum health_id id, uint64_t delta);
/* Sets a figure that does not add up (medians). */
void profile_health_set(struct profile *p, enum health_id id, uint64_t value);
/* The figure of two windows together: the sum, or the worse of two that do not add up. */
uint64_t health_merge(enum health_id id, uint64_t a, uint64_t b);

/* ---- windows ---- */

enum interval_flag { INTERVAL_ONCPU = 1 };

struct interval {
	profile_id stack, state, labels;
	uint32_t flags : 8, weight : 24;
	uint32_t first_tick, end_tick;	/* ticks [first, end) of the window, indices into ticks[] */
	uint64_t t_start, t_end;	/* CLOCK_MONOTONIC; t_end == t_start of the next one of the track */
	uint64_t cpu_ns;
	uint32_t after;			/* names its end: window_intervals */
};

struct window_track {
	struct profile_track_info info;
	const struct interval *v;	/* ordered by time; gaps are time in which it did not exist */
	uint32_t n;
	uint64_t cpu_ns;		/* sum over its intervals */
};

struct window {
	uint32_t number;		/* from 1 */
	uint32_t epoch;
	struct clock_anchor start, end;	/* real never runs backwards from window to window */
	uint64_t *ticks;		/* CLOCK_MONOTONIC of each tick */
	uint32_t n_ticks;
	uint32_t n_places;		/* of tracks: window_track */
	uint32_t n_tracks;		/* that have intervals */
	bool keys_repeat;		/* else no key has more than one place */
	struct window_track *tracks;	/* all of them, where they were laid out; else NULL */
	uint64_t goroutines;		/* that were looked at since the store was made */
	uint64_t cpu_unseen_ns, cpu_ended_ns;
	uint64_t health[HEALTH_COUNT];
	/* The tables its ids point into, and the meta; its own, for looking up alone. */
	const struct profile *profile;
};

/*
 * One track at a time: a window of a million would take ten times what the store does. Room for the intervals of
 * one, used again by the next; { 0 } at first.
 */
struct window_room {
	struct interval *v;
	uint32_t cap;
};

/*
 * What place i < n_places has; n is 0 where it has nothing. Its intervals are borrowed until the room is used
 * again. Tracks of one key have several places, in any order (keys_repeat).
 */
struct error *window_track(const struct window *w, uint32_t i, struct window_room *room, struct window_track *ret);
/*
 * n of these intervals, the last of which has this `after`; at the end of the track it is WINDOW_TRACK_END. Takes as
 * long as there are that many, however many the track has.
 */
enum { WINDOW_TRACK_END = UINT32_MAX };

struct error *window_intervals(const struct window *w, uint32_t i, uint32_t after, uint32_t n,
			       struct window_room *room, const struct interval **ret);
/* The same without its intervals: whose it is, and where the first one begins; 0: nothing. */
uint64_t window_track_key(const struct window *w, uint32_t i);
uint64_t window_track_start(const struct window *w, uint32_t i);
void window_room_deinit(struct window_room *room);

/* ---- epochs ---- */

/*
 * Carries ids from one store's tables into another's: equal content, the id that it has there. What was
 * carried once is remembered. Both are borrowed until profile_carry_free.
 */
struct profile_carry;

struct error *profile_carry_create(const struct profile *from, struct profile *to, struct profile_carry **ret);
void profile_carry_free(struct profile_carry *c);
/* In place. */
struct error *profile_carry_string(struct profile_carry *c, profile_id *id);
struct error *profile_carry_stack(struct profile_carry *c, profile_id *id);
struct error *profile_carry_labels(struct profile_carry *c, profile_id *id);
/* All images; of several of one name the first is kept. */
struct error *profile_carry_images(struct profile_carry *c);

uint32_t profile_epoch(const struct profile *p);
size_t profile_table_bytes(const struct profile *p);
/* Is it time for a new epoch? */
bool profile_epoch_over(const struct profile *p);
/*
 * Takes a part of the work of profile_begin_epoch beforehand: that of so many tracks. Steps make it small
 * when they have gone through all of them (profile_track_count) before the window is closed.
 */
struct error *profile_prepare_epoch(struct profile *p, uint32_t tracks);
/*
 * Between two windows (ERROR_INTERNAL while one is open): new tables, with what open tracks need and nothing
 * else. Whoever else keeps ids carries them by *ret, and frees it; ids that are not carried must be
 * forgotten. The old tables go with the last window that points into them, or with *ret. After any other
 * error the store is good for nothing but to be destroyed.
 */
struct error *profile_begin_epoch(struct profile *p, struct profile_carry **ret);

/* Time since the open window began; 0 when none is open. */
uint64_t profile_window_age(const struct profile *p, uint64_t now);
/* It holds as much as a window may (struct profile_limits): it should be closed before it is due. */
bool profile_window_full(const struct profile *p);
/*
 * Ends the open window at t_end (or at its last look, if that is later) and gives it to the caller, laid out,
 * who frees it with window_free. Open intervals end here and go on in the next window, which begins
 * at this very instant. ERROR_NOT_FOUND when none is open.
 */
struct error *profile_close_window(struct profile *p, uint64_t t_end, struct window **ret);
void window_free(struct window *w);
/*
 * The same in two steps, for two threads: a window is detached in microseconds, however large it is, and
 * opened by its consumer, which takes as long as it takes; `c` is the window's then. closed_window_lay_out
 * also makes all its tracks, for those who want them at once and have the memory; it frees `c` in any case.
 * closed_window_free does so without looking at it (NULL is fine).
 */
struct closed_window;
struct error *profile_detach_window(struct profile *p, uint64_t t_end, struct closed_window **ret);
uint32_t closed_window_ticks(const struct closed_window *c);
struct window *closed_window_open(struct closed_window *c);
uint64_t closed_window_ns(const struct closed_window *c);	/* from its start to its end */
uint64_t closed_window_health(const struct closed_window *c, enum health_id id);
struct error *closed_window_lay_out(struct closed_window *c, struct window **ret);
void closed_window_free(struct closed_window *c);
/*
 * What was seen after t counts as seen at t: goprof was stopped in the middle of a tick, at t or soon
 * after. Only the newest looks may be that late.
 */
void profile_cut(struct profile *p, uint64_t t);
/*
 * From the end of the last window to t nobody looked: the next one, and the intervals that go on in
 * it, begin at t. Nothing while a window is open. Returns how long that was.
 */
uint64_t profile_skip(struct profile *p, uint64_t t);

#endif
