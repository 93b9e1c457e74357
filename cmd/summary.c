/*
 * summary.c: where CPU time went, what the other goroutines did, whether the figures can be
 * trusted, and what opens the files: in this order, in 80 columns.
 *
 * Must not know how the figures came about (recording.c collects them).
 */
#include "cmd/summary.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/words.h"

enum {
	FUNCTIONS_LEAST = 4, FUNCTIONS_MOST = 10,	/* rows; between them only what has 1 % */
	GROUPS_MOST = 6,
	NAME_COLUMN = 20, FILE_COLUMN = 50,		/* of functions */
	STATE_COLUMN = 12, ENTRY_COLUMN = 29, PLACE_COLUMN = 61,	/* of goroutines */
};

/* ---- text that fits ---- */

static void add_char(struct buf *b, char c)
{
	buf_addc(b, (unsigned char)c < ' ' || c == 0x7f ? '?' : c);
}

static void add_printable(struct buf *b, const char *s, size_t columns)
{
	for (; *s; s++) {
		if (((unsigned char)*s & 0xc0) != 0x80 && columns-- == 0)
			return;
		add_char(b, *s);
	}
}

/* What is left of an import path or file name that fits behind "…/", or NULL. */
static const char *fitting_tail(const char *name, size_t columns)
{
	const char *end = name + strcspn(name, "[");

	for (const char *slash = strchr(name, '/'); slash && slash < end; slash = strchr(slash + 1, '/'))
		if (text_columns(slash + 1) + 2 <= columns)
			return slash + 1;
	return NULL;
}

void summary_fit(struct buf *b, const char *name, size_t columns)
{
	const char *tail;

	if (text_columns(name) <= columns) {
		add_printable(b, name, SIZE_MAX);
		return;
	}
	/* Whole elements of an import path first: the end of a name says more than its beginning. */
	tail = fitting_tail(name, columns);
	if (tail) {
		buf_adds(b, "…/");
		add_printable(b, tail, SIZE_MAX);
	} else if (columns) {
		add_printable(b, name, columns - 1);
		buf_adds(b, "…");
	}
}

/* Columns of what stands in `b` behind `from`. */
static size_t columns_since(const struct buf *b, size_t from)
{
	return b->data && b->len > from ? text_columns(b->data + from) : 0;
}

/* Spaces up to `column` of the line that began at `line`, at least two. */
static void pad(struct buf *b, size_t line, size_t column)
{
	size_t at = columns_since(b, line);

	buf_addf(b, "%*s", (int)(at + 2 <= column ? column - at : 2), "");
}

static const char *place(const char *file, uint32_t line, char *buf, size_t cap)
{
	if (!*file)
		buf[0] = 0;
	else if (line)
		snprintf(buf, cap, "%s:%u", path_base(file), line);
	else
		snprintf(buf, cap, "%s", path_base(file));
	return buf;
}

/*
 * "name      file:line" with the file in its column; the name gives way, by leading elements, and
 * only one that has a short file and still does not fit pushes it to the right.
 */
static void add_named(struct buf *b, size_t line, const char *name, const char *where, size_t column)
{
	size_t at = columns_since(b, line), tail = text_columns(where);
	size_t room = SUMMARY_WIDTH > at ? SUMMARY_WIDTH - at : 0;

	if (!*where) {
		summary_fit(b, name, room);
		buf_addc(b, '\n');
		return;
	}
	if (tail > 24)
		tail = 24;
	if (column + tail > SUMMARY_WIDTH)
		column = SUMMARY_WIDTH - tail;
	room -= room > tail + 2 ? tail + 2 : room;
	if (column > at + 2 && fitting_tail(name, column - at - 2))
		room = column - at - 2;
	summary_fit(b, name, room);
	pad(b, line, column);
	summary_fit(b, where, tail);
	buf_addc(b, '\n');
}

static void add_more(struct buf *b, int column, size_t left_out)
{
	char n[WORD_MAX];

	if (left_out)
		buf_addf(b, "%*s... %s more\n", column, "", count_text(left_out, n));
}

/* ---- on CPU ---- */

static const char *cpu_text(uint64_t ns, char buf[static WORD_MAX])
{
	if (ns < NSEC_PER_SEC)
		snprintf(buf, WORD_MAX, "%d ms", (int)(ns / NSEC_PER_MSEC));
	else if (ns < 100ULL * NSEC_PER_SEC)
		snprintf(buf, WORD_MAX, "%.2f s", (double)ns / 1e9);
	else
		snprintf(buf, WORD_MAX, "%.0f s", (double)ns / 1e9);
	return buf;
}

static void cpu_heading(const struct summary *s, struct buf *b)
{
	static const char note[] = "(parked goroutines are not listed here)";
	char cpu[WORD_MAX], share[WORD_MAX];
	size_t line = b->len, at;

	snprintf(share, sizeof(share), "%.0f %%",
		 s->wall_ns ? 100.0 * (double)s->cpu_ns / (double)s->wall_ns : 0);
	buf_addf(b, "  on CPU  %s = %s of one core", cpu_text(s->cpu_ns, cpu), share);
	at = columns_since(b, line);
	if (s->n_functions && at + 2 + strlen(note) <= SUMMARY_WIDTH)
		buf_addf(b, "%*s%s", (int)(SUMMARY_WIDTH - at - strlen(note)) - 1, "", note);
	buf_addc(b, '\n');
}

static void functions_text(const struct summary *s, struct buf *b)
{
	size_t shown = 0;

	cpu_heading(s, b);
	if (!s->n_functions)
		return;
	buf_adds(b, "     self    total  function\n");
	for (; shown < s->n_functions && shown < FUNCTIONS_MOST; shown++) {
		const struct summary_function *f = &s->functions[shown];
		char self[WORD_MAX], total[WORD_MAX], where[256];
		size_t line = b->len;

		if (shown >= FUNCTIONS_LEAST && f->self_ns * 100 < s->cpu_ns)
			break;
		buf_addf(b, "%9s%9s  ", percent_text((double)f->self_ns, (double)s->cpu_ns, 1, self),
			 percent_text((double)f->total_ns, (double)s->cpu_ns, 1, total));
		add_named(b, line, f->name, place(f->file, f->line, where, sizeof(where)), FILE_COLUMN);
	}
	add_more(b, NAME_COLUMN, s->n_functions - shown);
}

/* ---- goroutines ---- */

static void groups_text(const struct summary *s, struct buf *b)
{
	char seen[WORD_MAX];
	size_t n = 0;

	/* What rounds to nothing is not listed. */
	while (n < s->n_groups && n < GROUPS_MOST && s->groups[n].average >= 0.05)
		n++;

	if (s->average >= 10)
		buf_addf(b, "\n  goroutines  %s seen, %.0f on average", count_text(s->seen, seen), s->average);
	else
		buf_addf(b, "\n  goroutines  %s seen, %.1f on average", count_text(s->seen, seen), s->average);
	buf_addf(b, " (mode %s)\n", s->mode == PROFILE_CPU ? "cpu" : "wall");
	if (s->health[HEALTH_G_NEVER_SEEN])
		buf_addf(b, "              at least %s more ended before they were looked at\n",
			 count_text(s->health[HEALTH_G_NEVER_SEEN], seen));
	if (!n)
		return;
	buf_adds(b, "   average  state            started at\n");
	for (size_t i = 0; i < n; i++) {
		const struct summary_group *g = &s->groups[i];
		char where[256];
		size_t line = b->len;

		buf_addf(b, "%10.1f  ", g->average);
		summary_fit(b, g->state, 24);
		pad(b, line, ENTRY_COLUMN);
		add_named(b, line, g->entry, place(g->file, g->line, where, sizeof(where)), PLACE_COLUMN);
	}
	add_more(b, ENTRY_COLUMN, s->n_groups - n);
}

/* ---- health and files ---- */

/* Bytes of the next piece that must stay on one line: "9.4 %" and "101 Hz" are one. */
static size_t piece(const char *text)
{
	static const char *const units[] = { "%", "us", "ms", "ns", "s", "Hz" };
	size_t n = strcspn(text, " ");
	const char *next = text + n + strspn(text + n, " ");
	size_t len = strcspn(next, " ,)");

	if (!n || !*next || text[n - 1] < '0' || text[n - 1] > '9')
		return n;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strlen(units[i]) == len && strncmp(units[i], next, len) == 0)
			return (size_t)(next - text) + strcspn(next, " ");
	return n;
}

void summary_wrap(struct buf *b, size_t column, size_t hang, const char *text)
{
	bool first = true;

	while (*text) {
		size_t space = strspn(text, " "), bytes = piece(text + space), columns = 0;

		if (!bytes)
			return;
		for (size_t i = 0; i < bytes; i++)
			columns += ((unsigned char)text[space + i] & 0xc0) != 0x80;
		if (!first && column + space + columns > SUMMARY_WIDTH) {
			buf_addf(b, "\n%*s", (int)hang, "");
			column = hang;
		} else {
			buf_addf(b, "%*s", (int)space, "");
			column += space;
		}
		for (size_t i = 0; i < bytes; i++)
			add_char(b, text[space + i]);
		column += columns;
		text += space + bytes;
		first = false;
	}
}

void summary_paragraph(struct buf *b, const char *label, const char *text)
{
	size_t hang = text_columns(label) + 4;

	buf_addf(b, "  %s  ", label);
	summary_wrap(b, hang, hang, text);
	buf_addc(b, '\n');
}

static void health_text(const struct summary *s, struct buf *b)
{
	struct buf line;
	bool good;

	buf_init(&line);
	good = verdict_text(s, &line);
	buf_addc(b, '\n');
	if (!good && s->colour)
		buf_adds(b, "\033[1m");
	summary_paragraph(b, "health", line.data ? line.data : "");
	if (!good && s->colour)
		buf_adds(b, "\033[0m");
	if (s->every_figure)
		verdict_table(s, b);
	buf_deinit(&line);
}

/* What this profile cannot tell stands where it would have stood. */
static void restricted_text(const struct summary *s, struct buf *b)
{
	struct buf t;

	buf_init(&t);
	buf_addf(&t, "goroutines cannot be told: %s. On-CPU stacks are those of threads.", s->restricted);
	buf_addc(b, '\n');
	summary_paragraph(b, "RESTRICTED", t.data ? t.data : "");
	buf_deinit(&t);
}

void summary_text(const struct summary *s, struct buf *b)
{
	functions_text(s, b);
	if (s->restricted)
		restricted_text(s, b);
	else
		groups_text(s, b);
	health_text(s, b);
}

void summary_files_text(const struct summary_file *v, size_t n, struct buf *b)
{
	size_t width = 0;

	for (size_t i = 0; i < n; i++)
		if (text_columns(v[i].name) > width)
			width = text_columns(v[i].name);
	if (n)
		buf_addc(b, '\n');
	for (size_t i = 0; i < n; i++) {
		buf_adds(b, "  ");
		add_printable(b, v[i].name, SIZE_MAX);
		buf_addf(b, "%*s", (int)(width - text_columns(v[i].name) + 3), "");
		add_printable(b, v[i].opener, SIZE_MAX);
		buf_addc(b, '\n');
	}
}
