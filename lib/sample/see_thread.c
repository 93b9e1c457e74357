/*
 * see_thread.c: what a tick makes of the threads that were captured: each is a look at the
 * goroutine that it runs, or at the thread itself (collector, scheduler, C code of its own).
 */
#include <string.h>

#include "base/array.h"
#include "sample/sampler_impl.h"

enum { SWAPPED_MOST = 8 };	/* ticks to be given back at most: what is older says nothing of now */

static struct error *labels_of(struct sampler *s, const struct capture *c, const struct g_look *g,
			       profile_id *ret)
{
	uint64_t mark;
	struct error *err = NULL;

	*ret = g->labels ? PROFILE_LABELS_UNKNOWN : PROFILE_LABELS_NONE;
	if (g->labels && hold_read_mark(&s->plan, c, &mark) && c->extra.len)
		err = intern_labels_kept(&s->intern, c, g->labels, mark, ret);
	else if (g->labels && hold_read_mark(&s->plan, c, &mark))
		err = intern_labels_marked(&s->intern, s->reader.target, g->labels, mark, ret);
	profile_health_add(s->profile, HEALTH_LABELS_UNKNOWN, *ret == PROFILE_LABELS_UNKNOWN);
	return err;
}

/* Key, state and labels of what a captured thread was doing. */
static struct error *describe(struct sampler *s, const struct look *look, const struct g_look *g,
			      bool has_m, struct profile_observation *o)
{
	const char *doing = g ? "gc" : has_m ? "scheduler" : s->reader.goroutines ? "non-Go" : "running";
	enum thread_kind kind = has_m ? THREAD_GO : s->reader.goroutines ? THREAD_NON_GO : THREAD_UNKNOWN;
	uint8_t state;
	struct error *err;

	if (!has_m && look->moved && look->thread->m) {
		kind = THREAD_UNKNOWN;
		doing = "running";
	}

	if (g && (s->options.system || !intern_is_system(&s->intern, g))) {
		o->key = g->goid;
		err = profile_has_track(s->profile, g->goid) ? NULL : intern_track(&s->intern, g, false);
		if (!err)
			err = labels_of(s, look->capture, g, &o->labels);
		if (!err)
			err = intern_state(&s->intern, g, &state);
		if (!err)
			o->state = intern_state_id(&s->intern, state);
		return err;
	}
	look->thread->tracked = true;
	o->key = PROFILE_THREAD_KEY + look->thread->tid;
	o->labels = PROFILE_LABELS_NONE;
	err = intern_thread_track(&s->intern, s->reader.target, o->key, kind);
	return err ? err : profile_string(s->profile, doing, strlen(doing), &o->state);
}

/* Its walk may end where the copy does: cut, not broken. */
static bool is_longer_than_a_hold(const struct look *look, const struct g_look *g)
{
	const struct capture *c = look->capture;

	if (look->moved)
		return true;
	if (g)
		return g->stack_hi - g->stack_lo > HOLD_STACK_BYTES;
	return c->n_views && c->views[0].len == HOLD_STACK_BYTES;
}

static struct error *capture_stack(struct sampler *s, const struct look *look, const struct m_look *m,
				   const struct g_look *g, profile_id *ret)
{
	const struct capture *c = look->capture;
	const struct unwind_memory mem = { .views = c->views, .n = c->n_views };
	enum unwind_end end = UNWIND_NOWHERE;
	struct unwind_start start;
	size_t n = 0;

	if (unwind_start_thread(s->reader.rt, &c->regs, m, g, &start)) {
		start.native = s->native;
		start.regs = &c->regs;
		start.callbacks = hold_read_callbacks(c);
		n = unwind(s->reader.rt, &start, &mem, s->frames, s->options.depth, &end);
	}
	if (!n) {
		s->frames[0] = (struct pc_frame){ .kind = PC_NATIVE };
		n = 1;
	}
	if (end == UNWIND_NO_MEMORY && n && is_longer_than_a_hold(look, g))
		end = UNWIND_DEPTH;
	count_stack(s, end);
	profile_health_add(s->profile, HEALTH_LOOK_STACKS, 1);
	profile_health_add(s->profile, HEALTH_LOOK_STACKS_COMPLETE, end == UNWIND_COMPLETE);
	return intern_stack(&s->intern, s->frames, n, end, ret);
}

/* The tick that a look belongs to. A late one is of the last: this tick's own readings replace it. */
static uint32_t tick_of(const struct sampler *s, const struct look *look)
{
	return look->late ? s->tick - 1 : s->tick;
}

static struct error *add_orphan(struct sampler *s, gaddr_t g, uint64_t goid, uint32_t tick)
{
	struct error *err = array_reserve(&s->orphans, &s->cap_orphans, s->n_orphans + 1,
					  sizeof(*s->orphans));

	if (!err)
		s->orphans[s->n_orphans++] = (struct orphan){ .g = g, .goid = goid, .tick = tick };
	return err;
}

struct error *let_linger(struct sampler *s, const struct g_slot *slot)
{
	return add_orphan(s, slot->addr, slot->goid, s->tick);
}

/* Those that ended before any pass over allgs saw them. */
void end_orphans(struct sampler *s)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < s->n_orphans; i++) {
		const struct orphan *o = &s->orphans[i];
		const struct g_slot *slot = gs_slot(&s->gs, o->g);

		if (o->tick == s->tick)
			s->orphans[kept++] = *o;
		else if (!slot || slot->goid != o->goid)
			profile_gone(s->profile, o->goid, s->t_tick);
	}
	s->n_orphans = kept;
}

/* Joins a captured goroutine with its slot: the pass may have missed its birth. */
static struct error *claim_slot(struct sampler *s, const struct look *look, const struct g_look *g)
{
	struct g_slot *slot = gs_slot(&s->gs, g->g);
	struct error *err = NULL;
	bool listed;

	if (!slot) {
		births_seen(s, g->goid);	/* once more if it gets a slot: what is told is a least number */
		return add_orphan(s, g->g, g->goid, tick_of(s, look));
	}
	if (slot->goid != g->goid)
		err = slot_begin(s, slot, g);
	/* It may be on the list that it would go to. */
	listed = slot->captured && (look->late || slot->captured_tick == tick_mark(s->tick));
	slot->system = false;	/* a finalizer goroutine that runs the program's code */
	slot->captured = slot->told = true;
	slot->sampled = look->sampled;
	slot->captured_tick = tick_mark(tick_of(s, look));
	return err || listed ? err : g_list_add(look->late ? &s->ran : &s->running, slot->addr);
}

/* It is not itself any more, but speaks for a goroutine: the interval under its own key is over. */
static void end_own_track(struct sampler *s, struct thread *th, uint64_t t)
{
	if (th->tracked)
		profile_gone(s->profile, PROFILE_THREAD_KEY + th->tid, t);
	th->tracked = false;
}

/* A look at a goroutine, or at a thread that runs none. */
static struct error *see_captured(struct sampler *s, const struct look *look)
{
	const struct capture *c = look->capture;
	struct profile_observation o = { .weight = 1, .oncpu = look->oncpu };
	struct profile_ref ref;
	struct m_look m;
	struct g_look g;
	bool has_g, has_m = hold_read(&s->plan, c, look->thread, &m, &g, &has_g);
	struct error *err;

	o.t_before = c->t_arrived;
	o.t_after = c->t_resumed;
	look->thread->captured_tick = tick_of(s, look);
	look->thread->g = has_g ? g.g : 0;
	look->thread->goid = has_g ? g.goid : 0;
	if (has_m)
		look->thread->m = m.m;
	else if (s->reader.goroutines && !look->moved)
		threads_miss_m(&s->threads, look->thread);
	err = capture_stack(s, look, has_m ? &m : NULL, has_g ? &g : NULL, &o.stack);
	if (!err)
		err = describe(s, look, has_g ? &g : NULL, has_m, &o);
	if (!err)
		err = profile_observe(s->profile, &o, &ref);
	if (!err && has_g && o.key == g.goid) {
		end_own_track(s, look->thread, o.t_before);
		err = claim_slot(s, look, &g);
	}
	if (err)
		return err;
	return look->oncpu ? thread_add_look(look->thread, ref) : NULL;
}

/* No look at it came in this tick, yet it runs what it ran at the last one: that goes on. */
static struct error *see_still(struct sampler *s, const struct look *look)
{
	struct thread *th = look->thread;
	struct g_slot *slot = look->g ? gs_slot(&s->gs, look->g) : NULL;

	if (th->captured_tick == s->tick || look->g != th->g)
		return NULL;
	if (th->tracked) {
		th->captured_tick = s->tick;
		return NULL;
	}
	/* Ticks that it owes are given back first (see_goroutine.c). */
	if (!slot || !slot->captured || slot->swapped || slot->goid != th->goid ||
	    slot->captured_tick == tick_mark(s->tick))
		return NULL;
	slot->captured_tick = tick_mark(s->tick);
	return g_list_add(&s->running, slot->addr);
}

/* One captured thread: a look at a goroutine, or at a thread that runs none. */
struct error *see_thread(void *ctx, const struct look *look)
{
	struct sampler *s = ctx;

	return look->capture ? see_captured(s, look) : see_still(s, look);
}

/* Threads under keys of their own that were not seen this time: not on a CPU any more. */
void end_thread_tracks(struct sampler *s)
{
	for (uint32_t i = 0; i < s->threads.n; i++) {
		struct thread *th = s->threads.v[i];

		if (th->captured_tick != s->tick)
			end_own_track(s, th, s->t_tick);
	}
}

/* Goroutines that a captured thread has spoken for need no other reading in this tick. */
void drop_captured_jobs(struct sampler *s)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < s->n_jobs; i++) {
		struct g_slot *slot = &s->gs.slots[s->jobs[i].owner];

		if (slot->captured_tick != tick_mark(s->tick) || !slot->captured)
			s->jobs[kept++] = s->jobs[i];
		else if (slot->sampled && s->jobs[i].look.status != G_RUNNING && slot->swapped < SWAPPED_MOST)
			slot->swapped++;
	}
	s->n_jobs = kept;
}
