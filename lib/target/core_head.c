/*
 * core_head.c: the headers of a core file: is it one, of which CPU, and which memory it holds.
 *
 * Read by hand and not by libelf: a core is often cut off or hundreds of gigabytes long, and all
 * that is wanted of it are two tables of fixed-size records. Each is read by pread with its bounds
 * checked against the file, as lib/image does; nothing is mapped. A header that contradicts itself
 * is left out and counted, the others hold.
 *
 * Upstream: elf(5), Linux fs/binfmt_elf.c (elf_core_dump: PN_XNUM when there are too many headers).
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "target/core_impl.h"

enum { PHDRS_PER_READ = 256 };

bool core_read_file(const struct core *c, uint64_t offset, void *buf, size_t len)
{
	size_t done = 0;

	if (offset > c->size || len > c->size - offset)
		return false;
	while (done < len) {
		ssize_t n = pread(c->fd, (uint8_t *)buf + done, len - done, (off_t)(offset + done));

		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

/* ---- is it a core ---- */

/* Cores are kept compressed by those who collect them. */
static const struct packing {
	const char *magic;
	size_t len;
	const char *name, *command;
} packings[] = {
	{ "\x1f\x8b", 2, "gzip", "gunzip" },
	{ "\x28\xb5\x2f\xfd", 4, "zstd", "unzstd" },
	{ "\x04\x22\x4d\x18", 4, "lz4", "unlz4" },
	{ "\xfd" "7zXZ", 5, "xz", "unxz" },
};

static struct error *no_elf(const struct core *c, const char *path)
{
	struct error *err = error_new(ERROR_NOT_FOUND, "%s is not a core file", path);
	char magic[8];

	for (size_t i = 0; i < sizeof(packings) / sizeof(packings[0]); i++) {
		const struct packing *p = &packings[i];

		if (!core_read_file(c, 0, magic, p->len) || memcmp(magic, p->magic, p->len) != 0)
			continue;
		error_why(err, "it is compressed by %s", p->name);
		return error_todo(err, "%s it first", p->command);
	}
	return error_why(err, c->size ? "it is not an ELF file" : "it is empty");
}

static const char *type_text(unsigned int type)
{
	return type == ET_EXEC || type == ET_DYN ? "it is a program or a library" :
	       type == ET_REL ? "it is an object file" : "it is another kind of ELF file";
}

static struct error *check_header(const struct core *c, const Elf64_Ehdr *h, const char *path)
{
	const struct arch *arch = c->base.arch;

	if (h->e_type != ET_CORE)
		return error_why(error_new(ERROR_NOT_FOUND, "%s is not a core file", path), "%s",
				 type_text(h->e_type));
	if (h->e_machine != arch->elf_machine)
		return error_why(error_new(ERROR_UNSUPPORTED, "%s is a core file of another CPU", path),
				 "this goprof reads %s programs", arch->name);
	if (h->e_phentsize != sizeof(Elf64_Phdr))
		return error_new(ERROR_CORRUPT, "the header of %s contradicts itself", path);
	return NULL;
}

/* With 65,535 headers or more their number stands in the first section header. */
static uint64_t count_phdrs(const struct core *c, const Elf64_Ehdr *h)
{
	Elf64_Shdr s;

	if (h->e_phnum != PN_XNUM)
		return h->e_phnum;
	return core_read_file(c, h->e_shoff, &s, sizeof(s)) ? s.sh_info : 0;
}

struct error *core_read_header(struct core *c, const char *path)
{
	Elf64_Ehdr h;
	struct error *err;

	if (!core_read_file(c, 0, &h, EI_NIDENT) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
		return no_elf(c, path);
	if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB)
		return error_why(error_new(ERROR_UNSUPPORTED, "%s belongs to another CPU", path),
				 "it is not 64-bit little-endian");
	if (!core_read_file(c, 0, &h, sizeof(h)))
		return error_new(ERROR_CORRUPT, "%s is cut off in its header", path);
	err = check_header(c, &h, path);
	if (err)
		return err;
	c->phoff = h.e_phoff;
	c->n_phdrs = count_phdrs(c, &h);
	if (c->n_phdrs == 0 || c->n_phdrs > CORE_PIECES_MAX || c->phoff > c->size ||
	    c->n_phdrs * sizeof(Elf64_Phdr) > c->size - c->phoff)
		return error_why(error_new(ERROR_CORRUPT, "%s cannot be read", path),
				 "the table of its memory is cut off or damaged");
	return NULL;
}

/* ---- pieces of memory ---- */

uint32_t core_flags_of(uint32_t p_flags)
{
	return (p_flags & PF_R ? MAPPING_READ : 0) | (p_flags & PF_W ? MAPPING_WRITE : 0) |
	       (p_flags & PF_X ? MAPPING_EXEC : 0);
}

static bool overflows(uint64_t a, uint64_t b)
{
	return a + b < a;
}

static struct error *add_piece(struct core *c, const Elf64_Phdr *p)
{
	/* gcore(1) of old wrote a size of memory of 0. */
	uint64_t size = p->p_memsz > p->p_filesz ? p->p_memsz : p->p_filesz;
	struct error *err;

	if (!size)
		return NULL;
	if (overflows(p->p_vaddr, size) || overflows(p->p_offset, p->p_filesz)) {
		c->facts.skipped++;
		return NULL;
	}
	err = array_reserve(&c->pieces, &c->cap_pieces, c->n_pieces + 1, sizeof(*c->pieces));
	if (err)
		return err;
	c->pieces[c->n_pieces++] = (struct core_piece){
		.start = p->p_vaddr, .end = p->p_vaddr + size, .offset = p->p_offset,
		.held = p->p_filesz, .flags = core_flags_of(p->p_flags),
	};
	return NULL;
}

static void add_notes(struct core *c, const Elf64_Phdr *p)
{
	if (overflows(p->p_offset, p->p_filesz) || c->n_notes == CORE_SEGMENTS_MAX)
		c->facts.skipped++;
	else
		c->notes[c->n_notes++] = (struct core_notes){ p->p_offset, p->p_offset + p->p_filesz };
}

static int by_start(const void *a, const void *b)
{
	const struct core_piece *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Sorted, and of two that overlap the first. */
static void order_pieces(struct core *c)
{
	uint32_t kept = 0;

	if (c->n_pieces)
		qsort(c->pieces, c->n_pieces, sizeof(*c->pieces), by_start);
	for (uint32_t i = 0; i < c->n_pieces; i++) {
		if (kept && c->pieces[i].start < c->pieces[kept - 1].end)
			c->facts.skipped++;
		else
			c->pieces[kept++] = c->pieces[i];
	}
	c->n_pieces = kept;
}

/* What lies behind the end of the file is told once, and never read. */
static void cut_pieces(struct core *c)
{
	for (uint32_t i = 0; i < c->n_pieces; i++) {
		const struct core_piece *p = &c->pieces[i];
		uint64_t there = p->offset >= c->size ? 0 : c->size - p->offset;

		c->facts.bytes += p->held;
		if (p->held > there)
			c->facts.missing_bytes += p->held - there;
	}
}

struct error *core_read_pieces(struct core *c)
{
	Elf64_Phdr v[PHDRS_PER_READ];
	struct error *err = NULL;

	for (uint64_t i = 0; i < c->n_phdrs && !err; i += PHDRS_PER_READ) {
		uint64_t n = c->n_phdrs - i < PHDRS_PER_READ ? c->n_phdrs - i : PHDRS_PER_READ;

		if (!core_read_file(c, c->phoff + i * sizeof(*v), v, n * sizeof(*v)))
			return &err_corrupt;
		for (uint64_t k = 0; k < n && !err; k++)
			if (v[k].p_type == PT_LOAD)
				err = add_piece(c, &v[k]);
			else if (v[k].p_type == PT_NOTE)
				add_notes(c, &v[k]);
	}
	order_pieces(c);
	cut_pieces(c);
	return err;
}

const struct core_piece *core_piece_at(const struct core *c, gaddr_t addr)
{
	return range_find(c->pieces, c->n_pieces, sizeof(*c->pieces), addr);
}
