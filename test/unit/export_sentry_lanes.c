/*
 * export_sentry_lanes.c: goroutines that share threads. Whatever the history, the time of each stack that
 * a server sees on the threads of one owner is the sum over its goroutines, and each tick on a CPU is there
 * as a sample; there are as many lanes as goroutines were there at once, no more; names and ids say whose they
 * are, the same in every window.
 */
#include <time.h>

#include "sentry_server.h"

#include "export/export_impl.h"

enum { GOROUTINES = 30, STACKS = 5, OWNERS = 3, CASES = 40, TICKS_MOST = 200 };

static const char *const entries[OWNERS] = { "main.a", "main.b", "main.c" };
static const char *const values[OWNERS] = { "/a", "/b", "" };	/* the last one: without the label */

struct sums {
	uint64_t ns[OWNERS][STACKS];
	uint32_t samples[OWNERS][STACKS];
	uint32_t intervals[OWNERS][STACKS];
};

struct history {
	struct world w;
	uint64_t seed;
	profile_id stacks[STACKS], labels[OWNERS];
	struct window *window;
};

static void history_init(struct history *h, uint64_t seed)
{
	*h = (struct history){ .seed = seed };
	world_init(&h->w);
	if (seed % 2 == 0)	/* numbers of strings differ from run to run */
		text(&h->w, "something before");
	for (uint32_t s = 0; s < STACKS; s++) {
		char name[8];

		snprintf(name, sizeof(name), "s%u", s);
		h->stacks[s] = stack1(&h->w, name);
	}
	for (int i = 0; i < OWNERS; i++) {
		struct profile_label l[] = { { text(&h->w, "id"), text(&h->w, entries[i]) },
					     { text(&h->w, "route"), text(&h->w, values[i]) } };

		must(profile_labels(h->w.p, l, *values[i] ? 2 : 1, &h->labels[i]));
	}
}

static void one_tick(struct history *h)
{
	struct world *w = &h->w;

	tick(w);
	for (uint32_t n = draw(&h->seed, 12); n; n--) {
		uint64_t key = 1 + draw(&h->seed, GOROUTINES);
		uint32_t s = draw(&h->seed, STACKS + 1);

		world_pass(w, draw(&h->seed, 3000));
		if (!draw(&h->seed, 4)) {
			profile_gone(w->p, key, w->mono);
			continue;
		}
		track(w, key, entries[key % OWNERS]);
		look(w, key, s == STACKS ? PROFILE_STACK_EMPTY : h->stacks[s], "running",
		     h->labels[draw(&h->seed, OWNERS)], !draw(&h->seed, 3));
	}
	world_pass(w, TICK - 100000 + draw(&h->seed, 200000));
}

static void make_history(struct history *h, uint64_t seed)
{
	history_init(h, seed);
	for (uint32_t n = 3 + draw(&h->seed, TICKS_MOST); n; n--)
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

/* By entry function; or by label, and where there is none by entry function: one is "route=", one "main.". */
static int owner_of(const struct history *h, const struct window_track *t, const struct interval *iv,
		    const struct export_options *o, bool *by_label)
{
	int entry = (int)(t->info.key % OWNERS);

	*by_label = false;
	for (int i = 0; o->threads == EXPORT_BY_LABEL && i < OWNERS; i++)
		if (iv->labels == h->labels[i] && *values[i]) {
			*by_label = true;
			return i;
		}
	return entry;
}

/* [0]: by entry function, [1]: by label. */
static void expect(const struct history *h, const struct export_options *o, struct sums want[2])
{
	memset(want, 0, 2 * sizeof(*want));
	for (uint32_t i = 0; i < h->window->n_tracks; i++) {
		const struct window_track *t = &h->window->tracks[i];

		for (uint32_t k = 0; k < t->n; k++) {
			const struct interval *iv = &t->v[k];
			bool by_label;
			int owner = owner_of(h, t, iv, o, &by_label), s = stack_number(h, iv->stack);

			if (!told(iv, o->mode))
				continue;
			want[by_label].ns[owner][s] += iv->t_end - iv->t_start;
			want[by_label].intervals[owner][s]++;
			if (iv->flags & INTERVAL_ONCPU)
				want[by_label].samples[owner][s] += iv->end_tick - iv->first_tick;
		}
	}
}

/* "main.a #3", "route=/b #1" */
static int owner_by_name(const char *name, bool *by_label)
{
	*by_label = strncmp(name, "route=", 6) == 0;
	for (int i = 0; i < OWNERS; i++) {
		const char *own = *by_label ? values[i] : entries[i];
		size_t len = strlen(own);

		if (len && !strncmp(name + (*by_label ? 6 : 0), own, len))
			return i;
	}
	fail_msg("whose is %s?", name);
	return 0;
}

static void judge(const struct sentry_v1 *v, struct sums got[2])
{
	struct server s;

	memset(got, 0, 2 * sizeof(*got));
	server_read(v, &s);
	for (size_t i = 0; i < s.n; i++) {
		bool by_label;
		int owner = owner_by_name(server_name(&s, s.v[i].thread), &by_label);

		assert_true(s.v[i].thread > GOROUTINES);
		if (s.v[i].stack < 0)
			continue;
		got[by_label].ns[owner][s.v[i].stack] += s.v[i].ns;
		got[by_label].samples[owner][s.v[i].stack]++;
	}
	server_free(&s);
}

static void check_case(uint64_t seed, const struct export_options *o)
{
	struct sums got[2], want[2];
	struct history h;
	struct sentry_v1 v;

	make_history(&h, seed);
	must(sentry_v1_build(h.window, o, &v));
	assert_false(v.thinned);
	judge(&v, got);
	expect(&h, o, want);
	for (int k = 0; k < 2; k++)
		for (int i = 0; i < OWNERS; i++)
			for (int s = 0; s < STACKS; s++) {
				/* A gap of less than a sixteenth of a tick is part of what was before it. */
				assert_in_range(got[k].ns[i][s], want[k].ns[i][s],
						want[k].ns[i][s] + want[k].intervals[i][s] * (TICK / 16));
				assert_true(got[k].samples[i][s] >= want[k].samples[i][s]);
			}
	sentry_v1_deinit(&v);
	end_history(&h);
}

static void time_is_kept(void **state)
{
	static const struct export_options options[] = {
		{ .mode = PROFILE_WALL, .threads = EXPORT_BY_ENTRY },
		{ .mode = PROFILE_CPU, .threads = EXPORT_BY_ENTRY },
		{ .mode = PROFILE_WALL, .threads = EXPORT_BY_LABEL, .label = "route" },
		{ .mode = PROFILE_CPU, .threads = EXPORT_BY_LABEL, .label = "route", .active_goid = 3 },
	};

	(void)state;
	for (uint64_t seed = 1; seed <= CASES; seed++)
		check_case(seed, &options[seed % 4]);
}

/* ---- how lanes are filled ---- */

/* 60 goroutines that live two ticks each, at any time two of them; one for all the time. */
static struct window *short_lives(struct history *h)
{
	struct world *w = &h->w;

	track(w, 1000, entries[1]);
	for (uint64_t i = 0; i < 60; i++) {
		tick(w);
		look(w, 1000, h->stacks[1], "IO wait", 0, false);
		track(w, 1 + i, entries[0]);
		profile_credit(w->p, look(w, 1 + i, h->stacks[0], "running", 0, true), TICK);
		if (i >= 2)
			profile_gone(w->p, i - 1, w->mono);
		world_pass(w, TICK);
	}
	return close_now(w);
}

static void short_lives_fill_few_lanes(void **state)
{
	static const struct export_options o = { .threads = EXPORT_BY_ENTRY };
	struct history h;
	struct sentry_v1 v;
	struct server s;
	uint64_t ns[2] = { 0 };

	(void)state;
	history_init(&h, 1);
	h.window = short_lives(&h);
	must(sentry_v1_build(h.window, &o, &v));
	/* At a tick one is made before the one that ends there is gone, so three lanes. */
	assert_in_range(v.threads, 3, 4);
	server_read(&v, &s);
	assert_string_equal(server_name(&s, s.active), "main.a #1");
	for (size_t i = 0; i < s.n; i++)
		if (s.v[i].stack == 0)
			ns[s.v[i].thread == s.active] += s.v[i].ns;
	/* Two at once for 59 ticks, and the first alone for one. */
	assert_int_equal(ns[0] + ns[1], (uint64_t)119 * TICK);
	assert_int_equal(ns[1], (uint64_t)60 * TICK);	/* the active lane is full */
	server_free(&s);
	sentry_v1_deinit(&v);
	end_history(&h);
}

/* Twelve at once: twelve lanes, whichever of them end first. */
static void as_many_lanes_as_at_once(void **state)
{
	static const struct export_options o = { .threads = EXPORT_BY_ENTRY };
	uint64_t alive[12] = { 0 }, next = 1;
	struct history h;
	struct sentry_v1 v;

	(void)state;
	history_init(&h, 7);
	for (int i = 0; i < 200; i++) {
		tick(&h.w);
		for (int k = 0; k < 12; k++) {
			if (alive[k] && draw(&h.seed, 5))
				continue;
			if (alive[k])
				profile_gone(h.w.p, alive[k], h.w.mono);
			alive[k] = next++;
			track(&h.w, alive[k], entries[0]);
			look(&h.w, alive[k], h.stacks[k % STACKS], "running", 0, k % 2);
		}
		world_pass(&h.w, TICK);
	}
	h.window = close_now(&h.w);
	assert_true(h.window->n_tracks > 300);
	must(sentry_v1_build(h.window, &o, &v));
	assert_int_equal(v.threads, 12);
	sentry_v1_deinit(&v);
	end_history(&h);
}

/* What goes on stays where it is, though a lower lane has become free. */
static void nobody_moves(void **state)
{
	static const struct export_options o = { .threads = EXPORT_BY_ENTRY };
	struct history h;
	struct sentry_v1 v;
	struct server s;
	uint64_t ns[2] = { 0 };

	(void)state;
	history_init(&h, 1);
	track(&h.w, 1, entries[0]);
	track(&h.w, 2, entries[0]);
	for (int i = 0; i < 10; i++) {
		tick(&h.w);
		if (i < 3)
			look(&h.w, 1, h.stacks[0], "running", 0, true);
		else
			profile_gone(h.w.p, 1, h.w.mono);
		look(&h.w, 2, h.stacks[1 + i % 2], "running", 0, true);
		world_pass(&h.w, TICK);
	}
	h.window = close_now(&h.w);
	must(sentry_v1_build(h.window, &o, &v));
	server_read(&v, &s);
	for (size_t i = 0; i < s.n; i++)
		ns[strcmp(server_name(&s, s.v[i].thread), "main.a #1") != 0] += s.v[i].ns;
	assert_int_equal(ns[0], 3ull * TICK);
	assert_int_equal(ns[1], 10ull * TICK);
	server_free(&s);
	sentry_v1_deinit(&v);
	end_history(&h);
}

/* ---- ids, the active one, names ---- */

static void ids_are_the_same_in_every_window(void **state)
{
	static const struct export_options o = { .threads = EXPORT_BY_ENTRY };
	struct history h[2];
	struct sentry_v1 v[2];
	struct server s[2];
	const cJSON *row;
	int found = 0;

	(void)state;
	for (int i = 0; i < 2; i++) {
		history_init(&h[i], 1 + (uint64_t)i);
		h[i].window = short_lives(&h[i]);
		must(sentry_v1_build(h[i].window, &o, &v[i]));
		server_read(&v[i], &s[i]);
	}
	cJSON_ArrayForEach(row, s[0].names) {
		uint64_t id = strtoull(row->string, NULL, 10);

		assert_string_equal(server_name(&s[1], id), server_name(&s[0], id));
		/* Neither a goroutine's nor a thread's, and exact as a double. */
		assert_in_range(id, (uint64_t)1 << 41, ((uint64_t)1 << 53) - 1);
		found++;
	}
	assert_int_equal(found, v[0].threads);
	for (int i = 0; i < 2; i++) {
		server_free(&s[i]);
		sentry_v1_deinit(&v[i]);
		end_history(&h[i]);
	}
}

static void the_active_lane(void **state)
{
	struct export_options o = { .threads = EXPORT_BY_ENTRY, .active_goid = 1000 };
	struct history h;
	struct sentry_v1 v;
	struct server s;

	(void)state;
	history_init(&h, 1);
	h.window = short_lives(&h);
	for (int i = 0; i < 2; i++) {
		must(sentry_v1_build(h.window, &o, &v));
		server_read(&v, &s);
		assert_string_equal(server_name(&s, s.active), "main.b #1");
		server_free(&s);
		sentry_v1_deinit(&v);
		o.max_threads = 2;	/* it is kept, and the busiest */
	}
	assert_int_equal(v.threads, 2);
	assert_true(v.left_out.shared >= 1);
	o.active_busiest = true;
	must(sentry_v1_build(h.window, &o, &v));
	server_read(&v, &s);
	assert_string_equal(server_name(&s, s.active), "main.a #1");
	server_free(&s);
	sentry_v1_deinit(&v);
	end_history(&h);
}

/*
 * In cpu mode each time on a CPU is a piece of its own. A goroutine with very many takes as long as that many
 * goroutines with one, not the square of it: that would be minutes.
 */
static void very_many_pieces(void **state)
{
	static const struct export_options o = { .mode = PROFILE_CPU, .threads = EXPORT_BY_ENTRY };
	enum { MANY = 30000 };
	struct history h;
	struct sentry_v1 v;
	clock_t begin;

	(void)state;
	history_init(&h, 1);
	track(&h.w, 1, "main.a");
	for (uint32_t t = 0; t < MANY; t++) {
		tick(&h.w);
		profile_credit(h.w.p, look(&h.w, 1, h.stacks[t % 2], "x", 0, t % 2), 1000);
		world_pass(&h.w, 900 * 1000);
	}
	h.window = close_now(&h.w);
	begin = clock();
	must(sentry_v1_build(h.window, &o, &v));
	assert_true(clock() - begin < 3 * CLOCKS_PER_SEC);
	assert_int_equal(v.threads, 1);
	sentry_v1_deinit(&v);
	end_history(&h);
}

/* Labels that could not be read for a moment do not move a goroutine; a long name keeps its number. */
static void names_of_lanes(void **state)
{
	struct export_options o = { .threads = EXPORT_BY_LABEL, .label = "route" };
	struct history h;
	struct sentry_v1 v;
	struct server s;
	char many[400];
	const char *name;

	(void)state;
	memset(many, 'x', sizeof(many));
	many[sizeof(many) - 1] = '\0';
	history_init(&h, 1);
	track(&h.w, 1, many);
	track(&h.w, 2, many);
	track(&h.w, 3, "");
	for (int i = 0; i < 6; i++) {
		tick(&h.w);
		look(&h.w, 1, h.stacks[0], "running", i == 3 ? PROFILE_LABELS_UNKNOWN : h.labels[0], true);
		look(&h.w, 2, h.stacks[1], "running", 0, false);
		look(&h.w, 3, h.stacks[1], "running", 0, false);
		world_pass(&h.w, TICK);
	}
	h.window = close_now(&h.w);
	must(sentry_v1_build(h.window, &o, &v));
	assert_int_equal(v.threads, 3);
	server_read(&v, &s);
	assert_string_equal(server_name(&s, s.active), "route=/a #1");
	for (size_t i = 0; i < s.n; i++) {
		name = server_name(&s, s.v[i].thread);
		if (*name != 'x') {
			assert_true(!strcmp(name, "route=/a #1") || !strcmp(name, "unknown #1"));
			continue;
		}
		assert_int_equal(strlen(name), 200);
		assert_string_equal(name + 194, "... #1");
	}
	server_free(&s);
	sentry_v1_deinit(&v);
	end_history(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_is_kept),
		cmocka_unit_test(short_lives_fill_few_lanes),
		cmocka_unit_test(as_many_lanes_as_at_once),
		cmocka_unit_test(nobody_moves),
		cmocka_unit_test(ids_are_the_same_in_every_window),
		cmocka_unit_test(the_active_lane),
		cmocka_unit_test(very_many_pieces),
		cmocka_unit_test(names_of_lanes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
