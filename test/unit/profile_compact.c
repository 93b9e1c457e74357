/*
 * profile_compact.c: what a store of very many goroutines keeps, and that windows read track by track say the same as
 * laid out ones.
 */
#include "profile_world.h"

#include "profile/profile_impl.h"

enum { MANY = 20000, KEYS = 60, STEPS = 4000 };

/* Seen for the first time at one instant, they share what the log says; later each change is one entry. */
static void newcomers_share_entries(void **state)
{
	struct world w;
	profile_id unread, read;
	struct window *win;
	uint64_t begin;

	(void)state;
	world_init(&w);
	unread = stack1(&w, "unread");
	read = stack1(&w, "read");
	begin = w.mono;
	tick(&w);
	/* In any order, at one of twenty instants. */
	for (uint64_t i = 0; i < MANY; i++) {
		uint64_t key = 1 + i * 7919 % MANY;

		track(&w, key, "main.work");
		w.mono = begin + key / 1000 * 10;
		look(&w, key, unread, key % 2 ? "select" : "chan receive", 0, false);
	}
	assert_true(w.p->win.log.n <= 2 * (MANY / 1000 + 1));
	world_pass(&w, TICK);
	tick(&w);
	for (uint64_t key = 1; key <= MANY / 2; key++)
		look(&w, key, read, key % 2 ? "select" : "chan receive", 0, false);
	assert_true(w.p->win.log.n <= MANY / 2 + 2 * (MANY / 1000 + 1));
	world_pass(&w, TICK);
	win = close_now(&w);
	assert_int_equal(win->n_tracks, MANY);
	for (uint64_t key = 1; key <= MANY; key += 777) {
		const struct window_track *t = track_of(win, key);

		assert_int_equal(t->n, key <= MANY / 2 ? 2 : 1);
		assert_int_equal(t->v[0].stack, unread);
		assert_int_equal(t->v[0].t_start, win->start.mono + key / 1000 * 10);
		assert_int_equal(t->v[0].end_tick, key <= MANY / 2 ? 1 : 2);
		assert_int_equal(t->v[t->n - 1].t_end, win->end.mono);
	}
	window_free(win);
	world_deinit(&w);
}

/* In later windows: nothing for what stays as it is, even if it is looked at; one entry and a few for what changes. */
static void what_stays_costs_nothing(void **state)
{
	struct world w;
	profile_id a, b;
	struct closed_window *c;
	struct window *win;

	(void)state;
	world_init(&w);
	a = stack1(&w, "a");
	b = stack1(&w, "b");
	tick(&w);
	for (uint64_t key = 1; key <= MANY; key++) {
		track(&w, key, "main.work");
		look(&w, key, a, "select", 0, false);
	}
	must(profile_detach_window(w.p, w.mono, &c));
	world_pass(&w, TICK);
	tick(&w);
	for (uint64_t key = 1; key <= MANY; key++)
		look(&w, key, a, "select", 0, false);
	assert_int_equal(w.p->win.log.n, 0);
	for (uint32_t i = 0; i < w.p->tracks.n_blocks; i++)
		assert_true(w.p->tracks.shared[i]);
	for (uint64_t key = 1; key <= 100; key++)
		look(&w, key, b, "select", 0, false);
	assert_int_equal(w.p->win.log.n, 101);
	closed_window_free(c);
	world_pass(&w, TICK);
	win = close_now(&w);
	for (uint64_t key = 1; key <= 200; key++) {
		const struct window_track *t = track_of(win, key);

		assert_int_equal(t->n, key <= 100 ? 2 : 1);
		assert_int_equal(t->v[0].stack, a);
		assert_int_equal(t->v[0].t_start, win->start.mono);
		assert_int_equal(t->v[t->n - 1].stack, key <= 100 ? b : a);
	}
	window_free(win);
	world_deinit(&w);
}

/* A number of which nothing but a misread can be the cause is one like any other, if not quite the same. */
static void a_number_too_large(void **state)
{
	struct world w;
	struct window *win;

	(void)state;
	world_init(&w);
	tick(&w);
	track(&w, UINT64_MAX - 1, "main.work");
	assert_true(profile_has_track(w.p, UINT64_MAX - 1));
	look(&w, UINT64_MAX - 1, stack1(&w, "f"), "running", 0, false);
	profile_gone(w.p, UINT64_MAX - 1, w.mono);
	assert_false(profile_has_track(w.p, UINT64_MAX - 1));
	win = close_now(&w);
	assert_int_equal(win->n_tracks, 1);
	window_free(win);
	world_deinit(&w);
}

static void step(struct world *w, uint64_t *seed, profile_id stacks[4])
{
	uint64_t key = 1 + draw(seed, KEYS);

	world_pass(w, draw(seed, 50));
	if (!draw(seed, 6)) {
		profile_gone(w->p, key, w->mono);
		return;
	}
	track(w, key, draw(seed, 9) ? "main.work" : "main.other");
	if (draw(seed, 8)) {
		bool oncpu = !draw(seed, 3);

		assert_int_equal(profile_credit(w->p, look(w, key, stacks[draw(seed, 4)], "x", 0, oncpu), 7), oncpu);
	}
}

/* Any of its intervals can be had without the others. */
static void compare_parts(const struct window *w, uint32_t place, const struct window_track *t)
{
	struct window_room room = { 0 };
	const struct interval *v;

	for (uint32_t first = 0; first < t->n; first++)
		for (uint32_t end = first + 1; end <= t->n && end <= first + 4; end++) {
			must(window_intervals(w, place, t->v[end - 1].after, end - first, &room, &v));
			assert_memory_equal(v, t->v + first, (end - first) * sizeof(*v));
		}
	must(window_intervals(w, place, WINDOW_TRACK_END, t->n, &room, &v));
	assert_memory_equal(v, t->v, t->n * sizeof(*v));
	window_room_deinit(&room);
}

/* Place by place, what is there and what is laid out. */
static void compare(const struct window *w)
{
	struct window_room room = { 0 };
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->n_places; i++) {
		struct window_track t;
		const struct window_track *laid = &w->tracks[n];

		must(window_track(w, i, &room, &t));
		assert_int_equal(!t.n, !window_track_key(w, i));
		if (!t.n)
			continue;
		assert_true(n < w->n_tracks);
		assert_int_equal(t.info.key, window_track_key(w, i));
		assert_int_equal(t.v[0].t_start, window_track_start(w, i));
		assert_int_equal(t.n, laid->n);
		assert_int_equal(t.cpu_ns, laid->cpu_ns);
		assert_int_equal(t.info.entry, laid->info.entry);
		assert_memory_equal(t.v, laid->v, t.n * sizeof(*t.v));
		compare_parts(w, i, &t);
		for (uint32_t k = 0; k < t.n; k++) {
			assert_true(t.v[k].t_start <= t.v[k].t_end && t.v[k].first_tick <= t.v[k].end_tick);
			assert_true(!k || t.v[k - 1].t_end <= t.v[k].t_start);
		}
		n++;
	}
	assert_int_equal(n, w->n_tracks);
	window_room_deinit(&room);
}

static void one_by_one_as_laid_out(void **state)
{
	struct world w;
	profile_id stacks[4];
	uint64_t seed = 5, cpu = 0;

	(void)state;
	world_init(&w);
	for (int i = 0; i < 4; i++)
		stacks[i] = stack1(&w, (const char *[]){ "a", "b", "c", "d" }[i]);
	for (int round = 0; round < 20; round++) {
		struct window *win;

		for (int i = 0; i < STEPS / 20; i++) {
			if (i % 20 == 0)
				tick(&w);
			step(&w, &seed, stacks);
		}
		win = close_now(&w);
		compare(win);
		for (uint32_t i = 0; i < win->n_tracks; i++)
			cpu += win->tracks[i].cpu_ns;
		window_free(win);
	}
	assert_true(cpu > 1000);
	world_deinit(&w);
}

/* A window that could not be closed for want of memory is still open, and keeps nobody's blocks. */
static void closing_without_memory(void **state)
{
	struct world w;
	struct closed_window *c;
	struct window *win;
	struct slots free_before;

	(void)state;
	world_init(&w);
	track(&w, 1, "main.work");
	tick(&w);
	look(&w, 1, stack1(&w, "a"), "x", 0, false);
	free_before = w.p->tracks.free;
	w.p->tracks.free.n = UINT32_MAX;	/* more than there can be */
	assert_ptr_equal(profile_detach_window(w.p, w.mono, &c), &err_nomem);
	w.p->tracks.free = free_before;
	assert_int_equal(atomic_load(&w.p->tracks.blocks[0]->refs), 1);
	win = close_now(&w);
	assert_int_equal(win->n_tracks, 1);
	window_free(win);
	world_deinit(&w);
}

/* For an end there is room without asking for memory, also where a part of the log is full. */
static void room_for_ends(void **state)
{
	struct world w;
	profile_id a;
	const struct log *l;

	(void)state;
	world_init(&w);
	l = &w.p->win.log;
	a = stack1(&w, "a");
	track(&w, 1, "main.work");
	tick(&w);
	for (uint32_t i = 0; l->n < 2 * LOG_PART; i++) {
		look(&w, 1, a, i % 2 ? "x" : "y", 0, false);
		assert_true(l->n_parts > l->n / LOG_PART);
	}
	profile_gone(w.p, 1, w.mono);
	assert_int_equal(l->n, 2 * LOG_PART + 1);
	assert_int_equal(l->n_parts, 3);	/* it came into the spare one */
	world_deinit(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(newcomers_share_entries),
		cmocka_unit_test(what_stays_costs_nothing),
		cmocka_unit_test(a_number_too_large),
		cmocka_unit_test(one_by_one_as_laid_out),
		cmocka_unit_test(closing_without_memory),
		cmocka_unit_test(room_for_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
