/*
 * dynamic.c: the dynamic section, as far as it says what a loader would write into the data.
 *
 * A PIE's pointers may stand only in the addends of its relative relocations: most linkers store
 * them in place as well, lld does not. So words are read as the loader would leave them, for bias 0,
 * from the file, which also holds for a process that stands at its exec. Entries may be in any order
 * and there may be a million of them: one pass notes the range of addresses that each run of entries
 * touches, later questions read only the runs that overlap.
 * RELR tables need nothing: their addends are in place by definition. Must not know Go.
 *
 * Upstream: System V gABI chapter 5 (dynamic section), x86-64 and AArch64 psABI (R_*_RELATIVE).
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "image/image_impl.h"

enum {
	DYNAMIC_MAX = 4096,	/* entries of the dynamic section that are looked at */
	RUN = 512,		/* relocation entries in a run */
	WORD = sizeof(uint64_t),
};

static const struct relative_type {
	uint16_t machine;
	uint32_t type;
} relative_types[] = {
	{ EM_X86_64, R_X86_64_RELATIVE },
	{ EM_AARCH64, R_AARCH64_RELATIVE },
};

static bool is_relative(const struct image *img, const Elf64_Rela *r)
{
	for (size_t i = 0; i < sizeof(relative_types) / sizeof(*relative_types); i++)
		if (relative_types[i].machine == img->header.e_machine)
			return ELF64_R_TYPE(r->r_info) == relative_types[i].type;
	return false;
}

void dynamic_deinit(struct dynamic *d)
{
	free(d->runs);
	d->runs = NULL;
	d->n_runs = 0;
}

bool dynamic_entry(struct image *img, size_t n, Elf64_Dyn *ret)
{
	const Elf64_Phdr *p = image_phdr(img, PT_DYNAMIC);

	if (!p || n >= DYNAMIC_MAX || n >= p->p_filesz / sizeof(*ret))
		return false;
	if (image_read(img, p->p_vaddr + n * sizeof(*ret), ret, sizeof(*ret)))
		return false;
	return ret->d_tag != DT_NULL;
}

gaddr_t image_dynamic_address(const struct image *img, gaddr_t addr)
{
	return img->in_memory && !image_segment_at(img, addr) ? addr - img->bias : addr;
}

static bool held_by_file(const struct image *img, gaddr_t addr, uint64_t size)
{
	const struct segment *s = image_segment_at(img, addr);

	return s && size <= s->filesz - (addr - s->vaddr);
}

static void sections_read(struct image *img)
{
	struct dynamic *d = &img->dynamic;
	uint64_t rela_size = 0, rela_entry = sizeof(Elf64_Rela);
	Elf64_Dyn e;

	for (size_t i = 0; dynamic_entry(img, i, &e); i++) {
		switch (e.d_tag) {
		case DT_RELA: d->rela = image_dynamic_address(img, e.d_un.d_ptr); break;
		case DT_RELASZ: rela_size = e.d_un.d_val; break;
		case DT_RELAENT: rela_entry = e.d_un.d_val; break;
		case DT_STRTAB: d->strtab = image_dynamic_address(img, e.d_un.d_ptr); break;
		case DT_STRSZ: d->strtab_size = e.d_un.d_val; break;
		}
	}
	if (rela_entry == sizeof(Elf64_Rela) && held_by_file(img, d->rela, rela_size))
		d->n_rela = rela_size / sizeof(Elf64_Rela);
	if (!held_by_file(img, d->strtab, d->strtab_size))
		d->strtab_size = 0;
}

/* Reads one run; returns how many entries it has. */
static size_t run_read(struct image *img, size_t run, Elf64_Rela v[RUN])
{
	const struct dynamic *d = &img->dynamic;
	uint64_t first = (uint64_t)run * RUN, left = d->n_rela - first;
	size_t n = left < RUN ? (size_t)left : RUN;

	if (image_read(img, d->rela + first * sizeof(*v), v, n * sizeof(*v)))
		return 0;
	return n;
}

static struct rela_run run_range(struct image *img, size_t run)
{
	struct rela_run range = { .first = UINT64_MAX, .last = 0 };
	Elf64_Rela v[RUN];
	size_t n = run_read(img, run, v);

	for (size_t i = 0; i < n; i++) {
		if (!is_relative(img, &v[i]))
			continue;
		range.first = v[i].r_offset < range.first ? v[i].r_offset : range.first;
		range.last = v[i].r_offset > range.last ? v[i].r_offset : range.last;
	}
	return range;
}

static struct error *dynamic_load(struct image *img)
{
	struct dynamic *d = &img->dynamic;
	size_t n;

	if (d->loaded)
		return NULL;
	sections_read(img);
	n = (size_t)((d->n_rela + RUN - 1) / RUN);
	d->runs = calloc(n ? n : 1, sizeof(*d->runs));
	if (!d->runs)
		return &err_nomem;
	for (size_t i = 0; i < n; i++)
		d->runs[i] = run_range(img, i);
	d->n_runs = n;
	d->loaded = true;
	return NULL;
}

/* Puts the part of an 8-byte word at `at` that falls into [addr, addr+len) there. */
static void word_apply(gaddr_t at, uint64_t value, gaddr_t addr, uint8_t *buf, size_t len)
{
	for (unsigned int i = 0; i < WORD; i++)
		if (at + i >= addr && at + i - addr < len)
			buf[at + i - addr] = (uint8_t)(value >> (8 * i));
}

static void run_apply(struct image *img, size_t run, gaddr_t addr, uint8_t *buf, size_t len)
{
	Elf64_Rela v[RUN];
	size_t n = run_read(img, run, v);

	for (size_t i = 0; i < n; i++)
		if (is_relative(img, &v[i]) && v[i].r_offset <= UINT64_MAX - WORD)
			word_apply(v[i].r_offset, (uint64_t)v[i].r_addend, addr, buf, len);
}

struct error *image_read_relocated(struct image *img, gaddr_t addr, void *buf, size_t len)
{
	const struct dynamic *d = &img->dynamic;
	struct error *err = image_read(img, addr, buf, len);

	if (!err)
		err = dynamic_load(img);
	if (err || len == 0)
		return err;
	for (size_t i = 0; i < d->n_runs; i++) {
		const struct rela_run *r = &d->runs[i];

		if (r->first > r->last || r->first >= addr + len)
			continue;
		if (r->last >= addr || addr - r->last < WORD)
			run_apply(img, i, addr, buf, len);
	}
	return NULL;
}

struct error *dynamic_find_addend(struct image *img, gaddr_t value, gaddr_t *out, size_t cap,
				  size_t *n)
{
	struct error *err = dynamic_load(img);
	Elf64_Rela v[RUN];

	if (err)
		return err;
	for (size_t run = 0; run < img->dynamic.n_runs && *n < cap; run++) {
		size_t entries = run_read(img, run, v);

		for (size_t i = 0; i < entries && *n < cap; i++)
			if (is_relative(img, &v[i]) && (uint64_t)v[i].r_addend == value)
				out[(*n)++] = v[i].r_offset;
	}
	return NULL;
}

bool image_needs(struct image *img, const char *prefix)
{
	struct dynamic *d = &img->dynamic;
	char name[256];
	Elf64_Dyn e;
	_cleanup_error_ struct error *err = dynamic_load(img);

	for (size_t i = 0; !err && dynamic_entry(img, i, &e); i++) {
		size_t got;

		if (e.d_tag != DT_NEEDED || e.d_un.d_val >= d->strtab_size)
			continue;
		got = image_read_some(img, d->strtab + e.d_un.d_val, name, sizeof(name));
		if (got >= strlen(prefix) && memcmp(name, prefix, strlen(prefix)) == 0)
			return true;
	}
	return false;
}
