/*
 * core_text.h: what a core, or a stopped process, gives: the dump, and every frame of what ran.
 *
 * Shared by the maker of cores and by the test that reads them (test/unit/core_stacks.c), so that
 * both ask alike. Static functions: each of them is one program.
 */
#ifndef GOPROF_TEST_CORE_TEXT_H
#define GOPROF_TEST_CORE_TEXT_H

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cmd/dump_text.h"
#include "go/go.h"
#include "sample/naming.h"
#include "sample/snapshot.h"
#include "target/target.h"

enum { CORE_TEXT_DEPTH = 4096 };

struct core_text {
	struct buf stacks;	/* goprof dump --system --labels */
	/*
	 * All frames, hidden ones too, of all goroutines that did not wait for others: a traceback hides
	 * the runtime's, and those are where stacks are switched.
	 */
	struct buf frames;
	uint32_t goroutines;
};

static void core_text_deinit(struct core_text *t)
{
	buf_deinit(&t->stacks);
	buf_deinit(&t->frames);
}

static const char *const core_text_kinds[] = {
	[PC_EXACT] = "exact", [PC_RETURN] = "return", [PC_INJECTED] = "injected",
	[PC_NATIVE] = "native", [PC_GAP] = "gap",
};

static struct error *core_text_frame(struct buf *b, struct symbols *s, struct go_runtime *rt,
				     const struct pc_frame *f)
{
	const struct symbol_frame *v;
	size_t n;
	struct error *err = naming_expand(s, rt, f, &v, &n);

	for (size_t i = 0; !err && i < n; i++)
		buf_addf(b, "\t%s %s%s %s:%u\n", core_text_kinds[f->kind], v[i].function,
			 v[i].flags & FRAME_INLINED ? " inlined" : "", v[i].file, v[i].line);
	return err;
}

static bool core_text_at_rest(const struct g_look *g)
{
	return g->status == G_WAITING || g->status == G_LEAKED;
}

static struct error *core_text_frames(struct buf *b, struct symbols *s, struct go_runtime *rt,
				      const struct snapshot *snap)
{
	struct error *err = NULL;

	for (uint32_t i = 0; i < snap->n && !err; i++) {
		const struct snapshot_goroutine *g = &snap->v[i];

		if (core_text_at_rest(&g->look))
			continue;
		buf_addf(b, "goroutine %llu %s: %s\n", (unsigned long long)g->look.goid,
			 g_status_name(g->look.status), unwind_end_name(g->end));
		for (uint32_t k = 0; k < g->n_frames && !err; k++)
			err = core_text_frame(b, s, rt, &g->frames[k]);
	}
	return err;
}

static void core_text_close_process(struct go_process **p)
{
	go_process_close(*p);
}

static void core_text_close_symbols(struct symbols **s)
{
	symbols_destroy(*s);
}

static void core_text_close_snapshot(struct snapshot **s)
{
	snapshot_free(*s);
}

/* Opens everything anew. `ret` is filled also where it fails half way; to be deinitialised always. */
static struct error *core_text_make(struct target *t, struct core_text *ret)
{
	_cleanup_(core_text_close_process) struct go_process *p = NULL;
	_cleanup_(core_text_close_symbols) struct symbols *symbols = NULL;
	_cleanup_(core_text_close_snapshot) struct snapshot *snap = NULL;
	struct sampler_parts parts = { .target = t, .clock = &system_clock };
	struct dump_text in = { .system = true, .labels = true };
	struct error *err;

	buf_init(&ret->stacks);
	buf_init(&ret->frames);
	err = go_process_open(t, &(struct go_options){ .strict = true }, &p);
	if (err)
		return err;
	parts.runtime = in.runtime = go_process_runtime(p, 0);
	err = go_runtime_check(parts.runtime);
	if (!err)
		err = naming_open(t, parts.runtime, NULL, &symbols);
	in.symbols = symbols;
	if (!err)
		err = snapshot_take(&parts, CORE_TEXT_DEPTH, &snap);
	if (!err)
		err = dump_text(&in, snap, &ret->stacks, NULL, NULL, &ret->goroutines);
	if (!err)
		err = core_text_frames(&ret->frames, symbols, parts.runtime, snap);
	if (!err)
		err = buf_error(&ret->stacks);
	return err ? err : buf_error(&ret->frames);
}

#endif
