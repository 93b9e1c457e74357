/*
 * log.c: one diagnostic line on stderr, only when the user asked for it.
 *
 * Each line is put together first and leaves in one write(2), so lines of several threads never
 * mix and nothing is left in a buffer when goprof is killed. Texts may quote the target: control
 * characters are masked, so that a program's name cannot steer the terminal. Errors of write are
 * ignored: diagnostics must not change what goprof does.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"

enum { LINE_MAX_BYTES = 1024 };

static atomic_int current_level = LOG_QUIET;

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

static int clamp(int n, int room)
{
	if (n < 0)
		return 0;
	return n < room ? n : room - 1;
}

static void mask_controls(char *s, int len)
{
	for (int i = 0; i < len; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			s[i] = '?';
}

__attribute__((format(printf, 3, 0)))
static void log_line(enum log_level level, const char *tag, const char *fmt, va_list ap)
{
	int saved = errno, room = LINE_MAX_BYTES - 1, len;	/* one byte stays for the newline */
	char line[LINE_MAX_BYTES];

	if ((int)level > atomic_load_explicit(&current_level, memory_order_relaxed))
		return;
	len = clamp(snprintf(line, (size_t)room, "goprof: %s: ", tag), room);
	len += clamp(vsnprintf(line + len, (size_t)(room - len), fmt, ap), room - len);
	mask_controls(line, len);
	line[len++] = '\n';
	while (write(STDERR_FILENO, line, (size_t)len) < 0 && errno == EINTR)
		;
	errno = saved;
}

void log_info(const char *tag, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_line(LOG_INFO, tag, fmt, ap);
	va_end(ap);
}

void log_debug(const char *tag, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_line(LOG_DEBUG, tag, fmt, ap);
	va_end(ap);
}
