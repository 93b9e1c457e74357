/*
 * buf.c: growing text and bytes, and reading untrusted bytes without leaving them.
 *
 * The writing half keeps one promise: after any call the buffer is either whole or marked as
 * failed, so a caller may write a whole document and ask once. The JSON writer accepts any bytes,
 * since names come from the target's memory: UTF-8 is checked by RFC 3629 (no overlong forms, no
 * surrogates, nothing above U+10FFFF), and every byte that is part of none becomes one U+FFFD.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum { BUF_FIRST = 64 };

void buf_init(struct buf *b)
{
	*b = (struct buf){ 0 };
}

void buf_deinit(struct buf *b)
{
	free(b->data);
	buf_init(b);
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	b->failed = false;
	if (b->data)
		b->data[0] = '\0';
}

/* Room for `more` bytes and the NUL behind them. */
static bool buf_reserve(struct buf *b, size_t more)
{
	size_t cap = b->cap ? b->cap : BUF_FIRST;
	char *data;

	if (b->failed)
		return false;
	if (b->data && more < b->cap - b->len)
		return true;
	b->failed = true;
	if (more >= PTRDIFF_MAX - b->len)
		return false;
	while (cap <= b->len + more)
		cap *= 2;
	data = realloc(b->data, cap);
	if (!data)
		return false;
	b->data = data;
	b->cap = cap;
	b->failed = false;
	return true;
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	if (!buf_reserve(b, len))
		return;
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_adds(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_addc(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap, again;
	int n;

	if (!buf_reserve(b, 0))
		return;
	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(b->data + b->len, b->cap - b->len, fmt, ap);
	if (n < 0)
		b->failed = true;
	else if ((size_t)n >= b->cap - b->len && buf_reserve(b, (size_t)n))
		vsnprintf(b->data + b->len, b->cap - b->len, fmt, again);
	if (b->failed)
		b->data[b->len] = '\0';
	else
		b->len += (size_t)n;
	va_end(again);
	va_end(ap);
}

/* The first byte tells the length and, for four of them, a narrower range of the second byte. */
static const struct utf8_lead {
	uint8_t first, last, length, second_min, second_max;
} utf8_leads[] = {
	{ 0x00, 0x7f, 1, 0x00, 0x00 },
	{ 0xc2, 0xdf, 2, 0x80, 0xbf },
	{ 0xe0, 0xe0, 3, 0xa0, 0xbf },	/* below: overlong */
	{ 0xe1, 0xec, 3, 0x80, 0xbf },
	{ 0xed, 0xed, 3, 0x80, 0x9f },	/* above: surrogates */
	{ 0xee, 0xef, 3, 0x80, 0xbf },
	{ 0xf0, 0xf0, 4, 0x90, 0xbf },	/* below: overlong */
	{ 0xf1, 0xf3, 4, 0x80, 0xbf },
	{ 0xf4, 0xf4, 4, 0x80, 0x8f },	/* above: beyond U+10FFFF */
};

/* Length of the character at `s`, 0 when there is none. */
static size_t utf8_length(const uint8_t *s, size_t len)
{
	const struct utf8_lead *lead = utf8_leads;
	const struct utf8_lead *end = lead + sizeof(utf8_leads) / sizeof(*utf8_leads);

	while (lead < end && (s[0] < lead->first || s[0] > lead->last))
		lead++;
	if (lead == end || lead->length > len)
		return 0;
	if (lead->length > 1 && (s[1] < lead->second_min || s[1] > lead->second_max))
		return 0;
	for (size_t i = 2; i < lead->length; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return lead->length;
}

/* The two-letter escapes; 0 for all other characters. */
static char json_short_escape(uint8_t c)
{
	static const char escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt";

	for (const char *e = escapes; *e; e += 2)
		if ((uint8_t)*e == c)
			return e[1];
	return 0;
}

/* Writes one character that cannot stand for itself; true when it was one. */
static bool json_escape(struct buf *b, const uint8_t *s, size_t length)
{
	char letter = length == 1 ? json_short_escape(s[0]) : 0;

	if (length == 0)
		buf_adds(b, "\xef\xbf\xbd");
	else if (letter)
		buf_add(b, (char[]){ '\\', letter }, 2);
	else if (length == 1 && (s[0] < 0x20 || s[0] == 0x7f))
		buf_addf(b, "\\u%04x", s[0]);
	else if (length == 2 && s[0] == 0xc2 && s[1] < 0xa0)	/* C1: terminals obey them too */
		buf_addf(b, "\\u%04x", s[1]);
	else
		return false;
	return true;
}

/* Most bytes are, and stand for themselves. */
static bool json_plain(uint8_t c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

void buf_add_json(struct buf *b, const char *s, size_t len)
{
	const uint8_t *bytes = (const uint8_t *)s;
	size_t plain = 0, i = 0, length;	/* [plain, i) is yet to be copied as it is */

	buf_addc(b, '"');
	for (; i < len && !b->failed; i += length ? length : 1) {
		size_t pending = i - plain;

		length = 1;
		if (json_plain(bytes[i]))
			continue;
		length = utf8_length(bytes + i, len - i);
		if (pending)
			buf_add(b, bytes + plain, pending);
		plain = i;
		if (json_escape(b, bytes + i, length))
			plain = i + (length ? length : 1);
	}
	if (i > plain && !b->failed)
		buf_add(b, bytes + plain, len - plain);
	buf_addc(b, '"');
}

struct error *buf_error(const struct buf *b)
{
	return b->failed ? &err_nomem : NULL;
}

char *buf_take(struct buf *b)
{
	bool ok = buf_reserve(b, 0);
	char *data = b->data;

	if (!ok) {
		free(data);
		data = NULL;
	} else {
		data[b->len] = '\0';
	}
	*b = (struct buf){ .failed = !ok };
	return data;
}
