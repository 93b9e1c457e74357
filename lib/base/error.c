/*
 * error.c: errors as values: three owned strings and a kind.
 *
 * Nothing here may fail in a way of its own: where memory is short, the error that is being
 * described survives without the addition, because a missing sentence is better than a wrong kind.
 * The table of kinds is the only place that knows exit statuses; it knows nothing of commands.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

#define SENTINEL(k, text) { .kind = (k), .is_static = true, .what = (char *)(text) }

struct error err_nomem = SENTINEL(ERROR_NOMEM, "out of memory");
struct error err_fault = SENTINEL(ERROR_FAULT, "the target's memory cannot be read there");
struct error err_gone = SENTINEL(ERROR_GONE, "the process has ended or has called exec");
struct error err_end = SENTINEL(ERROR_END, "end of the sequence");
struct error err_notfound = SENTINEL(ERROR_NOT_FOUND, "not found");
struct error err_corrupt = SENTINEL(ERROR_CORRUPT, "the data contradict themselves");

/*
 * Not fatal is what can befall one sample or one delivery while the next may succeed. A kind that
 * is in doubt is fatal: a run that ends and says why beats one that measures nothing.
 */
static const struct kind_row {
	int status;
	bool fatal;
} kinds[ERROR_KIND_COUNT] = {
	[ERROR_INTERNAL]	= {  70, true },
	[ERROR_NOMEM]		= {  70, true },
	[ERROR_FAULT]		= {  70, false },
	[ERROR_GONE]		= {  70, true },
	[ERROR_END]		= {  70, false },
	[ERROR_NOT_FOUND]	= {  70, false },
	[ERROR_CORRUPT]		= {  70, false },
	[ERROR_USAGE]		= {   2, true },
	[ERROR_NOT_GO]		= {  64, true },
	[ERROR_UNSUPPORTED]	= {  65, true },
	[ERROR_NO_PROCESS]	= {  66, true },
	[ERROR_DENIED]		= {  67, true },
	[ERROR_TRACED]		= {  68, true },
	[ERROR_FACILITY]	= {  69, true },
	[ERROR_OUTPUT]		= {  73, true },
	[ERROR_NETWORK]		= {  74, false },
	[ERROR_START_SELF]	= { 125, true },
	[ERROR_START_EXEC]	= { 126, true },
	[ERROR_START_MISSING]	= { 127, true },
};

static const struct kind_row *kind_row(enum error_kind kind)
{
	return &kinds[(unsigned)kind < ERROR_KIND_COUNT ? kind : ERROR_INTERNAL];
}

bool error_is_fatal(const struct error *err)
{
	return err && kind_row(err->kind)->fatal;
}

int error_exit_status(enum error_kind kind)
{
	return kind_row(kind)->status;
}

/* The formatted text, or NULL when memory is short. */
__attribute__((format(printf, 1, 0)))
static char *text_format(const char *fmt, va_list ap)
{
	char *text;

	return vasprintf(&text, fmt, ap) < 0 ? NULL : text;
}

/* Takes `what`; NULL when memory is short. */
static struct error *error_make(enum error_kind kind, char *what)
{
	struct error *err = what ? calloc(1, sizeof(*err)) : NULL;

	if (!err) {
		free(what);
		return NULL;
	}
	err->kind = kind;
	err->what = what;
	return err;
}

struct error *error_new(enum error_kind kind, const char *what, ...)
{
	struct error *err;
	va_list ap;

	va_start(ap, what);
	err = error_make(kind, text_format(what, ap));
	va_end(ap);
	return err ? err : &err_nomem;
}

/* Formats before it frees: the arguments may quote the text that is replaced. */
__attribute__((format(printf, 2, 0)))
static void text_replace(char **field, const char *fmt, va_list ap)
{
	char *text = text_format(fmt, ap);

	if (!text)
		return;
	free(*field);
	*field = text;
}

struct error *error_why(struct error *err, const char *why, ...)
{
	va_list ap;

	if (!err || err->is_static)
		return err;
	va_start(ap, why);
	text_replace(&err->why, why, ap);
	va_end(ap);
	return err;
}

struct error *error_todo(struct error *err, const char *todo, ...)
{
	va_list ap;

	if (!err || err->is_static)
		return err;
	va_start(ap, todo);
	text_replace(&err->todo, todo, ap);
	va_end(ap);
	return err;
}

/* Takes `context`; the error comes back as it was when memory is short. */
static struct error *error_prefix(struct error *err, char *context)
{
	struct error *heap;
	char *what;
	int n;

	n = context ? asprintf(&what, "%s: %s", context, err->what) : -1;
	free(context);
	if (n < 0)
		return err;
	if (err->is_static) {
		heap = error_make(err->kind, what);
		return heap ? heap : err;
	}
	free(err->what);
	err->what = what;
	return err;
}

struct error *error_wrap(struct error *err, const char *context, ...)
{
	char *text;
	va_list ap;

	if (!err)
		return NULL;
	va_start(ap, context);
	text = text_format(context, ap);
	va_end(ap);
	return error_prefix(err, text);
}

void error_free(struct error *err)
{
	if (!err || err->is_static)
		return;
	free(err->what);
	free(err->why);
	free(err->todo);
	free(err);
}
