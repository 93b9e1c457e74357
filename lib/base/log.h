/*
 * log.h: diagnostics on stderr for -v; never on the capture path, never while a child of `run`
 * lives unless the user asked for them. Reports and errors do not come through here.
 */
#ifndef GOPROF_BASE_LOG_H
#define GOPROF_BASE_LOG_H

enum log_level { LOG_QUIET, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level);

/* One line; `tag` names the part of goprof that speaks ("tracer", "http"). Thread safe. */
void log_info(const char *tag, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void log_debug(const char *tag, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
