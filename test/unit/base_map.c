/*
 * base_map.c: the maps against a plain array under a long mix of put, replace, delete and walk,
 * with keys that cluster, and byte keys that differ in length or in one byte only.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/map.h"

enum { KEYS = 700, STEPS = 60000, STRINGS = 20000 };

static uint64_t key_nr(uint32_t i)
{
	/* Small numbers, page addresses, and numbers that differ in the top bits only. */
	static const uint64_t strides[] = { 1, 0x1000, 1ull << 55 };

	return (uint64_t)(i / 3) * strides[i % 3] + ((uint64_t)(i % 3) << 32);
}

static void check_walk(const struct map64 *m, const uint32_t *model)
{
	uint32_t pos = 0, value, n = 0, live = 0;
	uint64_t key;

	while (map64_next(m, &pos, &key, &value)) {
		uint32_t found = 0;

		for (uint32_t i = 0; i < KEYS; i++)
			if (model[i] != MAP_NONE && key_nr(i) == key)
				found += model[i] == value;
		assert_int_equal(found, 1);
		n++;
	}
	for (uint32_t i = 0; i < KEYS; i++)
		live += model[i] != MAP_NONE;
	assert_int_equal(n, live);
	assert_int_equal(m->n, live);
}

static void test_map64_against_model(void **state)
{
	static uint32_t model[KEYS];
	_cleanup_(map64_deinit) struct map64 m;
	uint32_t random = 1;

	(void)state;
	memset(model, 0xff, sizeof(model));
	map64_init(&m);
	for (uint32_t step = 0; step < STEPS; step++) {
		uint32_t i;

		random = random * 1664525 + 1013904223;
		i = (random >> 8) % KEYS;
		if (random >> 31) {
			map64_del(&m, key_nr(i));
			model[i] = MAP_NONE;
		} else {
			assert_null(map64_put(&m, key_nr(i), step));
			model[i] = step;
		}
		if (step % 1000 != 0)
			continue;
		for (i = 0; i < KEYS; i++)
			assert_int_equal(map64_get(&m, key_nr(i)), model[i]);
		check_walk(&m, model);
	}
	assert_true(m.cap <= 2048);	/* deleting does not silt it up */
}

static void test_map64_edges(void **state)
{
	_cleanup_(map64_deinit) struct map64 m;
	_cleanup_error_ struct error *err = NULL;
	uint32_t pos = 0, value;
	uint64_t key;

	(void)state;
	map64_init(&m);
	assert_int_equal(map64_get(&m, 0), MAP_NONE);
	assert_false(map64_next(&m, &pos, &key, &value));
	map64_del(&m, 5);
	map64_clear(&m);
	assert_null(map64_put(&m, 0, 0));
	assert_null(map64_put(&m, UINT64_MAX, MAP_NONE - 1));
	err = map64_put(&m, 1, MAP_NONE);
	assert_non_null(err);
	assert_int_equal(map64_get(&m, 0), 0);
	assert_int_equal(map64_get(&m, UINT64_MAX), MAP_NONE - 1);
	assert_int_equal(map64_get(&m, 1), MAP_NONE);
	map64_clear(&m);
	assert_int_equal(m.n, 0);
	assert_int_equal(map64_get(&m, 0), MAP_NONE);
	assert_null(map64_put(&m, 0, 3));
	assert_int_equal(map64_get(&m, 0), 3);
}

/* Items that hold their keys; a key may go over to another item. */
struct items {
	uint64_t key[STEPS];
};

static uint64_t item_key(const void *ctx, uint32_t value)
{
	return ((const struct items *)ctx)->key[value];
}

static void test_mapi_against_model(void **state)
{
	static struct items items;
	static uint32_t model[KEYS];
	_cleanup_(mapi_deinit) struct mapi m;
	_cleanup_error_ struct error *err = NULL;
	uint32_t random = 1, live = 0;

	(void)state;
	memset(model, 0xff, sizeof(model));
	mapi_init(&m, item_key, &items);
	assert_int_equal(mapi_get(&m, 0), MAP_NONE);
	mapi_del(&m, 5);
	for (uint32_t step = 0; step < STEPS; step++) {
		uint32_t i;

		random = random * 1664525 + 1013904223;
		i = (random >> 8) % KEYS;
		if (random >> 31) {
			mapi_del(&m, key_nr(i));
			model[i] = MAP_NONE;
		} else {
			items.key[step] = key_nr(i);
			assert_null(mapi_put(&m, key_nr(i), step));
			model[i] = step;
		}
		for (i = 0; step % 1000 == 0 && i < KEYS; i++)
			assert_int_equal(mapi_get(&m, key_nr(i)), model[i]);
	}
	for (uint32_t i = 0; i < KEYS; i++)
		live += model[i] != MAP_NONE;
	assert_int_equal(m.n, live);
	assert_true(m.cap <= 2048);
	err = mapi_put(&m, 1, MAP_NONE);
	assert_non_null(err);
}

struct names {
	char name[STRINGS][24];
	size_t len[STRINGS];
};

static const void *name_of(const void *ctx, uint32_t value, size_t *len)
{
	const struct names *names = ctx;

	assert_true(value < STRINGS);
	*len = names->len[value];
	return names->name[value];
}

static void test_mapb_interns(void **state)
{
	static struct names names;
	_cleanup_(mapb_deinit) struct mapb m;

	(void)state;
	mapb_init(&m, name_of, &names);
	assert_int_equal(mapb_get(&m, "", 0), MAP_NONE);
	for (uint32_t i = 0; i < STRINGS; i++) {
		/* The first is empty; the second and third differ by a NUL behind. */
		names.len[i] = i < 3 ? (i ? i + 3 : 0) : (size_t)snprintf(names.name[i], 24, "main.f%u", i);
		assert_int_equal(mapb_get(&m, names.name[i], names.len[i]), MAP_NONE);
		assert_null(mapb_put(&m, names.name[i], names.len[i], i));
	}
	for (uint32_t i = 0; i < STRINGS; i++)
		assert_int_equal(mapb_get(&m, names.name[i], names.len[i]), i);
	assert_int_equal(mapb_get(&m, "main.f", 6), MAP_NONE);
	assert_int_equal(mapb_get(&m, "main.f20000", 11), MAP_NONE);
	assert_int_equal(m.n, STRINGS);
	mapb_clear(&m);
	assert_int_equal(mapb_get(&m, names.name[9], names.len[9]), MAP_NONE);
	assert_null(mapb_put(&m, names.name[9], names.len[9], 9));
	assert_int_equal(mapb_get(&m, names.name[9], names.len[9]), 9);
	assert_int_equal(m.n, 1);
}

static void test_hash(void **state)
{
	(void)state;
	/* The published value of XXH3 for no bytes: fingerprints must not change with a library. */
	assert_true(hash_bytes("", 0) == 0x2d06800538d394c2ull);
	assert_true(hash_bytes("a", 1) != hash_bytes("b", 1));
	assert_true(hash_bytes("\0", 1) != hash_bytes("\0\0", 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_map64_against_model),
		cmocka_unit_test(test_map64_edges),
		cmocka_unit_test(test_mapi_against_model),
		cmocka_unit_test(test_mapb_interns),
		cmocka_unit_test(test_hash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
