/*
 * eh_frame.c: which function a pc belongs to, by the search table of PT_GNU_EH_FRAME, or by an index of
 * our own (eh_index.c) where an image has records but no such table.
 *
 * The table is searched by reading some 15 entries of it, never as a whole: a big library has half
 * a megabyte of them. An entry counts only if its FDE says the same start, and if its records hold
 * when they are read through. Images that have only .debug_frame give no answer, nor have Go's own
 * functions one. Must not know processes.
 *
 * Upstream: LSB core 10.5 and 10.6 (.eh_frame, .eh_frame_hdr), DWARF 4 section 6.4.1.
 */
#include <string.h>

#include "base/buf.h"
#include "image/eh_impl.h"
#include "image/image_impl.h"

enum {
	ENTRY_BYTES = 8,		/* two 32-bit offsets from the header */
	ENTRIES_MAX = 1 << 24,
	TABLE_ENCODING = 0x3b,		/* from the header, signed, 4 bytes: the only one linkers write */
};

struct search_table {
	gaddr_t header, entries;
	uint64_t n;
};

static bool table_find(struct image *img, struct search_table *t)
{
	const Elf64_Phdr *p = image_phdr(img, PT_GNU_EH_FRAME);
	uint8_t bytes[4 + 8 + 4];
	struct cursor c = cursor_over(bytes, sizeof(bytes));
	uint8_t pointer, count, encoding;
	size_t before;

	if (!p || p->p_memsz < sizeof(bytes) || image_read(img, p->p_vaddr, bytes, sizeof(bytes)))
		return false;
	if (cursor_u8(&c) != 1)
		return false;
	pointer = cursor_u8(&c);
	count = cursor_u8(&c);
	encoding = cursor_u8(&c);
	if (pointer == OMITTED || !eh_form_bytes(pointer) || count != FORM_U4 || encoding != TABLE_ENCODING)
		return false;
	cursor_bytes(&c, eh_form_bytes(pointer));
	t->n = cursor_u32(&c);
	before = (size_t)(c.p - bytes);
	t->header = p->p_vaddr;
	t->entries = p->p_vaddr + before;
	return !c.bad && t->n && t->n <= ENTRIES_MAX && t->n <= (p->p_memsz - before) / ENTRY_BYTES;
}

static bool entry_read(struct image *img, const struct search_table *t, uint64_t i, gaddr_t *start, gaddr_t *fde)
{
	int32_t v[2];

	if (image_read(img, t->entries + i * ENTRY_BYTES, v, sizeof(v)))
		return false;
	*start = t->header + (gaddr_t)(int64_t)v[0];
	*fde = t->header + (gaddr_t)(int64_t)v[1];
	return true;
}

/* The last entry that begins at or below pc. */
static bool table_search(struct image *img, const struct search_table *t, gaddr_t pc, uint64_t *ret)
{
	uint64_t low = 0, high = t->n;
	gaddr_t start, fde;

	while (high - low > 0) {
		uint64_t middle = low + (high - low) / 2;

		if (!entry_read(img, t, middle, &start, &fde))
			return false;
		if (start <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	*ret = low - 1;
	return low > 0;
}

/* The FDE of the last function that begins at or below pc, and the begin that the table says. */
static bool table_find_record(struct image *img, gaddr_t pc, gaddr_t *start, gaddr_t *fde)
{
	struct search_table t;
	uint64_t i;

	return table_find(img, &t) && table_search(img, &t, pc, &i) && entry_read(img, &t, i, start, fde);
}

bool eh_frame_find(struct image *img, gaddr_t pc, struct eh_entry *ret)
{
	bool has_table = image_phdr(img, PT_GNU_EH_FRAME);
	struct eh_cie cie = { .at = 0 };
	struct eh_entry found;
	gaddr_t start, fde;

	if (has_table ? !table_find_record(img, pc, &start, &fde) : !eh_index_find(img, pc, &fde))
		return false;
	if (!eh_record_read(img, fde, &cie, &found) || (has_table && found.start != start) ||
	    pc < found.start || pc >= found.end)
		return false;
	*ret = found;
	return true;
}
