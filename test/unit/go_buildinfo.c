/*
 * go_buildinfo.c: versions, and the build record in its two forms, scrubbed and damaged.
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
#include "go/go_impl.h"

static void test_versions(void **state)
{
	static const struct {
		const char *text;
		int minor, patch;	/* minor -1: no version */
	} cases[] = {
		{ "go1.26.10", 26, 10 }, { "go1.19.8 X:noregabi", 19, 8 }, { "go1.20", 20, 0 },
		{ "go1.20 X:arenas", 20, 0 }, { "go1.21rc2", 21, -1 }, { "go1.27beta1", 27, -1 },
		{ "go1.18.10b7", 18, 10 }, { "go1.22.5-1", 22, 5 }, { "go1.24.1+auto", 24, 1 },
		{ "devel go1.26-3c8d9a1 Tue Mar 3", 26, -1 }, { "devel go1.25.3", 25, -1 },
		{ "go1.26-devel_0a1b", 26, -1 }, { "go1.9999", 9999, 0 },
		{ "", -1, 0 }, { "go1", -1, 0 }, { "go1.", -1, 0 }, { "go1.x", -1, 0 }, { "go2.1", -1, 0 },
		{ "go1.26.", -1, 0 }, { "go1.26.x", -1, 0 }, { "go1.99999", -1, 0 }, { "1.26", -1, 0 },
		{ "devel +0a1b2c", -1, 0 }, { "go1.26.99999999999", -1, 0 }, { " go1.26", -1, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int minor = 77, patch = 77;
		bool is = go_version_parse(cases[i].text, &minor, &patch);

		assert_int_equal(is, cases[i].minor >= 0);
		assert_int_equal(minor, is ? cases[i].minor : 77);
		assert_int_equal(patch, is ? cases[i].patch : 77);
	}
}

static struct go_image_fake *fake(bool dyn, bool buildinfo)
{
	return go_image_fake_create(&(struct go_image_options){
		.minor = 26, .base = 0x400000, .dyn = dyn, .buildinfo = buildinfo });
}

static struct error *read_info(const struct go_image_fake *f, struct arena *a, struct go_build *b)
{
	int fd = go_image_fake_file(f, FAKE_SIZE);
	struct image *img;
	struct error *err;

	assert_null(image_open_fd(fd, &img));
	close(fd);
	err = go_buildinfo_read(img, a, b);
	image_close(img);
	return err;
}

static void test_record(void **state)
{
	struct go_image_fake *f = fake(false, true);
	struct go_build b;
	struct arena a;
	char value[64];

	(void)state;
	arena_init(&a);
	assert_null(read_info(f, &a, &b));
	assert_true(b.has_buildinfo);
	assert_string_equal(b.version, "go1.26.4");
	assert_int_equal(b.minor, 26);
	assert_int_equal(b.patch, 4);
	assert_string_equal(b.path, "example.org/app/cmd");
	assert_string_equal(b.main_module, "example.org/app");
	assert_string_equal(b.main_version, "v1.2.3");
	assert_true(go_build_setting(&b, "CGO_ENABLED", value, sizeof(value)));
	assert_string_equal(value, "0");
	assert_true(go_build_setting(&b, "-ldflags", value, sizeof(value)));
	assert_string_equal(value, "-s -w\t\"q\"");
	assert_true(go_build_setting(&b, "vcs.revision", value, sizeof(value)));
	assert_string_equal(value, "abcdef");
	/* Names are whole, and a value that does not fit is none. */
	assert_false(go_build_setting(&b, "vcs", value, sizeof(value)));
	assert_false(go_build_setting(&b, "revision", value, sizeof(value)));
	assert_false(go_build_setting(&b, "vcs.revision", value, 6));
	assert_true(go_build_setting(&b, "vcs.revision", value, 7));
	arena_deinit(&a);
	go_image_fake_destroy(f);
}

/* Before 1.18: two pointers to string headers, relocated in a PIE. */
static void test_pointer_form(void **state)
{
	struct go_image_fake *f = fake(false, true);
	const uint64_t at = f->buildinfo, free_at = f->o.base + 0x6f00;
	struct go_build b;
	struct arena a;

	(void)state;
	arena_init(&a);
	memset(go_image_fake_at(f, at), 0, 0x200);
	memcpy(go_image_fake_at(f, at), "\xff Go buildinf:\x08\x00", 16);
	go_image_fake_put(f, at + 16, f->version_header, 8);
	go_image_fake_put(f, at + 24, free_at, 8);
	go_image_fake_put(f, free_at, free_at + 16, 8);
	go_image_fake_put(f, free_at + 8, 11, 8);
	memcpy(go_image_fake_at(f, free_at + 16), "path\tx.org/y", 12);
	assert_null(read_info(f, &a, &b));
	assert_string_equal(b.version, "go1.26.4");
	assert_string_equal(b.path, "x.org/");
	assert_string_equal(b.settings, "");
	/* No module text at all. */
	go_image_fake_put(f, at + 24, 0, 8);
	assert_null(read_info(f, &a, &b));
	assert_string_equal(b.path, "");
	arena_deinit(&a);
	go_image_fake_destroy(f);
}

static void test_scrubbed(void **state)
{
	(void)state;
	for (int dyn = 0; dyn < 2; dyn++) {
		struct go_image_fake *f = fake(dyn, false);
		const uint64_t other = f->o.base + 0x6f00;
		struct go_build b;
		struct arena a;
		struct error *err;

		arena_init(&a);
		assert_null(read_info(f, &a, &b));
		assert_false(b.has_buildinfo);
		assert_string_equal(b.version, "go1.26.4");
		assert_string_equal(b.path, "");
		/* A length that is not the text's. */
		go_image_fake_put(f, f->version_header + 8, 7, 8);
		err = read_info(f, &a, &b);
		assert_true(dyn || b.minor == 26);
		assert_true(err == NULL || err == &err_notfound);
		go_image_fake_put(f, f->version_header + 8, 8, 8);
		/* Two variables that say different things. */
		memcpy(go_image_fake_at(f, other + 16), "go1.21.3", 9);
		go_image_fake_put(f, other, other + 16, 8);
		go_image_fake_put(f, other + 8, 8, 8);
		assert_ptr_equal(read_info(f, &a, &b), &err_notfound);
		arena_deinit(&a);
		go_image_fake_destroy(f);
	}
}

/* A record that lies is passed over; the runtime's own text is asked then. */
static void test_damaged_records(void **state)
{
	static const struct {
		unsigned int at, size;
		uint64_t value;
	} damage[] = {
		{ 15, 1, 3 },				/* big endian */
		{ 32, 1, 0 },				/* empty version */
		{ 32, 8, UINT64_MAX },			/* length without an end */
		{ 32, 5, 0x7fffffffff },		/* a long one */
		{ 33, 8, 0x2121212121212121 },		/* no version */
		{ 41, 4, 0x7fffffff },			/* module text longer than the file */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		struct go_image_fake *f = fake(false, true);
		struct go_build b;
		struct arena a;

		arena_init(&a);
		go_image_fake_put(f, f->buildinfo + damage[i].at, damage[i].value, damage[i].size);
		assert_null(read_info(f, &a, &b));
		assert_false(b.has_buildinfo);
		assert_string_equal(b.version, "go1.26.4");
		arena_deinit(&a);
		go_image_fake_destroy(f);
	}
}

/* The magic as data of a program that reads such records, before the real one. */
static void test_decoys(void **state)
{
	struct go_image_fake *f = fake(false, true);
	struct go_build b;
	struct arena a;

	(void)state;
	arena_init(&a);
	memcpy(go_image_fake_at(f, f->o.base + 0x6010), "\xff Go buildinf:", 14);
	assert_null(read_info(f, &a, &b));
	assert_true(b.has_buildinfo);
	assert_string_equal(b.path, "example.org/app/cmd");
	arena_deinit(&a);
	go_image_fake_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_record),
		cmocka_unit_test(test_pointer_form),
		cmocka_unit_test(test_scrubbed),
		cmocka_unit_test(test_damaged_records),
		cmocka_unit_test(test_decoys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
