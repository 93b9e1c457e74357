/*
 * outputs.c: which bytes go where. Formats are built once per window however many sinks want
 * them: two envelopes of one window would be two profiles to the service.
 *
 * Must not know what a format contains (output_format.c) nor how bytes are carried
 * (output_writer.c).
 */
#include "cmd/outputs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cmd/output_file.h"
#include "cmd/output_format.h"
#include "cmd/output_writer.h"
#include "sentry/sentry.h"

/* One -o, or the service. */
struct output {
	const struct output_format *format;
	enum delivery_sink sink;
	const char *pattern;	/* of the file; for the service: where a refused window is kept */
	bool replace;
};

/* A format in use, with the exporter's state of the current recording. */
struct stream {
	const struct output_format *format;
	void *state;
	bool open;
	uint32_t numbers;	/* pieces made so far in this recording */
};

enum { STREAM_MAX = 2 };

struct outputs {
	struct export_options export;
	const struct dsn *dsn;
	bool hold_stdout;
	struct output *v;
	size_t n;
	struct stream streams[STREAM_MAX];
	size_t n_streams;
	struct output_names names;
	char *program;
	char **claimed;		/* file names that this run has used */
	size_t n_claimed;
	struct delivery *held, **held_last;
	struct writer *writer;
	uint32_t windows, silent;
	uint64_t health[HEALTH_COUNT];	/* of the latest recording's exporters */
};

/* ---- creation ---- */

static struct error *add(struct outputs *os, const struct output *o)
{
	struct output *v = reallocarray(os->v, os->n + 1, sizeof(*v));
	size_t i = 0;

	if (!v)
		return &err_nomem;
	os->v = v;
	os->v[os->n++] = *o;
	while (i < os->n_streams && os->streams[i].format != o->format)
		i++;
	if (i == os->n_streams)
		os->streams[os->n_streams++].format = o->format;
	return NULL;
}

static struct error *add_given(struct outputs *os, const char *spec)
{
	struct output o = { .replace = true };
	struct error *err = output_format_of(spec, &o.format, &o.pattern);

	if (!err)
		err = output_pattern_check(o.pattern);
	if (err)
		return err;
	o.sink = strcmp(o.pattern, "-") == 0 ? DELIVERY_STDOUT : DELIVERY_FILE;
	if (o.sink == DELIVERY_STDOUT && isatty(STDOUT_FILENO))
		return error_todo(error_why(error_new(ERROR_OUTPUT, "-o %s would write to the terminal",
						      spec), "a profile is no text"),
				  "redirect stdout, or name a file: -o app%s", o.format->suffix);
	return add(os, &o);
}

static struct error *add_all(struct outputs *os, const struct outputs_options *o)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < o->files.n; i++)
		err = add_given(os, o->files.v[i]);
	if (!err && o->dsn)
		err = add(os, &(struct output){ &output_envelope, DELIVERY_SERVICE, "%e-%t.envelope", false });
	if (!err && !os->n)
		err = add(os, &(struct output){ &output_pprof, DELIVERY_FILE, "%e-%t.pb.gz", false });
	if (!err && os->n == 1 && !o->files.n && !o->dsn)
		err = add(os, &(struct output){ &output_envelope, DELIVERY_FILE, "%e-%t.envelope", false });
	return err;
}

static void outputs_cleanup(struct outputs **os)
{
	outputs_destroy(*os);
}

struct error *outputs_create(const struct outputs_options *o, struct outputs **ret)
{
	_cleanup_(outputs_cleanup) struct outputs *os = calloc(1, sizeof(*os));
	struct error *err;

	if (!os)
		return &err_nomem;
	os->export = o->export;
	os->dsn = o->dsn;
	os->hold_stdout = o->hold_stdout;
	os->held_last = &os->held;
	err = add_all(os, o);
	if (err)
		return err;
	*ret = take(os);
	return NULL;
}

static void streams_close(struct outputs *os)
{
	for (size_t i = 0; i < os->n_streams; i++) {
		struct stream *s = &os->streams[i];

		if (s->open)
			s->format->close(s->state);
		s->open = false;
	}
}

void outputs_destroy(struct outputs *os)
{
	struct delivery *next;

	if (!os)
		return;
	writer_destroy(os->writer);
	streams_close(os);
	for (struct delivery *d = os->held; d; d = next) {
		next = d->next;
		delivery_free(d);
	}
	for (size_t i = 0; i < os->n_claimed; i++)
		free(os->claimed[i]);
	free(os->claimed);
	free(os->program);
	free(os->v);
	free(os);
}

/* Marks in the directory: its name is not known before the program runs. */
static bool directory_is_open(const char *pattern)
{
	const char *mark = strchr(pattern, '%'), *slash = strrchr(pattern, '/');

	return mark && slash && mark < slash;
}

struct error *outputs_check(const struct outputs *os, const struct output_names *names)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < os->n; i++) {
		_cleanup_free_ char *path = NULL;
		bool numbered;

		if (os->v[i].sink != DELIVERY_FILE || directory_is_open(os->v[i].pattern))
			continue;
		err = output_pattern_expand(os->v[i].pattern, names, 1, &path, &numbered);
		if (!err)
			err = output_file_check(path);
		if (err && !os->v[i].replace)
			err = error_todo(err, "name another place: -o /tmp/%%e%s", os->v[i].format->suffix);
	}
	return err;
}

/* ---- names ---- */

static bool is_claimed(const struct outputs *os, const char *path)
{
	for (size_t i = 0; i < os->n_claimed; i++)
		if (strcmp(os->claimed[i], path) == 0)
			return true;
	return false;
}

/* A name that this run has not used yet: "x.envelope", "x.2.envelope", ... */
static struct error *claim(struct outputs *os, const struct output *o, uint32_t window, char **ret)
{
	_cleanup_free_ char *base = NULL, *name = NULL;
	char **v;
	bool numbered;
	struct error *err = output_pattern_expand(o->pattern, &os->names, window, &base, &numbered);

	if (err)
		return err;
	name = strdup(base);
	for (uint32_t i = window > 1 && !numbered ? window : 2; name && is_claimed(os, name); i++) {
		free(name);
		name = output_numbered(base, o->format->suffix, i);
	}
	v = reallocarray(os->claimed, os->n_claimed + 1, sizeof(*v));
	if (v)
		os->claimed = v;
	*ret = name ? strdup(name) : NULL;
	if (!v || !*ret) {
		free(*ret);
		*ret = NULL;
		return &err_nomem;
	}
	os->claimed[os->n_claimed++] = take(name);
	return NULL;
}

/* ---- delivering ---- */

/* `b` is copied, or taken where nobody else wants it: an envelope may have 50 MB. */
static struct error *send_to(struct outputs *os, size_t i, struct buf *b, bool copy, uint32_t number)
{
	const struct output *o = &os->v[i];
	struct delivery *d = calloc(1, sizeof(*d));
	struct error *err = NULL;

	if (!d)
		return &err_nomem;
	*d = (struct delivery){ .sink = o->sink, .format = o->format, .number = number,
				.output = (uint32_t)i, .replace = o->replace, .len = b->len };
	d->data = copy ? malloc(b->len) : buf_take(b);
	if (!d->data)
		err = &err_nomem;
	if (!err && o->sink != DELIVERY_STDOUT)
		err = claim(os, o, number, &d->path);
	if (err) {
		delivery_free(d);
		return err;
	}
	if (copy)
		memcpy(d->data, b->data, b->len);
	if (o->sink != DELIVERY_STDOUT || !os->hold_stdout) {
		writer_put(os->writer, d);
		return NULL;
	}
	*os->held_last = d;
	os->held_last = &d->next;
	return NULL;
}

static struct error *send_all(struct outputs *os, struct stream *s, struct buf *b)
{
	struct error *err = buf_error(b);
	size_t last = os->n;

	if (err || !b->len)
		return err;
	s->numbers++;
	while (last && os->v[last - 1].format != s->format)
		last--;
	for (size_t i = 0; !err && i < last; i++)
		if (os->v[i].format == s->format)
			err = send_to(os, i, b, i + 1 < last, s->numbers);
	return err;
}

struct error *outputs_begin(struct outputs *os, const struct output_names *names)
{
	struct error *err = os->writer ? NULL : writer_create(os->dsn, &os->writer);
	char *program;

	if (err)
		return err;
	program = strdup(names->program);
	if (!program)
		return &err_nomem;
	writer_set_bounded(os->writer, true);
	free(os->program);
	os->program = program;
	os->names = *names;
	os->names.program = program;
	memset(os->health, 0, sizeof(os->health));
	for (size_t i = 0; !err && i < os->n_streams; i++) {
		struct stream *s = &os->streams[i];

		err = s->format->open(&os->export, &s->state);
		s->open = !err;
		s->numbers = 0;
	}
	return err;
}

struct error *outputs_window(struct outputs *os, const struct window *w)
{
	for (size_t i = 0; i < os->n_streams; i++) {
		struct stream *s = &os->streams[i];
		_cleanup_(buf_deinit) struct buf b = { 0 };
		uint64_t start = system_clock.mono(&system_clock);
		struct error *err;

		buf_init(&b);
		err = s->format->window(s->state, w, &os->export, &b);
		log_info("output", "window %u as %s: %zu bytes in %llu us", w->number, s->format->name,
			 b.len, (unsigned long long)(system_clock.mono(&system_clock) - start) / 1000);
		/* No goroutine was seen twice: there is nothing that the service would take. */
		if (!err && s->format->per_window && !b.len)
			os->silent++;
		if (!err)
			err = send_all(os, s, &b);
		if (err)
			return err;
	}
	os->windows++;
	return NULL;
}

void outputs_hurry(struct outputs *os)
{
	if (os->writer)
		writer_set_bounded(os->writer, false);
}

struct error *outputs_end(struct outputs *os, bool keep)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && keep && i < os->n_streams; i++) {
		struct stream *s = &os->streams[i];
		_cleanup_(buf_deinit) struct buf b = { 0 };

		buf_init(&b);
		err = s->open ? s->format->finish(s->state, &b) : NULL;
		if (!err)
			err = send_all(os, s, &b);
		if (s->open && s->format->health)
			s->format->health(s->state, os->health);
	}
	streams_close(os);
	return err;
}

void outputs_health(const struct outputs *os, uint64_t health[HEALTH_COUNT])
{
	for (uint32_t i = 0; i < HEALTH_COUNT; i++)
		health[i] += os->health[i];
}

bool outputs_have(const struct outputs *os, const struct output_format *format)
{
	for (size_t i = 0; i < os->n; i++)
		if (os->v[i].format == format)
			return true;
	return false;
}

uint32_t outputs_silent(const struct outputs *os)
{
	return os->silent;
}

/* ---- the end ---- */

static struct error *copy_error(const struct error *err)
{
	struct error *copy = error_new(err->kind, "%s", err->what);

	if (err->why)
		error_why(copy, "%s", err->why);
	return err->todo ? error_todo(copy, "%s", err->todo) : copy;
}

/* "2 of 7 windows could not be sent to HOST": one error for all of them. */
static struct error *network_error(const struct outputs *os)
{
	const struct error *first = NULL;
	unsigned int all = 0, kept = 0, lost = 0;
	struct error *err;

	for (const struct delivery *d = writer_deliveries(os->writer); d; d = d->next) {
		if (d->sink != DELIVERY_SERVICE)
			continue;
		all++;
		kept += d->state == DELIVERY_KEPT;
		lost += d->state == DELIVERY_LOST;
		if (!first && d->error)
			first = d->error;
	}
	if (!first)
		return NULL;
	err = error_new(ERROR_NETWORK, "%u of %u windows could not be sent to %s: %s", kept + lost, all,
			os->dsn->host, lost ? "not all could be kept" : "kept as files");
	return error_why(err, "%s%s%s", first->what, first->why ? ": " : "", first->why ? first->why : "");
}

static struct error *output_error(const struct outputs *os)
{
	for (const struct delivery *d = writer_deliveries(os->writer); d; d = d->next)
		if (d->sink != DELIVERY_SERVICE && d->error)
			return copy_error(d->error);
	return NULL;
}

struct error *outputs_finish(struct outputs *os, bool (*drop)(void *ctx), void *ctx, bool *dropped)
{
	struct error *err;

	*dropped = false;
	if (!os->writer)
		return NULL;
	while (os->held) {
		struct delivery *d = os->held;

		os->held = d->next;
		writer_put(os->writer, d);
	}
	os->held_last = &os->held;
	if (!writer_join(os->writer, drop, ctx)) {
		*dropped = true;
		return NULL;
	}
	err = output_error(os);
	return err ? err : network_error(os);
}

const struct delivery *outputs_deliveries(const struct outputs *os)
{
	return os->writer ? writer_deliveries(os->writer) : NULL;
}

uint32_t outputs_windows(const struct outputs *os)
{
	return os->windows;
}
