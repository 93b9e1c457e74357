/*
 * base_arena.c: what an arena hands out is zeroed, aligned, apart from its neighbours and stays
 * where it is; a scratch arena settles on one block.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/cleanup.h"

enum { MANY = 5000 };

static size_t size_nr(unsigned i)
{
	return (i * 37u) % 301;
}

static void test_apart_and_stable(void **state)
{
	static uint8_t *p[MANY];
	_cleanup_(arena_deinit) struct arena a;

	(void)state;
	arena_init(&a);
	for (unsigned i = 0; i < MANY; i++) {
		p[i] = arena_alloc(&a, size_nr(i));
		assert_non_null(p[i]);
		assert_int_equal((uintptr_t)p[i] % 8, 0);
		for (size_t k = 0; k < size_nr(i); k++)
			assert_int_equal(p[i][k], 0);
		memset(p[i], (int)(i % 251) + 1, size_nr(i));
	}
	for (unsigned i = 0; i < MANY; i++)
		for (size_t k = 0; k < size_nr(i); k++)
			assert_int_equal(p[i][k], i % 251 + 1);
}

static void test_zeroed_after_reset(void **state)
{
	_cleanup_(arena_deinit) struct arena a;

	(void)state;
	arena_init(&a);
	memset(arena_alloc(&a, 1000), 0xff, 1000);
	arena_reset(&a);
	assert_int_equal(a.used, 0);
	for (int i = 0; i < 10; i++) {
		const uint8_t *p = arena_alloc(&a, 100);

		for (int k = 0; k < 100; k++)
			assert_int_equal(p[k], 0);
	}
	assert_int_equal(a.used, 10 * 104);
}

static void test_scratch_settles(void **state)
{
	_cleanup_(arena_deinit) struct arena a;
	const struct arena_block *settled = NULL;

	(void)state;
	arena_init(&a);
	for (int round = 0; round < 10; round++) {
		for (unsigned i = 0; i < MANY; i++)
			assert_non_null(arena_alloc(&a, size_nr(i)));
		if (round == 3)
			settled = a.head;
		if (round > 3)
			assert_ptr_equal(a.head, settled);	/* no new block since */
		arena_reset(&a);
	}
}

static void test_big_and_impossible(void **state)
{
	_cleanup_(arena_deinit) struct arena a;
	char *p;

	(void)state;
	arena_init(&a);
	assert_non_null(arena_alloc(&a, 0));
	p = arena_alloc(&a, 40u << 20);
	assert_non_null(p);
	p[0] = p[(40u << 20) - 1] = 1;
	assert_null(arena_alloc(&a, SIZE_MAX));
	assert_null(arena_alloc(&a, SIZE_MAX - 7));
	assert_null(arena_alloc(&a, PTRDIFF_MAX));
	assert_null(arena_strndup(&a, "x", SIZE_MAX));
	assert_non_null(arena_alloc(&a, 8));
}

static void test_strndup(void **state)
{
	_cleanup_(arena_deinit) struct arena a;
	char *s, *empty;

	(void)state;
	arena_init(&a);
	s = arena_strndup(&a, "main.main.func1", 9);
	empty = arena_strndup(&a, NULL, 0);
	assert_string_equal(s, "main.main");
	assert_string_equal(empty, "");
	assert_memory_equal(arena_strndup(&a, "a\0b", 3), "a\0b", 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_apart_and_stable),
		cmocka_unit_test(test_zeroed_after_reset),
		cmocka_unit_test(test_scratch_settles),
		cmocka_unit_test(test_big_and_impossible),
		cmocka_unit_test(test_strndup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
