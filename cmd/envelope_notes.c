/*
 * envelope_notes.c: what people are told about envelopes that do not hold everything: what is not there and
 * why, what is told with less detail, and options that had nothing to work on.
 */
#include "cmd/envelope_notes.h"

#include <stdio.h>

#include "cmd/options.h"
#include "cmd/words.h"

enum { MB = 1000 * 1000 };

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

static bool any(const struct export_counts *c)
{
	return c->goroutines || c->threads || c->shared;
}

static void left_out_text(const struct options *o, const struct export_told *t, struct buf *b)
{
	if (!any(&t->left_out))
		return;
	buf_adds(b, "  note  an envelope leaves out up to ");
	add_counts(b, &t->left_out);
	if (t->cut)
		buf_adds(b, ": with more it would be too big for the service\n");
	else
		buf_addf(b, " (--max-threads %llu; 0 keeps all)\n", (unsigned long long)o->max_threads);
}

static void add_envelopes(struct buf *b, uint32_t n)
{
	buf_addf(b, "  note  %u envelope%s", n, n == 1 ? " was" : "s were");
}

static void thinned_text(const struct export_told *t, struct buf *b)
{
	uint32_t harmless = t->thinned - t->too_big;

	if (t->too_big) {
		add_envelopes(b, t->too_big);
		buf_adds(b, " thinned: the service takes 50 MiB\n");
	}
	if (harmless) {
		add_envelopes(b, harmless);
		buf_adds(b, " larger than 10 MB: parked goroutines have less detail, and all of their time\n");
	}
	if (t->bytes > 10 * MB)
		buf_addf(b, "  note  an envelope still has %llu MB: what else could be left out is not as harmless\n",
			 (unsigned long long)((t->bytes + MB / 2) / MB));
}

static void grouped_text(const struct export_told *t, struct buf *b)
{
	bool one = t->grouped.goroutines + t->grouped.threads == 1;

	if (!any(&t->grouped))
		return;
	buf_adds(b, "  note  in an envelope up to ");
	add_counts(b, &t->grouped);
	buf_addf(b, " %s told as the average of a group\n", one ? "is" : "are");
}

/* Options about envelopes where there are none. */
static void useless_text(const struct options *o, struct buf *b)
{
	static const enum option_id ids[] = { OPTION_THREADS, OPTION_MAX_THREADS, OPTION_ACTIVE };

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		if (o->source[ids[i]] != OPTION_DEFAULT)
			buf_addf(b, "  note  --%s is about envelopes: it changes nothing in a pprof file\n",
				 option_table[ids[i]].name);
}

void envelope_notes_text(const struct options *o, const struct export_told *told, bool wanted, struct buf *b)
{
	if (!wanted)
		useless_text(o, b);
	if (told->windows && o->threads.choice == EXPORT_BY_LABEL && !told->labelled)
		buf_addf(b, "  note  no goroutine had the label %s: threads are those of entry functions\n",
			 o->threads.key);
	left_out_text(o, told, b);
	thinned_text(told, b);
	grouped_text(told, b);
}
