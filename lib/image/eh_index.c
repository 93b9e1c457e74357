/*
 * eh_index.c: functions of images that have unwind records but no search table, as static programs
 * have: their C library hands the whole section to the unwinder. It is walked once, at the first
 * question, and what holds is sorted. The section is found by its header only; where that is gone there
 * is no answer.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "image/eh_impl.h"
#include "image/image_impl.h"

enum {
	SECTION_MAX = 32 << 20,
	RECORDS_MAX = 1 << 18,
	CIES_MAX = 1 << 14,		/* linkers keep one of each kind */
	LENGTH_BYTES = 4,
};

struct eh_place {
	gaddr_t start, fde;
};

static bool section_is_eh_frame(struct image *img, const Elf64_Shdr *names, const Elf64_Shdr *section)
{
	static const char name[] = ".eh_frame";
	char said[sizeof(name)];

	return section->sh_flags & SHF_ALLOC && section->sh_size && section->sh_size <= SECTION_MAX &&
	       section->sh_name < names->sh_size && names->sh_offset <= INT64_MAX &&
	       image_read_file(img, names->sh_offset + section->sh_name, said, sizeof(said)) &&
	       !memcmp(said, name, sizeof(name));
}

static bool find_section(struct image *img, Elf64_Shdr *ret)
{
	Elf64_Shdr names;

	if (img->in_memory || !image_section(img, img->header.e_shstrndx, &names) || names.sh_type != SHT_STRTAB)
		return false;
	for (uint64_t i = 0; image_section(img, i, ret); i++)
		if (section_is_eh_frame(img, &names, ret))
			return true;
	return false;
}

static int by_start(const void *a, const void *b)
{
	const struct eh_place *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* False: no memory. */
static bool add(struct eh_index *index, const struct eh_entry *e)
{
	struct error *err = array_reserve(&index->v, &index->cap, index->n + 1, sizeof(*index->v));

	error_free(err);
	if (!err)
		index->v[index->n++] = (struct eh_place){ .start = e->start, .fde = e->record };
	return !err;
}

/* Each record from the section's begin on: its length, then 0 (a CIE) or how far back its CIE stands. */
static void walk(struct image *img, const Elf64_Shdr *section, struct eh_index *index)
{
	uint64_t at = 0, size = section->sh_size;
	struct eh_cie cie = { .at = 0 };

	for (uint32_t n = 0; size - at >= 2 * LENGTH_BYTES && n < RECORDS_MAX && cie.n < CIES_MAX; n++) {
		uint32_t head[2];
		struct eh_entry e;

		/* A length of 0 ends the list; one of all ones begins a long record, which nobody writes. */
		if (image_read(img, section->sh_addr + at, head, sizeof(head)) || head[0] < LENGTH_BYTES ||
		    head[0] > size - at - LENGTH_BYTES)
			return;
		if (head[1] && eh_record_read(img, section->sh_addr + at, &cie, &e) && !add(index, &e))
			return;
		at += LENGTH_BYTES + head[0];
	}
}

static void make(struct image *img)
{
	struct eh_index *index = &img->eh_index;
	Elf64_Shdr section;

	index->made = true;
	if (!find_section(img, &section))
		return;
	walk(img, &section, index);
	if (index->n)
		qsort(index->v, index->n, sizeof(*index->v), by_start);
}

bool eh_index_find(struct image *img, gaddr_t pc, gaddr_t *fde)
{
	const struct eh_index *index = &img->eh_index;
	uint32_t low = 0, high;

	if (!index->made)
		make(img);
	for (high = index->n; low < high;) {
		uint32_t middle = low + (high - low) / 2;

		if (index->v[middle].start <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return false;
	*fde = index->v[low - 1].fde;
	return true;
}
