/*
 * native_names.h: from a pc in C code to named frames, by the images of a process. Not thread safe.
 */
#ifndef GOPROF_SYMBOL_NATIVE_NAMES_H
#define GOPROF_SYMBOL_NATIVE_NAMES_H

#include "base/arena.h"
#include "image/images.h"
#include "symbol/symbol.h"

struct native_names;

/*
 * `images` and `arena` are borrowed and outlive it; frames go into the arena, which may be reset when nobody
 * needs them any more; images have their names elsewhere. Functions of the image
 * that holds `app_code` (0: none) may be the application's own; where they are, see native_names.c.
 */
struct error *native_names_create(struct images *images, struct arena *arena, gaddr_t app_code,
				  struct native_names **ret);
void native_names_destroy(struct native_names *nn);	/* NULL is fine */

/* The logical frames at pc, innermost first; *n 0 when no image holds it. In the arena. */
struct error *native_names_expand(struct native_names *nn, gaddr_t pc, struct symbol_frame **ret, size_t *n);

/* Gives back what the images took that are no longer mapped; frames in the arena stay as they are. */
void native_names_close_gone(struct native_names *nn);

/* An image that holds code which was asked for. Strings live as long as the names; frames have them, too. */
struct native_image {
	const char *name;		/* as the `module` of its frames */
	const char *path;
	const char *build_id;		/* "" unknown */
	gaddr_t start, end;
	uint64_t offset;		/* in the file, of `start` */
	bool lines;			/* DWARF tells its files and lines */
};

size_t native_names_count(const struct native_names *nn);
const struct native_image *native_names_image(const struct native_names *nn, size_t i);

#endif
