/*
 * goroutine_text.h: one goroutine as Go's own tracebacks print it (runtime.Stack, SIGQUIT,
 * pprof's debug=2), so that every reader of such dumps takes it. Pure text.
 */
#ifndef GOPROF_CMD_GOROUTINE_TEXT_H
#define GOPROF_CMD_GOROUTINE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "go/goroutine.h"
#include "symbol/symbol.h"

/* The go statement. */
struct goroutine_text_creator {
	const char *function;	/* as printed */
	const char *file;
	uint32_t line;
	uint64_t offset;	/* of the return address in the function; 0: not shown */
	uint64_t parent;	/* goid; 0 unknown */
};

struct goroutine_text_in {
	int go_minor;		/* decides how long stacks are shortened */
	uint64_t goid;
	const char *status;	/* "IO wait", "running" */
	bool leaked, scan, locked;
	int64_t minutes;	/* blocked for; 0: not shown */
	const struct go_label *labels;	/* n_labels of them, to be shown */
	size_t n_labels;
	bool labels_unknown;
	/* All logical frames, leaf first, with the offset of their pc in its function (0: not shown). */
	const struct symbol_frame *const *frames;
	const uint64_t *offsets;
	size_t n;
	bool cut;		/* deeper than was looked at */
	const char *missing;	/* why the outer frames are missing; NULL: they are not */
	const char *no_stack;	/* stands for a stack that cannot be told; NULL: there is one */
	const struct goroutine_text_creator *creator;	/* NULL: not shown */
};

/* Adds the goroutine's paragraph, without an empty line around it. */
void goroutine_text(struct buf *out, const struct goroutine_text_in *in);

#endif
