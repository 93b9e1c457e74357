/*
 * dump_text.h: what goprof dump prints of a snapshot.
 */
#ifndef GOPROF_CMD_DUMP_TEXT_H
#define GOPROF_CMD_DUMP_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "sample/snapshot.h"
#include "symbol/symbol.h"

/* Borrowed. */
struct dump_text {
	struct go_runtime *runtime;
	struct symbols *symbols;
	bool system;		/* the runtime's own goroutines too */
	bool labels;
};

/* Takes what stands in the buffer so far and clears it. */
typedef struct error *dump_text_full(void *ctx, struct buf *b);

/*
 * Adds all goroutines to `out`, a line between them. `full` is called now and then to keep it
 * small (NULL: never); the caller takes what is left at the end. *shown: how many there are.
 */
struct error *dump_text(const struct dump_text *in, const struct snapshot *s, struct buf *out,
			dump_text_full *full, void *ctx, uint32_t *shown);

#endif
