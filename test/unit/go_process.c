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
	refused(&w, ERROR_NOT_GO, "is not a Go program", "no Go function table (pclntab) in its file, in its libraries or in its memory");

	f = fake(26);
	f->bytes[0] = '#';
	w = world_of(f);
	refused(&w, ERROR_NOT_GO, "is not a Go program", "no Go function table");
}

/* A program that knows Go's magic numbers and keeps pointers to them is none for that. */
static void test_magic_in_other_data(void **state)
{
	static const uint64_t lengths[][2] = { { 0, 0 }, { 0x200, 0x201 }, { 0, 0x200 } };

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct go_image_fake *f = fake(26);
		struct world w;

		go_image_fake_put(f, f->pclntab + 8, 0, 8);	/* the header is no good */
		go_image_fake_put(f, f->moduledata + 16, lengths[i][0], 8);
		go_image_fake_put(f, f->moduledata + 24, lengths[i][1], 8);
		w = world_of(f);
		refused(&w, ERROR_NOT_GO, "is not a Go program", "no Go function table");
	}
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

/* ---- found elsewhere ---- */

static const uint32_t piece_flags[4] = { MAPPING_READ, MAPPING_READ | MAPPING_EXEC, MAPPING_READ,
					 MAPPING_READ | MAPPING_WRITE };
static const uint64_t piece_at[5] = { 0, 0x1000, 0x2000, 0x6000, 0x8000 };

static void map_at(struct target *t, uint64_t at, const struct go_image_fake *f, const char *path)
{
	for (int i = 0; i < 4; i++)
		target_fake_map(t, at + piece_at[i], at + piece_at[i + 1], piece_at[i], piece_flags[i], path);
	target_fake_add(t, at, f->bytes, FAKE_SIZE);
}

/* A process whose executable is no Go program: a fake without a function table. */
static struct world host_world(void)
{
	struct go_image_fake *f = fake(26);

	go_image_fake_put(f, f->pclntab, 0, 4);
	return world_of(f);
}

/* A program with fixed addresses, unpacked into memory of no file. */
static struct go_image_fake *packed_fake(void)
{
	return go_image_fake_create(&(struct go_image_options){ .minor = 26, .base = 0x8000000, .buildinfo = true });
}

static void expect_main(struct go_process *p, gaddr_t pc)
{
	struct go_line l;

	assert_int_equal(go_process_runtimes(p), 1);
	assert_int_equal(go_lines(go_process_runtime(p, 0), pc, &l, 1), 1);
	assert_string_equal(l.function, "main.main");
}

/* Whether its headers are there or wiped, and whatever else of no file stands near it. */
static void test_packed(void **state)
{
	(void)state;
	for (int wiped = 0; wiped < 2; wiped++) {
		struct world w = host_world();
		struct go_image_fake *f = packed_fake();
		struct go_process *p;

		if (wiped)
			memset(f->bytes, 0, 0x1000);
		map_at(w.t, 0x8000000, f, "");
		target_fake_map(w.t, 0x7f00000, 0x7f01000, 0, MAPPING_READ | MAPPING_WRITE, "");
		target_fake_map(w.t, 0x9000000, 0x9001000, 0, MAPPING_READ, "");
		assert_null(go_process_open(w.t, NULL, &p));
		expect_main(p, f->text + 5);
		assert_string_equal(go_runtime_where(go_process_runtime(p, 0)), "memory that belongs to no file");
		assert_string_equal(go_runtime_build(go_process_runtime(p, 0))->version, "go1.26.4");
		go_process_close(p);
		go_image_fake_destroy(f);
		world_close(&w);
	}
}

/* A packer that has unmapped its own file: nothing of the executable stands in the process. */
static void test_packed_and_unmapped(void **state)
{
	struct go_image_fake *stub = fake(26), *f = packed_fake();
	struct world w = { .f = stub };
	struct go_process *p;

	(void)state;
	go_image_fake_put(stub, stub->pclntab, 0, 4);
	w.fd = go_image_fake_file(stub, FAKE_SIZE);
	snprintf(w.path, sizeof(w.path), "/proc/self/fd/%d", w.fd);
	assert_null(target_fake_create(&w.t));
	target_fake_set_exe(w.t, w.path);
	map_at(w.t, 0x8000000, f, "");
	assert_null(go_process_open(w.t, NULL, &p));
	expect_main(p, f->text + 5);
	go_process_close(p);
	go_image_fake_destroy(f);
	world_close(&w);
}

/* Read-only data that the packer left writable: looked at only because it stands beside code. */
static void test_packed_writable(void **state)
{
	(void)state;
	for (int code = 0; code < 2; code++) {
		struct world w = host_world();
		struct go_image_fake *f = packed_fake();
		struct go_process *p = NULL;
		struct error *err;

		for (int i = 0; i < 4; i++)
			target_fake_map(w.t, 0x8000000 + piece_at[i], 0x8000000 + piece_at[i + 1], 0,
					i == 1 ? MAPPING_READ | (code ? MAPPING_EXEC : 0)
					       : MAPPING_READ | MAPPING_WRITE, "");
		target_fake_add(w.t, 0x8000000, f->bytes, FAKE_SIZE);
		err = go_process_open(w.t, NULL, &p);
		if (code) {
			assert_null(err);
			expect_main(p, f->text + 5);
			go_process_close(p);
		} else {
			assert_int_equal(err->kind, ERROR_NOT_GO);
			error_free(err);
		}
		go_image_fake_destroy(f);
		world_close(&w);
	}
}

/* A table alone, and one that lies: words, no crash, no endless search. */
static void test_packed_broken(void **state)
{
	struct world w = host_world();
	struct go_image_fake *f = packed_fake();
	uint8_t *many = calloc(1, 0x24000);

	(void)state;
	for (size_t at = 0x10000 - 32; at < 0x20000; at += 0x100)
		memcpy(many + at, go_image_fake_at(f, f->pclntab), 72);
	target_fake_map(w.t, 0x7000000, 0x7024000, 0, MAPPING_READ, "");
	target_fake_add(w.t, 0x7000000, many, 0x24000);
	free(many);
	go_image_fake_destroy(f);
	refused(&w, ERROR_UNSUPPORTED, "Go version of", "no build information");
}

/* A fake whose one function with a name that matters is the scheduler's start: a runtime. */
static struct go_image_fake *library_fake(const char *version)
{
	struct go_image_fake *f = go_image_fake_create(&(struct go_image_options){
		.minor = 26, .base = 0, .dyn = true, .in_place = true, .buildinfo = true });

	memcpy(go_image_fake_at(f, f->buildinfo + 33), version, strlen(version));
	return f;
}

struct library {
	struct go_image_fake *f;
	char path[64];
	int fd;
};

static struct library library_map(struct target *t, uint64_t at, struct go_image_fake *f)
{
	struct library l = { .f = f, .fd = go_image_fake_file(f, FAKE_SIZE) };

	snprintf(l.path, sizeof(l.path), "/proc/self/fd/%d", l.fd);
	map_at(t, at, f, l.path);
	return l;
}

static void library_close(struct library *l)
{
	close(l->fd);
	go_image_fake_destroy(l->f);
}

/* A host of another language with one Go library, then with two. */
static void test_libraries(void **state)
{
	enum { A = 0x7f0000000000, B = 0x7f0000100000 };
	struct world w = host_world();
	struct library a = library_map(w.t, A, library_fake("go1.26.1")), b;
	struct go_process *p;
	struct error *err;
	const char *name[2];

	(void)state;
	assert_null(go_process_open(w.t, NULL, &p));
	expect_main(p, A + a.f->text + 5);
	assert_non_null(strstr(go_runtime_where(go_process_runtime(p, 0)), "the library "));
	go_process_close(p);

	b = library_map(w.t, B, library_fake("go1.26.2"));
	name[0] = strrchr(a.path, '/') + 1;
	name[1] = strrchr(b.path, '/') + 1;
	err = go_process_open(w.t, NULL, &p);
	assert_int_equal(err->kind, ERROR_UNSUPPORTED);
	assert_string_equal(err->what, "4711 holds 2 Go runtimes");
	assert_non_null(strstr(err->why, name[0]));
	assert_non_null(strstr(err->why, name[1]));
	assert_non_null(strstr(err->why, " and "));
	assert_non_null(strstr(err->todo, "--runtime "));
	error_free(err);
	for (int i = 0; i < 2; i++) {
		const char *const version[] = { "go1.26.1", "go1.26.2" };
		struct go_options o = { .runtime = name[i] };
		struct go_func fn;

		assert_null(go_process_open(w.t, &o, &p));
		assert_string_equal(go_runtime_build(go_process_runtime(p, 0))->version, version[i]);
		expect_main(p, (i ? B : A) + a.f->text + 5);
		/* Nothing of the other. */
		assert_false(go_func_find(go_process_runtime(p, 0), (i ? A : B) + a.f->text + 5, &fn));
		go_process_close(p);
	}
	err = go_process_open(w.t, &(struct go_options){ .runtime = "c.so" }, &p);
	assert_int_equal(err->kind, ERROR_UNSUPPORTED);
	assert_non_null(strstr(err->what, "c.so"));
	error_free(err);
	library_close(&a);
	library_close(&b);
	world_close(&w);
}

/* One name, two files: only the path tells which is meant. */
static void test_libraries_of_one_name(void **state)
{
	enum { A = 0x7f0000000000, B = 0x7f0000100000 };
	struct world w = host_world();
	struct library a = library_map(w.t, A, library_fake("go1.26.1"));
	char path[2][64], *name = strrchr(a.path, '/') + 1;
	struct go_process *p;

	(void)state;
	snprintf(path[0], sizeof(path[0]), "%s", a.path);
	snprintf(path[1], sizeof(path[1]), "/proc/%d/fd/%d", (int)getpid(), a.fd);
	map_at(w.t, B, a.f, path[1]);
	for (int i = 0; i < 2; i++) {
		struct error *err = go_process_open(w.t, &(struct go_options){ .runtime = i ? name : NULL }, &p);

		assert_non_null(err);
		assert_int_equal(err->kind, ERROR_UNSUPPORTED);
		assert_non_null(strstr(err->what, "4711 holds 2 Go runtimes"));
		assert_non_null(strstr(err->why, path[0]));
		assert_non_null(strstr(err->why, path[1]));
		assert_non_null(strstr(err->todo, "--runtime /proc/"));
		error_free(err);
	}
	for (int i = 0; i < 2; i++) {
		assert_null(go_process_open(w.t, &(struct go_options){ .runtime = path[i] }, &p));
		expect_main(p, (i ? B : A) + a.f->text + 5);
		go_process_close(p);
	}
	library_close(&a);
	world_close(&w);
}

/* Plugins that stand before the library that loaded them, more than a few: they are its modules. */
static void test_plugins_of_a_library(void **state)
{
	enum { PLUGINS = 6, NEXT = 584 /* moduledata.next in Go 1.26 */ };
	const uint64_t first = 0x7f0000000000, step = 0x100000;
	struct world w = host_world();
	struct library l[PLUGINS + 1];
	struct go_process *p;

	(void)state;
	for (int i = 0; i <= PLUGINS; i++)
		l[i] = library_map(w.t, first + (uint64_t)i * step, library_fake("go1.26.1"));
	for (int i = PLUGINS; i > 0; i--)	/* the library is the last one */
		target_fake_poke_u64(w.t, first + (uint64_t)i * step + l[i].f->moduledata + NEXT,
				     first + (uint64_t)(i - 1) * step + l[i - 1].f->moduledata);
	assert_null(go_process_open(w.t, NULL, &p));
	expect_main(p, first + PLUGINS * step + l[PLUGINS].f->text + 5);
	assert_non_null(strstr(go_runtime_where(go_process_runtime(p, 0)), strrchr(l[PLUGINS].path, '/') + 1));
	go_process_close(p);
	for (int i = 0; i <= PLUGINS; i++)
		library_close(&l[i]);
	world_close(&w);
}

/* The program's own Go cannot be read: that is told, and no library is taken for it unless asked for. */
static void test_library_of_a_program_that_cannot_be_read(void **state)
{
	enum { A = 0x7f0000000000 };
	struct go_image_fake *f = fake(26);
	const uint64_t d[] = { DT_STRTAB, f->rela + 0x800, DT_STRSZ, 13, DT_NEEDED, 1, DT_NULL, 0 };
	struct library a;
	struct go_process *p;
	struct error *err;
	struct world w;

	(void)state;
	memcpy(go_image_fake_at(f, f->buildinfo + 33), "go1.14.1", 8);
	memcpy(go_image_fake_at(f, f->rela + 0x800), "\0libsome.so", 12);
	memcpy(go_image_fake_at(f, f->o.base + 0x6c00), d, sizeof(d));
	w = world_of(f);
	a = library_map(w.t, A, library_fake("go1.26.1"));
	err = go_process_open(w.t, NULL, &p);
	assert_non_null(err);
	assert_non_null(strstr(err->what, "go1.14.1"));
	error_free(err);
	assert_null(go_process_open(w.t, &(struct go_options){ .runtime = strrchr(a.path, '/') + 1 }, &p));
	expect_main(p, A + a.f->text + 5);
	go_process_close(p);
	library_close(&a);
	world_close(&w);
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
	refused(&w, ERROR_UNSUPPORTED, "go1.26.4", "its moduledata contradicts itself: the lengths of its tables");
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
		cmocka_unit_test(test_magic_in_other_data),
		cmocka_unit_test(test_gccgo),
		cmocka_unit_test(test_packed),
		cmocka_unit_test(test_packed_and_unmapped),
		cmocka_unit_test(test_packed_writable),
		cmocka_unit_test(test_packed_broken),
		cmocka_unit_test(test_libraries),
		cmocka_unit_test(test_libraries_of_one_name),
		cmocka_unit_test(test_plugins_of_a_library),
		cmocka_unit_test(test_library_of_a_program_that_cannot_be_read),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_version_without_a_row),
		cmocka_unit_test(test_wrong_form),
		cmocka_unit_test(test_other_cpu),
		cmocka_unit_test(test_not_where_it_should_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
