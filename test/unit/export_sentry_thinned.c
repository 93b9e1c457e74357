/*
 * export_sentry_thinned.c: what is told where all would be too much. The time of each stack is kept whatever
 * is taken away, every tick on a CPU is there as long as anything else can be taken, nobody is lost from
 * groups, and what was taken away is said.
 */
#include "sentry_scale.h"

static const struct export_options all = { .max_threads = 0 };

/*
 * Smaller and smaller limits: each is kept, the time of each stack is, and each tick on a CPU as long as
 * there is anything else.
 */
static void less_and_less(struct scale *s, const struct export_options *o)
{
	uint32_t steps[2] = { 0 }, told = UINT32_MAX, before = UINT32_MAX;
	bool all_else;

	for (uint64_t room = 4 * MB; room > 12000; room = room * 4 / 5) {
		struct sentry_v1 v;

		must(sentry_v1_build_limited(s->window, o, room, &v));
		assert_true(v.profile_len - v.plan->head.len <= room);
		/* Never more of what was too much. */
		assert_true(before == UINT32_MAX || v.plan->step >= before);
		if (counts_sum(&v.left_out)) {
			sentry_v1_deinit(&v);
			break;
		}
		all_else = v.plan->view.level->summed_ns ||
			   (v.plan->view.level->grouping >= SENTRY_GROUP_PARKED &&
			    v.plan->view.level->pushed_ns > s->window->end.mono - s->window->start.mono);
		compare(s, &v, !v.plan->view.level->summed_ns && v.plan->view.level->tick_step == 1);
		assert_true(all_else || v.plan->view.level->tick_step == 1);
		steps[all_else] += v.plan->step != before;
		before = v.plan->step;
		told = v.threads;
		sentry_v1_deinit(&v);
	}
	/* In cpu mode there are no parked ones. */
	assert_true(steps[false] >= (o->mode == PROFILE_CPU ? 1 : 3) && steps[true] >= 3);
	assert_in_range(told, 2, 6);	/* at last main and the three others as groups */
}

static void less_and_less_room(void **state)
{
	static const struct export_options cpu = { .mode = PROFILE_CPU };
	struct scale s;

	(void)state;
	make_storm(&s, 200, 150, 12);
	less_and_less(&s, &all);
	less_and_less(&s, &cpu);
	scale_deinit(&s);
}

static void the_active_one_is_never_grouped(void **state)
{
	static const struct export_options o = { .active_goid = 5 };
	struct scale s;
	struct sentry_v1 v;
	struct server server;
	uint32_t samples = 0;

	(void)state;
	make_storm(&s, 200, 150, 12);
	for (uint64_t room = 200000; ; room -= 2000) {
		assert_true(room > 2000);
		must(sentry_v1_build_limited(s.window, &o, room, &v));
		if (v.plan->view.level->grouping == SENTRY_GROUP_ALL)
			break;
		sentry_v1_deinit(&v);
	}
	server_read(&v, &server);
	assert_int_equal(server.active, 5);
	for (size_t i = 0; i < server.n; i++)
		samples += server.v[i].thread == 5;
	assert_true(samples >= 150);
	server_free(&server);
	sentry_v1_deinit(&v);
	scale_deinit(&s);
}

/* ---- what goes first ---- */

/* Samples of one payload by what they are. */
struct kinds {
	uint64_t stacks, marks, empty;
};

static void kinds_of(const struct sentry_v1 *v, struct kinds *k)
{
	struct server s;

	server_read(v, &s);
	*k = (struct kinds){ s.n - s.marks - s.empty, s.marks, s.empty };
	server_free(&s);
}

/* 300 goroutines that are on a CPU for one to three ticks, with another stack each time, and then are not. */
static uint64_t make_bursts(struct scale *s)
{
	uint32_t until[301] = { 0 };
	uint64_t ticks = 0;

	scale_init(s);
	make_goroutines(s, 300);
	for (uint32_t t = 0; t < 600; t++) {
		uint64_t start = s->w.mono;

		tick(&s->w);
		for (uint32_t k = 1; k <= 300; k++) {
			if (!draw(&s->seed, 10))
				until[k] = t + 1 + draw(&s->seed, 3);
			see(s, k, (k * 7 + (t < until[k] ? until[k] : 0)) % 30, t < until[k]);
			ticks += t < until[k];
		}
		world_pass(&s->w, start + TICK - s->w.mono);
	}
	s->window = close_now(&s->w);
	return ticks;
}

/*
 * First gaps are joined, and every tick on a CPU stays; only when there are next to none left are there fewer
 * ticks; and never much less is told than would fit.
 */
static void gaps_go_before_ticks(void **state)
{
	static const struct export_options cpu = { .mode = PROFILE_CPU, .active_goid = 1 };
	struct kinds whole, k, before;
	struct scale s;
	struct sentry_v1 v;
	uint64_t ticks = make_bursts(&s), dense = 0, steps = 0;

	(void)state;
	must(sentry_v1_build(s.window, &cpu, &v));
	assert_false(v.thinned);
	kinds_of(&v, &whole);
	assert_true(whole.stacks >= ticks && whole.marks > ticks / 8 && whole.empty > ticks / 4);
	before = whole;
	for (uint64_t room = v.profile_len; room > 700000; room = room * 9 / 10) {
		sentry_v1_deinit(&v);
		must(sentry_v1_build_limited(s.window, &cpu, room, &v));
		kinds_of(&v, &k);
		assert_int_equal(counts_sum(&v.left_out), 0);
		compare(&s, &v, k.stacks >= ticks);
		/* Goroutine 1 is the active one and has all of its gaps. */
		assert_true(k.stacks >= ticks || k.marks < 100);
		assert_true(k.marks <= before.marks && k.stacks <= before.stacks);
		dense += k.stacks >= ticks && k.marks < before.marks;
		steps += k.stacks < before.stacks;
		/* A step takes at most half. */
		assert_true(k.stacks * 5 >= before.stacks * 2);
		before = k;
	}
	assert_true(dense >= 3 && steps >= 3);
	sentry_v1_deinit(&v);
	scale_deinit(&s);
}

/* Where names alone are too long: nearly as many threads as fit. */
static void as_many_threads_as_fit(void **state)
{
	struct export_options o = { 0 };
	struct scale s;
	struct sentry_v1 v, more;

	(void)state;
	scale_init(&s);
	for (uint64_t k = 1; k <= 500; k++) {
		char name[64];

		snprintf(name, sizeof(name), "example.org/app.(*worker%u).run", (unsigned int)k);
		track(&s.w, k, name);
	}
	for (uint32_t t = 0; t < 4; t++) {
		tick(&s.w);
		for (uint32_t k = 1; k <= 500; k++)
			see(&s, k, k % 3, true);
		world_pass(&s.w, TICK);
	}
	s.window = close_now(&s.w);
	must(sentry_v1_build_limited(s.window, &o, 60000, &v));
	assert_true(v.cut && v.too_big && v.left_out.goroutines == 500 - v.threads);
	assert_true(v.profile_len - v.plan->head.len <= 60000);
	o.max_threads = v.threads + v.threads / 16 + 2;
	must(sentry_v1_build(s.window, &o, &more));
	sentry_v1_deinit(&more);
	must(sentry_v1_build_limited(s.window, &o, 60000, &more));
	assert_true(more.cut);		/* so many do not fit */
	assert_true(more.threads <= v.threads + v.threads / 16 + 1);
	sentry_v1_deinit(&more);
	sentry_v1_deinit(&v);
	scale_deinit(&s);
}

static const cJSON *thinned_of(cJSON *transaction)
{
	const cJSON *o = cJSON_GetObjectItem(transaction, "contexts");

	return cJSON_GetObjectItem(cJSON_GetObjectItem(o, "goprof"), "thinned");
}

static void what_was_taken_away_is_said(void **state)
{
	struct scale s;
	struct sentry_v1 v;
	cJSON *doc;
	const cJSON *o;

	(void)state;
	make_storm(&s, 200, 150, 12);
	must(sentry_v1_build(s.window, &all, &v));
	doc = cJSON_ParseWithLength(v.transaction.data, v.transaction.len);
	assert_null(thinned_of(doc));
	assert_null(cJSON_GetObjectItem(cJSON_GetObjectItem(doc, "tags"), "goprof.thinned"));
	cJSON_Delete(doc);
	sentry_v1_deinit(&v);
	must(sentry_v1_build_limited(s.window, &all, 100000, &v));
	doc = cJSON_ParseWithLength(v.transaction.data, v.transaction.len);
	o = thinned_of(doc);
	assert_non_null(o);
	assert_string_equal(cJSON_GetObjectItem(cJSON_GetObjectItem(doc, "tags"), "goprof.thinned")->valuestring,
			    "yes");
	assert_int_equal(cJSON_GetObjectItem(o, "goroutines_grouped")->valueint, v.grouped.goroutines);
	assert_true(v.grouped.goroutines > 100);
	assert_true(v.plan->view.level->summed_ns);
	assert_true(cJSON_GetObjectItem(o, "order_of_stacks_on_cpu_lost_within_ns")->valuedouble ==
		    (double)v.plan->view.level->summed_ns);
	assert_int_equal(cJSON_GetObjectItem(o, "groups")->valueint, v.threads - 51);	/* 1, and those that ran */
	cJSON_Delete(doc);
	sentry_v1_deinit(&v);
	scale_deinit(&s);
}

/* More goroutines than names fit: those that are parked with one stack are one thread. */
static void parked_ones_are_grouped(void **state)
{
	struct scale s;
	struct sentry_v1 v;
	struct server server;
	uint64_t members = 0, groups = 0;

	(void)state;
	scale_init(&s);
	make_parked(&s);
	must(sentry_v1_build_limited(s.window, &all, 200000, &v));
	server_read(&v, &server);
	for (size_t i = 0; i < server.n_threads; i++) {
		const struct server_thread *t = &server.threads[i];

		members += t->members;
		if (t->members < 2)
			continue;
		groups++;
		assert_non_null(strstr(t->name, " [chan receive]"));
		assert_true(t->id >= (uint64_t)1 << 41);
	}
	assert_int_equal(members, 3000);	/* everybody is told, once */
	assert_int_equal(groups, 30);		/* three entry functions, ten stacks */
	assert_int_equal(v.threads, 30 + 6);	/* main and those that ran */
	assert_int_equal(v.grouped.goroutines, 3000 - 6);
	server_free(&server);
	compare(&s, &v, true);
	sentry_v1_deinit(&v);
	scale_deinit(&s);
}

/* Where threads are shared, parked goroutines that need too many of them are grouped, and not left out. */
static void parked_ones_share_few_threads(void **state)
{
	static const struct export_options few = { .threads = EXPORT_BY_ENTRY, .max_threads = 100 };
	static const struct export_options fewer = { .threads = EXPORT_BY_ENTRY, .max_threads = 9 };
	static const struct export_options too_few = { .threads = EXPORT_BY_ENTRY, .max_threads = 8 };
	struct scale s;
	struct sentry_v1 v;

	(void)state;
	scale_init(&s);
	make_parked(&s);
	must(sentry_v1_build(s.window, &few, &v));
	assert_int_equal(v.threads, 36);	/* as above: by entry function and stack */
	assert_int_equal(counts_sum(&v.left_out), 0);
	assert_int_equal(v.grouped.goroutines, 3000 - 6);
	assert_false(v.thinned);		/* nothing else was taken away */
	assert_true(v.plan->thinned);		/* and it is said */
	compare(&s, &v, true);
	sentry_v1_deinit(&v);
	must(sentry_v1_build(s.window, &fewer, &v));
	assert_int_equal(v.threads, 9);		/* by entry function */
	assert_int_equal(counts_sum(&v.left_out), 0);
	compare(&s, &v, true);
	sentry_v1_deinit(&v);
	must(sentry_v1_build(s.window, &too_few, &v));
	assert_int_equal(v.threads, 8);
	assert_true(counts_sum(&v.left_out) > 0);
	sentry_v1_deinit(&v);
	scale_deinit(&s);
}

/* Groups have the ids that they had, whatever numbers strings and stacks have. */
static void groups_keep_their_ids(void **state)
{
	struct scale s[2];
	struct sentry_v1 v[2];
	struct server server[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		scale_init(&s[i]);
		if (i) {
			text(&s[i].w, "something before");
			for (int k = 0; k < 5; k++) {
				profile_id stack = s[i].stacks[k];

				s[i].stacks[k] = s[i].stacks[9 - k];
				s[i].stacks[9 - k] = stack;
			}
		}
		make_parked(&s[i]);
		must(sentry_v1_build_limited(s[i].window, &all, 200000, &v[i]));
		server_read(&v[i], &server[i]);
	}
	assert_int_equal(server[0].n_threads, server[1].n_threads);
	for (size_t i = 0; i < server[0].n_threads; i++)
		assert_true(server[0].threads[i].id == server[1].threads[i].id);
	for (int i = 0; i < 2; i++) {
		server_free(&server[i]);
		sentry_v1_deinit(&v[i]);
		scale_deinit(&s[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(less_and_less_room),
		cmocka_unit_test(the_active_one_is_never_grouped),
		cmocka_unit_test(gaps_go_before_ticks),
		cmocka_unit_test(as_many_threads_as_fit),
		cmocka_unit_test(what_was_taken_away_is_said),
		cmocka_unit_test(parked_ones_are_grouped),
		cmocka_unit_test(parked_ones_share_few_threads),
		cmocka_unit_test(groups_keep_their_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
