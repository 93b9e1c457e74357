/*
 * store.c: the store's life, its tracks, and the looks at them. A look that says nothing new costs
 * a hash look-up and a comparison; one that does ends an interval and begins the next at the same
 * instant. It knows no process and no format.
 *
 * What a track looks like now stands in the track. What it looked like before comes into the log when that
 * changes; one that is open and has not changed since the window began costs that window nothing.
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
 * A window of that many intervals takes 20 MiB. 350 goroutines that change at every tick fill it in its 29.5 s,
 * half as many on a CPU; where more happens it is shorter. 100,000 label sets, each seen at two ticks, take
 * 24 MiB of tables.
 */
static const struct profile_limits usual_limits = {
	.table_bytes = 4 << 20,
	.window_table_bytes = 24 << 20,
	.window_intervals = 1 << 20,
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
	uint32_t slot = mapi_get(&p->tracks.by_key, key & TRACK_KEY_MOST);
	const struct track *t;

	if (slot == MAP_NONE)
		return NONE;
	t = track_at(&p->tracks, slot);
	return t->flags & TRACK_GONE && !track_is_logged(&p->win, t) ? NONE : slot;
}

struct error *profile_track(struct profile *p, const struct profile_track_info *info)
{
	uint32_t slot = slot_of(p, info->key);
	struct look look = { .labels = PROFILE_LABELS_NONE };
	profile_id id;
	struct error *err;
	struct track *t;

	if (slot != NONE && !(track_at(&p->tracks, slot)->flags & TRACK_GONE))
		return NULL;
	err = origin_intern(p, info, &look.origin);
	if (!err)
		err = look_intern(p, &look, &id);
	if (err)
		return err;
	if (slot == NONE || look_get(p->tables, track_at(&p->tracks, slot)->look)->origin != look.origin)
		err = track_new(&p->tracks, info->key, p->win.base, &slot);
	if (err)
		return err;
	t = track_change(&p->tracks, slot);
	if (!t)
		return &err_nomem;
	t->flags &= ~(unsigned int)TRACK_GONE;
	t->look = id;
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
	uint64_t floor = track_is_logged(w, t) ? log_at(&w->log, track_entry(w, t))->t_start : w->start.mono;

	return t_look > floor ? t_look : floor;
}

/* What stands before a new entry of the track: NONE where it was not there. */
static struct error *previous(struct open_window *w, const struct track *t, uint32_t *ret)
{
	*ret = NONE;
	if (track_is_logged(w, t))
		*ret = track_entry(w, t);
	else if (t->flags & TRACK_OPEN)
		return log_start(&w->log, t->look, w->start.mono, ret);
	return NULL;
}

/* A new interval of the track. */
static struct error *log_interval(struct open_window *w, struct track *t, uint64_t start, profile_id look, bool oncpu)
{
	struct log_entry e = { .t_start = start, .look = look, .first_tick = window_tick_now(w) };
	uint32_t prev, at;
	struct error *err = previous(w, t, &prev);

	e.prev = prev;
	if (!err && oncpu)
		err = log_add_oncpu(&w->log, &e, &at);
	else if (!err && prev == NONE)
		err = log_fresh(&w->log, look, start, e.first_tick, &at);
	else if (!err)
		err = log_add(&w->log, &e, &at);
	if (!err)
		track_set_last(t, w->base + at);
	return err;
}

/* One that goes on from the window's start on a CPU gets an entry of its own, for its CPU time. */
static struct error *log_open(struct open_window *w, struct track *t)
{
	const struct log_entry e = { .t_start = w->start.mono, .prev = NONE, .look = t->look };
	uint32_t at;
	struct error *err = log_add_oncpu(&w->log, &e, &at);

	if (!err)
		track_set_last(t, w->base + at);
	return err;
}

static uint32_t weight_of(const struct profile_observation *o)
{
	return o->weight < LOOK_WEIGHT_MAX ? o->weight : LOOK_WEIGHT_MAX;
}

static struct error *change(struct profile *p, struct track *t, const struct profile_observation *o)
{
	struct open_window *w = &p->win;
	const struct look look = {
		.origin = look_get(p->tables, t->look)->origin, .stack = o->stack, .state = o->state,
		.labels = o->labels, .weight = weight_of(o), .oncpu = o->oncpu,
	};
	uint64_t start = start_of(w, t, o->t_before);
	bool first = !track_last(t);
	profile_id id;
	struct error *err = look_intern(p, &look, &id);

	if (!err)
		err = log_interval(w, t, start, id, o->oncpu);
	if (err)
		return err;
	p->goroutines += first && t->key < PROFILE_THREAD_KEY;
	t->look = id;
	t->flags = (t->flags | TRACK_OPEN) & ~(unsigned int)TRACK_GONE;
	if (start > w->latest)
		w->latest = start;
	return p->next ? next_epoch_note(p->next, t) : NULL;
}

static bool unchanged(const struct profile *p, const struct track *t, const struct profile_observation *o)
{
	const struct look *look = look_get(p->tables, t->look);

	return t->flags & TRACK_OPEN && look->stack == o->stack && look->state == o->state &&
	       look->labels == o->labels && look->oncpu == o->oncpu && look->weight == weight_of(o);
}

struct error *profile_observe(struct profile *p, const struct profile_observation *o,
			      struct profile_ref *ret)
{
	uint32_t slot = slot_of(p, o->key);
	const struct track *now = slot == NONE ? NULL : track_at(&p->tracks, slot);
	bool same;

	if (!now || !p->win.open)
		return &err_notfound;
	same = unchanged(p, now, o);
	/* Nothing new of one that is parked is nothing at all. */
	if (!same || (o->oncpu && !track_is_logged(&p->win, now))) {
		struct track *t = track_change(&p->tracks, slot);
		struct error *err;

		if (!t)
			return &err_nomem;
		err = same ? log_open(&p->win, t) : change(p, t, o);
		if (err)
			return err;
		now = t;
	}
	*ret = (struct profile_ref){ p->win.number, slot, o->oncpu ? track_entry(&p->win, now) : NONE };
	return NULL;
}

/* An end that cannot be put down for want of memory is none; the next call will say so. */
static void end_open(struct profile *p, struct track *t, uint64_t at)
{
	struct open_window *w = &p->win;
	uint64_t end = start_of(w, t, at);
	struct error *err = log_interval(w, t, end, LOG_END, false);

	t->flags &= ~(unsigned int)TRACK_OPEN;
	if (!err && at > w->latest)
		w->latest = at;
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
		end_open(p, t, at);
	t->flags |= TRACK_GONE;
	track_list_gone(&p->tracks, slot, t);
}

bool profile_credit(struct profile *p, struct profile_ref ref, uint64_t ns)
{
	struct log_entry *cpu = p->win.open && ref.window == p->win.number ? log_cpu(&p->win.log, ref.interval) : NULL;

	if (cpu)
		cpu->t_start += ns;
	return cpu;
}

void profile_credit_unseen(struct profile *p, uint64_t ns)
{
	p->win.cpu_unseen_ns += ns;
}

void profile_credit_ended(struct profile *p, uint64_t ns)
{
	p->win.cpu_ended_ns += ns;
}
