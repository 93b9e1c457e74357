/*
 * sample_gate.c: a tick is left out only when all witnesses say that nothing has run since all were looked at.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "fake/go_fake.h"
#include "fake/target_fake.h"
#include "go/go_impl.h"
#include "sample/sampler_impl.h"
#include "target/target_impl.h"

enum { MINOR = 26, SCHED = 0x100000, GOMAXPROCS = 0x110000, PS = 8, PERIOD = 10 * 1000 * 1000 };

static const struct go_fake_func functions[] = { { .name = "main.main", .size = 64, .sp = { { 64, 0 } } } };

struct world {
	struct go_fake *go;
	struct target *target;
	struct go_layout layout;
	struct reader reader;
	struct gate gate;
};

static void put_idle(struct world *w, uint32_t n)
{
	target_fake_poke(w->target, SCHED + (gaddr_t)w->layout.f[GO_SCHED_NPIDLE].offset, &n, sizeof(n));
}

static void put_ps(struct world *w, uint32_t n)
{
	target_fake_poke(w->target, GOMAXPROCS, &n, sizeof(n));
}

static int setup(void **state)
{
	struct world *w = test_calloc(1, sizeof(*w));

	w->go = go_fake_create(functions, 1, MINOR);
	assert_null(target_fake_create(&w->target));
	assert_true(go_layout_row(MINOR, &w->layout));
	target_fake_add(w->target, SCHED, NULL, 4096);
	target_fake_add(w->target, GOMAXPROCS, NULL, 4096);
	target_fake_set_cpu_ns(w->target, 1000);
	w->reader = (struct reader){ .target = w->target, .rt = go_fake_runtime(w->go), .layout = &w->layout,
				     .clock = &system_clock, .goroutines = true };
	w->reader.rt->globals[GO_SCHED].addr = SCHED;
	w->reader.rt->globals[GO_GOMAXPROCS].addr = GOMAXPROCS;
	w->reader.rt->caps |= GO_CAP_SCHED;
	put_ps(w, PS);
	put_idle(w, PS);
	gate_init(&w->gate, &w->reader, PERIOD);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	target_close(w->target);
	go_fake_destroy(w->go);
	test_free(w);
	return 0;
}

static bool is_shut(struct world *w, bool runs)
{
	gate_stood_still(&w->gate, &w->reader);
	return gate_is_shut(&w->gate, &w->reader, runs);
}

/* One tick: whether it was left out; `ran` is what it finds if it is not. */
static bool tick(struct world *w, bool ran)
{
	const struct gate_tick t = { .ran = ran, .round_began = true, .round_ended = true };

	if (is_shut(w, false))
		return true;
	gate_note(&w->gate, &t);
	return false;
}

/* A process that has just been found idle. */
static void settle(struct world *w)
{
	gate_init(&w->gate, &w->reader, PERIOD);
	assert_false(tick(w, false));
}

static void shut_while_nothing_runs(void **state)
{
	struct world *w = *state;

	assert_false(tick(w, true));	/* the first one looks */
	assert_false(tick(w, false));	/* a round more */
	for (int i = 0; i < 5; i++)
		assert_true(tick(w, false));
}

static void open_when_the_clock_has_moved(void **state)
{
	struct world *w = *state;

	settle(w);
	for (uint64_t ns = 1001; ns < 1005; ns++) {
		target_fake_set_cpu_ns(w->target, ns);
		assert_false(tick(w, false));
		assert_true(tick(w, false));
	}
}

static void open_while_a_p_is_busy(void **state)
{
	struct world *w = *state;

	settle(w);
	for (uint32_t idle = 0; idle <= PS + 1; idle++) {
		put_idle(w, PS);
		settle(w);
		assert_true(tick(w, false));
		put_idle(w, idle);
		assert_int_equal(tick(w, false), idle == PS);
	}
	put_idle(w, PS);
	settle(w);
	assert_true(tick(w, false));
	put_idle(w, 0);
	put_ps(w, 0);	/* cannot be: not believed */
	assert_false(tick(w, false));
}

/* Code that needs no P, whose time is not on the clock yet. */
static void open_while_something_is_seen(void **state)
{
	struct world *w = *state;

	settle(w);
	assert_true(is_shut(w, false));
	assert_false(is_shut(w, true));
	assert_false(is_shut(w, false));	/* all are to be looked at again */
}

static void open_while_something_was_seen(void **state)
{
	struct world *w = *state;

	settle(w);
	gate_note(&w->gate, &(struct gate_tick){ .ran = true, .round_began = true, .round_ended = true });
	assert_false(tick(w, true));
	assert_false(tick(w, false));
	assert_true(tick(w, false));
}

enum { ROUND = 10 };	/* ticks */

/* A tick of a round that takes some: the i-th. */
static bool tick_of_round(struct world *w, int i, bool put_off)
{
	const struct gate_tick t = { .round_began = i % ROUND == 0, .round_ended = i % ROUND == ROUND - 1,
				     .put_off = put_off };

	if (is_shut(w, false))
		return true;
	gate_note(&w->gate, &t);
	return false;
}

/* With rotation a tick looks at some only; and those that were put off were not looked at. */
static void open_until_all_were_looked_at(void **state)
{
	struct world *w = *state;

	for (int put_off_at = 0; put_off_at < ROUND; put_off_at++) {
		gate_init(&w->gate, &w->reader, PERIOD);
		for (int i = 0; i < 2 * ROUND; i++)
			assert_false(tick_of_round(w, i, i == put_off_at));
		assert_true(tick_of_round(w, 2 * ROUND, false));
	}
}

/* What it has looked at before may have run since. */
static void a_round_that_something_ran_in_does_not_count(void **state)
{
	struct world *w = *state;
	uint64_t ns = 2000;

	for (int ran_at = 0; ran_at < ROUND; ran_at++) {
		int needed = ran_at ? 2 * ROUND : ROUND;	/* found at the first tick: all is looked at afterwards */

		gate_init(&w->gate, &w->reader, PERIOD);
		for (int i = 0; i < needed; i++) {
			if (i == ran_at)
				target_fake_set_cpu_ns(w->target, ns++);
			assert_false(tick_of_round(w, i, false));
		}
		assert_true(tick_of_round(w, needed, false));
	}
}

/* It may have run on while a P was looked at for the first time: only the next clock shows. */
static void what_begins_behind_the_first_look_is_seen(void **state)
{
	struct world *w = *state;

	settle(w);
	put_idle(w, PS - 1);
	assert_false(tick(w, false));
	put_idle(w, PS);
	assert_false(tick(w, false));	/* that round did not count */
	assert_true(tick(w, false));
}

static void never_shut_without_its_witnesses(void **state)
{
	struct world *w = *state;
	struct go_layout without = w->layout;

	w->target->cpu_step_ns = PERIOD;	/* one tick's work may not be on the clock at the next */
	settle(w);
	assert_false(tick(w, false));
	w->target->cpu_step_ns = PERIOD - 1;
	settle(w);
	assert_true(tick(w, false));
	w->reader.goroutines = false;
	settle(w);
	assert_false(tick(w, false));
	w->reader.goroutines = true;
	w->reader.rt->globals[GO_GOMAXPROCS].addr = 0;
	settle(w);
	assert_false(tick(w, false));
	w->reader.rt->globals[GO_GOMAXPROCS].addr = GOMAXPROCS;
	settle(w);
	assert_true(tick(w, false));
	w->reader.rt->caps &= ~(uint32_t)GO_CAP_SCHED;
	settle(w);
	assert_false(tick(w, false));
	w->reader.rt->caps |= GO_CAP_SCHED;
	without.f[GO_SCHED_NPIDLE].offset = -1;
	w->reader.layout = &without;
	settle(w);
	assert_false(tick(w, false));
}

static void open_when_nothing_can_be_read(void **state)
{
	struct world *w = *state;

	settle(w);
	assert_true(tick(w, false));
	w->reader.rt->globals[GO_SCHED].addr = 0x900000;	/* nothing is there */
	assert_false(tick(w, false));
	w->reader.rt->globals[GO_SCHED].addr = SCHED;
	settle(w);
	assert_true(tick(w, false));
	target_fake_set_life(w->target, TARGET_ENDED);
	assert_false(tick(w, false));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(shut_while_nothing_runs),
		T(open_when_the_clock_has_moved),
		T(open_while_a_p_is_busy),
		T(open_while_something_is_seen),
		T(open_while_something_was_seen),
		T(open_until_all_were_looked_at),
		T(a_round_that_something_ran_in_does_not_count),
		T(what_begins_behind_the_first_look_is_seen),
		T(never_shut_without_its_witnesses),
		T(open_when_nothing_can_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
