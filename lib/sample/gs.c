/*
 * gs.c: the table of goroutines. runtime.allgs only grows and g structs are never freed, so an
 * address once learnt holds for ever; dead ones are reused with another goid.
 *
 * Structs that stand near each other are read as one span: a page costs the same whether 8 or 400
 * bytes of it are wanted, so coalescing is several times cheaper than an iovec per struct. So the table
 * is sorted by address, in two parts: a program that makes goroutines all the time would otherwise have
 * all of it moved at every tick. New ones are merged into the small, young part; when that is an eighth
 * of the old one the two become one.
 *
 * Where there are more than one tick can read, each tick reads some of the spans, in an order that
 * begins anew, elsewhere and with another step, whenever all were read, or there are more of them:
 * nothing in the program that has a period of its own can walk along with it. Who was read in a round
 * is noted with it, so a round ends also while the table grows at every tick.
 *
 * Upstream: src/runtime/proc.go (allgadd: stores allgptr, then allglen, both atomically; so
 * reading the length first and the pointer second never sees a length that the array lacks).
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "sample/sample_impl.h"

enum {
	G_COUNT_MAX = 16 << 20,		/* more is no allgs but a misread */
	GAP_MAX = 4096,			/* bytes between structs that are read along */
	BATCH_BYTES = 256 * 1024,	/* per system call: fits the second-level cache */
	BATCH_RANGES = 64,
	LINE = 64,			/* bytes of a cache line */
	BUFFER_BYTES = BATCH_BYTES + LINE,
	TAIL_CHUNK = 16 * 1024,		/* pointers of allgs read at once */
	YOUNG_SHARE = 8,
};

struct g_range {
	uint32_t first, n;	/* slots */
	gaddr_t addr;
	uint32_t len;
	uint8_t round;		/* the one that has read all of it last, or an earlier one */
};

struct error *gs_init(struct gs *gs)
{
	*gs = (struct gs){ .buffer = aligned_alloc(LINE, BUFFER_BYTES) };
	return gs->buffer ? NULL : &err_nomem;
}

void gs_deinit(struct gs *gs)
{
	free(gs->slots);
	free(gs->ranges);
	free(gs->buffer);
	*gs = (struct gs){ 0 };
}

static int slot_order(const void *a, const void *b)
{
	const struct g_slot *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

static struct g_slot *find_in(const struct gs *gs, uint32_t first, uint32_t n, gaddr_t g)
{
	struct g_slot key = { .addr = g };

	return n ? bsearch(&key, gs->slots + first, n, sizeof(key), slot_order) : NULL;
}

struct g_slot *gs_slot(struct gs *gs, gaddr_t g)
{
	struct g_slot *slot = find_in(gs, 0, gs->n_old, g);

	return slot ? slot : find_in(gs, gs->n_old, gs->n - gs->n_old, g);
}

static bool range_is_read(const struct gs *gs, const struct g_range *range)
{
	return range->round == gs->round;
}

/* One more slot at the end of a range; what it holds is read when all of it is. */
static void extend(const struct gs *gs, struct g_range *range, const struct g_slot *slot, size_t span)
{
	range->n++;
	range->len = slot->addr + span - range->addr;
	if (slot->round != gs->round)
		range->round = slot->round;
}

/* Ranges over slots [first, end), which are sorted: a new one where the gap is wide or it would be too long. */
static uint32_t add_ranges(const struct gs *gs, uint32_t first, uint32_t end, size_t span, struct g_range *ranges)
{
	struct g_range *last = NULL;
	uint32_t n = 0;

	for (uint32_t i = first; i < end; i++) {
		const struct g_slot *slot = &gs->slots[i];

		if (!last || slot->addr > last->addr + last->len + GAP_MAX ||
		    slot->addr + span > last->addr + BATCH_BYTES) {
			last = &ranges[n++];
			*last = (struct g_range){ .first = i, .addr = slot->addr, .round = gs->round };
		}
		extend(gs, last, slot, span);
	}
	return n;
}

/* Those of the old part stay as they are while that part does. */
static struct error *make_ranges(struct gs *gs, size_t span, bool old_too)
{
	struct error *err = array_reserve(&gs->ranges, &gs->cap_ranges, gs->n, sizeof(*gs->ranges));

	if (err)
		return err;
	if (old_too)
		gs->n_old_ranges = add_ranges(gs, 0, gs->n_old, span, gs->ranges);
	gs->n_ranges = gs->n_old_ranges +
		       add_ranges(gs, gs->n_old, gs->n, span, gs->ranges + gs->n_old_ranges);
	gs->in_order = false;
	return NULL;
}

static int pointer_order(const void *a, const void *b)
{
	const gaddr_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The pointers allgs[from..to), sorted. The order of allgs does not matter. */
static struct error *read_pointers(const struct reader *r, gaddr_t array, uint32_t from, uint32_t to, gaddr_t *ret)
{
	struct error *err = NULL;

	for (uint32_t at = from, n; at < to && !err; at += n) {
		n = to - at < TAIL_CHUNK ? to - at : TAIL_CHUNK;
		err = target_read(r->target, array + (gaddr_t)at * 8, ret + (at - from), n * sizeof(*ret));
	}
	if (!err)
		qsort(ret, to - from, sizeof(*ret), pointer_order);
	return err;
}

/* Slots [first, middle) and [middle, end), both sorted, become one sorted part. */
static struct error *merge(struct gs *gs, uint32_t first, uint32_t middle, uint32_t end)
{
	struct g_slot *v = gs->slots, *second;
	uint32_t i = middle, k = end - middle, to = end;

	if (first == middle || middle == end || v[middle - 1].addr < v[middle].addr)
		return NULL;
	second = malloc(k * sizeof(*second));
	if (!second)
		return &err_nomem;
	memcpy(second, v + middle, k * sizeof(*second));
	while (k > 0) {
		bool take_first = i > first && v[i - 1].addr > second[k - 1].addr;

		v[--to] = take_first ? v[--i] : second[--k];
	}
	free(second);
	return NULL;
}

/* Learns of allgs[n..to): into the young part, which joins the old one when it is large. */
static struct error *append_tail(struct gs *gs, const struct reader *r, gaddr_t array, uint32_t to)
{
	uint32_t before = gs->n;
	_cleanup_free_ gaddr_t *pointers = malloc((to - before) * sizeof(*pointers));
	struct error *err;

	if (!pointers)
		return &err_nomem;
	err = read_pointers(r, array, before, to, pointers);
	if (err)
		return err;
	for (uint32_t i = before; i < to; i++)
		gs->slots[i] = (struct g_slot){ .addr = pointers[i - before], .round = (uint8_t)(gs->round - 1) };
	err = merge(gs, gs->n_old, before, to);
	if (err)
		return err;
	gs->n = to;
	if ((to - gs->n_old) * YOUNG_SHARE < gs->n_old)
		return NULL;
	err = merge(gs, 0, gs->n_old, to);
	if (!err)
		gs->n_old = to;
	return err;
}

struct error *gs_update(struct gs *gs, const struct reader *r)
{
	const struct go_global_at *g = go_runtime_globals(r->rt);
	uint64_t len = 0, array = 0;
	struct span v[] = {
		{ .addr = g[GO_ALLGLEN].addr, .buf = &len, .len = 8 },
		{ .addr = g[GO_ALLGPTR].addr, .buf = &array, .len = 8 },
	};
	uint32_t old = gs->n_old;
	struct error *err;

	err = target_read_v(r->target, v, 2);
	if (err)
		return err;
	if (v[0].done != 8 || v[1].done != 8)
		return &err_fault;
	if (!len || !array)
		return &err_end;
	if (len > G_COUNT_MAX || len < gs->n)
		return &err_corrupt;	/* it never shrinks: this is another program's memory */
	if (len == gs->n)
		return NULL;
	err = array_reserve(&gs->slots, &gs->cap, len, sizeof(*gs->slots));
	if (!err)
		err = append_tail(gs, r, array, len);
	return err ? err : make_ranges(gs, r->g_span, gs->n_old != old);
}

struct error *gs_read_one(struct g_slot *slot, const struct reader *r, gs_visit *visit, void *ctx)
{
	uint8_t bytes[GO_G_SPAN_MAX];
	uint64_t before = reader_now(r);
	struct error *err;

	if (r->g_span > sizeof(bytes))
		return &err_corrupt;
	err = target_read(r->target, slot->addr, bytes, r->g_span);
	if (err)
		return err == &err_fault ? NULL : err;
	return visit(ctx, slot, bytes, before, reader_now(r));
}

/* Some ranges that are read by one system call. */
struct batch {
	struct g_range *ranges[BATCH_RANGES];
	struct span v[BATCH_RANGES];
	uint32_t n;
};

static struct error *visit_range(struct gs *gs, struct g_range *range, const struct span *s, const struct reader *r,
				 uint64_t before, uint64_t after, gs_visit *visit, void *ctx)
{
	const uint8_t *bytes = s->buf;

	range->round = gs->round;
	for (uint32_t i = 0; i < range->n; i++) {
		struct g_slot *slot = &gs->slots[range->first + i];
		size_t at = slot->addr - range->addr;
		struct error *err;

		if (slot->round == gs->round)
			continue;
		slot->round = gs->round;
		if (at + r->g_span <= s->done)
			err = visit(ctx, slot, bytes + at, before, after);
		else
			err = gs_read_one(slot, r, visit, ctx);	/* a hole in between */
		if (err)
			return err;
	}
	return NULL;
}

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static void begin_round(struct gs *gs)
{
	gs->round++;
	gs->in_round = true;
	gs->in_order = false;
}

/* A step that has no divisor with the number of ranges leads to each of them once. */
static void choose_order(struct gs *gs, uint64_t random)
{
	gs->start = (uint32_t)(random % gs->n_ranges);
	gs->step = (uint32_t)(random >> 32) % gs->n_ranges;
	while (common_divisor(gs->step, gs->n_ranges) != 1)
		gs->step++;
	gs->left = gs->n_ranges;
	gs->in_order = true;
}

/* The next range that the round has not read; NULL: it is over. */
static struct g_range *next_range(struct gs *gs)
{
	for (; gs->left; gs->left--) {
		uint64_t place = gs->n_ranges - gs->left;
		struct g_range *range = &gs->ranges[(gs->start + place * gs->step) % gs->n_ranges];

		if (!range_is_read(gs, range))
			return range;
	}
	return NULL;
}

/*
 * Where in the buffer, from `used` on, a copy of what stands at addr goes: to the same place within a cache line.
 * Copies that stand askew take the kernel (`rep movsb`) a fifth longer, and four times as long where they stand
 * up to 15 bytes beyond, in their pages, what they are copied from.
 */
static size_t place_alike(size_t used, gaddr_t addr)
{
	return used + ((addr - used) & (LINE - 1));
}

/* As many of the next ranges as a system call takes, until `most` slots are reached; how many slots. */
static uint32_t fill_batch(struct gs *gs, uint32_t most, struct batch *b)
{
	struct g_range *range;
	uint32_t slots = 0;
	size_t used = 0;

	for (b->n = 0; b->n < BATCH_RANGES && slots < most && (range = next_range(gs)); gs->left--) {
		size_t at = place_alike(used, range->addr);

		if (at + range->len > BUFFER_BYTES)
			break;
		b->ranges[b->n] = range;
		b->v[b->n++] = (struct span){ .addr = range->addr, .buf = gs->buffer + at, .len = range->len };
		used = at + range->len;
		slots += range->n;
	}
	return slots;
}

static struct error *read_ranges(struct gs *gs, const struct reader *r, uint32_t most, gs_visit *visit, void *ctx,
				 uint32_t *slots)
{
	struct batch b;

	for (*slots = 0; *slots < most;) {
		uint32_t n = fill_batch(gs, most - *slots, &b);
		uint64_t before = reader_now(r), after;
		struct error *err;

		if (!b.n)
			return NULL;
		*slots += n;
		err = target_read_v(r->target, b.v, b.n);
		if (err)
			return err;
		after = reader_now(r);
		for (uint32_t i = 0; i < b.n; i++) {
			err = visit_range(gs, b.ranges[i], &b.v[i], r, before, after, visit, ctx);
			if (err)
				return err;
		}
	}
	return NULL;
}

struct error *gs_read_all(struct gs *gs, const struct reader *r, gs_visit *visit, void *ctx)
{
	uint32_t slots;

	begin_round(gs);
	gs->in_round = false;
	gs->start = 0;
	gs->step = 1;
	gs->left = gs->n_ranges;
	return read_ranges(gs, r, UINT32_MAX, visit, ctx, &slots);
}

struct error *gs_read_some(struct gs *gs, const struct reader *r, uint32_t most, uint64_t random, gs_visit *visit,
			   void *ctx, struct gs_pass *ret)
{
	struct error *err;

	*ret = (struct gs_pass){ .slots = 0 };
	if (!gs->n_ranges)
		return NULL;
	if (!gs->in_round)
		begin_round(gs);
	if (!gs->in_order)
		choose_order(gs, random);
	err = read_ranges(gs, r, most, visit, ctx, &ret->slots);
	ret->ended = !err && !next_range(gs);
	gs->in_round = !err && !ret->ended;	/* ranges that could not be read are in no order any more */
	return err;
}

struct error *gs_read_turn(struct gs *gs, struct g_slot *slot, const struct reader *r, gs_visit *visit, void *ctx)
{
	if (!gs->in_round)
		begin_round(gs);
	if (slot->round == gs->round)
		return NULL;
	slot->round = gs->round;
	return gs_read_one(slot, r, visit, ctx);
}

struct reader reader_make(const struct sampler_parts *parts)
{
	const struct go_layout *l = go_runtime_layout(parts->runtime);
	bool goroutines = !go_runtime_restricted(parts->runtime);

	return (struct reader){
		.target = parts->target,
		.rt = parts->runtime,
		.layout = l,
		.clock = parts->clock,
		.g_span = goroutines ? g_span(l) : 0,
		.m_span = goroutines ? m_span(l) : 0,
		.goroutines = goroutines,
	};
}
