/*
 * dump_text.c: a snapshot as the text of a traceback, goroutine by goroutine.
 *
 * Brings a goroutine's parts together (names, creator, status, labels); the form of the text is
 * goroutine_text.c's. Must not know where the snapshot comes from nor where the text goes.
 */
#include "cmd/dump_text.h"

#include <stdlib.h>

#include "base/clock.h"
#include "cmd/goroutine_text.h"
#include "go/pclntab.h"
#include "sample/naming.h"
#include "unwind/unwind.h"

enum { FLUSH_BYTES = 256 * 1024, NS_PER_MINUTE_S = 60 };

struct text {
	const struct dump_text *in;
	struct buf *out;
	uint32_t shown;			/* goroutines printed */
	/* One stack at a time: logical frames and the offsets of their pcs. */
	const struct symbol_frame **frames;
	uint64_t *offsets;
	size_t n, cap;
};

/* ---- one goroutine ---- */

static struct error *reserve(struct text *d, size_t more)
{
	size_t cap = d->cap ? d->cap : 64;
	const struct symbol_frame **frames;
	uint64_t *offsets;

	if (d->n + more <= d->cap)
		return NULL;
	while (cap < d->n + more)
		cap *= 2;
	frames = realloc(d->frames, cap * sizeof(*frames));
	if (!frames)
		return &err_nomem;
	d->frames = frames;
	offsets = realloc(d->offsets, cap * sizeof(*offsets));
	if (!offsets)
		return &err_nomem;
	d->offsets = offsets;
	d->cap = cap;
	return NULL;
}

static struct error *expand_frame(struct text *d, const struct pc_frame *f)
{
	const struct symbol_frame *v;
	struct error *err;
	size_t n;

	err = naming_expand(d->in->symbols, d->in->runtime, f, &v, &n);
	if (!err)
		err = reserve(d, n);
	for (size_t i = 0; !err && i < n; i++) {
		d->frames[d->n] = &v[i];
		d->offsets[d->n++] = f->pc > v[i].entry && f->kind != PC_GAP ? f->pc - v[i].entry : 0;
	}
	return err;
}

static struct error *expand_stack(struct text *d, const struct snapshot_goroutine *g)
{
	struct error *err = NULL;

	d->n = 0;
	for (uint32_t i = 0; !err && i < g->n_frames; i++)
		err = expand_frame(d, &g->frames[i]);
	return err;
}

/*
 * Who made it, unless a traceback would not say. The function is the one that holds the go
 * statement's code; file and line are those of the statement, which may have been inlined into it.
 */
static struct error *fill_creator(struct text *d, const struct g_look *g,
				  struct goroutine_text_creator *c, bool *ret)
{
	const struct symbol_frame *v, *function;
	struct error *err;
	size_t n;

	*ret = false;
	if (g->goid == 1 || !g->gopc)
		return NULL;
	err = symbol_expand(d->in->symbols, g->gopc, SYMBOL_RETURN, &v, &n);
	if (err)
		return err;
	function = &v[n - 1];
	if (function->flags & (FRAME_PSEUDO | FRAME_WRAPPER | FRAME_RUNTIME_HIDDEN))
		return NULL;
	*c = (struct goroutine_text_creator){
		.function = function->printed, .file = v[0].abs_path, .line = v[0].line,
		.offset = g->gopc > function->entry ? g->gopc - function->entry : 0,
		.parent = g->parent_goid,
	};
	*ret = true;
	return NULL;
}

static const char *status_text(struct text *d, const struct g_look *g)
{
	const char *reason = NULL;

	if ((g->status == G_WAITING || g->status == G_LEAKED) && g->waitreason)
		reason = go_wait_reason(d->in->runtime, g->waitreason);
	return reason && *reason ? reason : g_status_name(g->status);
}

/* Since the collector first saw it blocked: the target's nanotime is our CLOCK_MONOTONIC. */
static int64_t minutes_blocked(const struct g_look *g)
{
	bool blocked = g->status == G_WAITING || g->status == G_SYSCALL;

	if (!blocked || g->waitsince <= 0 || (uint64_t)g->waitsince > g->t_after)
		return 0;
	return (int64_t)((g->t_after - (uint64_t)g->waitsince) / NSEC_PER_SEC / NS_PER_MINUTE_S);
}

static const char *why_no_stack(const struct snapshot_goroutine *g)
{
	if (g->moved)
		return "(moved while it was read)";
	if (g->n_frames)
		return NULL;
	return g->look.status == G_RUNNING ? "goroutine running on other thread; stack unavailable"
					   : "(no stack could be read)";
}

static struct error *add_goroutine(struct text *d, const struct snapshot_goroutine *g)
{
	struct goroutine_text_creator creator;
	bool has_creator;
	struct error *err = expand_stack(d, g);

	if (!err)
		err = fill_creator(d, &g->look, &creator, &has_creator);
	if (err)
		return err;
	if (d->shown++)
		buf_addc(d->out, '\n');
	goroutine_text(d->out, &(struct goroutine_text_in){
		.go_minor = go_runtime_build(d->in->runtime)->minor, .goid = g->look.goid,
		.status = status_text(d, &g->look), .leaked = g->look.status == G_LEAKED,
		.scan = g->look.scan, .locked = g->look.lockedm != 0,
		.minutes = minutes_blocked(&g->look),
		.labels = g->labels, .n_labels = d->in->labels && g->labels_known ? g->n_labels : 0,
		.labels_unknown = d->in->labels && !g->labels_known,
		.frames = d->frames, .offsets = d->offsets, .n = d->n,
		.cut = g->end == UNWIND_DEPTH,
		.missing = g->end == UNWIND_COMPLETE || g->end == UNWIND_GAP ? NULL :
			   unwind_end_name(g->end),
		.no_stack = why_no_stack(g), .creator = has_creator ? &creator : NULL,
	});
	return buf_error(d->out);
}

/* ---- all of them ---- */

static bool wanted(struct text *d, const struct g_look *g)
{
	if (g->status == G_DEAD || g->status == G_DEADEXTRA)
		return false;
	return d->in->system || !g_is_system(d->in->runtime, g);
}

struct error *dump_text(const struct dump_text *in, const struct snapshot *s, struct buf *out,
			dump_text_full *full, void *ctx, uint32_t *shown)
{
	struct text d = { .in = in, .out = out };
	struct error *err = NULL;

	for (uint32_t i = 0; !err && i < s->n; i++) {
		if (!wanted(&d, &s->v[i].look))
			continue;
		err = add_goroutine(&d, &s->v[i]);
		if (!err && full && out->len >= FLUSH_BYTES)
			err = full(ctx, out);
	}
	free(d.frames);
	free(d.offsets);
	if (!err)
		*shown = d.shown;
	return err;
}
