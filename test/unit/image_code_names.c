/*
 * image_code_names.c: names of C code, with this very program as the example: the compiler knows
 * what its functions are called, and where they stand. And symbol tables made here, with all that
 * may be wrong with one.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "image/code_names.h"
#include "image/image_impl.h"

/* ---- functions to be found ---- */

__attribute__((noinline)) int names_outer(int n);

static volatile int sink;
static uintptr_t inner_pc;
static int inner_line, call_line;

__attribute__((always_inline)) static inline int names_inner(int n)
{
	inner_line = __LINE__ + 1;
	__asm__ volatile("lea 0(%%rip), %0" : "=r"(inner_pc));
	return n + 1;
}

__attribute__((noinline)) int names_outer(int n)
{
	call_line = __LINE__ + 1;
	sink = names_inner(n);
	return sink * 2;
}

static uintptr_t bias(void)
{
	struct link_map *map = NULL;

	/* The first one is the program itself. */
	for (map = _r_debug.r_map; map && map->l_prev; map = map->l_prev)
		;
	return map ? map->l_addr : 0;
}

static struct image *self(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct image *img;

	assert_true(fd >= 0);
	assert_null(image_open_fd(fd, &img));
	close(fd);
	return img;
}

static gaddr_t link_time(const void *p)
{
	return (uintptr_t)p - bias();
}

static void test_dwarf(void **state)
{
	struct image *img = self();
	struct dwarf_names *dn;
	struct dwarf_frame f[4];
	uint64_t bytes = 0;
	size_t n;

	(void)state;
	names_outer(1);
	assert_null(dwarf_names_open(img, 64 << 20, &dn, &bytes));
	assert_true(bytes > 1000 && bytes < 64 << 20);
	n = dwarf_names_find(dn, inner_pc - bias(), f, 4);
	assert_int_equal(n, 2);
	assert_string_equal(f[0].function, "names_inner");
	assert_true(f[0].inlined);
	assert_int_equal(f[0].line, inner_line);
	assert_non_null(strstr(f[0].file, "/image_code_names.c"));
	assert_string_equal(f[1].function, "names_outer");
	assert_false(f[1].inlined);
	assert_int_equal(f[1].line, call_line);
	assert_true(f[1].start_line < f[1].line && f[1].start_line + 6 > f[1].line);
	assert_non_null(strstr(f[1].file, "/image_code_names.c"));
	/* No room for all of them: none, as the innermost alone would be a stack that never was. */
	assert_int_equal(dwarf_names_find(dn, inner_pc - bias(), f, 1), 0);
	assert_int_equal(dwarf_names_find(dn, 0, f, 4), 0);
	assert_int_equal(dwarf_names_find(dn, UINT64_MAX, f, 4), 0);
	dwarf_names_close(dn);
	/* One byte less than it takes. */
	assert_ptr_equal(dwarf_names_open(img, bytes - 1, &dn, &bytes), &err_notfound);
	image_close(img);
}

static void test_symbols(void **state)
{
	struct image *img = self();
	struct code_symbols *cs;
	struct code_symbol s;
	char name[64], cut[6];

	(void)state;
	assert_null(code_symbols_load(img, &cs));
	assert_true(code_symbols_find(cs, link_time((void *)names_outer), &s, name, sizeof(name)));
	assert_string_equal(name, "names_outer");
	assert_int_equal(s.start, link_time((void *)names_outer));
	assert_false(s.guessed);
	assert_true(code_symbols_find(cs, s.end - 1, &s, name, sizeof(name)));
	assert_string_equal(name, "names_outer");
	assert_true(code_symbols_find(cs, s.start, &s, cut, sizeof(cut)));
	assert_string_equal(cut, "names");
	assert_false(code_symbols_find(cs, 1, &s, name, sizeof(name)));
	assert_false(code_symbols_find(cs, UINT64_MAX, &s, name, sizeof(name)));
	/* Data is no code. */
	assert_false(code_symbols_find(cs, link_time((void *)&inner_line), &s, name, sizeof(name)));
	code_symbols_free(cs);
	image_close(img);
}

/* ---- tables made here ---- */

enum {
	CODE = 0x1000, CODE_SIZE = 0x1000, CODE_SECTION = 0x800,	/* the section ends in the middle */
	SYMBOLS_AT = 0x3000, NAMES_AT = 0x4000, SECTIONS_AT = 0x5000, FILE_SIZE = 0x6000,
	SYMBOLS_FEW = 16,
};

static const char names[] = "\0plain\0_plain\0weak\0local\0label\0far\0nested\0outer\0data\0gap";

static uint32_t name_at(const char *name)
{
	for (uint32_t i = 1; i < sizeof(names); i += (uint32_t)strlen(names + i) + 1)
		if (!strcmp(names + i, name))
			return i;
	fail_msg("no name %s", name);
	return 0;
}

struct made {
	uint8_t bytes[FILE_SIZE];
	uint32_t n;
};

static void add(struct made *m, const char *name, gaddr_t addr, uint64_t size, int binding, int type, int section)
{
	Elf64_Sym s = { .st_name = name_at(name), .st_value = addr, .st_size = size, .st_shndx = (uint16_t)section,
			.st_info = (uint8_t)ELF64_ST_INFO(binding, type) };

	memcpy(m->bytes + SYMBOLS_AT + m->n++ * sizeof(s), &s, sizeof(s));
}

static struct made *make(void)
{
	struct made *m = calloc(1, sizeof(*m));
	Elf64_Ehdr h = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT }, .e_type = ET_DYN,
		.e_machine = EM_X86_64, .e_phoff = sizeof(h), .e_phnum = 2, .e_phentsize = sizeof(Elf64_Phdr),
		.e_shoff = SECTIONS_AT, .e_shnum = 4, .e_shentsize = sizeof(Elf64_Shdr),
	};
	Elf64_Phdr p[2] = {
		{ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = CODE, .p_vaddr = CODE,
		  .p_filesz = CODE_SIZE, .p_memsz = CODE_SIZE },
		{ .p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_offset = 0x2000, .p_vaddr = 0x2000,
		  .p_filesz = 0x1000, .p_memsz = 0x1000 },
	};

	assert_non_null(m);
	memcpy(m->bytes, &h, sizeof(h));
	memcpy(m->bytes + sizeof(h), p, sizeof(p));
	memcpy(m->bytes + NAMES_AT, names, sizeof(names));
	m->n = 1;	/* the empty one */
	return m;
}

static struct image *open_made(struct made *m, uint64_t names_size)
{
	Elf64_Shdr s[4] = {
		[1] = { .sh_type = SHT_PROGBITS, .sh_addr = CODE, .sh_size = CODE_SECTION },
		[2] = { .sh_type = SHT_SYMTAB, .sh_offset = SYMBOLS_AT, .sh_entsize = sizeof(Elf64_Sym),
			.sh_size = m->n * sizeof(Elf64_Sym), .sh_link = 3 },
		[3] = { .sh_type = SHT_STRTAB, .sh_offset = NAMES_AT, .sh_size = names_size },
	};
	int fd = memfd_create("made", MFD_CLOEXEC);
	struct image *img;

	memcpy(m->bytes + SECTIONS_AT, s, sizeof(s));
	assert_true(fd >= 0);
	assert_int_equal(write(fd, m->bytes, sizeof(m->bytes)), sizeof(m->bytes));
	assert_null(image_open_fd(fd, &img));
	close(fd);
	free(m);
	return img;
}

struct world {
	struct image *img;
	struct code_symbols *cs;
};

static void expect(const struct world *w, gaddr_t pc, const char *name, bool guessed)
{
	struct code_symbol s = { 0 };
	char buf[32] = "";
	bool found = code_symbols_find(w->cs, pc, &s, buf, sizeof(buf));

	assert_int_equal(found, name != NULL);
	if (!name)
		return;
	assert_string_equal(buf, name);
	assert_int_equal(s.guessed, guessed);
	assert_true(s.start <= pc && pc < s.end);
}

static struct world load(struct made *m, uint64_t names_size)
{
	struct world w = { .img = open_made(m, names_size) };

	assert_null(code_symbols_load(w.img, &w.cs));
	return w;
}

static void unload(struct world *w)
{
	code_symbols_free(w->cs);
	image_close(w->img);
}

static void test_bounds_and_aliases(void **state)
{
	struct made *m = make();
	struct world w;

	(void)state;
	add(m, "local", 0x1100, 0x10, STB_LOCAL, STT_FUNC, 1);
	add(m, "weak", 0x1100, 0x10, STB_WEAK, STT_FUNC, 1);
	add(m, "_plain", 0x1100, 0x10, STB_GLOBAL, STT_FUNC, 1);
	add(m, "plain", 0x1100, 0x10, STB_GLOBAL, STT_FUNC, 1);
	add(m, "outer", 0x1200, 0x100, STB_GLOBAL, STT_FUNC, 1);
	add(m, "nested", 0x1240, 0x10, STB_GLOBAL, STT_FUNC, 1);
	add(m, "data", 0x2100, 0x10, STB_GLOBAL, STT_FUNC, 1);
	add(m, "far", 0x1400, UINT64_MAX, STB_GLOBAL, STT_FUNC, 1);
	add(m, "gap", 0x1500, 8, STB_GLOBAL, STT_OBJECT, 1);
	w = load(m, sizeof(names));
	expect(&w, 0x10ff, NULL, false);
	expect(&w, 0x1100, "plain", false);
	expect(&w, 0x110f, "plain", false);
	expect(&w, 0x1110, NULL, false);	/* never the nearest one */
	expect(&w, 0x123f, "outer", false);
	expect(&w, 0x1240, "nested", false);
	expect(&w, 0x1250, "outer", false);
	expect(&w, 0x1300, NULL, false);
	expect(&w, 0x1400, NULL, false);
	expect(&w, 0x1500, NULL, false);
	expect(&w, 0x2100, NULL, false);
	unload(&w);
}

static void test_sizes_unknown(void **state)
{
	struct made *m = make();
	struct world w;

	(void)state;
	add(m, "label", 0x1100, 0, STB_LOCAL, STT_NOTYPE, 1);
	add(m, "plain", 0x1180, 0x10, STB_GLOBAL, STT_FUNC, 1);
	add(m, "far", 0x1700, 0, STB_GLOBAL, STT_FUNC, 1);
	add(m, "gap", 0x1900, 0, STB_GLOBAL, STT_FUNC, 1);	/* not in the section it names */
	w = load(m, sizeof(names));
	expect(&w, 0x1100, "label", true);
	expect(&w, 0x117f, "label", true);	/* up to the next symbol */
	expect(&w, 0x1180, "plain", false);
	expect(&w, 0x1190, NULL, false);
	expect(&w, 0x17ff, "far", true);	/* up to the end of the section */
	expect(&w, 0x1800, NULL, false);
	expect(&w, 0x1900, NULL, false);
	unload(&w);
}

static void test_damaged_names(void **state)
{
	struct made *m = make();
	struct world w;

	(void)state;
	add(m, "plain", 0x1100, 0x10, STB_GLOBAL, STT_FUNC, 1);
	add(m, "_plain", 0x1200, 0x10, STB_GLOBAL, STT_FUNC, 1);
	w = load(m, name_at("_plain") + 3);	/* the table of names ends in a name */
	expect(&w, 0x1100, "plain", false);
	expect(&w, 0x1200, NULL, false);
	unload(&w);
}

static void test_none(void **state)
{
	struct made *m = make();
	struct image *img = open_made(m, sizeof(names));
	struct code_symbols *cs = NULL;

	(void)state;
	assert_ptr_equal(code_symbols_load(img, &cs), &err_notfound);
	assert_null(cs);
	image_close(img);
}

/* ---- files that would do harm ---- */

/* A copy of this program's file in memory, to be changed. */
struct changed {
	uint8_t *bytes;
	size_t len;
	Elf64_Shdr *sections, *names;
};

static struct changed change(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct changed c = { .len = (size_t)lseek(fd, 0, SEEK_END) };
	const Elf64_Ehdr *h;

	c.bytes = malloc(c.len);
	assert_non_null(c.bytes);
	assert_int_equal(pread(fd, c.bytes, c.len, 0), (ssize_t)c.len);
	close(fd);
	h = (const Elf64_Ehdr *)c.bytes;
	c.sections = (Elf64_Shdr *)(c.bytes + h->e_shoff);
	c.names = &c.sections[h->e_shstrndx];
	return c;
}

static char *name_of_section(const struct changed *c, const Elf64_Shdr *s)
{
	return (char *)c->bytes + c->names->sh_offset + s->sh_name;
}

static Elf64_Shdr *section_named(const struct changed *c, const char *name)
{
	const Elf64_Ehdr *h = (const Elf64_Ehdr *)c->bytes;

	for (int i = 0; i < h->e_shnum; i++)
		if (!strcmp(name_of_section(c, &c->sections[i]), name))
			return &c->sections[i];
	fail_msg("no section %s", name);
	return NULL;
}

/* Another name for a section that nobody asks for here; there is room for it. */
static Elf64_Shdr *rename_spare(const struct changed *c, const char *name)
{
	static const char spare[] = ".note.gnu.build-id";
	Elf64_Shdr *s = section_named(c, spare);

	assert_true(strlen(name) < sizeof(spare));
	strcpy(name_of_section(c, s), name);
	return s;
}

/* What its debug information takes; 0: it is not opened. */
static uint64_t open_changed(struct changed *c)
{
	int fd = memfd_create("changed", MFD_CLOEXEC);
	struct dwarf_names *dn;
	uint64_t bytes = 0;
	struct image *img;
	struct error *err;

	assert_int_equal(write(fd, c->bytes, c->len), (ssize_t)c->len);
	free(c->bytes);
	assert_null(image_open_fd(fd, &img));
	close(fd);
	err = dwarf_names_open(img, 64 << 20, &dn, &bytes);
	if (!err)
		dwarf_names_close(dn);
	else
		assert_ptr_equal(err, &err_notfound);
	image_close(img);
	return err ? 0 : bytes;
}

static uint64_t plain_bytes(void)
{
	struct changed c = change();

	return open_changed(&c);
}

/* It names another file, which libdw would open, whatever it is. */
static void test_file_elsewhere(void **state)
{
	static const char *const sections[] = { ".gnu_debugaltlink", ".zgnu_debugaltlink", ".debug_sup" };

	(void)state;
	assert_true(plain_bytes() > 0);
	for (size_t i = 0; i < sizeof(sections) / sizeof(*sections); i++) {
		struct changed c = change();

		rename_spare(&c, sections[i]);
		assert_int_equal(open_changed(&c), 0);
	}
}

/* The first unit says that it stands for one in another file. */
static void test_unit_elsewhere(void **state)
{
	enum { UNIT_TYPE_AT = 6 };	/* behind length and version */
	struct changed c = change();
	uint8_t *info = c.bytes + section_named(&c, ".debug_info")->sh_offset;

	(void)state;
	if (info[4] != 5) {		/* before DWARF 5 units have no type */
		free(c.bytes);
		skip();
	}
	assert_int_equal(info[UNIT_TYPE_AT], 1);
	info[UNIT_TYPE_AT] = 4;		/* DW_UT_skeleton: an id follows the header */
	assert_int_equal(open_changed(&c), 0);
}

/* A small section that says it is big when it is unpacked, in the old way; and one that is as big as it says. */
static void test_bomb(void **state)
{
	static const struct { uint8_t size[8]; bool opened; } rows[] = {
		{ { 0, 0, 1, 0, 0, 0, 0, 0 }, false },
		{ { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff }, false },
		{ { 0, 0, 0, 0, 1, 0, 0, 0 }, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct changed c = change();
		Elf64_Shdr *s = rename_spare(&c, ".zdebug_types");
		uint8_t *p = c.bytes + s->sh_offset;
		uint64_t bytes;

		assert_true(s->sh_size >= 12);
		s->sh_type = SHT_PROGBITS;
		s->sh_flags = 0;
		memcpy(p, "ZLIB", 4);
		memcpy(p + 4, rows[i].size, 8);
		bytes = open_changed(&c);
		assert_int_equal(bytes, rows[i].opened ? plain_bytes() + (1 << 24) : 0);
	}
}

/* libdw goes by names: a section of another type counts, too. */
static void test_type_of_section(void **state)
{
	struct changed c = change();

	(void)state;
	section_named(&c, ".debug_str")->sh_type = SHT_LOUSER;
	assert_int_equal(open_changed(&c), plain_bytes());
}

/* Lines take more memory than room in the file. */
static void test_lines_count_more(void **state)
{
	struct changed c = change();
	Elf64_Shdr *s = section_named(&c, ".debug_line");
	uint64_t size = s->sh_size, without;

	(void)state;
	s->sh_type = SHT_NOBITS;
	without = open_changed(&c);
	assert_true(without > 0);
	assert_true(plain_bytes() - without >= 4 * size);
}

/* ---- debug files ---- */

static void copy(const char *from, const char *to)
{
	uint8_t buf[65536];
	int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ssize_t n;

	assert_true(in >= 0 && out >= 0);
	while ((n = read(in, buf, sizeof(buf))) > 0)
		assert_int_equal(write(out, buf, (size_t)n), n);
	close(in);
	close(out);
}

/* A copy of this program below a root of debug files, under the name that its build id asks for. */
static void test_debug_file(void **state)
{
	char root[] = "/tmp/code-names-XXXXXX", id[200], ids[64], dir[128], path[512];
	struct image *img = self(), *debug = NULL;

	(void)state;
	assert_non_null(mkdtemp(root));
	assert_null(image_build_id(img, id, sizeof(id)));
	assert_ptr_equal(debug_file_open(img, root, &debug), &err_notfound);
	snprintf(ids, sizeof(ids), "%s/.build-id", root);
	snprintf(dir, sizeof(dir), "%s/%.2s", ids, id);
	snprintf(path, sizeof(path), "%s/%s.debug", dir, id + 2);
	assert_int_equal(mkdir(ids, 0700) | mkdir(dir, 0700), 0);
	copy("/proc/self/exe", path);
	assert_null(debug_file_open(img, root, &debug));
	assert_non_null(debug);
	image_close(debug);
	/* The right name and another program in it. */
	debug = NULL;
	copy("/bin/true", path);
	assert_ptr_equal(debug_file_open(img, root, &debug), &err_notfound);
	assert_null(debug);
	/* A pipe of that name must not be waited for. */
	assert_int_equal(unlink(path) | mkfifo(path, 0600), 0);
	error_free(debug_file_open(img, root, &debug));
	assert_null(debug);
	assert_int_equal(unlink(path) | rmdir(dir) | rmdir(ids) | rmdir(root), 0);
	image_close(img);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dwarf),
		cmocka_unit_test(test_symbols),
		cmocka_unit_test(test_bounds_and_aliases),
		cmocka_unit_test(test_sizes_unknown),
		cmocka_unit_test(test_damaged_names),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_file_elsewhere),
		cmocka_unit_test(test_unit_elsewhere),
		cmocka_unit_test(test_bomb),
		cmocka_unit_test(test_type_of_section),
		cmocka_unit_test(test_lines_count_more),
		cmocka_unit_test(test_debug_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
