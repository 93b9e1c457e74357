/*
 * unwind_kept.c: which frames are kept of a stack with more than there is room for, for every small
 * size of both: all of them, or both ends around one gap that says how many are missing.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "unwind/unwind_impl.h"

enum { CAP_MAX = 12, FRAMES_MAX = 40 };

/* Adds frames with pcs from, from + 1, ...; how many went in. */
static size_t add(struct kept *k, size_t from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!kept_add(k, from + i, PC_RETURN))
			return i;
	return n;
}

static void assert_frames(const struct pc_frame *v, size_t n, gaddr_t first)
{
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(v[i].kind, PC_RETURN);
		assert_int_equal(v[i].pc, first + i);
	}
}

static void test_all_sizes(void **state)
{
	(void)state;
	for (size_t cap = 0; cap <= CAP_MAX; cap++) {
		for (size_t n = 0; n <= FRAMES_MAX; n++) {
			struct pc_frame out[CAP_MAX + 1] = { [CAP_MAX] = { .pc = 99 } };
			size_t in, near, got;
			struct kept k;

			kept_init(&k, out, cap);
			in = add(&k, 100, n);
			near = k.near;
			got = kept_finish(&k, true);
			assert_int_equal(out[CAP_MAX].pc, 99);
			if (n <= cap) {
				assert_int_equal(in, n);
				assert_int_equal(got, n);
				assert_false(kept_has_gap(&k));
				assert_frames(out, n, 100);
				continue;
			}
			if (cap < 3) {		/* no room for two ends */
				assert_int_equal(in, cap);
				assert_frames(out, cap, 100);
				continue;
			}
			assert_int_equal(in, n);
			assert_int_equal(got, cap);
			assert_true(kept_has_gap(&k));
			assert_int_equal(near, cap / 2);
			assert_frames(out, near, 100);
			assert_int_equal(out[near].kind, PC_GAP);
			assert_int_equal(pc_gap_frames(&out[near]), n - (cap - 1));
			assert_int_equal(pc_gap_bytes(&out[near]), 0);
			assert_frames(out + near + 1, cap - near - 1, 100 + n - (cap - near - 1));
		}
	}
}

/* Cut at the far end: what went round in the ring follows nothing. */
static void test_not_whole(void **state)
{
	struct pc_frame out[6];
	struct kept k;

	(void)state;
	kept_init(&k, out, 6);
	add(&k, 1, 6);
	assert_int_equal(kept_finish(&k, false), 6);
	assert_frames(out, 6, 1);
	kept_init(&k, out, 6);
	add(&k, 1, 7);
	assert_int_equal(kept_finish(&k, false), 3);
	assert_frames(out, 3, 1);
}

/* The middle was not read: one gap, also when the far end has more than there is room for. */
static void test_skip(void **state)
{
	for (size_t far = 0; far < 9; far++) {
		struct pc_frame out[8];
		struct kept k;
		size_t n;

		(void)state;
		kept_init(&k, out, 8);
		add(&k, 1, 6);
		assert_int_equal(k.near, 4);
		kept_skip(&k, 4096);
		assert_true(kept_has_gap(&k));
		add(&k, 50, far);
		n = kept_finish(&k, true);
		assert_int_equal(n, far < 3 ? 5 + far : 8);
		assert_frames(out, 4, 1);
		assert_int_equal(out[4].kind, PC_GAP);
		assert_int_equal(pc_gap_frames(&out[4]), 0);
		assert_int_equal(pc_gap_bytes(&out[4]), 4096);
		assert_frames(out + 5, n - 5, 50 + far - (n - 5));
	}
}

/* Fewer frames before the missing middle than would be kept: the far end gets their room. */
static void test_skip_early(void **state)
{
	struct pc_frame out[8];
	struct kept k;

	(void)state;
	kept_init(&k, out, 8);
	add(&k, 1, 1);
	kept_skip(&k, 8);
	add(&k, 50, 6);
	assert_int_equal(kept_finish(&k, true), 8);
	assert_frames(out, 1, 1);
	assert_int_equal(out[1].kind, PC_GAP);
	assert_frames(out + 2, 6, 50);
}

static void test_last(void **state)
{
	struct pc_frame out[5];
	struct kept k;

	(void)state;
	kept_init(&k, out, 5);
	assert_null(kept_last(&k, 0));
	add(&k, 10, 20);		/* 10 11, then 27 28 29 in the ring */
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(kept_last(&k, i)->pc, 29 - i);
	assert_null(kept_last(&k, 3));
	assert_null(kept_last(&k, 17));
	assert_int_equal(kept_last(&k, 18)->pc, 11);
	assert_int_equal(kept_last(&k, 19)->pc, 10);
	assert_null(kept_last(&k, 20));
}

/* Numbers in a pc that is none. */
static void test_other_kinds_have_no_numbers(void **state)
{
	const struct pc_frame f = { .pc = 7, .kind = PC_RETURN }, unknown = { .kind = PC_GAP };

	(void)state;
	assert_int_equal(pc_gap_frames(&f), 0);
	assert_int_equal(pc_gap_bytes(&f), 0);
	assert_int_equal(pc_gap_frames(&unknown), 0);
	assert_int_equal(pc_gap_bytes(&unknown), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_sizes),
		cmocka_unit_test(test_not_whole),
		cmocka_unit_test(test_skip),
		cmocka_unit_test(test_skip_early),
		cmocka_unit_test(test_last),
		cmocka_unit_test(test_other_kinds_have_no_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
