/*
 * layout.c: what changed hands when a window was closed, as those read it who got it: the intervals of one track
 * at a time, made when they are asked for. Runs beside sampling and touches nothing that the store writes to.
 *
 * A track knows its latest entry in the log, and each entry the one before it: so they are put down from the end.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "profile/profile_impl.h"

void closed_window_free(struct closed_window *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->n_blocks; i++)
		track_block_unref(c->blocks[i]);
	free(c->blocks);
	log_deinit(&c->log);
	arena_deinit(&c->intervals);
	free(c->window.tracks);
	free(c->window.ticks);
	epoch_unref(c->names.epoch);
	free(c);
}

uint32_t closed_window_ticks(const struct closed_window *c)
{
	return c->window.n_ticks;
}

uint64_t closed_window_ns(const struct closed_window *c)
{
	return c->window.end.mono - c->window.start.mono;
}

uint64_t closed_window_health(const struct closed_window *c, enum health_id id)
{
	return c->window.health[id];
}

static const struct closed_window *closed(const struct window *w)
{
	return (const struct closed_window *)w;	/* its first member */
}

void window_free(struct window *w)
{
	closed_window_free((struct closed_window *)w);
}

/* ---- one track ---- */

static const struct track *track_of(const struct closed_window *c, uint32_t i)
{
	return &c->blocks[i / BLOCK_TRACKS]->v[i % BLOCK_TRACKS];
}

/* Its latest entry in this window; NONE: it has none. */
static uint32_t latest_of(const struct closed_window *c, const struct track *t)
{
	return track_last(t) >= c->base ? (uint32_t)(track_last(t) - c->base) : NONE;
}

static bool has_intervals(const struct closed_window *c, const struct track *t)
{
	return t->flags & TRACK_OPEN || latest_of(c, t) != NONE;
}

static uint32_t count_intervals(const struct closed_window *c, const struct track *t)
{
	uint32_t at = latest_of(c, t), n = 0;

	if (at == NONE)
		return !!(t->flags & TRACK_OPEN);
	for (; at != NONE; at = log_at(&c->log, at)->prev)
		n += log_at(&c->log, at)->look != LOG_END;
	return n;
}

static struct interval interval_of(const struct closed_window *c, profile_id id)
{
	const struct look *look = look_get(&c->tables, id);

	return (struct interval){
		.stack = look->stack, .state = look->state, .labels = look->labels,
		.flags = look->oncpu ? INTERVAL_ONCPU : 0, .weight = look->weight,
	};
}

/* What stands behind an entry of a track: its next one, or the end of the window. */
struct behind {
	uint32_t after;
	uint64_t t;
	uint32_t tick;
};

static struct behind behind_of(const struct closed_window *c, uint32_t after)
{
	if (after == WINDOW_TRACK_END)
		return (struct behind){ after, c->window.end.mono, c->window.n_ticks };
	return (struct behind){ after, log_at(&c->log, after)->t_start, log_at(&c->log, after)->first_tick };
}

/* From an entry on to where the next one of the track begins. */
static struct interval logged_interval(const struct closed_window *c, uint32_t at, struct behind end)
{
	const struct log_entry *e = log_at(&c->log, at), *cpu = log_cpu(&c->log, at);
	struct interval iv = interval_of(c, e->look);

	iv.t_start = e->t_start;
	iv.t_end = end.t;
	iv.first_tick = e->first_tick;
	iv.end_tick = end.tick > e->first_tick ? end.tick : e->first_tick;
	iv.cpu_ns = cpu ? cpu->t_start : 0;
	iv.after = end.after;
	return iv;
}

/* The n last ones before `after`; there are as many. */
static void put_intervals(const struct closed_window *c, const struct track *t, uint32_t after, struct interval *v,
			  uint32_t n)
{
	struct behind end = behind_of(c, after);
	uint32_t at = after == WINDOW_TRACK_END ? latest_of(c, t) : log_at(&c->log, after)->prev;

	if (at == NONE && n) {
		v[0] = interval_of(c, t->look);
		v[0].t_start = c->window.start.mono;
		v[0].t_end = end.t;
		v[0].end_tick = end.tick;
		v[0].after = end.after;
		return;
	}
	for (; n; at = log_at(&c->log, at)->prev) {
		if (log_at(&c->log, at)->look != LOG_END)
			v[--n] = logged_interval(c, at, end);
		end = behind_of(c, at);
	}
}

static void describe(const struct closed_window *c, const struct track *t, struct interval *v, uint32_t n,
		     struct window_track *ret)
{
	put_intervals(c, t, WINDOW_TRACK_END, v, n);
	*ret = (struct window_track){ .v = v, .n = n };
	for (uint32_t i = 0; i < n; i++)
		ret->cpu_ns += v[i].cpu_ns;
	track_info(&c->tables, t, &ret->info);
}

struct error *window_track(const struct window *w, uint32_t i, struct window_room *room, struct window_track *ret)
{
	const struct closed_window *c = closed(w);
	const struct track *t = track_of(c, i);
	uint32_t n = count_intervals(c, t);
	struct error *err = array_reserve(&room->v, &room->cap, n, sizeof(*room->v));

	/* What has ended in an earlier window looks like something in tables that are no more. */
	*ret = (struct window_track){ 0 };
	if (!err && n)
		describe(c, t, room->v, n, ret);
	return err;
}

struct error *window_intervals(const struct window *w, uint32_t i, uint32_t after, uint32_t n,
			       struct window_room *room, const struct interval **ret)
{
	const struct closed_window *c = closed(w);
	struct error *err = array_reserve(&room->v, &room->cap, n, sizeof(*room->v));

	if (err)
		return err;
	put_intervals(c, track_of(c, i), after, room->v, n);
	*ret = room->v;
	return NULL;
}

void window_room_deinit(struct window_room *room)
{
	free(room->v);
	*room = (struct window_room){ 0 };
}

uint64_t window_track_key(const struct window *w, uint32_t i)
{
	const struct track *t = track_of(closed(w), i);

	return has_intervals(closed(w), t) ? t->key : 0;
}

uint64_t window_track_start(const struct window *w, uint32_t i)
{
	const struct closed_window *c = closed(w);
	uint32_t at = latest_of(c, track_of(c, i));
	uint64_t start = w->start.mono;

	for (; at != NONE; at = log_at(&c->log, at)->prev)
		start = log_at(&c->log, at)->t_start;
	return start;
}

/* ---- all of them ---- */

struct window *closed_window_open(struct closed_window *c)
{
	for (uint32_t i = 0; i < c->window.n_places; i++)
		c->window.n_tracks += has_intervals(c, track_of(c, i));
	return &c->window;
}

static struct error *add_track(struct closed_window *c, const struct track *t, struct window_track *ret)
{
	uint32_t n = count_intervals(c, t);
	struct interval *v = arena_alloc(&c->intervals, n * sizeof(*v));

	if (!v)
		return &err_nomem;
	describe(c, t, v, n, ret);
	return NULL;
}

struct error *closed_window_lay_out(struct closed_window *c, struct window **ret)
{
	struct window *w = closed_window_open(c);
	uint32_t n = 0;
	struct error *err = NULL;

	/* One more than needed: calloc(0) may be NULL. */
	w->tracks = calloc((size_t)w->n_tracks + 1, sizeof(*w->tracks));
	if (!w->tracks)
		err = &err_nomem;
	for (uint32_t i = 0; i < w->n_places && !err; i++)
		if (has_intervals(c, track_of(c, i)))
			err = add_track(c, track_of(c, i), &w->tracks[n++]);
	if (err)
		closed_window_free(c);
	else
		*ret = w;
	return err;
}
