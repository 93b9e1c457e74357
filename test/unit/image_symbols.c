/*
 * image_symbols.c: names looked up in a symbol table made by hand; without one, or with one that
 * lies, there is no symbol table and nothing else goes wrong.
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

enum { AT_SECTIONS = 0x7000, AT_SYMBOLS = 0x7200, AT_NAMES = 0x7400, N_SYMBOLS = 5 };

static struct go_image_fake *with_symbols(void)
{
	struct go_image_fake *f = go_image_fake_create(&(struct go_image_options){ .minor = 26,
								      .base = 0x400000 });
	static const char names[] = "\0runtime.allm\0runtime.allgs\0runtime.all\0main.undefined";
	Elf64_Shdr s[3] = {
		{ 0 },
		{ .sh_type = SHT_SYMTAB, .sh_offset = AT_SYMBOLS, .sh_size = N_SYMBOLS * sizeof(Elf64_Sym),
		  .sh_entsize = sizeof(Elf64_Sym), .sh_link = 2 },
		{ .sh_type = SHT_STRTAB, .sh_offset = AT_NAMES, .sh_size = sizeof(names) },
	};
	Elf64_Sym v[N_SYMBOLS] = {
		{ 0 },
		{ .st_name = 1, .st_value = 0x100, .st_size = 8, .st_shndx = 1 },
		{ .st_name = 14, .st_value = 0x200, .st_size = 24, .st_shndx = 1 },
		{ .st_name = 28, .st_value = 0x300, .st_size = 4, .st_shndx = 1 },
		{ .st_name = 40, .st_value = 0x400, .st_size = 4, .st_shndx = SHN_UNDEF },
	};
	Elf64_Ehdr h;

	memcpy(&h, f->bytes, sizeof(h));
	h.e_shoff = AT_SECTIONS;
	h.e_shnum = 3;
	h.e_shentsize = sizeof(s[0]);
	memcpy(f->bytes, &h, sizeof(h));
	memcpy(f->bytes + AT_SECTIONS, s, sizeof(s));
	memcpy(f->bytes + AT_SYMBOLS, v, sizeof(v));
	memcpy(f->bytes + AT_NAMES, names, sizeof(names));
	return f;
}

static struct error *find(const struct go_image_fake *f, struct image_symbol out[4])
{
	static const char *const names[] = { "runtime.allgs", "main.undefined", "runtime.all", "runtime.al" };
	int fd = go_image_fake_file(f, FAKE_SIZE);
	struct image *img;
	struct error *err;

	assert_null(image_open_fd(fd, &img));
	err = image_find_symbols(img, names, 4, out);
	image_close(img);
	close(fd);
	return err;
}

static void test_names_are_exact(void **state)
{
	struct go_image_fake *f = with_symbols();
	struct image_symbol out[4];

	(void)state;
	assert_null(find(f, out));
	assert_int_equal(out[0].addr, 0x200);
	assert_int_equal(out[0].size, 24);
	assert_int_equal(out[1].addr, 0);	/* named, but not defined here */
	assert_int_equal(out[2].addr, 0x300);
	assert_int_equal(out[3].addr, 0);
	go_image_fake_destroy(f);
}

static void test_damage(void **state)
{
	static const struct {
		uint64_t at, value;
		bool table;	/* a table is still there, but useless */
	} damage[] = {
		{ AT_SECTIONS + 64 + offsetof(Elf64_Shdr, sh_entsize), 23, false },
		{ AT_SECTIONS + 64 + offsetof(Elf64_Shdr, sh_type), SHT_NOTE, false },
		{ AT_SECTIONS + 64 + offsetof(Elf64_Shdr, sh_offset), UINT64_MAX - 8, false },
		{ AT_SECTIONS + 128 + offsetof(Elf64_Shdr, sh_type), SHT_NOTE, false },
		{ offsetof(Elf64_Ehdr, e_shoff), 0, false },
		{ offsetof(Elf64_Ehdr, e_shoff), INT64_MAX - 3, false },
		{ AT_SECTIONS + 64 + offsetof(Elf64_Shdr, sh_offset), INT64_MAX, true },
		{ AT_SECTIONS + 128 + offsetof(Elf64_Shdr, sh_size), 0, true },
		{ AT_SECTIONS + 128 + offsetof(Elf64_Shdr, sh_offset), INT64_MAX, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		struct go_image_fake *f = with_symbols();
		struct image_symbol out[4] = { { .addr = 77 } };
		struct error *err;

		memcpy(f->bytes + damage[i].at, &damage[i].value, damage[i].at == AT_SECTIONS + 128 + 4 ||
		       damage[i].at == AT_SECTIONS + 64 + 4 ? 4 : 8);
		err = find(f, out);
		assert_ptr_equal(err, damage[i].table ? NULL : &err_notfound);
		assert_int_equal(out[0].addr, damage[i].table ? 0 : 77);
		go_image_fake_destroy(f);
	}
}

/* A size beyond the file: what is there is read. */
static void test_table_longer_than_the_file(void **state)
{
	struct go_image_fake *f = with_symbols();
	struct image_symbol out[4];

	(void)state;
	go_image_fake_put(f, 0x400000 + AT_SECTIONS + 64 + offsetof(Elf64_Shdr, sh_size), UINT64_MAX, 8);
	assert_null(find(f, out));
	assert_int_equal(out[0].addr, 0x200);
	go_image_fake_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_are_exact),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_table_longer_than_the_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
