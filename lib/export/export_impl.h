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
/* The number of a key that is there; UINT32_MAX: it is not. */
uint32_t keyset_find(const struct keyset *k, const void *key, size_t len);
/* What it takes of memory. */
size_t keyset_bytes(const struct keyset *k);
/* Borrowed until the next keyset_add. */
const void *keyset_get(const struct keyset *k, uint32_t i, size_t *len);

/* ---- sentry_stream.c: JSON on its way to a sink ---- */

/* Text is added to `b` and goes on in pieces. Without a sink it is only counted. */
struct sentry_stream {
	struct buf b;
	struct sink *out;
	uint64_t bytes;		/* gone on */
	struct error *err;	/* of the sink: nothing is written after it */
};

void sentry_stream_init(struct sentry_stream *s, struct sink *out);
/* To be called after each row: lets go of what has come together. */
void sentry_stream_pass(struct sentry_stream *s);
/* Lets go of the rest and frees; *bytes is all that was written. */
struct error *sentry_stream_end(struct sentry_stream *s, uint64_t *bytes);

/* Decimal digits of n. */
uint32_t sentry_digits(uint64_t n);
/* Writes them and returns where they end. */
char *sentry_put_number(char *at, uint64_t n);

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
/* Of one frame that no function stands for. */
struct error *sentry_stack_of_mark(struct sentry_stacks *s, const char *mark, uint32_t *ret);
/* Have two stacks of the payload their root in common? */
bool sentry_stacks_common(const struct sentry_stacks *s, uint32_t a, uint32_t b);
/* "frames":[...],"stacks":[...] */
void sentry_stacks_json(const struct sentry_stacks *s, struct sentry_stream *out);

/* ---- sentry_plan.c: how much is told ---- */

enum sentry_grouping {
	SENTRY_GROUP_NONE,
	SENTRY_GROUP_SAME,	/* never on a CPU, with one and the same stack */
	SENTRY_GROUP_PARKED,	/* never on a CPU, of one entry function or label */
	SENTRY_GROUP_ALL,	/* of one entry function or label */
};

struct sentry_level {
	bool last_ticks;	/* of parked intervals the last tick too */
	uint64_t mixed_ns;	/* off the CPU, the order of stacks within this time is not told; 0: it is */
	uint64_t pushed_ns;	/* within this time what is on a CPU is told first; 0: everything in its place */
	uint32_t tick_step;	/* on a CPU, every n-th tick */
	uint64_t summed_ns;	/* on a CPU too, the order of stacks within this time is not told, and no ticks */
	enum sentry_grouping grouping;
};

/* What decides how a window becomes samples. */
struct sentry_view {
	const struct window *w;
	enum profile_mode mode;
	uint64_t limit;		/* CLOCK_MONOTONIC: nothing later is told */
	profile_id unread;	/* the stack of goroutines that were not looked at yet; 0: there is none */
	const struct sentry_level *level;
	const struct sentry_crowd *crowd;
};

/* Whose threads are shared, or grouped. No padding: its bytes are compared. */
struct sentry_owner {
	profile_id name;	/* string: entry function, or the value of the label */
	uint32_t by_label, native;
};

/* Owners of shared threads whose goroutines are grouped, as they would need too many; sentry_crowd.c. */
struct sentry_crowd {
	struct keyset same, parked;	/* struct sentry_owner, those with most threads first */
	uint32_t n_same, n_parked;	/* so many of them are grouped in this way */
};

/* ---- sentry_groups.c: many goroutines told as one ---- */

/* What is to be known of a goroutine before it is told. */
struct sentry_facts {
	uint64_t key, cpu_ns;
	uint32_t changes;		/* intervals */
	profile_id entry;		/* of its latest track */
	profile_id stack;		/* of the first interval that is told, if possible one that was looked at */
	profile_id state;		/* with that stack; 0 when there were several */
	bool told, oncpu;
	bool looked_at;			/* `stack` is one */
	bool one_stack;			/* it had no other */
	bool alone;			/* must not be grouped */
	bool joined;			/* some of its time is in a group */
};

struct sentry_group {
	uint64_t start;			/* of the first member, CLOCK_MONOTONIC */
	uint64_t cpu_ns;
	uint64_t latest;		/* key of the member that was counted last */
	uint32_t members;
	uint32_t own;			/* of them, those that have not been counted in another group */
	uint32_t owner;			/* its number in sentry_threads.owners */
	profile_id stack, state;	/* of all members; stack 0: they have several */
};

/* Time of one stack in a group, all members together. */
struct sentry_sum {
	uint64_t ns;
	uint32_t group;
	profile_id stack;
};

struct sentry_groups {
	struct keyset keys;		/* whose group -> its number */
	struct sentry_group *v;
	uint32_t cap;
	struct keyset sum_keys;		/* group and stack -> place in sums */
	struct sentry_sum *sums;	/* at last by group, longest first */
	uint32_t cap_sums;
};

struct sentry_threads;
struct sentry_piece;

void sentry_groups_init(struct sentry_groups *g);
void sentry_groups_deinit(struct sentry_groups *g);
/* May goroutine f join a group of this owner? */
bool sentry_groups_take(const struct sentry_view *view, const struct sentry_facts *f,
			const struct sentry_owner *owner);
/* Counts a piece of a goroutine that may join. All must have been counted before the first is added. */
struct error *sentry_groups_count(struct sentry_groups *g, const struct sentry_view *view,
				  const struct sentry_facts *f, const struct sentry_owner *owner, uint32_t number);
/* Adds it; *ret tells whether its group has other members too: else it is told by itself. `room` is used. */
struct error *sentry_groups_add(struct sentry_groups *g, const struct sentry_view *view, struct sentry_facts *f,
				const struct sentry_owner *owner, const struct sentry_piece *piece,
				struct window_room *room, bool *ret);
/* Makes all groups threads. */
struct error *sentry_groups_threads(struct sentry_threads *t);

/* ---- sentry_threads.c: which threads are told ---- */

enum sentry_thread_kind {
	SENTRY_GOROUTINE,	/* or a thread without one */
	SENTRY_LANE,
	SENTRY_GROUP,
};

/* Intervals [first, end) of a track: what a thread is put together from. */
struct sentry_piece {
	uint64_t start, end_ns;	/* on a lane: where the first one begins, and the last one ends; CLOCK_MONOTONIC */
	uint32_t track;		/* its place in the window */
	uint32_t first, end;
	uint32_t after;		/* of the last one: window_intervals */
	uint32_t owner;		/* in sentry_threads.owners */
	uint32_t lane : 31;	/* sentry_lanes.c */
	uint32_t parked : 1;	/* the goroutine was never on a CPU */
};

struct sentry_thread {
	uint64_t id;		/* in the payload; of a lane or group 0 until it is sure to be told */
	uint64_t cpu_ns;
	uint32_t changes;	/* intervals; of a group its members */
	uint32_t first, n;	/* its pieces, in order of time; of a group its sums */
	profile_id name;	/* as in struct sentry_owner */
	uint32_t lane;		/* from 0; of a group its number */
	uint8_t kind;		/* enum sentry_thread_kind */
	bool by_label;		/* `name` is a value */
	bool native;		/* no goroutine */
	bool pinned;		/* the active one, as asked for */
};

struct sentry_threads {
	struct sentry_thread *v;	/* those that are told, most important first */
	uint32_t told, cap;
	uint32_t most;			/* 0: all are told */
	struct sentry_piece *pieces;
	uint32_t n_pieces, cap_pieces;
	struct keyset owners;		/* struct sentry_owner; of lanes and groups */
	uint32_t *parked;		/* for each: groups, and lanes on which nobody was ever on a CPU */
	uint32_t cap_parked;
	struct sentry_groups groups;
	uint64_t active;		/* id of the active one, always among the told */
	uint32_t goroutines;		/* in the window, told or not */
	bool labelled;			/* some time has the label that was asked for */
	uint32_t n_groups;		/* that are told */
	struct export_counts grouped;	/* their members */
	uint32_t left_threads;		/* how many threads are not told, and what they stand for: */
	struct export_counts left_out;
	struct keyset left_owners;	/* struct sentry_owner -> place in left_counts */
	struct export_counts *left_counts;
	uint32_t cap_left;
};

/* Is an interval of this length shown at all, and with its stack? */
bool sentry_interval_told(const struct sentry_view *view, const struct interval *iv);
/* Its end, as far as it is told. */
uint64_t sentry_interval_end(const struct sentry_view *view, const struct interval *iv);
/* Whose is time with these labels? */
struct sentry_owner sentry_owner_of(const struct sentry_view *view, const struct export_options *o,
				    const struct profile_track_info *info, profile_id labels);

/* Its number in t->owners. */
struct error *sentry_threads_owner(struct sentry_threads *t, const struct sentry_view *view,
				   const struct export_options *o, const struct profile_track_info *info,
				   profile_id labels, uint32_t *ret);

/* Fills *ret, which needs sentry_threads_deinit on failure too. */
struct error *sentry_threads_choose(const struct sentry_view *view, const struct export_options *o,
				    struct sentry_threads *ret);
void sentry_threads_deinit(struct sentry_threads *t);
/* One more, which may push others out. */
struct error *sentry_threads_add(struct sentry_threads *t, const struct sentry_thread *th);

/* ---- sentry_lanes.c: goroutines that share threads ---- */

/* Cuts the told intervals of a track, which has that place, into pieces by their owners, and adds them. */
struct error *sentry_lanes_track(const struct sentry_view *view, const struct export_options *o,
				 const struct window_track *track, uint32_t place, bool parked,
				 struct sentry_threads *t);
/* Lays all pieces out and adds the lanes; the first one of goroutine `wanted` (0 none) is pinned. */
struct error *sentry_lanes(const struct sentry_view *view, uint64_t wanted, struct sentry_threads *t);

/* ---- sentry_crowd.c: shared threads that would be too many ---- */

void sentry_crowd_init(struct sentry_crowd *c);
void sentry_crowd_deinit(struct sentry_crowd *c);
/* How goroutines of this owner are grouped, whatever the level. */
enum sentry_grouping sentry_crowd_grouping(const struct sentry_crowd *c, const struct sentry_owner *owner);
/*
 * Decides whose goroutines are grouped, so that threads become as few as are wanted: as few owners' as
 * possible, at last all of them. `t` are the threads without, then with it. `c` is the one of `view`.
 */
struct error *sentry_crowd_settle(struct sentry_crowd *c, const struct sentry_view *view,
				  const struct export_options *o, struct sentry_threads *t);

/* ---- sentry_names.c: ids and names ---- */

/* Gives lanes and groups that are told their ids. */
struct error *sentry_threads_name(struct sentry_threads *t, const struct sentry_view *view);
/* {"ID":{"name":...},...} of those told */
void sentry_threads_json(const struct sentry_threads *t, const struct sentry_view *view,
			 const struct export_options *o, struct sentry_stream *out);

/* ---- sentry_sums.c: time by stack ---- */

/* Time of one stack within some time. */
struct sentry_stack_time {
	uint32_t stack;
	uint64_t ns;
};

struct sentry_sums {
	struct sentry_stack_time *v;
	uint32_t n, cap;
	uint32_t from;		/* where those begin that may still grow */
	uint32_t *place;	/* of a stack in v, if it is there */
	uint32_t cap_place;
};

/* Zeroed before the first. */
struct error *sentry_sums_add(struct sentry_sums *s, uint32_t stack, uint64_t ns);
void sentry_sums_deinit(struct sentry_sums *s);

/* ---- sentry_samples.c: from intervals to samples ---- */

struct sentry_sample {
	uint64_t at_order;	/* time since the window's start; below it what keeps equal ones in order */
	uint32_t thread;	/* index into sentry_threads.v */
	uint32_t stack;
};

struct sentry_samples {
	struct sentry_sample *v;	/* by time; NULL while they were only counted */
	uint32_t n;
	uint64_t bytes;			/* of sentry_samples_json */
	uint64_t oncpu_starts;		/* of them those where on-CPU intervals begin, */
	uint64_t oncpu_ticks;		/* and those at the ticks within */
};

struct error *sentry_samples_count(const struct sentry_view *view, const struct sentry_threads *t,
				   struct sentry_stacks *stacks, struct sentry_samples *ret);
/* Makes those that were counted. */
struct error *sentry_samples_of(const struct sentry_view *view, const struct sentry_threads *t,
				struct sentry_stacks *stacks, struct sentry_samples *ret);
void sentry_samples_deinit(struct sentry_samples *s);
void sentry_samples_json(const struct sentry_samples *s, const struct sentry_threads *t,
			 struct sentry_stream *out);

/* ---- sentry_plan.c ---- */

/* A profile ready to be written. */
struct sentry_plan {
	struct sentry_view view;	/* of the level below */
	struct sentry_level level;
	uint32_t step;			/* how often something was taken away */
	struct sentry_crowd crowd;
	struct export_options o;	/* with as many threads as fit */
	struct sentry_threads threads;
	struct sentry_stacks stacks;
	struct sentry_samples samples;
	bool thinned;			/* it is not all there, */
	bool too_big;			/* since the service would not have taken it, */
	bool cut;			/* not even as groups */
	uint64_t body;			/* bytes without the head */
	struct buf head;		/* the profile's other members, set by sentry_v1.c: {... */
};

/*
 * Makes a plan whose body has at most `room` bytes. Errors are those of sentry_v1_build.
 * sentry_plan_destroy(NULL) is fine.
 */
struct error *sentry_plan_create(const struct window *w, const struct export_options *o, uint64_t room,
				 struct sentry_plan **ret);
void sentry_plan_destroy(struct sentry_plan *plan);
/* The head, the tables, threads and samples: head.len + body bytes. */
struct error *sentry_plan_write(const struct sentry_plan *plan, struct sink *out);

/* ---- sentry_v1.c ---- */

/* sentry_v1_build with another limit for the profile's bytes; tests use a small one. */
struct error *sentry_v1_build_limited(const struct window *w, const struct export_options *o,
				      uint64_t most_bytes, struct sentry_v1 *ret);

#endif
