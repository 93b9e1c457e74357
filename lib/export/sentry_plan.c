/*
 * sentry_plan.c: how much of a window is told. The service takes 50 MiB; what would be longer is made
 * shorter in steps, each of which takes away what matters least of what is left, and the first step that
 * fits is taken. Sizes are counted, not guessed, and nothing depends on chance: equal windows give equal
 * plans.
 *
 * Every step keeps the time of each stack: of a thread exactly, of a group as an average. What runs on a
 * CPU keeps a sample at each tick until everything else has been taken.
 */
#include <stdlib.h>

#include "export/export_impl.h"

#define SECONDS(n) ((n) * (uint64_t)NSEC_PER_SEC)

static const struct sentry_level levels[] = {
	/* last ticks, mixed, tick step, mixed on the CPU too, groups */
	{ true,  0,           1, false, SENTRY_GROUP_NONE },
	{ false, 0,           1, false, SENTRY_GROUP_NONE },
	{ false, 0,           1, false, SENTRY_GROUP_SAME },
	{ false, SECONDS(1),  1, false, SENTRY_GROUP_SAME },
	{ false, SECONDS(5),  1, false, SENTRY_GROUP_SAME },
	{ false, SECONDS(30), 1, false, SENTRY_GROUP_SAME },
	{ false, SECONDS(30), 1, false, SENTRY_GROUP_PARKED },
	{ false, SECONDS(30), 2, false, SENTRY_GROUP_PARKED },
	{ false, SECONDS(30), 4, false, SENTRY_GROUP_PARKED },
	{ false, SECONDS(30), 16, false, SENTRY_GROUP_PARKED },
	{ false, SECONDS(1),  16, true, SENTRY_GROUP_PARKED },
	{ false, SECONDS(30), 16, true, SENTRY_GROUP_PARKED },
	{ false, SECONDS(30), 16, true, SENTRY_GROUP_ALL },
};

enum {
	LEVELS = sizeof(levels) / sizeof(levels[0]),
	FIRST_GROUPS = 2,	/* the first level that groups */
	THREAD_LEAST = 150,	/* bytes of a thread: two samples and its name */
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

/* One try at the present step. The threads are chosen anew only if it changes which they are. */
static struct error *lay_out(struct sentry_plan *plan, bool choose)
{
	struct sentry_stream s;
	struct error *err = NULL;

	if (choose) {
		sentry_threads_deinit(&plan->threads);
		err = sentry_threads_choose(&plan->view, &plan->o, &plan->threads);
	}
	if (!err)
		err = sentry_samples_count(&plan->view, &plan->threads, &plan->stacks, &plan->samples);
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
	if (level->all_mixed)
		return true;
	return s->oncpu_starts + (level->tick_step == 1 ? s->oncpu_ticks : 0) <= room;
}

static void set_step(struct sentry_plan *plan, uint32_t step)
{
	plan->step = step;
	plan->level = levels[step];
	if (plan->level.grouping < plan->least)
		plan->level.grouping = plan->least;
}

/* The next thing that is taken away. */
static struct error *take_away(struct sentry_plan *plan, uint64_t room)
{
	uint32_t step = plan->step, told = plan->threads.told;

	if (step < LEVELS - 1) {
		do
			step++;
		while (!can_fit(&levels[step], &plan->samples, room));
		set_step(plan, step);
		return NULL;
	}
	if (told < 2)
		return error_new(ERROR_UNSUPPORTED, "one goroutine alone is too big for the service");
	plan->o.max_threads = told / 2;
	/* Stacks of those that are gone would stay. */
	sentry_stacks_deinit(&plan->stacks);
	sentry_stacks_init(&plan->stacks, plan->view.w->profile);
	return NULL;
}

/*
 * Whoever asks for threads that are shared wants few: parked goroutines that need more of them than may be
 * are grouped, and not left out.
 */
static bool group_more(struct sentry_plan *plan)
{
	if (plan->o.threads == EXPORT_BY_GOROUTINE || !plan->threads.left_out ||
	    plan->level.grouping >= SENTRY_GROUP_PARKED)
		return false;
	plan->least = plan->level.grouping + 1;
	set_step(plan, plan->step);
	return true;
}

/* With so many goroutines that their names alone are too long, nothing is tried without groups. */
static uint32_t first_step(const struct sentry_plan *plan, uint64_t room)
{
	uint64_t threads = plan->view.w->n_tracks;

	if (plan->o.max_threads && plan->o.max_threads < threads && plan->o.threads == EXPORT_BY_GOROUTINE)
		threads = plan->o.max_threads;
	return plan->view.mode == PROFILE_WALL && threads * THREAD_LEAST > room ? FIRST_GROUPS : 0;
}

static struct error *make(struct sentry_plan *plan, uint64_t room)
{
	bool choose = true;
	struct error *err;

	set_step(plan, first_step(plan, room));
	for (;;) {
		enum sentry_grouping grouping = plan->level.grouping;
		uint32_t most = plan->o.max_threads;

		err = lay_out(plan, choose);
		if (err)
			return err;
		if (!group_more(plan)) {
			if (plan->body <= room)
				break;
			err = take_away(plan, room);
		}
		if (err)
			return err;
		choose = plan->level.grouping != grouping || plan->o.max_threads != most;
	}
	plan->thinned = plan->step || plan->threads.grouped;
	return sentry_samples_of(&plan->view, &plan->threads, &plan->stacks, &plan->samples);
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
		.w = w, .mode = o->mode, .level = &plan->level,
		.limit = w->start.mono + (length < window_most ? length : window_most),
	};
	buf_init(&plan->head);
	sentry_stacks_init(&plan->stacks, w->profile);
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
	sentry_stacks_deinit(&plan->stacks);
	sentry_samples_deinit(&plan->samples);
	buf_deinit(&plan->head);
	free(plan);
}
