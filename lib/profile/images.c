/*
 * images.c: the files that hold the C code of frames, for formats that list them. A program has some
 * tens of them at most, so they are searched one by one.
 */
#include <stdlib.h>
#include <string.h>

#include "profile/profile_impl.h"

enum { IMAGES_FIRST = 8 };

static uint32_t find(const struct tables *t, profile_id name)
{
	for (uint32_t i = 0; i < t->n_images; i++)
		if (t->images[i].name == name)
			return i;
	return t->n_images;
}

/* The old array stays where it is: windows read it. */
static struct error *reserve(struct epoch *e)
{
	uint32_t n = e->tables.n_images, cap = e->cap_images ? 2 * e->cap_images : IMAGES_FIRST;
	struct profile_image *v;

	if (n < e->cap_images)
		return NULL;
	v = arena_alloc(&e->arena, cap * sizeof(*v));
	if (!v)
		return &err_nomem;
	if (n)
		memcpy(v, e->tables.images, n * sizeof(*v));
	e->tables.images = v;
	e->cap_images = cap;
	return NULL;
}

struct error *profile_image(struct profile *p, const struct profile_image *image)
{
	struct tables *t = &p->epoch->tables;
	uint32_t n = t->v[TABLE_STRINGS].n;
	struct error *err;

	if (image->name >= n || image->path >= n || image->build_id >= n)
		return error_new(ERROR_INTERNAL, "an image names a string that does not exist");
	if (find(t, image->name) < t->n_images)
		return NULL;
	err = reserve(p->epoch);
	if (err)
		return err;
	/* Beyond what any window looks at. */
	((struct profile_image *)t->images)[t->n_images++] = *image;
	return NULL;
}

uint32_t profile_image_count(const struct profile *p)
{
	return p->tables->n_images;
}

const struct profile_image *profile_image_get(const struct profile *p, uint32_t i)
{
	return i < p->tables->n_images ? &p->tables->images[i] : NULL;
}

uint32_t profile_image_of(const struct profile *p, profile_id frame)
{
	const struct profile_frame *f = profile_frame_get(p, frame);

	return f->flags & PROFILE_FRAME_NATIVE ? find(p->tables, f->module) : p->tables->n_images;
}
