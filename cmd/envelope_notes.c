/*
 * envelope_notes.c: what people are told about envelopes that do not hold everything: what is not there and
 * why, what is told with less detail, and options that had nothing to work on.
 */
#include "cmd/envelope_notes.h"

#include "cmd/options.h"
#include "cmd/summary.h"
#include "cmd/words.h"

enum { MB = 1000 * 1000, LARGE = 10 * MB };

static void add_count(struct buf *b, uint32_t n, const char *what, const char *before)
{
	char count[WORD_MAX];

	if (n)
		buf_addf(b, "%s%s %s%s", before, count_text(n, count), what, n == 1 ? "" : "s");
}

/* "8,650 goroutines, 12 threads and 3 shared threads"; "" when there is nothing. */
static void add_counts(struct buf *b, const struct export_counts *c)
{
	bool two = c->threads && c->shared;

	add_count(b, c->goroutines, "goroutine", "");
	add_count(b, c->threads, "thread", !c->goroutines ? "" : two ? ", " : " and ");
	add_count(b, c->shared, "shared thread", c->goroutines || c->threads ? " and " : "");
}

static uint64_t sum_of(const struct export_counts *c)
{
	return (uint64_t)c->goroutines + c->threads + c->shared;
}

/* Ends a note and begins the next. */
static void say(struct buf *text, struct buf *b)
{
	summary_paragraph(b, "note", buf_error(text) ? "" : text->data);
	buf_clear(text);
}

static void left_out(const struct options *o, const struct export_told *t, struct buf *text, struct buf *b)
{
	if (!sum_of(&t->left_out))
		return;
	buf_adds(text, "an envelope leaves out up to ");
	add_counts(text, &t->left_out);
	if (t->cut)
		buf_adds(text, ": with more it would be too big for the service");
	else
		buf_addf(text, " (--max-threads %llu; 0 keeps all)", (unsigned long long)o->max_threads);
	say(text, b);
}

static void add_envelopes(struct buf *text, uint32_t n, const char *what)
{
	buf_addf(text, "%u envelope%s %s", n, n == 1 ? " was" : "s were", what);
}

static void thinned(const struct export_told *t, struct buf *text, struct buf *b)
{
	if (t->too_big) {
		add_envelopes(text, t->too_big, "thinned: the service takes 50 MiB");
		say(text, b);
	}
	if (t->thinned > t->too_big) {
		add_envelopes(text, t->thinned - t->too_big, "larger than 10 MB: parked goroutines are told with "
			      "less detail, and with all of their time");
		say(text, b);
	}
	if (t->bytes <= LARGE)
		return;
	buf_addf(text, "an envelope %shas %.1f MB; a lower --max-threads makes it smaller", t->thinned ? "still " : "",
		 (double)t->bytes / MB);
	say(text, b);
}

static void grouped(const struct export_told *t, struct buf *text, struct buf *b)
{
	if (!sum_of(&t->grouped))
		return;
	buf_adds(text, "in an envelope up to ");
	add_counts(text, &t->grouped);
	buf_addf(text, " %s told as the average of a group", sum_of(&t->grouped) == 1 ? "is" : "are");
	say(text, b);
}

/* Options about envelopes where there are none. */
static void useless(const struct options *o, struct buf *text, struct buf *b)
{
	static const enum option_id ids[] = { OPTION_THREADS, OPTION_MAX_THREADS, OPTION_ACTIVE };

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		if (o->source[ids[i]] == OPTION_DEFAULT)
			continue;
		buf_addf(text, "--%s is about envelopes, it changes nothing in a pprof file",
			 option_table[ids[i]].name);
		say(text, b);
	}
}

void envelope_notes_text(const struct options *o, const struct export_told *told, bool wanted, struct buf *b)
{
	struct buf text;

	buf_init(&text);
	if (!wanted)
		useless(o, &text, b);
	if (told->windows && o->threads.choice == EXPORT_BY_LABEL && !told->labelled) {
		buf_addf(&text, "no goroutine had the label %s: threads are those of entry functions", o->threads.key);
		say(&text, b);
	}
	left_out(o, told, &text, b);
	thinned(told, &text, b);
	grouped(told, &text, b);
	buf_deinit(&text);
}
