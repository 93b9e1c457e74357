/*
 * go_moduledata.c: finding the tables of a file made by hand, in every version's form, among things
 * that look like them; and that each single contradiction ends the belief.
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

static enum pclntab_format format_of(int minor)
{
	return minor >= 20 ? PCLNTAB_120 : minor >= 18 ? PCLNTAB_118 : minor >= 16 ? PCLNTAB_116 : PCLNTAB_12;
}

static void check_module(const struct world *w)
{
	const struct go_module *m = &w->rt.modules[0];

	assert_int_equal(m->format, format_of(w->f->o.minor));
	assert_int_equal(m->pclntab, w->f->pclntab);
	assert_int_equal(m->moduledata, w->f->moduledata);
	assert_int_equal(m->nfunc, FAKE_FUNCS);
	assert_int_equal(m->text, w->f->text);
	assert_int_equal(m->etext, w->f->etext);
	assert_int_equal(m->gofunc, w->f->o.minor >= 18 ? w->f->gofunc : 0);
	assert_int_equal(m->functab, w->f->o.minor >= 16 ? w->f->functab : w->f->pclntab);
	assert_int_equal(m->filetab, w->f->o.minor >= 16 ? w->f->filetab : w->f->pclntab);
	assert_int_equal(m->ftab, w->f->ftab);
	assert_int_equal(m->cutab, w->f->cutab);
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
		{ h + 8, FAKE_FUNCS - 1, 8 },
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
		struct go_image_fake *f = fake(26, false);
		struct go_module untouched = { 0 };
		struct error *err;
		struct world *w;

		go_image_fake_put(f, damage[i].at, damage[i].value, damage[i].size);
		w = world_try(f, 0, &err);
		if (err != &err_notfound)
			fail_msg("damage %zu was accepted", i);
		assert_memory_equal(&w->rt.modules[0], &untouched, sizeof(untouched));
		world_close(w);
	}
}

/* The same for 1.15, whose moduledata has other members. */
static void test_damage_of_one_table_is_refused(void **state)
{
	struct go_image_fake *g = fake(15, false);
	const uint64_t h = g->pclntab, m = g->moduledata, ft = g->ftab;
	const struct {
		uint64_t at, value;
		unsigned int size;
	} damage[] = {
		{ h, 0xfffffffa, 4 }, { h + 8, FAKE_FUNCS + 1, 8 }, { m, h + 8, 8 }, { m + 8, 8, 8 },
		{ m + 8, UINT64_MAX, 8 }, { m + 32, FAKE_FUNCS, 8 }, { m + 24, 0x7fffffff0000, 8 },
		{ m + 48, 0x10, 8 }, { m + 56, UINT64_MAX / 4 + 1, 8 }, { m + 56, 0, 8 },
		{ m + 80, g->text + 1, 8 }, { m + 96, g->text + 16, 8 }, { m + 224, 2, 8 },
		{ ft, g->text + 4, 8 }, { ft + 16 * FAKE_FUNCS, 4, 8 },
	};

	(void)state;
	go_image_fake_destroy(g);
	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		struct go_image_fake *f = fake(15, false);
		struct error *err;
		struct world *w;

		go_image_fake_put(f, damage[i].at, damage[i].value, damage[i].size);
		w = world_try(f, 0, &err);
		if (err != &err_notfound)
			fail_msg("damage %zu was accepted", i);
		world_close(w);
	}
}

/* The runtime looks at the magic alone and goes by moduledata: so do we where the header is no good. */
static void test_header_is_made_good(void **state)
{
	struct go_image_fake *g = fake(26, false);
	const uint64_t h = g->pclntab;
	const struct damage {
		uint64_t at, value;
	} damage[] = {
		{ h + 8, 0 }, { h + 8, UINT64_MAX }, { h + 8, 4000000 }, { h + 32, 8 }, { h + 40, 0x48 },
		{ h + 64, 0x100000 }, { h + 64, UINT64_MAX },
	};

	(void)state;
	go_image_fake_destroy(g);
	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		struct go_image_fake *f = fake(26, false);
		struct error *err;
		struct world *w;

		go_image_fake_put(f, damage[i].at, damage[i].value, 8);
		w = world_try(f, 0, &err);
		assert_null(err);
		assert_int_equal(w->rt.modules[0].nfunc, FAKE_FUNCS);
		world_close(w);
		/* But then moduledata must be right, to the last function. */
		f = fake(26, false);
		go_image_fake_put(f, damage[i].at, damage[i].value, 8);
		go_image_fake_put(f, f->moduledata + 136, FAKE_FUNCS, 8);
		w = world_try(f, 0, &err);
		assert_ptr_equal(err, &err_notfound);
		assert_string_equal(go_module_contradiction(w->img, &w->rt.layout), "the bounds of its code");
		world_close(w);
	}
}

/* A table in the format of another version than the program says to be of. */
static void test_formats_of_other_versions_are_refused(void **state)
{
	static const uint32_t magics[] = { 0xfffffffa, 0xfffffffb };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct go_image_fake *f = fake(19, false);
		struct world *w;
		struct error *err;
		struct pclntab_header h;
		size_t n = 1;

		go_image_fake_put(f, f->pclntab, magics[i], 4);
		for (unsigned int k = 0; k < 6; k++)	/* plausible as table offsets of the older header, too */
			go_image_fake_put(f, f->pclntab + 24 + 8 * k, 0x50 + k, 8);
		w = world_try(f, 0, &err);
		assert_ptr_equal(err, &err_notfound);
		assert_null(pclntab_candidates(w->img, &h, &n));
		assert_int_equal(n, 1);
		assert_int_equal(h.format, i ? PCLNTAB_12 : PCLNTAB_116);
		assert_int_equal(h.addr, f->pclntab);
		world_close(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_version_is_found),
		cmocka_unit_test(test_decoys_are_passed_over),
		cmocka_unit_test(test_damage_is_refused),
		cmocka_unit_test(test_header_is_made_good),
		cmocka_unit_test(test_damage_of_one_table_is_refused),
		cmocka_unit_test(test_formats_of_other_versions_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
