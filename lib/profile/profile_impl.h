/*
 * profile_impl.h: what the files of lib/profile share. Nobody outside includes it.
 *
 * Who touches what. The sampling thread owns the store; a consumer owns the windows it was given. What
 * both need never changes once it can be seen by the other:
 *
 *	tables		only grow, and nothing in them moves; a window has a copy of their heads, as they were when
 *			it was closed (struct tables), and a reference to their memory (struct epoch)
 *	tracks		stand in blocks; a window has references to all blocks of its time, and the store copies a
 *			block before it writes to one that somebody else still reads
 *	the log		of a window's intervals goes over to it as a whole
 *
 * A million goroutines are kept in 16 bytes each, and what happens to one of them in 20: whoever reads a window
 * has its intervals made for one track at a time (layout.c).
 */
#ifndef GOPROF_PROFILE_PROFILE_IMPL_H
#define GOPROF_PROFILE_PROFILE_IMPL_H

#include <stdatomic.h>

#include "base/array.h"
#include "base/arena.h"
#include "base/map.h"
#include "profile/profile.h"

/* ---- tables.c: the tables of one epoch ---- */

enum table_id { TABLE_STRINGS, TABLE_FRAMES, TABLE_STACKS, TABLE_LABELS, TABLE_ORIGINS, TABLE_LOOKS, TABLE_COUNT };

struct table_row {
	const void *data;	/* in the epoch's arena; a NUL stands behind it */
	uint32_t len;
};

enum {
	TABLE_PART_FIRST = 64,	/* rows of the first part; each further one doubles the table */
	TABLE_PARTS = 27,	/* enough for 2^32 rows */
};

/* Byte strings with numbers. Rows stand in parts that never move. */
struct table {
	struct table_row *parts[TABLE_PARTS];
	uint32_t n;
};

/* All that a look-up needs. A copy stays as it is while the tables go on. */
struct tables {
	struct table v[TABLE_COUNT];
	const struct profile_image *images;	/* in the arena */
	uint32_t n_images;
};

/* The memory of the tables. It lives as long as the store or a window points into it. */
struct epoch {
	_Atomic uint32_t refs;
	uint32_t number;
	struct arena arena;
	struct tables tables;
	struct mapb maps[TABLE_COUNT];	/* content -> row; for the store alone */
	uint32_t cap_images;
	size_t part_bytes;		/* of all parts */
	uint32_t *scratch;		/* keys are put together here */
	size_t scratch_cap;
};

struct error *epoch_create(uint32_t number, struct epoch **ret);
struct epoch *epoch_ref(struct epoch *e);
/* The last one frees it. NULL is fine. From any thread. */
void epoch_unref(struct epoch *e);
size_t epoch_bytes(const struct epoch *e);
/* A copy whose strings live as long as the epoch. */
struct error *epoch_copy_meta(struct epoch *e, const struct profile_meta *meta, struct profile_meta *ret);

const struct table_row *table_row(const struct table *t, uint32_t i);
/* Equal content gets the equal number. */
struct error *epoch_intern(struct epoch *e, enum table_id table, const void *data, size_t len, profile_id *ret);

/* What a track is told to be; tracks of one kind share it. */
struct origin {
	profile_id entry, entry_file, created_by;
	uint32_t entry_line;
	uint32_t system;
};

struct error *origin_intern(struct profile *p, const struct profile_track_info *info, profile_id *ret);
const struct origin *origin_get(const struct tables *t, profile_id id);

/* What a track is and looks like. Those that are alike share it: most are parked at a few places. */
struct look {
	profile_id origin, stack, state, labels;
	uint32_t weight : 24, oncpu : 8;
};

struct error *look_intern(struct profile *p, const struct look *look, profile_id *ret);
const struct look *look_get(const struct tables *t, profile_id id);

/* ---- tracks.c ---- */

enum { NONE = UINT32_MAX };

enum track_flag {
	TRACK_OPEN = 1,		/* its latest interval goes on */
	TRACK_GONE = 2,		/* it has ended: the slot is free when the window has been closed */
	TRACK_LISTED = 4,	/* its slot is in `gone` or `free`; it may be alive again all the same */
};

enum { LOOK_WEIGHT_MAX = (1 << 24) - 1 };

/* Of a goroutine's number as much is kept as there can be goroutines in ten years. */
#define TRACK_KEY_MOST (((uint64_t)1 << 48) - 1)

/* What a goroutine (or a thread without one) looks like now. Millions of them: see that it stays small. */
struct track {
	uint64_t key : 48, flags : 3, last_high : 13;
	uint32_t last_low;
	profile_id look;
};
_Static_assert(sizeof(struct track) == 16, "a track has grown");

/* Its latest entry in the log, counted through all windows; 0: it never had one. */
static inline uint64_t track_last(const struct track *t)
{
	return (uint64_t)t->last_high << 32 | t->last_low;
}

static inline void track_set_last(struct track *t, uint64_t last)
{
	t->last_high = last >> 32 & ((1u << 13) - 1);
	t->last_low = (uint32_t)last;
}

enum { BLOCK_TRACKS = 128 };	/* 2 KiB: what a change copies when it is the first one of a block */

struct track_block {
	_Atomic uint32_t refs;
	struct track v[BLOCK_TRACKS];
};

/* Slots. */
struct slots {
	uint32_t *v;
	uint32_t n, cap;
};

struct tracks {
	struct track_block **blocks;
	bool *shared;			/* of each block: a window may have it, too */
	uint32_t n_blocks, cap_blocks, cap_shared;
	uint32_t n;			/* slots in use or free again */
	struct mapi by_key;		/* key -> slot; also of tracks that are gone, until the slot is used again */
	bool repeated;			/* a track that was made in the open window has the key of one before it */
	struct slots gone;		/* ended in the open window */
	struct slots free;		/* ended in an earlier one */
};

void tracks_init(struct tracks *ts);
void tracks_deinit(struct tracks *ts);
/* In use: not counting those that have ended. */
static inline uint32_t tracks_alive(const struct tracks *ts)
{
	return ts->n - ts->gone.n - ts->free.n;
}
static inline const struct track *track_at(const struct tracks *ts, uint32_t slot)
{
	return &ts->blocks[slot / BLOCK_TRACKS]->v[slot % BLOCK_TRACKS];
}
void track_info(const struct tables *tables, const struct track *t, struct profile_track_info *ret);
/* To be written to. NULL: memory is short. */
struct track *track_change(struct tracks *ts, uint32_t slot);
/* A slot for a new track of this key. `base`: as window_base. */
struct error *track_new(struct tracks *ts, uint64_t key, uint64_t base, uint32_t *ret);
/* It has ended: its slot will be free. */
void track_list_gone(struct tracks *ts, uint32_t slot, struct track *t);
/* The slots of tracks that ended in the window that was just closed may be used again. */
struct error *tracks_free_gone(struct tracks *ts);
/* References to all blocks as they are. */
struct error *tracks_share(struct tracks *ts, struct track_block ***ret);
void track_block_unref(struct track_block *b);

/* ---- log.c: what happened in a window, in the order in which it did ---- */

/* Instead of a look. */
#define LOG_END UINT32_MAX		/* the track ended, or was not there any more */
#define LOG_CPU (UINT32_MAX - 1)	/* belongs to the entry before it: its CPU time, in t_start */

/*
 * The beginning of an interval; it lasts until the next one of its track begins. A track knows its latest entry,
 * each entry the one before it. An entry before which there is none may be that of several tracks.
 */
struct log_entry {
	uint64_t t_start;
	uint32_t prev;			/* entry of the same window; NONE: the first one */
	profile_id look;
	uint32_t first_tick;
} __attribute__((packed, aligned(4)));
_Static_assert(sizeof(struct log_entry) == 20, "an entry of the log has grown");

enum { LOG_PART = 8192 };	/* 160 KiB: goes back to the system by itself */

struct log {
	struct log_entry **parts;
	uint32_t n_parts, cap_parts;
	uint32_t n;
	uint32_t *starts;		/* by look: entry of all that looked like this when the window began, or NONE */
	uint32_t n_starts, cap_starts;
};

static inline struct log_entry *log_at(const struct log *l, uint32_t i)
{
	return &l->parts[i / LOG_PART][i % LOG_PART];
}
/* Its place is *ret. */
struct error *log_add(struct log *l, const struct log_entry *e, uint32_t *ret);
/* With room for CPU time. */
struct error *log_add_oncpu(struct log *l, const struct log_entry *e, uint32_t *ret);
/* Where the CPU time of entry i stands; NULL: it has no room for it, or there is no such entry. */
struct log_entry *log_cpu(const struct log *l, uint32_t i);
/* An entry that tracks share, which go on with this look from the window's start, or are new. */
struct error *log_start(struct log *l, profile_id look, uint64_t t_start, uint32_t *ret);
struct error *log_fresh(struct log *l, profile_id look, uint64_t t_start, uint32_t tick, uint32_t *ret);
void log_deinit(struct log *l);

/* ---- store.c, window.c ---- */

struct open_window {
	bool open;
	uint32_t number;		/* of the open one, or of the last one */
	struct clock_anchor start;	/* where none is open: of the next one, as far as it is known */
	uint64_t latest;		/* no tick and no look of this window is later */
	uint64_t *ticks;
	uint32_t n_ticks, cap_ticks;
	struct log log;
	uint64_t base;			/* the count of its first entry; from 1 */
	uint64_t cpu_unseen_ns, cpu_ended_ns;
	uint64_t health[HEALTH_COUNT];
};

/*
 * A store, or what a window knows of one: then only `tables`, `epoch` and `meta` are set, and nothing but
 * looking up is possible.
 */
struct profile {
	const struct tables *tables;	/* of `epoch`, or a window's copy */
	struct epoch *epoch;		/* referenced */
	struct profile_meta meta;	/* strings in the epoch's arena */
	const struct clock *clock;	/* borrowed */
	struct profile_limits limits;
	size_t tables_most;		/* bytes of tables at which the next epoch begins */
	struct next_epoch *next;	/* NULL: none is being prepared */
	struct tracks tracks;
	uint64_t goroutines;		/* that were ever looked at */
	struct open_window win;
	bool had_window;
	struct clock_anchor last_end;	/* of the window closed last, if had_window */
};

/* ---- epoch.c ---- */

/* The tables of the next epoch, while they are filled. */
struct next_epoch {
	struct profile names;
	struct profile_carry *carry;	/* from the store's tables to these */
	uint32_t slot;			/* tracks before it have been noted */
};

void next_epoch_free(struct next_epoch *next);	/* NULL is fine */
/* What the track looks like now will be needed there. */
struct error *next_epoch_note(struct next_epoch *next, const struct track *t);

/* The tick that is going on, as an index; 0 before the first one of a window. */
static inline uint32_t window_tick_now(const struct open_window *w)
{
	return w->n_ticks ? w->n_ticks - 1 : 0;
}

/* Has the track an entry in the open window's log? Without one an open track goes on from its start. */
static inline bool track_is_logged(const struct open_window *w, const struct track *t)
{
	return track_last(t) >= w->base;
}

static inline uint32_t track_entry(const struct open_window *w, const struct track *t)
{
	return (uint32_t)(track_last(t) - w->base);
}

/* What its consumer gets, and what it cannot see. */
struct closed_window {
	struct window window;
	struct tables tables;		/* as they were */
	struct profile names;		/* window.profile */
	struct log log;
	uint64_t base;
	struct track_block **blocks;
	uint32_t n_blocks;
	struct arena intervals;		/* of tracks that are laid out */
};

#endif
