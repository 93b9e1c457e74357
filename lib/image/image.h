/*
 * image.h: the bytes of a program's file, by link-time address. No Go knowledge.
 *
 * Files are read by pread into a bounded block cache, never mapped: a truncated or replaced file
 * must not raise SIGBUS, and a 40 MB function table must not become 40 MB of ours. Everything goes
 * by program headers; section headers may be damaged or gone (only symbols need them, and unwind
 * records without a search table).
 *
 * Addresses are the file's own ("link-time"); add the bias for where it stands in a process.
 * Not thread safe: an image belongs to one thread at a time.
 */
#ifndef GOPROF_IMAGE_IMAGE_H
#define GOPROF_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "target/target.h"

struct image;

enum segment_flag { SEGMENT_READ = 4, SEGMENT_WRITE = 2, SEGMENT_EXEC = 1 };	/* as PF_* */

struct segment {
	gaddr_t vaddr;
	uint64_t memsz, filesz, offset;
	uint32_t flags;
};

/*
 * Duplicates `fd`. ERROR_NOT_FOUND: no ELF file; ERROR_UNSUPPORTED: not 64-bit little-endian;
 * ERROR_CORRUPT: headers that contradict themselves.
 */
struct error *image_open_fd(int fd, struct image **ret);
/*
 * The image whose ELF header stands at `start` in a process, read from its memory: for packed
 * programs, deleted files that cannot be opened, the vDSO. Link-time addresses as ever (real
 * address = link-time + bias, given back). What stands only in the file (symbols, build id outside
 * of segments) is not there. `t` is borrowed and outlives it. Errors as image_open_fd.
 */
struct error *image_open_memory(struct target *t, gaddr_t start, struct image **ret, uint64_t *bias);
/*
 * An image without any header: these pieces of a process's memory are its segments, at their real
 * addresses (bias 0, nothing to relocate); `offset` is not looked at. `t` is borrowed and outlives it.
 */
struct error *image_open_pieces(struct target *t, const struct segment *v, size_t n, struct image **ret);
void image_close(struct image *img);

bool image_is_dyn(const struct image *img);	/* ET_DYN: PIE or shared object */
uint16_t image_machine(const struct image *img);
/* PT_LOAD segments in file order. Borrowed. */
const struct segment *image_segments(const struct image *img, size_t *n);
/* The PT_LOAD that holds addr in its file part, or NULL. */
const struct segment *image_segment_at(const struct image *img, gaddr_t addr);

/* All of [addr, addr+len), or &err_fault when the file does not hold it. */
struct error *image_read(struct image *img, gaddr_t addr, void *buf, size_t len);
/* As much as the segment holds, at most len; 0 when addr is in none. */
size_t image_read_some(struct image *img, gaddr_t addr, void *buf, size_t len);
/* Like image_read with R_*_RELATIVE relocations of the file applied for bias 0. */
struct error *image_read_relocated(struct image *img, gaddr_t addr, void *buf, size_t len);
/* A NUL-terminated string of at most cap-1 bytes into buf; &err_corrupt when no NUL comes in time. */
struct error *image_read_string(struct image *img, gaddr_t addr, char *buf, size_t cap);

/* ---- search by content ---- */

enum { IMAGE_SCAN_OVERLAP = 128 };

/* File bytes from an address that is a multiple of 16. */
struct image_chunk {
	gaddr_t addr;
	const uint8_t *bytes;
	size_t len;		/* up to IMAGE_SCAN_OVERLAP bytes of the next chunk included */
	size_t own;		/* things that begin here are looked for; a multiple of 16 but in the last */
};

/* True ends the scan. */
typedef bool (*image_scan_fn)(void *ctx, const struct image_chunk *c);

/* All PT_LOADs that have every flag of `with` and none of `without`, in file order. */
struct error *image_scan(struct image *img, uint32_t with, uint32_t without, image_scan_fn fn,
			 void *ctx);
/*
 * Aligned words of writable segments that hold the address `value`, before or after relocation:
 * candidates, for the caller to verify by image_read_relocated. *n in: room in out; out: how many.
 */
struct error *image_find_pointers(struct image *img, gaddr_t value, gaddr_t *out, size_t *n);
/* Does it ask for a shared library whose name begins so? */
bool image_needs(struct image *img, const char *prefix);

/* ---- sections and notes ---- */

struct image_symbol {
	gaddr_t addr;		/* 0: not found */
	uint64_t size;
};

/* One pass over .symtab for all names (exact). ERROR_NOT_FOUND when there is no symbol table. */
struct error *image_find_symbols(struct image *img, const char *const *names, size_t n,
				 struct image_symbol *ret);

/* The GNU build id, or Go's when there is none; as lower-case text. ERROR_NOT_FOUND. */
struct error *image_build_id(struct image *img, char *buf, size_t cap);

/*
 * Where the image stands in a process: real address = link-time address + bias. Found through the
 * mappings of the file with this device and inode; ERROR_NOT_FOUND when it is not mapped.
 */
struct error *image_bias(const struct image *img, const struct mappings *maps, uint64_t dev,
			 uint64_t inode, uint64_t *ret);

#endif
