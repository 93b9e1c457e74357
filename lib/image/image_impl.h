/*
 * image_impl.h: what the files of lib/image share. Nobody outside includes this.
 *
 * image.c opens and reads, memory.c does so from the memory of a process, block_cache.c bounds what
 * is held in memory, dynamic.c knows the dynamic section and its relocations, scan.c walks file
 * bytes, symbols.c and notes.c answer one question each, bias.c compares with the mappings of a
 * process, images.c keeps all of a process. eh_impl.h lists the files about unwind information.
 */
#ifndef GOPROF_IMAGE_IMAGE_IMPL_H
#define GOPROF_IMAGE_IMAGE_IMPL_H

#include <elf.h>

#include "base/map.h"
#include "image/image.h"

/* 4 MiB at most, whatever the size of the file. */
enum { BLOCK_SIZE = 16 * 1024, MEMORY_BLOCK_SIZE = 4096, BLOCK_COUNT = 256 };

struct block {
	uint64_t index;		/* number of the block in the file or in memory */
	uint32_t len;		/* less than BLOCK_SIZE at the end of the file */
	bool recent;		/* used since the hand last passed */
	uint8_t *data;
};

struct block_cache {
	int fd;			/* owned; -1: memory */
	struct target *target;	/* borrowed; NULL: a file */
	uint32_t block_size;
	uint32_t n, hand, last;
	struct map64 by_index;	/* block number -> slot */
	struct block slots[BLOCK_COUNT];
};

void block_cache_init(struct block_cache *c, int fd);	/* takes over fd */
/* Over memory of a process; offsets are addresses there. */
void block_cache_init_memory(struct block_cache *c, struct target *t);
void block_cache_deinit(struct block_cache *c);
/* Forgets all blocks; they come back when they are asked for. */
void block_cache_drop(struct block_cache *c);
/*
 * Bytes of the file from `offset` on, into buf. Returns how many: fewer than len at the end of the
 * file or when it cannot be read.
 */
size_t block_cache_read(struct block_cache *c, uint64_t offset, void *buf, size_t len);

/* A run of relocation entries and the addresses they touch: found once, so that later questions
 * read only the runs that matter, whatever order the linker wrote them in. */
struct rela_run {
	gaddr_t first, last;	/* lowest and highest r_offset; first > last: no relative ones */
};

struct dynamic {
	bool loaded;
	gaddr_t rela;
	uint64_t n_rela;
	gaddr_t strtab;
	uint64_t strtab_size;
	struct rela_run *runs;
	size_t n_runs;
};

/* eh_index.c: functions by their begin. */
struct eh_place;
struct eh_index {
	bool made;
	struct eh_place *v;
	uint32_t n, cap;
};

struct image {
	struct block_cache cache;
	bool in_memory;		/* read from a process: the offsets of segments are addresses there */
	uint64_t origin;	/* where its ELF header stands in the cache: 0 in a file */
	uint64_t bias;		/* in memory: real address = link-time address + bias */
	Elf64_Ehdr header;
	struct segment *loads;
	size_t n_loads;
	Elf64_Phdr *phdrs;
	size_t n_phdrs;
	struct dynamic dynamic;
	struct eh_index eh_index;
};

/* Reads all of it from the file, by offset and not by address; in memory: from the header on. */
bool image_read_file(struct image *img, uint64_t offset, void *buf, size_t len);
/* ELF header, program headers and segments, through the cache that is already there. */
struct error *image_read_headers(struct image *img);
/* The first program header of a type, or NULL. */
const Elf64_Phdr *image_phdr(const struct image *img, uint32_t type);
/* The first bytes of what a program header stands for, at most cap. Returns how many. */
size_t image_phdr_read(struct image *img, const Elf64_Phdr *p, void *buf, size_t cap);
/* A pointer of the dynamic section as a link-time address: loaders put real ones into memory. */
gaddr_t image_dynamic_address(const struct image *img, gaddr_t addr);

/* symbols.c: a section header; false behind the last one, and where there are none. */
bool image_section(struct image *img, uint64_t index, Elf64_Shdr *ret);

/* bias.c: the place of the image, one of whose mappings is `m`; &err_notfound: that is no place. */
struct error *image_place(const struct image *img, const struct mappings *maps,
			  const struct mapping *m, uint64_t *ret);
/* Do the ELF header and program headers of the file stand in memory there, too? */
bool image_stands_at(struct image *img, const struct target *t, uint64_t bias);
/* Lowest and highest address + 1 of all segments, whole pages. */
void image_extent(const struct image *img, gaddr_t *low, gaddr_t *high);

/* dynamic.c: addresses whose relative relocation gives `value`; *n as in image_find_pointers. */
struct error *dynamic_find_addend(struct image *img, gaddr_t value, gaddr_t *out, size_t cap,
				  size_t *n);
/* The n-th entry of the dynamic section; false behind its end. */
bool dynamic_entry(struct image *img, size_t n, Elf64_Dyn *ret);
void dynamic_deinit(struct dynamic *d);

#endif
