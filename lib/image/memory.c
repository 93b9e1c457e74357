/*
 * memory.c: an image whose bytes come from the memory of a process.
 *
 * The same readers work on it, because a segment's "offset" is then the real address and the block
 * cache reads there. Only what lies in segments exists: section headers are not loaded, so they are
 * taken for gone. Blocks are read once: this is for what does not change any more (code, tables);
 * variables are read through the target. Must not know Go.
 *
 * Upstream: Linux fs/binfmt_elf.c; glibc elf/get-dynamic-info.h (real addresses in the dynamic
 * section).
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "image/image_impl.h"

static void image_cleanup(struct image **img)
{
	image_close(*img);
}

static struct image *image_alloc(struct target *t)
{
	struct image *img = calloc(1, sizeof(*img));

	if (img) {
		block_cache_init_memory(&img->cache, t);
		img->in_memory = true;
	}
	return img;
}

/* The link-time address of the ELF header: that of file offset 0. */
static bool header_address(const struct image *img, gaddr_t *ret)
{
	for (size_t i = 0; i < img->n_loads; i++) {
		const struct segment *s = &img->loads[i];

		if (s->offset >= MEMORY_BLOCK_SIZE || s->offset > s->vaddr)
			continue;
		*ret = s->vaddr - s->offset;
		return true;
	}
	return false;
}

/* From offsets in the file to addresses in the process. */
static struct error *segments_move(struct image *img, gaddr_t start, uint64_t *bias)
{
	gaddr_t header;

	if (!header_address(img, &header))
		return error_new(ERROR_CORRUPT, "no segment holds the ELF header");
	if (!image_is_dyn(img) && header != start)
		return error_new(ERROR_CORRUPT, "a program with fixed addresses stands at another one");
	*bias = start - header;
	for (size_t i = 0; i < img->n_loads; i++)
		img->loads[i].offset = img->loads[i].vaddr + *bias;
	return NULL;
}

struct error *image_open_memory(struct target *t, gaddr_t start, struct image **ret, uint64_t *bias)
{
	_cleanup_(image_cleanup) struct image *img = image_alloc(t);
	struct error *err;

	if (!img)
		return &err_nomem;
	img->origin = start;
	err = image_read_headers(img);
	if (!err)
		err = segments_move(img, start, &img->bias);
	if (err)
		return err;
	img->header.e_shoff = 0;
	img->header.e_shnum = 0;
	*bias = img->bias;
	*ret = take(img);
	return NULL;
}

struct error *image_open_pieces(struct target *t, const struct segment *v, size_t n, struct image **ret)
{
	_cleanup_(image_cleanup) struct image *img = image_alloc(t);

	if (!img)
		return &err_nomem;
	img->loads = calloc(n ? n : 1, sizeof(*img->loads));
	if (!img->loads)
		return &err_nomem;
	memcpy(img->loads, v, n * sizeof(*v));
	img->n_loads = n;
	for (size_t i = 0; i < n; i++)
		img->loads[i].offset = v[i].vaddr;
	img->header.e_type = ET_EXEC;
	img->header.e_machine = target_arch(t)->elf_machine;
	*ret = take(img);
	return NULL;
}
