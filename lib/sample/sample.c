/*
 * sample.c: the tick. Read sampler_tick and do_tick: the rest of the folder is what they call.
 *
 * Two phases, never mixed: *capture* (threads are held, in the tracer's thread; see hold.c) and
 * *process* (nothing is held; everything is worked out from copies).
 *
 * The grid is absolute; each tick falls at a random place within its period, else a program whose
 * own cycle is close to the period would be looked at in the same phase again and again. Ticks
 * that cannot be done in time are counted and dropped, never made up for: weights come from real
 * elapsed time.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "sample/look.h"

enum {
	HOT_LOOKS = 2,			/* looks after a change for which a fingerprint is not believed */
	AUDIT_SHARE = 128,		/* one in so many believed fingerprints is checked against the stack */
	FOREVER_HOT = 255,		/* an audit found it changed: never believed again */
	LATE_NS = 200 * NSEC_PER_USEC,	/* a tick later than this gives no valid looks by itself */
	COLLECT_NS = 1 * NSEC_PER_MSEC,	/* how long a tick waits for its threads once all else is read */
};

struct sampler {
	struct reader reader;
	struct tracer *tracer;
	struct profile *profile;
	struct sampler_options options;
	struct hold_plan plan;
	struct gs gs;
	struct threads threads;
	struct intern intern;
	struct stack_reader *stacks;
	struct look_source *looks;
	struct stack_job *jobs;		/* this tick's goroutines whose stack is wanted */
	uint32_t n_jobs, cap_jobs;
	struct pc_frame *frames;	/* scratch of captures */
	profile_id moved, unseen_running;	/* pseudo stacks */
	uint64_t start, period, slot;	/* the grid */
	uint64_t deadline;		/* of the tick that is slept for; 0: none planned */
	uint64_t random, own_cpu;
	uint32_t tick;			/* serial, from 1 */
	uint32_t alive;
	uint64_t t_tick;
};

/* ---- life ---- */

static struct error *init_parts(struct sampler *s)
{
	const struct look_source_parts parts = {
		.reader = &s->reader, .threads = &s->threads, .tracer = s->tracer,
		.profile = s->profile, .plan = &s->plan,
	};
	struct error *err;

	err = gs_init(&s->gs);
	if (!err)
		err = threads_init(&s->threads, &s->reader);
	if (!err)
		err = intern_init(&s->intern, s->reader.target, s->reader.rt, s->profile);
	if (!err)
		err = stack_reader_create(s->options.depth, &s->stacks);
	if (!err)
		err = look_ptrace_create(&parts, &s->looks);
	if (!err)
		err = intern_pseudo(&s->intern, "[moved while it was read]", &s->moved);
	if (!err)
		err = intern_pseudo(&s->intern, "[running, not seen on a CPU]", &s->unseen_running);
	return err;
}

static uint64_t own_cpu(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

struct error *sampler_create(const struct sampler_parts *parts, const struct sampler_options *o,
			     struct sampler **ret)
{
	struct sampler *s;
	struct error *err;

	if (!o->rate_hz || o->rate_hz > 10000 || !o->depth || o->depth > FRAMES_MAX)
		return error_new(ERROR_USAGE, "rate or depth out of range");
	s = calloc(1, sizeof(*s));
	if (!s)
		return &err_nomem;
	s->reader = reader_make(parts);
	s->tracer = parts->tracer;
	s->profile = parts->profile;
	s->options = *o;
	s->plan = hold_plan_make(&s->reader);
	s->random = o->seed | 1;
	s->period = NSEC_PER_SEC / o->rate_hz;
	s->start = reader_now(&s->reader);
	s->own_cpu = own_cpu();
	s->frames = calloc(o->depth, sizeof(*s->frames));
	err = s->frames ? init_parts(s) : &err_nomem;
	if (err) {
		sampler_destroy(s);
		return err;
	}
	*ret = s;
	return NULL;
}

void sampler_destroy(struct sampler *s)
{
	if (!s)
		return;
	tracer_drain(s->tracer, s->reader.target, NSEC_PER_SEC);
	if (s->looks)
		s->looks->destroy(s->looks);
	stack_reader_destroy(s->stacks);
	intern_deinit(&s->intern);
	threads_deinit(&s->threads);
	gs_deinit(&s->gs);
	free(s->jobs);
	free(s->frames);
	free(s);
}

uint32_t sampler_goroutines(const struct sampler *s)
{
	return s->alive;
}

/* ---- the goroutines ---- */

static uint64_t next_random(struct sampler *s)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return s->random;
}

static struct error *add_job(struct sampler *s, struct g_slot *slot, const struct g_look *look)
{
	if (s->n_jobs == s->cap_jobs) {
		uint32_t cap = s->cap_jobs ? s->cap_jobs * 2 : 256;
		struct stack_job *jobs = realloc(s->jobs, cap * sizeof(*jobs));

		if (!jobs)
			return &err_nomem;
		s->jobs = jobs;
		s->cap_jobs = cap;
	}
	s->jobs[s->n_jobs++] = (struct stack_job){ .owner = slot - s->gs.slots, .look = *look };
	return NULL;
}

/* The slot's goroutine is no more (dead, or its struct has another goid now). */
static void slot_clear(struct sampler *s, struct g_slot *slot, uint64_t t)
{
	if (slot->goid && !slot->system)
		profile_gone(s->profile, slot->goid, t);
	slot->goid = 0;
	slot->known = slot->captured = false;
}

/* A goroutine is seen for the first time. */
static struct error *slot_begin(struct sampler *s, struct g_slot *slot, const struct g_look *look)
{
	slot_clear(s, slot, look->t_before);
	slot->goid = look->goid;
	slot->hot = HOT_LOOKS;
	slot->system = !s->options.system && intern_is_system(&s->intern, look);
	return slot->system ? NULL : intern_track(&s->intern, look, false);
}

static bool is_alive(const struct g_look *look)
{
	return look->goid && look->status != G_IDLE && look->status != G_DEAD &&
	       look->status != G_DEADEXTRA;
}

/* May the stack of the last look be believed to hold still? */
static bool unchanged(struct sampler *s, const struct g_slot *slot, const struct g_look *look)
{
	if (!slot->known || slot->captured || slot->fingerprint != look->fingerprint)
		return false;
	if (slot->hot || look->status == G_SYSCALL)
		return false;
	if (next_random(s) % AUDIT_SHARE == 0) {
		profile_health_add(s->profile, HEALTH_AUDITED, 1);
		return false;
	}
	return true;
}

/* One header of the pass (struct gs): most goroutines have not moved and end here. */
static struct error *see_header(void *ctx, struct g_slot *slot, const uint8_t *bytes, uint64_t t_before,
				uint64_t t_after)
{
	struct sampler *s = ctx;
	struct g_look look;
	struct error *err;

	g_parse(s->reader.layout, slot->addr, bytes, &look);
	look.t_before = t_before;
	look.t_after = t_after;
	if (!is_alive(&look)) {
		slot_clear(s, slot, t_before);
		return NULL;
	}
	if (look.goid != slot->goid) {
		err = slot_begin(s, slot, &look);
		if (err)
			return err;
	}
	if (slot->system)
		return NULL;
	s->alive++;
	if (unchanged(s, slot, &look)) {
		profile_health_add(s->profile, HEALTH_G_UNCHANGED, 1);
		return NULL;
	}
	return add_job(s, slot, &look);
}

static struct error *observe(struct sampler *s, struct g_slot *slot, const struct g_look *look,
			     profile_id stack, profile_id state, profile_id labels)
{
	const struct profile_observation o = {
		.key = look->goid, .stack = stack, .state = state, .labels = labels, .weight = 1,
		.t_before = look->t_before, .t_after = look->t_after,
	};
	struct profile_ref ref;

	slot->captured = false;
	return profile_observe(s->profile, &o, &ref);
}

static void count_stack(struct sampler *s, enum unwind_end end)
{
	static const enum health_id counter[UNWIND_END_COUNT] = {
		[UNWIND_COMPLETE] = HEALTH_STACKS_COMPLETE,
		[UNWIND_DEPTH] = HEALTH_STACKS_CUT,
		[UNWIND_NATIVE] = HEALTH_STACKS_NATIVE,
	};

	profile_health_add(s->profile, HEALTH_STACKS, 1);
	profile_health_add(s->profile, counter[end] ? counter[end] : HEALTH_STACKS_BROKEN, 1);
}

/* Reads label sets between the stack and the header that validates both. */
static void see_labels(void *ctx, const struct stack_job *jobs, size_t n)
{
	struct sampler *s = ctx;
	profile_id labels;

	for (size_t i = 0; i < n; i++)
		error_free(intern_labels(&s->intern, s->reader.target, jobs[i].look.labels, s->tick, &labels));
}

/* A goroutine that ran while it was read, or runs on a thread that was not captured. */
static struct error *see_moving(struct sampler *s, struct g_slot *slot, const struct g_look *look)
{
	profile_id state, stack = s->moved;
	struct error *err;

	slot->known = false;
	slot->hot = slot->hot == FOREVER_HOT ? FOREVER_HOT : HOT_LOOKS;
	if (look->status == G_COPYSTACK || (look->status == G_RUNNING && slot->captured))
		return NULL;	/* it goes on where it was last seen */
	if (look->status == G_RUNNING)
		stack = s->unseen_running;
	else
		profile_health_add(s->profile, HEALTH_G_MOVING, 1);
	err = intern_state(&s->intern, look, &state);
	return err ? err : observe(s, slot, look, stack, state, PROFILE_LABELS_UNKNOWN);
}

/* How much an unchanged fingerprint of this goroutine will be believed from now on. */
static void judge_heat(struct sampler *s, struct g_slot *slot, const struct g_look *look, profile_id stack)
{
	bool same_print = slot->known && slot->fingerprint == look->fingerprint;
	bool same_stack = slot->known && slot->stack == stack;

	if (same_print && !same_stack && look->status != G_SYSCALL) {
		if (!slot->hot && !slot->captured)
			profile_health_add(s->profile, HEALTH_AUDIT_MISMATCH, 1);
		slot->hot = FOREVER_HOT;
	} else if (!same_stack || !same_print) {
		slot->hot = slot->hot == FOREVER_HOT ? FOREVER_HOT : HOT_LOOKS;
	} else if (slot->hot && slot->hot != FOREVER_HOT) {
		slot->hot--;
	}
}

/* One stack that was read (or not). */
static struct error *see_stack(void *ctx, const struct stack_result *res)
{
	struct sampler *s = ctx;
	struct g_slot *slot = &s->gs.slots[res->job->owner];
	struct g_look look = res->job->look;
	profile_id stack, state, labels;
	struct error *err;

	profile_health_add(s->profile, HEALTH_G_TORN, res->retried);
	if (!is_alive(&look))
		return NULL;
	if (res->outcome == STACK_MOVED)
		return see_moving(s, slot, &look);
	look.t_after = res->t_after;
	count_stack(s, res->end);
	err = intern_stack(&s->intern, res->frames, res->n, res->end, &stack);
	if (!err)
		err = intern_state(&s->intern, &look, &state);
	if (!err)
		err = intern_labels(&s->intern, s->reader.target, look.labels, s->tick, &labels);
	if (err)
		return err;
	profile_health_add(s->profile, HEALTH_G_HOT, slot->hot != 0);
	profile_health_add(s->profile, HEALTH_LABELS_UNKNOWN, labels == PROFILE_LABELS_UNKNOWN);
	judge_heat(s, slot, &look, stack);
	slot->fingerprint = look.fingerprint;
	slot->stack = stack;
	slot->state = state;
	slot->labels = labels;
	slot->known = true;
	return observe(s, slot, &look, stack, state, labels);
}

/* ---- the threads ---- */

/* Key, state and labels of what a captured thread was doing. */
static struct error *describe(struct sampler *s, const struct look *look, const struct g_look *g,
			      bool has_m, struct profile_observation *o)
{
	const char *doing = g ? "gc" : has_m ? "scheduler" : "non-Go";
	struct error *err;

	if (g && (s->options.system || !intern_is_system(&s->intern, g))) {
		o->key = g->goid;
		err = profile_has_track(s->profile, g->goid) ? NULL : intern_track(&s->intern, g, false);
		if (!err)
			err = intern_state(&s->intern, g, &o->state);
		return err ? err : intern_labels(&s->intern, s->reader.target, g->labels, s->tick, &o->labels);
	}
	look->thread->tracked = true;
	o->key = PROFILE_THREAD_KEY + look->thread->tid;
	o->labels = PROFILE_LABELS_NONE;
	err = intern_thread_track(&s->intern, o->key, has_m);
	return err ? err : profile_string(s->profile, doing, strlen(doing), &o->state);
}

static struct error *capture_stack(struct sampler *s, const struct look *look, const struct m_look *m,
				   const struct g_look *g, profile_id *ret)
{
	const struct capture *c = look->capture;
	const struct unwind_memory mem = { .views = c->views, .n = c->n_views };
	enum unwind_end end = UNWIND_NOWHERE;
	struct unwind_start start;
	size_t n = 0;

	if (unwind_start_thread(s->reader.rt, &c->regs, m, g, &start))
		n = unwind(s->reader.rt, &start, &mem, s->frames, s->options.depth, &end);
	if (!n) {
		s->frames[0] = (struct pc_frame){ .kind = PC_NATIVE };
		n = 1;
	}
	count_stack(s, end);
	profile_health_add(s->profile, HEALTH_LOOK_STACKS, 1);
	profile_health_add(s->profile, HEALTH_LOOK_STACKS_COMPLETE, end == UNWIND_COMPLETE);
	return intern_stack(&s->intern, s->frames, n, end, ret);
}

/* One captured thread: a look at a goroutine, or at a thread that runs none. */
static struct error *see_thread(void *ctx, const struct look *look)
{
	struct sampler *s = ctx;
	const struct capture *c = look->capture;
	struct profile_observation o = { .weight = 1, .oncpu = look->oncpu };
	struct profile_ref ref;
	struct m_look m;
	struct g_look g;
	bool has_g, has_m = hold_read(&s->plan, c, look->thread, &m, &g, &has_g);
	struct g_slot *slot = has_g ? gs_slot(&s->gs, g.g) : NULL;
	struct error *err;

	o.t_before = c->t_arrived ? c->t_arrived : c->t_resumed;
	o.t_after = c->t_resumed;
	look->thread->captured_tick = s->tick;
	err = capture_stack(s, look, has_m ? &m : NULL, has_g ? &g : NULL, &o.stack);
	if (!err)
		err = describe(s, look, has_g ? &g : NULL, has_m, &o);
	if (!err)
		err = profile_observe(s->profile, &o, &ref);
	if (err)
		return err;
	if (slot && o.key == g.goid) {
		slot->captured = true;
		slot->captured_tick = s->tick;
	}
	return look->oncpu ? thread_add_look(look->thread, ref) : NULL;
}

/* Threads under keys of their own that were not seen this time: not on a CPU any more. */
static void end_thread_tracks(struct sampler *s)
{
	for (uint32_t i = 0; i < s->threads.n; i++) {
		struct thread *th = s->threads.v[i];

		if (!th->tracked || th->captured_tick == s->tick)
			continue;
		profile_gone(s->profile, PROFILE_THREAD_KEY + th->tid, s->t_tick);
		th->tracked = false;
	}
}

/* Goroutines that a captured thread has spoken for need no other reading in this tick. */
static void drop_captured_jobs(struct sampler *s)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < s->n_jobs; i++) {
		const struct g_slot *slot = &s->gs.slots[s->jobs[i].owner];

		if (slot->captured_tick != s->tick || !slot->captured)
			s->jobs[kept++] = s->jobs[i];
	}
	s->n_jobs = kept;
}

/* ---- the tick ---- */

static struct error *do_tick(struct sampler *s, bool late)
{
	struct error *err;

	err = profile_tick(s->profile, s->t_tick);
	if (err)
		return err;
	s->looks->begin(s->looks, s->tick, late);
	timely_leave();
	s->n_jobs = 0;
	s->alive = 0;
	err = gs_update(&s->gs, &s->reader);
	if (!err)
		err = gs_read_all(&s->gs, &s->reader, see_header, s);
	profile_health_add(s->profile, HEALTH_G_READ, s->gs.n);
	if (!err)
		err = s->looks->collect(s->looks, reader_now(&s->reader) + COLLECT_NS, see_thread, s);
	if (err)
		return err;
	end_thread_tracks(s);
	drop_captured_jobs(s);
	err = stack_reader_run(s->stacks, &s->reader, s->jobs, s->n_jobs, see_labels, see_stack, s);
	if (!err)
		err = threads_update(&s->threads, &s->reader, s->tracer);
	if (!err)
		threads_settle(&s->threads, &s->reader, s->profile, false);
	return err;
}

/* The next slot's tick, at a random place within it. Slots that are over are dropped and counted. */
static void plan_tick(struct sampler *s)
{
	uint64_t now = reader_now(&s->reader), current = (now - s->start) / s->period;
	uint64_t dropped = current > s->slot + 1 ? current - s->slot - 1 : 0;

	s->slot += 1 + dropped;
	s->deadline = s->start + s->slot * s->period + next_random(s) % s->period;
	profile_health_add(s->profile, HEALTH_TICKS_DUE, 1 + dropped);
	profile_health_add(s->profile, HEALTH_TICKS_LATE, dropped);
}

/* False: a signal came first; the deadline stays for the next call. */
static bool sleep_to_tick(struct sampler *s)
{
	const struct clock *clock = s->reader.clock;

	if (!s->deadline)
		plan_tick(s);
	timely_enter();
	while (reader_now(&s->reader) < s->deadline) {
		if (!clock->sleep_until(clock, s->deadline)) {
			timely_leave();
			return false;
		}
	}
	return true;
}

/* What an error of a tick means: an ended or changed target is no error, a failed tick is counted. */
static struct error *tick_result(struct sampler *s, struct error *err, enum sampler_event *ret)
{
	static const enum sampler_event events[] = {
		[TARGET_ALIVE] = SAMPLER_TICKED, [TARGET_EXECED] = SAMPLER_EXECED, [TARGET_ENDED] = SAMPLER_ENDED,
	};

	*ret = events[target_life(s->reader.target)];
	if (err == &err_gone && *ret == SAMPLER_TICKED)
		*ret = SAMPLER_ENDED;
	if (err && *ret == SAMPLER_TICKED && error_is_fatal(err))
		return err;
	profile_health_add(s->profile, HEALTH_TICKS_DONE, !err);
	error_free(err);
	return NULL;
}

struct error *sampler_tick(struct sampler *s, enum sampler_event *ret)
{
	struct error *err = NULL;
	bool late;

	*ret = SAMPLER_TICKED;
	if (!sleep_to_tick(s))
		return NULL;
	s->t_tick = reader_now(&s->reader);
	late = s->t_tick - s->deadline > LATE_NS;
	s->deadline = 0;
	s->tick++;
	if (target_life(s->reader.target) == TARGET_ALIVE)
		err = do_tick(s, late);
	timely_leave();
	return tick_result(s, err, ret);
}

struct error *sampler_settle(struct sampler *s)
{
	uint64_t median, p99, cpu = own_cpu();

	threads_settle(&s->threads, &s->reader, s->profile, true);
	look_ptrace_held(s->looks, &median, &p99);
	profile_health_set(s->profile, HEALTH_HELD_MEDIAN, median);
	profile_health_set(s->profile, HEALTH_HELD_P99, p99);
	profile_health_add(s->profile, HEALTH_OWN_CPU, cpu - s->own_cpu);
	s->own_cpu = cpu;
	return NULL;
}
