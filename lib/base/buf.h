/*
 * buf.h: a growable byte buffer for writing, and a bounds-checked cursor for reading untrusted bytes.
 */
#ifndef GOPROF_BASE_BUF_H
#define GOPROF_BASE_BUF_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#include "base/error.h"

/*
 * A buffer remembers that it ran out of memory (`failed`) and ignores everything after: callers
 * check once, at the end, with buf_error.
 */
struct buf {
	char *data;		/* NUL-terminated whenever it is not NULL */
	size_t len, cap;
	bool failed;
};

void buf_init(struct buf *b);
void buf_deinit(struct buf *b);
void buf_clear(struct buf *b);
void buf_add(struct buf *b, const void *data, size_t len);
void buf_adds(struct buf *b, const char *s);
void buf_addc(struct buf *b, char c);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A JSON string literal, quotes included; bytes that are not UTF-8 become U+FFFD. */
void buf_add_json(struct buf *b, const char *s, size_t len);
/* NULL, or &err_nomem when any of the calls above ran out of memory. */
struct error *buf_error(const struct buf *b);
/* Gives the bytes to the caller (free()); the buffer is empty again. NULL only if it failed. */
char *buf_take(struct buf *b);

/*
 * Reading: a cursor never leaves [p, end). Once a read did not fit, `bad` is set, the value is 0
 * and every later read fails too, so a parser checks once per record.
 */
struct cursor {
	const uint8_t *p, *end;
	bool bad;
};

static inline struct cursor cursor_over(const void *data, size_t len)
{
	return (struct cursor){ .p = data, .end = (const uint8_t *)data + len };
}

uint8_t cursor_u8(struct cursor *c);
uint16_t cursor_u16(struct cursor *c);
uint32_t cursor_u32(struct cursor *c);
uint64_t cursor_u64(struct cursor *c);
/* An unsigned LEB128 number of at most 64 bits. */
uint64_t cursor_uvarint(struct cursor *c);
/* `len` bytes in place, or NULL. */
const void *cursor_bytes(struct cursor *c, size_t len);

#endif
