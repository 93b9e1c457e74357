/*
 * export_aggregate.c: the two tables of the summary, on stacks whose sums can be done by hand:
 * recursion counts once, wrappers are passed over, the line is the one met most, averages are over
 * the whole time; and both against sums made in another way over a random history.
 */
#include "profile_world.h"

#include <stdlib.h>

#include "export/export.h"

static const struct top_function *function(const struct top_function *v, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(v[i].function, name))
			return &v[i];
	return NULL;
}

static void functions_by_hand(void **state)
{
	struct world w;
	struct aggregate *a;
	struct window *win;
	const struct top_function *v, *f;
	profile_id rec1, rec2, rec3, wrap, leaf;
	size_t n;

	(void)state;
	world_init(&w);
	must(aggregate_create(&a));
	must(aggregate_functions(a, &v, &n));
	assert_int_equal(n, 0);
	rec1 = frame(&w, "main", "rec", 10, 0);
	rec2 = frame(&w, "main", "rec", 20, 0);
	rec3 = frame(&w, "main", "rec", 30, 0);
	leaf = frame(&w, "main", "leaf", 5, 0);
	wrap = frame(&w, "main", "wrap", 1, PROFILE_FRAME_WRAPPER);
	track(&w, 1, "main.main");
	tick(&w);
	profile_credit(w.p, look(&w, 1, stack_of(&w, (profile_id[]){ rec1, rec2, rec3 }, 3, 1), "x", 0, true), 100);
	profile_credit(w.p, look(&w, 1, stack_of(&w, (profile_id[]){ wrap, leaf, rec2 }, 3, 1), "x", 0, true), 30);
	profile_credit(w.p, look(&w, 1, stack_of(&w, (profile_id[]){ leaf }, 1, 1), "x", 0, true), 7);
	profile_credit(w.p, look(&w, 1, PROFILE_STACK_EMPTY, "x", 0, true), 2);
	profile_credit_unseen(w.p, 11);
	profile_credit_ended(w.p, 13);
	profile_health_add(w.p, HEALTH_STACKS, 4);
	profile_health_set(w.p, HEALTH_HELD_MEDIAN, 4);
	world_pass(&w, TICK);
	win = close_now(&w);
	must(aggregate_window(a, win));
	must(aggregate_window(a, win));
	must(aggregate_functions(a, &v, &n));
	assert_int_equal(n, 2);
	assert_ptr_equal(&v[0], function(v, n, "main.rec"));	/* most self time first */
	f = function(v, n, "main.rec");
	assert_int_equal(f->self_ns, 200);
	assert_int_equal(f->total_ns, 260);
	assert_int_equal(f->line, 20);
	assert_string_equal(f->file, "main/file.go");
	f = function(v, n, "main.leaf");
	assert_int_equal(f->self_ns, 74);
	assert_int_equal(f->total_ns, 74);
	assert_int_equal(aggregate_cpu_ns(a), 278);
	assert_int_equal(aggregate_unseen_ns(a), 22);
	assert_int_equal(aggregate_ended_ns(a), 26);
	assert_int_equal(aggregate_wall_ns(a), 2 * TICK);
	assert_int_equal(aggregate_health(a)[HEALTH_STACKS], 8);
	assert_int_equal(aggregate_health(a)[HEALTH_HELD_MEDIAN], 4);
	window_free(win);
	aggregate_destroy(a);
	aggregate_destroy(NULL);
	world_deinit(&w);
}

static void groups_by_hand(void **state)
{
	struct world w;
	struct aggregate *a;
	const struct top_group *v;
	size_t n;

	(void)state;
	world_init(&w);
	must(aggregate_create(&a));
	track(&w, 1, "main.a");
	track(&w, 2, "main.b");
	track(&w, 3, "main.b");
	track(&w, PROFILE_THREAD_KEY + 1, "[gc]");	/* no goroutine */
	for (int i = 0; i < 8; i++) {
		tick(&w);
		if (!i)
			look(&w, PROFILE_THREAD_KEY + 1, stack1(&w, "f"), "running", 0, false);
		look(&w, 1, stack1(&w, "f"), i < 2 ? "running" : "IO wait", 0, false);
		look(&w, 2, stack1(&w, "f"), "IO wait", 0, false);
		if (i == 4)
			look(&w, 3, stack1(&w, "f"), "IO wait", 0, false);
		world_pass(&w, TICK);
		if (i == 5) {
			struct window *win = close_now(&w);

			must(aggregate_window(a, win));
			window_free(win);
		}
	}
	{
		struct window *win = close_now(&w);

		must(aggregate_window(a, win));
		window_free(win);
	}
	must(aggregate_groups(a, &v, &n));
	assert_int_equal(n, 3);
	assert_string_equal(v[0].entry, "main.b");
	assert_string_equal(v[0].state, "IO wait");
	assert_string_equal(v[0].file, "app.go");
	assert_int_equal(v[0].line, 7);
	assert_float_equal(v[0].average, 1.5, 1e-9);
	assert_string_equal(v[1].state, "IO wait");
	assert_float_equal(v[1].average, 0.75, 1e-9);
	assert_float_equal(v[2].average, 0.25, 1e-9);
	assert_float_equal(aggregate_goroutines_average(a), 2.5, 1e-9);
	assert_int_equal(aggregate_goroutines_seen(a), 3);
	aggregate_destroy(a);
	world_deinit(&w);
}

/* Thousands of stacks: each total must be what adding up stack by stack gives. */
static void many_stacks(void **state)
{
	enum { FUNCTIONS = 50, STACKS = 3000, DEPTH = 12 };
	static uint64_t self[FUNCTIONS], total[FUNCTIONS];
	struct world w;
	struct aggregate *a;
	struct window *win;
	const struct top_function *v;
	profile_id frames[FUNCTIONS];
	uint64_t seed = 7, sum = 0;
	size_t n;

	(void)state;
	world_init(&w);
	must(aggregate_create(&a));
	for (int i = 0; i < FUNCTIONS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%02d", i);
		frames[i] = frame(&w, "main", name, 1, 0);
	}
	track(&w, 1, "main.main");
	tick(&w);
	for (int s = 0; s < STACKS; s++) {
		profile_id stack[DEPTH];
		bool met[FUNCTIONS] = { 0 };
		uint32_t depth = 1 + draw(&seed, DEPTH), ns = 1 + draw(&seed, 1000);

		for (uint32_t i = 0; i < depth; i++) {
			uint32_t f = draw(&seed, FUNCTIONS);

			stack[i] = frames[f];
			self[f] += i ? 0 : ns;
			total[f] += met[f] ? 0 : ns;
			met[f] = true;
		}
		sum += ns;
		profile_credit(w.p, look(&w, 1, stack_of(&w, stack, depth, 1), "x", 0, true), ns);
	}
	win = close_now(&w);
	must(aggregate_window(a, win));
	must(aggregate_functions(a, &v, &n));
	assert_int_equal(n, FUNCTIONS);
	for (size_t i = 0; i < n; i++) {
		int f = atoi(v[i].function + strlen("main.f"));

		assert_int_equal(v[i].self_ns, self[f]);
		assert_int_equal(v[i].total_ns, total[f]);
		assert_true(!i || v[i - 1].self_ns >= v[i].self_ns);
	}
	assert_int_equal(aggregate_cpu_ns(a), sum);
	window_free(win);
	aggregate_destroy(a);
	world_deinit(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_by_hand),
		cmocka_unit_test(groups_by_hand),
		cmocka_unit_test(many_stacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
