/*
 * profile_epochs.c: tables that begin anew. What goes on keeps its names under new ids, windows of earlier
 * epochs can be read until they are freed, and then their tables are gone; a store through whose tables
 * millions of label sets and stacks go stays small.
 */
#include "profile_world.h"

#include <malloc.h>
#include <stdlib.h>

#include "profile/profile_impl.h"

/* Of the address sanitizer, where there is one: mallinfo2 knows nothing then. */
__attribute__((weak)) size_t __sanitizer_get_current_allocated_bytes(void);

static size_t allocated(void)
{
	struct mallinfo2 m = mallinfo2();

	return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes()
							: m.uordblks + m.hblkhd;
}

/* {request: "r<n>"} */
static profile_id request(struct world *w, uint64_t n)
{
	char value[32];
	struct profile_label l = { .key = text(w, "request") };
	profile_id id;

	snprintf(value, sizeof(value), "r%llu", (unsigned long long)n);
	l.value = text(w, value);
	must(profile_labels(w->p, &l, 1, &id));
	return id;
}

static void begin_epoch(struct world *w)
{
	struct profile_carry *c;

	must(profile_begin_epoch(w->p, &c));
	profile_carry_free(c);
}

static const char *leaf_of(const struct window *win, const struct interval *iv)
{
	struct profile_stack s = profile_stack_get(win->profile, iv->stack);

	return s.n ? profile_string_get(win->profile, profile_frame_get(win->profile, s.frames[0])->function) : "";
}

static const char *request_of(const struct window *win, const struct interval *iv)
{
	struct profile_labels l = profile_labels_get(win->profile, iv->labels);

	return l.n ? profile_string_get(win->profile, l.v[0].value) : "";
}

static void says(const struct window *win, uint64_t key, const char *leaf, const char *state, const char *labels)
{
	const struct window_track *t = track_of(win, key);

	assert_non_null(t);
	assert_int_equal(t->n, 1);
	assert_string_equal(leaf_of(win, t->v), leaf);
	assert_string_equal(profile_string_get(win->profile, t->v[0].state), state);
	assert_string_equal(request_of(win, t->v), labels);
	assert_string_equal(profile_string_get(win->profile, t->info.entry), "main.work");
	assert_string_equal(profile_string_get(win->profile, t->info.entry_file), "app.go");
	assert_int_equal(t->info.entry_line, 7);
}

static void names_outlive_an_epoch(void **state)
{
	struct world w;
	struct window *a, *b;
	profile_id unused;
	uint32_t before;

	(void)state;
	world_init(&w);
	for (uint64_t key = 1; key <= 4; key++)
		track(&w, key, "main.work");
	for (uint64_t n = 100; n < 200; n++)
		request(&w, n);
	unused = stack1(&w, "unused");
	tick(&w);
	look(&w, 1, stack1(&w, "f"), "IO wait", request(&w, 1), false);
	look(&w, 2, stack1(&w, "g"), "running", request(&w, 2), true);
	look(&w, 3, PROFILE_STACK_EMPTY, "running", PROFILE_LABELS_UNKNOWN, false);
	world_pass(&w, TICK);
	a = close_now(&w);
	before = profile_string_count(w.p);
	begin_epoch(&w);
	assert_int_equal(profile_epoch(w.p), 1);
	assert_true(profile_string_count(w.p) < before - 100);	/* what nobody needs is not there */
	assert_int_equal(profile_string_count(a->profile), before);
	tick(&w);
	/* The same again under its new ids changes nothing, and 4 was never looked at. */
	look(&w, 2, stack1(&w, "g"), "running", request(&w, 2), true);
	track(&w, 4, "main.work");
	look(&w, 4, stack1(&w, "new"), "running", request(&w, 4), false);
	world_pass(&w, TICK);
	b = close_now(&w);
	assert_int_equal(a->epoch, 0);
	assert_int_equal(b->epoch, 1);
	says(a, 1, "main.f", "IO wait", "r1");
	says(a, 2, "main.g", "running", "r2");
	says(b, 1, "main.f", "IO wait", "r1");
	says(b, 2, "main.g", "running", "r2");
	says(b, 4, "main.new", "running", "r4");
	assert_int_equal(track_of(b, 3)->v[0].labels, PROFILE_LABELS_UNKNOWN);
	assert_int_equal(track_of(b, 3)->v[0].stack, PROFILE_STACK_EMPTY);
	assert_int_equal(profile_stack_get(a->profile, unused).n, 2);
	/* What is learnt of the program later is not theirs. */
	world_restrict(&w, "late");
	assert_string_equal(profile_meta(w.p)->restricted, "late");
	assert_null(profile_meta(b->profile)->restricted);
	assert_string_equal(profile_meta(a->profile)->exe, "/srv/app");
	/* The store may go before the windows. */
	world_deinit(&w);
	says(a, 2, "main.g", "running", "r2");
	says(b, 4, "main.new", "running", "r4");
	assert_string_equal(profile_meta(b->profile)->exe, "/srv/app");
	window_free(b);
	window_free(a);
}

/* Filled while the window goes on: what changes meanwhile, begins or ends is right in the end. */
static void prepared_in_steps(void **state)
{
	enum { TRACKS = 300 };
	struct world w;
	struct window *win;
	char leaf[32], labels[32];
	uint32_t carried;

	(void)state;
	world_init(&w);
	tick(&w);
	for (uint64_t key = 1; key <= TRACKS; key++) {
		track(&w, key, "main.work");
		look(&w, key, stack1(&w, "f"), "IO wait", request(&w, key), false);
	}
	for (uint64_t step = 0; step < 10; step++) {
		must(profile_prepare_epoch(w.p, 40));
		tick(&w);
		for (uint64_t key = 1 + step; key <= TRACKS; key += 50) {	/* noted already, or not yet */
			snprintf(leaf, sizeof(leaf), "f%u", (unsigned)step);
			look(&w, key, stack1(&w, leaf), "running", request(&w, 1000 + key), false);
		}
		profile_gone(w.p, 300 - step, w.mono);
		track(&w, 400 + step, "main.work");
		look(&w, 400 + step, stack1(&w, "new"), "running", request(&w, 400 + step), false);
		world_pass(&w, TICK);
	}
	window_free(close_now(&w));
	carried = profile_labels_count(&w.p->next->names);
	begin_epoch(&w);
	assert_int_equal(profile_labels_count(w.p), carried);	/* nothing was left to be done */
	tick(&w);
	world_pass(&w, TICK);
	win = close_now(&w);
	assert_int_equal(win->epoch, 1);
	assert_int_equal(win->n_tracks, TRACKS);
	for (uint64_t key = 1; key <= 290; key++) {
		unsigned int step = (unsigned int)((key - 1) % 50);

		snprintf(leaf, sizeof(leaf), step < 10 ? "main.f%u" : "main.f", step);
		snprintf(labels, sizeof(labels), "r%u", (unsigned)key + (step < 10 ? 1000 : 0));
		says(win, key, leaf, step < 10 ? "running" : "IO wait", labels);
	}
	for (unsigned int key = 400; key < 410; key++) {
		snprintf(labels, sizeof(labels), "r%u", key);
		says(win, key, "main.new", "running", labels);
	}
	window_free(win);
	/* One that was begun and never used. */
	must(profile_prepare_epoch(w.p, 10));
	world_deinit(&w);
}

/* An id is carried once and for all; one that does not exist is refused. */
static void ids_are_carried(void **state)
{
	struct world w;
	struct profile_carry *c;
	profile_id stack, again, labels, string, bad = 1 << 20;
	struct profile_image image = { .start = 1, .end = 2 };
	struct error *err;

	(void)state;
	world_init(&w);
	image.name = text(&w, "libc.so.6");
	must(profile_image(w.p, &image));
	stack = again = stack1(&w, "f");
	labels = request(&w, 1);
	string = text(&w, "state");
	tick(&w);
	err = profile_begin_epoch(w.p, &c);	/* within a window */
	assert_int_equal(err->kind, ERROR_INTERNAL);
	error_free(err);
	window_free(close_now(&w));
	must(profile_begin_epoch(w.p, &c));
	assert_int_equal(profile_stack_count(w.p), 1);
	assert_int_equal(profile_image_count(w.p), 1);
	assert_string_equal(profile_string_get(w.p, profile_image_get(w.p, 0)->name), "libc.so.6");
	must(profile_carry_stack(c, &stack));
	must(profile_carry_stack(c, &again));
	must(profile_carry_labels(c, &labels));
	must(profile_carry_string(c, &string));
	assert_int_equal(stack, again);
	assert_int_equal(stack, stack1(&w, "f"));
	assert_int_equal(labels, request(&w, 1));
	assert_int_equal(string, text(&w, "state"));
	err = profile_carry_stack(c, &bad);
	assert_int_equal(err->kind, ERROR_INTERNAL);
	error_free(err);
	profile_carry_free(c);
	world_deinit(&w);
}

/* One that is gone when the epoch ends, and comes back, is not taken for what its old ids would say. */
static void keys_come_back(void **state)
{
	struct world w;
	struct window *win;

	(void)state;
	world_init(&w);
	track(&w, 1, "main.old");
	track(&w, 2, "main.work");
	tick(&w);
	look(&w, 1, stack1(&w, "f"), "running", 0, false);
	look(&w, 2, stack1(&w, "f"), "running", 0, false);
	profile_gone(w.p, 1, w.mono);
	world_pass(&w, TICK);
	window_free(close_now(&w));
	begin_epoch(&w);
	assert_false(profile_has_track(w.p, 1));
	for (int i = 0; i < 50; i++)
		request(&w, i);
	tick(&w);
	track(&w, 1, "main.work");
	look(&w, 1, stack1(&w, "g"), "running", 0, false);
	profile_gone(w.p, 2, w.mono);
	track(&w, 2, "main.work");
	look(&w, 2, stack1(&w, "h"), "running", 0, false);
	world_pass(&w, TICK);
	win = close_now(&w);
	assert_int_equal(win->n_tracks, 2);
	says(win, 1, "main.g", "running", "");
	assert_int_equal(track_of(win, 2)->n, 2);	/* the same facts: the same track */
	window_free(win);
	world_deinit(&w);
}

/* The tables of an epoch are freed with the last window that needs them. */
static void freed_with_the_last_window(void **state)
{
	enum { MANY = 20000 };
	struct world w;
	struct window *a, *b;
	size_t with, without;

	(void)state;
	world_init(&w);
	for (uint64_t i = 0; i < MANY; i++)
		request(&w, i);
	tick(&w);
	world_pass(&w, TICK);
	a = close_now(&w);
	tick(&w);
	world_pass(&w, TICK);
	b = close_now(&w);
	begin_epoch(&w);
	with = allocated();
	window_free(a);
	assert_true(with - allocated() < 64 * 1024);
	assert_string_equal(profile_string_get(b->profile, profile_string_count(b->profile) - 1), "r19999");
	window_free(b);
	without = allocated();
	/* Each of them has a string, a set, and two places in the maps. */
	assert_true(with - without > MANY * 60);
	assert_true(profile_table_bytes(w.p) < 64 * 1024);
	world_deinit(&w);
}

/* More in use than the limit allows: an epoch at each window would win nothing. */
static void what_is_in_use_makes_room(void **state)
{
	static const struct profile_limits small = { 64 * 1024, 256 * 1024, 1000 };
	struct world w;
	int epochs = 0;

	(void)state;
	world_init(&w);
	profile_set_limits(w.p, &small);
	assert_false(profile_epoch_over(w.p));
	for (int i = 0; i < 20; i++) {
		tick(&w);
		for (uint64_t key = 1; key <= 3000; key++) {
			track(&w, key, "main.work");
			if (!i)
				look(&w, key, stack1(&w, "f"), "running", request(&w, key), false);
		}
		world_pass(&w, TICK);
		window_free(close_now(&w));
		if (!profile_epoch_over(w.p))
			continue;
		begin_epoch(&w);
		epochs++;
	}
	assert_int_equal(epochs, 1);
	assert_true(profile_table_bytes(w.p) > small.table_bytes);
	world_deinit(&w);
}

static void full_before_its_time(void **state)
{
	static const struct profile_limits few = { 1 << 20, 2 << 20, 100 }, small = { 32 * 1024, 64 * 1024, 1 << 20 };
	struct world w;

	(void)state;
	world_init(&w);
	profile_set_limits(w.p, &few);
	track(&w, 1, "main.work");
	tick(&w);
	for (int i = 0; i < 99; i++)
		look(&w, 1, stack1(&w, i % 2 ? "f" : "g"), "running", 0, false);
	assert_false(profile_window_full(w.p));
	look(&w, 1, stack1(&w, "f"), "running", 0, false);
	assert_true(profile_window_full(w.p));
	for (uint64_t key = 2; key <= 100; key++)	/* as many goroutines need as many */
		track(&w, key, "main.work");
	assert_false(profile_window_full(w.p));
	profile_set_limits(w.p, &small);
	for (uint64_t i = 0; i < 1000; i++)
		request(&w, i);
	assert_true(profile_window_full(w.p));
	world_deinit(&w);
}

/* 10,000 windows of a program that never does the same thing twice. */
static void a_run_of_days_stays_small(void **state)
{
	enum { WINDOWS = 10000, LIVE = 50, NEW = 20 };
	static const struct profile_limits limits = { 256 * 1024, 1 << 20, 10000 };
	struct world w;
	size_t most_tables = 0, most = 0, start;
	uint64_t n = 0, seed = 3;
	uint32_t epochs = 0;

	(void)state;
	world_init(&w);
	profile_set_limits(w.p, &limits);
	start = allocated();
	for (int i = 0; i < WINDOWS; i++) {
		struct window *win;

		for (int k = 0; k < 3; k++) {
			tick(&w);
			for (int j = 0; j < NEW; j++, n++) {
				char leaf[32];

				snprintf(leaf, sizeof(leaf), "f%u", draw(&seed, 5000));
				track(&w, n + 1, "main.work");
				look(&w, n + 1, stack1(&w, leaf), "running", request(&w, n), false);
				if (n >= LIVE)
					profile_gone(w.p, n + 1 - LIVE, w.mono);
			}
			world_pass(&w, TICK);
		}
		win = close_now(&w);
		assert_int_equal(win->goroutines, n);
		assert_true(track_of(win, n)->n == 1 && track_of(win, n - LIVE + 1)->n == 1);
		window_free(win);
		most = allocated() - start > most ? allocated() - start : most;
		most_tables = profile_table_bytes(w.p) > most_tables ? profile_table_bytes(w.p) : most_tables;
		if (profile_epoch_over(w.p)) {
			begin_epoch(&w);
			epochs++;
		}
	}
	assert_true(epochs > 100);
	assert_true(most_tables < 2 * limits.table_bytes);
	assert_true(most < 4 * limits.table_bytes);
	world_deinit(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_outlive_an_epoch),
		cmocka_unit_test(prepared_in_steps),
		cmocka_unit_test(ids_are_carried),
		cmocka_unit_test(keys_come_back),
		cmocka_unit_test(freed_with_the_last_window),
		cmocka_unit_test(what_is_in_use_makes_room),
		cmocka_unit_test(full_before_its_time),
		cmocka_unit_test(a_run_of_days_stays_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
