/*
 * gs.c: the table of goroutines. runtime.allgs only grows and g structs are never freed, so an
 * address once learnt holds for ever; dead ones are reused with another goid.
 *
 * Structs that stand near each other are read as one span: a page costs the same whether 8 or 400
 * bytes of it are wanted, so coalescing is several times cheaper than an iovec per struct.
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
	TAIL_CHUNK = 16 * 1024,		/* pointers of allgs read at once */
};

struct g_range {
	uint32_t first, n;	/* slots */
	gaddr_t addr;
	uint32_t len;
};

struct error *gs_init(struct gs *gs)
{
	*gs = (struct gs){ .buffer = malloc(BATCH_BYTES) };
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

struct g_slot *gs_slot(struct gs *gs, gaddr_t g)
{
	struct g_slot key = { .addr = g };

	return gs->n ? bsearch(&key, gs->slots, gs->n, sizeof(key), slot_order) : NULL;
}

/* Ranges over the sorted slots: a new one where the gap is wide or the range would be too long. */
static struct error *make_ranges(struct gs *gs, size_t span)
{
	struct g_range *ranges, *last = NULL;
	uint32_t n = 0;

	ranges = calloc(gs->n, sizeof(*ranges));
	if (!ranges)
		return &err_nomem;
	for (uint32_t i = 0; i < gs->n; i++) {
		gaddr_t addr = gs->slots[i].addr;

		if (last && addr <= last->addr + last->len + GAP_MAX &&
		    addr + span <= last->addr + BATCH_BYTES) {
			last->n++;
			last->len = addr + span - last->addr;
			continue;
		}
		last = &ranges[n++];
		*last = (struct g_range){ .first = i, .n = 1, .addr = addr, .len = span };
	}
	free(gs->ranges);
	gs->ranges = ranges;
	gs->n_ranges = n;
	return NULL;
}

/* The pointers allgs[from..to), appended as slots; the order of allgs does not matter. */
static struct error *append_tail(struct gs *gs, const struct reader *r, gaddr_t array, uint32_t from,
				 uint32_t to)
{
	_cleanup_free_ uint64_t *chunk = malloc(TAIL_CHUNK * sizeof(*chunk));
	struct error *err;

	if (!chunk)
		return &err_nomem;
	for (uint32_t at = from, n; at < to; at += n) {
		n = to - at < TAIL_CHUNK ? to - at : TAIL_CHUNK;
		err = target_read(r->target, array + (gaddr_t)at * 8, chunk, n * sizeof(*chunk));
		if (err)
			return err;
		for (uint32_t i = 0; i < n; i++)
			gs->slots[gs->n++] = (struct g_slot){ .addr = chunk[i] };
	}
	return NULL;
}

struct error *gs_update(struct gs *gs, const struct reader *r)
{
	const struct go_global_at *g = go_runtime_globals(r->rt);
	uint64_t len = 0, array = 0;
	struct span v[] = {
		{ .addr = g[GO_ALLGLEN].addr, .buf = &len, .len = 8 },
		{ .addr = g[GO_ALLGPTR].addr, .buf = &array, .len = 8 },
	};
	uint32_t before = gs->n;
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
		err = append_tail(gs, r, array, before, len);
	if (err) {
		gs->n = before;
		return err;
	}
	qsort(gs->slots, gs->n, sizeof(*gs->slots), slot_order);
	return make_ranges(gs, r->g_span);
}

/* A struct whose range came back short (a hole in between): by itself. */
static struct error *visit_alone(struct g_slot *slot, const struct reader *r, gs_visit *visit, void *ctx)
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

static struct error *visit_range(struct gs *gs, const struct g_range *range, const struct span *s,
				 const struct reader *r, uint64_t before, uint64_t after,
				 gs_visit *visit, void *ctx)
{
	const uint8_t *bytes = s->buf;

	for (uint32_t i = 0; i < range->n; i++) {
		struct g_slot *slot = &gs->slots[range->first + i];
		size_t at = slot->addr - range->addr;
		struct error *err;

		if (at + r->g_span <= s->done)
			err = visit(ctx, slot, bytes + at, before, after);
		else
			err = visit_alone(slot, r, visit, ctx);
		if (err)
			return err;
	}
	return NULL;
}

/* As many ranges from `first` on as one batch takes. */
static uint32_t fill_batch(const struct gs *gs, uint32_t first, struct span *v)
{
	size_t used = 0;
	uint32_t n = 0;

	while (first + n < gs->n_ranges && n < BATCH_RANGES) {
		const struct g_range *range = &gs->ranges[first + n];

		if (used + range->len > BATCH_BYTES)
			break;
		v[n++] = (struct span){ .addr = range->addr, .buf = gs->buffer + used, .len = range->len };
		used += range->len;
	}
	return n;
}

struct error *gs_read_all(struct gs *gs, const struct reader *r, gs_visit *visit, void *ctx)
{
	struct span v[BATCH_RANGES];
	struct error *err;

	for (uint32_t first = 0, n; first < gs->n_ranges; first += n) {
		uint64_t before = reader_now(r), after;

		n = fill_batch(gs, first, v);
		err = target_read_v(r->target, v, n);
		if (err)
			return err;
		after = reader_now(r);
		for (uint32_t i = 0; i < n; i++) {
			err = visit_range(gs, &gs->ranges[first + i], &v[i], r, before, after, visit, ctx);
			if (err)
				return err;
		}
	}
	return NULL;
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
