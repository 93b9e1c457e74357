/*
 * layout.c: from what changed hands when a window was closed to the window that exporters read: its
 * intervals, track by track. Runs beside sampling and touches nothing that the store writes to.
 *
 * Most goroutines of a large program were parked all the time, at one of a few places: those that look
 * equal share one interval.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "profile/profile_impl.h"

/* What the caller of closed_window_lay_out gets, and what it cannot see. */
struct window_box {
	struct window window;
	struct tables tables;
	struct profile names;
	struct interval *intervals;	/* of all tracks that have any in the log, one behind the other */
	struct arena shared;		/* those of tracks that were parked all the time */
};

/* Tracks that go on from the window's start to its end. */
struct parked {
	struct arena *arena;
	struct mapb map;		/* what stands before `flags` in the interval -> v */
	struct interval **v;
	uint32_t n, cap;
};

struct layout {
	struct closed_window *from;
	struct window_box *box;
	uint32_t *ends;			/* where each track's intervals end, by slot */
	struct parked parked;
};

void closed_window_free(struct closed_window *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->n_blocks; i++)
		track_block_unref(c->blocks[i]);
	free(c->blocks);
	log_deinit(&c->log);
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

void window_free(struct window *w)
{
	struct window_box *box = (struct window_box *)w;	/* its first member */

	if (!w)
		return;
	free(box->intervals);
	arena_deinit(&box->shared);
	free(w->tracks);
	free(w->ticks);
	epoch_unref(box->names.epoch);
	free(box);
}

static const struct track *track_of(const struct layout *l, uint32_t slot)
{
	return &l->from->blocks[slot / BLOCK_TRACKS]->v[slot % BLOCK_TRACKS];
}

/* ---- intervals of the log ---- */

/* Where each track's intervals begin: that moves to their end as they are put there. */
static void find_places(struct layout *l)
{
	const struct log *log = &l->from->log;
	uint32_t at = 0;

	for (uint32_t i = 0; i < log->n; i++)
		l->ends[log_at(log, i)->track]++;
	for (uint32_t slot = 0; slot < l->from->n_tracks; slot++) {
		uint32_t n = l->ends[slot];

		l->ends[slot] = at;
		at += n;
	}
}

static struct interval interval_of(const struct layout *l, const struct log_entry *e, uint64_t count)
{
	const struct track *t = track_of(l, e->track);
	struct interval iv = {
		.stack = e->stack, .state = e->state, .labels = e->labels,
		.flags = e->oncpu ? INTERVAL_ONCPU : 0, .first_tick = e->first_tick, .end_tick = e->end_tick,
		.t_start = e->t_start, .t_end = e->t_end, .cpu_ns = e->cpu_ns, .weight = e->weight,
	};

	if (t->flags & TRACK_OPEN && t->last == count) {
		iv.t_end = l->from->window.end.mono;
		iv.end_tick = l->from->window.n_ticks;
	}
	return iv;
}

/* The order of the log is that of time. Each part goes when it has been put in its places. */
static void place_intervals(struct layout *l)
{
	struct log *log = &l->from->log;

	for (uint32_t i = 0; i < log->n; i++) {
		const struct log_entry *e = log_at(log, i);

		l->box->intervals[l->ends[e->track]++] = interval_of(l, e, l->from->base + i);
		if (i % LOG_PART == LOG_PART - 1)
			free(take(log->parts[i / LOG_PART]));
	}
}

/* ---- intervals that nothing happened to ---- */

enum { PARKED_KEY = offsetof(struct interval, first_tick) };

static const void *parked_key(const void *ctx, uint32_t value, size_t *len)
{
	const struct parked *p = ctx;

	*len = PARKED_KEY;
	return p->v[value];
}

static struct error *parked_add(struct parked *p, const struct interval *iv, uint32_t *ret)
{
	struct error *err = array_reserve(&p->v, &p->cap, p->n + 1, sizeof(struct interval *));
	struct interval *copy = err ? NULL : arena_alloc(p->arena, sizeof(*copy));

	if (!copy)
		return &err_nomem;
	*copy = *iv;
	p->v[p->n] = copy;
	err = mapb_put(&p->map, copy, PARKED_KEY, p->n);
	if (!err)
		*ret = p->n++;
	return err;
}

static struct error *parked_interval(struct layout *l, const struct track *t, const struct interval **ret)
{
	const struct window *w = &l->from->window;
	const struct interval iv = {
		.stack = t->stack, .state = t->state, .labels = t->labels,
		.flags = t->oncpu ? INTERVAL_ONCPU : 0, .weight = t->weight, .end_tick = w->n_ticks,
		.t_start = w->start.mono, .t_end = w->end.mono,
	};
	uint32_t at = mapb_get(&l->parked.map, &iv, PARKED_KEY);
	struct error *err = at == MAP_NONE ? parked_add(&l->parked, &iv, &at) : NULL;

	if (!err)
		*ret = l->parked.v[at];
	return err;
}

/* ---- tracks ---- */

static bool goes_on(const struct track *t, uint64_t base)
{
	return t->flags & TRACK_OPEN && t->last < base;
}

static uint32_t first_of(const struct layout *l, uint32_t slot)
{
	return slot ? l->ends[slot - 1] : 0;
}

static uint32_t count_tracks(const struct layout *l)
{
	uint32_t n = 0;

	for (uint32_t slot = 0; slot < l->from->n_tracks; slot++)
		n += l->ends[slot] > first_of(l, slot) || goes_on(track_of(l, slot), l->from->base);
	return n;
}

static struct error *add_track(struct layout *l, uint32_t slot)
{
	const struct track *t = track_of(l, slot);
	struct window_track wt = { .n = l->ends[slot] - first_of(l, slot) };
	struct error *err = NULL;

	if (wt.n) {
		wt.v = l->box->intervals + first_of(l, slot);
	} else if (goes_on(t, l->from->base)) {
		wt.n = 1;
		err = parked_interval(l, t, &wt.v);
	}
	if (err || !wt.n)
		return err;
	for (uint32_t i = 0; i < wt.n; i++)
		wt.cpu_ns += wt.v[i].cpu_ns;
	track_info(&l->from->tables, t, &wt.info);
	l->box->window.tracks[l->box->window.n_tracks++] = wt;
	return NULL;
}

static struct error *add_tracks(struct layout *l)
{
	struct error *err = NULL;

	/* One more than needed: calloc(0) may be NULL. */
	l->box->window.tracks = calloc((size_t)count_tracks(l) + 1, sizeof(*l->box->window.tracks));
	if (!l->box->window.tracks)
		return &err_nomem;
	for (uint32_t slot = 0; slot < l->from->n_tracks && !err; slot++) {
		err = add_track(l, slot);
		/* The sooner it goes, the fewer are copied. */
		if (slot % BLOCK_TRACKS == BLOCK_TRACKS - 1)
			track_block_unref(take(l->from->blocks[slot / BLOCK_TRACKS]));
	}
	return err;
}

static struct error *lay_out(struct layout *l)
{
	l->ends = calloc((size_t)l->from->n_tracks + 1, sizeof(*l->ends));
	l->box->intervals = calloc((size_t)l->from->log.n + 1, sizeof(*l->box->intervals));
	if (!l->ends || !l->box->intervals)
		return &err_nomem;
	find_places(l);
	place_intervals(l);
	return add_tracks(l);
}

/* What is not laid out changes hands once more. */
static void take_over(struct closed_window *c, struct window_box *box)
{
	box->window = c->window;
	box->tables = c->tables;
	box->names = c->names;
	box->names.tables = &box->tables;
	box->window.profile = &box->names;
	c->window.ticks = NULL;
	c->names.epoch = NULL;
}

struct error *closed_window_lay_out(struct closed_window *c, struct window **ret)
{
	struct window_box *box = calloc(1, sizeof(*box));
	struct layout l = { .from = c, .box = box };
	struct error *err = &err_nomem;

	if (box) {
		arena_init(&box->shared);
		l.parked.arena = &box->shared;
		mapb_init(&l.parked.map, parked_key, &l.parked);
		err = lay_out(&l);
		mapb_deinit(&l.parked.map);
		free(l.parked.v);
		free(l.ends);
	}
	if (!err) {
		struct window tracks = box->window;

		take_over(c, box);
		box->window.tracks = tracks.tracks;
		box->window.n_tracks = tracks.n_tracks;
		*ret = &box->window;
	} else if (box) {
		window_free(&box->window);
	}
	closed_window_free(c);
	return err;
}
