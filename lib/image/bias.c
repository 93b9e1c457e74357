/*
 * bias.c: where an image stands in a process, from the mappings of its file.
 *
 * The first address of a position independent program need not be 0 (Go's linker says 0x400000),
 * and a program may map its own file once more, perhaps even executable: so a place is believed only
 * if every segment lies there, from the right part of the file, and may be used as it must be. Must
 * not know Go.
 *
 * Upstream: Linux fs/binfmt_elf.c (elf_map: addresses and offsets rounded down to pages).
 */
#include <string.h>

#include "base/cleanup.h"
#include "image/image_impl.h"

enum { HEADER_COMPARED = 1024 };
enum { PAGE = 4096 };	/* the smallest page of all CPUs: segments are congruent modulo it */

static uint64_t page_down(uint64_t v)
{
	return v & ~(uint64_t)(PAGE - 1);
}

static bool is_of_file(const struct mapping *m, uint64_t dev, uint64_t inode)
{
	return m->inode == inode && m->dev == dev && m->inode != 0;
}

/* The mapping of this file that holds addr, or NULL. Not mappings_find: any order will do here. */
static const struct mapping *mapping_at(const struct mappings *maps, gaddr_t addr, uint64_t dev,
					uint64_t inode)
{
	for (size_t i = 0; i < maps->n; i++) {
		const struct mapping *m = &maps->v[i];

		if (addr >= m->start && addr < m->end && is_of_file(m, dev, inode))
			return m;
	}
	return NULL;
}

/* What must be seen of a segment: code is the least, and enough for a program that changed its data. */
enum strictness { CODE_ONLY, ALL_SEGMENTS };

/* Data that the loader makes read-only once it has relocated it. */
static bool is_sealed(const struct image *img, gaddr_t addr)
{
	const Elf64_Phdr *p = image_phdr(img, PT_GNU_RELRO);

	return p && addr >= page_down(p->p_vaddr) && addr - p->p_vaddr < p->p_memsz;
}

/* May the last byte of the segment be used as its flags say? The first ones may be sealed. */
static bool is_usable(const struct image *img, const struct segment *s, const struct mappings *maps,
		      uint64_t dev, uint64_t inode, uint64_t bias)
{
	gaddr_t last = s->vaddr + s->filesz - 1;
	const struct mapping *m = mapping_at(maps, last + bias, dev, inode);

	if (s->flags & SEGMENT_EXEC && (!m || !(m->flags & MAPPING_EXEC)))
		return false;
	return !(s->flags & SEGMENT_WRITE) || is_sealed(img, last) || (m && m->flags & MAPPING_WRITE);
}

static bool stands_at(const struct image *img, const struct mappings *maps, uint64_t dev,
		      uint64_t inode, uint64_t bias, enum strictness strictness)
{
	size_t n_code = 0;

	for (size_t i = 0; i < img->n_loads; i++) {
		const struct segment *s = &img->loads[i];
		gaddr_t addr = page_down(s->vaddr) + bias;
		bool is_code = (s->flags & SEGMENT_EXEC) != 0;
		const struct mapping *m;

		if (s->filesz == 0 || (strictness == CODE_ONLY && !is_code))
			continue;
		n_code += is_code;
		m = mapping_at(maps, addr, dev, inode);
		if (!m || m->offset + (addr - m->start) != page_down(s->offset) ||
		    !is_usable(img, s, maps, dev, inode, bias))
			return false;
	}
	return n_code > 0;
}

bool image_stands_at(struct image *img, const struct target *t, uint64_t bias)
{
	const struct segment *s = &img->loads[0];
	uint64_t size = sizeof(Elf64_Ehdr) + img->n_phdrs * sizeof(Elf64_Phdr);
	uint8_t file[HEADER_COMPARED], memory[HEADER_COMPARED];
	size_t n = size < sizeof(file) ? (size_t)size : sizeof(file);
	_cleanup_error_ struct error *err = image_read(img, s->vaddr, file, n);

	if (!err)
		err = target_read(t, s->vaddr + bias, memory, n);
	return !err && memcmp(file, memory, n) == 0;
}

void image_extent(const struct image *img, gaddr_t *low, gaddr_t *high)
{
	*low = UINT64_MAX;
	*high = 0;
	for (size_t i = 0; i < img->n_loads; i++) {
		const struct segment *s = &img->loads[i];
		gaddr_t end = s->vaddr + s->memsz;	/* image.c has seen that it does not wrap */

		*low = page_down(s->vaddr) < *low ? page_down(s->vaddr) : *low;
		*high = end > *high ? end : *high;
	}
	if (*high <= UINT64_MAX - PAGE)
		*high = page_down(*high + PAGE - 1);
}

static bool bias_find(const struct image *img, const struct mappings *maps, uint64_t dev,
		      uint64_t inode, enum strictness strictness, uint64_t *ret)
{
	const struct segment *first = &img->loads[0];
	uint64_t offset = page_down(first->offset);

	if (!image_is_dyn(img)) {
		*ret = 0;
		return stands_at(img, maps, dev, inode, 0, strictness);
	}
	for (size_t i = 0; i < maps->n; i++) {
		const struct mapping *m = &maps->v[i];

		if (!is_of_file(m, dev, inode) || offset < m->offset ||
		    offset - m->offset >= m->end - m->start)
			continue;
		*ret = m->start + (offset - m->offset) - page_down(first->vaddr);
		if (stands_at(img, maps, dev, inode, *ret, strictness))
			return true;
	}
	return false;
}

static bool place_by_segment(const struct image *img, const struct mappings *maps,
			     const struct mapping *m, const struct segment *s,
			     enum strictness strictness, uint64_t *ret)
{
	uint64_t offset = page_down(s->offset), bias;

	if (offset < m->offset || offset - m->offset >= m->end - m->start)
		return false;
	bias = m->start + (offset - m->offset) - page_down(s->vaddr);
	if ((!image_is_dyn(img) && bias != 0) ||
	    !stands_at(img, maps, m->dev, m->inode, bias, strictness))
		return false;
	*ret = bias;
	return true;
}

struct error *image_place(const struct image *img, const struct mappings *maps,
			  const struct mapping *m, uint64_t *ret)
{
	uint64_t elsewhere;

	for (size_t i = 0; i < img->n_loads; i++)
		if (place_by_segment(img, maps, m, &img->loads[i], ALL_SEGMENTS, ret))
			return NULL;
	/* Code alone is believed only where the file stands nowhere as a whole. */
	if (bias_find(img, maps, m->dev, m->inode, ALL_SEGMENTS, &elsewhere))
		return &err_notfound;
	for (size_t i = 0; i < img->n_loads; i++)
		if (place_by_segment(img, maps, m, &img->loads[i], CODE_ONLY, ret))
			return NULL;
	return &err_notfound;
}

struct error *image_bias(const struct image *img, const struct mappings *maps, uint64_t dev,
			 uint64_t inode, uint64_t *ret)
{
	uint64_t bias;

	if (!bias_find(img, maps, dev, inode, ALL_SEGMENTS, &bias) &&
	    !bias_find(img, maps, dev, inode, CODE_ONLY, &bias))
		return &err_notfound;
	*ret = bias;
	return NULL;
}
