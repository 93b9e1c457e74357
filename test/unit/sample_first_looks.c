/*
 * sample_first_looks.c: goroutines that have to wait for their first look, because there are more than a tick has time
 * for: their time is told, by what their headers say.
 */
#include "turns_world.h"

/* Whose first turn is put off is told without a stack: its time is not lost. */
static void one_that_has_no_turn_yet_is_told(void **state)
{
	struct scene *x = *state;
	struct window *w;

	x->budget = (struct budget){ .headers = N, .stacks = 0 };
	for (int i = 0; i < 3; i++)
		sample(x, -1);
	w = close_window(x);
	assert_int_equal(w->n_tracks, N);
	for (uint32_t i = 0; i < N; i++) {
		assert_int_equal(w->tracks[i].n, 1);
		assert_int_equal(w->tracks[i].v[0].stack, x->s.unread);
		assert_int_equal(w->tracks[i].v[0].end_tick - w->tracks[i].v[0].first_tick, 3);
	}
	window_free(w);
}

/* There is time for few first looks: each goroutine gets its own, and one is enough for those that were there before. */
static void first_looks_come_one_by_one(void **state)
{
	struct scene *x = *state;
	uint32_t known, reads = 0;
	int ticks;

	x->budget = (struct budget){ .headers = N, .stacks = 5 };
	for (ticks = 0, known = 0; known < N && ticks < N / 5 + 2; ticks++) {
		sample(x, -1);
		known = 0;
		for (int i = 0; i < N; i++)
			known += slot_of(x, i)->known;
		assert_in_range(known + 3, 5 * (ticks + 1), 5 * (ticks + 1) + 3);	/* an audit may take a place */
	}
	assert_int_equal(known, N);
	for (int i = 0; i < N; i++)
		reads += (uint32_t)x->stacks_read[i];
	assert_in_range(reads, N, N + 4);	/* an audit may come in */
	sample(x, -1);
	assert_false(x->s.put_off);
}

/* While it waits for its first look it is told what its header says: at first runnable, then waiting. */
static void state_of_one_that_waits_for_a_look_is_told(void **state)
{
	struct scene *x = *state;
	struct window *w;

	for (int i = 0; i < N; i++)
		put(x, g_at(i), GO_G_ATOMICSTATUS, G_RUNNABLE);
	x->budget = (struct budget){ .headers = N, .stacks = 0 };
	for (int i = 0; i < 3; i++)
		sample(x, -1);
	for (int i = 0; i < N; i++)
		park(x, i);
	for (int i = 0; i < 7; i++)
		sample(x, -1);
	w = close_window(x);
	assert_int_equal(w->n_tracks, N);
	for (uint32_t i = 0; i < N; i++) {
		assert_int_equal(w->tracks[i].n, 2);
		assert_int_equal(w->tracks[i].v[0].end_tick, 3);
		assert_int_equal(w->tracks[i].v[1].end_tick, 10);
	}
	window_free(w);
}

/* A held thread speaks for one that was put off: it is not told as not looked at. */
static void one_that_is_held_has_been_looked_at(void **state)
{
	struct scene *x = *state;
	struct window *w;

	see_all(x);
	x->budget = (struct budget){ .headers = N + 1, .stacks = 0 };
	make(x, N);
	count(x, N + 1);
	for (int i = 0; i < 3; i++)
		sample(x, N);
	w = close_window(x);
	assert_int_equal(w->n_tracks, N + 1);
	for (uint32_t k = 0; k < w->n_tracks; k++)
		for (uint32_t i = 0; w->tracks[k].info.key == 100 + N && i < w->tracks[k].n; i++)
			assert_int_not_equal(w->tracks[k].v[i].stack, x->s.unread);
	window_free(w);
}

/* Told of by a thread, then put off, then dead before the tick is over: the tick goes on without it. */
static void one_that_dies_in_between_is_no_failure(void **state)
{
	struct scene *x = *state;
	struct window *w;

	see_all(x);
	for (int i = 0; i < N; i++)
		park(x, i);
	x->budget = (struct budget){ .headers = N + 1, .stacks = 0 };
	make(x, N);
	sample(x, N);
	park(x, N);
	count(x, N + 1);
	x->dies = N;
	sample(x, -1);
	w = close_window(x);
	assert_int_equal(w->health[HEALTH_TICKS_DONE], x->s.tick);
	window_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(one_that_has_no_turn_yet_is_told),
		T(first_looks_come_one_by_one),
		T(state_of_one_that_waits_for_a_look_is_told),
		T(one_that_is_held_has_been_looked_at),
		T(one_that_dies_in_between_is_no_failure),
		WITHOUT_COUNTER(one_that_has_no_turn_yet_is_told),
		WITHOUT_COUNTER(state_of_one_that_waits_for_a_look_is_told),
		WITHOUT_COUNTER(one_that_is_held_has_been_looked_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
