/*
 * store.c: the store's life, its tracks, and the looks at them. A look that says nothing new costs
 * a hash look-up and a comparison; one that does ends an interval and begins the next at the same
 * instant. It knows no process and no format.
 *
 * What a track looks like now stands in the track. Its interval comes into the log with the first look in
 * a window; one that is open and was not looked at since the window began costs that window nothing.
 *
 * A goid is never given twice by one Go runtime, but exec and threads bring keys back: a key that
 * was gone may come again, as itself (same facts: the track goes on after a gap) or as another.
 */
#include <stdlib.h>
#include <string.h>

#include "profile/profile_impl.h"

/*
 * What a program has that runs for hours: some thousand stacks, some hundred label sets and all that names
 * them are less than 2 MiB. Twice that is a program that makes new labels all the time, and most of them are
 * of the past.
 *
 * A window of that many intervals takes 24 MiB here and as much again at its consumer. 175 goroutines that
 * change at every tick fill it in its 29.5 s; where more happens it is shorter. As many label sets, each seen
 * at two ticks, take 24 MiB of tables.
 */
static const struct profile_limits usual_limits = {
	.table_bytes = 4 << 20,
	.window_table_bytes = 24 << 20,
	.window_intervals = 1 << 19,
};

/* ---- meta ---- */

struct error *profile_set_meta(struct profile *p, const struct profile_meta *meta)
{
	return epoch_copy_meta(p->epoch, meta, &p->meta);
}

const struct profile_meta *profile_meta(const struct profile *p)
{
	return &p->meta;
}

/* ---- life ---- */

struct error *profile_create(const struct clock *clock, const struct profile_meta *meta,
			     struct profile **ret)
{
	struct profile *p = calloc(1, sizeof(*p));
	struct error *err;

	if (!p)
		return &err_nomem;
	tracks_init(&p->tracks);
	p->win.base = 1;
	err = epoch_create(0, &p->epoch);
	if (!err)
		err = profile_set_meta(p, meta);
	if (err) {
		profile_destroy(p);
		return err;
	}
	p->tables = &p->epoch->tables;
	p->clock = clock;
	profile_set_limits(p, &usual_limits);
	*ret = p;
	return NULL;
}

void profile_destroy(struct profile *p)
{
	if (!p)
		return;
	next_epoch_free(p->next);
	epoch_unref(p->epoch);
	tracks_deinit(&p->tracks);
	log_deinit(&p->win.log);
	free(p->win.ticks);
	free(p);
}

void profile_set_limits(struct profile *p, const struct profile_limits *limits)
{
	p->limits = *limits;
	p->tables_most = limits->table_bytes;
}

/* ---- tracks ---- */

/* The slot of a key that is there, or was in this window. */
static uint32_t slot_of(const struct profile *p, uint64_t key)
{
	uint32_t slot = mapi_get(&p->tracks.by_key, key);
	const struct track *t;

	if (slot == MAP_NONE)
		return NONE;
	t = track_at(&p->tracks, slot);
	return t->flags & TRACK_GONE && !track_is_logged(&p->win, t) ? NONE : slot;
}

struct error *profile_track(struct profile *p, const struct profile_track_info *info)
{
	uint32_t slot = slot_of(p, info->key);
	profile_id origin;
	struct error *err;
	struct track *t;

	if (slot != NONE && !(track_at(&p->tracks, slot)->flags & TRACK_GONE))
		return NULL;
	err = origin_intern(p, info, &origin);
	if (err)
		return err;
	if (slot == NONE || track_at(&p->tracks, slot)->origin != origin ||
	    track_at(&p->tracks, slot)->parent != info->parent)
		err = track_new(&p->tracks, info->key, p->win.base, &slot);
	if (err)
		return err;
	t = track_change(&p->tracks, slot);
	if (!t)
		return &err_nomem;
	t->flags &= ~(unsigned int)TRACK_GONE;
	t->origin = origin;
	t->parent = info->parent;
	return NULL;
}

bool profile_has_track(const struct profile *p, uint64_t key)
{
	uint32_t slot = slot_of(p, key);

	return slot != NONE && !(track_at(&p->tracks, slot)->flags & TRACK_GONE);
}

bool profile_track_get(const struct profile *p, uint64_t key, struct profile_track_info *ret)
{
	uint32_t slot = slot_of(p, key);

	if (slot != NONE)
		track_info(p->tables, track_at(&p->tracks, slot), ret);
	return slot != NONE;
}

uint32_t profile_track_count(const struct profile *p)
{
	return p->tracks.n;
}

/* ---- looks ---- */

/* The instant at which a new interval begins: never before what the track had until then. */
static uint64_t start_of(const struct open_window *w, const struct track *t, uint64_t t_look)
{
	uint64_t floor = w->start.mono;

	if (track_is_logged(w, t)) {
		const struct log_entry *e = track_entry(w, t);

		floor = t->flags & TRACK_OPEN ? e->t_start : e->t_end;
	}
	return t_look > floor ? t_look : floor;
}

/* A new interval of what the track looks like now. */
static struct error *log_interval(struct open_window *w, uint32_t slot, struct track *t, uint64_t start,
				  uint32_t first_tick)
{
	struct log_entry *e = log_add(&w->log);

	if (!e)
		return &err_nomem;
	*e = (struct log_entry){
		.t_start = start, .t_end = start, .first_tick = first_tick, .end_tick = first_tick,
		.weight = t->weight, .oncpu = t->oncpu, .stack = t->stack, .state = t->state,
		.labels = t->labels, .track = slot,
	};
	t->last = w->base + w->log.n - 1;
	return NULL;
}

/* One that goes on from the window's start gets its interval in this window. */
static struct error *log_open(struct open_window *w, uint32_t slot, struct track *t)
{
	return track_is_logged(w, t) ? NULL : log_interval(w, slot, t, w->start.mono, 0);
}

static void end_latest(struct open_window *w, struct track *t, uint64_t at)
{
	struct log_entry *e = track_entry(w, t);

	e->t_end = at > e->t_start ? at : e->t_start;
	e->end_tick = window_tick_now(w);
	if (e->end_tick < e->first_tick)
		e->end_tick = e->first_tick;
	t->flags &= ~(unsigned int)TRACK_OPEN;
}

static void look_like(struct track *t, const struct profile_observation *o)
{
	t->stack = o->stack;
	t->state = o->state;
	t->labels = o->labels;
	t->weight = o->weight < TRACK_WEIGHT_MAX ? o->weight : TRACK_WEIGHT_MAX;
	t->oncpu = o->oncpu;
}

static struct error *change(struct profile *p, uint32_t slot, struct track *t, const struct profile_observation *o)
{
	struct open_window *w = &p->win;
	struct error *err = NULL;
	uint64_t start;

	if (t->flags & TRACK_OPEN)
		err = log_open(w, slot, t);
	if (err)
		return err;
	start = start_of(w, t, o->t_before);
	if (t->flags & TRACK_OPEN)
		end_latest(w, t, start);
	p->goroutines += !t->last && t->key < PROFILE_THREAD_KEY;
	look_like(t, o);
	err = log_interval(w, slot, t, start, window_tick_now(w));
	if (err)
		return err;
	t->flags = (t->flags | TRACK_OPEN) & ~(unsigned int)TRACK_GONE;
	if (start > w->latest)
		w->latest = start;
	return p->next ? next_epoch_note(p->next, t) : NULL;
}

static bool unchanged(const struct track *t, const struct profile_observation *o)
{
	return t->flags & TRACK_OPEN && t->stack == o->stack && t->state == o->state &&
	       t->labels == o->labels && t->oncpu == o->oncpu &&
	       t->weight == (o->weight < TRACK_WEIGHT_MAX ? o->weight : TRACK_WEIGHT_MAX);
}

struct error *profile_observe(struct profile *p, const struct profile_observation *o,
			      struct profile_ref *ret)
{
	uint32_t slot = slot_of(p, o->key);
	const struct track *now = slot == NONE ? NULL : track_at(&p->tracks, slot);
	struct error *err = NULL;

	if (!now || !p->win.open)
		return &err_notfound;
	if (!unchanged(now, o) || !track_is_logged(&p->win, now)) {
		struct track *t = track_change(&p->tracks, slot);

		if (!t)
			return &err_nomem;
		err = unchanged(t, o) ? log_open(&p->win, slot, t) : change(p, slot, t, o);
		now = t;
	}
	if (err)
		return err;
	*ret = (struct profile_ref){ p->win.number, slot, (uint32_t)(now->last - p->win.base) };
	return NULL;
}

/* An interval that cannot be put down for want of memory is none; the next call will say so. */
static void end_open(struct profile *p, uint32_t slot, struct track *t, uint64_t at)
{
	struct error *err = log_open(&p->win, slot, t);

	if (err) {
		t->flags &= ~(unsigned int)TRACK_OPEN;
		return;
	}
	end_latest(&p->win, t, at);
	if (at > p->win.latest)
		p->win.latest = at;
}

void profile_gone(struct profile *p, uint64_t key, uint64_t at)
{
	uint32_t slot = slot_of(p, key);
	struct track *t;

	if (slot == NONE || track_at(&p->tracks, slot)->flags & TRACK_GONE)
		return;
	t = track_change(&p->tracks, slot);
	if (!t)
		return;
	if (t->flags & TRACK_OPEN)
		end_open(p, slot, t, at);
	t->flags |= TRACK_GONE;
	track_list_gone(&p->tracks, slot, t);
}

bool profile_credit(struct profile *p, struct profile_ref ref, uint64_t ns)
{
	if (!p->win.open || ref.window != p->win.number || ref.interval >= p->win.log.n)
		return false;
	log_at(&p->win.log, ref.interval)->cpu_ns += ns;
	return true;
}

void profile_credit_unseen(struct profile *p, uint64_t ns)
{
	p->win.cpu_unseen_ns += ns;
}

void profile_credit_ended(struct profile *p, uint64_t ns)
{
	p->win.cpu_ended_ns += ns;
}
