/*
 * go_lines.c: the logical frames of a pc: files, lines and inlined calls, in both forms of the
 * tree; and that a tree which contradicts itself gives the function alone.
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

static void check_line(const struct go_line *l, const char *function, const char *file, int line,
		       int start_line, bool inlined)
{
	assert_string_equal(l->function, function);
	assert_string_equal(l->file, file);
	assert_int_equal(l->line, line);
	assert_int_equal(l->start_line, start_line);
	assert_int_equal(l->inlined, inlined);
}

static void test_lines(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_MINORS; i++) {
		struct world *w = world_of(fake(minors[i], true), live_bias);
		bool starts = minors[i] >= 20;
		struct go_line l[8];

		assert_int_equal(go_lines(&w->rt, func_pc(w, 0, 0), l, 8), 1);
		check_line(&l[0], "main.main", "/src/main.go", 10, starts ? 9 : 0, false);
		assert_false(l[0].wrapper);
		assert_int_equal(l[0].entry, func_pc(w, 0, 0));
		assert_int_equal(go_lines(&w->rt, func_pc(w, 0, 8), l, 8), 1);
		assert_int_equal(l[0].line, 12);

		assert_int_equal(go_lines(&w->rt, func_pc(w, 0, 0x17), l, 8), 3);
		check_line(&l[0], "main.leaf", "/src/leaf.go", 55, starts ? 51 : 0, true);
		check_line(&l[1], "main.mid", "/src/mid.go", 33, starts ? 31 : 0, true);
		check_line(&l[2], "main.main", "/src/main.go", 12, starts ? 9 : 0, false);
		assert_int_equal(l[0].entry, func_pc(w, 0, 0));
		assert_int_equal(go_lines(&w->rt, func_pc(w, 0, 0x18), l, 8), 2);
		check_line(&l[0], "main.mid", "/src/mid.go", 33, starts ? 31 : 0, true);

		/* Less room than frames: the innermost ones. */
		assert_int_equal(go_lines(&w->rt, func_pc(w, 0, 0x10), l, 2), 2);
		check_line(&l[1], "main.mid", "/src/mid.go", 33, starts ? 31 : 0, true);
		assert_int_equal(go_lines(&w->rt, func_pc(w, 0, 0x10), l, 0), 0);

		assert_int_equal(go_lines(&w->rt, func_pc(w, 1, 0), l, 8), 1);
		assert_true(l[0].wrapper);
		/* File number without a file; no file table; nothing at all. */
		assert_int_equal(go_lines(&w->rt, func_pc(w, 2, 0), l, 8), 1);
		check_line(&l[0], "main.dup", "", 0, starts ? 77 : 0, false);
		assert_int_equal(go_lines(&w->rt, func_pc(w, 5, 0), l, 8), 1);
		check_line(&l[0], "runtime.systemstack", "", 0, 0, false);
		assert_int_equal(go_lines(&w->rt, func_pc(w, FAKE_FUNCS, 0), l, 8), 0);
		/* Up to 1.16 the words on the stack tell whether there are arguments: main.main has none. */
		assert_int_equal(go_lines(&w->rt, func_pc(w, 0, 0), l, 8), 1);
		assert_true(l[0].no_args);
		assert_int_equal(go_lines(&w->rt, func_pc(w, 1, 0), l, 8), 1);
		assert_int_equal(l[0].no_args, minors[i] >= 17);
		world_close(w);
	}
}

/* A wrapper that was inlined says so in the tree. */
static void test_inlined_wrapper(void **state)
{
	struct go_image_fake *f = fake(26, false);
	struct go_line l[8];
	struct world *w;

	(void)state;
	go_image_fake_put(f, f->inl_tree, 23, 1);
	w = world_of(f, 0);
	assert_int_equal(go_lines(&w->rt, func_pc(w, 0, 0x10), l, 8), 3);
	assert_false(l[0].wrapper);
	assert_true(l[1].wrapper);
	assert_true(l[1].inlined);
	world_close(w);
}

/* Up to 1.15 file numbers begin at 1: 0 would name the table's length. */
static void test_file_number_0(void **state)
{
	static const int cases[][2] = { { 15, 0 }, { 16, 1 } };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct go_image_fake *f = fake(cases[i][0], false);
		struct go_line l[8];
		struct world *w;

		go_image_fake_put(f, f->cutab, 1, 4);		/* what number 0 leads to: no name of a file */
		go_image_fake_put(f, f->cutab + 4 * 3, 1, 4);
		if (i == 0)
			go_image_fake_put(f, f->pctab + 1 + 7, 2, 1);	/* 0 and no longer 3, up to +0x10 */
		w = world_of(f, 0);
		assert_int_equal(go_lines(&w->rt, func_pc(w, 0, 0), l, 8), 1);
		assert_string_equal(l[0].file, cases[i][1] ? "src/main.go" : "");
		world_close(w);
	}
}

/* The tree contradicts itself: the function alone, and no line that belongs to another one. */
static void test_damaged_trees(void **state)
{
	struct go_image_fake *g = fake(26, false);
	const struct {
		uint64_t at, value;
		unsigned int size;
	} damage[] = {
		{ g->inl_tree + 16 + 8, 0x10, 4 },	/* leaf was called by itself: a cycle */
		{ g->inl_tree + 8, 0x10, 4 },		/* mid by leaf: a longer one */
		{ g->inl_tree + 16 + 8, 0x40, 4 },	/* the call is behind the end */
		{ g->inl_tree + 16 + 8, 0xffffffff, 4 },
		{ g->record[0] + 44 + 12 + 12, 0xfffffffe, 4 },	/* the tree is outside the file */
		{ g->record[0] + 44 + 12 + 12, 0xffffffff, 4 },	/* there is none */
		{ g->record[0] + 43, 3, 1 },			/* fewer funcdata */
		{ g->table_inl + 2, 0, 1 },			/* the table ends before the pc */
	};

	(void)state;
	go_image_fake_destroy(g);
	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		struct go_image_fake *f = fake(26, false);
		struct go_line l[8];
		struct world *w;

		go_image_fake_put(f, damage[i].at, damage[i].value, damage[i].size);
		w = world_of(f, 0);
		if (go_lines(&w->rt, func_pc(w, 0, 0x10), l, 8) != 1)
			fail_msg("damage %zu", i);
		check_line(&l[0], "main.main", "", 0, 9, false);
		world_close(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_inlined_wrapper),
		cmocka_unit_test(test_file_number_0),
		cmocka_unit_test(test_damaged_trees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
