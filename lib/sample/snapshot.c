/*
 * snapshot.c: every goroutine once. The same readers as the tick's, in rounds: what moved while it
 * was read, or runs on a thread, is tried again for a while; what cannot be caught is reported by
 * its header only, never with a guessed stack.
 *
 * Nothing but threads that are on a CPU is stopped, each for some microseconds. In a core file
 * nothing moves and registers are read: one round is all.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sample/look.h"
#include "sample/snapshot.h"

enum {
	ROUNDS = 40,
	ROUND_NS = 2 * NSEC_PER_MSEC,	/* between rounds: time for a late thread to arrive */
	CAPTURES_MAX = 64,
	BUDGET_NS = 3 * NSEC_PER_MSEC,
};

/* A core knows no "now": what is dated by it (how long a goroutine has waited) is not known. */
static uint64_t no_time(const struct clock *c)
{
	(void)c;
	return 0;
}

static bool no_sleep(const struct clock *c, uint64_t deadline)
{
	(void)c;
	(void)deadline;
	return true;
}

static const struct clock core_clock = {
	.mono = no_time, .real = no_time, .boot = no_time, .sleep_until = no_sleep,
};

struct taker {
	struct reader reader;
	struct tracer *tracer;
	struct hold_plan plan;
	struct gs gs;
	struct threads threads;
	struct stack_reader *stacks;
	struct snapshot *snap;
	uint32_t cap;
	uint32_t depth;
	struct stack_job *jobs;		/* owner: the goroutine's index in snap */
	struct map64 by_g;		/* g address -> index in snap */
	struct go_labels *scratch;
	struct pc_frame *frames;
	struct arena arena;		/* moves into the snapshot */
};

/* The public part and what backs it. */
struct snapshot_owned {
	struct snapshot snap;
	struct arena arena;
};

void snapshot_free(struct snapshot *s)
{
	struct snapshot_owned *own = (struct snapshot_owned *)s;

	if (!s)
		return;
	free(s->v);
	arena_deinit(&own->arena);
	free(own);
}

/* ---- headers ---- */

static struct error *see_header(void *ctx, struct g_slot *slot, const uint8_t *bytes, uint64_t t_before,
				uint64_t t_after)
{
	struct taker *t = ctx;
	struct snapshot *snap = t->snap;
	struct g_look look;

	g_parse(t->reader.layout, slot->addr, bytes, &look);
	look.t_before = t_before;
	look.t_after = t_after;
	if (!look.goid || look.status == G_IDLE || look.status == G_DEAD || look.status == G_DEADEXTRA)
		return NULL;
	if (snap->n == t->cap)
		return &err_corrupt;	/* more than allgs has slots: cannot be */
	snap->v[snap->n] = (struct snapshot_goroutine){ .look = look, .moved = true };
	return map64_put(&t->by_g, slot->addr, snap->n++);
}

/* ---- stacks ---- */

static struct error *keep_frames(struct taker *t, struct snapshot_goroutine *g, const struct pc_frame *frames,
				 size_t n, enum unwind_end end)
{
	struct pc_frame *copy = arena_alloc(&t->arena, (n ? n : 1) * sizeof(*copy));

	if (!copy)
		return &err_nomem;
	memcpy(copy, frames, n * sizeof(*copy));
	g->frames = copy;
	g->n_frames = n;
	g->end = end;
	g->moved = false;
	return NULL;
}

static struct error *see_stack(void *ctx, const struct stack_result *res)
{
	struct taker *t = ctx;
	struct snapshot_goroutine *g = &t->snap->v[res->job->owner];

	if (res->job->look.goid == g->look.goid)
		g->look = res->job->look;
	if (res->outcome == STACK_MOVED)
		return NULL;
	return keep_frames(t, g, res->frames, res->n, res->end);
}

/* Copies the label set that was read into the snapshot's arena. */
static struct error *keep_labels(struct taker *t, struct snapshot_goroutine *g)
{
	const struct go_labels *from = t->scratch;
	struct go_label *to = arena_alloc(&t->arena, (from->n ? from->n : 1) * sizeof(*to));

	if (!to)
		return &err_nomem;
	for (uint32_t i = 0; i < from->n; i++) {
		to[i] = from->v[i];
		to[i].key = arena_strndup(&t->arena, from->v[i].key, from->v[i].key_len);
		to[i].value = arena_strndup(&t->arena, from->v[i].value, from->v[i].value_len);
		if (!to[i].key || !to[i].value)
			return &err_nomem;
	}
	g->labels = to;
	g->n_labels = from->n;
	return NULL;
}

/* Labels between the stack and the header that validates both. */
static void see_labels(void *ctx, const struct stack_job *jobs, size_t n)
{
	struct taker *t = ctx;

	for (size_t i = 0; i < n; i++) {
		struct snapshot_goroutine *g = &t->snap->v[jobs[i].owner];
		gaddr_t labels = jobs[i].look.labels;
		struct error *err = NULL;

		g->n_labels = 0;
		if (labels)
			err = go_labels_read(t->reader.rt, t->reader.target, labels, t->scratch);
		if (labels && !err)
			err = keep_labels(t, g);
		g->labels_known = !err;
		error_free(err);
	}
}

/* It ended while the snapshot was taken: left out at the end (drop_ended). */
static void has_ended(struct snapshot_goroutine *g)
{
	g->look.status = G_DEAD;
	g->moved = false;
}

/* A fresh header of a goroutine that was missed. */
static void refresh(struct taker *t, struct snapshot_goroutine *g)
{
	uint8_t bytes[GO_G_SPAN_MAX];
	struct g_look look;
	uint64_t before = reader_now(&t->reader);
	struct error *err;

	if (t->reader.g_span > sizeof(bytes))
		return;
	err = target_read(t->reader.target, g->look.g, bytes, t->reader.g_span);
	if (err) {
		error_free(err);
		return;
	}
	g_parse(t->reader.layout, g->look.g, bytes, &look);
	look.t_before = before;
	look.t_after = reader_now(&t->reader);
	if (look.goid == g->look.goid && look.status != G_DEAD)
		g->look = look;
	else
		has_ended(g);
}

/* Stacks of all that are still missing and not running; returns how many there were. */
static struct error *read_parked(struct taker *t, bool again)
{
	size_t n = 0;

	for (uint32_t i = 0; i < t->snap->n; i++) {
		struct snapshot_goroutine *g = &t->snap->v[i];

		if (!g->moved)
			continue;
		if (again)
			refresh(t, g);
		if (g->look.status == G_RUNNING)
			continue;
		t->jobs[n++] = (struct stack_job){ .owner = i, .look = g->look };
	}
	return stack_reader_run(t->stacks, &t->reader, t->jobs, n, see_labels, see_stack, t);
}

/* ---- running ones ---- */

static struct error *see_capture(struct taker *t, const struct capture *c)
{
	struct thread *th = threads_find(&t->threads, c->tid);
	struct unwind_memory mem = { .views = c->views, .n = c->n_views };
	struct unwind_start start;
	enum unwind_end end;
	struct m_look m;
	struct g_look g;
	uint32_t at;
	size_t n;
	bool has_g;

	if (!th || c->status != CAPTURE_OK)
		return NULL;
	t->snap->threads_held++;
	if (c->t_resumed - c->t_arrived > t->snap->held_ns)
		t->snap->held_ns = c->t_resumed - c->t_arrived;
	if (!hold_read(&t->plan, c, th, &m, &g, &has_g) || !has_g)
		return NULL;
	at = map64_get(&t->by_g, g.g);
	if (at == MAP_NONE || t->snap->v[at].look.goid != g.goid || !t->snap->v[at].moved)
		return NULL;
	if (!unwind_start_thread(t->reader.rt, &c->regs, &m, &g, &start))
		return NULL;
	n = unwind(t->reader.rt, &start, &mem, t->frames, t->depth, &end);
	if (!n || (end != UNWIND_COMPLETE && end != UNWIND_GAP && end != UNWIND_DEPTH && end != UNWIND_NATIVE))
		return NULL;	/* caught at a bad moment: try again */
	t->snap->v[at].look = g;
	see_labels(t, &(struct stack_job){ .owner = at, .look = g }, 1);
	return keep_frames(t, &t->snap->v[at], t->frames, n, end);
}

static bool runs_missing(const struct taker *t, const struct thread *th)
{
	for (uint32_t i = 0; i < t->snap->n; i++) {
		const struct snapshot_goroutine *g = &t->snap->v[i];

		if (g->moved && g->look.m == th->m)
			return true;
	}
	return false;
}

/* On a CPU; or off it outside any system call, or behind one, as threads of a stopped process are. */
static bool may_be_held(const struct taker *t, const struct thread *th)
{
	struct task_syscall call;
	enum task_state state = task_read_syscall(th->task, &call);

	return state == TASK_RUNNING ||
	       (state == TASK_BLOCKED && (call.nr < 0 || task_is_stopped(t->reader.target, th->task)));
}

static size_t wanted_threads(struct taker *t, struct capture_request *rq)
{
	size_t n = 0;

	for (uint32_t i = 0; i < t->threads.n && n < CAPTURES_MAX; i++) {
		struct thread *th = t->threads.v[i];

		if (!th->m || th->gone || tracer_owes(t->tracer, th->tid) || !runs_missing(t, th))
			continue;
		if (!may_be_held(t, th))
			continue;
		rq[n] = (struct capture_request){ .task = th->task, .cookie = th->tid,
						  .hint = { [HINT_M] = th->m, [HINT_PROCID] = th->procid } };
		rq[n++].t_tick = reader_now(&t->reader);
	}
	return n;
}

static struct error *read_running(struct taker *t)
{
	struct capture_request rq[CAPTURES_MAX];
	struct capture *got[CAPTURES_MAX];
	struct error *err = threads_update(&t->threads, &t->reader, t->tracer);
	size_t n;

	if (err)
		return err;
	n = wanted_threads(t, rq);
	if (n)
		tracer_capture(t->tracer, t->reader.target, rq, n, BUDGET_NS, hold_hook, &t->plan);
	n = tracer_collect(t->tracer, reader_now(&t->reader) + ROUND_NS, got, CAPTURES_MAX);
	for (size_t i = 0; i < n; i++) {
		if (!err)
			err = see_capture(t, got[i]);
		tracer_recycle(t->tracer, got[i]);
	}
	return err;
}

/* ---- threads of a core ---- */

/* There is no second try: what the walk came to is shown, and why it ended. */
static struct error *see_core_thread(void *ctx, const struct core_thread_copy *copy)
{
	struct taker *t = ctx;
	uint32_t at = map64_get(&t->by_g, copy->g.g);
	struct snapshot_goroutine *g = at == MAP_NONE ? NULL : &t->snap->v[at];
	struct unwind_start start;
	enum unwind_end end;
	size_t n;

	if (!g || g->look.goid != copy->g.goid || !g->moved ||
	    !unwind_start_thread(t->reader.rt, copy->regs, &copy->m, &copy->g, &start))
		return NULL;
	n = unwind(t->reader.rt, &start, &copy->mem, t->frames, t->depth, &end);
	see_labels(t, &(struct stack_job){ .owner = at, .look = g->look }, 1);
	return keep_frames(t, g, t->frames, n, end);
}

static struct error *take_core(struct taker *t)
{
	struct error *err = read_parked(t, false);

	if (!err)
		err = core_threads_walk(&t->reader, &t->plan, see_core_thread, t, &t->snap->threads_held);
	/* Without frames: nothing is known of its stack. It did not move. */
	for (uint32_t i = 0; i < t->snap->n; i++)
		t->snap->v[i].moved = false;
	return err;
}

/* ---- all of it ---- */

static uint32_t missing(const struct taker *t)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->snap->n; i++)
		n += t->snap->v[i].moved;
	return n;
}

static struct error *take_rounds(struct taker *t)
{
	const struct clock *clock = t->reader.clock;
	struct error *err = read_parked(t, false);

	for (int round = 0; !err && missing(t) && round < ROUNDS; round++) {
		err = read_running(t);
		if (!err && missing(t)) {
			clock->sleep_until(clock, reader_now(&t->reader) + ROUND_NS);
			err = read_parked(t, true);
		}
	}
	return err;
}

static void drop_ended(struct snapshot *snap)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < snap->n; i++)
		if (snap->v[i].look.status != G_DEAD)
			snap->v[kept++] = snap->v[i];
	snap->n = kept;
}

static struct error *taker_init(struct taker *t, struct snapshot *snap)
{
	struct error *err;

	arena_init(&t->arena);
	map64_init(&t->by_g);
	err = gs_init(&t->gs);
	if (!err)
		err = gs_update(&t->gs, &t->reader);
	if (!err && !target_is_core(t->reader.target))
		err = threads_init(&t->threads, &t->reader);
	if (!err)
		err = stack_reader_create(t->depth, true, &t->stacks);
	if (err)
		return err;
	t->snap = snap;
	t->cap = t->gs.n;
	snap->v = calloc(t->cap, sizeof(*snap->v));
	t->jobs = calloc(t->cap, sizeof(*t->jobs));
	t->frames = calloc(t->depth, sizeof(*t->frames));
	t->scratch = malloc(sizeof(*t->scratch));
	return snap->v && t->jobs && t->frames && t->scratch ? NULL : &err_nomem;
}

static void taker_deinit(struct taker *t)
{
	if (t->tracer)
		tracer_drain(t->tracer, t->reader.target, NSEC_PER_SEC);
	stack_reader_destroy(t->stacks);
	threads_deinit(&t->threads);
	gs_deinit(&t->gs);
	map64_deinit(&t->by_g);
	arena_deinit(&t->arena);
	free(t->jobs);
	free(t->frames);
	free(t->scratch);
}

struct error *snapshot_take(const struct sampler_parts *parts, uint32_t depth, struct snapshot **ret)
{
	struct snapshot_owned *own = calloc(1, sizeof(*own));
	struct taker t = { .tracer = parts->tracer, .depth = depth, .reader = reader_make(parts) };
	bool core = target_is_core(parts->target);
	uint64_t start = reader_now(&t.reader);
	struct error *err;

	if (!own)
		return &err_nomem;
	if (core)
		t.reader.clock = &core_clock;
	arena_init(&own->arena);
	t.plan = hold_plan_make(&t.reader, false);
	err = taker_init(&t, &own->snap);
	if (!err)
		err = gs_read_all(&t.gs, &t.reader, see_header, &t);
	if (!err)
		err = core ? take_core(&t) : take_rounds(&t);
	/* After an exec the same addresses are another program's. */
	if (!err && !core && target_life(parts->target) != TARGET_ALIVE)
		err = &err_gone;
	if (!err) {
		drop_ended(&own->snap);
		own->snap.took_ns = parts->clock->mono(parts->clock) - start;
		own->arena = t.arena;
		arena_init(&t.arena);
		*ret = &own->snap;
	}
	taker_deinit(&t);
	if (err)
		snapshot_free(&own->snap);
	return err;
}
