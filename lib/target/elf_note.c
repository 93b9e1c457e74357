/*
 * elf_note.c: notes in memory. Must not know what an id means.
 *
 * Upstream: System V gABI chapter 5 (note section); cmd/internal/buildid (note "Go", type 4).
 */
#include "target/elf_note.h"

#include <elf.h>
#include <string.h>

enum { NOTE_GO_BUILD_ID = 4 };

static size_t align4(size_t n)
{
	return (n + 3) & ~(size_t)3;
}

bool elf_note_next(struct cursor *c, struct elf_note *ret)
{
	uint32_t name_len = cursor_u32(c), desc_len = cursor_u32(c), type = cursor_u32(c);
	const char *name = cursor_bytes(c, align4(name_len));
	const uint8_t *desc = cursor_bytes(c, desc_len);
	size_t padding = align4(desc_len) - desc_len;

	if (c->bad)
		return false;
	*ret = (struct elf_note){ .name = name, .name_len = name_len, .type = type,
				  .desc = cursor_over(desc, desc_len) };
	/* The last one may come without. */
	cursor_bytes(c, padding);
	return true;
}

enum build_id elf_note_build_id(const struct elf_note *n)
{
	if (n->name_len != 4 || n->desc.p == n->desc.end)
		return BUILD_ID_NONE;
	if (memcmp(n->name, "GNU", 4) == 0 && n->type == NT_GNU_BUILD_ID)
		return BUILD_ID_GNU;
	return memcmp(n->name, "Go\0", 4) == 0 && n->type == NOTE_GO_BUILD_ID ? BUILD_ID_GO : BUILD_ID_NONE;
}
