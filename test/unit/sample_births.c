/* sample_births.c: of the numbers that the runtime has given out, those that nobody saw, and never too many. */
#include "fake/go_fake.h"
#include "fake/target_fake.h"
#include "go/go_impl.h"
#include "profile_world.h"
#include "sample/sampler_impl.h"

enum { MINOR = 26, SCHED = 0x100000, GOMAXPROCS = 0x110000, PS = 4, SLACK = 16 * PS, START = 1000 };

static const struct go_fake_func functions[] = { { .name = "main.main", .size = 64, .sp = { { 64, 0 } } } };

struct scene {
	struct world world;
	struct go_fake *go;
	struct target *target;
	struct go_layout layout;
	struct sampler s;
};

static void count(struct scene *x, uint64_t goidgen)
{
	target_fake_poke_u64(x->target, SCHED + (gaddr_t)x->layout.f[GO_SCHED_GOIDGEN].offset, goidgen);
}

static int setup(void **state)
{
	struct scene *x = test_calloc(1, sizeof(*x));
	const uint32_t ps = PS;

	world_init(&x->world);
	x->go = go_fake_create(functions, 1, MINOR);
	assert_null(target_fake_create(&x->target));
	assert_true(go_layout_row(MINOR, &x->layout));
	target_fake_add(x->target, SCHED, NULL, 4096);
	target_fake_add(x->target, GOMAXPROCS, NULL, 4096);
	target_fake_poke(x->target, GOMAXPROCS, &ps, sizeof(ps));
	x->s.reader = (struct reader){ .target = x->target, .rt = go_fake_runtime(x->go), .layout = &x->layout,
				       .clock = &x->world.clock, .goroutines = true };
	x->s.profile = x->world.p;
	x->s.reader.rt->globals[GO_SCHED].addr = SCHED;
	x->s.reader.rt->globals[GO_GOMAXPROCS].addr = GOMAXPROCS;
	x->s.reader.rt->caps |= GO_CAP_SCHED;
	count(x, START);
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	struct scene *x = *state;

	target_close(x->target);
	go_fake_destroy(x->go);
	world_deinit(&x->world);
	test_free(x);
	return 0;
}

static uint64_t never_seen(struct scene *x)
{
	struct window *w;
	uint64_t n;

	births_settle(&x->s);
	assert_null(profile_tick(x->s.profile, x->world.mono));
	assert_null(profile_close_window(x->s.profile, x->world.mono + 1, &w));
	n = w->health[HEALTH_G_NEVER_SEEN];
	window_free(w);
	return n;
}

static void those_that_nobody_saw_are_counted(void **state)
{
	struct scene *x = *state;

	births_begin(&x->s);
	for (uint64_t goid = START - 50; goid <= START + 100; goid += 10)
		births_seen(&x->s, goid);	/* ten of them are new */
	count(x, START + 1000);
	births_update(&x->s);
	assert_int_equal(never_seen(x), 1000 - 10 - SLACK);
}

/* Each window tells of what is new. */
static void none_is_told_twice(void **state)
{
	struct scene *x = *state;

	births_begin(&x->s);
	count(x, START + 1000);
	births_update(&x->s);
	assert_int_equal(never_seen(x), 1000 - SLACK);
	assert_int_equal(never_seen(x), 0);
	count(x, START + 1500);
	births_update(&x->s);
	for (uint64_t goid = START + 1001; goid <= START + 1100; goid++)
		births_seen(&x->s, goid);
	assert_int_equal(never_seen(x), 400);
}

/* Where they are looked at in turn each struct may hold one whose turn has not come. */
static void those_whose_turn_is_to_come_are_not_missed(void **state)
{
	struct scene *x = *state;

	x->s.rotates = true;
	x->s.gs.n = 600;
	births_begin(&x->s);
	count(x, START + 600 + SLACK);
	births_update(&x->s);
	assert_int_equal(never_seen(x), 0);
	count(x, START + 601 + SLACK);
	births_update(&x->s);
	assert_int_equal(never_seen(x), 1);
	x->s.gs.n = 0;
}

/* Ps that came later have batches, too; those that went have kept theirs. */
static void most_ps_that_there_were_count(void **state)
{
	struct scene *x = *state;
	const uint32_t more = 3 * PS, fewer = 1;

	births_begin(&x->s);
	target_fake_poke(x->target, GOMAXPROCS, &more, sizeof(more));
	births_update(&x->s);
	target_fake_poke(x->target, GOMAXPROCS, &fewer, sizeof(fewer));
	count(x, START + 3 * SLACK);
	births_update(&x->s);
	assert_int_equal(never_seen(x), 0);
}

/* Without their number nobody knows how many numbers lie ready. */
static void without_the_number_of_ps_nothing_is_told(void **state)
{
	static const uint32_t wrong[] = { 0, 1 << 20 };
	struct scene *x = *state;

	for (size_t i = 0; i <= sizeof(wrong) / sizeof(wrong[0]); i++) {
		count(x, START);
		if (i < sizeof(wrong) / sizeof(wrong[0]))
			target_fake_poke(x->target, GOMAXPROCS, &wrong[i], sizeof(wrong[i]));
		else
			x->s.reader.rt->globals[GO_GOMAXPROCS].addr = 0;
		births_begin(&x->s);
		count(x, START + 1000);
		births_update(&x->s);
		assert_int_equal(never_seen(x), 0);
	}
}

/* Numbers that lie ready with the Ps are no goroutines. */
static void batches_are_not_taken_for_goroutines(void **state)
{
	struct scene *x = *state;

	births_begin(&x->s);
	count(x, START + SLACK);
	births_update(&x->s);
	assert_int_equal(never_seen(x), 0);
}

/* The last that was read holds when the process has ended. */
static void ended_process_keeps_its_count(void **state)
{
	struct scene *x = *state;

	births_begin(&x->s);
	count(x, START + 1000);
	births_update(&x->s);
	target_fake_set_life(x->target, TARGET_ENDED);
	births_update(&x->s);
	assert_int_equal(never_seen(x), 1000 - SLACK);
}

static void without_a_proved_counter_nothing_is_told(void **state)
{
	struct scene *x = *state;

	x->s.reader.rt->caps &= ~(uint32_t)GO_CAP_SCHED;
	births_begin(&x->s);
	count(x, START + 1000);
	births_update(&x->s);
	births_seen(&x->s, START + 1);
	assert_int_equal(never_seen(x), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(those_that_nobody_saw_are_counted),
		T(none_is_told_twice),
		T(those_whose_turn_is_to_come_are_not_missed),
		T(most_ps_that_there_were_count),
		T(without_the_number_of_ps_nothing_is_told),
		T(batches_are_not_taken_for_goroutines),
		T(ended_process_keeps_its_count),
		T(without_a_proved_counter_nothing_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
