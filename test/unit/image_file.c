/*
 * image_file.c: opening ELF files and reading them by address: what is refused, what the bounds of
 * reads are, and that a bounded cache gives the file's bytes whatever the order of questions.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "../fake/go_image_fake.h"
#include "image/image_impl.h"

static struct go_image_fake *fake(bool dyn, uint64_t base)
{
	return go_image_fake_create(&(struct go_image_options){
		.minor = 26, .base = base, .dyn = dyn, .buildinfo = true });
}

static struct error *open_bytes(const void *bytes, size_t len, struct image **ret)
{
	int fd = memfd_create("image", MFD_CLOEXEC);
	struct error *err;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	err = image_open_fd(fd, ret);
	close(fd);
	return err;
}

/* Opens the fake after `damage`; returns the kind of the error, or -1. */
static int kind_after(void (*damage)(Elf64_Ehdr *h, Elf64_Phdr *p), size_t len)
{
	struct go_image_fake *f = fake(false, 0x400000);
	Elf64_Ehdr h;
	Elf64_Phdr p[FAKE_LOADS];
	struct image *img = NULL;
	struct error *err;
	int kind = -1;

	memcpy(&h, f->bytes, sizeof(h));
	memcpy(p, f->bytes + sizeof(h), sizeof(p));
	if (damage)
		damage(&h, p);
	memcpy(f->bytes, &h, sizeof(h));
	memcpy(f->bytes + sizeof(h), p, sizeof(p));
	err = open_bytes(f->bytes, len, &img);
	if (err)
		kind = (int)err->kind;
	else
		image_close(img);
	assert_true(!err || !img);
	error_free(err);
	go_image_fake_destroy(f);
	return kind;
}

static void no_magic(Elf64_Ehdr *h, Elf64_Phdr *p) { (void)p; h->e_ident[0] = 0; }
static void says_32(Elf64_Ehdr *h, Elf64_Phdr *p) { (void)p; h->e_ident[EI_CLASS] = ELFCLASS32; }
static void says_big_endian(Elf64_Ehdr *h, Elf64_Phdr *p) { (void)p; h->e_ident[EI_DATA] = ELFDATA2MSB; }
static void is_32(Elf64_Ehdr *h, Elf64_Phdr *p) { says_32(h, p); h->e_phentsize = 32; }
static void other_32(Elf64_Ehdr *h, Elf64_Phdr *p) { says_32(h, p); h->e_machine = EM_386; }
static void other_big_endian(Elf64_Ehdr *h, Elf64_Phdr *p) { says_big_endian(h, p); h->e_machine = EM_S390; }
static void no_phdrs(Elf64_Ehdr *h, Elf64_Phdr *p) { (void)p; h->e_phnum = 0; }
static void many_phdrs(Elf64_Ehdr *h, Elf64_Phdr *p) { (void)p; h->e_phnum = 0xfff0; }
static void odd_phdrs(Elf64_Ehdr *h, Elf64_Phdr *p) { (void)p; h->e_phentsize = 32; }
static void far_phdrs(Elf64_Ehdr *h, Elf64_Phdr *p) { (void)p; h->e_phoff = UINT64_MAX - 16; }
static void no_loads(Elf64_Ehdr *h, Elf64_Phdr *p)
{
	(void)h;
	for (int i = 0; i < FAKE_LOADS; i++)
		p[i].p_type = PT_NULL;
}
static void file_above_memory(Elf64_Ehdr *h, Elf64_Phdr *p) { (void)h; p[1].p_memsz = p[1].p_filesz - 1; }
static void address_wraps(Elf64_Ehdr *h, Elf64_Phdr *p) { (void)h; p[1].p_vaddr = UINT64_MAX - 16; }
static void offset_wraps(Elf64_Ehdr *h, Elf64_Phdr *p) { (void)h; p[1].p_offset = UINT64_MAX - 16; }
static void far_offset(Elf64_Ehdr *h, Elf64_Phdr *p) { (void)h; p[1].p_offset = INT64_MAX - 16; }
static void overlapping(Elf64_Ehdr *h, Elf64_Phdr *p) { (void)h; p[2].p_vaddr = p[1].p_vaddr; }

static void test_refusals(void **state)
{
	(void)state;
	assert_int_equal(kind_after(NULL, FAKE_SIZE), -1);
	assert_int_equal(kind_after(no_magic, FAKE_SIZE), ERROR_NOT_FOUND);
	assert_int_equal(kind_after(NULL, 0), ERROR_NOT_FOUND);
	assert_int_equal(kind_after(NULL, 10), ERROR_NOT_FOUND);
	assert_int_equal(kind_after(is_32, FAKE_SIZE), ERROR_UNSUPPORTED);
	assert_int_equal(kind_after(is_32, 40), ERROR_UNSUPPORTED);
	assert_int_equal(kind_after(other_32, FAKE_SIZE), ERROR_UNSUPPORTED);
	assert_int_equal(kind_after(other_big_endian, FAKE_SIZE), ERROR_UNSUPPORTED);
	assert_int_equal(kind_after(NULL, 40), ERROR_CORRUPT);
	assert_int_equal(kind_after(NULL, 80), ERROR_CORRUPT);
	assert_int_equal(kind_after(no_phdrs, FAKE_SIZE), ERROR_CORRUPT);
	assert_int_equal(kind_after(many_phdrs, FAKE_SIZE), ERROR_CORRUPT);
	assert_int_equal(kind_after(odd_phdrs, FAKE_SIZE), ERROR_CORRUPT);
	assert_int_equal(kind_after(far_phdrs, FAKE_SIZE), ERROR_CORRUPT);
	assert_int_equal(kind_after(no_loads, FAKE_SIZE), ERROR_CORRUPT);
	assert_int_equal(kind_after(file_above_memory, FAKE_SIZE), ERROR_CORRUPT);
	assert_int_equal(kind_after(address_wraps, FAKE_SIZE), ERROR_CORRUPT);
	assert_int_equal(kind_after(offset_wraps, FAKE_SIZE), ERROR_CORRUPT);
	/* The kernel runs these. */
	assert_int_equal(kind_after(says_32, FAKE_SIZE), -1);
	assert_int_equal(kind_after(says_big_endian, FAKE_SIZE), -1);
	assert_int_equal(kind_after(far_offset, FAKE_SIZE), -1);
	assert_int_equal(kind_after(overlapping, FAKE_SIZE), -1);
	assert_int_equal(kind_after(NULL, 0x1800), -1);
}

static void test_reads_stay_in_the_file_part(void **state)
{
	struct go_image_fake *f = fake(false, 0x400000);
	struct image *img;
	uint8_t buf[0x3000];
	char text[16];
	size_t n;

	(void)state;
	assert_null(open_bytes(f->bytes, FAKE_SIZE, &img));
	assert_false(image_is_dyn(img));
	assert_int_equal(image_machine(img), EM_X86_64);
	assert_int_equal(image_segments(img, &n)[3].vaddr, 0x406000);
	assert_int_equal(n, FAKE_LOADS);

	assert_null(image_read(img, 0x402100, buf, 0x400));
	assert_memory_equal(buf, f->bytes + 0x2100, 0x400);
	/* Up to the last byte and not one further, also where another segment follows. */
	assert_null(image_read(img, 0x401fff, buf, 1));
	assert_ptr_equal(image_read(img, 0x401fff, buf, 2), &err_fault);
	assert_int_equal(image_read_some(img, 0x401ff0, buf, 64), 16);
	/* What is zeroed memory only is not in the file; neither is what no segment has. */
	assert_null(image_segment_at(img, 0x408000));
	assert_ptr_equal(image_read(img, 0x408000, buf, 1), &err_fault);
	assert_int_equal(image_read_some(img, 0x3fffff, buf, 1), 0);
	assert_ptr_equal(image_read(img, UINT64_MAX, buf, 8), &err_fault);
	assert_ptr_equal(image_read(img, 0x402000, buf, SIZE_MAX), &err_fault);

	assert_null(image_read_string(img, f->funcnametab, text, sizeof(text)));
	assert_string_equal(text, "main.main");
	assert_null(image_read_string(img, f->funcnametab, text, 10));
	assert_ptr_equal(image_read_string(img, f->funcnametab, text, 9), &err_corrupt);
	assert_ptr_equal(image_read_string(img, 0x10, text, sizeof(text)), &err_fault);
	assert_ptr_equal(image_read_string(img, f->funcnametab, text, 0), &err_corrupt);
	image_close(img);
	go_image_fake_destroy(f);
}

static void test_file_that_shrinks(void **state)
{
	struct go_image_fake *f = fake(false, 0x400000);
	int fd = go_image_fake_file(f, FAKE_SIZE);
	struct image *img;
	uint8_t buf[64];

	(void)state;
	assert_null(image_open_fd(fd, &img));
	assert_int_equal(ftruncate(fd, 0x5000), 0);
	/* The first block is cached and stays; what is behind the new end gives an error and no signal. */
	assert_null(image_read(img, 0x401000, buf, sizeof(buf)));
	assert_ptr_equal(image_read(img, 0x405000, buf, sizeof(buf)), &err_fault);
	image_close(img);
	close(fd);
	go_image_fake_destroy(f);
}

enum { BIG = (BLOCK_COUNT + 70) * BLOCK_SIZE + 1234 };

static uint8_t big_byte(uint64_t at)
{
	return (uint8_t)((at * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

/* More blocks than the cache has, in an order that makes it throw out and load again. */
static void test_cache_is_bounded_and_right(void **state)
{
	static struct block_cache c;
	uint8_t *bytes = malloc(BIG), buf[300];
	int fd = memfd_create("big", MFD_CLOEXEC);
	uint64_t at = 1;

	(void)state;
	assert_non_null(bytes);
	for (uint64_t i = 0; i < BIG; i++)
		bytes[i] = big_byte(i);
	assert_int_equal(write(fd, bytes, BIG), BIG);
	block_cache_init(&c, fd);
	for (int i = 0; i < 20000; i++) {
		size_t want = sizeof(buf), n;

		at = (at * UINT64_C(6364136223846793005) + 1442695040888963407) % (BIG + 500);
		n = at >= BIG ? 0 : BIG - at < want ? BIG - at : want;
		assert_int_equal(block_cache_read(&c, at, buf, want), n);
		assert_memory_equal(buf, bytes + (n ? at : 0), n);
	}
	assert_int_equal(c.n, BLOCK_COUNT);
	assert_true(c.by_index.n <= BLOCK_COUNT);
	/* Long reads and reads at the ends of what a file can have. */
	memset(bytes, 0, BIG);
	assert_int_equal(block_cache_read(&c, 7, bytes, BIG), BIG - 7);
	assert_int_equal(bytes[BIG - 8], big_byte(BIG - 1));
	assert_int_equal(block_cache_read(&c, UINT64_MAX - 3, buf, 8), 0);
	assert_int_equal(block_cache_read(&c, INT64_MAX, buf, 8), 0);
	block_cache_deinit(&c);
	free(bytes);
}

/* A chunk's own bytes are each seen once, and a match across two chunks is seen whole. */
struct seen {
	uint64_t own, hits;
};

static bool count_marks(void *ctx, const struct image_chunk *c)
{
	struct seen *s = ctx;

	assert_int_equal(c->addr % 16, 0);
	for (size_t i = 0; i < c->own; i++)
		s->hits += c->len - i >= 8 && memcmp(c->bytes + i, "MARKMARK", 8) == 0;
	s->own += c->own;
	return false;
}

static void test_scan_sees_everything_once(void **state)
{
	const size_t size = 600 * 1024 + 8;
	uint8_t *bytes = calloc(1, size);
	const size_t marks[] = { 0x1000, 256 * 1024 - 4, 512 * 1024 - 1, 512 * 1024 + 9, size - 8 };
	Elf64_Ehdr h = { .e_ident = ELFMAG, .e_type = ET_EXEC, .e_machine = EM_X86_64,
			 .e_phoff = sizeof(h), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1 };
	Elf64_Phdr p = { .p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = 0x400000, .p_filesz = size,
			 .p_memsz = size };
	struct seen s = { 0 };
	struct image *img;

	(void)state;
	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_ident[EI_DATA] = ELFDATA2LSB;
	memcpy(bytes, &h, sizeof(h));
	memcpy(bytes + sizeof(h), &p, sizeof(p));
	for (size_t i = 0; i < 5; i++)
		memcpy(bytes + marks[i], "MARKMARK", 8);
	assert_null(open_bytes(bytes, size, &img));
	assert_null(image_scan(img, SEGMENT_READ, SEGMENT_EXEC, count_marks, &s));
	assert_int_equal(s.own, size);
	assert_int_equal(s.hits, 5);
	s = (struct seen){ 0 };
	assert_null(image_scan(img, SEGMENT_WRITE, 0, count_marks, &s));
	assert_int_equal(s.own, 0);
	image_close(img);
	free(bytes);
}

static size_t put_note(uint8_t *at, const char *name, uint32_t type, const void *desc, uint32_t len)
{
	const uint32_t head[3] = { 4, len, type };

	memcpy(at, head, sizeof(head));
	memcpy(at + 12, name, 4);
	memcpy(at + 16, desc, len);
	return 16 + ((len + 3) & ~3U);
}

static void test_build_id(void **state)
{
	struct go_image_fake *f = fake(false, 0x400000);
	Elf64_Phdr note = { .p_type = PT_NOTE, .p_offset = 0x800, .p_filesz = 0x100 };
	uint8_t *at = f->bytes + 0x800;
	struct image *img;
	char id[64];

	(void)state;
	f->bytes[offsetof(Elf64_Ehdr, e_phnum)]++;
	memcpy(f->bytes + sizeof(Elf64_Ehdr) + FAKE_LOADS * sizeof(note), &note, sizeof(note));
	at += put_note(at, "Go\0", 4, "abc/def-ghi", 11);
	assert_null(open_bytes(f->bytes, FAKE_SIZE, &img));
	assert_null(image_build_id(img, id, sizeof(id)));
	assert_string_equal(id, "abc/def-ghi");
	assert_ptr_equal(image_build_id(img, id, 11), &err_notfound);
	image_close(img);
	/* GNU's goes first, wherever it stands. */
	put_note(at, "GNU", NT_GNU_BUILD_ID, "\x01\xab\xff", 3);
	assert_null(open_bytes(f->bytes, FAKE_SIZE, &img));
	assert_null(image_build_id(img, id, sizeof(id)));
	assert_string_equal(id, "01abff");
	image_close(img);
	/* A note longer than its segment ends the list. */
	memset(f->bytes + 0x800, 0xff, 12);
	assert_null(open_bytes(f->bytes, FAKE_SIZE, &img));
	assert_ptr_equal(image_build_id(img, id, sizeof(id)), &err_notfound);
	image_close(img);
	go_image_fake_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_reads_stay_in_the_file_part),
		cmocka_unit_test(test_file_that_shrinks),
		cmocka_unit_test(test_cache_is_bounded_and_right),
		cmocka_unit_test(test_scan_sees_everything_once),
		cmocka_unit_test(test_build_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
