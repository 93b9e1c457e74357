/*
 * dwarf_file.h: the DWARF of an image's file, open for libdw. For the files of lib/image that ask it.
 */
#ifndef GOPROF_IMAGE_DWARF_FILE_H
#define GOPROF_IMAGE_DWARF_FILE_H

#include "image/image_impl.h"

/* libdw's types Elf and Dwarf; owned. */
struct dwarf_file {
	int fd;
	struct Elf *elf;
	struct Dwarf *dwarf;
};

/* What the sections may take in memory when all are unpacked. */
struct dwarf_limit {
	uint64_t bytes;
	uint32_t line_factor;	/* line tables count that many times their size; 1: nobody asks for lines */
};

/*
 * On success `ret` is to be closed, and *bytes is what was counted. &err_notfound: no debug
 * information, or memory and no file, or a part of it lies in other files; &err_corrupt: it cannot be
 * read; ERROR_UNSUPPORTED: more of it than the limit.
 */
struct error *dwarf_file_open(struct image *img, const struct dwarf_limit *limit, struct dwarf_file *ret,
			      uint64_t *bytes);
void dwarf_file_close(struct dwarf_file *f);

#endif
