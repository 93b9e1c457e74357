/*
 * sentry_impl.h: what the files of lib/sentry and their tests share. Nobody else includes it.
 */
#ifndef GOPROF_SENTRY_SENTRY_IMPL_H
#define GOPROF_SENTRY_SENTRY_IMPL_H

#include "sentry/sentry.h"

/* http_send_envelope with another time limit; tests do not wait ten seconds. */
struct error *http_send_within(const struct dsn *dsn, const void *data, size_t len,
			       const char *user_agent, long timeout_ms, struct http_answer *ret);

/* The DSN without its secret, as an envelope header may carry it. */
struct error *dsn_public(const struct dsn *d, struct buf *ret);

/* Copies what a terminal may show into out (cap > 0 bytes), everything else as a space or '?'. */
void printable_copy(char *out, size_t cap, const char *s, size_t len);

#endif
