/*
 * sentry.h: the service: where to (DSN), how it is framed (envelope), how it is sent (HTTP).
 */
#ifndef GOPROF_SENTRY_SENTRY_H
#define GOPROF_SENTRY_SENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "export/export.h"

struct dsn {
	char *text;		/* as given; contains the key: never printed */
	char *url;		/* of the envelope endpoint */
	char *host;		/* for people: host, with the port when it is unusual */
	char *project;
	char *public_key, *secret_key;	/* secret_key NULL when there is none */
};

/* ERROR_USAGE with what is wrong with it. */
struct error *dsn_parse(const char *text, struct dsn *ret);
void dsn_deinit(struct dsn *d);

/*
 * Frames one transaction and its profile, piece by piece; on failure part of it may have been written.
 * `dsn` may be NULL (a file for later).
 */
struct error *envelope_write(const struct sentry_v1 *v, const struct dsn *dsn, struct sink *out);

struct http_answer {
	long status;		/* 0: no answer came */
	char detail[256];	/* the service's own words, or the transport's error; printable */
	uint64_t bytes;		/* sent, compressed */
};

/*
 * POSTs an envelope, gzip, 10 s in all, no redirect followed with credentials. ERROR_NETWORK when
 * no 2xx came; *ret is filled in either case.
 */
struct error *http_send_envelope(const struct dsn *dsn, const void *data, size_t len,
				 const char *user_agent, struct http_answer *ret);

#endif
