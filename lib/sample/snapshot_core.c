/*
 * snapshot_core.c: the threads of a core file, as a hold would have copied them.
 *
 * The same hook that copies a held thread of a live process copies here, from the core's memory,
 * so that a core gives what the process gave. Only the length of the copy is no longer bounded by
 * the time of a hold: the rest of the goroutine's stack is read behind it.
 *
 * Must not know ELF: registers and memory come through struct target.
 * Upstream: src/runtime/proc.go (mcommoninit: allm), runtime2.go (type m).
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sample/sample_impl.h"

enum {
	MS_MAX = 1 << 17,
	M_BYTES = 2048,
	REST_MAX = 64 << 20,	/* bytes of one stack behind the copy */
};

struct walk {
	const struct reader *r;
	const struct hold_plan *plan;
	struct capture *capture;
	core_thread_seen *seen;
	void *ctx;
	uint32_t n;
};

/* Where the copied part of the goroutine's stack ends; 0 when none of it was copied. */
static gaddr_t copied_to(const struct capture *c, const struct g_look *g)
{
	gaddr_t end = 0;

	for (uint32_t i = 0; i < c->n_views; i++) {
		gaddr_t last = c->views[i].low + c->views[i].len;

		if (c->views[i].len && last > g->stack_lo && last <= g->stack_hi && last > end)
			end = last;
	}
	return end;
}

/* The rest of the goroutine's stack in memory of its own; *len is 0 when there is none. */
static struct error *read_rest(const struct walk *w, const struct g_look *g, uint8_t **ret, struct mem_view *view)
{
	struct span s = { .addr = copied_to(w->capture, g) };
	struct error *err;

	*view = (struct mem_view){ 0 };
	if (!s.addr || s.addr >= g->stack_hi)
		return NULL;
	s.len = g->stack_hi - s.addr < REST_MAX ? g->stack_hi - s.addr : REST_MAX;
	s.buf = *ret = malloc(s.len);
	if (!s.buf)
		return &err_nomem;
	err = target_read_v(w->r->target, &s, 1);
	if (!err)
		*view = (struct mem_view){ .low = s.addr, .len = (uint32_t)s.done, .bytes = s.buf };
	return err;
}

static struct error *copy_thread(struct walk *w, struct thread *th)
{
	const struct capture_request rq = { .cookie = (uint64_t)th->tid, .hint = { th->m } };
	struct capture *c = w->capture;
	struct core_thread_copy copy = { .regs = &c->regs };
	struct mem_view views[CAPTURE_VIEWS + 1];
	_cleanup_free_ uint8_t *rest = NULL;
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
	memcpy(views, c->views, c->n_views * sizeof(*views));
	err = read_rest(w, &copy.g, &rest, &views[c->n_views]);
	if (err)
		return err;
	copy.mem = (struct unwind_memory){ views, c->n_views + (rest != NULL) };
	return w->seen(w->ctx, &copy);
}

static struct error *walk_ms(struct walk *w)
{
	gaddr_t at, all = go_runtime_globals(w->r->rt)[GO_ALLM].addr;
	uint8_t bytes[M_BYTES];
	struct error *err;

	if (!all || w->r->m_span > sizeof(bytes))
		return NULL;
	err = target_read_u64(w->r->target, all, &at);
	for (uint32_t n = 0; !err && at && n < MS_MAX; n++) {
		struct thread th = { .m = at };
		struct m_look m;

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
	struct walk w = { .r = r, .plan = plan, .seen = seen, .ctx = ctx,
			  .capture = calloc(1, sizeof(*w.capture)) };
	struct error *err = w.capture ? walk_ms(&w) : &err_nomem;

	free(w.capture);
	if (!err)
		*n = w.n;
	return err;
}
