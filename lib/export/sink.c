/*
 * sink.c: the sink that is not a place outside: a buffer.
 */
#include "export/export.h"

static struct error *buf_sink_write(struct sink *s, const void *data, size_t len)
{
	struct buf *out = ((struct buf_sink *)s)->out;

	buf_add(out, data, len);
	return buf_error(out);
}

struct buf_sink buf_sink_to(struct buf *out)
{
	return (struct buf_sink){ .sink.write = buf_sink_write, .out = out };
}
