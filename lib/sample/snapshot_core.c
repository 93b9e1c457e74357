/*
 * snapshot_core.c: the threads of a core file, as a hold would have copied them.
 *
 * The same hook that copies a held thread of a live process copies here, from the core's memory,
 * so that a core gives what the process gave. Only the length of the copy is no longer bounded by
 * the time of a hold: the walk gets what lies behind it piece by piece.
 *
 * Must not know ELF: registers and memory come through struct target.
 * Upstream: src/runtime/proc.go (mcommoninit: allm), runtime2.go (type m).
 */
#include <stdlib.h>
#include <string.h>

#include "sample/sample_impl.h"

enum {
	MS_MAX = 1 << 17,
	STALE_MAX = 1024,	/* m's without a thread that still name one: C had them, and gave them back */
	PIECE_BYTES = 64 * 1024,
};

struct walk {
	const struct reader *r;
	const struct hold_plan *plan;
	struct capture *capture;
	core_thread_seen *seen;
	void *ctx;
	struct map64 visited;		/* m's: a damaged list may lead back into itself */
	uint32_t n, most;
	struct error *err;		/* of a piece; fatal */
	uint8_t piece[PIECE_BYTES];
};

/* unwind_more: what the hook had no room for. Bytes of a core do not change. */
static bool next_piece(void *ctx, gaddr_t addr, struct mem_view *ret)
{
	struct walk *w = ctx;

	return read_piece(w->r->target, addr, w->piece, sizeof(w->piece), ret, &w->err);
}

static struct error *copy_thread(struct walk *w, struct thread *th)
{
	const struct capture_request rq = { .cookie = (uint64_t)th->tid, .hint = { [HINT_M] = th->m } };
	struct capture *c = w->capture;
	struct core_thread_copy copy = { .regs = &c->regs };
	struct error *err;
	bool has_g;

	c->tid = th->tid;
	c->status = CAPTURE_OK;
	c->n_views = c->note_len = 0;
	if (!target_thread_regs(w->r->target, th->tid, &c->regs))
		return NULL;
	w->n++;
	hold_hook((void *)w->plan, w->r->target, &rq, c);
	if (!hold_read(w->plan, c, th, &copy.m, &copy.g, &has_g) || !has_g)
		return NULL;
	copy.mem = (struct unwind_memory){ .views = c->views, .n = c->n_views, .more = next_piece, .ctx = w };
	err = w->seen(w->ctx, &copy);
	return err ? err : w->err;
}

static struct error *walk_ms(struct walk *w)
{
	gaddr_t at, all = go_runtime_globals(w->r->rt)[GO_ALLM].addr;
	uint8_t bytes[GO_SPANS_MAX];
	struct error *err;

	if (!all || w->r->m_span > sizeof(bytes))
		return NULL;
	err = target_read_u64(w->r->target, all, &at);
	for (uint32_t n = 0; !err && at && n < MS_MAX && w->n < w->most; n++) {
		struct thread th = { .m = at };
		struct m_look m;

		if (map64_get(&w->visited, at) != MAP_NONE)
			break;
		err = map64_put(&w->visited, at, n);
		if (!err)
			err = target_read(w->r->target, at, bytes, w->r->m_span);
		if (err)
			break;
		m_parse(w->r->layout, at, bytes, &m);
		th.procid = m.procid;
		th.tid = m.procid && m.procid <= INT32_MAX ?
			target_tid_from_inner(w->r->target, (pid_t)m.procid) : -1;
		if (m.curg && th.tid > 0)
			err = copy_thread(w, &th);
		at = m.alllink;
	}
	/* A list that breaks off: those before it are known. */
	return err == &err_fault ? NULL : err;
}

struct error *core_threads_walk(const struct reader *r, const struct hold_plan *plan,
				core_thread_seen *seen, void *ctx, uint32_t *n)
{
	struct walk *w = calloc(1, sizeof(*w));
	struct error *err = &err_nomem;
	size_t threads = 0;

	if (!w)
		return err;
	w->r = r;
	w->plan = plan;
	w->seen = seen;
	w->ctx = ctx;
	map64_init(&w->visited);
	w->capture = calloc(1, sizeof(*w->capture));
	if (w->capture)
		err = target_tids(r->target, NULL, &threads);
	w->most = (uint32_t)threads + STALE_MAX;
	if (!err)
		err = walk_ms(w);
	if (!err)
		*n = w->n;
	map64_deinit(&w->visited);
	free(w->capture);
	free(w);
	return err;
}
