/*
 * image_impl.h: what the files of lib/image share. Nobody outside includes this.
 *
 * image.c opens and reads, block_cache.c bounds what is held in memory, dynamic.c knows the
 * dynamic section and its relocations, scan.c walks file bytes, symbols.c and notes.c answer one
 * question each, bias.c compares with the mappings of a process.
 */
#ifndef GOPROF_IMAGE_IMAGE_IMPL_H
#define GOPROF_IMAGE_IMAGE_IMPL_H

#include <elf.h>

#include "base/map.h"
#include "image/image.h"

/* 4 MiB at most, whatever the size of the file. */
enum { BLOCK_SIZE = 16 * 1024, BLOCK_COUNT = 256 };

struct block {
	uint64_t index;		/* number of the block in the file */
	uint32_t len;		/* less than BLOCK_SIZE at the end of the file */
	bool recent;		/* used since the hand last passed */
	uint8_t *data;
};

struct block_cache {
	int fd;			/* owned */
	uint32_t n, hand, last;
	struct map64 by_index;	/* block number -> slot */
	struct block slots[BLOCK_COUNT];
};

void block_cache_init(struct block_cache *c, int fd);	/* takes over fd */
void block_cache_deinit(struct block_cache *c);
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

struct image {
	struct block_cache cache;
	Elf64_Ehdr header;
	struct segment *loads;
	size_t n_loads;
	Elf64_Phdr *phdrs;
	size_t n_phdrs;
	struct dynamic dynamic;
};

/* Reads all of it from the file, by offset and not by address. */
bool image_read_file(struct image *img, uint64_t offset, void *buf, size_t len);
/* The first program header of a type, or NULL. */
const Elf64_Phdr *image_phdr(const struct image *img, uint32_t type);

/* dynamic.c: addresses whose relative relocation gives `value`; *n as in image_find_pointers. */
struct error *dynamic_find_addend(struct image *img, gaddr_t value, gaddr_t *out, size_t cap,
				  size_t *n);
void dynamic_deinit(struct dynamic *d);

#endif
