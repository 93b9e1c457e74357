/*
 * sentry_samples.c: from intervals to samples, so that what the service makes of them is true.
 *
 * A server lets each sample of a thread last until the next one of that thread; the last one has no
 * weight, and a thread with one sample is dropped. Some of its figures count samples instead. Hence:
 *
 *	on a CPU, or the active thread	one sample at every tick
 *	parked				at the first and the last tick of the interval
 *	the thread's end		a closing sample with the stack it had
 *	not there, or off the CPU in	one sample with an empty stack where the time begins; ticks
 *	  cpu mode			of the active thread too. None before the first stack and
 *					after the last one: the service cuts idle edges off.
 *
 * So the time of each stack is exactly the length of its intervals, thinned or not.
 */
#include <stdlib.h>

#include "export/export_impl.h"

struct expansion {
	const struct sentry_view *view;
	struct sentry_stacks *stacks;
	struct sentry_samples *out;
	/* the thread at hand */
	uint32_t thread;
	bool active;
	bool begun;			/* it has had a stack */
	uint64_t end;			/* where its last stack ended */
	uint32_t stack;			/* that stack */
	uint64_t held_back;		/* its last tick, written once something follows; 0: none */
};

static struct error *emit(struct expansion *x, uint64_t at, uint32_t stack)
{
	struct sentry_samples *out = x->out;
	struct error *err = array_reserve(&out->v, &out->cap, out->n + 1, sizeof(*out->v));

	if (err)
		return err;
	out->v[out->n] = (struct sentry_sample){ at - x->view->w->start.mono, x->thread, stack, out->n };
	out->n++;
	return NULL;
}

/* The first tick later than t. */
static uint32_t tick_after(const struct window *w, uint64_t t)
{
	uint32_t lo = 0, hi = w->n_ticks;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (w->ticks[mid] <= t)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Samples at the ticks strictly between, from tick `first` to before tick `end`. */
static struct error *emit_ticks(struct expansion *x, uint64_t after, uint64_t before, uint32_t first,
				uint32_t end, uint32_t stack)
{
	const struct window *w = x->view->w;
	struct error *err = NULL;

	for (uint32_t i = first; i < end && i < w->n_ticks && w->ticks[i] < before && !err; i++)
		if (w->ticks[i] > after)
			err = emit(x, w->ticks[i], stack);
	return err;
}

/* What was held back of a parked interval, now that its end is not the thread's. */
static struct error *flush(struct expansion *x)
{
	struct error *err = x->held_back ? emit(x, x->held_back, x->stack) : NULL;

	x->held_back = 0;
	return err;
}

/* Time without a stack, from the end of the last one. */
static struct error *idle_until(struct expansion *x, uint64_t until)
{
	uint32_t empty;
	struct error *err = sentry_stack(x->stacks, PROFILE_STACK_EMPTY, &empty);

	if (!err)
		err = emit(x, x->end, empty);
	if (!err && x->active)
		err = emit_ticks(x, x->end, until, tick_after(x->view->w, x->end), UINT32_MAX, empty);
	return err;
}

static struct error *add_interval(struct expansion *x, const struct interval *iv)
{
	const struct window *w = x->view->w;
	uint64_t end = iv->t_end < x->view->limit ? iv->t_end : x->view->limit;
	struct error *err = flush(x);

	if (!err && x->begun && iv->t_start > x->end)
		err = idle_until(x, iv->t_start);
	if (!err)
		err = sentry_stack(x->stacks, iv->stack, &x->stack);
	if (!err)
		err = emit(x, iv->t_start, x->stack);
	if (err)
		return err;
	x->begun = true;
	x->end = end;
	if (x->active || iv->flags & INTERVAL_ONCPU)
		return emit_ticks(x, iv->t_start, end, iv->first_tick, iv->end_tick, x->stack);
	if (iv->end_tick > iv->first_tick && iv->end_tick <= w->n_ticks) {
		uint64_t last = w->ticks[iv->end_tick - 1];

		if (last > iv->t_start && last < end)
			x->held_back = last;
	}
	return NULL;
}

static struct error *add_thread(struct expansion *x, const struct sentry_thread *th)
{
	struct error *err = NULL;

	x->begun = false;
	x->held_back = 0;
	for (uint32_t k = 0; k < th->n_tracks; k++)
		for (uint32_t i = 0; i < th->tracks[k]->n && !err; i++)
			if (sentry_interval_told(x->view, &th->tracks[k]->v[i]))
				err = add_interval(x, &th->tracks[k]->v[i]);
	if (!err && x->begun)
		err = emit(x, x->end, x->stack);
	return err;
}

static int by_time(const void *va, const void *vb)
{
	const struct sentry_sample *a = va, *b = vb;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	return (a->order > b->order) - (a->order < b->order);
}

struct error *sentry_samples_of(const struct sentry_view *view, const struct sentry_threads *t,
				struct sentry_stacks *stacks, struct sentry_samples *ret)
{
	struct sentry_samples s = { 0 };
	struct expansion x = { .view = view, .stacks = stacks, .out = &s };
	struct error *err = NULL;

	for (uint32_t i = 0; i < t->told && !err; i++) {
		x.thread = i;
		x.active = t->v[i].key == t->active;
		err = add_thread(&x, &t->v[i]);
	}
	if (err) {
		sentry_samples_deinit(&s);
		return err;
	}
	qsort(s.v, s.n, sizeof(*s.v), by_time);
	*ret = s;
	return NULL;
}

void sentry_samples_deinit(struct sentry_samples *s)
{
	free(s->v);
	*s = (struct sentry_samples){ 0 };
}

void sentry_samples_json(const struct sentry_samples *s, const struct sentry_threads *t,
			 struct buf *b)
{
	buf_addc(b, '[');
	for (uint32_t i = 0; i < s->n && !b->failed; i++)
		buf_addf(b, "%s{\"elapsed_since_start_ns\":%llu,\"stack_id\":%u,\"thread_id\":%llu}",
			 i ? "," : "", (unsigned long long)s->v[i].at, s->v[i].stack,
			 (unsigned long long)t->v[s->v[i].thread].key);
	buf_addc(b, ']');
}
