/*
 * procfs_maps.c: /proc/PID/maps as a sorted array.
 *
 * The kernel writes the file page by page and takes its lock anew for each: a target that maps and
 * unmaps meanwhile may show a range twice. Lines that do not lie behind the one before are dropped,
 * so that the result is always sorted and without overlap. Paths keep the kernel's " (deleted)"
 * and its \012 escapes: they are for people, files are opened by other means.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "target/procfs.h"

static const struct {
	char letter;
	uint32_t flag;
} map_flags[] = { { 'r', MAPPING_READ }, { 'w', MAPPING_WRITE }, { 'x', MAPPING_EXEC } };

static bool parse_flags(struct text *t, uint32_t *ret)
{
	uint32_t flags = 0;

	if (t->end - t->p < 4)
		return false;
	for (int i = 0; i < 3; i++) {
		if (t->p[i] == map_flags[i].letter)
			flags |= map_flags[i].flag;
		else if (t->p[i] != '-')
			return false;
	}
	t->p += 4;	/* the fourth letter tells private from shared */
	*ret = flags;
	return true;
}

/* `line` ends inside a writable buffer whose newline becomes the path's NUL. */
static bool parse_line(struct text line, struct mapping *ret)
{
	struct mapping m;
	uint64_t major, minor;

	if (!text_hex(&line, &m.start) || !text_char(&line, '-') || !text_hex(&line, &m.end) ||
	    !text_char(&line, ' ') || !parse_flags(&line, &m.flags) ||
	    !text_hex(&line, &m.offset) || !text_hex(&line, &major) || !text_char(&line, ':') ||
	    !text_hex(&line, &minor) || !text_dec(&line, &m.inode) || m.end <= m.start)
		return false;
	m.dev = makedev((unsigned)major, (unsigned)minor);
	while (line.p < line.end && *line.p == ' ')
		line.p++;
	m.path = line.p;
	*ret = m;
	return true;
}

static size_t count_lines(const char *s, size_t len)
{
	size_t n = 1;

	for (size_t i = 0; i < len; i++)
		n += s[i] == '\n';
	return n;
}

struct error *procfs_parse_maps(char *s, size_t len, struct mappings *ret)
{
	_cleanup_free_ char *own = s;
	_cleanup_free_ struct mapping *v = calloc(count_lines(s, len), sizeof(*v));
	struct text t = { s, s + len }, line;
	size_t n = 0;

	if (!v)
		return &err_nomem;
	while (text_line(&t, &line)) {
		if (!parse_line(line, &v[n]))
			return &err_corrupt;
		s[line.end - s] = 0;	/* in bounds: there is a NUL behind len */
		if (n == 0 || v[n].start >= v[n - 1].end)
			n++;
	}
	*ret = (struct mappings){ .v = take(v), .n = n, .text = take(own) };
	return NULL;
}
