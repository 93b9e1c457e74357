/*
 * export_sentry_weights.c: what a server makes of the samples is what the intervals say. A model of
 * the server reads the payload: it cuts idle samples off the edges of each thread, drops threads with
 * one sample, sorts by time, fills idle samples with what the stacks around them have in common, and lets
 * each sample last until the next one of its thread. For random histories, thinned and dense, with gaps and
 * both modes, the sums must be the interval lengths, and every tick on a CPU must be there as a sample.
 */
#include "sentry_world.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

#include "export/export_impl.h"

enum { THREADS = 40, STACKS = 6, CASES = 60, TICKS_MOST = 400 };

enum { EMPTY = -1, MARK = -2 };

/* Sums by thread and stack. A stack is known by its leaf function "sN", or EMPTY, or MARK: "[idle]". */
struct sums {
	uint64_t ns[THREADS + 1][STACKS];
	uint32_t samples[THREADS + 1][STACKS];
	uint32_t intervals[THREADS + 1][STACKS];
	uint32_t idle[THREADS + 1];	/* samples with an empty stack */
	uint32_t marks[THREADS + 1];
};

struct row {
	uint64_t at;
	int thread, stack, root, order;
};

/* ---- the model of the server ---- */

static int leaf_of(const cJSON *profile, int stack)
{
	const cJSON *frames = cJSON_GetArrayItem(cJSON_GetObjectItem(profile, "stacks"), stack), *f;

	assert_non_null(frames);
	if (!cJSON_GetArraySize(frames))
		return EMPTY;
	f = cJSON_GetArrayItem(cJSON_GetObjectItem(profile, "frames"), cJSON_GetArrayItem(frames, 0)->valueint);
	if (strcmp(cJSON_GetObjectItem(f, "function")->valuestring, "[idle]") == 0)
		return MARK;
	return atoi(cJSON_GetObjectItem(f, "function")->valuestring + 1);
}

static int root_of(const cJSON *profile, int stack)
{
	const cJSON *frames = cJSON_GetArrayItem(cJSON_GetObjectItem(profile, "stacks"), stack);
	int n = cJSON_GetArraySize(frames);

	return n ? cJSON_GetArrayItem(frames, n - 1)->valueint : EMPTY;
}

static int rows_by_time(const void *va, const void *vb)
{
	const struct row *a = va, *b = vb;

	return a->at != b->at ? (a->at < b->at ? -1 : 1) : a->order - b->order;
}

static size_t read_rows(const cJSON *profile, struct row **ret)
{
	const cJSON *samples = cJSON_GetObjectItem(profile, "samples"), *s;
	int n_stacks = cJSON_GetArraySize(cJSON_GetObjectItem(profile, "stacks"));
	struct row *rows = calloc((size_t)cJSON_GetArraySize(samples) + 1, sizeof(*rows));
	int *leaf = calloc((size_t)n_stacks + 1, sizeof(*leaf));
	int *root = calloc((size_t)n_stacks + 1, sizeof(*root));
	uint64_t before = 0;
	size_t n = 0;

	for (int i = 0; i < n_stacks; i++) {
		leaf[i] = leaf_of(profile, i);
		root[i] = root_of(profile, i);
	}
	cJSON_ArrayForEach(s, samples) {
		rows[n].at = (uint64_t)cJSON_GetObjectItem(s, "elapsed_since_start_ns")->valuedouble;
		rows[n].thread = cJSON_GetObjectItem(s, "thread_id")->valueint;
		rows[n].stack = leaf[cJSON_GetObjectItem(s, "stack_id")->valueint];
		rows[n].root = root[cJSON_GetObjectItem(s, "stack_id")->valueint];
		rows[n].order = (int)n;
		assert_true(rows[n].at >= before);	/* sorted as it stands */
		assert_true(rows[n].at <= 29500000000);
		assert_in_range(rows[n].thread, 1, THREADS);
		before = rows[n++].at;
	}
	free(leaf);
	free(root);
	qsort(rows, n, sizeof(*rows), rows_by_time);
	*ret = rows;
	return n;
}

/*
 * An empty sample becomes what the stacks around it have in common from the root on. There must be nothing, or
 * time in which nobody ran would be somebody's.
 */
static void check_not_filled(const struct row *own, size_t n, size_t i)
{
	size_t before = i, after = i;

	while (own[before].stack == EMPTY)
		before--;
	while (after < n && own[after].stack == EMPTY)
		after++;
	assert_int_not_equal(own[before].root, own[after].root);
}

/* One thread, its idle edges cut off. */
static void judge_thread(const struct row *rows, size_t n, int thread, struct sums *ret)
{
	struct row own[8 * TICKS_MOST];
	size_t k = 0, first = 0;

	for (size_t i = 0; i < n; i++) {
		if (rows[i].thread != thread)
			continue;
		assert_true(k < sizeof(own) / sizeof(own[0]));
		own[k++] = rows[i];
	}
	while (first < k && own[first].stack == EMPTY)
		first++;
	while (k > first && own[k - 1].stack == EMPTY)
		k--;
	/* Nothing was sent that the server would cut off or drop. */
	assert_int_equal(first, 0);
	assert_int_not_equal(k, 1);
	for (size_t i = first; i < k; i++) {
		int stack = own[i].stack;

		if (stack == MARK) {
			assert_true(i + 1 < k && own[i + 1].at == own[i].at + 1);
			ret->marks[thread]++;
			continue;
		}
		if (stack == EMPTY) {
			ret->idle[thread]++;
			check_not_filled(own, k, i);
		} else {
			ret->samples[thread][stack]++;
		}
		if (stack >= 0 && i + 1 < k)
			ret->ns[thread][stack] += own[i + 1].at - own[i].at;
	}
}

static void judge(const cJSON *profile, struct sums *ret)
{
	struct row *rows;
	size_t n = read_rows(profile, &rows);

	memset(ret, 0, sizeof(*ret));
	for (int t = 1; t <= THREADS; t++)
		judge_thread(rows, n, t, ret);
	free(rows);
}

/* ---- a random history ---- */

struct history {
	struct world w;
	profile_id stacks[STACKS];
	uint64_t seed;
	struct window *window;
};

static void one_tick(struct history *h)
{
	struct world *w = &h->w;

	tick(w);
	for (uint32_t n = draw(&h->seed, 12); n; n--) {
		uint64_t key = 1 + draw(&h->seed, THREADS);
		uint32_t s = draw(&h->seed, STACKS + 1);

		world_pass(w, draw(&h->seed, 3000));
		if (!draw(&h->seed, 6)) {
			profile_gone(w->p, key, w->mono);
			continue;
		}
		/* Gone and come again may be another goroutine with the same number. */
		track(w, key, draw(&h->seed, 2) ? "main.work" : "main.other");
		look(w, key, s == STACKS ? PROFILE_STACK_EMPTY : h->stacks[s],
		     draw(&h->seed, 2) ? "running" : "IO wait", 0, !draw(&h->seed, 3));
	}
	world_pass(w, TICK - 100000 + draw(&h->seed, 200000));
}

static void make_history(struct history *h, uint64_t seed)
{
	*h = (struct history){ .seed = seed };
	world_init(&h->w);
	for (uint32_t s = 0; s < STACKS; s++) {
		char name[8];

		snprintf(name, sizeof(name), "s%u", s);
		h->stacks[s] = stack1(&h->w, name);
	}
	/* Half of them begin with open intervals of a window before. */
	if (seed % 2) {
		for (int i = 0; i < 5; i++)
			one_tick(h);
		window_free(close_now(&h->w));
	}
	for (uint32_t n = 3 + draw(&h->seed, TICKS_MOST - 3); n; n--)
		one_tick(h);
	h->window = close_now(&h->w);
}

static void end_history(struct history *h)
{
	window_free(h->window);
	world_deinit(&h->w);
}

/* ---- what must come out ---- */

static int stack_number(const struct history *h, profile_id stack)
{
	for (int s = 0; s < STACKS; s++)
		if (h->stacks[s] == stack)
			return s;
	return -1;
}

static bool told(const struct interval *iv, enum profile_mode mode)
{
	return iv->stack != PROFILE_STACK_EMPTY && iv->t_end > iv->t_start &&
	       (mode == PROFILE_WALL || iv->flags & INTERVAL_ONCPU);
}

static bool is_told_thread(const cJSON *profile, uint64_t key)
{
	char id[24];

	snprintf(id, sizeof(id), "%d", (int)key);
	return cJSON_GetObjectItem(cJSON_GetObjectItem(profile, "thread_metadata"), id) != NULL;
}

/* Lengths, and the looks that must be there as samples, of the threads that are told. */
static void expect(const struct history *h, const struct export_options *o, uint64_t active,
		   const cJSON *profile, struct sums *ret)
{
	const struct window *w = h->window;

	memset(ret, 0, sizeof(*ret));
	for (uint32_t i = 0; i < w->n_tracks; i++) {
		uint64_t key = w->tracks[i].info.key;

		for (uint32_t k = 0; k < w->tracks[i].n && is_told_thread(profile, key); k++) {
			const struct interval *iv = &w->tracks[i].v[k];
			int s = stack_number(h, iv->stack);

			if (!told(iv, o->mode))
				continue;
			ret->ns[key][s] += iv->t_end - iv->t_start;
			ret->intervals[key][s]++;
			if (iv->flags & INTERVAL_ONCPU || key == active)
				ret->samples[key][s] += iv->end_tick - iv->first_tick;
			else
				ret->samples[key][s] += 1 + (iv->end_tick - iv->first_tick > 1);
		}
	}
}

static void compare(const struct sums *got, const struct sums *want)
{
	for (int t = 1; t <= THREADS; t++) {
		for (int s = 0; s < STACKS; s++) {
			/* A gap of less than a sixteenth of a tick is part of what was before it. */
			assert_in_range(got->ns[t][s], want->ns[t][s],
					want->ns[t][s] + want->intervals[t][s] * (TICK / 16));
			/* A closing sample and an interval shorter than a tick may add one each. */
			assert_true(got->samples[t][s] >= want->samples[t][s]);
		}
	}
}

static uint32_t threads_told(const struct sentry_v1 *v, cJSON **profile)
{
	struct buf text = profile_text(v);
	cJSON *doc = cJSON_ParseWithLength(text.data, text.len);

	assert_non_null(doc);
	*profile = cJSON_DetachItemFromObject(doc, "profile");
	cJSON_Delete(doc);
	buf_deinit(&text);
	return (uint32_t)cJSON_GetArraySize(cJSON_GetObjectItem(*profile, "thread_metadata"));
}

static void check_case(uint64_t seed, const struct export_options *o)
{
	static struct sums got, want;
	struct history h;
	struct sentry_v1 v;
	cJSON *profile;
	struct error *err;

	make_history(&h, seed);
	err = sentry_v1_build(h.window, o, &v);
	if (err && err->kind == ERROR_NOT_FOUND) {
		error_free(err);
		end_history(&h);
		return;
	}
	must(err);
	assert_int_equal(threads_told(&v, &profile), v.threads);
	if (o->max_threads)
		assert_true(v.threads <= o->max_threads);
	judge(profile, &got);
	expect(&h, o, 0, profile, &want);
	compare(&got, &want);
	cJSON_Delete(profile);
	sentry_v1_deinit(&v);
	end_history(&h);
}

static void random_histories(void **state)
{
	static const struct export_options options[] = {
		{ .mode = PROFILE_WALL },
		{ .mode = PROFILE_WALL, .active_busiest = true },
		{ .mode = PROFILE_WALL, .active_goid = 17, .max_threads = 5 },
		{ .mode = PROFILE_CPU },
		{ .mode = PROFILE_CPU, .active_busiest = true, .max_threads = 3 },
	};

	(void)state;
	for (uint64_t seed = 1; seed <= CASES; seed++)
		check_case(seed, &options[seed % (sizeof(options) / sizeof(options[0]))]);
}

/* ---- counts ---- */

static void counts_of(const struct window *w, enum profile_mode mode, uint64_t active, struct sums *got)
{
	const struct export_options o = { .mode = mode, .active_goid = active };
	struct sentry_v1 v;
	cJSON *profile;

	must(sentry_v1_build(w, &o, &v));
	threads_told(&v, &profile);
	judge(profile, got);
	cJSON_Delete(profile);
	sentry_v1_deinit(&v);
}

/*
 * 1 parked all the time, 2 on a CPU all the time, 3 seen at one tick only, 4 off and on in turn,
 * 5 on a CPU at its ends.
 */
static void counts_by_kind(void **state)
{
	enum { TICKS = 50 };
	static struct sums got;
	struct history h = { 0 };
	struct world *w = &h.w;

	(void)state;
	world_init(w);
	for (uint32_t s = 0; s < STACKS; s++)
		h.stacks[s] = stack1(w, (const char *[]){ "s0", "s1", "s2", "s3", "s4", "s5" }[s]);
	for (uint64_t k = 1; k <= 5; k++)
		track(w, k, "main.work");
	for (int i = 0; i < TICKS; i++) {
		tick(w);
		look(w, 1, h.stacks[1], "IO wait", 0, false);
		look(w, 2, h.stacks[2], "running", 0, true);
		if (i == 20)
			look(w, 3, h.stacks[3], "IO wait", 0, false);
		if (i == 21)
			profile_gone(w->p, 3, w->mono);
		look(w, 4, h.stacks[4], "running", 0, i % 2);
		look(w, 5, h.stacks[5], "running", 0, i < 5 || i >= TICKS - 5);
		world_pass(w, TICK);
	}
	h.window = close_now(w);
	counts_of(h.window, PROFILE_WALL, 2, &got);
	assert_int_equal(got.samples[1][1], 2);		/* first and closing */
	assert_int_equal(got.samples[2][2], TICKS + 1);	/* each tick and closing */
	assert_int_equal(got.samples[3][3], 2);
	assert_int_equal(got.samples[4][4], TICKS + 1);
	counts_of(h.window, PROFILE_WALL, 1, &got);
	assert_int_equal(got.samples[1][1], TICKS + 1);	/* the active one: each tick */
	assert_int_equal(got.ns[1][1], (uint64_t)TICKS * TICK);
	counts_of(h.window, PROFILE_CPU, 2, &got);
	assert_int_equal(got.samples[1][1], 0);
	assert_int_equal(got.samples[2][2], TICKS + 1);
	assert_int_equal(got.samples[4][4], TICKS / 2 + 1);
	assert_int_equal(got.ns[4][4], (uint64_t)TICKS / 2 * TICK);
	assert_int_equal(got.idle[4], TICKS / 2 - 1);	/* those at its edges are not sent */
	assert_int_equal(got.idle[5], 1);
	counts_of(h.window, PROFILE_CPU, 5, &got);
	assert_int_equal(got.idle[5], TICKS - 10);	/* the active one: each tick */
	assert_int_equal(got.ns[5][5], 10ull * TICK);
	end_history(&h);
}

/* ---- gaps ---- */

/*
 * In cpu mode, on a CPU at ticks 0 to 4 and 10 to 14. Three goroutines: with one stack, with two that have their
 * root in common, and with two that have nothing in common. Only where something would be filled there is a mark.
 */
static void marks_where_they_are_needed(void **state)
{
	static struct sums got;
	struct history h = { 0 };
	struct world *w = &h.w;
	profile_id f, alone;

	(void)state;
	world_init(w);
	for (uint32_t s = 0; s < STACKS; s++)
		h.stacks[s] = stack1(w, (const char *[]){ "s0", "s1", "s2", "s3", "s4", "s5" }[s]);
	f = frame(w, "main", "s5", 1, 0);
	alone = stack_of(w, &f, 1, PROFILE_STACK_COMPLETE);
	for (uint64_t k = 1; k <= 4; k++)
		track(w, k, "main.work");
	for (int i = 0; i < 15; i++) {
		bool on = i < 5 || i >= 10;

		tick(w);
		look(w, 1, h.stacks[0], "running", 0, true);
		look(w, 2, h.stacks[1], "running", 0, on);
		look(w, 3, h.stacks[i < 5 ? 1 : 2], "running", 0, on);
		look(w, 4, i < 5 ? h.stacks[1] : alone, "running", 0, on);
		world_pass(w, TICK);
	}
	h.window = close_now(w);
	counts_of(h.window, PROFILE_CPU, 1, &got);
	for (int k = 2; k <= 4; k++) {
		assert_int_equal(got.idle[k], 1);
		assert_int_equal(got.marks[k], k < 4);
	}
	assert_int_equal(got.ns[2][1], 10ull * TICK);
	assert_int_equal(got.ns[3][1] + got.ns[3][2], 10ull * TICK);
	assert_int_equal(got.ns[4][5], 5ull * TICK);
	/* Each tick, and the closing one: no sample more for a gap. */
	assert_int_equal(got.samples[2][1], 11);
	end_history(&h);
}

/*
 * Goroutines that follow each other on a shared thread at once, or after a while: a gap that is much shorter
 * than a tick is no sample, and adds no more to the stack before it than it lasts.
 */
static void short_gaps_are_none(void **state)
{
	static const struct export_options o = { .threads = EXPORT_BY_ENTRY };
	static const uint64_t gaps[] = { TICK / 17, TICK / 15 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct world w;
		struct window *window;
		struct sentry_v1 v;
		struct buf text;
		uint64_t n = 0;

		world_init(&w);
		for (uint64_t k = 1; k <= 20; k++) {
			tick(&w);
			track(&w, k, "main.work");
			look(&w, k, stack1(&w, "s1"), "running", 0, true);
			world_pass(&w, TICK - gaps[i]);
			profile_gone(w.p, k, w.mono);
			world_pass(&w, gaps[i]);
		}
		window = close_now(&w);
		must(sentry_v1_build(window, &o, &v));
		assert_int_equal(v.threads, 1);
		text = profile_text(&v);
		for (const char *p = text.data; (p = strstr(p, "{\"elapsed")); p++)
			n++;
		assert_int_equal(n, i ? 21 + 19 * 2 : 21);
		assert_int_equal(strstr(text.data, "[idle]") != NULL, i);
		buf_deinit(&text);
		sentry_v1_deinit(&v);
		window_free(window);
		world_deinit(&w);
	}
}

/* A window that was closed too late: nothing beyond 29.5 s is told. */
static void no_sample_after_the_limit(void **state)
{
	static struct sums got;
	struct history h = { 0 };
	struct world *w = &h.w;

	(void)state;
	world_init(w);
	for (uint32_t s = 0; s < STACKS; s++)
		h.stacks[s] = stack1(w, (const char *[]){ "s0", "s1", "s2", "s3", "s4", "s5" }[s]);
	track(w, 1, "main.main");
	track(w, 2, "main.work");
	for (int i = 0; i < 3200; i++) {
		tick(w);
		look(w, 1, h.stacks[1], "running", 0, i % 2);
		if (i == 3100)
			look(w, 2, h.stacks[2], "running", 0, true);
		world_pass(w, TICK);
	}
	h.window = close_now(w);
	{
		const struct export_options o = { .active_goid = 1 };
		struct sentry_v1 v;
		cJSON *profile;
		struct row *rows;
		size_t n;

		must(sentry_v1_build(h.window, &o, &v));
		assert_int_equal(threads_told(&v, &profile), 1);
		n = read_rows(profile, &rows);
		memset(&got, 0, sizeof(got));
		assert_int_equal(rows[n - 1].at, 29500000000);
		assert_int_equal(n, 2981);
		free(rows);
		cJSON_Delete(profile);
		sentry_v1_deinit(&v);
	}
	end_history(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_histories),
		cmocka_unit_test(counts_by_kind),
		cmocka_unit_test(marks_where_they_are_needed),
		cmocka_unit_test(short_gaps_are_none),
		cmocka_unit_test(no_sample_after_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
