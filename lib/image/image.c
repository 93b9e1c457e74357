/*
 * image.c: opening an ELF file and reading it by link-time address.
 *
 * Program headers only: the kernel looks at nothing else either, and section headers may be
 * damaged on purpose. What the kernel would refuse to run (filesz above memsz, sums that wrap) is
 * refused here; a file shorter than its segments say is accepted, as the kernel does, and the reads
 * that fall behind its end fail. Must not know Go.
 *
 * Upstream: elf(5), System V gABI chapter 5, Linux fs/binfmt_elf.c (load_elf_phdrs).
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "image/image_impl.h"

enum { PHDRS_BYTES_MAX = 65536 };	/* the kernel's own limit */

static bool add_overflows(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum);
}

bool image_read_file(struct image *img, uint64_t offset, void *buf, size_t len)
{
	return !add_overflows(img->origin, offset) &&
	       block_cache_read(&img->cache, img->origin + offset, buf, len) == len;
}

const Elf64_Phdr *image_phdr(const struct image *img, uint32_t type)
{
	for (size_t i = 0; i < img->n_phdrs; i++)
		if (img->phdrs[i].p_type == type)
			return &img->phdrs[i];
	return NULL;
}

size_t image_phdr_read(struct image *img, const Elf64_Phdr *p, void *buf, size_t cap)
{
	size_t want = p->p_filesz < cap ? (size_t)p->p_filesz : cap;

	/* Notes and the like may lie outside of the segments of a file, but not in memory. */
	if (img->in_memory)
		return image_read_some(img, p->p_vaddr, buf, want);
	return block_cache_read(&img->cache, p->p_offset, buf, want);
}

/*
 * The kernel does not look at class and byte order: it reads the header in its own way and asks for
 * the machine. So a header that makes sense when it is read so, for this machine, is one.
 */
static bool is_64_bit(const Elf64_Ehdr *h, bool whole)
{
	if (h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_ident[EI_DATA] == ELFDATA2LSB)
		return true;
	return whole && h->e_machine == arch_host()->elf_machine && h->e_phentsize == sizeof(Elf64_Phdr);
}

static struct error *header_read(struct image *img)
{
	Elf64_Ehdr *h = &img->header;
	bool whole;

	if (!image_read_file(img, 0, h, EI_NIDENT) || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
		return error_new(ERROR_NOT_FOUND, "not an ELF file");
	whole = image_read_file(img, 0, h, sizeof(*h));
	if (!is_64_bit(h, whole))
		return error_new(ERROR_UNSUPPORTED, "not a 64-bit little-endian program");
	if (!whole)
		return error_new(ERROR_CORRUPT, "the ELF header is cut off");
	if (h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phnum == 0 ||
	    h->e_phnum > PHDRS_BYTES_MAX / sizeof(Elf64_Phdr))
		return error_new(ERROR_CORRUPT, "the ELF file has no usable program headers");
	return NULL;
}

static struct error *phdrs_read(struct image *img)
{
	size_t n = img->header.e_phnum;

	img->phdrs = calloc(n, sizeof(*img->phdrs));
	img->loads = calloc(n, sizeof(*img->loads));
	if (!img->phdrs || !img->loads)
		return &err_nomem;
	if (!image_read_file(img, img->header.e_phoff, img->phdrs, n * sizeof(*img->phdrs)))
		return error_new(ERROR_CORRUPT, "the program headers lie outside the file");
	img->n_phdrs = n;
	return NULL;
}

static struct error *loads_read(struct image *img)
{
	for (size_t i = 0; i < img->n_phdrs; i++) {
		const Elf64_Phdr *p = &img->phdrs[i];

		if (p->p_type != PT_LOAD)
			continue;
		if (p->p_filesz > p->p_memsz || add_overflows(p->p_vaddr, p->p_memsz) ||
		    add_overflows(p->p_offset, p->p_filesz))
			return error_new(ERROR_CORRUPT, "program header %zu contradicts itself", i);
		img->loads[img->n_loads++] = (struct segment){
			.vaddr = p->p_vaddr, .memsz = p->p_memsz, .filesz = p->p_filesz,
			.offset = p->p_offset, .flags = p->p_flags,
		};
	}
	if (img->n_loads == 0)
		return error_new(ERROR_CORRUPT, "the ELF file has no loadable segment");
	return NULL;
}

struct error *image_read_headers(struct image *img)
{
	struct error *err = header_read(img);

	if (!err)
		err = phdrs_read(img);
	return err ? err : loads_read(img);
}

static void image_cleanup(struct image **img)
{
	image_close(*img);
}

struct error *image_open_fd(int fd, struct image **ret)
{
	_cleanup_(image_cleanup) struct image *img = calloc(1, sizeof(*img));
	struct error *err;
	int copy;

	if (!img)
		return &err_nomem;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	block_cache_init(&img->cache, copy);
	if (copy < 0)
		return error_new(ERROR_INTERNAL, "cannot duplicate a file descriptor: %m");
	err = image_read_headers(img);
	if (err)
		return err;
	*ret = take(img);
	return NULL;
}

void image_close(struct image *img)
{
	if (!img)
		return;
	block_cache_deinit(&img->cache);
	dynamic_deinit(&img->dynamic);
	free(img->phdrs);
	free(img->loads);
	free(img->eh_index.v);
	free(img);
}

bool image_is_dyn(const struct image *img)
{
	return img->header.e_type == ET_DYN;
}

uint16_t image_machine(const struct image *img)
{
	return img->header.e_machine;
}

const struct segment *image_segments(const struct image *img, size_t *n)
{
	*n = img->n_loads;
	return img->loads;
}

const struct segment *image_segment_at(const struct image *img, gaddr_t addr)
{
	for (size_t i = 0; i < img->n_loads; i++)
		if (addr >= img->loads[i].vaddr && addr - img->loads[i].vaddr < img->loads[i].filesz)
			return &img->loads[i];
	return NULL;
}

size_t image_read_some(struct image *img, gaddr_t addr, void *buf, size_t len)
{
	const struct segment *s = image_segment_at(img, addr);
	uint64_t within, left;

	if (!s)
		return 0;
	within = addr - s->vaddr;
	left = s->filesz - within;
	return block_cache_read(&img->cache, s->offset + within, buf, left < len ? left : len);
}

struct error *image_read(struct image *img, gaddr_t addr, void *buf, size_t len)
{
	const struct segment *s = image_segment_at(img, addr);

	/* Nothing is written unless all of it can be: the segment is asked before the file. */
	if (!s || s->filesz - (addr - s->vaddr) < len)
		return &err_fault;
	return image_read_some(img, addr, buf, len) == len ? NULL : &err_fault;
}

struct error *image_read_string(struct image *img, gaddr_t addr, char *buf, size_t cap)
{
	size_t n;

	if (cap == 0)
		return &err_corrupt;
	n = image_read_some(img, addr, buf, cap);
	if (n == 0)
		return &err_fault;
	return memchr(buf, '\0', n) ? NULL : &err_corrupt;
}
