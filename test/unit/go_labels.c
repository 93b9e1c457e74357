/*
 * go_labels.c: labels in both layouts, built by hand as the runtime lays them out, and everything
 * that freed or hostile memory can look like: it must end as an error or as a marked cut, in
 * bounded time, never as other labels.
 */
#include "go_labels_world.h"

static void test_no_labels(void **state)
{
	_cleanup_free_ struct go_labels *l = calloc(1, sizeof(*l));
	struct world w;

	(void)state;
	setup_minor(&w, 26);
	l->n = 7;
	assert_null(go_labels_read(w.rt, w.t, 0, l));
	assert_int_equal(l->n, 0);
	assert_int_equal(target_fake_reads(w.t), 0);
	teardown(&w);
}

static void test_list(void **state)
{
	static const char *const kv[][2] = { { "a", "1" }, { "endpoint", "/users/:id" }, { "z", "" } };
	struct world w;

	(void)state;
	setup_minor(&w, 24);
	put_list(&w, kv, 3);
	_cleanup_free_ struct go_labels *l = read_labels(&w);

	assert_int_equal(l->n, 3);
	assert_false(l->truncated);
	for (uint32_t i = 0; i < 3; i++)
		expect_label(l, i, kv[i][0], kv[i][1]);
	teardown(&w);
}

static void test_empty_list(void **state)
{
	struct world w;

	(void)state;
	setup_minor(&w, 27);
	put_slice(&w, 0, 0, 0);
	_cleanup_free_ struct go_labels *l = read_labels(&w);

	assert_int_equal(l->n, 0);
	assert_false(l->truncated);
	teardown(&w);
}

static void test_list_is_sorted_and_the_last_of_equal_keys_wins(void **state)
{
	static const char *const kv[][2] = { { "b", "1" }, { "a", "2" }, { "b", "3" }, { "ab", "4" },
					     { "a", "5" }, { "", "6" } };
	struct world w;

	(void)state;
	setup_minor(&w, 26);
	put_list(&w, kv, 6);
	_cleanup_free_ struct go_labels *l = read_labels(&w);

	assert_int_equal(l->n, 4);
	expect_label(l, 0, "", "6");
	expect_label(l, 1, "a", "5");
	expect_label(l, 2, "ab", "4");
	expect_label(l, 3, "b", "3");
	teardown(&w);
}

/* Every step of the reading leads into memory that is not there. */
static void test_list_faults(void **state)
{
	static const char *const kv[][2] = { { "key", "value" } };
	struct world w;

	(void)state;
	setup_minor(&w, 25);
	expect_error(&w, &err_fault);			/* no slice header */
	put_slice(&w, ITEMS, 1, 1);
	expect_error(&w, &err_fault);			/* no items */
	target_fake_remove(w.t, LABELS);
	put_list(&w, kv, 1);
	target_fake_poke_u64(w.t, ITEMS + 16, 0x66660000);
	expect_error(&w, &err_fault);			/* no value */
	target_fake_poke_u64(w.t, ITEMS + 16, TEXT + TEXT_SIZE - 3);
	expect_error(&w, &err_fault);			/* half a value */
	target_fake_set_life(w.t, TARGET_ENDED);
	expect_error(&w, &err_gone);
	teardown(&w);
}

static void test_list_headers_that_lie(void **state)
{
	static const uint64_t bad[][3] = {
		{ ITEMS, 5, 4 }, { ITEMS, UINT64_MAX, UINT64_MAX }, { ITEMS, 1ull << 40, 1ull << 40 },
		{ 0, 3, 3 },
	};
	struct world w;

	(void)state;
	setup_minor(&w, 26);
	target_fake_add(w.t, LABELS, NULL, 24);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		target_fake_poke(w.t, LABELS, bad[i], 24);
		expect_error(&w, &err_corrupt);
	}
	teardown(&w);
}

static void test_strings_that_lie(void **state)
{
	static const char *const kv[][2] = { { "key", "value" } };
	static const uint64_t lengths[] = { UINT64_MAX, 1ull << 63, (1ull << 30) + 1, UINT64_MAX - 5 };
	struct world w;

	(void)state;
	setup_minor(&w, 26);
	put_list(&w, kv, 1);
	for (size_t i = 0; i < 4; i++) {
		target_fake_poke_u64(w.t, ITEMS + 8, lengths[i]);
		expect_error(&w, &err_corrupt);
	}
	target_fake_poke_u64(w.t, ITEMS + 8, 3);
	target_fake_poke_u64(w.t, ITEMS + 16, 0);	/* a text without a place */
	expect_error(&w, &err_corrupt);
	teardown(&w);
}

static void test_more_labels_than_fit(void **state)
{
	enum { N = GO_LABELS_MAX + 44 };
	static char keys[N][16];
	static const char *kv[N][2];
	struct world w;

	(void)state;
	setup_minor(&w, 26);
	for (int i = 0; i < N; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k%04d", i);
		kv[i][0] = keys[i];
		kv[i][1] = "v";
	}
	put_list(&w, kv, N);
	_cleanup_free_ struct go_labels *l = read_labels(&w);

	assert_int_equal(l->n, GO_LABELS_MAX);
	assert_true(l->truncated);
	for (uint32_t i = 0; i < l->n; i++)
		expect_label(l, i, keys[i], "v");
	teardown(&w);
}

/* A value that is too long goes, the others stay, and the set says that it is not whole. */
static void test_a_label_that_is_too_long(void **state)
{
	static char longest[GO_LABEL_BYTES_MAX + 1], longer[GO_LABEL_BYTES_MAX + 2];
	const char *kv[][2] = { { "a", longer }, { "b", longest }, { "c", "3" } };
	struct world w;

	(void)state;
	memset(longest, 'x', sizeof(longest) - 1);
	memset(longer, 'y', sizeof(longer) - 1);
	setup_minor(&w, 26);
	put_list(&w, kv, 3);
	_cleanup_free_ struct go_labels *l = read_labels(&w);

	assert_int_equal(l->n, 2);
	assert_true(l->truncated);
	expect_label(l, 0, "b", longest);
	expect_label(l, 1, "c", "3");
	teardown(&w);
}

static void test_more_text_than_fits(void **state)
{
	enum { N = 8 };
	static char value[GO_LABEL_BYTES_MAX + 1];
	const char *kv[N][2];
	char keys[N][2];
	struct world w;
	size_t text = 0;

	(void)state;
	memset(value, 'v', sizeof(value) - 1);
	setup_minor(&w, 26);
	for (int i = 0; i < N; i++) {
		keys[i][0] = (char)('a' + i);
		keys[i][1] = 0;
		kv[i][0] = keys[i];
		kv[i][1] = value;
	}
	put_list(&w, kv, N);
	_cleanup_free_ struct go_labels *l = read_labels(&w);

	assert_true(l->truncated);
	assert_in_range(l->n, 1, N - 1);
	for (uint32_t i = 0; i < l->n; i++) {
		expect_label(l, i, keys[i], value);
		text += l->v[i].key_len + l->v[i].value_len;
	}
	assert_true(text <= sizeof(l->text));
	teardown(&w);
}

/* ---- the map ---- */

static void test_map_of_one_bucket(void **state)
{
	struct world w;

	(void)state;
	setup_minor(&w, 23);
	put_hmap(&w, 3, 0, TABLE, 0);
	target_fake_add(w.t, TABLE, NULL, BUCKET);
	put_slot(&w, TABLE, 0, 200, "zone", "eu");
	put_slot(&w, TABLE, 1, 1, "deleted", "no");	/* emptyOne */
	put_slot(&w, TABLE, 2, 5, "app", "");
	put_slot(&w, TABLE, 7, 255, "path", "/x");
	_cleanup_free_ struct go_labels *l = read_labels(&w);

	assert_int_equal(l->n, 3);
	expect_label(l, 0, "app", "");
	expect_label(l, 1, "path", "/x");
	expect_label(l, 2, "zone", "eu");
	teardown(&w);
}

static void test_map_that_is_nil_or_empty(void **state)
{
	_cleanup_free_ struct go_labels *l = calloc(1, sizeof(*l));
	struct world w;

	(void)state;
	setup_minor(&w, 15);
	put_hmap(&w, 0, 0, 0, 0);
	assert_null(go_labels_read(w.rt, w.t, LABELS, l));
	assert_int_equal(l->n, 0);
	target_fake_poke_u64(w.t, LABELS, 0);
	assert_null(go_labels_read(w.rt, w.t, LABELS, l));
	assert_int_equal(l->n, 0);
	teardown(&w);
}

/* Two buckets, one with an overflow bucket, in each version that has maps. */
static void test_map_with_overflow(void **state)
{
	static const int minors[] = { 15, 19, 21, 22, 23 };

	(void)state;
	for (size_t m = 0; m < sizeof(minors) / sizeof(minors[0]); m++) {
		struct world w;
		char key[16];

		setup_minor(&w, minors[m]);
		put_hmap(&w, 10, 1, TABLE, 0);
		target_fake_add(w.t, TABLE, NULL, 2 * BUCKET);
		target_fake_add(w.t, OVERFLOW, NULL, BUCKET);
		target_fake_poke_u64(w.t, TABLE + BUCKET + 264, OVERFLOW);
		for (int i = 0; i < 8; i++) {
			snprintf(key, sizeof(key), "k%d", i);
			put_slot(&w, TABLE + BUCKET, i, 9, key, key);
		}
		put_slot(&w, OVERFLOW, 0, 9, "k8", "k8");
		put_slot(&w, TABLE, 3, 9, "k9", "k9");
		struct go_labels *l = read_labels(&w);

		assert_int_equal(l->n, 10);
		for (uint32_t i = 0; i < 10; i++) {
			snprintf(key, sizeof(key), "k%u", i);
			expect_label(l, i, key, key);
		}
		free(l);
		teardown(&w);
	}
}

/* Growing: one old bucket was moved (its slots still look live), one was not. */
static void test_map_that_grows(void **state)
{
	struct world w;

	(void)state;
	setup_minor(&w, 21);
	put_hmap(&w, 3, 2, TABLE, OLD);
	target_fake_add(w.t, TABLE, NULL, 4 * BUCKET);
	target_fake_add(w.t, OLD, NULL, 2 * BUCKET);
	put_slot(&w, TABLE, 0, 10, "moved", "new");
	put_slot(&w, OLD, 0, 2, "moved", "old");	/* evacuatedX */
	put_slot(&w, OLD, 1, 10, "gone", "old");
	put_slot(&w, OLD + BUCKET, 0, 10, "stays", "here");
	put_slot(&w, OLD + BUCKET, 1, 10, "too", "here");
	_cleanup_free_ struct go_labels *l = read_labels(&w);

	assert_int_equal(l->n, 3);
	expect_label(l, 0, "moved", "new");
	expect_label(l, 1, "stays", "here");
	expect_label(l, 2, "too", "here");
	teardown(&w);
}

static void test_map_that_grows_in_place(void **state)
{
	struct world w;
	uint8_t same = 8;

	(void)state;
	setup_minor(&w, 22);
	put_hmap(&w, 2, 0, TABLE, OLD);
	target_fake_add(w.t, TABLE, NULL, BUCKET);
	target_fake_add(w.t, OLD, NULL, BUCKET);
	put_slot(&w, OLD, 0, 10, "a", "1");
	put_slot(&w, TABLE, 0, 10, "b", "2");
	expect_error(&w, &err_corrupt);		/* half of one bucket is none */
	target_fake_poke(w.t, HMAP + 8, &same, 1);
	_cleanup_free_ struct go_labels *l = read_labels(&w);

	assert_int_equal(l->n, 2);
	teardown(&w);
}

static void test_overflow_chain_that_bites_its_tail(void **state)
{
	struct world w;

	(void)state;
	setup_minor(&w, 23);
	put_hmap(&w, 9, 0, TABLE, 0);
	target_fake_add(w.t, TABLE, NULL, BUCKET);
	put_slot(&w, TABLE, 0, 10, "a", "1");
	target_fake_poke_u64(w.t, TABLE + 264, TABLE);
	expect_error(&w, &err_corrupt);
	assert_true(target_fake_reads(w.t) < 10000);
	teardown(&w);
}

static void test_map_headers_that_lie(void **state)
{
	static const struct {
		uint64_t count;
		uint8_t b;
		uint64_t buckets;
	} bad[] = {
		{ 1ull << 50, 0, TABLE }, { UINT64_MAX, 0, TABLE }, { 1, 200, TABLE }, { 1, 13, TABLE },
		{ 1, 0, 0 }, { 2, 0, TABLE }, { 5, 0, TABLE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct world w;

		setup_minor(&w, 19);
		put_hmap(&w, bad[i].count, bad[i].b, bad[i].buckets, 0);
		target_fake_add(w.t, TABLE, NULL, BUCKET);
		put_slot(&w, TABLE, 0, 10, "a", "1");
		expect_error(&w, &err_corrupt);
		assert_true(target_fake_reads(w.t) < 10000);
		teardown(&w);
	}
}

static void test_map_faults(void **state)
{
	struct world w;

	(void)state;
	setup_minor(&w, 19);
	expect_error(&w, &err_fault);
	target_fake_add(w.t, LABELS, (uint64_t[]){ HMAP }, 8);
	expect_error(&w, &err_fault);
	target_fake_remove(w.t, LABELS);
	put_hmap(&w, 1, 0, TABLE, 0);
	expect_error(&w, &err_fault);
	target_fake_add(w.t, TABLE, NULL, BUCKET - 1);
	expect_error(&w, &err_fault);
	teardown(&w);
}

/* More live slots than labels that fit: the first ones are kept, and the set is marked. */
static void test_map_of_very_many(void **state)
{
	enum { BUCKETS = 64, N = BUCKETS * 8 };
	struct world w;
	char key[16];

	(void)state;
	setup_minor(&w, 23);
	put_hmap(&w, N, 6, TABLE, 0);
	target_fake_add(w.t, TABLE, NULL, BUCKETS * BUCKET);
	for (int i = 0; i < N; i++) {
		snprintf(key, sizeof(key), "k%03d", i);
		put_slot(&w, TABLE + (i / 8) * BUCKET, i % 8, 77, key, "v");
	}
	_cleanup_free_ struct go_labels *l = read_labels(&w);

	assert_int_equal(l->n, GO_LABELS_MAX);
	assert_true(l->truncated);
	teardown(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_labels),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_empty_list),
		cmocka_unit_test(test_list_is_sorted_and_the_last_of_equal_keys_wins),
		cmocka_unit_test(test_list_faults),
		cmocka_unit_test(test_list_headers_that_lie),
		cmocka_unit_test(test_strings_that_lie),
		cmocka_unit_test(test_more_labels_than_fit),
		cmocka_unit_test(test_a_label_that_is_too_long),
		cmocka_unit_test(test_more_text_than_fits),
		cmocka_unit_test(test_map_of_one_bucket),
		cmocka_unit_test(test_map_that_is_nil_or_empty),
		cmocka_unit_test(test_map_with_overflow),
		cmocka_unit_test(test_map_that_grows),
		cmocka_unit_test(test_map_that_grows_in_place),
		cmocka_unit_test(test_overflow_chain_that_bites_its_tail),
		cmocka_unit_test(test_map_headers_that_lie),
		cmocka_unit_test(test_map_faults),
		cmocka_unit_test(test_map_of_very_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
