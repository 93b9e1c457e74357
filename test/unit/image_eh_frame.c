/*
 * image_eh_frame.c: the unwind tables of this very program: every function found where it is, and
 * what is done to a table that was damaged.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "image/eh_frame.h"
#include "image/image_impl.h"
#include "target/arch.h"

enum { FILE_MAX = 1 << 24 };

struct file {
	uint8_t *bytes;
	size_t len;
};

static struct file self(void)
{
	struct file f = { .bytes = malloc(FILE_MAX) };
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	assert_true(fd >= 0 && f.bytes);
	while ((n = read(fd, f.bytes + f.len, FILE_MAX - f.len)) > 0)
		f.len += (size_t)n;
	close(fd);
	assert_true(f.len > 1000 && f.len < FILE_MAX);
	return f;
}

static struct image *open_file(const struct file *f)
{
	int fd = memfd_create("image", MFD_CLOEXEC);
	struct image *img;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, f->bytes, f->len), f->len);
	assert_null(image_open_fd(fd, &img));
	close(fd);
	return img;
}

struct table {
	gaddr_t header, eh_frame;
	uint64_t header_offset;
	uint32_t n;
};

static struct table table_of(struct image *img)
{
	const Elf64_Phdr *p = image_phdr(img, PT_GNU_EH_FRAME);
	struct table t = { 0 };
	int32_t from_here;

	assert_non_null(p);
	t.header = p->p_vaddr;
	t.header_offset = p->p_offset;
	assert_null(image_read(img, t.header + 4, &from_here, sizeof(from_here)));
	assert_null(image_read(img, t.header + 8, &t.n, sizeof(t.n)));
	t.eh_frame = t.header + 4 + (gaddr_t)(int64_t)from_here;
	return t;
}

static gaddr_t entry_start(struct image *img, const struct table *t, uint32_t i)
{
	int32_t v;

	assert_null(image_read(img, t->header + 12 + 8 * i, &v, sizeof(v)));
	return t->header + (gaddr_t)(int64_t)v;
}

static gaddr_t entry_record(struct image *img, const struct table *t, uint32_t i)
{
	int32_t v;

	assert_null(image_read(img, t->header + 16 + 8 * i, &v, sizeof(v)));
	return t->header + (gaddr_t)(int64_t)v;
}

/* Nothing says that there is a search table. */
static void hide_table(struct file *f, bool hide)
{
	const Elf64_Ehdr *h = (const Elf64_Ehdr *)f->bytes;
	Elf64_Phdr *p = (Elf64_Phdr *)(f->bytes + h->e_phoff);

	for (int i = 0; i < h->e_phnum; i++)
		if (hide && p[i].p_type == PT_GNU_EH_FRAME)
			p[i].p_type = PT_NULL;
}

/* Without the search table, as in a static program: the same functions by the same records. */
static void test_no_search_table(void **state)
{
	struct file f = self();
	struct image *img = open_file(&f), *bare;
	struct table t = table_of(img);
	struct eh_entry e, want;

	(void)state;
	hide_table(&f, true);
	bare = open_file(&f);
	for (uint32_t i = 0; i < t.n; i++) {
		gaddr_t start = entry_start(img, &t, i);

		assert_true(eh_frame_find(img, start, &want));
		for (int end = 0; end < 2; end++) {
			assert_true(eh_frame_find(bare, end ? want.end - 1 : start, &e));
			assert_int_equal(e.start, want.start);
			assert_int_equal(e.end, want.end);
			assert_int_equal(e.record, want.record);
			assert_int_equal(e.signal_frame, want.signal_frame);
		}
	}
	assert_false(eh_frame_find(bare, entry_start(img, &t, 0) - 1, &e));
	assert_false(eh_frame_find(bare, want.end, &e));
	assert_false(eh_frame_find(bare, UINT64_MAX, &e));
	image_close(bare);
	/* Nor the section headers: then nothing says where the records are. */
	((Elf64_Ehdr *)f.bytes)->e_shoff = 0;
	bare = open_file(&f);
	assert_false(eh_frame_find(bare, want.start, &e));
	image_close(bare);
	image_close(img);
	free(f.bytes);
}

static void test_all_functions(void **state)
{
	struct file f = self();
	struct image *img = open_file(&f);
	struct table t = table_of(img);
	struct eh_entry e;
	gaddr_t before = 0;

	(void)state;
	assert_true(t.n > 50);
	for (uint32_t i = 0; i < t.n; i++) {
		gaddr_t start = entry_start(img, &t, i);

		assert_true(eh_frame_find(img, start, &e));
		assert_int_equal(e.start, start);
		assert_true(e.end > e.start && start >= before);
		assert_int_equal(e.record, entry_record(img, &t, i));
		assert_true(eh_frame_find(img, e.end - 1, &e));
		assert_int_equal(e.start, start);
		before = e.end;
	}
	assert_false(eh_frame_find(img, entry_start(img, &t, 0) - 1, &e));
	assert_false(eh_frame_find(img, before, &e));
	assert_false(eh_frame_find(img, 0, &e));
	assert_false(eh_frame_find(img, UINT64_MAX, &e));
	image_close(img);
	free(f.bytes);
}

static uint64_t offset_of(struct image *img, gaddr_t addr)
{
	const struct segment *s = image_segment_at(img, addr);

	return s->offset + (addr - s->vaddr);
}

/* What an unwinder would take otherwise than it was checked, or index beyond its registers by. */
static void test_what_unwinders_trust(void **state)
{
	static struct eh_records records;
	struct file f = self();
	struct image *img = open_file(&f), *damaged;
	struct table t = table_of(img);
	struct eh_entry e;
	uint8_t *cie;
	gaddr_t pc = entry_start(img, &t, t.n / 2);

	(void)state;
	assert_true(eh_frame_find(img, pc, &e));
	assert_true(eh_frame_records(img, &e, &records));
	assert_int_equal(records.fde.at, e.record);
	assert_memory_equal(records.fde.v, f.bytes + offset_of(img, records.fde.at), records.fde.len);
	cie = f.bytes + offset_of(img, records.cie.at);
	assert_memory_equal(records.cie.v, cie, records.cie.len);
	/* length, 0, version, "zR", units of code and data, column, bytes of what R stands for */
	assert_memory_equal(cie + 4, "\0\0\0\0\1zR\0", 8);
	assert_int_equal(cie[14], arch_host()->dwarf_pc);
	assert_int_equal(cie[15], 1);
	for (int byte = 14; byte <= 15; byte++) {
		cie[byte]++;
		damaged = open_file(&f);
		assert_false(eh_frame_find(damaged, pc, &e));
		image_close(damaged);
		cie[byte]--;
	}
	damaged = open_file(&f);
	assert_true(eh_frame_find(damaged, pc, &e));
	/* The function is another one meanwhile: its records are not handed out. */
	e.end++;
	assert_false(eh_frame_records(damaged, &e, &records));
	image_close(damaged);
	image_close(img);
	free(f.bytes);
}

/* How many of 64 functions are still found after one byte of the header has been changed. */
static int found_after(uint32_t at, uint8_t value)
{
	struct file f = self();
	struct image *img = open_file(&f);
	struct table t = table_of(img);
	gaddr_t start[64];
	struct eh_entry e;
	int n = 0;

	for (uint32_t i = 0; i < 64; i++)
		start[i] = entry_start(img, &t, i * (t.n - 1) / 63);
	image_close(img);
	f.bytes[t.header_offset + at] = value;
	img = open_file(&f);
	for (uint32_t i = 0; i < 64; i++)
		n += eh_frame_find(img, start[i], &e);
	image_close(img);
	free(f.bytes);
	return n;
}

static void test_damaged_header(void **state)
{
	(void)state;
	assert_int_equal(found_after(0, 1), 64);
	assert_int_equal(found_after(0, 2), 0);		/* version */
	assert_int_equal(found_after(1, 0xff), 0);	/* no pointer to .eh_frame */
	assert_int_equal(found_after(1, 0x01), 0);	/* of no fixed size */
	assert_int_equal(found_after(2, 0xff), 0);	/* no count */
	assert_int_equal(found_after(3, 0x1b), 0);	/* entries that count from elsewhere */
	assert_int_equal(found_after(11, 0x7f), 0);	/* more entries than there is room for */
	assert_true(found_after(8, 0) < 64);		/* fewer entries than there are */
}

/* Each byte of the tables changed at random, in many ways: answers may be missing, nothing more. */
/* One byte in `share` is changed. */
static void damage_records(bool table, uint64_t share)
{
	struct file f = self();
	struct image *img = open_file(&f);
	struct table t = table_of(img);
	uint64_t len, random = 88172645463325252u, offset;
	gaddr_t low, high;
	struct eh_entry e;
	int changed = 0;

	hide_table(&f, !table);
	low = t.eh_frame;
	high = image_segment_at(img, low)->vaddr + image_segment_at(img, low)->filesz;
	len = high - low;
	offset = image_segment_at(img, low)->offset + (low - image_segment_at(img, low)->vaddr);
	for (int round = 0; round < 300; round++) {
		uint8_t *was = malloc(len);
		struct image *damaged;

		assert_non_null(was);
		memcpy(was, f.bytes + offset, len);
		for (uint64_t k = 0; k < len / share; k++) {
			random ^= random << 13, random ^= random >> 7, random ^= random << 17;
			f.bytes[offset + random % len] = (uint8_t)(random >> 40);
		}
		damaged = open_file(&f);
		for (uint32_t i = 0; i < t.n; i += 7) {
			gaddr_t pc = entry_start(img, &t, i);

			if (!eh_frame_find(damaged, pc, &e))
				changed++;
			else
				assert_true(e.start <= pc && pc < e.end);
		}
		image_close(damaged);
		memcpy(f.bytes + offset, was, len);
		free(was);
	}
	assert_true(changed > 100);
	image_close(img);
	free(f.bytes);
}

static void test_damaged_records(void **state)
{
	(void)state;
	damage_records(true, 20);
	damage_records(false, 20);
	damage_records(false, 1000);	/* so that most of the list can be walked */
}

/* ---- programs ---- */

static bool holds(const char *bytes, size_t len)
{
	return eh_program_holds((const uint8_t *)bytes, len, 4);
}

#define HOLDS(s) holds(s, sizeof(s) - 1)

static void test_programs(void **state)
{
	(void)state;
	assert_true(HOLDS(""));
	assert_true(HOLDS("\x0c\x07\x08\x90\x01\0\0"));		/* as in every CIE */
	assert_true(HOLDS("\x42\x0e\x10\x8f\x02\x0a\x0e\x08\x0b"));
	assert_true(HOLDS("\x0f\x03\x77\x10\x06"));		/* cfa at [rsp + 16] */
	/* The stub of a procedure linkage table: jumps of its stack depth by pc. */
	assert_true(HOLDS("\x0e\x10\x46\x0e\x18\x4a\x0f\x0b\x77\x08\x80\0\x3f\x1a\x3b\x2a\x33\x24\x22"));
	assert_true(HOLDS("\x01\1\2\3\4\x02\1\x03\1\2\x04\1\2\3\4"));
	assert_false(HOLDS("\x01\1\2\3"));			/* cut off */
	assert_false(HOLDS("\x04\1\2\3"));
	assert_false(HOLDS("\x0c\x07"));
	assert_false(HOLDS("\x0c\x07\x80"));
	assert_false(HOLDS("\x0c\x11\x08"));			/* register 17 */
	assert_false(HOLDS("\x07\xff\xff\xff\xff\x0f"));
	assert_false(HOLDS("\xbf\x02"));			/* register 63 */
	assert_false(HOLDS("\x0b"));				/* nothing remembered */
	assert_false(HOLDS("\x0a\x0b\x0b"));
	assert_false(HOLDS("\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a"));
	assert_false(HOLDS("\x3f"));				/* no such instruction */
	assert_false(HOLDS("\x0f\x04\x77\x10\x06"));		/* an expression longer than the program */
	assert_false(HOLDS("\x0f\x03\x2f\xfd\xff"));		/* a jump: it could go round for ever */
	assert_false(HOLDS("\x0f\x03\x28\xfd\xff"));
	assert_false(HOLDS("\x0f\x03\x31\x31\x1b"));		/* a division */
	assert_false(HOLDS("\x0f\x02\x92\x11"));		/* register 17 */
	assert_false(HOLDS("\x0f\x01\x0c"));			/* a constant that is not there */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_functions),
		cmocka_unit_test(test_no_search_table),
		cmocka_unit_test(test_what_unwinders_trust),
		cmocka_unit_test(test_damaged_header),
		cmocka_unit_test(test_damaged_records),
		cmocka_unit_test(test_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
