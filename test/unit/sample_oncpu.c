/*
 * sample_oncpu.c: which looks carry CPU time, case by case, and that shares of a gain add up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "sample/sample_impl.h"

enum { US = NSEC_PER_USEC };

/* A thread that was pushed off its core by us: put on one again once, waited 20 of our 50 us. */
static struct oncpu_facts pushed_off(void)
{
	return (struct oncpu_facts){
		.t_tick = 1000 * US,
		.t_arrived = 1050 * US,
		.in_time = true,
		.before = { .cpu_ns = 5000 * US, .wait_ns = 100 * US, .slices = 7 },
		.held = { .cpu_ns = 5030 * US, .wait_ns = 120 * US, .slices = 8 },
	};
}

static void same_slice_is_always_valid(void **state)
{
	struct oncpu_facts f = pushed_off();

	(void)state;
	f.held.slices = f.before.slices;
	f.tick_late = true;
	f.in_time = false;
	f.waits = true;
	f.t_arrived = 0;
	assert_true(oncpu_valid(&f));
}

static void pushed_off_by_us_is_valid(void **state)
{
	struct oncpu_facts f = pushed_off();

	(void)state;
	assert_true(oncpu_valid(&f));
	/* As long as we have been at it, and a little: the clocks are not read at one instant. */
	f.held.wait_ns = f.before.wait_ns + 80 * US;
	assert_true(oncpu_valid(&f));
}

static void waited_before_the_tick_is_invalid(void **state)
{
	struct oncpu_facts f = pushed_off();

	(void)state;
	f.held.wait_ns = f.before.wait_ns + 81 * US;
	assert_false(oncpu_valid(&f));
}

/* Without scheduler statistics all counts are 0, which must not pass for "never put on a core anew". */
static void without_statistics_the_call_decides(void **state)
{
	struct oncpu_facts f = pushed_off();

	(void)state;
	f.before.slices = f.held.slices = 0;
	f.before.wait_ns = f.held.wait_ns = 0;
	assert_true(oncpu_valid(&f));
	f.waits = true;
	assert_false(oncpu_valid(&f));
	f.waits = false;
	f.in_time = false;
	assert_false(oncpu_valid(&f));
	f.in_time = true;
	f.tick_late = true;
	assert_false(oncpu_valid(&f));
}

static void what_cannot_be_told_is_invalid(void **state)
{
	struct oncpu_facts late = pushed_off(), later_tick = pushed_off();
	struct oncpu_facts waits = pushed_off(), backwards = pushed_off(), early = pushed_off();

	(void)state;
	late.tick_late = true;
	assert_false(oncpu_valid(&late));
	later_tick.in_time = false;
	assert_false(oncpu_valid(&later_tick));
	waits.waits = true;
	assert_false(oncpu_valid(&waits));
	backwards.held.wait_ns = backwards.before.wait_ns - 1;
	assert_false(oncpu_valid(&backwards));
	early.t_arrived = early.t_tick - 1;
	assert_false(oncpu_valid(&early));
}

static void shares_add_up(void **state)
{
	static const uint64_t gains[] = { 0, 1, 2, 99, 100, 101, 9900990, UINT64_MAX / 2 };

	(void)state;
	for (size_t g = 0; g < sizeof(gains) / sizeof(gains[0]); g++) {
		for (uint32_t n = 1; n < 130; n += 7) {
			uint64_t sum = 0, low = UINT64_MAX, high = 0;

			for (uint32_t i = 0; i < n; i++) {
				uint64_t share = oncpu_share(gains[g], n, i);

				sum += share;
				low = share < low ? share : low;
				high = share > high ? share : high;
			}
			assert_int_equal(sum, gains[g]);
			assert_true(high - low <= 1);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_slice_is_always_valid),
		cmocka_unit_test(pushed_off_by_us_is_valid),
		cmocka_unit_test(waited_before_the_tick_is_invalid),
		cmocka_unit_test(without_statistics_the_call_decides),
		cmocka_unit_test(what_cannot_be_told_is_invalid),
		cmocka_unit_test(shares_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
