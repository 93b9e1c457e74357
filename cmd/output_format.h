/*
 * output_format.h: one row per format: how a window becomes bytes. Which file or service the
 * bytes go to is not known here (outputs.c, output_writer.c).
 */
#ifndef GOPROF_CMD_OUTPUT_FORMAT_H
#define GOPROF_CMD_OUTPUT_FORMAT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "export/export.h"

struct window;

struct output_format {
	const char *name;	/* "pprof" */
	const char *suffix;	/* ".pb.gz" */
	bool per_window;	/* bytes at each window; else once, at the end */
	struct error *(*open)(const struct export_options *o, void **ret);
	/* Adds what this window gives to `out`; nothing when it gives nothing. */
	struct error *(*window)(void *state, const struct window *w, const struct export_options *o,
				struct buf *out);
	struct error *(*finish)(void *state, struct buf *out);
	/* Sets health figures that it alone can tell; NULL: none. */
	void (*health)(const void *state, uint64_t health[HEALTH_COUNT]);
	void (*close)(void *state);
};

extern const struct output_format output_pprof, output_envelope;

/* The format of "NAME.pb.gz", "pprof:NAME"; *path is the name without the prefix. ERROR_OUTPUT. */
struct error *output_format_of(const char *spec, const struct output_format **ret, const char **path);

#endif
