/*
 * profile_impl.h: what the files of lib/profile share. Nobody outside includes it.
 *
 * One log holds the intervals of the open window in the order in which they began; a track (a
 * goroutine, or a thread without one) knows its latest. What a track looks like now stands in the
 * track itself, so that a look that changes nothing touches two cache lines and no allocator.
 */
#ifndef GOPROF_PROFILE_PROFILE_IMPL_H
#define GOPROF_PROFILE_PROFILE_IMPL_H

#include "base/array.h"
#include "base/arena.h"
#include "base/map.h"
#include "profile/profile.h"

/* ---- tables.c ---- */

struct intern_key {
	const void *data;	/* in the arena; a NUL stands behind it */
	uint32_t len;
};

/* Byte strings that get equal ids when they are equal. */
struct intern {
	struct mapb map;
	struct arena *arena;	/* borrowed */
	struct intern_key *v;
	uint32_t n, cap;
};

struct tables {
	struct arena arena;
	struct intern strings, frames, stacks, labels;
	struct profile_image *images;
	uint32_t n_images, cap_images;
	uint32_t *scratch;	/* keys are put together here */
	size_t scratch_cap;
};

struct error *tables_init(struct tables *t);
void tables_deinit(struct tables *t);

/* ---- store.c, window.c ---- */

enum { NONE = UINT32_MAX };

enum track_flag {
	TRACK_OPEN = 1,		/* its latest interval goes on */
	TRACK_GONE = 2,		/* it has ended; its slot is freed when the window closes */
	TRACK_FREE = 4,		/* an unused slot; `last` is the next free one */
};

struct track {
	profile_id stack, state, labels;
	uint32_t weight, oncpu;	/* of the latest interval */
	uint32_t last;		/* latest interval in the log, or NONE in this window */
	uint32_t flags;		/* enum track_flag */
};

struct log_entry {
	struct interval interval;
	uint32_t track;
};

struct open_window {
	bool open;
	uint32_t number;		/* of the open one, or of the last one */
	struct clock_anchor start;
	uint64_t latest;		/* no tick and no look of this window is later */
	uint64_t *ticks;
	uint32_t n_ticks, cap_ticks;
	struct log_entry *log;
	uint32_t n_log, cap_log;
	uint64_t cpu_unseen_ns, cpu_ended_ns;
	uint64_t health[HEALTH_COUNT];
};

struct profile {
	const struct clock *clock;	/* borrowed */
	struct profile_meta meta;	/* strings in the arena */
	struct tables tables;
	struct map64 by_key;		/* key -> slot in tracks and infos */
	struct track *tracks;
	struct profile_track_info *infos;
	uint32_t n_tracks, cap_tracks, cap_infos;
	uint32_t free_track;		/* first free slot, or NONE */
	struct open_window win;
	bool had_window;
	struct clock_anchor last_end;	/* of the window closed last, if had_window */
};

/* The tick that is going on, as an index; 0 before the first one of a window. */
static inline uint32_t window_tick_now(const struct open_window *w)
{
	return w->n_ticks ? w->n_ticks - 1 : 0;
}

#endif
