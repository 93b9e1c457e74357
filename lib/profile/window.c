/*
 * window.c: ticks, and closing a window: all that happened in it changes hands; what it looks like is
 * worked out by whoever reads it (layout.c). Intervals that were open go on in the next window, which begins
 * where this one ended, without being touched.
 *
 * Time inside a window is monotonic. Its place in the world is one anchor: the later of the real
 * clock and the end of the window before, so that a clock that is set back never makes two windows
 * overlap; a suspended machine shows as a jump of boot time against monotonic time.
 */
#include <stdlib.h>
#include <string.h>

#include "profile/profile_impl.h"

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

bool profile_window_full(const struct profile *p)
{
	uint64_t most = p->limits.window_intervals;

	/* Each goroutine that is seen for the first time has one. */
	if (most < 2 * (uint64_t)tracks_alive(&p->tracks))
		most = 2 * (uint64_t)tracks_alive(&p->tracks);
	if (p->win.log.n >= most)
		return true;
	return epoch_bytes(p->epoch) > p->tables_most + (p->limits.window_table_bytes - p->limits.table_bytes);
}

/* ---- closing ---- */

static struct clock_anchor end_anchor(const struct profile *p, uint64_t t_end)
{
	const struct open_window *w = &p->win;
	struct clock_anchor end = anchor_at(p, t_end > w->latest ? t_end : w->latest);

	end.real = w->start.real + (end.mono - w->start.mono);
	if (end.boot < w->start.boot + (end.mono - w->start.mono))
		end.boot = w->start.boot + (end.mono - w->start.mono);
	return end;
}

static void fill_window(struct profile *p, struct clock_anchor end, struct closed_window *c)
{
	const struct open_window *w = &p->win;

	c->window = (struct window){
		.number = w->number, .epoch = p->epoch->number, .start = w->start, .end = end,
		.ticks = w->ticks, .n_ticks = w->n_ticks, .goroutines = p->goroutines,
		.cpu_unseen_ns = w->cpu_unseen_ns, .cpu_ended_ns = w->cpu_ended_ns,
		.profile = &c->names, .n_places = p->tracks.n, .keys_repeat = p->tracks.repeated,
	};
	memcpy(c->window.health, w->health, sizeof(w->health));
	c->log = w->log;
	c->base = w->base;
	c->tables = *p->tables;
	c->names = (struct profile){ .tables = &c->tables, .epoch = epoch_ref(p->epoch), .meta = p->meta };
}

static void next_window(struct profile *p, struct clock_anchor end)
{
	struct open_window *w = &p->win;

	w->open = false;
	w->start = end;
	w->latest = end.mono;
	w->base += w->log.n;
	w->log = (struct log){ 0 };
	w->ticks = NULL;
	w->n_ticks = w->cap_ticks = 0;
	w->cpu_unseen_ns = w->cpu_ended_ns = 0;
	memset(w->health, 0, sizeof(w->health));
	p->tracks.repeated = false;
	p->had_window = true;
	p->last_end = end;
}

struct error *profile_detach_window(struct profile *p, uint64_t t_end, struct closed_window **ret)
{
	struct clock_anchor end;
	struct closed_window *c;
	struct error *err;

	if (!p->win.open)
		return &err_notfound;
	c = calloc(1, sizeof(*c));
	err = c ? tracks_share(&p->tracks, &c->blocks) : &err_nomem;
	if (!err) {
		c->n_blocks = p->tracks.n_blocks;
		err = tracks_free_gone(&p->tracks);
	}
	if (err) {
		closed_window_free(c);
		return err;
	}
	end = end_anchor(p, t_end);
	fill_window(p, end, c);
	next_window(p, end);
	*ret = c;
	return NULL;
}

struct error *profile_close_window(struct profile *p, uint64_t t_end, struct window **ret)
{
	struct closed_window *c;
	struct error *err = profile_detach_window(p, t_end, &c);

	return err ? err : closed_window_lay_out(c, ret);
}

/* ---- time that is left out ---- */

static uint64_t cut(uint64_t t, uint64_t at)
{
	return t < at ? t : at;
}

static void set_time(struct log_entry *e, uint64_t t)
{
	if (e->look != LOG_CPU)
		e->t_start = t;
}

void profile_cut(struct profile *p, uint64_t t)
{
	struct open_window *w = &p->win;

	/* Before the window began there is nothing to be cut. */
	if (!w->open || t < w->start.mono)
		return;
	w->latest = cut(w->latest, t);
	for (uint32_t i = 0; i < w->n_ticks; i++)
		w->ticks[i] = cut(w->ticks[i], t);
	for (uint32_t i = 0; i < w->log.n; i++)
		set_time(log_at(&w->log, i), cut(log_at(&w->log, i)->t_start, t));
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
	p->last_end = w->start = start;
	w->latest = t;
	/* Of goroutines that were found gone meanwhile. */
	for (uint32_t i = 0; i < w->log.n; i++)
		set_time(log_at(&w->log, i), t);
	return skipped;
}
