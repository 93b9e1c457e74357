/*
 * profile_window.c: windows and clocks. One ends where the next begins; the real clock may be set
 * back and the machine may sleep; a closed window lives on without the store changing it.
 */
#include "profile_world.h"

static void back_to_back(void **state)
{
	struct world w;
	struct window *a, *b;

	(void)state;
	world_init(&w);
	track(&w, 1, "main.main");
	tick(&w);
	look(&w, 1, stack1(&w, "f"), "IO wait", 0, false);
	assert_int_equal(profile_window_age(w.p, w.mono), 0);
	world_pass(&w, TICK);
	assert_int_equal(profile_window_age(w.p, w.mono), TICK);
	a = close_now(&w);
	assert_int_equal(profile_window_age(w.p, w.mono), 0);
	world_pass(&w, 3 * TICK);	/* the next tick comes late */
	tick(&w);
	assert_int_equal(profile_window_age(w.p, w.mono), 3 * TICK);
	world_pass(&w, TICK);
	b = close_now(&w);
	assert_int_equal(a->number, 1);
	assert_int_equal(b->number, 2);
	assert_int_equal(a->start.real, 1700000000123456789);
	assert_int_equal(a->end.real, a->start.real + TICK);
	assert_memory_equal(&b->start, &a->end, sizeof(a->end));
	/* Never mentioned again, and there all the time. */
	assert_int_equal(b->n_tracks, 1);
	assert_int_equal(b->tracks[0].v[0].t_start, a->end.mono);
	assert_int_equal(b->tracks[0].v[0].t_end, b->end.mono);
	assert_int_equal(b->tracks[0].v[0].first_tick, 0);
	assert_int_equal(b->tracks[0].v[0].end_tick, 1);
	window_free(a);
	window_free(b);
	world_deinit(&w);
}

/* goprof was stopped for a minute: no window and no interval covers it. */
static void a_pause_is_left_out(void **state)
{
	struct world w;
	struct window *a, *b;
	uint64_t resumed;

	(void)state;
	world_init(&w);
	assert_int_equal(profile_skip(w.p, w.mono), 0);	/* before the first window: nothing */
	track(&w, 1, "main.main");
	tick(&w);
	look(&w, 1, stack1(&w, "f"), "IO wait", 0, false);
	assert_int_equal(profile_skip(w.p, w.mono + TICK), 0);	/* while one is open: nothing */
	world_pass(&w, TICK);
	a = close_now(&w);
	world_pass(&w, 60ull * NSEC_PER_SEC);
	w.real -= 3600ull * NSEC_PER_SEC;	/* and the real clock was set back */
	resumed = w.mono;
	assert_true(profile_skip(w.p, resumed) == 60ull * NSEC_PER_SEC);
	world_pass(&w, TICK);
	tick(&w);
	look(&w, 1, stack1(&w, "f"), "IO wait", 0, false);
	world_pass(&w, TICK);
	b = close_now(&w);
	assert_int_equal(b->start.mono, resumed);
	assert_true(b->start.real >= a->end.real);
	assert_int_equal(b->end.mono - b->start.mono, 2 * TICK);
	assert_int_equal(a->tracks[0].v[0].t_end, a->end.mono);
	assert_int_equal(b->tracks[0].n, 1);
	assert_int_equal(b->tracks[0].v[0].t_start, resumed);
	assert_int_equal(b->tracks[0].v[0].t_end, b->end.mono);
	window_free(a);
	window_free(b);
	world_deinit(&w);
}

/* It was stopped in the middle of a tick: what the tick saw afterwards belongs to its beginning. */
static void a_tick_cut_in_two(void **state)
{
	struct world w;
	struct window *a;
	uint64_t stopped;

	(void)state;
	world_init(&w);
	profile_cut(w.p, w.mono);	/* nothing is open: nothing */
	track(&w, 1, "main.main");
	track(&w, 2, "main.other");
	tick(&w);
	look(&w, 1, stack1(&w, "f"), "IO wait", 0, false);
	look(&w, 2, stack1(&w, "f"), "IO wait", 0, false);
	world_pass(&w, TICK);
	tick(&w);
	stopped = w.mono;
	world_pass(&w, 60ull * NSEC_PER_SEC);
	look(&w, 1, stack1(&w, "g"), "running", 0, false);
	profile_cut(w.p, stopped);
	assert_null(profile_close_window(w.p, stopped, &a));
	assert_int_equal(a->end.mono, stopped);
	for (uint32_t i = 0; i < a->n_tracks; i++)
		for (uint32_t k = 0; k < a->tracks[i].n; k++)
			assert_true(a->tracks[i].v[k].t_start <= a->tracks[i].v[k].t_end &&
				    a->tracks[i].v[k].t_end <= stopped);
	assert_int_equal(track_of(a, 1)->n, 2);
	assert_int_equal(track_of(a, 1)->v[1].t_start, stopped);
	window_free(a);
	world_deinit(&w);
}

static void real_time_set_back(void **state)
{
	struct world w;
	uint64_t last_end = 0;

	(void)state;
	world_init(&w);
	for (int i = 0; i < 6; i++) {
		struct window *win;

		tick(&w);
		world_pass(&w, NSEC_PER_SEC);
		if (i == 1)
			w.real -= 3ull * NSEC_PER_SEC;
		if (i == 3)
			w.real += 5ull * NSEC_PER_SEC;
		win = close_now(&w);
		assert_true(win->start.real >= last_end);
		assert_int_equal(win->end.real - win->start.real, NSEC_PER_SEC);
		/* Set back: the windows go on where they were. Set forward: they follow. */
		if (i == 2 || i == 3)
			assert_int_equal(win->start.real, last_end);
		if (i >= 4)
			assert_int_equal(win->end.real, w.real);
		last_end = win->end.real;
		window_free(win);
	}
	world_deinit(&w);
}

static void suspend_shows_in_boot_time(void **state)
{
	struct world w;
	struct window *a, *b;
	const uint64_t asleep = 3600ull * NSEC_PER_SEC;

	(void)state;
	world_init(&w);
	tick(&w);
	world_pass(&w, TICK);
	w.boot += asleep;
	w.real += asleep;
	a = close_now(&w);
	assert_int_equal(a->end.mono - a->start.mono, TICK);
	assert_int_equal(a->end.boot - a->start.boot, TICK + asleep);
	assert_int_equal(a->end.real - a->start.real, TICK);
	world_pass(&w, TICK);
	tick(&w);
	b = close_now(&w);
	assert_int_equal(b->start.mono, a->end.mono);
	assert_int_equal(b->start.real, a->end.real + asleep);
	assert_int_equal(b->start.boot, a->end.boot);
	window_free(a);
	window_free(b);
	world_deinit(&w);
}

static void nothing_open_nothing_to_close(void **state)
{
	struct world w;
	struct window *win = NULL;

	(void)state;
	world_init(&w);
	assert_ptr_equal(profile_close_window(w.p, w.mono, &win), &err_notfound);
	tick(&w);
	window_free(close_now(&w));
	assert_ptr_equal(profile_close_window(w.p, w.mono, &win), &err_notfound);
	assert_null(win);
	window_free(NULL);
	world_deinit(&w);
}

/* The end that is asked for lies before the last look: no interval may turn round. */
static void closing_never_before_the_last_look(void **state)
{
	struct world w;
	struct window *win;
	uint64_t asked;

	(void)state;
	world_init(&w);
	track(&w, 1, "main.main");
	asked = w.mono;
	tick(&w);
	world_pass(&w, 5000);
	look(&w, 1, stack1(&w, "f"), "running", 0, false);
	must(profile_close_window(w.p, asked, &win));
	assert_int_equal(win->end.mono, w.mono);
	assert_int_equal(win->tracks[0].v[0].t_end, w.mono);
	window_free(win);
	world_deinit(&w);
}

static void credit_only_while_open(void **state)
{
	struct world w;
	struct profile_ref ref;
	struct window *win;

	(void)state;
	world_init(&w);
	track(&w, 1, "main.main");
	tick(&w);
	ref = look(&w, 1, stack1(&w, "f"), "running", 0, true);
	assert_true(profile_credit(w.p, ref, 5));
	profile_credit_unseen(w.p, 6);
	profile_credit_ended(w.p, 7);
	win = close_now(&w);
	assert_int_equal(win->cpu_unseen_ns, 6);
	assert_int_equal(win->cpu_ended_ns, 7);
	assert_int_equal(win->tracks[0].cpu_ns, 5);
	assert_false(profile_credit(w.p, ref, 5));
	window_free(win);
	tick(&w);
	assert_false(profile_credit(w.p, ref, 5));
	win = close_now(&w);
	assert_int_equal(win->cpu_unseen_ns, 0);
	assert_int_equal(win->cpu_ended_ns, 0);
	assert_int_equal(win->tracks[0].cpu_ns, 0);
	window_free(win);
	world_deinit(&w);
}

static void health_belongs_to_its_window(void **state)
{
	struct world w;
	struct window *win;

	(void)state;
	world_init(&w);
	tick(&w);
	profile_health_add(w.p, HEALTH_TICKS_DONE, 2);
	profile_health_add(w.p, HEALTH_TICKS_DONE, 3);
	profile_health_set(w.p, HEALTH_HELD_MEDIAN, 9000);
	win = close_now(&w);
	assert_int_equal(win->health[HEALTH_TICKS_DONE], 5);
	assert_int_equal(win->health[HEALTH_HELD_MEDIAN], 9000);
	window_free(win);
	tick(&w);
	win = close_now(&w);
	assert_int_equal(win->health[HEALTH_TICKS_DONE], 0);
	window_free(win);
	for (int i = 0; i < HEALTH_COUNT; i++) {
		assert_true(health_table[i].name && *health_table[i].name);
		assert_non_null(health_table[i].text);
	}
	assert_int_equal(health_merge(HEALTH_TICKS_DONE, 2, 3), 5);
	assert_int_equal(health_merge(HEALTH_HELD_P99, 2, 3), 3);
	assert_int_equal(health_merge(HEALTH_HELD_P99, 3, 2), 3);
	world_deinit(&w);
}

/* Goroutines come and go by the thousand: what has gone takes no room after its window. */
/* Of a window that will be told to nobody: how long it was, and what it would have told of. */
static void length_and_health_before_the_layout(void **state)
{
	struct closed_window *c;
	struct world w;

	(void)state;
	world_init(&w);
	track(&w, 1, "main.main");
	tick(&w);
	look(&w, 1, stack1(&w, "f"), "running", 0, true);
	profile_health_add(w.p, HEALTH_WINDOWS_LOST, 2);
	world_pass(&w, TICK);
	must(profile_detach_window(w.p, w.mono, &c));
	assert_int_equal(closed_window_ns(c), TICK);
	assert_int_equal(closed_window_health(c, HEALTH_WINDOWS_LOST), 2);
	assert_int_equal(closed_window_health(c, HEALTH_TIME_LOST), 0);
	closed_window_free(c);
	world_deinit(&w);
}

static void ended_goroutines_are_forgotten(void **state)
{
	struct world w;
	uint64_t key = 1;

	(void)state;
	world_init(&w);
	for (int round = 0; round < 20; round++) {
		struct profile_track_info info;
		struct window *win;

		tick(&w);
		for (int i = 0; i < 1000; i++, key++) {
			track(&w, key, "main.work");
			look(&w, key, stack1(&w, "f"), "running", 0, false);
			if (i)
				profile_gone(w.p, key, w.mono + 1);
		}
		world_pass(&w, TICK);
		win = close_now(&w);
		assert_int_equal(win->n_tracks, 1000 + round);
		window_free(win);
		assert_false(profile_has_track(w.p, key - 1));
		assert_true(profile_has_track(w.p, key - 1000));
		assert_true(profile_track_get(w.p, key - 1000, &info));
		assert_int_equal(info.key, key - 1000);
	}
	world_deinit(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(back_to_back),
		cmocka_unit_test(a_pause_is_left_out),
		cmocka_unit_test(a_tick_cut_in_two),
		cmocka_unit_test(real_time_set_back),
		cmocka_unit_test(suspend_shows_in_boot_time),
		cmocka_unit_test(nothing_open_nothing_to_close),
		cmocka_unit_test(closing_never_before_the_last_look),
		cmocka_unit_test(credit_only_while_open),
		cmocka_unit_test(health_belongs_to_its_window),
		cmocka_unit_test(length_and_health_before_the_layout),
		cmocka_unit_test(ended_goroutines_are_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
