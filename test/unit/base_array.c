/*
 * base_array.c: an array grows, keeps what it held, and refuses what does not fit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/array.h"

static void grows_and_keeps(void **state)
{
	uint32_t *v = NULL, cap = 0;

	(void)state;
	for (uint32_t i = 0; i < 5000; i++) {
		assert_null(array_reserve(&v, &cap, i + 1, sizeof(*v)));
		assert_true(cap > i);
		v[i] = i * 3;
	}
	for (uint32_t i = 0; i < 5000; i++)
		assert_int_equal(v[i], i * 3);
	free(v);
}

static void room_is_kept(void **state)
{
	uint64_t *v = NULL, *before;
	uint32_t cap = 0, had;

	(void)state;
	assert_null(array_reserve(&v, &cap, 100, sizeof(*v)));
	before = v;
	had = cap;
	assert_null(array_reserve(&v, &cap, 1, sizeof(*v)));
	assert_ptr_equal(v, before);
	assert_int_equal(cap, had);
	free(v);
}

static void too_much_changes_nothing(void **state)
{
	char *v = NULL;
	uint32_t cap = 0;

	(void)state;
	assert_ptr_equal(array_reserve(&v, &cap, UINT32_MAX, 1), &err_nomem);
	assert_ptr_equal(array_reserve(&v, &cap, 1u << 30, SIZE_MAX / 4), &err_nomem);
	assert_null(v);
	assert_int_equal(cap, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grows_and_keeps),
		cmocka_unit_test(room_is_kept),
		cmocka_unit_test(too_much_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
