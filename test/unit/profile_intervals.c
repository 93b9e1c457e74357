/*
 * profile_intervals.c: looks become intervals. What is not mentioned goes on, what changes ends and
 * begins at one instant, what is gone leaves a gap; CPU time lands where its look was. A long random
 * history is checked against a model that keeps every look.
 */
#include "profile_world.h"

static void unchanged_is_one_interval(void **state)
{
	struct world w;
	struct profile_ref a, b;
	struct window *win;
	const struct interval *iv;
	uint64_t start;

	(void)state;
	world_init(&w);
	track(&w, 7, "main.work");
	start = w.mono;
	for (int i = 0; i < 10; i++) {
		tick(&w);
		b = look(&w, 7, stack1(&w, "f"), "running", 0, true);
		if (!i)
			a = b;
		assert_memory_equal(&a, &b, sizeof(a));
		assert_true(profile_credit(w.p, b, 100));
		world_pass(&w, TICK);
	}
	win = close_now(&w);
	assert_int_equal(win->n_tracks, 1);
	assert_int_equal(win->tracks[0].n, 1);
	iv = win->tracks[0].v;
	assert_int_equal(iv->first_tick, 0);
	assert_int_equal(iv->end_tick, 10);
	assert_int_equal(iv->t_start, start);
	assert_int_equal(iv->t_end, w.mono);
	assert_int_equal(iv->flags, INTERVAL_ONCPU);
	assert_int_equal(iv->cpu_ns, 1000);
	assert_int_equal(win->tracks[0].cpu_ns, 1000);
	window_free(win);
	world_deinit(&w);
}

/* Each thing that a look tells begins a new interval by itself. */
static void every_change_splits(void **state)
{
	struct world w;
	struct profile_label l;
	profile_id set;
	struct window *win;
	const struct window_track *t;

	(void)state;
	world_init(&w);
	l = (struct profile_label){ text(&w, "k"), text(&w, "v") };
	must(profile_labels(w.p, &l, 1, &set));
	track(&w, 7, "main.work");
	tick(&w);
	look(&w, 7, stack1(&w, "f"), "running", 0, true);
	for (int i = 0; i < 5; i++) {
		world_pass(&w, TICK);
		tick(&w);
		look(&w, 7, stack1(&w, i >= 0 ? "g" : "f"), i >= 1 ? "syscall" : "running",
		     i >= 3 ? PROFILE_LABELS_UNKNOWN : i >= 2 ? set : 0, i < 4);
	}
	world_pass(&w, TICK);
	win = close_now(&w);
	t = track_of(win, 7);
	assert_int_equal(t->n, 6);
	for (uint32_t i = 0; i < t->n; i++) {
		assert_int_equal(t->v[i].first_tick, i);
		assert_int_equal(t->v[i].end_tick, i + 1);
		assert_int_equal(t->v[i].t_start, i ? t->v[i - 1].t_end : win->start.mono);
	}
	assert_int_equal(t->v[5].flags, 0);
	assert_int_equal(t->v[4].labels, PROFILE_LABELS_UNKNOWN);
	window_free(win);
	world_deinit(&w);
}

static void looks_need_a_track_and_a_tick(void **state)
{
	struct world w;
	struct profile_observation o = { .key = 7, .weight = 1 };
	struct profile_track_info info;
	struct profile_ref ref;

	(void)state;
	world_init(&w);
	track(&w, 7, "main.work");
	assert_ptr_equal(profile_observe(w.p, &o, &ref), &err_notfound);
	tick(&w);
	o.key = 8;
	assert_ptr_equal(profile_observe(w.p, &o, &ref), &err_notfound);
	profile_gone(w.p, 8, w.mono);
	assert_false(profile_has_track(w.p, 8));
	assert_false(profile_track_get(w.p, 8, &info));
	world_deinit(&w);
}

static void vanishing_leaves_a_gap(void **state)
{
	struct world w;
	struct window *win;
	const struct window_track *t;
	uint64_t gone, back;

	(void)state;
	world_init(&w);
	track(&w, 7, "main.work");
	tick(&w);
	look(&w, 7, stack1(&w, "f"), "running", 0, false);
	world_pass(&w, TICK);
	tick(&w);
	gone = w.mono;
	profile_gone(w.p, 7, gone);
	profile_gone(w.p, 7, gone + 5);		/* twice is once */
	assert_false(profile_has_track(w.p, 7));
	world_pass(&w, 2 * TICK);
	tick(&w);
	back = w.mono;
	track(&w, 7, "main.work");
	assert_true(profile_has_track(w.p, 7));
	look(&w, 7, stack1(&w, "f"), "running", 0, false);
	world_pass(&w, TICK);
	win = close_now(&w);
	assert_int_equal(win->n_tracks, 1);	/* the same facts: the same track */
	assert_false(win->keys_repeat);
	t = track_of(win, 7);
	assert_int_equal(t->n, 2);
	assert_int_equal(t->v[0].t_end, gone);
	assert_int_equal(t->v[0].end_tick, 1);
	assert_int_equal(t->v[1].t_start, back);
	assert_int_equal(t->v[1].first_tick, 2);
	window_free(win);
	world_deinit(&w);
}

static void a_reused_key_is_another_track(void **state)
{
	struct world w;
	struct window *win;
	uint32_t with_work = 0, with_other = 0;

	(void)state;
	world_init(&w);
	track(&w, 7, "main.work");
	track(&w, 7, "main.ignored");	/* still alive: changes nothing */
	tick(&w);
	look(&w, 7, stack1(&w, "f"), "running", 0, false);
	world_pass(&w, TICK);
	tick(&w);
	profile_gone(w.p, 7, w.mono);
	track(&w, 7, "main.other");
	look(&w, 7, stack1(&w, "g"), "running", 0, false);
	world_pass(&w, TICK);
	win = close_now(&w);
	assert_int_equal(win->n_tracks, 2);
	assert_true(win->keys_repeat);
	for (uint32_t i = 0; i < 2; i++) {
		const char *entry = profile_string_get(w.p, win->tracks[i].info.entry);

		with_work += !strcmp(entry, "main.work") && win->tracks[i].n == 1;
		with_other += !strcmp(entry, "main.other") && win->tracks[i].n == 1;
	}
	assert_int_equal(with_work, 1);
	assert_int_equal(with_other, 1);
	window_free(win);
	/* The old one's slot was freed without taking the key from the new one. */
	tick(&w);
	assert_true(profile_has_track(w.p, 7));
	world_pass(&w, TICK);
	win = close_now(&w);
	assert_int_equal(win->n_tracks, 1);
	assert_false(win->keys_repeat);
	assert_string_equal(profile_string_get(w.p, win->tracks[0].info.entry), "main.other");
	window_free(win);
	world_deinit(&w);
}

/* A capture that arrived late tells of an instant before what is known already. */
static void late_looks_do_not_turn_time_back(void **state)
{
	struct world w;
	struct profile_observation o = { .key = 7, .weight = 1 };
	struct profile_ref ref;
	struct window *win;
	const struct window_track *t;

	(void)state;
	world_init(&w);
	track(&w, 7, "main.work");
	tick(&w);
	world_pass(&w, TICK);
	tick(&w);
	look(&w, 7, stack1(&w, "f"), "running", 0, false);
	o.stack = stack1(&w, "g");
	o.t_before = w.mono - TICK;
	must(profile_observe(w.p, &o, &ref));
	world_pass(&w, TICK);
	win = close_now(&w);
	t = track_of(win, 7);
	assert_int_equal(t->n, 2);
	assert_int_equal(t->v[0].t_start, t->v[0].t_end);
	assert_int_equal(t->v[1].t_start, t->v[0].t_end);
	assert_int_equal(t->v[1].t_end, w.mono);
	window_free(win);
	world_deinit(&w);
}

/* ---- a random history ---- */

enum { KEYS = 23, STEPS = 4000, STACKS = 4 };

struct model_key {
	bool alive, oncpu;
	profile_id stack;
	uint64_t since;
	uint64_t ns[STACKS][2];		/* wall time by stack and whether on a CPU */
	uint64_t cpu[STACKS];
};

static void model_end(struct model_key *k, const profile_id *stacks, uint64_t at)
{
	for (int s = 0; k->alive && s < STACKS; s++)
		if (stacks[s] == k->stack)
			k->ns[s][k->oncpu] += at - k->since;
	k->since = at;
}

static void check_key(const struct window *win, const struct model_key *k, uint64_t key,
		      const profile_id *stacks)
{
	const struct window_track *t = track_of(win, key);

	for (int s = 0; s < STACKS; s++) {
		uint64_t ns[2] = { 0, 0 }, cpu = 0;

		for (uint32_t i = 0; t && i < t->n; i++) {
			if (t->v[i].stack != stacks[s])
				continue;
			ns[t->v[i].flags & INTERVAL_ONCPU] += t->v[i].t_end - t->v[i].t_start;
			cpu += t->v[i].cpu_ns;
		}
		assert_int_equal(ns[0], k->ns[s][0]);
		assert_int_equal(ns[1], k->ns[s][1]);
		assert_int_equal(cpu, k->cpu[s]);
	}
	for (uint32_t i = 1; t && i < t->n; i++) {
		assert_true(t->v[i].t_start >= t->v[i - 1].t_end);
		assert_true(t->v[i].first_tick >= t->v[i - 1].end_tick);
	}
}

static void a_random_history(void **state)
{
	static struct model_key model[KEYS];
	struct world w;
	profile_id stacks[STACKS];
	uint64_t seed = 42;

	(void)state;
	memset(model, 0, sizeof(model));
	world_init(&w);
	for (int s = 0; s < STACKS; s++)
		stacks[s] = stack1(&w, (const char *[]){ "a", "b", "c", "d" }[s]);
	for (int step = 1; step <= STEPS; step++) {
		tick(&w);
		for (int n = (int)draw(&seed, 9); n; n--) {
			uint32_t i = draw(&seed, KEYS), s = draw(&seed, STACKS);
			struct model_key *k = &model[i];
			bool oncpu = draw(&seed, 2);

			model_end(k, stacks, w.mono);
			if (!draw(&seed, 5)) {
				profile_gone(w.p, i + 1, w.mono);
				k->alive = false;
				continue;
			}
			track(&w, i + 1, "main.work");
			k->alive = true;
			k->stack = stacks[s];
			k->oncpu = oncpu;
			assert_int_equal(profile_credit(w.p, look(&w, i + 1, stacks[s], "x", 0, oncpu), s + 1), oncpu);
			k->cpu[s] += oncpu ? s + 1 : 0;
			world_pass(&w, draw(&seed, 1000));
		}
		world_pass(&w, TICK);
		if (!draw(&seed, 200) || step == STEPS) {
			struct window *win = close_now(&w);

			for (uint32_t i = 0; i < KEYS; i++) {
				model_end(&model[i], stacks, w.mono);
				check_key(win, &model[i], i + 1, stacks);
				memset(model[i].ns, 0, sizeof(model[i].ns));
				memset(model[i].cpu, 0, sizeof(model[i].cpu));
			}
			window_free(win);
		}
	}
	world_deinit(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unchanged_is_one_interval),
		cmocka_unit_test(every_change_splits),
		cmocka_unit_test(looks_need_a_track_and_a_tick),
		cmocka_unit_test(vanishing_leaves_a_gap),
		cmocka_unit_test(a_reused_key_is_another_track),
		cmocka_unit_test(late_looks_do_not_turn_time_back),
		cmocka_unit_test(a_random_history),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
