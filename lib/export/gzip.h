/*
 * gzip.h: compresses into a sink. Also used by lib/sentry for the bodies that it sends.
 */
#ifndef GOPROF_EXPORT_GZIP_H
#define GOPROF_EXPORT_GZIP_H

#include "export/export.h"

struct gzip;

/* `out` is borrowed and outlives it. */
struct error *gzip_create(struct sink *out, struct gzip **ret);
void gzip_destroy(struct gzip *g);
/* Failures are kept for gzip_finish. */
void gzip_write(struct gzip *g, const void *data, size_t len);
struct error *gzip_finish(struct gzip *g);

#endif
