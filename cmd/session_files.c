/*
 * session_files.c: the list of files behind a summary, each with the command that opens it. Windows
 * of one envelope output are one line; what the service took is one line; what it did not take is
 * named file by file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cmd/command.h"
#include "cmd/envelope_notes.h"
#include "cmd/options.h"
#include "cmd/output_format.h"
#include "cmd/output_name.h"
#include "cmd/output_writer.h"
#include "cmd/outputs.h"
#include "cmd/session_impl.h"
#include "cmd/summary.h"
#include "cmd/words.h"

enum { ROWS_MAX = 64 };

struct rows {
	struct summary_file v[ROWS_MAX];
	char *owned[2 * ROWS_MAX];
	size_t n;
};

static void rows_deinit(struct rows *r)
{
	for (size_t i = 0; i < 2 * r->n; i++)
		free(r->owned[i]);
}

static void add_row(struct rows *r, char *name, char *opener)
{
	if (r->n == ROWS_MAX || !name || !opener) {
		free(name);
		free(opener);
		return;
	}
	r->owned[2 * r->n] = name;
	r->owned[2 * r->n + 1] = opener;
	r->v[r->n++] = (struct summary_file){ name, opener };
}

/* The next delivery of output `output` behind d in this state, or NULL. */
static const struct delivery *next_done(const struct delivery *d, uint32_t output)
{
	while (d && (d->output != output || d->state != DELIVERY_DONE))
		d = d->next;
	return d;
}

static void add_pprof(const struct delivery *d, struct rows *r)
{
	char *opener;

	for (; d; d = next_done(d->next, d->output))
		if (asprintf(&opener, "go tool pprof -http=: %s", d->path) >= 0)
			add_row(r, strdup(d->path), opener);
}

/* How many windows from d on are named as its numbers: "x.envelope", "x.2.envelope", ... */
static unsigned int run_of_windows(const struct delivery *d, const struct delivery **last)
{
	const char *first = d->path;
	unsigned int n = 1;

	for (*last = d; (d = next_done(d->next, d->output)); *last = d, n++) {
		_cleanup_free_ char *name = output_numbered(first, d->format->suffix, n + 1);

		if (!name || strcmp(name, d->path) != 0)
			break;
	}
	return n;
}

static void add_envelopes(const struct session *s, const struct delivery *d, struct rows *r)
{
	while (d) {
		const struct delivery *last;
		const char *suffix = d->format->suffix;
		unsigned int n = run_of_windows(d, &last);
		char *name = NULL, *opener = NULL;
		int a, b;

		if (n == 1)
			a = asprintf(&name, "%s", d->path);
		else if (n == 2)
			a = asprintf(&name, "%s and .2%s", d->path, suffix);
		else
			a = asprintf(&name, "%s and .2 to .%u%s", d->path, n, suffix);
		if (n == 1)
			b = asprintf(&opener, "for Sentry: goprof %s --dsn DSN %s",
				     s->options->command->name, s->command);
		else
			b = asprintf(&opener, "for Sentry (%u windows)", n);
		if (a >= 0 && b >= 0)
			add_row(r, name, opener);
		d = next_done(last->next, d->output);
	}
}

static void add_service(const struct session *s, uint32_t output, struct rows *r)
{
	char *name = NULL, *opener = NULL;
	unsigned int sent = 0;

	for (const struct delivery *d = outputs_deliveries(s->outputs); d; d = d->next) {
		if (d->output != output)
			continue;
		sent += d->state == DELIVERY_DONE;
		if (d->state == DELIVERY_KEPT)
			add_row(r, strdup(d->path), strdup("not sent; kept here"));
	}
	if (sent && asprintf(&name, "%u window%s", sent, sent == 1 ? "" : "s") >= 0 &&
	    asprintf(&opener, "sent to %s, project %s", s->dsn.host, s->dsn.project) >= 0)
		add_row(r, name, opener);
}

static void add_output(const struct session *s, const struct delivery *first, struct rows *r)
{
	const struct delivery *done = next_done(first, first->output);

	if (first->sink == DELIVERY_SERVICE)
		add_service(s, first->output, r);
	else if (first->sink == DELIVERY_FILE && first->format == &output_pprof)
		add_pprof(done, r);
	else if (first->sink == DELIVERY_FILE)
		add_envelopes(s, done, r);
}

void session_files_text(const struct session *s, struct buf *b)
{
	_cleanup_(rows_deinit) struct rows r = { .n = 0 };
	const struct delivery *all = outputs_deliveries(s->outputs);
	uint32_t outputs = 0;

	for (const struct delivery *d = all; d; d = d->next)
		if (d->output >= outputs)
			outputs = d->output + 1;
	for (uint32_t i = 0; i < outputs; i++)
		for (const struct delivery *d = all; d; d = d->next)
			if (d->output == i) {
				add_output(s, d, &r);
				break;
			}
	summary_files_text(r.v, r.n, b);
	if (outputs_silent(s->outputs))
		buf_addf(b, "  note  no envelope for %u window%s: no goroutine was seen twice there\n",
			 outputs_silent(s->outputs), outputs_silent(s->outputs) == 1 ? "" : "s");
	envelope_notes_text(s->options, &s->told, outputs_have(s->outputs, &output_envelope), b);
}
