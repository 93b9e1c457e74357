/*
 * image_dynamic.c: words of the data as a loader would leave them, whatever the order of the
 * relocations and whether or not the linker also stored them in place; and the place of an image
 * among the mappings of a process.
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
#include "image/image_impl.h"

static struct image *open_fake(const struct go_image_fake *f)
{
	int fd = go_image_fake_file(f, FAKE_SIZE);
	struct image *img;

	assert_null(image_open_fd(fd, &img));
	close(fd);
	return img;
}

static struct go_image_fake *pie(bool in_place, uint64_t base)
{
	return go_image_fake_create(&(struct go_image_options){
		.minor = 26, .base = base, .dyn = true, .in_place = in_place, .buildinfo = true });
}

static void test_words_come_from_relocations(void **state)
{
	(void)state;
	for (int in_place = 0; in_place < 2; in_place++) {
		struct go_image_fake *f = pie(in_place, 0x400000);
		struct image *img = open_fake(f);
		uint64_t plain[3], words[3], part = 0;

		assert_null(image_read(img, f->moduledata, plain, sizeof(plain)));
		assert_int_equal(plain[0], in_place ? f->pclntab : 0);
		assert_null(image_read_relocated(img, f->moduledata, words, sizeof(words)));
		assert_int_equal(words[0], f->pclntab);
		assert_int_equal(words[1], f->funcnametab);
		assert_int_equal(words[2], 0x200);
		/* A read that begins or ends inside a relocated word. */
		assert_null(image_read_relocated(img, f->moduledata + 1, &part, 3));
		assert_int_equal(part, f->pclntab >> 8 & 0xffffff);
		part = 0;
		assert_null(image_read_relocated(img, f->moduledata - 6, &part, 8));
		assert_int_equal(part >> 48, f->pclntab & 0xffff);
		assert_ptr_equal(image_read_relocated(img, f->o.base + 0x7fff, words, 8), &err_fault);
		image_close(img);
		go_image_fake_destroy(f);
	}
}

static void swap_entries(struct go_image_fake *f, uint64_t a, uint64_t b)
{
	Elf64_Rela *v = (Elf64_Rela *)(void *)go_image_fake_at(f, f->rela), t = v[a];

	v[a] = v[b];
	v[b] = t;
}

static void test_order_of_relocations_is_free(void **state)
{
	struct go_image_fake *f = pie(false, 0);
	struct image *img;
	uint64_t word;

	(void)state;
	for (uint64_t i = 0; i < f->n_rela / 2; i++)
		swap_entries(f, i, f->n_rela - 1 - i);
	swap_entries(f, 2, f->n_rela / 2);
	img = open_fake(f);
	assert_null(image_read_relocated(img, f->moduledata, &word, 8));
	assert_int_equal(word, f->pclntab);
	assert_null(image_read_relocated(img, f->moduledata + 176, &word, 8));
	assert_int_equal(word, f->text);
	image_close(img);
	go_image_fake_destroy(f);
}

static void test_other_types_do_not_count(void **state)
{
	struct go_image_fake *f = pie(false, 0);
	struct image *img;
	uint64_t word;

	(void)state;
	go_image_fake_put(f, f->rela + 8, R_X86_64_GLOB_DAT, 8);
	img = open_fake(f);
	assert_null(image_read_relocated(img, f->moduledata, &word, 8));
	assert_int_equal(word, 0);
	image_close(img);
	go_image_fake_destroy(f);
}

/* The dynamic section of the fake, word by word: tag, value, ... */
static uint64_t *dynamic_words(struct go_image_fake *f)
{
	return (uint64_t *)(void *)go_image_fake_at(f, f->o.base + 0x6c00);
}

static void test_lying_tables_are_no_tables(void **state)
{
	static const uint64_t sizes[] = { UINT64_MAX, 0x10000, UINT64_MAX / 2 };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct go_image_fake *f = pie(false, 0);
		struct image *img;
		uint64_t word;

		dynamic_words(f)[3] = sizes[i];
		img = open_fake(f);
		assert_null(image_read_relocated(img, f->moduledata, &word, 8));
		assert_int_equal(word, 0);
		image_close(img);
		go_image_fake_destroy(f);
	}
}

static void test_pointers_are_found_once(void **state)
{
	(void)state;
	for (int in_place = 0; in_place < 2; in_place++) {
		struct go_image_fake *f = pie(in_place, 0x400000);
		struct image *img = open_fake(f);
		gaddr_t at[8];
		size_t n = 8;

		assert_null(image_find_pointers(img, f->pclntab, at, &n));
		assert_int_equal(n, 1);
		assert_int_equal(at[0], f->moduledata);
		/* text stands in two words, functab's address in two more; the room is respected */
		n = 8;
		assert_null(image_find_pointers(img, f->functab, at, &n));
		assert_int_equal(n, 2);
		n = 1;
		assert_null(image_find_pointers(img, f->functab, at, &n));
		assert_int_equal(n, 1);
		n = 8;
		assert_null(image_find_pointers(img, 0x12345, at, &n));
		assert_int_equal(n, 0);
		image_close(img);
		go_image_fake_destroy(f);
	}
}

static void test_needed_libraries(void **state)
{
	struct go_image_fake *f = pie(false, 0);
	uint64_t *d = dynamic_words(f);
	struct image *img;

	(void)state;
	/* relocations make room for a string table with one needed library */
	memcpy(go_image_fake_at(f, f->rela), "\0libgo.so.21", 12);
	memcpy(d, (uint64_t[]){ DT_STRTAB, f->rela, DT_STRSZ, 13, DT_NEEDED, 1, DT_NULL, 0 }, 64);
	img = open_fake(f);
	assert_true(image_needs(img, "libgo.so."));
	assert_false(image_needs(img, "libc.so."));
	image_close(img);
	d[5] = 13;	/* behind the table */
	img = open_fake(f);
	assert_false(image_needs(img, "libgo.so."));
	image_close(img);
	go_image_fake_destroy(f);
}

/* ---- bias ---- */

enum { DEV = 7, INODE = 99 };

static struct mapping map(gaddr_t start, uint64_t offset, uint64_t size, uint32_t flags, uint64_t inode)
{
	return (struct mapping){ .start = start, .end = start + size, .offset = offset, .dev = DEV,
				 .inode = inode, .flags = flags, .path = "" };
}

/* How the kernel maps the fake at `start`. */
static void map_fake(struct mapping v[4], gaddr_t start)
{
	v[0] = map(start, 0, 0x1000, MAPPING_READ, INODE);
	v[1] = map(start + 0x1000, 0x1000, 0x1000, MAPPING_READ | MAPPING_EXEC, INODE);
	v[2] = map(start + 0x2000, 0x2000, 0x4000, MAPPING_READ, INODE);
	v[3] = map(start + 0x6000, 0x6000, 0x2000, MAPPING_READ | MAPPING_WRITE, INODE);
}

static void test_bias(void **state)
{
	static const uint64_t bases[] = { 0, 0x400000 };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct go_image_fake *f = pie(true, bases[i]);
		struct image *img = open_fake(f);
		struct mapping v[6];
		struct mappings maps = { .v = v, .n = 6 };
		uint64_t bias = 1;

		/* The program has mapped its own file once more, for reading, below its place. */
		v[0] = map(0x100000000000, 0, FAKE_SIZE, MAPPING_READ, INODE);
		v[1] = map(0x200000000000, 0, 0x1000, MAPPING_READ | MAPPING_EXEC, INODE + 1);
		map_fake(v + 2, 0x555555554000);
		assert_null(image_bias(img, &maps, DEV, INODE, &bias));
		assert_int_equal(bias, 0x555555554000 - bases[i]);
		assert_ptr_equal(image_bias(img, &maps, DEV, INODE + 7, &bias), &err_notfound);
		assert_ptr_equal(image_bias(img, &maps, DEV + 1, INODE, &bias), &err_notfound);
		/* Code that is not executable, or from elsewhere in the file, is not this program. */
		v[3].flags = MAPPING_READ;
		assert_ptr_equal(image_bias(img, &maps, DEV, INODE, &bias), &err_notfound);
		v[3].flags = MAPPING_EXEC;
		v[3].offset = 0;
		assert_ptr_equal(image_bias(img, &maps, DEV, INODE, &bias), &err_notfound);
		image_close(img);
		go_image_fake_destroy(f);
	}
}

static void test_fixed_address(void **state)
{
	struct go_image_fake *f = go_image_fake_create(&(struct go_image_options){ .minor = 26,
								      .base = 0x400000 });
	struct image *img = open_fake(f);
	struct mapping v[4];
	struct mappings maps = { .v = v, .n = 4 };
	uint64_t bias = 1;

	(void)state;
	map_fake(v, 0x400000);
	assert_null(image_bias(img, &maps, DEV, INODE, &bias));
	assert_int_equal(bias, 0);
	map_fake(v, 0x500000);
	assert_ptr_equal(image_bias(img, &maps, DEV, INODE, &bias), &err_notfound);
	maps.n = 0;
	assert_ptr_equal(image_bias(img, &maps, DEV, INODE, &bias), &err_notfound);
	image_close(img);
	go_image_fake_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words_come_from_relocations),
		cmocka_unit_test(test_order_of_relocations_is_free),
		cmocka_unit_test(test_other_types_do_not_count),
		cmocka_unit_test(test_lying_tables_are_no_tables),
		cmocka_unit_test(test_pointers_are_found_once),
		cmocka_unit_test(test_needed_libraries),
		cmocka_unit_test(test_bias),
		cmocka_unit_test(test_fixed_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
