/*
 * export_sentry_groups.c: goroutines told as the average of a group. Whose group they are in is decided for
 * each time that they had another label, so that the time of each label is right; what nobody has looked
 * at yet says nothing about them; and of shared threads only those become groups that are too many.
 */
#include "sentry_server.h"

#include "export/export_impl.h"

enum { STACKS = 4, VALUES = 3, NONE = VALUES, UNKNOWN = VALUES + 1 };

static const char *const values[VALUES] = { "/order", "/search", "/cart" };

struct labelled {
	struct world w;
	uint64_t seed;
	profile_id stacks[STACKS], unread;
	profile_id labels[VALUES + 2];
	struct window *window;
};

static void labelled_init(struct labelled *l)
{
	profile_id f;

	*l = (struct labelled){ .seed = 7 };
	world_init(&l->w);
	for (uint32_t i = 0; i < STACKS; i++) {
		char name[8];

		snprintf(name, sizeof(name), "s%u", i);
		l->stacks[i] = stack1(&l->w, name);
	}
	f = frame(&l->w, "", "[not looked at yet]", 0, PROFILE_FRAME_PSEUDO);
	l->unread = stack_of(&l->w, &f, 1, 0);
	for (int i = 0; i < VALUES; i++) {
		struct profile_label v = { text(&l->w, "route"), text(&l->w, values[i]) };

		must(profile_labels(l->w.p, &v, 1, &l->labels[i]));
	}
	l->labels[NONE] = PROFILE_LABELS_NONE;
	l->labels[UNKNOWN] = PROFILE_LABELS_UNKNOWN;
}

static void labelled_deinit(struct labelled *l)
{
	window_free(l->window);
	world_deinit(&l->w);
}

/* Time by label and stack; [NONE]: without it. */
struct sums {
	uint64_t ns[VALUES + 1][STACKS];
	uint64_t rounding[VALUES + 1];
	uint32_t groups;
};

static int value_of(const char *name)
{
	const char *owner = strstr(name, "route=");

	for (int i = 0; owner && i < VALUES; i++)
		if (strncmp(owner + 6, values[i], strlen(values[i])) == 0)
			return i;
	assert_null(owner);
	return NONE;
}

static void judge(const struct sentry_v1 *v, struct sums *got)
{
	struct server s;

	memset(got, 0, sizeof(*got));
	server_read(v, &s);
	for (size_t i = 0; i < s.n_threads; i++) {
		got->rounding[value_of(s.threads[i].name)] += s.threads[i].members;
		got->groups += s.threads[i].members > 1;
	}
	for (size_t i = 0; i < s.n; i++) {
		const struct server_thread *t = server_thread(&s, s.v[i].thread);

		if (s.v[i].stack >= 0)
			got->ns[value_of(t->name)][s.v[i].stack] += s.v[i].ns * t->members;
	}
	server_free(&s);
}

static void compare(const struct sums *got, const struct sums *want)
{
	for (int i = 0; i <= VALUES; i++)
		for (int k = 0; k < STACKS; k++) {
			uint64_t a = got->ns[i][k], b = want->ns[i][k];

			/* Each stack of a group is cut to a nanosecond for each of its members. */
			assert_true((a > b ? a - b : b - a) <= got->rounding[i]);
		}
}

static struct export_options by_label(uint32_t most)
{
	return (struct export_options){ .threads = EXPORT_BY_LABEL, .label = "route", .max_threads = most };
}

/* So many with /order for 90 of 101 ticks, at last with something else. Their time is that of /order all the same. */
static void most_of_a_second(int at_last, struct sums *want)
{
	const struct export_options o = by_label(4);
	struct labelled l;
	struct sentry_v1 v;
	struct sums got;

	labelled_init(&l);
	track(&l.w, 1, "main.main");
	for (uint64_t k = 2; k <= 41; k++)
		track(&l.w, k, "net/http.(*conn).serve");
	for (int t = 0; t < 101; t++) {
		tick(&l.w);
		look(&l.w, 1, l.stacks[0], "running", 0, true);
		for (uint64_t k = 2; k <= 41; k++)
			look(&l.w, k, l.stacks[1], "IO wait", l.labels[t < 90 ? 0 : at_last], false);
		world_pass(&l.w, TICK);
	}
	l.window = close_now(&l.w);
	memset(want, 0, sizeof(*want));
	for (uint32_t i = 0; i < l.window->n_tracks; i++)
		for (uint32_t k = 0; k < l.window->tracks[i].n; k++) {
			const struct interval *iv = &l.window->tracks[i].v[k];
			int value = iv->labels == l.labels[0] ? 0 : NONE;

			if (iv->labels == PROFILE_LABELS_UNKNOWN)
				value = 0;
			want->ns[value][iv->stack == l.stacks[1]] += iv->t_end - iv->t_start;
		}
	must(sentry_v1_build(l.window, &o, &v));
	assert_true(v.threads <= 4);
	assert_int_equal(counts_sum(&v.left_out), 0);
	assert_true(v.labelled);
	/* Nobody is counted twice, in however many groups. */
	assert_int_equal(v.grouped.goroutines, 40);
	judge(&v, &got);
	assert_true(got.groups > 0);
	compare(&got, want);
	sentry_v1_deinit(&v);
	labelled_deinit(&l);
}

static void time_stays_with_its_label(void **state)
{
	struct sums want;

	(void)state;
	most_of_a_second(NONE, &want);
	assert_true(want.ns[0][1] > 40ull * 85 * TICK && want.ns[NONE][1] > 40ull * 9 * TICK);
	most_of_a_second(UNKNOWN, &want);
	assert_true(want.ns[0][1] > 40ull * 95 * TICK && !want.ns[NONE][1]);
}

/* Whose an interval is: labels that could not be read are those before, or else those behind. */
static int value_at(const struct labelled *l, const struct window_track *t, uint32_t i)
{
	uint32_t at = i;

	while (at > 0 && t->v[at].labels == PROFILE_LABELS_UNKNOWN)
		at--;
	while (at < t->n && t->v[at].labels == PROFILE_LABELS_UNKNOWN)
		at++;
	for (int k = 0; at < t->n && k < VALUES; k++)
		if (t->v[at].labels == l->labels[k])
			return k;
	return NONE;
}

/* Labels and stacks change at random, at every level of grouping: the sums of each label are its goroutines'. */
static void random_labels(void **state)
{
	static const uint32_t most[] = { 0, 40, 8, 5 };
	struct labelled l;
	struct sums want = { 0 };

	(void)state;
	labelled_init(&l);
	for (uint64_t k = 1; k <= 60; k++)
		track(&l.w, k, k == 1 ? "main.main" : "net/http.(*conn).serve");
	for (int t = 0; t < 120; t++) {
		tick(&l.w);
		for (uint64_t k = 1; k <= 60; k++)
			if (!t || !draw(&l.seed, 10))
				look(&l.w, k, l.stacks[k < 30 ? draw(&l.seed, STACKS) : 2], "IO wait",
				     l.labels[draw(&l.seed, VALUES + 2)], false);
		world_pass(&l.w, TICK);
	}
	l.window = close_now(&l.w);
	for (uint32_t i = 0; i < l.window->n_tracks; i++)
		for (uint32_t k = 0; k < l.window->tracks[i].n; k++) {
			const struct interval *iv = &l.window->tracks[i].v[k];
			int s = 0;

			while (l.stacks[s] != iv->stack)
				s++;
			want.ns[value_at(&l, &l.window->tracks[i], k)][s] += iv->t_end - iv->t_start;
		}
	for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
		const struct export_options o = by_label(most[i]);
		struct sentry_v1 v;
		struct sums got;

		must(sentry_v1_build(l.window, &o, &v));
		assert_int_equal(counts_sum(&v.left_out), 0);
		judge(&v, &got);
		assert_true(!most[i] == !got.groups);
		compare(&got, &want);
		sentry_v1_deinit(&v);
	}
	labelled_deinit(&l);
}

static void nobody_has_the_label(void **state)
{
	struct export_options o = by_label(0);
	struct labelled l;
	struct sentry_v1 v;

	(void)state;
	labelled_init(&l);
	track(&l.w, 1, "main.main");
	for (int t = 0; t < 3; t++) {
		tick(&l.w);
		look(&l.w, 1, l.stacks[0], "running", l.labels[1], true);
		world_pass(&l.w, TICK);
	}
	l.window = close_now(&l.w);
	must(sentry_v1_build(l.window, &o, &v));
	assert_true(v.labelled);
	sentry_v1_deinit(&v);
	o.label = "nosuch";
	must(sentry_v1_build(l.window, &o, &v));
	assert_false(v.labelled);
	sentry_v1_deinit(&v);
	labelled_deinit(&l);
}

/* ---- one stack ---- */

static uint64_t members_with(const struct server *s, const char *tail)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->n_threads; i++)
		if (s->threads[i].members > 1 && strstr(s->threads[i].name, tail))
			n += s->threads[i].members;
	return n;
}

/*
 * 60 of one stack, of which every second is in another state, and of which some were looked at late: two groups,
 * which have the time before the first look too.
 */
static void of_one_stack_and_state(void **state)
{
	static const struct export_options all = { .active_goid = 1 };
	struct labelled l;
	struct sentry_v1 v;
	struct server s;
	uint64_t unread = 0, ns = 0;

	(void)state;
	labelled_init(&l);
	for (uint64_t k = 1; k <= 61; k++)
		track(&l.w, k, k == 1 ? "main.main" : "main.work");
	for (int t = 0; t < 10; t++) {
		tick(&l.w);
		look(&l.w, 1, l.stacks[0], "running", 0, true);
		for (uint64_t k = 2; k <= 61; k++) {
			bool late = k < 20 && t < 4;

			look(&l.w, k, late ? l.unread : l.stacks[1], late ? "waiting" : k % 2 ? "select" : "IO wait",
			     0, false);
		}
		world_pass(&l.w, TICK);
	}
	l.window = close_now(&l.w);
	must(sentry_v1_build_limited(l.window, &all, 4000, &v));
	assert_int_equal(v.plan->level.grouping, SENTRY_GROUP_SAME);
	assert_int_equal(v.threads, 3);
	server_read(&v, &s);
	assert_int_equal(members_with(&s, " [select]"), 30);
	assert_int_equal(members_with(&s, " [IO wait]"), 30);
	for (size_t i = 0; i < s.n; i++) {
		uint64_t sum = s.v[i].ns * server_thread(&s, s.v[i].thread)->members;

		if (s.v[i].thread == s.active)
			continue;
		unread += s.v[i].stack == SERVER_MARK ? sum : 0;
		ns += sum;
	}
	assert_in_range(unread, 18ull * 4 * (TICK - 100) - 60, 18ull * 4 * (TICK + 100));
	assert_in_range(ns, 60ull * 10 * (TICK - 10000), 60ull * 10 * (TICK + 10000));
	server_free(&s);
	sentry_v1_deinit(&v);
	labelled_deinit(&l);
}

/* ---- who is grouped ---- */

/* 200 of one entry function, 12 of another, 5 of a third; all parked, with several stacks in turn if `many`. */
static void make_crowd(struct labelled *l, bool many)
{
	labelled_init(l);
	for (uint64_t k = 1; k <= 217; k++)
		track(&l->w, k, k <= 200 ? "main.many" : k <= 212 ? "main.some" : "main.few");
	for (int t = 0; t < 10; t++) {
		tick(&l->w);
		for (uint64_t k = 1; k <= 217; k++)
			look(&l->w, k, l->stacks[many ? (k + (uint64_t)t) % STACKS : k % STACKS], "select", 0, false);
		world_pass(&l->w, TICK);
	}
	l->window = close_now(&l->w);
}

static void threads_of(const struct labelled *l, uint32_t most, uint32_t lanes[3], uint32_t groups[3])
{
	static const char *const names[] = { "main.many", "main.some", "main.few" };
	const struct export_options o = { .threads = EXPORT_BY_ENTRY, .max_threads = most };
	struct sentry_v1 v;
	struct server s;

	must(sentry_v1_build(l->window, &o, &v));
	assert_int_equal(counts_sum(&v.left_out), 0);
	server_read(&v, &s);
	memset(lanes, 0, 3 * sizeof(*lanes));
	memset(groups, 0, 3 * sizeof(*groups));
	for (size_t i = 0; i < s.n_threads; i++)
		for (int k = 0; k < 3; k++)
			if (strstr(s.threads[i].name, names[k]))
				(s.threads[i].members > 1 ? groups : lanes)[k]++;
	server_free(&s);
	sentry_v1_deinit(&v);
}

static void only_the_crowd_is_grouped(void **state)
{
	uint32_t lanes[3], groups[3];
	struct labelled l;

	(void)state;
	make_crowd(&l, false);
	threads_of(&l, 217, lanes, groups);
	assert_int_equal(lanes[0] + lanes[1] + lanes[2], 217);
	threads_of(&l, 216, lanes, groups);
	assert_true(!lanes[0] && groups[0] == STACKS && lanes[1] == 12 && lanes[2] == 5);
	threads_of(&l, STACKS + 16, lanes, groups);
	assert_true(!lanes[0] && groups[0] == STACKS && groups[1] == STACKS && lanes[2] == 5);
	/* By one stack is not enough: those who have most threads then, whatever their stacks. */
	threads_of(&l, 8, lanes, groups);
	assert_true(groups[0] == 1 && groups[1] == 1 && lanes[2] + groups[2] <= 5);
	threads_of(&l, 3, lanes, groups);
	assert_true(groups[0] == 1 && groups[1] == 1 && groups[2] == 1);
	labelled_deinit(&l);
	make_crowd(&l, true);
	threads_of(&l, 216, lanes, groups);
	assert_true(groups[0] == 1 && !lanes[0] && lanes[1] == 12 && lanes[2] == 5);
	threads_of(&l, 17, lanes, groups);
	assert_true(groups[0] == 1 && groups[1] == 1 && lanes[2] == 5);
	labelled_deinit(&l);
}

/* ---- what is counted ---- */

static const cJSON *left_out_of(const struct sentry_v1 *v, cJSON **doc)
{
	*doc = cJSON_ParseWithLength(v->transaction.data, v->transaction.len);
	return cJSON_GetObjectItem(cJSON_GetObjectItem(cJSON_GetObjectItem(*doc, "contexts"), "goprof"), "left_out");
}

static int number_at(const cJSON *o, const char *name)
{
	const cJSON *n = cJSON_GetObjectItem(o, name);

	return n ? n->valueint : 0;
}

/* Goroutines, threads without one and shared threads are never added up, and labels are no functions. */
static void counts_are_of_one_kind(void **state)
{
	static const struct export_options few = { .max_threads = 10 };
	struct export_options o = by_label(5);
	struct labelled l;
	struct sentry_v1 v;
	const cJSON *left, *row;
	cJSON *doc;

	(void)state;
	labelled_init(&l);
	for (uint64_t k = 1; k <= 30; k++)
		track(&l.w, k, "main.work");
	for (uint64_t k = 1; k <= 4; k++)
		track(&l.w, PROFILE_THREAD_KEY + k, "[Go runtime]");
	for (int t = 0; t < 5; t++) {
		tick(&l.w);
		for (uint64_t k = 1; k <= 30; k++)
			look(&l.w, k, l.stacks[0], "running", l.labels[0], true);
		for (uint64_t k = 1; k <= 4; k++)
			look(&l.w, PROFILE_THREAD_KEY + k, l.stacks[1], "running", 0, false);
		world_pass(&l.w, TICK);
	}
	l.window = close_now(&l.w);
	must(sentry_v1_build(l.window, &few, &v));
	assert_int_equal(v.left_out.goroutines, 20);
	assert_int_equal(v.left_out.threads, 4);
	assert_int_equal(v.left_out.shared, 0);
	left = left_out_of(&v, &doc);
	assert_int_equal(number_at(left, "goroutines"), 20);
	assert_int_equal(number_at(left, "threads"), 4);
	row = cJSON_GetArrayItem(cJSON_GetObjectItem(left, "by_entry"), 1);
	assert_string_equal(cJSON_GetObjectItem(row, "entry")->valuestring, "[Go runtime]");
	assert_int_equal(number_at(row, "threads"), 4);
	assert_null(cJSON_GetObjectItem(row, "goroutines"));
	cJSON_Delete(doc);
	sentry_v1_deinit(&v);
	must(sentry_v1_build(l.window, &o, &v));
	left = left_out_of(&v, &doc);
	assert_int_equal(v.left_out.goroutines, 0);
	assert_int_equal(number_at(left, "shared_threads"), v.left_out.shared);
	row = cJSON_GetArrayItem(cJSON_GetObjectItem(left, "by_label"), 0);
	assert_string_equal(cJSON_GetObjectItem(row, "value")->valuestring, "/order");
	assert_true(number_at(row, "shared_threads") >= 25);
	assert_null(cJSON_GetObjectItem(row, "entry"));
	/* Threads without a goroutine that are grouped are no goroutines. */
	assert_int_equal(v.grouped.goroutines, 0);
	cJSON_Delete(doc);
	sentry_v1_deinit(&v);
	labelled_deinit(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_stays_with_its_label),
		cmocka_unit_test(random_labels),
		cmocka_unit_test(nobody_has_the_label),
		cmocka_unit_test(of_one_stack_and_state),
		cmocka_unit_test(only_the_crowd_is_grouped),
		cmocka_unit_test(counts_are_of_one_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
