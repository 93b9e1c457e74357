/*
 * go_pclntab.c: what the function tables of a file made by hand say: functions by pc and by name,
 * stack depths, roles. Then the same file with damage: an answer that cannot be had must be none.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../fake/go_image_world.h"

static const int minors[] = { 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27 };

enum { N_MINORS = sizeof(minors) / sizeof(minors[0]) };

static const uint64_t live_bias = 0x555555000000;

static struct go_image_fake *fake(int minor, bool dyn)
{
	return go_image_fake_create(&(struct go_image_options){
		.minor = minor, .base = 0x400000, .dyn = dyn, .buildinfo = true });
}

static void check_functions(struct world *w)
{
	struct go_func f;

	assert_false(go_func_find(&w->rt, w->text - 1, &f));
	assert_false(go_func_find(&w->rt, func_pc(w, FAKE_FUNCS, 0), &f));
	assert_false(go_func_find(&w->rt, 0, &f));
	assert_false(go_func_find(&w->rt, UINT64_MAX, &f));
	for (int i = 0; i < FAKE_FUNCS; i++)
		for (uint32_t at = 0; at < FAKE_FUNC_SIZE; at += 7) {
			assert_true(go_func_find(&w->rt, func_pc(w, i, at), &f));
			assert_int_equal(f.entry, func_pc(w, i, 0));
			assert_int_equal(f.end, func_pc(w, i + 1, 0));
			assert_ptr_equal(f.module, &w->rt.modules[0]);
			/* twice: the second answer comes from the cache */
			assert_true(go_func_find(&w->rt, func_pc(w, i, at), &f));
			assert_int_equal(f.entry, func_pc(w, i, 0));
		}
}

static void test_functions_by_pc(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_MINORS; i++) {
		struct world *w = world_of(fake(minors[i], true), live_bias);
		struct go_func f;

		check_functions(w);
		assert_true(go_func_find(&w->rt, func_pc(w, 0, 5), &f));
		assert_string_equal(go_func_name(&w->rt, &f), "main.main");
		assert_ptr_equal(go_func_name(&w->rt, &f), go_func_name(&w->rt, &f));
		assert_int_equal(f.start_line, minors[i] >= 20 ? 9 : 0);
		assert_int_equal(f.role, GO_FUNC_NORMAL);
		assert_int_equal(go_func_wrapped(&w->rt, &f), 0);
		assert_true(go_func_find(&w->rt, func_pc(w, 1, 0), &f));
		assert_int_equal(f.func_id, w->rt.wrapper_id);
		assert_int_equal(go_func_wrapped(&w->rt, &f), minors[i] >= 18 ? func_pc(w, 0, 0) : 0);
		assert_true(go_func_find(&w->rt, func_pc(w, 4, 0), &f));
		assert_int_equal(f.role, GO_FUNC_GOEXIT);
		assert_int_equal(f.flags, GO_FUNC_TOPFRAME | GO_FUNC_ASM);
		assert_true(go_func_find(&w->rt, func_pc(w, 5, 0), &f));
		assert_int_equal(f.role, GO_FUNC_SYSTEMSTACK);
		assert_int_equal(f.flags, GO_FUNC_SPWRITE | GO_FUNC_ASM);
		world_close(w);
	}
}

static void test_functions_by_name(void **state)
{
	struct world *w = world_of(fake(26, true), live_bias);
	struct go_func f;
	uint32_t pos = 0;

	(void)state;
	assert_true(go_func_by_name(&w->rt, "main.dup", &pos, &f));
	assert_int_equal(f.entry, func_pc(w, 2, 0));
	assert_true(go_func_by_name(&w->rt, "main.dup", &pos, &f));
	assert_int_equal(f.entry, func_pc(w, 3, 0));
	assert_false(go_func_by_name(&w->rt, "main.dup", &pos, &f));
	pos = 0;
	assert_true(go_func_by_name(&w->rt, "main.main", &pos, &f));	/* the first string of the table */
	assert_int_equal(f.entry, func_pc(w, 0, 0));
	assert_false(go_func_by_name(&w->rt, "main.main", &pos, &f));
	/* Parts of names, inlined-only names, no name. */
	static const char *const none[] = { "main.mai", "ain.main", "main.leaf", "", "runtime.goexi" };
	for (size_t i = 0; i < 5; i++) {
		pos = 0;
		assert_false(go_func_by_name(&w->rt, none[i], &pos, &f));
	}
	world_close(w);
}

static void test_roles(void **state)
{
	(void)state;
	assert_int_equal(go_func_role_by_name("runtime.goexit"), GO_FUNC_GOEXIT);
	assert_int_equal(go_func_role_by_name("runtime.goexit0"), GO_FUNC_NORMAL);
	assert_int_equal(go_func_role_by_name("runtime.main"), GO_FUNC_MAIN);
	assert_int_equal(go_func_role_by_name("runtime.main.func1"), GO_FUNC_NORMAL);
	assert_int_equal(go_func_role_by_name("main.goexit"), GO_FUNC_NORMAL);
	assert_int_equal(go_func_role_by_name("runtime.sigreturn__sigaction"), GO_FUNC_SIGRETURN);
	assert_int_equal(go_func_role_by_name("runtime.debugCallV2"), GO_FUNC_DEBUG_CALL);
	assert_int_equal(go_func_role_by_name("runtime.systemstack_switch"), GO_FUNC_SYSTEMSTACK_SWITCH);
	assert_int_equal(go_func_role_by_name(""), GO_FUNC_NORMAL);
	assert_int_equal(go_func_flags_by_name("runtime.goexit"), GO_FUNC_TOPFRAME | GO_FUNC_ASM);
	assert_int_equal(go_func_flags_by_name("runtime.nanotime1"), GO_FUNC_SPWRITE | GO_FUNC_ASM);
	assert_int_equal(go_func_flags_by_name("runtime.cgocallback_gofunc"), 0);
	assert_int_equal(go_func_flags_by_name("main.goexit"), 0);
}

static int32_t depth(struct world *w, int func, uint32_t offset)
{
	struct go_func f;

	assert_true(go_func_find(&w->rt, func_pc(w, func, offset), &f));
	return go_func_spdelta(&w->rt, &f, func_pc(w, func, offset));
}

static void test_stack_depth(void **state)
{
	static const struct {
		int func;
		uint32_t offset;
		int32_t depth;
	} cases[] = {
		{ 0, 0, 0 }, { 0, 3, 0 }, { 0, 4, 24 }, { 0, 0x3b, 24 }, { 0, 0x3c, 0 }, { 0, 0x3f, 0 },
		{ 2, 0, 0 }, { 5, 0, -1 },	/* no table */
	};

	(void)state;
	for (size_t i = 0; i < N_MINORS; i++) {
		struct world *w = world_of(fake(minors[i], false), live_bias);
		struct go_func f;

		for (int again = 0; again < 2; again++)
			for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
				assert_int_equal(depth(w, cases[k].func, cases[k].offset), cases[k].depth);
		/* A pc that is not in the function that is asked. */
		assert_true(go_func_find(&w->rt, func_pc(w, 0, 0), &f));
		assert_int_equal(go_func_spdelta(&w->rt, &f, func_pc(w, 1, 0)), -1);
		assert_int_equal(go_func_spdelta(&w->rt, &f, func_pc(w, 0, 0) - 1), -1);
		world_close(w);
	}
}

/* More pcs and records than the caches hold: they are emptied and filled again, and nothing mixes. */
static void test_caches_are_bounded(void **state)
{
	struct world *w = world_of(fake(26, false), 0);
	struct pclntab_cache *c = w->rt.cache;
	struct go_func f = { .entry = 0 };

	(void)state;
	assert_int_equal(depth(w, 0, 4), 24);
	for (uint32_t i = 0; i < 3 * PCS_MAX; i++) {
		f.entry = 0x100000000 + i;
		pc_entry_add(c, f.entry, 1, i / 8, &f);
		assert_true(c->n_pcs <= PCS_MAX && c->n_funcs <= FUNCS_MAX);
		assert_true(c->by_pc.n <= PCS_MAX && c->by_func.n <= FUNCS_MAX);
		assert_int_equal(c->funcs[pc_entry_get(c, f.entry)->func].entry, 0x100000000 + (i & ~7U));
	}
	assert_null(pc_entry_get(c, w->text + 4));
	for (int round = 0; round < 3; round++)
		for (uint32_t i = 0; i < FAKE_FUNC_SIZE; i++)
			assert_int_equal(depth(w, 0, i), i >= 4 && i < 0x3c ? 24 : 0);
	world_close(w);
}

static void test_code(void **state)
{
	struct world *w = world_of(fake(26, true), live_bias);
	uint8_t buf[1024];

	(void)state;
	memset(buf, 0, sizeof(buf));
	assert_int_equal(go_code_read(&w->rt, func_pc(w, 0, 3), buf, 10), 10);
	assert_int_equal(buf[0], 0xcc);
	assert_int_equal(buf[10], 0);
	assert_int_equal(go_code_read(&w->rt, func_pc(w, FAKE_FUNCS - 1, 0x38), buf, sizeof(buf)), 8);
	assert_int_equal(go_code_read(&w->rt, func_pc(w, FAKE_FUNCS, 0), buf, 1), 0);
	assert_int_equal(go_code_read(&w->rt, w->f->text, buf, 1), 0);
	world_close(w);
}

static void test_damaged_records(void **state)
{
	struct go_image_fake *g = fake(26, false);
	const struct {
		uint64_t at, value;
		unsigned int size;
	} damage[] = {
		{ g->functab + 8 + 4, 0xfffffff0, 4 },	/* main.main.gowrap1's record is far away */
		{ g->functab + 8 + 4, 0x4f0, 4 },	/* ... or cut off by the end of the table */
		{ g->record[1], 0x41, 4 },		/* ... or says another entry */
		{ g->functab + 16, 0x3f, 4 },		/* the table is not sorted */
		{ g->functab + 16, 0x40, 4 },		/* two functions at one place */
	};

	(void)state;
	go_image_fake_destroy(g);
	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		struct go_image_fake *f = fake(26, false);
		struct world *w;
		struct go_func fn;
		struct go_line l;
		uint32_t pos = 0;

		go_image_fake_put(f, damage[i].at, damage[i].value, damage[i].size);
		w = world_of(f, 0);
		assert_false(go_func_find(&w->rt, func_pc(w, 1, 4), &fn));
		assert_false(go_func_find(&w->rt, func_pc(w, 1, 4), &fn));
		assert_int_equal(go_lines(&w->rt, func_pc(w, 1, 4), &l, 1), 0);
		assert_false(go_func_by_name(&w->rt, "main.main.gowrap1", &pos, &fn));
		world_close(w);
	}
}

/* Records and entries with addresses (up to 1.17), in a program that is not relocated yet. */
static void test_damaged_wide_records(void **state)
{
	static const int old[] = { 15, 16, 17 };

	(void)state;
	for (size_t k = 0; k < 6 * sizeof(old) / sizeof(old[0]); k++) {
		struct go_image_fake *f = fake(old[k / 6], false);
		const struct {
			uint64_t at, value;
		} damage[6] = {
			{ f->ftab + 16 + 8, 0x100000000 + 0x80 },	/* a record beyond 32 bits */
			{ f->ftab + 16 + 8, 0xfffffff0 },		/* ... far away */
			{ f->record[1], f->text + 0x41 },		/* ... that says another entry */
			{ f->record[1], f->text + 0x40 + 0x100000000 },
			{ f->ftab + 16, f->text - 8 },			/* a function before the code */
			{ f->ftab + 32, f->text + 0x40 },		/* two functions at one place */
		};
		uint32_t pos = 0;
		struct go_func fn;
		struct go_line l;
		struct world *w;

		go_image_fake_put(f, damage[k % 6].at, damage[k % 6].value, 8);
		w = world_of(f, live_bias);
		if (go_func_find(&w->rt, func_pc(w, 1, 4), &fn))
			fail_msg("go1.%d: damage %zu was accepted", old[k / 6], k % 6);
		assert_int_equal(go_lines(&w->rt, func_pc(w, 1, 4), &l, 1), 0);
		assert_false(go_func_by_name(&w->rt, "main.main.gowrap1", &pos, &fn));
		world_close(w);
	}
}

/* Names and files outside their tables are unknown, not somebody else's. */
static void test_damaged_strings(void **state)
{
	struct go_image_fake *f = fake(26, false);
	struct go_line l[8];
	struct go_func fn;
	struct world *w;

	(void)state;
	go_image_fake_put(f, f->record[0] + 4, 0x200, 4);	/* name: just behind the table */
	go_image_fake_put(f, f->record[1] + 4, 0xffffffff, 4);
	go_image_fake_put(f, f->inl_tree + 4, 0x7fffffff, 4);
	go_image_fake_put(f, f->cutab + 4 * 5, 0x80, 4);	/* file of leaf */
	go_image_fake_put(f, f->record[2] + 32, 0xffffffff, 4);	/* compilation unit */
	w = world_of(f, 0);
	assert_true(go_func_find(&w->rt, func_pc(w, 0, 0), &fn));
	assert_string_equal(go_func_name(&w->rt, &fn), "");
	assert_true(go_func_find(&w->rt, func_pc(w, 1, 0), &fn));
	assert_string_equal(go_func_name(&w->rt, &fn), "");
	assert_int_equal(go_lines(&w->rt, func_pc(w, 0, 0x10), l, 8), 3);
	assert_string_equal(l[0].file, "");
	assert_string_equal(l[1].function, "");
	assert_string_equal(l[1].file, "/src/mid.go");
	assert_int_equal(go_lines(&w->rt, func_pc(w, 2, 0), l, 8), 1);
	assert_string_equal(l[0].file, "");
	world_close(w);
}

static void test_damaged_value_tables(void **state)
{
	static const struct {
		uint8_t bytes[12];
		int32_t at_0, at_10;
	} cases[] = {
		{ { 0, 4, 0 }, -1, -1 },				/* no depth, then the end */
		{ { 2, 4, 0 }, 0, -1 },					/* ends before the function does */
		{ { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1 }, -1, -1 },	/* number without end */
		{ { 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f }, -1, -1 },	/* and one too large */
		{ { 1, 4, 50, 60, 0 }, -1, -1 },			/* depth -2, then 23 */
		{ { 10, 4, 1, 60, 0 }, 4, 3 },				/* (4 is no multiple of 8: none) */
		{ { 2, 0, 2, 0, 2, 0, 34, 100, 0 }, -1, -1 },		/* 0, 1, 2 on no bytes, then 19 */
		{ { 2, 0, 2, 0, 2, 0, 28, 100, 0 }, 16, 16 },
		{ { 0xfe, 0xff, 0xff, 0xff, 0x0f, 4, 4, 60 }, -1, -1 },	/* beyond 32 bits */
		{ { 2, 0xff, 0xff, 0xff, 0xff, 0x0f }, 0, 0 },		/* one pair for 4 GB of code */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct go_image_fake *f = fake(26, false);
		struct world *w;
		int32_t at_0 = cases[i].at_0 % 8 ? -1 : cases[i].at_0;
		int32_t at_10 = cases[i].at_10 % 8 ? -1 : cases[i].at_10;

		memcpy(go_image_fake_at(f, f->table_sp), cases[i].bytes, sizeof(cases[i].bytes));
		w = world_of(f, 0);
		if (depth(w, 0, 0) != at_0 || depth(w, 0, 0x10) != at_10)
			fail_msg("case %zu: %d %d", i, depth(w, 0, 0), depth(w, 0, 0x10));
		world_close(w);
	}
}

/* A run of pairs that move no pc must end, and a table at the very end of its room, too. */
static void test_endless_tables(void **state)
{
	struct go_image_fake *f = fake(26, false);
	struct world *w;

	(void)state;
	for (uint64_t at = f->table_sp; at < f->pctab + 0x100; at += 2) {
		go_image_fake_put(f, at, at == f->table_sp ? 2 : 1, 1);
		go_image_fake_put(f, at + 1, 0, 1);
	}
	w = world_of(f, 0);
	assert_int_equal(depth(w, 0, 0), -1);
	world_close(w);

	f = fake(26, false);
	go_image_fake_put(f, f->record[0] + 16, 0xff, 4);	/* pcsp: the last byte of pctab */
	go_image_fake_put(f, f->pctab + 0xff, 2, 1);
	w = world_of(f, 0);
	assert_int_equal(depth(w, 0, 0), -1);
	world_close(w);

	f = fake(26, false);
	go_image_fake_put(f, f->record[0] + 16, 0x100, 4);	/* just behind it */
	w = world_of(f, 0);
	assert_int_equal(depth(w, 0, 0), -1);
	world_close(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions_by_pc),
		cmocka_unit_test(test_functions_by_name),
		cmocka_unit_test(test_roles),
		cmocka_unit_test(test_stack_depth),
		cmocka_unit_test(test_caches_are_bounded),
		cmocka_unit_test(test_code),
		cmocka_unit_test(test_damaged_records),
		cmocka_unit_test(test_damaged_wide_records),
		cmocka_unit_test(test_damaged_strings),
		cmocka_unit_test(test_damaged_value_tables),
		cmocka_unit_test(test_endless_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
