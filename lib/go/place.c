/*
 * place.c: where the executable stands in the process, and what of Go is in memory only.
 *
 * The file behind the descriptor and the mappings name it by device and inode; overlay and btrfs
 * file systems give the two different numbers, so the path as the kernel prints it is the second
 * way: as a name to compare, never to open. Whatever the way, the place is believed only if the ELF
 * header is found there.
 * Memory is searched only when the file holds no function table, and only mappings that programs
 * rarely have (readable, not writable, of no file), so that nothing is paged in.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "go/pclntab_impl.h"

enum { HEADER_COMPARED = 64, MEMORY_CHUNK = 64 * 1024, MEMORY_MAX = 256 << 20, HEADER_BYTES = 72 };

static bool header_stands_at(const struct target *t, struct image *img, uint64_t bias)
{
	size_t n;
	const struct segment *first = image_segments(img, &n);
	uint8_t file[HEADER_COMPARED], memory[HEADER_COMPARED];

	if (image_read(img, first->vaddr, file, sizeof(file)) ||
	    target_read(t, first->vaddr + bias, memory, sizeof(memory)))
		return false;
	return memcmp(file, memory, sizeof(file)) == 0;
}

static bool place_try(const struct target *t, struct image *img, const struct mappings *maps,
		      uint64_t dev, uint64_t inode, uint64_t *bias)
{
	struct error *err = image_bias(img, maps, dev, inode, bias);

	error_free(err);
	return !err && header_stands_at(t, img, *bias);
}

static bool place_by_path(const struct target *t, struct image *img, const struct mappings *maps,
			  uint64_t *bias)
{
	const char *path = target_exe_path(t);

	for (size_t i = 0; path && i < maps->n; i++) {
		const struct mapping *m = &maps->v[i];

		if (m->inode != 0 && strcmp(m->path, path) == 0)
			return place_try(t, img, maps, m->dev, m->inode, bias);
	}
	return false;
}

struct error *go_image_place(const struct target *t, int fd, struct image *img, uint64_t *ret)
{
	_cleanup_(mappings_deinit) struct mappings maps = { 0 };
	struct stat st;
	uint64_t bias;
	struct error *err = target_mappings(t, &maps);

	if (err)
		return err;
	if (fstat(fd, &st) != 0)
		return error_new(ERROR_INTERNAL, "cannot stat the executable: %m");
	if (!place_try(t, img, &maps, st.st_dev, st.st_ino, &bias) &&
	    !place_by_path(t, img, &maps, &bias))
		return &err_notfound;
	*ret = bias;
	return NULL;
}

/* ---- in memory only ---- */

static bool header_in(const uint8_t *buf, size_t len, uint64_t left)
{
	enum pclntab_format format;
	uint64_t nfunc;

	for (size_t i = 0; i + HEADER_BYTES <= len; i += sizeof(uint64_t))
		if (pclntab_header_parse(buf + i, left - i, &format, &nfunc))
			return true;
	return false;
}

static bool mapping_search(const struct target *t, const struct mapping *m, uint8_t *buf, uint64_t *budget)
{
	/* Chunks overlap by a header, so that none is cut in two. */
	for (gaddr_t at = m->start; at < m->end && *budget >= MEMORY_CHUNK; at += MEMORY_CHUNK) {
		uint64_t left = m->end - at;
		struct span s = {
			.addr = at, .buf = buf,
			.len = left < MEMORY_CHUNK + HEADER_BYTES ? left : MEMORY_CHUNK + HEADER_BYTES,
		};
		struct error *err = target_read_v(t, &s, 1);

		*budget -= MEMORY_CHUNK;
		error_free(err);
		if (err || s.done == 0)
			return false;
		if (header_in(buf, s.done, left))
			return true;
	}
	return false;
}

struct error *go_pclntab_in_memory(const struct target *t, bool *ret)
{
	_cleanup_(mappings_deinit) struct mappings maps = { 0 };
	_cleanup_free_ uint8_t *buf = malloc(MEMORY_CHUNK + HEADER_BYTES);
	uint64_t budget = MEMORY_MAX;
	struct error *err = target_mappings(t, &maps);
	bool found = false;

	if (err || !buf)
		return err ? err : &err_nomem;
	for (size_t i = 0; i < maps.n && !found; i++) {
		const struct mapping *m = &maps.v[i];

		if (m->inode != 0 || (m->flags & (MAPPING_READ | MAPPING_WRITE)) != MAPPING_READ)
			continue;
		found = mapping_search(t, m, buf, &budget);
	}
	*ret = found;
	return NULL;
}
