/*
 * go_layout.c: the generated table is whole, and its rows obey the relations between members that
 * held in every version measured. A relation that breaks means a wrong row or a changed runtime:
 * both must be seen by a person.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "go/go_impl.h"

static void test_minors_and_rows_agree(void **state)
{
	int n, rows = 0;
	const int *minors = go_layout_minors(&n);
	struct go_layout l;

	(void)state;
	assert_true(n >= 13);
	for (int i = 0; i < n; i++) {
		assert_true(i == 0 || minors[i] > minors[i - 1]);
		assert_true(go_layout_row(minors[i], &l));
	}
	for (int minor = -1; minor < 200; minor++)
		rows += go_layout_row(minor, &l);
	assert_int_equal(rows, n);
}

static void test_origin_names_the_version(void **state)
{
	int n, minor, patch;
	const int *minors = go_layout_minors(&n);

	(void)state;
	for (int i = 0; i < n; i++) {
		const char *origin = go_layout_row_origin(minors[i], 1000);
		char *end;

		assert_non_null(origin);
		assert_int_equal(strncmp(origin, "go1.", 4), 0);
		minor = (int)strtol(origin + 4, &end, 10);
		assert_int_equal(minor, minors[i]);
		assert_int_equal(*end, '.');
		patch = atoi(end + 1);
		assert_true(patch > 0);
	}
	assert_null(go_layout_row_origin(14, 0));
	assert_null(go_layout_row_origin(1000, 0));
}

static void test_unknown_version_leaves_result_alone(void **state)
{
	struct go_layout l;

	(void)state;
	memset(&l, 0x5a, sizeof(l));
	assert_false(go_layout_row(14, &l));
	for (size_t i = 0; i < sizeof(l); i++)
		assert_int_equal(((uint8_t *)&l)[i], 0x5a);
}

/* Read in the source of these releases. A release without a number is as the first one. */
static void test_rows_by_patch_release(void **state)
{
	static const struct {
		int minor, patch, vdso_sp;
	} cases[] = {
		{ 16, -1, 824 }, { 16, 0, 824 }, { 16, 3, 824 }, { 16, 4, 832 }, { 16, 15, 832 },
		{ 16, 1000, 832 }, { 23, 0, 856 }, { 23, 11, 856 }, { 23, 12, 880 }, { 24, 5, 880 },
		{ 24, 6, 904 }, { 24, 13, 904 },
	};
	struct go_layout l, newest;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(go_layout_row_of(cases[i].minor, cases[i].patch, &l));
		assert_int_equal(l.f[GO_M_VDSOSP].offset, cases[i].vdso_sp);
	}
	assert_true(go_layout_row(16, &newest));
	assert_int_equal(newest.f[GO_M_VDSOSP].offset, 832);
	assert_true(go_layout_row_of(26, -1, &l));
	assert_true(go_layout_row(26, &newest));
	assert_memory_equal(&l, &newest, sizeof(l));
	assert_false(go_layout_row_of(14, 0, &l));
}

/* Offset of b minus offset of a, in every version from `since` on. */
static const struct {
	enum go_field a, b;
	int distance, since;
} relations[] = {
	{ GO_G_GOID, GO_G_ATOMICSTATUS, -8, 15 },
	{ GO_G_GOID, GO_G_WAITSINCE, 16, 15 },
	{ GO_G_GOID, GO_G_WAITREASON, 24, 15 },
	{ GO_G_STARTPC, GO_G_GOPC, -16, 15 },
	{ GO_G_STARTPC, GO_G_ANCESTORS, -8, 15 },
	{ GO_G_GOPC, GO_G_PARENTGOID, -8, 21 },
	{ GO_G_STARTPC, GO_G_WAITING, 16, 15 },
	{ GO_G_STARTPC, GO_G_LABELS, 48, 15 },
	{ GO_M_PROCID, GO_M_CURG, 120, 15 },
	{ GO_M_PROCID, GO_M_GSIGNAL, 8, 15 },
	{ GO_G_STACK_LO, GO_G_STACK_HI, 8, 15 },
	{ GO_G_SCHED_SP, GO_G_SCHED_PC, 8, 15 },
	{ GO_G_SCHED_PC, GO_G_SCHED_G, 8, 15 },
	{ GO_G_SYSCALLSP, GO_G_SYSCALLPC, 8, 15 },
	{ GO_M_VDSOSP, GO_M_VDSOPC, 8, 15 },
};

static void test_relations_hold(void **state)
{
	int n;
	const int *minors = go_layout_minors(&n);

	(void)state;
	for (int i = 0; i < n; i++) {
		struct go_layout l;

		assert_true(go_layout_row(minors[i], &l));
		for (size_t j = 0; j < sizeof(relations) / sizeof(relations[0]); j++) {
			if (minors[i] < relations[j].since)
				continue;
			assert_true(go_has(&l, relations[j].a));
			assert_true(go_has(&l, relations[j].b));
			assert_int_equal(l.f[relations[j].b].offset - l.f[relations[j].a].offset,
					 relations[j].distance);
		}
	}
}

/* Which versions have the members that come and go. */
static const struct {
	enum go_field f;
	int first, last;
} lives[] = {
	{ GO_G_TRACKINGSEQ, 17, 99 },
	{ GO_G_SYSCALLBP, 23, 99 },
	{ GO_G_PARENTGOID, 21, 99 },
	{ GO_G_BUBBLE, 24, 99 },
	{ GO_G_RUNNINGCLEANUPS, 25, 99 },
	{ GO_HMAP_BUCKETS, 15, 23 },
	{ GO_HMAP_FLAGS, 15, 23 },
	{ GO_MD_GOFUNC, 18, 99 },
	{ GO_M_ISEXTRA, 20, 99 },
};

static void test_members_come_and_go(void **state)
{
	int n;
	const int *minors = go_layout_minors(&n);

	(void)state;
	for (int i = 0; i < n; i++) {
		struct go_layout l;

		assert_true(go_layout_row(minors[i], &l));
		for (size_t j = 0; j < sizeof(lives) / sizeof(lives[0]); j++)
			assert_int_equal(go_has(&l, lives[j].f),
					 minors[i] >= lives[j].first && minors[i] <= lives[j].last);
	}
}

/* Every member lies in its struct; absent ones have no size; each says where it came from. */
static void test_members_lie_in_their_struct(void **state)
{
	static const struct {
		enum go_field size, first, last;
	} structs[] = {
		{ GO_G_SIZE, GO_G_SIZE, GO_M_SIZE - 1 },
		{ GO_M_SIZE, GO_M_SIZE, GO_P_ID - 1 },
		{ GO_MD_SIZE, GO_MD_SIZE, GO_HMAP_COUNT - 1 },
	};
	int n;
	const int *minors = go_layout_minors(&n);

	(void)state;
	for (int i = 0; i < n; i++) {
		struct go_layout l;

		assert_true(go_layout_row(minors[i], &l));
		for (int f = 0; f < GO_FIELD_COUNT; f++) {
			assert_int_equal(l.f[f].source, GO_SOURCE_ROW);
			assert_true(l.f[f].offset >= 0 ? l.f[f].size > 0
						       : l.f[f].offset == -1 && l.f[f].size == 0);
		}
		for (size_t s = 0; s < sizeof(structs) / sizeof(structs[0]); s++) {
			uint32_t size = l.f[structs[s].size].size;

			assert_true(size > 300);
			for (int f = structs[s].first + 1; f <= (int)structs[s].last; f++)
				assert_true(l.f[f].offset + (int64_t)l.f[f].size <= size);
		}
	}
}

/* Read in one binary of each version, not from this table. */
static void test_wrapper_ids(void **state)
{
	static const uint8_t ids[] = {
		[15] = 22, [16] = 22, [17] = 22, [18] = 21, [19] = 21, [20] = 21, [21] = 21, [22] = 22, [23] = 22, [24] = 22, [25] = 23, [26] = 23,
		[27] = 23,
	};
	int n;
	const int *minors = go_layout_minors(&n);

	(void)state;
	for (int i = 0; i < n && minors[i] < (int)sizeof(ids); i++)
		assert_int_equal(go_wrapper_func_id(minors[i]), ids[minors[i]]);
	assert_int_equal(go_wrapper_func_id(14), UINT8_MAX);
	assert_int_equal(go_wrapper_func_id(0), UINT8_MAX);
}

static void test_wait_reason_counts_never_shrink(void **state)
{
	int n;
	const int *minors = go_layout_minors(&n);
	uint32_t before = 1;

	(void)state;
	for (int i = 0; i < n; i++) {
		uint32_t count = go_layout_wait_reasons(minors[i], 1000);

		assert_true(count >= before && count <= GO_WAIT_REASONS_MAX);
		before = count;
	}
	assert_int_equal(go_layout_wait_reasons(14, 0), 0);
	assert_int_equal(go_layout_wait_reasons(23, 3), 37);
	assert_int_equal(go_layout_wait_reasons(23, 4), 38);
}

static void test_source_names(void **state)
{
	(void)state;
	for (int s = GO_SOURCE_NONE; s <= GO_SOURCE_DATA; s++)
		for (int r = GO_SOURCE_NONE; r < s; r++)
			assert_string_not_equal(go_source_name(s), go_source_name(r));
	assert_string_equal(go_source_name((enum go_source)99), "unknown");
}

/* ---- how long ---- */

/* Every row is short enough; of others far members go that can be done without, and no others. */
static void test_long_layouts_are_shortened(void **state)
{
	int n;
	const int *minors = go_layout_minors(&n);
	struct go_layout l, before;

	(void)state;
	for (int i = 0; i < n; i++) {
		assert_true(go_layout_row(minors[i], &l));
		before = l;
		go_layout_shorten(&l);
		assert_memory_equal(&l, &before, sizeof(l));
		l.f[GO_M_VDSOPC].offset = 1 << 20;
		l.f[GO_M_VDSOSP].offset = 1 << 19;
		l.f[GO_G_LABELS].offset = GO_G_SPAN_MAX - 7;
		go_layout_shorten(&l);
		assert_true(g_span(&l) <= GO_G_SPAN_MAX && g_span(&l) + m_span(&l) <= GO_SPANS_MAX);
		for (enum go_field f = 0; f < GO_FIELD_COUNT; f++)
			assert_true(go_has(&l, f) == (go_has(&before, f) && f != GO_M_VDSOPC &&
						      f != GO_M_VDSOSP && f != GO_G_LABELS));
		assert_true(go_layout_has_core(&l));
		l.f[GO_M_ALLLINK].offset = 1 << 20;	/* nothing helps */
		go_layout_shorten(&l);
		assert_true(go_layout_has_core(&l));
		assert_true(m_span(&l) > GO_SPANS_MAX);
	}
}

/* Fingerprints are read without a look at sizes: a file that says other ones must not lead beyond the bytes read. */
static void test_members_of_other_sizes_are_forgotten(void **state)
{
	struct go_layout l;

	(void)state;
	assert_true(go_layout_row(26, &l));
	l.f[GO_G_LABELS].size = 1;
	l.f[GO_G_WAITREASON].size = 8;
	go_layout_shorten(&l);
	assert_false(go_has(&l, GO_G_LABELS));
	assert_false(go_has(&l, GO_G_WAITREASON));
	assert_true(go_layout_has_core(&l));
	l.f[GO_G_GOID].size = 4;
	go_layout_shorten(&l);
	assert_false(go_layout_has_core(&l));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_long_layouts_are_shortened),
		cmocka_unit_test(test_members_of_other_sizes_are_forgotten),
		cmocka_unit_test(test_minors_and_rows_agree),
		cmocka_unit_test(test_origin_names_the_version),
		cmocka_unit_test(test_unknown_version_leaves_result_alone),
		cmocka_unit_test(test_rows_by_patch_release),
		cmocka_unit_test(test_relations_hold),
		cmocka_unit_test(test_members_come_and_go),
		cmocka_unit_test(test_members_lie_in_their_struct),
		cmocka_unit_test(test_wrapper_ids),
		cmocka_unit_test(test_wait_reason_counts_never_shrink),
		cmocka_unit_test(test_source_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
