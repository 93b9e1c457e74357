/*
 * go_modules.c: the list of modules of a runtime, in live memory: followed, read on when it has
 * grown, and believed no further than it can be.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "../fake/go_image_fake.h"
#include "../fake/target_fake.h"
#include "go/pclntab_impl.h"

enum { NEXT = 584 };	/* moduledata.next in Go 1.26 */

static const uint64_t exe_at = 0x555555554000, plugin_at = 0x7f0000000000;

/* A program made by hand, mapped from a real file, with its data in memory as well. */
struct mapped {
	struct go_image_fake *f;
	char path[64];
	int fd;
	uint64_t bias, moduledata;	/* in the process */
};

static struct mapped map_fake(struct target *t, uint64_t at)
{
	static const uint32_t flags[4] = { MAPPING_READ, MAPPING_READ | MAPPING_EXEC, MAPPING_READ,
					   MAPPING_READ | MAPPING_WRITE };
	static const uint64_t part[5] = { 0, 0x1000, 0x2000, 0x6000, 0x8000 };
	struct mapped m = { .f = go_image_fake_create(&(struct go_image_options){
		.minor = 26, .base = 0x400000, .dyn = true, .buildinfo = true }) };

	m.fd = go_image_fake_file(m.f, FAKE_SIZE);
	snprintf(m.path, sizeof(m.path), "/proc/self/fd/%d", m.fd);
	m.bias = at - m.f->o.base;
	m.moduledata = m.f->moduledata + m.bias;
	for (int i = 0; i < 4; i++)
		target_fake_map(t, at + part[i], at + part[i + 1], part[i], flags[i], m.path);
	target_fake_add(t, at, m.f->bytes, FAKE_SIZE);
	return m;
}

static void mapped_free(struct mapped *m)
{
	close(m->fd);
	go_image_fake_destroy(m->f);
}

struct world {
	struct target *t;
	struct mapped exe;
	struct go_process *p;
	struct go_runtime *rt;
};

static void world_target(struct world *w)
{
	memset(w, 0, sizeof(*w));
	assert_null(target_fake_create(&w->t));
	w->exe = map_fake(w->t, exe_at);
	target_fake_set_exe(w->t, w->exe.path);
	target_fake_set_pid(w->t, 4711, 1);
}

static void world_open(struct world *w)
{
	assert_null(go_process_open(w->t, NULL, &w->p));
	w->rt = go_process_runtime(w->p, 0);
}

static void world_close(struct world *w)
{
	go_process_close(w->p);
	target_close(w->t);
	mapped_free(&w->exe);
}

static void link_to(struct world *w, uint64_t moduledata, uint64_t next)
{
	target_fake_poke_u64(w->t, moduledata + NEXT, next);
}

static void expect_modules(struct go_runtime *rt, uint32_t n, uint32_t n_unread)
{
	uint32_t unread;

	assert_int_equal(go_runtime_modules(rt, &unread), n);
	assert_int_equal(unread, n_unread);
}

static bool is_main(struct go_runtime *rt, const struct mapped *m)
{
	struct go_line l;

	return go_lines(rt, m->f->text + m->bias + 5, &l, 1) == 1 && strcmp(l.function, "main.main") == 0;
}

static void test_plugin_there_from_the_start(void **state)
{
	struct world w;
	struct mapped plugin;

	(void)state;
	world_target(&w);
	plugin = map_fake(w.t, plugin_at);
	link_to(&w, w.exe.moduledata, plugin.moduledata);
	world_open(&w);
	expect_modules(w.rt, 2, 0);
	assert_true(is_main(w.rt, &w.exe));
	assert_true(is_main(w.rt, &plugin));
	world_close(&w);
	mapped_free(&plugin);
}

/* One that comes later is found by the first pc in it; the process is not asked at each such pc. */
static void test_plugin_comes_later(void **state)
{
	struct world w;
	struct mapped plugin;
	struct go_func f;
	size_t reads;

	(void)state;
	world_target(&w);
	world_open(&w);
	expect_modules(w.rt, 1, 0);
	assert_false(go_func_find(w.rt, plugin_at + 0x1005, &f));
	reads = target_fake_reads(w.t);
	for (int i = 0; i < 1000; i++)
		assert_false(go_func_find(w.rt, plugin_at + 0x1005 + (uint64_t)i, &f));
	assert_true(target_fake_reads(w.t) - reads <= 2);
	plugin = map_fake(w.t, plugin_at);
	link_to(&w, w.exe.moduledata, plugin.moduledata);
	w.rt->chain.t_looked = 0;	/* as if time had gone by */
	assert_true(is_main(w.rt, &plugin));
	expect_modules(w.rt, 2, 0);
	assert_true(is_main(w.rt, &w.exe));
	world_close(&w);
	mapped_free(&plugin);
}

static void test_circles_and_rubbish(void **state)
{
	const uint64_t next[] = {
		0, 1, 0x1000, UINT64_MAX, UINT64_MAX - 8,
		exe_at,			/* the middle of the program */
		plugin_at + 8,		/* mapped, but no moduledata */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(next) / sizeof(next[0]); i++) {
		struct world w;
		struct mapped plugin;

		world_target(&w);
		plugin = map_fake(w.t, plugin_at);
		link_to(&w, w.exe.moduledata, next[i]);
		world_open(&w);
		expect_modules(w.rt, 1, next[i] != 0);
		assert_true(is_main(w.rt, &w.exe));
		world_close(&w);
		mapped_free(&plugin);
	}
	for (int to_first = 0; to_first < 2; to_first++) {
		struct world w;
		struct mapped plugin;

		world_target(&w);
		plugin = map_fake(w.t, plugin_at);
		link_to(&w, w.exe.moduledata, plugin.moduledata);
		link_to(&w, plugin.moduledata, to_first ? w.exe.moduledata : plugin.moduledata);
		world_open(&w);
		expect_modules(w.rt, 2, 0);
		world_close(&w);
		mapped_free(&plugin);
	}
}

/* A list without end: memory full of links, each to the next. */
static void test_endless(void **state)
{
	enum { LINKS = 1000, STEP = 1024 };
	struct world w;
	uint64_t at = 0x10000000;

	(void)state;
	world_target(&w);
	target_fake_add(w.t, at, NULL, (LINKS + 1) * STEP);
	link_to(&w, w.exe.moduledata, at);
	for (uint64_t i = 0; i < LINKS; i++)
		target_fake_poke_u64(w.t, at + i * STEP + NEXT, at + (i + 1) * STEP);
	world_open(&w);
	expect_modules(w.rt, 1, GO_MODULES_MAX - 1);
	assert_true(is_main(w.rt, &w.exe));
	world_close(&w);
}

/* One that cannot be read does not hide those behind it. */
static void test_unreadable_one_is_passed_over(void **state)
{
	struct world w;
	struct mapped plugin;
	uint64_t at = 0x10000000;

	(void)state;
	world_target(&w);
	plugin = map_fake(w.t, plugin_at);
	target_fake_add(w.t, at, NULL, 1024);
	link_to(&w, w.exe.moduledata, at);
	target_fake_poke_u64(w.t, at + NEXT, plugin.moduledata);
	world_open(&w);
	expect_modules(w.rt, 2, 1);
	assert_true(is_main(w.rt, &plugin));
	world_close(&w);
	mapped_free(&plugin);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plugin_there_from_the_start),
		cmocka_unit_test(test_plugin_comes_later),
		cmocka_unit_test(test_circles_and_rubbish),
		cmocka_unit_test(test_endless),
		cmocka_unit_test(test_unreadable_one_is_passed_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
