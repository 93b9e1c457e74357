/*
 * gzip.c: a stream that compresses what it is given and hands it to a sink, in pieces.
 */
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

#include "export/gzip.h"

enum { PIECE = 64 * 1024, GZIP_WINDOW = 15 + 16 };

struct gzip {
	z_stream z;
	struct sink *out;
	struct error *err;	/* the first one; everything after it is ignored */
	unsigned char piece[PIECE];
};

struct error *gzip_create(struct sink *out, struct gzip **ret)
{
	struct gzip *g = calloc(1, sizeof(*g));

	if (!g)
		return &err_nomem;
	g->out = out;
	if (deflateInit2(&g->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK) {
		free(g);
		return &err_nomem;
	}
	*ret = g;
	return NULL;
}

void gzip_destroy(struct gzip *g)
{
	if (!g)
		return;
	deflateEnd(&g->z);
	error_free(g->err);
	free(g);
}

static void run(struct gzip *g, int flush)
{
	do {
		size_t n;

		g->z.next_out = g->piece;
		g->z.avail_out = PIECE;
		if (deflate(&g->z, flush) == Z_STREAM_ERROR) {
			g->err = error_new(ERROR_INTERNAL, "zlib refused to compress");
			return;
		}
		n = PIECE - g->z.avail_out;
		if (n)
			g->err = g->out->write(g->out, g->piece, n);
	} while (!g->err && !g->z.avail_out);
}

void gzip_write(struct gzip *g, const void *data, size_t len)
{
	const unsigned char *p = data;

	while (len && !g->err) {
		size_t n = len < INT_MAX ? len : INT_MAX;

		g->z.next_in = (unsigned char *)(uintptr_t)p;	/* zlib does not write to it */
		g->z.avail_in = (unsigned int)n;
		run(g, Z_NO_FLUSH);
		p += n;
		len -= n;
	}
}

struct error *gzip_finish(struct gzip *g)
{
	struct error *err;

	if (!g->err)
		run(g, Z_FINISH);
	err = g->err;
	g->err = NULL;
	return err;
}
