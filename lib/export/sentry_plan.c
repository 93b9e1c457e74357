/*
 * sentry_plan.c: how much of a window is told. The service takes 50 MiB; what would be longer is made
 * shorter in steps, each of which takes away what matters least of what is left, and the first step that
 * fits is taken. The first few cost next to nothing that anybody looks at: they are taken above 10 MB already,
 * which is as much as a browser likes to show, and if they are not enough for that, it stays larger. Sizes are
 * counted, not guessed, and nothing depends on chance: equal windows give equal plans.
 *
 * Every step keeps the time of each stack: of a thread exactly, of a group as an average. What runs on a
 * CPU keeps a sample at each tick until everything else has been taken.
 */
#include <stdlib.h>
#include <string.h>

#include "export/export_impl.h"

#define SECONDS(n) ((n) * (uint64_t)NSEC_PER_SEC)
#define MSECS(n) ((n) * (uint64_t)NSEC_PER_MSEC)

static const struct sentry_level levels[] = {
	/* last ticks, mixed, pushed, tick step, summed, groups */
	{ true,  0,           0,           1,  0,           SENTRY_GROUP_NONE },
	{ false, 0,           0,           1,  0,           SENTRY_GROUP_NONE },
	{ false, 0,           0,           1,  0,           SENTRY_GROUP_SAME },
	{ false, SECONDS(1),  0,           1,  0,           SENTRY_GROUP_SAME },
	{ false, SECONDS(5),  0,           1,  0,           SENTRY_GROUP_SAME },
	/* Until here it is harmless. */
	{ false, SECONDS(5),  MSECS(50),   1,  0,           SENTRY_GROUP_SAME },
	{ false, SECONDS(30), MSECS(200),  1,  0,           SENTRY_GROUP_SAME },
	{ false, SECONDS(30), MSECS(200),  1,  0,           SENTRY_GROUP_PARKED },
	{ false, SECONDS(30), SECONDS(1),  1,  0,           SENTRY_GROUP_PARKED },
	{ false, SECONDS(30), SECONDS(5),  1,  0,           SENTRY_GROUP_PARKED },
	{ false, SECONDS(30), SECONDS(30), 1,  0,           SENTRY_GROUP_PARKED },
	/* Nothing but time on CPUs is left. */
	{ false, SECONDS(30), SECONDS(30), 2,  0,           SENTRY_GROUP_PARKED },
	{ false, SECONDS(30), SECONDS(30), 4,  0,           SENTRY_GROUP_PARKED },
	{ false, SECONDS(30), SECONDS(30), 16, 0,           SENTRY_GROUP_PARKED },
	{ false, SECONDS(30), SECONDS(30), 16, MSECS(50),   SENTRY_GROUP_PARKED },
	{ false, SECONDS(30), SECONDS(30), 16, MSECS(200),  SENTRY_GROUP_PARKED },
	{ false, SECONDS(30), SECONDS(30), 16, SECONDS(1),  SENTRY_GROUP_PARKED },
	{ false, SECONDS(30), SECONDS(30), 16, SECONDS(5),  SENTRY_GROUP_PARKED },
	{ false, SECONDS(30), SECONDS(30), 16, SECONDS(30), SENTRY_GROUP_PARKED },
	{ false, SECONDS(30), SECONDS(30), 16, SECONDS(30), SENTRY_GROUP_ALL },
};

enum {
	LEVELS = sizeof(levels) / sizeof(levels[0]),
	FIRST_GROUPS = 2,	/* the first level that groups */
	HARMLESS = 4,		/* the last level that is taken above WISHED_BYTES already */
	THREAD_LEAST = 150,	/* bytes of a thread: two samples and its name */
	WISHED_BYTES = 10 * 1000 * 1000 - 256 * 1024,	/* with the rest of the envelope 10 MB at most */
};

static const uint64_t window_most = 29 * (uint64_t)NSEC_PER_SEC + 500 * NSEC_PER_MSEC;

/* All but the samples, which can be counted for less than they cost to write. */
static void write_tables(const struct sentry_plan *plan, struct sentry_stream *s)
{
	buf_adds(&s->b, "\"profile\":{");
	sentry_stacks_json(&plan->stacks, s);
	buf_adds(&s->b, ",\"thread_metadata\":");
	sentry_threads_json(&plan->threads, &plan->view, &plan->o, s);
	buf_adds(&s->b, ",\"samples\":");
}

static void write_end(struct sentry_stream *s)
{
	buf_adds(&s->b, "}}");
}

struct error *sentry_plan_write(const struct sentry_plan *plan, struct sink *out)
{
	struct sentry_stream s;
	struct error *err;
	uint64_t bytes;

	sentry_stream_init(&s, out);
	buf_add(&s.b, plan->head.data, plan->head.len);
	write_tables(plan, &s);
	sentry_samples_json(&plan->samples, &plan->threads, &s);
	write_end(&s);
	err = sentry_stream_end(&s, &bytes);
	/* Its length has been told already. */
	if (!err && bytes != plan->head.len + plan->body)
		err = error_new(ERROR_INTERNAL, "a profile of %llu bytes instead of %llu",
				(unsigned long long)bytes,
				(unsigned long long)(plan->head.len + plan->body));
	return err;
}

static struct error *choose(struct sentry_plan *plan)
{
	sentry_threads_deinit(&plan->threads);
	return sentry_threads_choose(&plan->view, &plan->o, &plan->threads);
}

/* How long is it with these threads at the present step? */
static struct error *measure(struct sentry_plan *plan)
{
	struct sentry_stream s;
	struct error *err = sentry_samples_count(&plan->view, &plan->threads, &plan->stacks, &plan->samples);

	if (err)
		return err;
	sentry_stream_init(&s, NULL);
	write_tables(plan, &s);
	write_end(&s);
	err = sentry_stream_end(&s, &plan->body);
	plan->body += plan->samples.bytes;
	return err;
}

/* Can it fit at this level, whatever else is taken away? Not if what stays of on-CPU time is too much. */
static bool can_fit(const struct sentry_level *level, const struct sentry_samples *s, uint64_t room)
{
	if (level->summed_ns)
		return true;
	return s->oncpu_starts + (level->tick_step == 1 ? s->oncpu_ticks : 0) <= room;
}

static void set_step(struct sentry_plan *plan, uint32_t step)
{
	plan->step = step;
	plan->level = levels[step];
}

/* In cpu mode what is harmless takes nothing away. */
static uint64_t wished(const struct sentry_plan *plan, uint64_t room)
{
	return room > WISHED_BYTES && plan->view.mode == PROFILE_WALL ? WISHED_BYTES : room;
}

static bool fits(const struct sentry_plan *plan, uint64_t room)
{
	return plan->body <= (plan->step < HARMLESS ? wished(plan, room) : room);
}

/* Takes the next thing away. There is one. */
static struct error *take_away(struct sentry_plan *plan, uint64_t room)
{
	enum sentry_grouping grouping = plan->level.grouping;
	uint32_t step = plan->step;
	struct error *err = NULL;

	do
		step++;
	while (step > HARMLESS && !can_fit(&levels[step], &plan->samples, room));
	set_step(plan, step);
	if (plan->level.grouping != grouping)
		err = choose(plan);
	return err ? err : measure(plan);
}

static struct error *with_threads(struct sentry_plan *plan, uint32_t most)
{
	struct error *err;

	plan->o.max_threads = most;
	/* Stacks of those that are gone would stay. */
	sentry_stacks_deinit(&plan->stacks);
	sentry_stacks_init(&plan->stacks, plan->view.w->profile);
	err = choose(plan);
	return err ? err : measure(plan);
}

/* When nothing else can be taken: as many threads as fit, or nearly. */
static struct error *leave_out(struct sentry_plan *plan, uint64_t room)
{
	uint32_t low = 0, high = plan->threads.told;	/* so many fit, so many do not */
	struct error *err = NULL;

	while (high - low > 1 + low / 16 && !err) {
		uint32_t most = low + (high - low) / 2;

		err = with_threads(plan, most);
		if (plan->body <= room)
			low = most;
		else
			high = most;
	}
	if (!err && !low)
		return error_new(ERROR_UNSUPPORTED, "one goroutine alone is too big for the service");
	if (!err && plan->o.max_threads != low)
		err = with_threads(plan, low);
	plan->cut = true;
	return err;
}

/* With so many goroutines that their names alone are too long, nothing is tried without groups. */
static uint32_t first_step(const struct sentry_plan *plan, uint64_t room)
{
	uint64_t threads = plan->view.w->n_tracks;

	if (plan->o.max_threads && plan->o.max_threads < threads)
		threads = plan->o.max_threads;
	return plan->view.mode == PROFILE_WALL && plan->o.threads == EXPORT_BY_GOROUTINE &&
	       threads * THREAD_LEAST > wished(plan, room) ? FIRST_GROUPS : 0;
}

static struct error *make(struct sentry_plan *plan, uint64_t room)
{
	struct error *err;

	set_step(plan, first_step(plan, room));
	err = choose(plan);
	if (!err)
		err = sentry_crowd_settle(&plan->crowd, &plan->view, &plan->o, &plan->threads);
	if (!err)
		err = measure(plan);
	while (!err && !fits(plan, room) && plan->step < LEVELS - 1)
		err = take_away(plan, room);
	if (!err && plan->body > room)
		err = leave_out(plan, room);
	if (err)
		return err;
	plan->thinned = plan->step || plan->threads.n_groups;
	plan->too_big = plan->step > HARMLESS || plan->cut;
	return sentry_samples_of(&plan->view, &plan->threads, &plan->stacks, &plan->samples);
}

/* The stack with which the time is told until somebody looks. */
static profile_id unread_stack(const struct profile *p)
{
	for (profile_id i = 1; i < profile_stack_count(p); i++) {
		struct profile_stack s = profile_stack_get(p, i);
		const struct profile_frame *f = s.n == 1 ? profile_frame_get(p, s.frames[0]) : NULL;

		if (f && f->flags & PROFILE_FRAME_PSEUDO &&
		    strcmp(profile_string_get(p, f->function), "[not looked at yet]") == 0)
			return i;
	}
	return PROFILE_STACK_EMPTY;
}

struct error *sentry_plan_create(const struct window *w, const struct export_options *o, uint64_t room,
				 struct sentry_plan **ret)
{
	uint64_t length = w->end.mono - w->start.mono;
	struct sentry_plan *plan = calloc(1, sizeof(*plan));
	struct error *err;

	if (!plan)
		return &err_nomem;
	plan->o = *o;
	plan->view = (struct sentry_view){
		.w = w, .mode = o->mode, .level = &plan->level, .crowd = &plan->crowd,
		.unread = unread_stack(w->profile),
		.limit = w->start.mono + (length < window_most ? length : window_most),
	};
	buf_init(&plan->head);
	sentry_stacks_init(&plan->stacks, w->profile);
	sentry_crowd_init(&plan->crowd);
	err = make(plan, room);
	if (err)
		sentry_plan_destroy(plan);
	else
		*ret = plan;
	return err;
}

void sentry_plan_destroy(struct sentry_plan *plan)
{
	if (!plan)
		return;
	sentry_threads_deinit(&plan->threads);
	sentry_crowd_deinit(&plan->crowd);
	sentry_stacks_deinit(&plan->stacks);
	sentry_samples_deinit(&plan->samples);
	buf_deinit(&plan->head);
	free(plan);
}
