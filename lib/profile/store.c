/*
 * store.c: the store's life, its tracks, and the looks at them. A look that says nothing new costs
 * a hash look-up and a comparison; one that does ends an interval and begins the next at the same
 * instant. It knows no process and no format.
 *
 * A goid is never given twice by one Go runtime, but exec and threads bring keys back: a key that
 * was gone may come again, as itself (same facts: the track goes on after a gap) or as another.
 */
#include <stdlib.h>
#include <string.h>

#include "profile/profile_impl.h"

/* ---- meta ---- */

struct meta_string {
	size_t offset;
};

#define META(field) { offsetof(struct profile_meta, field) }
static const struct meta_string meta_strings[] = {
	META(program), META(exe), META(command), META(go_version), META(main_module),
	META(main_path), META(release), META(environment), META(server_name), META(os_name),
	META(os_version), META(arch), META(goprof_version), META(looks), META(restricted),
};
#undef META

struct error *profile_set_meta(struct profile *p, const struct profile_meta *meta)
{
	struct profile_meta copy = *meta;

	for (size_t i = 0; i < sizeof(meta_strings) / sizeof(meta_strings[0]); i++) {
		const char **field = (const char **)((char *)&copy + meta_strings[i].offset);

		if (!*field)
			continue;
		/* The old ones stay: a window that is being written may still read them. */
		*field = arena_strndup(&p->tables.arena, *field, strlen(*field));
		if (!*field)
			return &err_nomem;
	}
	p->meta = copy;
	return NULL;
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
	err = tables_init(&p->tables);
	if (err) {
		free(p);
		return err;
	}
	p->clock = clock;
	p->free_track = NONE;
	map64_init(&p->by_key);
	err = profile_set_meta(p, meta);
	if (err) {
		profile_destroy(p);
		return err;
	}
	*ret = p;
	return NULL;
}

void profile_destroy(struct profile *p)
{
	if (!p)
		return;
	tables_deinit(&p->tables);
	map64_deinit(&p->by_key);
	free(p->tracks);
	free(p->infos);
	free(p->win.ticks);
	free(p->win.log);
	free(p);
}

/* ---- tracks ---- */

static bool info_equal(const struct profile_track_info *a, const struct profile_track_info *b)
{
	return a->key == b->key && a->entry == b->entry && a->entry_file == b->entry_file &&
	       a->entry_line == b->entry_line && a->created_by == b->created_by &&
	       a->parent == b->parent && a->system == b->system;
}

static struct error *slot_new(struct profile *p, uint32_t *ret)
{
	struct error *err;

	if (p->free_track != NONE) {
		*ret = p->free_track;
		return NULL;
	}
	err = array_reserve(&p->tracks, &p->cap_tracks, p->n_tracks + 1, sizeof(*p->tracks));
	if (!err)
		err = array_reserve(&p->infos, &p->cap_infos, p->n_tracks + 1, sizeof(*p->infos));
	if (err)
		return err;
	*ret = p->n_tracks;
	return NULL;
}

struct error *profile_track(struct profile *p, const struct profile_track_info *info)
{
	uint32_t slot = map64_get(&p->by_key, info->key);
	struct error *err;

	if (slot != MAP_NONE) {
		struct track *t = &p->tracks[slot];

		if (!(t->flags & TRACK_GONE))
			return NULL;
		if (info_equal(&p->infos[slot], info)) {
			t->flags &= ~(uint32_t)TRACK_GONE;
			return NULL;
		}
	}
	err = slot_new(p, &slot);
	if (!err)
		err = map64_put(&p->by_key, info->key, slot);
	if (err)
		return err;
	if (slot == p->n_tracks)
		p->n_tracks++;
	else
		p->free_track = p->tracks[slot].last;
	p->tracks[slot] = (struct track){ .last = NONE };
	p->infos[slot] = *info;
	return NULL;
}

bool profile_has_track(const struct profile *p, uint64_t key)
{
	uint32_t slot = map64_get(&p->by_key, key);

	return slot != MAP_NONE && !(p->tracks[slot].flags & TRACK_GONE);
}

const struct profile_track_info *profile_track_get(const struct profile *p, uint64_t key)
{
	uint32_t slot = map64_get(&p->by_key, key);

	return slot == MAP_NONE ? NULL : &p->infos[slot];
}

/* ---- looks ---- */

/* The instant at which a new interval begins: never before what the track had until then. */
static uint64_t start_of(const struct open_window *w, const struct track *t, uint64_t t_look)
{
	uint64_t floor = w->start.mono;

	if (t->last != NONE) {
		const struct interval *iv = &w->log[t->last].interval;

		floor = t->flags & TRACK_OPEN ? iv->t_start : iv->t_end;
	}
	return t_look > floor ? t_look : floor;
}

static void end_latest(struct open_window *w, struct track *t, uint64_t at)
{
	struct interval *iv = &w->log[t->last].interval;

	iv->t_end = at > iv->t_start ? at : iv->t_start;
	iv->end_tick = window_tick_now(w);
	if (iv->end_tick < iv->first_tick)
		iv->end_tick = iv->first_tick;
	t->flags &= ~(uint32_t)TRACK_OPEN;
}

static struct error *change(struct profile *p, uint32_t slot, const struct profile_observation *o)
{
	struct open_window *w = &p->win;
	struct track *t = &p->tracks[slot];
	uint64_t start = start_of(w, t, o->t_before);
	struct error *err = array_reserve(&w->log, &w->cap_log, w->n_log + 1, sizeof(*w->log));

	if (err)
		return err;
	if (t->flags & TRACK_OPEN)
		end_latest(w, t, start);
	w->log[w->n_log] = (struct log_entry){
		.interval = {
			.stack = o->stack, .state = o->state, .labels = o->labels,
			.flags = o->oncpu ? INTERVAL_ONCPU : 0,
			.first_tick = window_tick_now(w), .end_tick = window_tick_now(w),
			.t_start = start, .t_end = start,
			.t_before = o->t_before, .t_after = o->t_after,
			.weight = o->weight,
		},
		.track = slot,
	};
	*t = (struct track){ o->stack, o->state, o->labels, o->weight, o->oncpu, w->n_log++, TRACK_OPEN };
	if (start > w->latest)
		w->latest = start;
	return NULL;
}

static bool unchanged(const struct track *t, const struct profile_observation *o)
{
	return t->flags & TRACK_OPEN && t->stack == o->stack && t->state == o->state &&
	       t->labels == o->labels && t->oncpu == o->oncpu && t->weight == o->weight;
}

struct error *profile_observe(struct profile *p, const struct profile_observation *o,
			      struct profile_ref *ret)
{
	uint32_t slot = map64_get(&p->by_key, o->key);

	if (slot == MAP_NONE || !p->win.open)
		return &err_notfound;
	if (!unchanged(&p->tracks[slot], o)) {
		struct error *err = change(p, slot, o);

		if (err)
			return err;
	}
	*ret = (struct profile_ref){ p->win.number, slot, p->tracks[slot].last };
	return NULL;
}

void profile_gone(struct profile *p, uint64_t key, uint64_t t)
{
	uint32_t slot = map64_get(&p->by_key, key);

	if (slot == MAP_NONE || p->tracks[slot].flags & TRACK_GONE)
		return;
	if (p->tracks[slot].flags & TRACK_OPEN) {
		end_latest(&p->win, &p->tracks[slot], t);
		if (t > p->win.latest)
			p->win.latest = t;
	}
	p->tracks[slot].flags |= TRACK_GONE;
}

bool profile_credit(struct profile *p, struct profile_ref ref, uint64_t ns)
{
	if (!p->win.open || ref.window != p->win.number || ref.interval >= p->win.n_log)
		return false;
	p->win.log[ref.interval].interval.cpu_ns += ns;
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
