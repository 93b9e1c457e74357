/*
 * scan.c: walking the file bytes of whole segments, for things that are found by content.
 *
 * Sections tell where such things are only until somebody strips or damages them. Chunks are big
 * enough to go past the block cache and start at 16-byte aligned addresses, so that aligned records
 * of up to 16 bytes never straddle two of them; longer or unaligned ones are seen whole because a
 * chunk carries the first bytes of the next one behind it. Must not know Go.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "image/image_impl.h"

enum { CHUNK = 256 * 1024, CHUNK_ALIGN = 16 };

static bool segment_scan(struct image *img, const struct segment *s, uint8_t *buf,
			 image_scan_fn fn, void *ctx)
{
	gaddr_t addr = (s->vaddr + CHUNK_ALIGN - 1) & ~(gaddr_t)(CHUNK_ALIGN - 1);

	for (; addr >= s->vaddr && addr - s->vaddr < s->filesz; addr += CHUNK) {
		uint64_t left = s->filesz - (addr - s->vaddr);
		size_t want = left < CHUNK + IMAGE_SCAN_OVERLAP ? left : CHUNK + IMAGE_SCAN_OVERLAP;
		size_t got = block_cache_read(&img->cache, s->offset + (addr - s->vaddr), buf, want);
		struct image_chunk chunk = {
			.addr = addr, .bytes = buf, .len = got, .own = got < CHUNK ? got : CHUNK,
		};

		if (got > 0 && fn(ctx, &chunk))
			return true;
		if (got < want || addr > UINT64_MAX - CHUNK)
			break;
	}
	return false;
}

struct error *image_scan(struct image *img, uint32_t with, uint32_t without, image_scan_fn fn,
			 void *ctx)
{
	_cleanup_free_ uint8_t *buf = malloc(CHUNK + IMAGE_SCAN_OVERLAP);

	if (!buf)
		return &err_nomem;
	for (size_t i = 0; i < img->n_loads; i++) {
		const struct segment *s = &img->loads[i];

		if ((s->flags & with) != with || (s->flags & without) != 0)
			continue;
		if (segment_scan(img, s, buf, fn, ctx))
			break;
	}
	return NULL;
}

struct pointer_search {
	uint64_t value;
	gaddr_t *out;
	size_t cap, n;
};

static bool pointers_in_chunk(void *ctx, const struct image_chunk *c)
{
	struct pointer_search *s = ctx;

	for (size_t i = 0; i + sizeof(uint64_t) <= c->own && s->n < s->cap; i += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, c->bytes + i, sizeof(word));
		if (word == s->value)
			s->out[s->n++] = c->addr + i;
	}
	return s->n == s->cap;
}

static int address_order(const void *a, const void *b)
{
	gaddr_t x = *(const gaddr_t *)a, y = *(const gaddr_t *)b;

	return (x > y) - (x < y);
}

struct error *image_find_pointers(struct image *img, gaddr_t value, gaddr_t *out, size_t *n)
{
	struct pointer_search s = { .value = value, .out = out, .cap = *n };
	struct error *err = image_scan(img, SEGMENT_WRITE, 0, pointers_in_chunk, &s);
	size_t kept = 0;

	if (!err)
		err = dynamic_find_addend(img, value, out, s.cap, &s.n);
	if (err)
		return err;
	/* The same word may have been found in place and by its relocation. */
	qsort(out, s.n, sizeof(*out), address_order);
	for (size_t i = 0; i < s.n; i++)
		if (kept == 0 || out[kept - 1] != out[i])
			out[kept++] = out[i];
	*n = kept;
	return NULL;
}
