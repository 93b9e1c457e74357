/*
 * output_format.c: the formats that goprof writes. A new one is a row and, where the exporter's
 * own calls do not fit, an adapter of a few lines.
 */
#include "cmd/output_format.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "sentry/sentry.h"

/* ---- pprof: one file for all windows ---- */

static struct error *open_pprof(const struct export_options *o, void **ret)
{
	struct pprof *x;
	struct error *err = pprof_create(o, &x);

	if (!err)
		*ret = x;
	return err;
}

static struct error *window_pprof(void *state, const struct window *w,
				  const struct export_options *o, struct buf *out)
{
	(void)o;
	(void)out;
	return pprof_window(state, w);
}

static struct error *finish_pprof(void *state, struct buf *out)
{
	struct buf_sink s = buf_sink_to(out);

	return pprof_finish(state, &s.sink);
}

static void health_pprof(const void *state, uint64_t health[HEALTH_COUNT])
{
	pprof_health(state, health);
}

static void close_pprof(void *state)
{
	pprof_destroy(state);
}

const struct output_format output_pprof = {
	.name = "pprof", .suffix = ".pb.gz", .per_window = false,
	.open = open_pprof, .window = window_pprof, .finish = finish_pprof,
	.health = health_pprof, .close = close_pprof,
};

/* ---- Sentry envelopes: one per window ---- */

static struct error *open_envelope(const struct export_options *o, void **ret)
{
	(void)o;
	*ret = NULL;
	return NULL;
}

static void keep_most(uint32_t *most, uint32_t n)
{
	if (*most < n)
		*most = n;
}

static void keep_most_of_each(struct export_counts *most, const struct export_counts *c)
{
	keep_most(&most->goroutines, c->goroutines);
	keep_most(&most->threads, c->threads);
	keep_most(&most->shared, c->shared);
}

static void add_told(struct export_told *told, const struct sentry_v1 *v)
{
	told->windows++;
	told->thinned += v->thinned;
	told->too_big += v->too_big;
	told->cut = told->cut || v->cut;
	told->labelled = told->labelled || v->labelled;
	if (told->bytes < v->profile_len)
		told->bytes = v->profile_len;
	keep_most_of_each(&told->grouped, &v->grouped);
	keep_most_of_each(&told->left_out, &v->left_out);
}

static struct error *window_envelope(void *state, const struct window *w,
				     const struct export_options *o, struct buf *out)
{
	struct buf_sink to = buf_sink_to(out);
	struct sentry_v1 v;
	struct error *err = sentry_v1_build(w, o, &v);

	(void)state;
	if (err && err->kind == ERROR_NOT_FOUND) {
		log_info("envelope", "window %u: no goroutine was seen twice, nothing to tell",
			 w->number);
		error_free(err);
		return NULL;
	}
	if (err)
		return err;
	err = envelope_write(&v, NULL, &to.sink);
	if (!err && o->told)
		add_told(o->told, &v);
	sentry_v1_deinit(&v);
	return err;
}

static struct error *finish_envelope(void *state, struct buf *out)
{
	(void)state;
	(void)out;
	return NULL;
}

static void close_envelope(void *state)
{
	(void)state;
}

const struct output_format output_envelope = {
	.name = "envelope", .suffix = ".envelope", .per_window = true,
	.open = open_envelope, .window = window_envelope, .finish = finish_envelope,
	.close = close_envelope,
};

/* ---- choosing ---- */

static const struct output_format *const formats[] = { &output_pprof, &output_envelope };

/* Other endings in use for the same bytes. */
static const struct {
	const char *suffix;
	const struct output_format *format;
} endings[] = {
	{ ".pb.gz", &output_pprof }, { ".pprof", &output_pprof }, { ".prof", &output_pprof },
	{ ".envelope", &output_envelope },
};

static bool ends_with(const char *s, const char *tail)
{
	size_t len = strlen(s), n = strlen(tail);

	return len >= n && strcmp(s + len - n, tail) == 0;
}

struct error *output_format_of(const char *spec, const struct output_format **ret, const char **path)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		size_t len = strlen(formats[i]->name);

		if (strncmp(spec, formats[i]->name, len) != 0 || spec[len] != ':' || !spec[len + 1])
			continue;
		*ret = formats[i];
		*path = spec + len + 1;
		return NULL;
	}
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		if (!ends_with(spec, endings[i].suffix))
			continue;
		*ret = endings[i].format;
		*path = spec;
		return NULL;
	}
	if (strcmp(spec, "-") == 0) {
		*ret = &output_pprof;
		*path = spec;
		return NULL;
	}
	return error_todo(error_new(ERROR_OUTPUT, "-o %s: the name does not tell the format", spec),
			  "-o %s.pb.gz for pprof, -o %s.envelope for Sentry, or -o pprof:%s", spec, spec,
			  spec);
}
