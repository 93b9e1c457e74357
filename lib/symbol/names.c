/*
 * names.c: what a function's full name says: import path, receiver, generic arguments, and whose
 * code it is. Pure text; names come from the target and may be anything.
 *
 * Must not know processes, tables or pcs.
 *
 * Upstream: cmd/internal/objabi/path.go (PathToPrefix: the escapes), src/runtime/traceback.go
 * (funcNamePiecesForPrint, isExportedRuntime, showfuncinfo).
 */
#include "symbol/symbol.h"

#include <stdlib.h>
#include <string.h>

static bool starts_with(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

/*
 * The import path ends at the first dot behind its last slash. Slashes and dots inside of type
 * arguments, receivers and struct types are none of it; an import path holds no such characters.
 * What the compiler makes for a type ("type:.eq.[2]string") belongs to no package.
 */
void name_split(const char *full, size_t *module_len, const char **name)
{
	size_t limit = strcspn(full, "[({ "), start = 0;
	const char *dot;

	if (starts_with(full, "type:") || starts_with(full, "type..") || starts_with(full, "go:"))
		limit = 0;
	for (size_t i = 0; i < limit; i++)
		if (full[i] == '/')
			start = i + 1;
	dot = memchr(full + start, '.', limit - start);
	*module_len = dot ? (size_t)(dot - full) : 0;
	*name = dot ? dot + 1 : full;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* A byte written as %xx at s (which ends with a NUL), or -1. */
static int escaped_byte(const char *s)
{
	int high, low;

	if (s[0] != '%')
		return -1;
	high = hex_digit(s[1]);
	if (high < 0)
		return -1;
	low = hex_digit(s[2]);
	if (low < 0 || high + low == 0)
		return -1;
	return high * 16 + low;
}

void name_unescape(char *full)
{
	size_t len, out = 0, in = 0;
	const char *name;

	name_split(full, &len, &name);
	while (in < len) {
		/* An escape lies wholly in front of the dot that ends the path. */
		int byte = in + 3 <= len ? escaped_byte(full + in) : -1;

		full[out++] = byte < 0 ? full[in] : (char)byte;
		in += byte < 0 ? 1 : 3;
	}
	if (out != in)
		memmove(full + out, full + in, strlen(full + in) + 1);
}

struct error *name_print(const char *full, char *buf, size_t cap)
{
	static const char dots[] = "[...]";
	const char *open = strchr(full, '['), *close = strrchr(full, ']');
	size_t len = strlen(full), head, tail;

	if (!open || !close || close < open) {
		if (len >= cap)
			return &err_corrupt;
		memcpy(buf, full, len + 1);
		return NULL;
	}
	head = (size_t)(open - full);
	tail = len - (size_t)(close + 1 - full);
	if (head + sizeof(dots) + tail > cap)
		return &err_corrupt;
	memcpy(buf, full, head);
	memcpy(buf + head, dots, sizeof(dots) - 1);
	memcpy(buf + head + sizeof(dots) - 1, close + 1, tail + 1);
	return NULL;
}

/* ---- whose code ---- */

static const char *const std_list[] = {
#include "symbol/std_list.inc"
};

struct piece {
	const char *s;
	size_t len;
};

static int compare_first(const void *key, const void *element)
{
	const struct piece *first = key;
	const char *std = *(const char *const *)element;
	int order = strncmp(first->s, std, first->len);

	return order ? order : (std[first->len] ? -1 : 0);
}

bool name_is_std(const char *module)
{
	struct piece first = { .s = module, .len = strcspn(module, "/") };

	return bsearch(&first, std_list, sizeof(std_list) / sizeof(*std_list), sizeof(*std_list),
		       compare_first) != NULL;
}

static bool is_main(const char *module)
{
	return !strcmp(module, "main");
}

bool name_in_app(const char *module, const char *main_module)
{
	size_t len = strlen(main_module);
	const char *rest;

	if (is_main(module))
		return true;
	if (!*module || starts_with(module, "vendor/") || strstr(module, "/vendor/"))
		return false;
	if (!len)
		return !name_is_std(module) && memchr(module, '.', strcspn(module, "/"));
	if (strncmp(module, main_module, len))
		return false;
	rest = module + len;
	return !*rest || *rest == '/' || !strcmp(rest, "_test");
}

/* ---- what tracebacks hide ---- */

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

/* `rest` is the name behind "runtime.". Exported methods count from Go 1.23 on. */
static bool exported(const char *rest, int go_minor)
{
	const char *dot = strrchr(rest, '.');

	if (go_minor < 23)
		return is_upper(rest[0]);
	if (!dot)
		return is_upper(rest[0]);
	if (!is_upper(dot[1]))
		return false;
	if (dot - rest >= 3 && rest[0] == '(' && rest[1] == '*' && dot[-1] == ')')
		return is_upper(rest[2]);
	return dot == rest || is_upper(rest[0]);
}

bool name_runtime_hidden(const char *full, int go_minor)
{
	static const char prefix[] = "runtime.";
	const char *rest = full + sizeof(prefix) - 1;

	if (!strchr(full, '.'))
		return true;
	if (!starts_with(full, prefix))
		return false;
	/* They tell that a goroutine runs finalizers or cleanups. */
	if (!strcmp(rest, "runFinalizers") || !strcmp(rest, "runCleanups"))
		return false;
	return !exported(rest, go_minor);
}
