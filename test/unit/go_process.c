/*
 * go_process.c: opening a process made of tables: where it stands, what is refused and in which
 * words. The file is real to the readers; memory holds only what a process at its exec has touched.
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
#include <elf.h>

#include "../fake/go_image_fake.h"
#include "../fake/target_fake.h"
#include "go/pclntab_impl.h"

static const uint64_t place = 0x555555554000;

static struct go_image_fake *fake(int minor)
{
	return go_image_fake_create(&(struct go_image_options){
		.minor = minor, .base = 0x400000, .dyn = true, .buildinfo = true });
}

/* The fake as a process at its exec, mapped at `place`; the path is that of an open descriptor. */
struct world {
	struct go_image_fake *f;
	struct target *t;
	char path[64];
	int fd;
};

static struct world world_of(struct go_image_fake *f)
{
	static const uint32_t flags[4] = { MAPPING_READ, MAPPING_READ | MAPPING_EXEC, MAPPING_READ,
					   MAPPING_READ | MAPPING_WRITE };
	static const uint64_t at[5] = { 0, 0x1000, 0x2000, 0x6000, 0x8000 };
	struct world w = { .f = f, .fd = go_image_fake_file(f, FAKE_SIZE) };

	assert_null(target_fake_create(&w.t));
	snprintf(w.path, sizeof(w.path), "/proc/self/fd/%d", w.fd);
	target_fake_set_exe(w.t, w.path);
	target_fake_set_pid(w.t, 4711, 1);
	for (int i = 0; i < 4; i++)
		target_fake_map(w.t, place + at[i], place + at[i + 1], at[i], flags[i], w.path);
	target_fake_add(w.t, place, f->bytes, 0x1000);
	return w;
}

static void world_close(struct world *w)
{
	target_close(w->t);
	close(w->fd);
	go_image_fake_destroy(w->f);
}

static void test_open_live(void **state)
{
	struct world w = world_of(fake(26));
	struct go_process *p;
	struct go_runtime *rt;
	struct go_func f;
	struct go_line l;
	gaddr_t text = w.f->text - 0x400000 + place;

	(void)state;
	assert_null(go_process_open(w.t, NULL, &p));
	assert_int_equal(go_process_runtimes(p), 1);
	assert_null(go_process_runtime(p, 1));
	rt = go_process_runtime(p, 0);
	assert_string_equal(go_runtime_build(rt)->version, "go1.26.4");
	/* Nothing is claimed before it was checked against the process. */
	assert_int_equal(go_runtime_caps(rt), GO_CAP_PCLNTAB);
	assert_true(go_func_find(rt, text + 5, &f));
	assert_int_equal(f.entry, text);
	assert_int_equal(go_func_spdelta(rt, &f, text + 5), 24);
	assert_int_equal(go_lines(rt, text, &l, 1), 1);
	assert_string_equal(l.function, "main.main");
	assert_int_equal(go_pc_real(rt, text + 5), text + 5);
	go_process_close(p);
	world_close(&w);
}

static void test_open_file(void **state)
{
	struct go_image_fake *f = fake(19);
	int fd = go_image_fake_file(f, FAKE_SIZE);
	struct go_process *p;
	struct go_func fn;

	(void)state;
	assert_null(go_process_open_file(fd, &p));
	close(fd);
	assert_true(go_func_find(go_process_runtime(p, 0), f->text, &fn));
	assert_int_equal(fn.entry, f->text);
	go_process_close(p);
	go_image_fake_destroy(f);
}

/* Opens and expects a refusal of this kind, with these words in it. */
static void refused(struct world *w, enum error_kind kind, const char *what, const char *why)
{
	struct go_process *p = NULL;
	struct error *err = go_process_open(w->t, NULL, &p);

	assert_non_null(err);
	assert_null(p);
	assert_int_equal(err->kind, kind);
	assert_non_null(strstr(err->what, "4711 (/proc/self/fd/"));
	if (!strstr(err->what, what) || !err->why || !strstr(err->why, why))
		fail_msg("%s | %s", err->what, err->why);
	error_free(err);
	world_close(w);
}

static void test_not_go(void **state)
{
	struct go_image_fake *f = fake(26);
	struct world w;

	(void)state;
	go_image_fake_put(f, f->pclntab, 0, 4);
	w = world_of(f);
	refused(&w, ERROR_NOT_GO, "is not a Go program", "no Go function table (pclntab) in its file or its memory");

	f = fake(26);
	f->bytes[0] = '#';
	w = world_of(f);
	refused(&w, ERROR_NOT_GO, "is not a Go program", "not an ELF file");
}

static void test_gccgo(void **state)
{
	struct go_image_fake *f = fake(26);
	const uint64_t d[] = { DT_STRTAB, f->rela, DT_STRSZ, 13, DT_NEEDED, 1, DT_NULL, 0 };
	struct world w;

	(void)state;
	go_image_fake_put(f, f->pclntab, 0, 4);
	memcpy(go_image_fake_at(f, f->rela), "\0libgo.so.21", 12);
	memcpy(go_image_fake_at(f, f->o.base + 0x6c00), d, sizeof(d));
	w = world_of(f);
	refused(&w, ERROR_UNSUPPORTED, "was built by gccgo", "runtime");
}

/* A packed program: the table is only in memory that belongs to no file. */
static void test_packed(void **state)
{
	enum { SIZE = 0x24000 };
	struct go_image_fake *f = fake(26);
	uint8_t *memory = calloc(1, SIZE);
	struct world w;

	(void)state;
	/* The header lies across the end of a chunk of the search. */
	memcpy(memory + 0x10000 - 32, go_image_fake_at(f, f->pclntab), 0x5000);
	go_image_fake_put(f, f->pclntab, 0, 4);
	w = world_of(f);
	target_fake_map(w.t, 0x7000000, 0x7000000 + SIZE, 0, MAPPING_READ, "");
	target_fake_add(w.t, 0x7000000, memory, SIZE);
	free(memory);
	refused(&w, ERROR_UNSUPPORTED, "is a packed Go program", "in its memory, but not in its file");
}

/* Functions can be told, and of structs only what the file proves. */
static void test_version_without_a_row(void **state)
{
	struct go_image_fake *f = fake(26);
	struct go_process *p;
	struct go_runtime *rt;
	struct world w;
	struct go_line l;

	(void)state;
	memcpy(go_image_fake_at(f, f->buildinfo + 33), "go1.99.1", 8);
	w = world_of(f);
	assert_null(go_process_open(w.t, NULL, &p));
	rt = go_process_runtime(p, 0);
	assert_string_equal(go_runtime_build(rt)->version, "go1.99.1");
	assert_int_equal(go_runtime_caps(rt), GO_CAP_PCLNTAB);
	assert_int_equal(go_lines(rt, f->text - 0x400000 + place, &l, 1), 1);
	assert_string_equal(l.function, "main.main");
	for (int i = 0; i < GO_FIELD_COUNT; i++)
		if (i < GO_MD_FUNCNAMETAB || i > GO_MD_ENOPTRBSS)
			assert_false(go_has(go_runtime_layout(rt), i) &&
				     go_runtime_layout(rt)->f[i].source == GO_SOURCE_ROW);
	go_process_close(p);
	world_close(&w);
}

static void test_versions(void **state)
{
	struct go_image_fake *f = fake(26);
	struct world w;

	(void)state;
	memcpy(go_image_fake_at(f, f->buildinfo + 33), "go1.14.1", 8);
	w = world_of(f);
	refused(&w, ERROR_UNSUPPORTED, "was built by go1.14.1", "goprof reads go1.15 to go1.27");
	f = fake(26);
	memset(go_image_fake_at(f, f->buildinfo), 0, 16);
	memset(go_image_fake_at(f, f->version_header), 0, 16);
	go_image_fake_put(f, f->o.base + 0x3000, 0, 8);
	w = world_of(f);
	refused(&w, ERROR_UNSUPPORTED, "Go version of", "no build information");
}

/* Another version's form: the tables do not agree with what its moduledata should say. */
static void test_wrong_form(void **state)
{
	struct go_image_fake *f = fake(26);
	struct world w;

	(void)state;
	go_image_fake_put(f, f->moduledata + 136, 3, 8);
	w = world_of(f);
	refused(&w, ERROR_UNSUPPORTED, "go1.26.4", "no moduledata");
}

static void test_other_cpu(void **state)
{
	struct go_image_fake *f = fake(26);
	struct world w;

	(void)state;
	go_image_fake_put(f, f->o.base + offsetof(Elf64_Ehdr, e_machine), EM_AARCH64, 2);
	w = world_of(f);
	refused(&w, ERROR_UNSUPPORTED, "another CPU", target_arch(w.t)->name);
}

/* The mappings tell a place, but something else stands there. */
static void test_not_where_it_should_be(void **state)
{
	struct world w = world_of(fake(26));

	(void)state;
	target_fake_poke_u64(w.t, place + 8, 0xdead);
	refused(&w, ERROR_UNSUPPORTED, "cannot be read", "not mapped where");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open_live),
		cmocka_unit_test(test_open_file),
		cmocka_unit_test(test_not_go),
		cmocka_unit_test(test_gccgo),
		cmocka_unit_test(test_packed),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_version_without_a_row),
		cmocka_unit_test(test_wrong_form),
		cmocka_unit_test(test_other_cpu),
		cmocka_unit_test(test_not_where_it_should_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
