/*
 * sentry_stream.c: JSON on its way to a sink. A profile may have 50 MB and is written row by row; what
 * is in memory at once is a piece of it. The same code without a sink tells how long the text will be,
 * which the frame around it says first.
 */
#include <string.h>

#include "export/export_impl.h"

enum { PIECE = 32 * 1024 };

void sentry_stream_init(struct sentry_stream *s, struct sink *out)
{
	*s = (struct sentry_stream){ .out = out };
	buf_init(&s->b);
}

static void let_go(struct sentry_stream *s)
{
	s->bytes += s->b.len;
	if (s->out && !s->err && s->b.len)
		s->err = s->out->write(s->out, s->b.data, s->b.len);
	buf_clear(&s->b);
}

void sentry_stream_pass(struct sentry_stream *s)
{
	/* A buffer that failed says so until the end. */
	if (s->b.len >= PIECE && !s->b.failed)
		let_go(s);
}

struct error *sentry_stream_end(struct sentry_stream *s, uint64_t *bytes)
{
	struct error *err = buf_error(&s->b);

	if (!err)
		let_go(s);
	if (!err)
		err = s->err;
	*bytes = s->bytes;
	buf_deinit(&s->b);
	return err;
}

uint32_t sentry_digits(uint64_t n)
{
	uint32_t digits = 1;

	for (; n >= 10; n /= 10)
		digits++;
	return digits;
}

char *sentry_put_number(char *at, uint64_t n)
{
	char *end = at + sentry_digits(n);

	for (at = end; at == end || n; n /= 10)
		*--at = (char)('0' + n % 10);
	return end;
}
