/*
 * dwarf_layout.h: where members of structs stand, by a program's debug information. Dear (some
 * hundred milliseconds and tens of megabytes, given back before the call returns), so the last thing
 * that is asked. No Go knowledge.
 */
#ifndef GOPROF_IMAGE_DWARF_LAYOUT_H
#define GOPROF_IMAGE_DWARF_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "image/image.h"

struct dwarf_member {
	const char *strct;	/* name of the struct's type: "runtime.g"; borrowed */
	const char *member;	/* path of it: "stack.lo"; "<sizeof>": the struct itself; borrowed */
	int32_t offset;		/* out: -1: there is no such type or member */
	uint32_t size;		/* out: bytes */
};

/*
 * Answers all of them. &err_notfound: the file has no debug information (or is none, but memory);
 * &err_corrupt: it cannot be read; ERROR_UNSUPPORTED: there is more of it than goprof would load.
 */
struct error *image_dwarf_members(struct image *img, struct dwarf_member *v, size_t n);

#endif
