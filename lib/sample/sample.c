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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "sample/sampler_impl.h"
#include "target/cgroup.h"

enum {
	LATE_NS = 200 * NSEC_PER_USEC,	/* a tick later than this gives no valid looks by itself */
	COLLECT_NS = 1 * NSEC_PER_MSEC,	/* how long a tick waits for its threads once all else is read */
};

/* ---- life ---- */

/* Without the list of images there are no C frames; that is no reason to see nothing at all. */
static struct error *init_native(struct sampler *s)
{
	struct error *err = images_create(s->reader.target, &s->images);

	if (!err)
		err = native_create(s->images, &s->native);
	if (!err || error_is_fatal(err))
		return err;
	log_info("native", "no C frames: %s", err->what);
	error_free(err);
	return NULL;
}

/* Perf events if they may and can be had; else what works everywhere, and why. */
static struct error *init_looks(struct sampler *s)
{
	const struct look_source_parts parts = {
		.reader = &s->reader, .threads = &s->threads, .tracer = s->tracer,
		.profile = s->profile, .plan = &s->plan,
	};
	bool must = s->options.looks == SAMPLER_LOOKS_PERF;
	struct error *err;

	if (s->options.looks == SAMPLER_LOOKS_PTRACE)
		return look_ptrace_create(&parts, &s->looks);
	err = look_perf_create(&parts, s->period, must, &s->looks);
	if (!err || must || (err->kind != ERROR_DENIED && err->kind != ERROR_FACILITY))
		return err;
	if (asprintf(&s->looks_why, "%s%s%s", err->what, err->why ? ": " : "", err->why ? err->why : "") < 0)
		s->looks_why = NULL;
	log_info("looks", "by ptrace stops: %s", s->looks_why ? s->looks_why : err->what);
	error_free(err);
	return look_ptrace_create(&parts, &s->looks);
}

const char *sampler_looks(const struct sampler *s)
{
	return s->looks->name;
}

const char *sampler_looks_why(const struct sampler *s)
{
	return s->looks_why;
}

static struct error *init_parts(struct sampler *s)
{
	struct error *err;

	err = gs_init(&s->gs);
	if (!err && s->options.native)
		err = init_native(s);
	if (!err)
		err = threads_init(&s->threads, &s->reader);
	if (!err)
		err = threads_update(&s->threads, &s->reader, s->tracer);
	if (!err)
		err = intern_init(&s->intern, s->reader.target, s->reader.rt, s->images, s->profile);
	if (!err)
		err = stack_reader_create(s->options.depth, false, &s->stacks);
	if (!err)
		err = stand_in_create(&s->reader, &s->stand_in);
	if (!err)
		err = init_looks(s);
	if (!err)
		err = intern_pseudo(&s->intern, "[moved while it was read]", &s->moved);
	if (!err)
		err = intern_pseudo(&s->intern, "[running, not seen on a CPU]", &s->unseen_running);
	if (!err)
		err = intern_pseudo(&s->intern, "[not looked at yet]", &s->unread);
	return err;
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
	s->plan = hold_plan_make(&s->reader, o->native);
	s->plan.wandering = &s->threads.wandering;
	s->random = o->seed | 1;
	s->period = NSEC_PER_SEC / o->rate_hz;
	s->budget = budget_full();
	if (s->reader.goroutines)
		births_begin(s);
	gate_init(&s->gate, &s->reader, s->period);
	s->start = reader_now(&s->reader);
	s->slot = UINT64_MAX;	/* the first tick falls into slot 0 */
	s->own_cpu = cpu_of_process();
	s->own_since = s->start;
	s->timely = timely_given();
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
	timely_leave(&s->timely);
	tracer_drain(s->tracer, s->reader.target, NSEC_PER_SEC);
	if (s->looks)
		s->looks->destroy(s->looks);
	stack_reader_destroy(s->stacks);
	stand_in_destroy(s->stand_in);
	intern_deinit(&s->intern);
	native_destroy(s->native);
	images_destroy(s->images);
	threads_deinit(&s->threads);
	gs_deinit(&s->gs);
	free(s->jobs);
	free(s->unseen);
	free(s->orphans);
	free(s->ran.v);
	free(s->running.v);
	free(s->frames);
	free(s->looks_why);
	free(s);
}

uint32_t sampler_goroutines(const struct sampler *s)
{
	return s->alive;
}

/* ---- the tick ---- */

/* Headers of all goroutines; in restricted mode there are none. */
static struct error *read_goroutines(struct sampler *s)
{
	struct error *err;

	if (!s->reader.goroutines)
		return NULL;
	births_update(s);
	err = gs_update(&s->gs, &s->reader);
	if (!err)
		err = rotation_read(s);
	if (!err)
		end_orphans(s);
	/* After an exec these were another program's; stacks that fit to them would be, too. */
	if (!err && target_life(s->reader.target) != TARGET_ALIVE)
		err = &err_gone;
	return err;
}

/* What this tick's captures leave to be done, but for the stacks. */
static struct error *settle_goroutines(struct sampler *s)
{
	struct error *err;

	end_thread_tracks(s);
	drop_captured_jobs(s);
	err = rotation_resume(s);
	return err ? err : rotation_tell_unseen(s);
}

/* Stacks of those that are not on a CPU and have changed. */
static struct error *read_stacks(struct sampler *s)
{
	return stack_reader_run(s->stacks, &s->reader, s->jobs, s->n_jobs, see_labels, see_stack, s);
}

/* All that a tick looks at; threads have been asked for. */
static struct error *look_at_all(struct sampler *s)
{
	struct tick_cost cost = { 0 };
	uint64_t begin;
	struct error *err;

	s->n_jobs = s->n_wanted = s->n_unseen = s->n_read = 0;
	s->round_began = s->round_ended = s->put_off = s->places_stand = false;
	err = s->looks->collect_late(s->looks, see_thread, s);
	begin = cpu_of_thread();
	if (!err)
		err = read_goroutines(s);
	if (!err)
		err = s->looks->collect(s->looks, reader_now(&s->reader) + COLLECT_NS, see_thread, s);
	if (!err)
		err = settle_goroutines(s);
	if (err)
		return err;
	cost.headers = s->n_read;
	cost.headers_ns = cpu_of_thread() - begin;
	cost.stacks = s->n_jobs;
	begin = cpu_of_thread();
	err = read_stacks(s);
	cost.stacks_ns = cpu_of_thread() - begin;
	budget_adapt(&s->budget, &cost);
	if (!err)
		err = threads_update(&s->threads, &s->reader, s->tracer);
	return err || !s->looks->follow ? err : s->looks->follow(s->looks);
}

static struct error *do_tick(struct sampler *s, bool late, bool *gated)
{
	struct error *err = profile_tick(s->profile, s->t_tick);

	if (err)
		return err;
	s->looks->begin(s->looks, s->tick, late);
	/* A tick that is left out ends while it is urgent: two changes of class are an eighth of what it costs. */
	*gated = gate_is_shut(&s->gate, &s->reader, s->looks->ran(s->looks));
	if (*gated) {
		profile_health_add(s->profile, HEALTH_TICKS_GATED, 1);
	} else {
		timely_leave(&s->timely);
		err = look_at_all(s);
		native_settle(s);
		gate_note(&s->gate, &(struct gate_tick){ .ran = err || s->looks->ran(s->looks),
							 .round_began = s->round_began, .round_ended = s->round_ended,
							 .put_off = s->put_off });
	}
	if (!err && threads_due(&s->threads, reader_now(&s->reader))) {
		timely_leave(&s->timely);
		threads_settle(&s->threads, &s->reader, s->profile, false);
	}
	return err;
}

/* The next slot's tick, at a random place within it. Slots that are over are dropped and counted. */
static void plan_tick(struct sampler *s)
{
	uint64_t now = reader_now(&s->reader), current = (now - s->start) / s->period;
	uint64_t dropped = current > s->slot + 1 ? current - s->slot - 1 : 0;

	s->slot += 1 + dropped;
	s->deadline = s->start + s->slot * s->period + sampler_random(s) % s->period;
	profile_health_add(s->profile, HEALTH_TICKS_DUE, dropped);
	profile_health_add(s->profile, HEALTH_TICKS_LATE, dropped);
}

/* False: a signal came first; the deadline stays for the next call. */
static bool sleep_to_tick(struct sampler *s)
{
	const struct clock *clock = s->reader.clock;

	if (!s->deadline)
		plan_tick(s);
	timely_enter(&s->timely);
	while (reader_now(&s->reader) < s->deadline) {
		if (!clock->sleep_until(clock, s->deadline)) {
			timely_leave(&s->timely);
			return false;
		}
	}
	return true;
}

/* What an error of a tick means: an ended or changed target is no error, a failed tick is counted. */
static struct error *tick_result(struct sampler *s, struct error *err, enum target_life life, enum sampler_event *ret)
{
	static const enum sampler_event events[] = {
		[TARGET_ALIVE] = SAMPLER_TICKED, [TARGET_EXECED] = SAMPLER_EXECED, [TARGET_ENDED] = SAMPLER_ENDED,
	};

	*ret = events[life];
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
	enum target_life life;
	bool late, gated = false;
	uint64_t now;

	*ret = SAMPLER_TICKED;
	if (!sleep_to_tick(s))
		return NULL;
	now = reader_now(&s->reader);
	if (s->tick && s->options.was_stopped && s->options.was_stopped(s->options.ctx, s->deadline)) {
		timely_leave(&s->timely);
		*ret = SAMPLER_STALLED;
		return NULL;
	}
	profile_health_add(s->profile, HEALTH_TICKS_DUE, 1);
	s->t_tick = now;
	late = s->t_tick - s->deadline > LATE_NS;
	s->deadline = 0;
	s->tick++;
	life = gate_stood_still(&s->gate, &s->reader) ? TARGET_ALIVE : target_life(s->reader.target);
	if (life == TARGET_ALIVE) {
		err = do_tick(s, late, &gated);
		/* Nothing was read in a tick that was left out. */
		if (err || !gated)
			life = target_life(s->reader.target);
	}
	err = tick_result(s, err, life, ret);
	if (err || *ret != SAMPLER_TICKED)
		timely_leave(&s->timely);
	return err;
}

struct error *sampler_skip(struct sampler *s)
{
	uint64_t current = (reader_now(&s->reader) - s->start) / s->period;

	/* The slot that is running counts as over; a tick that was planned before is not due any more. */
	s->slot = current;
	s->deadline = 0;
	s->own_since = reader_now(&s->reader);	/* the time before it counts as used up */
	return threads_skip(&s->threads, &s->reader);
}

uint64_t sampler_last_tick(const struct sampler *s)
{
	return s->t_tick;
}

/* What goprof has used of the machine since the last time, and what it was allowed to use. */
static void settle_own(struct sampler *s)
{
	uint64_t cpu = cpu_of_process(), now = reader_now(&s->reader), quota = cgroup_own_cpu_quota();

	profile_health_add(s->profile, HEALTH_OWN_CPU, cpu - s->own_cpu);
	profile_health_add(s->profile, HEALTH_OWN_QUOTA, (uint64_t)((double)(now - s->own_since) / NSEC_PER_SEC *
								    (double)quota));
	s->own_cpu = cpu;
	s->own_since = now;
}

struct error *sampler_settle(struct sampler *s)
{
	struct look_figures looks;

	timely_leave(&s->timely);
	threads_settle(&s->threads, &s->reader, s->profile, true);
	s->looks->figures(s->looks, &looks);
	profile_health_set(s->profile, HEALTH_CLOCK_STEP, target_times_step(s->reader.target));
	profile_health_set(s->profile, HEALTH_HELD_MEDIAN, looks.held_median);
	profile_health_set(s->profile, HEALTH_HELD_P99, looks.held_p99);
	profile_health_set(s->profile, HEALTH_RANK, looks.rank);
	births_settle(s);
	settle_own(s);
	native_settle(s);
	return NULL;
}
