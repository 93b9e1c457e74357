/*
 * output_writer.h: the thread that carries finished bytes away, to files, to stdout or to the
 * service, so that a slow disk or network holds up nobody. It gets bytes only, and of those while a
 * recording goes on no more than WRITER_MOST: more than that waits where it can be lost and told.
 */
#ifndef GOPROF_CMD_OUTPUT_WRITER_H
#define GOPROF_CMD_OUTPUT_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct dsn;
struct output_format;

enum delivery_sink { DELIVERY_FILE, DELIVERY_STDOUT, DELIVERY_SERVICE };

enum delivery_state {
	DELIVERY_WAITING,
	DELIVERY_DONE,
	DELIVERY_KEPT,		/* not sent, but kept as a file */
	DELIVERY_LOST,		/* neither */
};

/* One piece of output on its way. The writer owns and frees it. */
struct delivery {
	struct delivery *next;
	enum delivery_sink sink;
	const struct output_format *format;
	uint32_t number;	/* of the window, or 1 */
	uint32_t output;	/* which -o it belongs to, see outputs.c */
	char *path;		/* of the file; for the service: where it is kept when it is refused */
	bool replace;		/* may an existing file be replaced? else another number is taken */
	void *data;
	size_t len;
	/* out, valid once the writer has ended */
	enum delivery_state state;
	struct error *error;	/* why it is not DONE */
};

struct writer;

/* Bytes on their way at once; a single piece may have more. */
enum { WRITER_MOST = 32 << 20 };

/* `dsn` is borrowed, NULL when nothing is sent. */
struct error *writer_create(const struct dsn *dsn, struct writer **ret);
/* Ends the thread after what it is doing and forgets the rest. NULL is fine. */
void writer_destroy(struct writer *w);

/* One that was not given to a writer; a writer frees its own. */
void delivery_free(struct delivery *d);

/* Takes `d` over. Of a writer that is bounded, waits while there would be more than WRITER_MOST with it. */
void writer_put(struct writer *w, struct delivery *d);
/* From any thread. A new one is not; once it is no longer, whoever waits goes on. */
void writer_set_bounded(struct writer *w, bool bounded);
/*
 * Waits until everything is delivered, asking `drop` ten times a second; when it says yes, waits
 * no longer and returns false: then the writer (and what it borrowed) must be left alone until
 * the process ends.
 */
bool writer_join(struct writer *w, bool (*drop)(void *ctx), void *ctx);
/* After a join: all deliveries in the order they were put. Borrowed. */
const struct delivery *writer_deliveries(const struct writer *w);

#endif
