/*
 * cursor.c: reading untrusted bytes without leaving them. Little endian, as everything is that
 * goprof reads (amd64, arm64, DWARF and pclntab of both).
 *
 * A cursor that went bad is moved to its end, so a loop "while bytes are left" ends too even if
 * its author forgot to look at `bad`.
 */
#include <string.h>

#include "base/buf.h"

const void *cursor_bytes(struct cursor *c, size_t len)
{
	const uint8_t *p = c->p;

	if (c->bad || (size_t)(c->end - c->p) < len) {
		c->bad = true;
		c->p = c->end;
		return NULL;
	}
	c->p += len;
	return p;
}

static uint64_t cursor_number(struct cursor *c, size_t len)
{
	const uint8_t *p = cursor_bytes(c, len);
	uint64_t value = 0;

	for (size_t i = 0; p && i < len; i++)
		value |= (uint64_t)p[i] << (8 * i);
	return value;
}

uint8_t cursor_u8(struct cursor *c)
{
	return (uint8_t)cursor_number(c, 1);
}

uint16_t cursor_u16(struct cursor *c)
{
	return (uint16_t)cursor_number(c, 2);
}

uint32_t cursor_u32(struct cursor *c)
{
	return (uint32_t)cursor_number(c, 4);
}

uint64_t cursor_u64(struct cursor *c)
{
	return cursor_number(c, 8);
}

uint64_t cursor_uvarint(struct cursor *c)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t byte = cursor_u8(c);

		/* The tenth byte holds bit 63 only; more would be cut off silently. */
		if (c->bad || (shift == 63 && byte > 1))
			break;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	c->bad = true;
	c->p = c->end;
	return 0;
}
