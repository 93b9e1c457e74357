/*
 * sample_held.c: how long threads were held, as it is told: right within 3 %, whatever the times are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sample/look.h"

static void nothing_is_nothing(void **state)
{
	struct held h = { 0 };

	(void)state;
	assert_int_equal(held_quantile(&h, 50), 0);
}

static void each_time_is_told_nearly(void **state)
{
	(void)state;
	for (uint64_t ns = 300; ns < 60ull * 1000 * 1000 * 1000; ns += ns / 50) {
		struct held h = { 0 };
		uint64_t told;

		held_add(&h, ns);
		told = held_quantile(&h, 50);
		assert_in_range(told, ns - ns * 32 / 1000, ns + ns * 32 / 1000);
		assert_int_equal(held_quantile(&h, 99), told);
	}
}

static void quantiles_are_by_number(void **state)
{
	struct held h = { 0 };

	(void)state;
	for (int i = 0; i < 1000; i++)
		held_add(&h, i < 600 ? 10000 : i < 985 ? 20000 : 500000);
	assert_in_range(held_quantile(&h, 50), 9700, 10300);
	assert_in_range(held_quantile(&h, 61), 19400, 20600);
	assert_in_range(held_quantile(&h, 99), 485000, 515000);
}

static void extremes_have_a_place(void **state)
{
	struct held h = { 0 };

	(void)state;
	held_add(&h, 0);
	held_add(&h, UINT64_MAX);
	assert_in_range(held_quantile(&h, 0), 0, 300);
	assert_true(held_quantile(&h, 99) > 1000ull * 1000 * 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_nothing),
		cmocka_unit_test(each_time_is_told_nearly),
		cmocka_unit_test(quantiles_are_by_number),
		cmocka_unit_test(extremes_have_a_place),
	};

	return cmocka_run_group_tests_name("sample_held", tests, NULL, NULL);
}
