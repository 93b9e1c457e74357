/*
 * images.h: the ELF images that are mapped into a process, each opened at the first question.
 *
 * The program's file comes through /proc/PID/exe, others by target_mapping_fd, and what has no
 * file that can be opened from memory. Not thread safe; pointers stay valid until images_destroy
 * (but see images_close_gone).
 */
#ifndef GOPROF_IMAGE_IMAGES_H
#define GOPROF_IMAGE_IMAGES_H

#include "image/image.h"

struct images;

/* Length of a path without the " (deleted)" that the kernel puts behind that of a file that is gone. */
size_t image_path_length(const char *path);

struct mapped_image {
	struct image *image;	/* NULL: it could not be opened, is gone, or is a file mapped to be read */
	uint64_t bias;		/* real address = link-time address + bias */
	gaddr_t start, end;	/* its first and last mapped byte + 1 */
	const char *path;	/* as the mappings name it, for people; "[vdso]" for the vDSO */
	bool in_memory;		/* read from the process, not from a file */
	bool executable;	/* holds executable mappings */
	bool gone;		/* was mapped, and is no longer */
};

/* `t` is borrowed. Reads the mappings once. */
struct error *images_create(struct target *t, struct images **ret);
void images_destroy(struct images *s);	/* NULL is fine */
/*
 * Looks for images that were mapped since (dlopen, plugins). Cheap enough for once a second, too
 * dear for each unknown pc.
 */
struct error *images_refresh(struct images *s);

/*
 * Another number whenever code has come, or has left, or can be read that could not be before: what
 * was found out about a pc holds for as long as this does not change.
 */
uint64_t images_generation(const struct images *s);
/*
 * Closes the images that are gone: their `image` becomes NULL. For whoever knows that nobody holds
 * one of them any more.
 */
void images_close_gone(struct images *s);

size_t images_count(const struct images *s);
/* By place, lowest first; opens it. Never NULL for i < images_count. */
const struct mapped_image *images_at(struct images *s, size_t i);
/* The image or other file whose mappings hold this address; NULL: none. Opens it. */
const struct mapped_image *images_find(struct images *s, gaddr_t addr);

#endif
