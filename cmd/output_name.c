/*
 * output_name.c: patterns of file names. Marks: %p pid, %n window, %t start, %e program, %%.
 * A program's name is untrusted: control characters and slashes do not reach the file system.
 */
#include "cmd/output_name.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"

struct mark {
	char letter;
	void (*add)(struct buf *b, const struct output_names *names, uint32_t window);
};

static void add_percent(struct buf *b, const struct output_names *names, uint32_t window)
{
	(void)names;
	(void)window;
	buf_addc(b, '%');
}

static void add_program(struct buf *b, const struct output_names *names, uint32_t window)
{
	(void)window;
	for (const char *p = names->program; *p; p++)
		buf_addc(b, (unsigned char)*p < ' ' || *p == '/' || *p == 0x7f ? '_' : *p);
}

static void add_window(struct buf *b, const struct output_names *names, uint32_t window)
{
	(void)names;
	buf_addf(b, "%u", window);
}

static void add_pid(struct buf *b, const struct output_names *names, uint32_t window)
{
	(void)window;
	buf_addf(b, "%d", names->pid);
}

static void add_time(struct buf *b, const struct output_names *names, uint32_t window)
{
	time_t t = (time_t)(names->start_real / NSEC_PER_SEC);
	char text[32] = "";
	struct tm tm;

	(void)window;
	if (localtime_r(&t, &tm))
		strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &tm);
	buf_adds(b, text);
}

static const struct mark marks[] = {
	{ '%', add_percent }, { 'e', add_program }, { 'n', add_window }, { 'p', add_pid },
	{ 't', add_time },
};

static const struct mark *mark_find(char letter)
{
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (marks[i].letter == letter)
			return &marks[i];
	return NULL;
}

struct error *output_pattern_check(const char *pattern)
{
	for (const char *p = strchr(pattern, '%'); p; p = strchr(p + 2, '%'))
		if (!mark_find(p[1]))
			return error_todo(error_new(ERROR_OUTPUT, "'%%%.1s' in '%s' is unknown", p + 1,
						    pattern),
					  "%%e program, %%p pid, %%t start, %%n window, %%%% a percent sign");
	return NULL;
}

struct error *output_pattern_expand(const char *pattern, const struct output_names *names,
				    uint32_t window, char **ret, bool *numbered)
{
	_cleanup_(buf_deinit) struct buf b = { 0 };
	struct error *err = output_pattern_check(pattern);
	bool has_window = false;

	if (err)
		return err;
	buf_init(&b);
	for (const char *p = pattern; *p; p++) {
		if (*p != '%') {
			buf_addc(&b, *p);
			continue;
		}
		p++;
		has_window |= *p == 'n';
		mark_find(*p)->add(&b, names, window);
	}
	err = buf_error(&b);
	if (err)
		return err;
	*ret = buf_take(&b);
	*numbered = has_window;
	return *ret ? NULL : &err_nomem;
}

char *output_numbered(const char *path, const char *suffix, uint32_t number)
{
	size_t len = strlen(path), tail = strlen(suffix);
	char *name;

	if (tail >= len || strcmp(path + len - tail, suffix) != 0)
		tail = 0;
	if (asprintf(&name, "%.*s.%u%s", (int)(len - tail), path, number, path + len - tail) < 0)
		return NULL;
	return name;
}
