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
 * So the time of each stack is exactly the length of its intervals, thinned or not. Only this is not: the
 * service fills empty samples with what the stacks before and after them have in common from the root on, so
 * that the time between two equal ones would be theirs. Where they have something in common, a mark stands
 * before the empty stack that lasts a nanosecond, "[idle]", with which nothing has anything in common. It is a
 * sample, and no time. A gap of less than a sixteenth of a tick is not worth one: it is told as a part
 * of the stack before it, which adds that much to it at most. (Such gaps are found on shared threads only: a
 * goroutine's own are from one look to another.)
 *
 * Where that is too much, the level (sentry_plan.c) takes away: the last ticks; the order of parked
 * stacks within some time, of which then only the sums are told; the places of what is on a CPU within some
 * time, which is told first in its order, then what was between, so that few gaps remain and each sample on a
 * CPU does; ticks of on-CPU intervals; their order.
 */
#include <stdlib.h>
#include <string.h>

#include "export/export_impl.h"

enum { ORDER_BITS = 29 };	/* of sentry_sample.at_order; the rest holds 34 s */

static const char sample_text[][32] = {
	"{\"elapsed_since_start_ns\":", ",\"stack_id\":", ",\"thread_id\":", "}",
};

/* Of one sample, numbers apart; with the comma behind it. */
static uint64_t sample_bytes(void)
{
	uint64_t bytes = 1;

	for (size_t i = 0; i < sizeof(sample_text) / sizeof(sample_text[0]); i++)
		bytes += strlen(sample_text[i]);
	return bytes;
}

/*
 * A stretch. What is on a CPU is told first, interval by interval or as sums within a shorter time; of the rest
 * only the sum for each stack.
 */
struct stretch {
	uint64_t start, until;
	bool begun;			/* there is one */
	struct interval *first;
	uint32_t n_first, cap_first;
	struct sentry_sums summed;		/* instead of them, */
	uint64_t summed_from;		/* the last of them from here on */
	struct sentry_sums rest;
};

struct expansion {
	const struct sentry_view *view;
	struct sentry_stacks *stacks;
	struct sentry_samples *out;
	bool counting;			/* samples are counted, not kept */
	uint64_t short_gap;		/* ns; one of less is no gap */
	/* the thread at hand */
	uint32_t thread;
	uint32_t id_digits;
	bool active;
	bool begun;			/* it has had a stack */
	uint64_t end;			/* where its last stack ended */
	uint32_t stack;			/* that stack */
	uint64_t held_back;		/* its last tick, written once something follows; 0: none */
	struct stretch stretch;		/* goes on where that ended, and is written later */
	struct window_room room;
};

static struct error *emit(struct expansion *x, uint64_t at, uint32_t stack)
{
	struct sentry_samples *out = x->out;

	at -= x->view->w->start.mono;
	if (x->counting)
		out->bytes += sample_bytes() + sentry_digits(at) + sentry_digits(stack) + x->id_digits;
	else
		out->v[out->n] = (struct sentry_sample){ at << ORDER_BITS | out->n, x->thread, stack };
	/* Far more than the service takes would fit. */
	if (++out->n >> ORDER_BITS)
		return error_new(ERROR_UNSUPPORTED, "too many samples in one window");
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

/* Samples at the ticks strictly between, from tick `first` to before tick `end`; told `earlier` by so much. */
static struct error *emit_ticks(struct expansion *x, uint64_t after, uint64_t before, uint32_t first,
				uint32_t end, uint64_t earlier, uint32_t stack)
{
	const struct window *w = x->view->w;
	uint32_t step = x->active ? 1 : x->view->level->tick_step;
	struct error *err = NULL;

	first = (first + step - 1) / step * step;
	for (uint32_t i = first; i < end && i < w->n_ticks && w->ticks[i] < before && !err; i += step)
		if (w->ticks[i] > after)
			err = emit(x, w->ticks[i] - earlier, stack);
	return err;
}

/* What was held back of a parked interval, now that its end is not the thread's. */
static struct error *flush(struct expansion *x)
{
	struct error *err = x->held_back ? emit(x, x->held_back, x->stack) : NULL;

	x->held_back = 0;
	return err;
}

/* ---- intervals ---- */

/* The sample at its start `at`, unless a parked stack goes on that needs none. */
static struct error *begin(struct expansion *x, uint64_t at, profile_id id, bool dense)
{
	uint32_t stack;
	struct error *err = sentry_stack(x->stacks, id, &stack);
	bool goes_on = x->begun && !dense && !x->view->level->last_ticks && stack == x->stack;

	if (!err && !goes_on)
		err = emit(x, at, stack);
	x->stack = stack;
	x->begun = true;
	return err;
}

/* An interval on a CPU, told at `at`. */
static struct error *add_oncpu(struct expansion *x, const struct interval *iv, uint64_t end, uint64_t at)
{
	struct sentry_samples *out = x->out;
	uint64_t bytes = out->bytes;
	struct error *err = begin(x, at, iv->stack, true);

	if (err)
		return err;
	x->end = at + (end - iv->t_start);
	out->oncpu_starts += out->bytes - bytes;
	bytes = out->bytes;
	err = emit_ticks(x, iv->t_start, end, iv->first_tick, iv->end_tick, iv->t_start - at, x->stack);
	out->oncpu_ticks += out->bytes - bytes;
	return err;
}

static struct error *add_parked(struct expansion *x, const struct interval *iv, uint64_t end)
{
	const struct window *w = x->view->w;
	struct error *err = begin(x, iv->t_start, iv->stack, false);

	x->end = end;
	if (!x->view->level->last_ticks || iv->end_tick <= iv->first_tick || iv->end_tick > w->n_ticks)
		return err;
	if (w->ticks[iv->end_tick - 1] > iv->t_start && w->ticks[iv->end_tick - 1] < end)
		x->held_back = w->ticks[iv->end_tick - 1];
	return err;
}

/* ---- time without a stack ---- */

static struct error *emit_mark(struct expansion *x)
{
	uint32_t mark;
	struct error *err = sentry_stack_of_mark(x->stacks, "[idle]", &mark);

	if (!err)
		err = emit(x, x->end, mark);
	x->end++;	/* no two samples of one thread at one instant: who sorts might change their order */
	return err;
}

/* Time without a stack, if there is any, from the end of the last one to where `next` begins. */
static struct error *idle_until(struct expansion *x, uint64_t until, uint32_t next)
{
	uint32_t empty;
	struct error *err;
	bool common;

	if (!x->begun || until <= x->end)
		return NULL;
	common = sentry_stacks_common(x->stacks, x->stack, next);
	err = sentry_stack(x->stacks, PROFILE_STACK_EMPTY, &empty);
	if (err)
		return err;
	if (common && until - x->end < x->short_gap) {
		x->end = until;
		return NULL;
	}
	if (common)
		err = emit_mark(x);
	if (!err && x->end < until)
		err = emit(x, x->end, empty);
	if (!err && x->active)
		err = emit_ticks(x, x->end, until, tick_after(x->view->w, x->end), UINT32_MAX, 0, empty);
	x->begun = false;
	return err;
}

/* ---- time told in stretches ---- */

static struct error *emit_sums(struct expansion *x, struct sentry_sums *s)
{
	struct error *err = NULL;

	for (uint32_t i = 0; i < s->n && !err; i++) {
		/* What goes on needs no sample. */
		if (!x->begun || s->v[i].stack != x->stack)
			err = emit(x, x->end, s->v[i].stack);
		x->stack = s->v[i].stack;
		x->begun = true;
		x->end += s->v[i].ns;
	}
	s->n = s->from = 0;
	return err;
}

static struct error *first_stack(struct expansion *x, uint32_t *ret)
{
	const struct stretch *s = &x->stretch;

	if (s->n_first)
		return sentry_stack(x->stacks, s->first[0].stack, ret);
	*ret = s->summed.n ? s->summed.v[0].stack : s->rest.v[0].stack;
	return NULL;
}

static struct error *end_stretch(struct expansion *x)
{
	struct stretch *s = &x->stretch;
	uint32_t first;
	struct error *err = s->begun ? first_stack(x, &first) : NULL;

	if (err || !s->begun)
		return err;
	err = idle_until(x, s->start, first);
	x->end = s->start;
	for (uint32_t i = 0; i < s->n_first && !err; i++)
		err = add_oncpu(x, &s->first[i], sentry_interval_end(x->view, &s->first[i]), x->end);
	if (!err)
		err = emit_sums(x, &s->summed);
	if (!err)
		err = emit_sums(x, &s->rest);
	s->n_first = 0;
	s->begun = false;
	return err;
}

/*
 * Does an interval that may be mixed belong to the stretch at hand? A long one is not torn from its place
 * for the sake of short ones. What is on a CPU, and time without a stack, is only joined where it may be pushed.
 */
static bool joins(const struct expansion *x, const struct interval *iv, uint64_t end)
{
	const struct sentry_level *level = x->view->level;
	const struct stretch *s = &x->stretch;
	bool pushed = iv->flags & INTERVAL_ONCPU || iv->t_start != s->until;
	uint64_t most = pushed ? level->pushed_ns : level->mixed_ns;

	return s->begun && end - iv->t_start < most && iv->t_start - s->start < most;
}

static struct error *put_first(struct stretch *s, const struct interval *iv)
{
	struct error *err = array_reserve(&s->first, &s->cap_first, s->n_first + 1, sizeof(*s->first));

	if (!err)
		s->first[s->n_first++] = *iv;
	return err;
}

static struct error *put_into_sum(struct expansion *x, const struct interval *iv, uint64_t ns)
{
	struct stretch *s = &x->stretch;
	uint32_t stack;
	struct error *err = sentry_stack(x->stacks, iv->stack, &stack);

	if (err || !(iv->flags & INTERVAL_ONCPU))
		return err ? err : sentry_sums_add(&s->rest, stack, ns);
	if (!s->summed.n || iv->t_start - s->summed_from >= x->view->level->summed_ns) {
		s->summed_from = iv->t_start;
		s->summed.from = s->summed.n;
	}
	return sentry_sums_add(&s->summed, stack, ns);
}

static struct error *put(struct expansion *x, const struct interval *iv, uint64_t end)
{
	struct stretch *s = &x->stretch;

	if (!s->begun)
		s->start = iv->t_start;
	s->begun = true;
	s->until = end;
	if (iv->flags & INTERVAL_ONCPU && !x->view->level->summed_ns)
		return put_first(s, iv);
	return put_into_sum(x, iv, end - iv->t_start);
}

/* Is it told as part of a stretch? */
static bool may_stretch(const struct expansion *x, const struct interval *iv)
{
	const struct sentry_level *level = x->view->level;

	return level->mixed_ns && !x->active && (level->pushed_ns || !(iv->flags & INTERVAL_ONCPU));
}

/* ---- one thread ---- */

static struct error *add_interval(struct expansion *x, const struct interval *iv)
{
	uint64_t end = sentry_interval_end(x->view, iv);
	bool stretches = may_stretch(x, iv);
	uint32_t stack;
	struct error *err = flush(x);

	if (!err && stretches && joins(x, iv, end))
		return put(x, iv, end);
	if (!err)
		err = end_stretch(x);
	if (!err && stretches)
		return put(x, iv, end);
	if (!err)
		err = sentry_stack(x->stacks, iv->stack, &stack);
	if (!err)
		err = idle_until(x, iv->t_start, stack);
	if (err)
		return err;
	return x->active || iv->flags & INTERVAL_ONCPU ? add_oncpu(x, iv, end, iv->t_start) :
							 add_parked(x, iv, end);
}

/* The average of its members: at each place the sum so far, divided. */
static struct error *add_group(struct expansion *x, const struct sentry_thread *th,
			       const struct sentry_groups *g)
{
	const struct sentry_group *group = &g->v[th->lane];
	uint64_t sum = 0;
	struct error *err = NULL;

	x->end = group->start;
	for (uint32_t i = th->first; i < th->first + th->n && !err; i++) {
		uint64_t at = x->end;

		sum += g->sums[i].ns;
		x->end = group->start + sum / group->members;
		err = sentry_stack(x->stacks, g->sums[i].stack, &x->stack);
		if (!err)
			err = emit(x, at, x->stack);
		if (!err && x->active)
			err = emit_ticks(x, at, x->end, tick_after(x->view->w, at), UINT32_MAX, 0,
					 x->stack);
	}
	x->begun = true;
	return err;
}

static struct error *add_pieces(struct expansion *x, const struct sentry_threads *t,
				const struct sentry_thread *th)
{
	struct error *err = NULL;

	for (uint32_t k = th->first; k < th->first + th->n && !err; k++) {
		const struct sentry_piece *p = &t->pieces[k];
		const struct interval *v;
		uint32_t n = p->end - p->first;

		err = window_intervals(x->view->w, p->track, p->after, n, &x->room, &v);
		for (uint32_t i = 0; !err && i < n; i++)
			if (sentry_interval_told(x->view, &v[i]))
				err = add_interval(x, &v[i]);
	}
	return err;
}

static struct error *add_thread(struct expansion *x, const struct sentry_threads *t,
				const struct sentry_thread *th)
{
	struct error *err;

	x->begun = false;
	x->held_back = 0;
	err = th->kind == SENTRY_GROUP ? add_group(x, th, &t->groups) : add_pieces(x, t, th);
	if (!err)
		err = end_stretch(x);
	if (!err && x->begun)
		err = emit(x, x->end, x->stack);
	return err;
}

static uint64_t short_gap(const struct window *w)
{
	uint32_t rate = profile_meta(w->profile)->rate_hz;

	return rate ? NSEC_PER_SEC / rate / 16 : 0;
}

static struct error *add_threads(struct expansion *x, const struct sentry_threads *t)
{
	struct error *err = NULL;

	x->out->n = 0;
	x->short_gap = short_gap(x->view->w);
	for (uint32_t i = 0; i < t->told && !err; i++) {
		x->thread = i;
		x->id_digits = sentry_digits(t->v[i].id);
		x->active = t->v[i].id == t->active;
		err = add_thread(x, t, &t->v[i]);
	}
	free(x->stretch.first);
	window_room_deinit(&x->room);
	sentry_sums_deinit(&x->stretch.summed);
	sentry_sums_deinit(&x->stretch.rest);
	return err;
}

/* ---- all ---- */

struct error *sentry_samples_count(const struct sentry_view *view, const struct sentry_threads *t,
				   struct sentry_stacks *stacks, struct sentry_samples *ret)
{
	struct sentry_samples s = { 0 };
	struct expansion x = { .view = view, .stacks = stacks, .out = &s, .counting = true };
	struct error *err = add_threads(&x, t);

	if (err)
		return err;
	s.bytes += s.n ? 1 : 2;		/* brackets; the last one has no comma */
	*ret = s;
	return NULL;
}

static int by_time(const void *va, const void *vb)
{
	const struct sentry_sample *a = va, *b = vb;

	return (a->at_order > b->at_order) - (a->at_order < b->at_order);
}

struct error *sentry_samples_of(const struct sentry_view *view, const struct sentry_threads *t,
				struct sentry_stacks *stacks, struct sentry_samples *ret)
{
	struct expansion x = { .view = view, .stacks = stacks, .out = ret };
	struct error *err;

	ret->v = calloc((size_t)ret->n + 1, sizeof(*ret->v));
	if (!ret->v)
		return &err_nomem;
	err = add_threads(&x, t);
	if (!err && ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_time);
	return err;
}

void sentry_samples_deinit(struct sentry_samples *s)
{
	free(s->v);
	*s = (struct sentry_samples){ 0 };
}

static char *put_text(char *at, const char *text)
{
	size_t len = strlen(text);

	memcpy(at, text, len);
	return at + len;
}

void sentry_samples_json(const struct sentry_samples *s, const struct sentry_threads *t,
			 struct sentry_stream *out)
{
	buf_addc(&out->b, '[');
	for (uint32_t i = 0; i < s->n && !out->b.failed; i++) {
		const struct sentry_sample *v = &s->v[i];
		char row[160], *at = row;

		if (i)
			*at++ = ',';
		at = sentry_put_number(put_text(at, sample_text[0]), v->at_order >> ORDER_BITS);
		at = sentry_put_number(put_text(at, sample_text[1]), v->stack);
		at = sentry_put_number(put_text(at, sample_text[2]), t->v[v->thread].id);
		at = put_text(at, sample_text[3]);
		buf_add(&out->b, row, (size_t)(at - row));
		sentry_stream_pass(out);
	}
	buf_addc(&out->b, ']');
}
