/*
 * image_images.c: the images of a process: a child of the test, which has what every C program has,
 * and a process made of tables for what is rare.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "../fake/child.h"
#include "../fake/go_image_fake.h"
#include "../fake/target_fake.h"
#include "image/image_impl.h"
#include "image/images.h"

static struct target *open_target(pid_t pid)
{
	struct target *t = NULL;
	struct error *err = target_open_live(pid, &t);

	if (err)
		fail_msg("%s: %s", err->what, err->why ? err->why : "");
	return t;
}

static int child_sleep(struct child_shared *s, void *arg)
{
	(void)arg;
	s->ready = 1;
	while (!s->stop)
		test_sleep_us(1000);
	return 0;
}

/* The image at `addr` holds the bytes that stand at that address in this very process. */
static const struct mapped_image *expect_image(struct images *s, const void *p)
{
	gaddr_t addr = (uintptr_t)p;
	const struct mapped_image *m = images_find(s, addr);
	uint8_t bytes[16];

	assert_non_null(m);
	assert_non_null(m->image);
	assert_true(m->start <= addr && addr < m->end);
	assert_null(image_read(m->image, addr - m->bias, bytes, sizeof(bytes)));
	assert_memory_equal(bytes, p, sizeof(bytes));
	return m;
}

static void *function_of(const char *name)
{
	void *p = dlsym(RTLD_DEFAULT, name);

	assert_non_null(p);
	return p;
}

static void test_of_a_c_program(void **state)
{
	struct test_child c;
	struct images *s;
	const struct mapped_image *m;
	size_t executable = 0;

	(void)state;
	child_start(&c, child_sleep, NULL);
	struct target *t = open_target(c.pid);
	assert_null(images_create(t, &s));
	m = expect_image(s, (void *)test_of_a_c_program);
	assert_false(m->in_memory);
	assert_true(m->executable);
	assert_string_equal(m->path, target_exe_path(t));
	assert_ptr_equal(m, expect_image(s, (void *)expect_image));
	m = expect_image(s, function_of("_cmocka_run_group_tests"));
	assert_false(m->in_memory);
	assert_non_null(strstr(m->path, "libcmocka"));
	m = expect_image(s, (void *)getauxval(AT_SYSINFO_EHDR));
	assert_true(m->in_memory);
	assert_string_equal(m->path, "[vdso]");
	assert_null(images_find(s, 0));
	assert_null(images_find(s, (uintptr_t)c.shared)->image);	/* of a file, but no image */
	assert_null(images_find(s, UINT64_MAX));
	for (size_t i = 0; i < images_count(s); i++) {
		executable += images_at(s, i)->executable;
		if (i > 0)
			assert_true(images_at(s, i)->start >= images_at(s, i - 1)->start);
	}
	assert_true(executable >= 4);	/* the program, libc, the loader, the vDSO */
	images_destroy(s);
	target_close(t);
	child_stop(&c);
}

/* Maps its own file once more, whole, below and above everything else that the kernel lets it. */
static int child_maps_itself(struct child_shared *s, void *arg)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	struct stat st;

	(void)arg;
	fstat(fd, &st);
	s->value[0] = (uintptr_t)mmap((void *)0x10000000, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	s->value[1] = (uintptr_t)mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	return child_sleep(s, NULL);
}

static void test_file_mapped_twice(void **state)
{
	struct test_child c;
	struct images *s;

	(void)state;
	child_start(&c, child_maps_itself, NULL);
	struct target *t = open_target(c.pid);
	assert_null(images_create(t, &s));
	expect_image(s, (void *)test_file_mapped_twice);
	for (int i = 0; i < 2; i++) {
		const struct mapped_image *m = images_find(s, c.shared->value[i] + 4096);

		assert_non_null(m);
		assert_null(m->image);
		assert_false(m->executable);
	}
	images_destroy(s);
	target_close(t);
	child_stop(&c);
}

static void copy_file(const char *from, const char *to)
{
	char command[512];

	snprintf(command, sizeof(command), "cp '%s' '%s'", from, to);
	assert_int_equal(system(command), 0);
}

/* Loads a library when it is told to; its file is taken away before anybody looks. */
static int child_loads(struct child_shared *s, void *arg)
{
	s->ready = 1;
	while (!s->count && !s->stop)
		test_sleep_us(1000);
	void *lib = dlopen(arg, RTLD_NOW);
	s->value[0] = (uintptr_t)(lib ? dlsym(lib, "compress") : NULL);
	unlink(arg);
	s->count = 2;
	while (s->count == 2 && !s->stop)
		test_sleep_us(1000);
	dlclose(lib);
	s->count = 4;
	return child_sleep(s, NULL);
}

static void wait_for(struct test_child *c, uint64_t count)
{
	c->shared->count = count - 1;
	while (c->shared->count != count)
		test_sleep_us(1000);
}

static void test_loaded_later_and_deleted(void **state)
{
	char path[] = "/tmp/goprof-images-XXXXXX";
	struct test_child c;
	struct images *s;
	struct image_symbol none;
	const char *const names[] = { "compress" };
	Dl_info zlib;

	(void)state;
	assert_true(dladdr(function_of("crc32"), &zlib) != 0);
	close(mkstemp(path));
	copy_file(zlib.dli_fname, path);
	child_start(&c, child_loads, path);
	struct target *t = open_target(c.pid);
	assert_null(images_create(t, &s));
	const struct mapped_image *exe = expect_image(s, (void *)wait_for);
	wait_for(&c, 2);
	gaddr_t at = c.shared->value[0];
	uint64_t generation = images_generation(s);
	assert_null(images_find(s, at));
	assert_null(images_refresh(s));
	assert_int_not_equal(images_generation(s), generation);
	generation = images_generation(s);
	assert_null(images_refresh(s));
	assert_int_equal(images_generation(s), generation);
	const struct mapped_image *m = images_find(s, at);
	assert_non_null(m);
	assert_non_null(m->image);
	assert_non_null(strstr(m->path, "(deleted)"));
	error_free(image_find_symbols(m->image, names, 1, &none));
	assert_ptr_equal(exe, expect_image(s, (void *)wait_for));
	wait_for(&c, 4);
	assert_null(images_refresh(s));
	assert_null(images_find(s, at));
	assert_non_null(m->image);	/* pointers stay good */
	assert_null(image_read(m->image, at - m->bias, &none, sizeof(none)));
	assert_int_not_equal(images_generation(s), generation);
	assert_true(m->gone && !exe->gone);
	images_close_gone(s);
	assert_null(m->image);
	assert_ptr_equal(exe, expect_image(s, (void *)wait_for));
	images_destroy(s);
	target_close(t);
	child_stop(&c);
}

/* ---- made of tables ---- */

static void map_fake(struct target *t, uint64_t place, const char *path, const struct go_image_fake *f)
{
	static const uint32_t flags[4] = { MAPPING_READ, MAPPING_READ | MAPPING_EXEC, MAPPING_READ,
					   MAPPING_READ | MAPPING_WRITE };
	static const uint64_t at[5] = { 0, 0x1000, 0x2000, 0x6000, 0x8000 };

	for (int i = 0; i < 4; i++)
		target_fake_map(t, place + at[i], place + at[i + 1], at[i], flags[i], path);
	target_fake_add(t, place, f->bytes, FAKE_SIZE);
}

/* A file that nobody can open any more is read from memory, relocations undone. */
static void test_from_memory(void **state)
{
	enum { PLACE = 0x7f0000001000 };
	struct go_image_fake *f = go_image_fake_create(&(struct go_image_options){
		.minor = 26, .base = 0x400000, .dyn = true, .buildinfo = true });
	struct target *t;
	struct images *s;
	const struct mapped_image *m;
	uint64_t word = 0, other = 0;

	(void)state;
	assert_null(target_fake_create(&t));
	map_fake(t, PLACE, "/gone.so (deleted)", f);
	assert_null(images_create(t, &s));
	assert_int_equal(images_count(s), 1);
	m = images_find(s, PLACE + 0x6200);
	assert_non_null(m);
	assert_true(m->in_memory);
	assert_int_equal(m->bias, PLACE - 0x400000);
	assert_int_equal(m->start, PLACE);
	assert_true(m->end >= PLACE + FAKE_SIZE);
	/* The loader has relocated the data; the readers see link-time addresses all the same. */
	target_fake_poke_u64(t, PLACE + f->moduledata - 0x400000, f->pclntab + PLACE - 0x400000);
	assert_null(image_read_relocated(m->image, f->moduledata, &word, sizeof(word)));
	assert_int_equal(word, f->pclntab);
	assert_null(image_read(m->image, f->moduledata, &other, sizeof(other)));
	assert_int_equal(other, f->pclntab + PLACE - 0x400000);
	assert_ptr_equal(image_read(m->image, 0x400000 + FAKE_SIZE, &word, 1), &err_fault);
	images_destroy(s);
	target_close(t);
	go_image_fake_destroy(f);
}

/* Looked at while the loader was still at work: not for ever. */
static void test_tried_again(void **state)
{
	enum { PLACE = 0x7f0000001000 };
	struct go_image_fake *f = go_image_fake_create(&(struct go_image_options){
		.minor = 26, .base = 0x400000, .dyn = true, .buildinfo = true });
	struct target *t;
	struct images *s;
	uint64_t generation;

	(void)state;
	assert_null(target_fake_create(&t));
	map_fake(t, PLACE, "/gone.so (deleted)", f);
	target_fake_remove(t, PLACE);
	assert_null(images_create(t, &s));
	assert_null(images_find(s, PLACE)->image);
	target_fake_add(t, PLACE, f->bytes, FAKE_SIZE);
	assert_null(images_find(s, PLACE)->image);
	generation = images_generation(s);
	assert_null(images_refresh(s));
	assert_non_null(images_find(s, PLACE)->image);
	assert_int_not_equal(images_generation(s), generation);
	images_destroy(s);
	target_close(t);
	go_image_fake_destroy(f);
}

/* A program that has put other memory in the place of its data. */
static void test_code_alone(void **state)
{
	enum { PLACE = 0x7f0000001000 };
	struct go_image_fake *f = go_image_fake_create(&(struct go_image_options){
		.minor = 26, .base = 0x400000, .dyn = true, .buildinfo = true });
	int fd = go_image_fake_file(f, FAKE_SIZE);
	char path[64];
	struct target *t;
	struct images *s;

	(void)state;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_null(target_fake_create(&t));
	target_fake_map(t, PLACE, PLACE + 0x1000, 0, MAPPING_READ, path);
	target_fake_map(t, PLACE + 0x1000, PLACE + 0x2000, 0x1000, MAPPING_READ | MAPPING_EXEC, path);
	assert_null(images_create(t, &s));
	assert_non_null(images_find(s, PLACE + 0x1000)->image);
	assert_int_equal(images_find(s, PLACE + 0x1000)->bias, PLACE - 0x400000);
	images_destroy(s);
	target_close(t);
	go_image_fake_destroy(f);
	close(fd);
}

/* A header in memory that lies about where it stands. */
static void test_memory_refused(void **state)
{
	struct go_image_fake *f = go_image_fake_create(&(struct go_image_options){
		.minor = 26, .base = 0x400000, .buildinfo = true });
	struct target *t;
	struct image *img;
	uint64_t bias;

	(void)state;
	assert_null(target_fake_create(&t));
	target_fake_add(t, 0x400000, f->bytes, FAKE_SIZE);
	target_fake_add(t, 0x800000, f->bytes, FAKE_SIZE);
	assert_null(image_open_memory(t, 0x400000, &img, &bias));
	assert_int_equal(bias, 0);
	image_close(img);
	struct error *err = image_open_memory(t, 0x800000, &img, &bias);
	assert_int_equal(err->kind, ERROR_CORRUPT);
	error_free(err);
	err = image_open_memory(t, 0x1000000, &img, &bias);
	assert_int_equal(err->kind, ERROR_NOT_FOUND);
	error_free(err);
	for (int i = 0; i < FAKE_LOADS; i++)
		target_fake_poke_u64(t, 0x400000 + 64 + 56 * (uint64_t)i + offsetof(Elf64_Phdr, p_offset), 0x5000);
	err = image_open_memory(t, 0x400000, &img, &bias);
	assert_int_equal(err->kind, ERROR_CORRUPT);
	error_free(err);
	target_close(t);
	go_image_fake_destroy(f);
}

/* Two images one behind the other, and one whose mapping is not where its headers say. */
static void test_neighbours(void **state)
{
	struct go_image_fake *f = go_image_fake_create(&(struct go_image_options){
		.minor = 26, .base = 0, .dyn = true, .buildinfo = true });
	int fd = go_image_fake_file(f, FAKE_SIZE), other = go_image_fake_file(f, FAKE_SIZE);
	char path[2][64];
	struct target *t;
	struct images *s;

	(void)state;
	snprintf(path[0], sizeof(path[0]), "/proc/self/fd/%d", fd);
	snprintf(path[1], sizeof(path[1]), "/proc/self/fd/%d", other);
	assert_null(target_fake_create(&t));
	map_fake(t, 0x10000, path[0], f);
	map_fake(t, 0x18000, path[1], f);
	map_fake(t, 0x20000, path[1], f);
	target_fake_map(t, 0x30000, 0x31000, 0x1000, MAPPING_READ | MAPPING_EXEC, path[0]);
	target_fake_map(t, 0x31000, 0x32000, 0, MAPPING_READ, path[0]);
	assert_null(images_create(t, &s));
	assert_int_equal(images_count(s), 5);
	for (uint64_t i = 0; i < 3; i++) {
		const struct mapped_image *m = images_find(s, 0x10000 + i * 0x8000 + 0x7fff);

		assert_ptr_equal(m, images_at(s, i));
		assert_non_null(m->image);
		assert_int_equal(m->bias, 0x10000 + i * 0x8000);
		assert_string_equal(m->path, path[i > 0]);
	}
	assert_null(images_at(s, 4)->image);
	images_destroy(s);
	target_close(t);
	go_image_fake_destroy(f);
	close(fd);
	close(other);
}

/* The whole file mapped executable, below: segments stand at the right distances there, too. */
static void test_linear_mapping_is_no_place(void **state)
{
	enum { LINEAR = 0x10000000, PLACE = 0x7f0000001000 };
	struct go_image_fake *f = go_image_fake_create(&(struct go_image_options){
		.minor = 26, .base = 0x400000, .dyn = true, .buildinfo = true });
	int fd = go_image_fake_file(f, FAKE_SIZE);
	char path[64];
	struct target *t;
	struct images *s;
	struct image *img;
	struct mappings maps = { 0 };
	uint64_t bias;

	(void)state;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_null(target_fake_create(&t));
	target_fake_map(t, LINEAR, LINEAR + FAKE_SIZE, 0, MAPPING_READ | MAPPING_EXEC, path);
	map_fake(t, PLACE, path, f);
	assert_null(target_mappings(t, &maps));
	assert_null(image_open_fd(fd, &img));
	assert_null(image_bias(img, &maps, maps.v[0].dev, maps.v[0].inode, &bias));
	assert_int_equal(bias, PLACE - 0x400000);
	assert_null(images_create(t, &s));
	assert_null(images_find(s, LINEAR)->image);
	assert_int_equal(images_find(s, PLACE)->bias, PLACE - 0x400000);
	images_destroy(s);
	image_close(img);
	mappings_deinit(&maps);
	target_close(t);
	go_image_fake_destroy(f);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_a_c_program),
		cmocka_unit_test(test_file_mapped_twice),
		cmocka_unit_test(test_loaded_later_and_deleted),
		cmocka_unit_test(test_from_memory),
		cmocka_unit_test(test_tried_again),
		cmocka_unit_test(test_code_alone),
		cmocka_unit_test(test_memory_refused),
		cmocka_unit_test(test_neighbours),
		cmocka_unit_test(test_linear_mapping_is_no_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
