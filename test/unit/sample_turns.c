/*
 * sample_turns.c: whole ticks of a sampler that cannot read all goroutines at once: each has its turn, and
 * one that was on a CPU does not stay there until its next turn.
 */
#include "turns_world.h"

static void each_has_its_turn(void **state)
{
	struct scene *x = *state;
	struct window *w;

	for (int round = 1; round <= 3; round++) {
		for (int i = 0; i < N / 8; i++) {
			assert_int_equal(x->s.alive, x->s.tick ? N : 0);	/* at first an estimate */
			sample(x, -1);
			assert_true(x->s.rotates);
		}
		for (int i = 0; i < N; i++) {
			park(x, i);
			assert_int_equal(x->stacks_read[i], round);
		}
	}
	w = close_window(x);
	assert_int_equal(w->n_tracks, N);
	assert_int_equal(w->health[HEALTH_G_PASSES], 3);
	assert_int_equal(w->health[HEALTH_G_READ], 3 * N);
	assert_int_equal(w->health[HEALTH_STACKS], 3 * N);
	window_free(w);
}

/* One more than fits into a tick is read in two equal halves, not in a whole tick and one for the last of them. */
static void ticks_of_a_round_are_alike(void **state)
{
	struct scene *x = *state;

	x->budget.headers = N - 1;
	for (int tick = 1; tick <= 4; tick++) {
		sample(x, -1);
		assert_int_equal(x->s.round_ended, tick % 2 == 0);
		if (tick % 2)
			assert_in_range(x->s.round_slots, N / 2 - 1, N / 2 + 1);
	}
}

/* Rounds end although the table grows at each tick, and nobody is counted twice. */
static void rounds_end_while_the_table_grows(void **state)
{
	struct scene *x = *state;
	uint32_t n = N, ended = 0;

	while (n < MOST) {
		make(x, (int)n);
		count(x, ++n);
		sample(x, -1);
		ended += x->s.round_ended;
		assert_true(x->s.alive <= n);
	}
	assert_in_range(ended, 4, 6);	/* 40 ticks read 320 of 60 on average */
	assert_true(x->s.alive > N + 20);
}

static void one_that_was_on_a_cpu_goes_back(void **state)
{
	struct scene *x = *state;

	see_all(x);
	sample(x, ONE);
	assert_true(slot_of(x, ONE)->captured);
	park(x, ONE);
	sample(x, -1);
	assert_false(slot_of(x, ONE)->captured);
	for (int i = 0; i < 3; i++)
		sample(x, -1);
	assert_elsewhere(x, ONE, 1);
}

/* It has its turn while it runs, on no CPU just then: it is asked again. */
static void one_that_runs_at_its_turn_goes_back_later(void **state)
{
	struct scene *x = *state;

	see_all(x);
	sample(x, ONE);
	x->budget.headers = N - 1;
	do {
		sample(x, -1);
		assert_true(slot_of(x, ONE)->captured);
	} while (!has_turn(x, ONE));
	x->budget.headers = 0;
	sample(x, -1);
	assert_true(slot_of(x, ONE)->captured);		/* it runs still */
	park(x, ONE);
	sample(x, -1);
	assert_false(slot_of(x, ONE)->captured);
}

/* What came after its tick belongs to that one: at this one the goroutine waits. */
static void late_look_lasts_no_longer(void **state)
{
	struct scene *x = *state;

	see_all(x);
	sample(x, -1);
	x->late = ONE;
	sample(x, -1);
	assert_false(slot_of(x, ONE)->captured);
	sample(x, -1);
	assert_elsewhere(x, ONE, 0);
}

/* All are looked at, but there is time for one stack: whose was put off goes back, too. */
static void one_that_was_put_off_goes_back(void **state)
{
	struct scene *x = *state;
	int put_off = 0;

	see_all(x);
	x->budget = (struct budget){ .headers = N, .stacks = 1 };
	for (int i = 0; i < 20; i++) {
		sample(x, ONE);
		assert_false(x->s.rotates);
		for (int k = 0; k < N; k++)
			park(x, k);
		sample(x, -1);
		assert_true(x->s.put_off);
		put_off += !has_turn(x, ONE);
		assert_false(slot_of(x, ONE)->captured);
		assert_int_equal(slot_of(x, ONE)->still, has_turn(x, ONE));
	}
	assert_true(put_off > 10);
	assert_elsewhere(x, ONE, 20);
}

/* It parks so many times between two looks; then 150 find it at rest. How many of those read its stack? */
static uint32_t looks_after(struct scene *x, int i, uint8_t parks)
{
	uint32_t before;

	put(x, g_at(i), GO_G_TRACKINGSEQ, (uint8_t)(slot_of(x, i)->parks + parks));
	sample(x, -1);
	before = x->stacks_read[i];
	for (int look = 0; look < 150; look++)
		sample(x, -1);
	return x->stacks_read[i] - before;
}

/* An audit may come in besides. */
static void one_that_parks_often_is_not_soon_believed(void **state)
{
	struct scene *x = *state;

	x->budget.headers = N;
	for (int i = 0; i < 5; i++)
		sample(x, -1);
	assert_in_range(looks_after(x, ONE, 1), 2, 8);
	assert_in_range(looks_after(x, ONE, 63), 2, 8);
	assert_in_range(looks_after(x, ONE, 64), 100, 106);
	assert_in_range(looks_after(x, ONE, 200), 100, 106);
}

/* A held thread tells of it before allgs does: then it has its turn at once, and one stack is read. */
static void one_that_only_a_thread_knew_is_read_once(void **state)
{
	struct scene *x = *state;
	uint32_t before;

	see_all(x);
	for (int i = N; i < N + 20; i++) {
		x->budget.headers = i % 2 ? 8 : 20;	/* its tick is now the last of a round, now another */
		make(x, i);
		sample(x, i);
		assert_null(slot_of(x, i));
		park(x, i);
		before = x->stacks_read[i];
		count(x, (uint32_t)i + 1);
		sample(x, -1);
		assert_non_null(slot_of(x, i));
		assert_true(has_turn(x, i));
		assert_int_equal(x->stacks_read[i], before + 1);
		assert_false(slot_of(x, i)->captured);
		assert_true(x->s.alive <= (uint32_t)i + 1);
	}
	x->budget.headers = 20;
	for (int i = 0; i < 6; i++)
		sample(x, -1);
	assert_int_equal(x->s.alive, N + 20);
}

/* Nor does such a one stay on the CPU where there is no time for its stack. */
static void one_that_only_a_thread_knew_goes_back(void **state)
{
	struct scene *x = *state;

	see_all(x);
	x->budget = (struct budget){ .headers = N + 1, .stacks = 0 };
	make(x, N);
	sample(x, N);
	park(x, N);
	count(x, N + 1);
	sample(x, -1);
	assert_true(x->s.put_off);
	assert_false(slot_of(x, N)->captured);
	assert_false(slot_of(x, N)->known);
}

/* There is time for one stack. Its owner has left its thread; another that has just begun must not push it out. */
static void one_that_has_its_turn_goes_back_all_the_same(void **state)
{
	struct scene *x = *state;

	see_all(x);
	for (int round = 0; round < 100; round++) {
		x->budget = (struct budget){ .headers = N, .stacks = MOST };
		sample(x, -1);
		sample(x, -1);
		sample(x, ONE);
		x->late = x->reborn = ONE + 1;
		park(x, ONE);
		x->budget = (struct budget){ .headers = N, .stacks = 1 };
		sample(x, -1);
		assert_false(slot_of(x, ONE)->captured);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(each_has_its_turn),
		T(ticks_of_a_round_are_alike),
		T(rounds_end_while_the_table_grows),
		T(one_that_was_on_a_cpu_goes_back),
		T(one_that_runs_at_its_turn_goes_back_later),
		T(late_look_lasts_no_longer),
		T(one_that_was_put_off_goes_back),
		T(one_that_parks_often_is_not_soon_believed),
		T(one_that_only_a_thread_knew_is_read_once),
		T(one_that_only_a_thread_knew_goes_back),
		T(one_that_has_its_turn_goes_back_all_the_same),
		WITHOUT_COUNTER(ticks_of_a_round_are_alike),
		WITHOUT_COUNTER(rounds_end_while_the_table_grows),
		WITHOUT_COUNTER(one_that_was_on_a_cpu_goes_back),
		WITHOUT_COUNTER(one_that_runs_at_its_turn_goes_back_later),
		WITHOUT_COUNTER(late_look_lasts_no_longer),
		WITHOUT_COUNTER(one_that_was_put_off_goes_back),
		WITHOUT_COUNTER(one_that_only_a_thread_knew_goes_back),
		WITHOUT_COUNTER(one_that_has_its_turn_goes_back_all_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
