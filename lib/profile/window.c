/*
 * window.c: ticks, and closing a window: its intervals are laid out track by track and given to the
 * caller; those that were open go on in the next window, which begins where this one ended.
 *
 * Time inside a window is monotonic. Its place in the world is one anchor: the later of the real
 * clock and the end of the window before, so that a clock that is set back never makes two windows
 * overlap; a suspended machine shows as a jump of boot time against monotonic time.
 */
#include <stdlib.h>
#include <string.h>

#include "profile/profile_impl.h"

/* What the caller of profile_close_window gets, and what it cannot see. */
struct window_box {
	struct window window;
	struct interval *intervals;	/* of all tracks, one behind the other */
};

/* The three clocks at an instant of the monotonic one that is a little in the past. */
static struct clock_anchor anchor_at(const struct profile *p, uint64_t t_mono)
{
	struct clock_anchor a = clock_anchor(p->clock);
	uint64_t back = a.mono - t_mono;	/* may be "negative": the sums wrap and are right */

	return (struct clock_anchor){ t_mono, a.real - back, a.boot - back };
}

static void open_window(struct profile *p, uint64_t t_mono)
{
	struct open_window *w = &p->win;

	w->start = anchor_at(p, p->had_window ? p->last_end.mono : t_mono);
	if (p->had_window && w->start.real < p->last_end.real)
		w->start.real = p->last_end.real;
	if (p->had_window && w->start.boot < p->last_end.boot)
		w->start.boot = p->last_end.boot;
	w->number++;
	w->open = true;
	if (w->latest < w->start.mono)
		w->latest = w->start.mono;
}

struct error *profile_tick(struct profile *p, uint64_t t_mono)
{
	struct open_window *w = &p->win;
	struct error *err = array_reserve(&w->ticks, &w->cap_ticks, w->n_ticks + 1, sizeof(*w->ticks));

	if (err)
		return err;
	if (!w->open)
		open_window(p, t_mono);
	if (t_mono > w->latest)
		w->latest = t_mono;
	w->ticks[w->n_ticks] = w->latest;
	w->n_ticks++;
	return NULL;
}

uint64_t profile_window_age(const struct profile *p, uint64_t now)
{
	return p->win.open && now > p->win.start.mono ? now - p->win.start.mono : 0;
}

/* ---- closing ---- */

/* How many intervals each track has, as places in one array: [slot] .. [slot + 1]. */
static uint32_t *places_of(const struct profile *p)
{
	uint32_t *at = calloc((size_t)p->n_tracks + 1, sizeof(*at));

	if (!at)
		return NULL;
	for (uint32_t i = 0; i < p->win.n_log; i++)
		at[p->win.log[i].track + 1]++;
	for (uint32_t slot = 0; slot < p->n_tracks; slot++)
		at[slot + 1] += at[slot];
	return at;
}

static void end_open_intervals(struct profile *p, uint64_t end)
{
	struct open_window *w = &p->win;

	for (uint32_t slot = 0; slot < p->n_tracks; slot++) {
		struct interval *iv;

		if (!(p->tracks[slot].flags & TRACK_OPEN))
			continue;
		iv = &w->log[p->tracks[slot].last].interval;
		iv->t_end = end;
		iv->end_tick = w->n_ticks;
	}
}

/* Sorts the log by track; the sort is stable, so each track's intervals stay in order. */
static void lay_out(const struct profile *p, const uint32_t *at, uint32_t *next, struct window_box *box)
{
	memcpy(next, at, p->n_tracks * sizeof(*next));
	for (uint32_t i = 0; i < p->win.n_log; i++)
		box->intervals[next[p->win.log[i].track]++] = p->win.log[i].interval;
	for (uint32_t slot = 0; slot < p->n_tracks; slot++) {
		struct window_track t = {
			.info = p->infos[slot],
			.v = box->intervals + at[slot],
			.n = at[slot + 1] - at[slot],
		};

		if (!t.n)
			continue;
		for (uint32_t i = 0; i < t.n; i++)
			t.cpu_ns += t.v[i].cpu_ns;
		box->window.tracks[box->window.n_tracks++] = t;
	}
}

static void free_slot(struct profile *p, uint32_t slot)
{
	uint64_t key = p->infos[slot].key;

	/* The key may belong to a newer track by now. */
	if (map64_get(&p->by_key, key) == slot)
		map64_del(&p->by_key, key);
	p->tracks[slot] = (struct track){ .flags = TRACK_FREE, .last = p->free_track };
	p->free_track = slot;
}

/* The open intervals begin again at `end`. Never more than the log held: no allocation. */
static void carry_over(struct profile *p, const uint32_t *at, const struct interval *intervals,
		       uint64_t end)
{
	struct open_window *w = &p->win;

	w->n_log = 0;
	for (uint32_t slot = 0; slot < p->n_tracks; slot++) {
		struct track *t = &p->tracks[slot];
		struct interval iv;

		if (t->flags & TRACK_FREE)
			continue;
		if (t->flags & TRACK_GONE) {
			free_slot(p, slot);
			continue;
		}
		t->last = NONE;
		if (!(t->flags & TRACK_OPEN))
			continue;
		iv = intervals[at[slot + 1] - 1];
		iv.t_start = iv.t_end = end;
		iv.first_tick = iv.end_tick = 0;
		iv.cpu_ns = 0;
		t->last = w->n_log;
		w->log[w->n_log++] = (struct log_entry){ iv, slot };
	}
}

static void next_window(struct profile *p, struct clock_anchor end)
{
	struct open_window *w = &p->win;

	w->open = false;
	w->latest = end.mono;
	w->ticks = NULL;
	w->n_ticks = w->cap_ticks = 0;
	w->cpu_unseen_ns = w->cpu_ended_ns = 0;
	memset(w->health, 0, sizeof(w->health));
	p->had_window = true;
	p->last_end = end;
}

static struct window_box *box_new(const struct profile *p)
{
	struct window_box *box = calloc(1, sizeof(*box));

	if (!box)
		return NULL;
	/* One more than needed: calloc(0) may be NULL. */
	box->intervals = calloc((size_t)p->win.n_log + 1, sizeof(*box->intervals));
	box->window.tracks = calloc((size_t)p->n_tracks + 1, sizeof(*box->window.tracks));
	if (!box->intervals || !box->window.tracks) {
		window_free(&box->window);
		return NULL;
	}
	return box;
}

static void fill_window(const struct profile *p, struct clock_anchor end, struct window *w)
{
	w->number = p->win.number;
	w->start = p->win.start;
	w->end = end;
	w->ticks = p->win.ticks;
	w->n_ticks = p->win.n_ticks;
	w->cpu_unseen_ns = p->win.cpu_unseen_ns;
	w->cpu_ended_ns = p->win.cpu_ended_ns;
	memcpy(w->health, p->win.health, sizeof(w->health));
	w->profile = p;
}

static struct clock_anchor end_anchor(const struct profile *p, uint64_t t_end)
{
	const struct open_window *w = &p->win;
	struct clock_anchor end = anchor_at(p, t_end > w->latest ? t_end : w->latest);

	end.real = w->start.real + (end.mono - w->start.mono);
	if (end.boot < w->start.boot + (end.mono - w->start.mono))
		end.boot = w->start.boot + (end.mono - w->start.mono);
	return end;
}

struct error *profile_close_window(struct profile *p, uint64_t t_end, struct window **ret)
{
	struct window_box *box;
	struct clock_anchor end;
	uint32_t *at, *next;

	if (!p->win.open)
		return &err_notfound;
	end = end_anchor(p, t_end);
	box = box_new(p);
	at = places_of(p);
	next = calloc((size_t)p->n_tracks + 1, sizeof(*next));
	if (!box || !at || !next) {
		window_free(box ? &box->window : NULL);
		free(at);
		free(next);
		return &err_nomem;
	}
	end_open_intervals(p, end.mono);
	lay_out(p, at, next, box);
	fill_window(p, end, &box->window);
	carry_over(p, at, box->intervals, end.mono);
	next_window(p, end);
	free(at);
	free(next);
	*ret = &box->window;
	return NULL;
}

static void cut(uint64_t *t, uint64_t at)
{
	if (*t > at)
		*t = at;
}

void profile_cut(struct profile *p, uint64_t t)
{
	struct open_window *w = &p->win;

	/* Before the window began there is nothing to be cut. */
	if (!w->open || t < w->start.mono)
		return;
	cut(&w->latest, t);
	for (uint32_t i = 0; i < w->n_ticks; i++)
		cut(&w->ticks[i], t);
	for (uint32_t i = 0; i < w->n_log; i++) {
		struct interval *iv = &w->log[i].interval;

		cut(&iv->t_start, t);
		cut(&iv->t_end, t);
		cut(&iv->t_before, t);
		cut(&iv->t_after, t);
	}
}

uint64_t profile_skip(struct profile *p, uint64_t t)
{
	struct open_window *w = &p->win;
	struct clock_anchor start = anchor_at(p, t);

	uint64_t skipped = t - p->last_end.mono;

	if (w->open || !p->had_window || t <= p->last_end.mono)
		return 0;
	if (start.real < p->last_end.real)
		start.real = p->last_end.real;
	if (start.boot < p->last_end.boot)
		start.boot = p->last_end.boot;
	p->last_end = start;
	w->latest = t;
	for (uint32_t i = 0; i < w->n_log; i++) {
		struct interval *iv = &w->log[i].interval;

		iv->t_start = iv->t_end = iv->t_before = iv->t_after = t;
	}
	return skipped;
}

void window_free(struct window *w)
{
	struct window_box *box = (struct window_box *)w;	/* its first member */

	if (!w)
		return;
	free(box->intervals);
	free(w->tracks);
	free(w->ticks);
	free(box);
}
