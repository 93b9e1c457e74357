/*
 * place.c: where the executable stands in the process.
 *
 * The file behind the descriptor and the mappings name it by device and inode; overlay and btrfs
 * file systems give the two different numbers, so the path as the kernel prints it is the second
 * way: as a name to compare, never to open. Whatever the way, the place is believed only if the ELF
 * header is found there.
 */
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "go/pclntab_impl.h"

enum { HEADER_COMPARED = 64 };

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
