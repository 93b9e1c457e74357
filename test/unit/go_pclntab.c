/*
 * go_pclntab.c: finding the tables of a file made by hand, in every version's form, and what they
 * say: functions by pc and by name, stack depths, roles, files, lines and inlined calls. Then the
 * same file with damage: an answer that cannot be had must be none.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "../fake/go_image_fake.h"
#include "go/pclntab_impl.h"

static const int minors[] = { 19, 21, 22, 23, 24, 25, 26, 27 };

enum { N_MINORS = sizeof(minors) / sizeof(minors[0]) };

static const uint64_t live_bias = 0x555555000000;

/* A fake and the runtime over it. */
struct world {
	struct go_image_fake *f;
	struct image *img;
	struct go_runtime rt;
	gaddr_t text;		/* in the "process" */
};

static struct go_image_fake *fake(int minor, bool dyn)
{
	return go_image_fake_create(&(struct go_image_options){
		.minor = minor, .base = 0x400000, .dyn = dyn, .buildinfo = true });
}

static struct error *find_module(struct world *w, uint64_t bias)
{
	int fd = go_image_fake_file(w->f, FAKE_SIZE);
	struct error *err;

	assert_null(image_open_fd(fd, &w->img));
	close(fd);
	assert_true(go_layout_row(w->f->o.minor, &w->rt.layout));
	err = go_module_find(w->img, bias, &w->rt.layout, &w->rt.modules[0]);
	w->rt.n_modules = err ? 0 : 1;
	w->rt.wrapper_id = go_wrapper_func_id(w->f->o.minor);
	w->text = w->f->text + bias;
	arena_init(&w->rt.strings);
	assert_null(pclntab_cache_create(&w->rt.cache));
	return err;
}

static void world_close(struct world *w)
{
	pclntab_cache_destroy(w->rt.cache);
	arena_deinit(&w->rt.strings);
	image_close(w->img);
	go_image_fake_destroy(w->f);
	free(w);
}

/* Takes over the fake. */
static struct world *world_of(struct go_image_fake *f, uint64_t bias)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->f = f;
	assert_null(find_module(w, bias));
	return w;
}

static gaddr_t func_pc(const struct world *w, int func, uint32_t offset)
{
	return w->text + (uint64_t)func * FAKE_FUNC_SIZE + offset;
}

/* ---- finding ---- */

static void check_module(const struct world *w)
{
	const struct go_module *m = &w->rt.modules[0];

	assert_int_equal(m->format, w->f->o.minor >= 20 ? PCLNTAB_120 : PCLNTAB_118);
	assert_int_equal(m->pclntab, w->f->pclntab);
	assert_int_equal(m->moduledata, w->f->moduledata);
	assert_int_equal(m->nfunc, FAKE_FUNCS);
	assert_int_equal(m->text, w->f->text);
	assert_int_equal(m->etext, w->f->etext);
	assert_int_equal(m->gofunc, w->f->gofunc);
	assert_int_equal(m->functab, w->f->functab);
	assert_int_equal(m->cutab_size, 28);
	/* The parts of the data stand in another order than their names. */
	assert_int_equal(m->noptrdata, w->f->o.base + 0x6000);
	assert_int_equal(m->enoptrbss, w->f->o.base + 0x8000);
}

static void test_every_version_is_found(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_MINORS; i++)
		for (int form = 0; form < 3; form++) {
			struct world *w = world_of(go_image_fake_create(&(struct go_image_options){
				.minor = minors[i], .base = 0x400000, .dyn = form > 0, .in_place = form > 1 }),
				form ? live_bias : 0);

			check_module(w);
			assert_int_equal(w->rt.modules[0].bias, form ? live_bias : 0);
			world_close(w);
		}
}

/* Something that looks like a table, with a pointer to it, before the real one. */
static void test_decoys_are_passed_over(void **state)
{
	struct go_image_fake *f = fake(26, false);
	uint64_t decoy = f->o.base + 0x2020;
	struct world *w;

	(void)state;
	memcpy(go_image_fake_at(f, decoy), go_image_fake_at(f, f->pclntab), 72);
	go_image_fake_put(f, f->o.base + 0x6010, decoy, 8);
	go_image_fake_put(f, f->o.base + 0x6020, f->pclntab, 8);
	w = world_of(f, 0);
	check_module(w);
	world_close(w);
}

/* Every single contradiction ends the belief. */
static void test_damage_is_refused(void **state)
{
	struct go_image_fake *g = fake(26, false);
	const uint64_t h = g->pclntab, m = g->moduledata, ft = g->functab;
	const struct {
		uint64_t at, value;
		unsigned int size;
	} damage[] = {
		{ h, 0xfffffff2, 4 }, { h + 4, 1, 1 }, { h + 6, 4, 1 }, { h + 7, 4, 1 },
		{ h + 8, 0, 8 }, { h + 8, UINT64_MAX, 8 }, { h + 8, 4000000, 8 }, { h + 8, FAKE_FUNCS - 1, 8 },
		{ h + 32, 8, 8 }, { h + 40, 0x48, 8 }, { h + 64, 0x100000, 8 }, { h + 64, UINT64_MAX, 8 },
		{ m, h + 8, 8 }, { m + 8, 0x10, 8 }, { m + 16, 0, 8 }, { m + 16, UINT64_MAX, 8 },
		{ m + 40, UINT64_MAX / 4 + 1, 8 }, { m + 40, 0x2000, 8 }, { m + 64, 0x10000, 8 },
		{ m + 88, 0x10000, 8 }, { m + 104, h - 8, 8 }, { m + 112, 8, 8 }, { m + 136, FAKE_FUNCS, 8 },
		{ m + 136, FAKE_FUNCS + 2, 8 }, { m + 128, 0x7fffffff0000, 8 },
		{ m + 160, g->text + 1, 8 }, { m + 168, g->etext + 1, 8 }, { m + 176, g->text + 16, 8 },
		{ m + 176, g->o.base + 0x2000, 8 }, { m + 184, g->text, 8 }, { m + 184, g->text + 0x10000, 8 },
		{ m + 184, UINT64_MAX, 8 }, { m + 344, 2, 8 }, { m + 200, 0x10, 8 },
		{ ft, 4, 4 }, { ft + 8 * FAKE_FUNCS, 0xffffffff, 4 },
	};

	(void)state;
	go_image_fake_destroy(g);
	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		struct world *w = calloc(1, sizeof(*w));
		struct go_module before;

		w->f = fake(26, false);
		go_image_fake_put(w->f, damage[i].at, damage[i].value, damage[i].size);
		memset(&before, 0x55, sizeof(before));
		w->rt.modules[0] = before;
		if (find_module(w, 0) != &err_notfound)
			fail_msg("damage %zu was accepted", i);
		assert_memory_equal(&w->rt.modules[0], &before, sizeof(before));
		world_close(w);
	}
}

static void test_old_formats_are_named(void **state)
{
	static const uint32_t magics[] = { 0xfffffffa, 0xfffffffb };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct world *w = calloc(1, sizeof(*w));
		struct error *err;
		enum pclntab_format format;
		gaddr_t addr;
		uint64_t nfunc;

		w->f = fake(19, false);
		go_image_fake_put(w->f, w->f->pclntab, magics[i], 4);
		for (unsigned int k = 0; k < 6; k++)	/* plausible as table offsets of the older header, too */
			go_image_fake_put(w->f, w->f->pclntab + 24 + 8 * k, 0x50 + k, 8);
		err = find_module(w, 0);
		assert_int_equal(err->kind, ERROR_UNSUPPORTED);
		assert_non_null(strstr(err->what, i ? "1.15" : "1.16"));
		error_free(err);
		assert_null(go_pclntab_find(w->img, &addr, &format, &nfunc));
		assert_int_equal(format, i ? PCLNTAB_12 : PCLNTAB_116);
		assert_int_equal(addr, w->f->pclntab);
		world_close(w);
	}
}

/* ---- functions ---- */

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
		assert_int_equal(go_func_wrapped(&w->rt, &f), func_pc(w, 0, 0));
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

/* ---- lines ---- */

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

/* ---- damaged records and tables ---- */

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
		cmocka_unit_test(test_every_version_is_found),
		cmocka_unit_test(test_decoys_are_passed_over),
		cmocka_unit_test(test_damage_is_refused),
		cmocka_unit_test(test_old_formats_are_named),
		cmocka_unit_test(test_functions_by_pc),
		cmocka_unit_test(test_functions_by_name),
		cmocka_unit_test(test_roles),
		cmocka_unit_test(test_stack_depth),
		cmocka_unit_test(test_caches_are_bounded),
		cmocka_unit_test(test_code),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_inlined_wrapper),
		cmocka_unit_test(test_damaged_trees),
		cmocka_unit_test(test_damaged_records),
		cmocka_unit_test(test_damaged_strings),
		cmocka_unit_test(test_damaged_value_tables),
		cmocka_unit_test(test_endless_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
