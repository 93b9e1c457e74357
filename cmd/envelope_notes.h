/*
 * envelope_notes.h: what people are told about envelopes that do not hold everything.
 */
#ifndef GOPROF_CMD_ENVELOPE_NOTES_H
#define GOPROF_CMD_ENVELOPE_NOTES_H

#include <stdbool.h>

#include "base/buf.h"
#include "export/export.h"

struct options;

/* A line for each thing, or nothing. `wanted`: envelopes are among the outputs. */
void envelope_notes_text(const struct options *o, const struct export_told *told, bool wanted, struct buf *b);

#endif
