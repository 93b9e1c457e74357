/*
 * elf_note.h: the notes of a program that stand in memory, one by one, and which of them name the
 * build. (Those of a core file are read where they stand: core_notes.c.)
 */
#ifndef GOPROF_TARGET_ELF_NOTE_H
#define GOPROF_TARGET_ELF_NOTE_H

#include "base/buf.h"

struct elf_note {
	const char *name;	/* in place, name_len bytes; a NUL is counted where there is one */
	uint32_t name_len, type;
	struct cursor desc;	/* in place */
};

/* The note at the cursor, which goes on to the next. False at the end, or when what is left is none. */
bool elf_note_next(struct cursor *c, struct elf_note *ret);

enum build_id { BUILD_ID_NONE, BUILD_ID_GNU, BUILD_ID_GO };

/* Whose build id it is. One without bytes is none. */
enum build_id elf_note_build_id(const struct elf_note *n);

#endif
