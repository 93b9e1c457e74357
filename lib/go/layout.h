/*
 * layout.h: where the members of the runtime's structs stand, as data.
 *
 * One generated row per Go minor version (layout_table.inc, from DWARF by scripts/gen-layouts), more
 * where a patch release moved a member;
 * always checked against the running process before it is believed (go_runtime_check). Each field
 * says where its offset came from, because proof in the process and DWARF fill rows too.
 */
#ifndef GOPROF_GO_LAYOUT_H
#define GOPROF_GO_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

enum go_field {
#define X(name, strct, member) GO_##name,
#include "go/layout_fields.inc"
#undef X
	GO_FIELD_COUNT,
};

enum go_source {
	GO_SOURCE_NONE,
	GO_SOURCE_ROW,		/* generated row of this minor version */
	GO_SOURCE_CALIBRATED,	/* found by the invariants in the running process */
	GO_SOURCE_DWARF,	/* the program's own debug information */
	GO_SOURCE_SYMBOL,	/* symbol table (globals) */
	GO_SOURCE_CODE,		/* operands of the runtime's instructions (globals) */
	GO_SOURCE_DATA,		/* search in its data (globals) */
};

const char *go_source_name(enum go_source s);

struct go_field_at {
	int32_t offset;		/* -1: this version has no such member, or (source NONE) unknown */
	uint32_t size;		/* of the member, bytes */
	enum go_source source;
};

struct go_layout {
	struct go_field_at f[GO_FIELD_COUNT];
};

/* What is known well enough to be used. Every consumer asks the bit, never the version. */
enum go_cap {
	GO_CAP_PCLNTAB		= 1 << 0,	/* functions, lines, stack deltas */
	GO_CAP_G_LAYOUT		= 1 << 1,	/* g and m members */
	GO_CAP_ALLGS		= 1 << 2,
	GO_CAP_ALLM		= 1 << 3,
	GO_CAP_LABELS		= 1 << 4,
	GO_CAP_WAITREASON_NAMES	= 1 << 5,
	GO_CAP_TRACKINGSEQ	= 1 << 6,	/* the counter of parks exists (1.17+); system calls it counts before 1.26 only */
	GO_CAP_PARENT_GOID	= 1 << 7,
	GO_CAP_SCHED		= 1 << 8,
	GO_CAP_MEMSTATS		= 1 << 9,
};

/* The generated row for the newest releases of a minor version (19 for go1.19), or false. All sources are ROW. */
bool go_layout_row(int minor, struct go_layout *ret);
/* That for one release, go1.MINOR.PATCH; patch -1 (betas, development): as the first one. */
bool go_layout_row_of(int minor, int patch, struct go_layout *ret);
/* Minor versions that have a row, ascending; n out. */
const int *go_layout_minors(int *n);
/* Which toolchain the row of a release was read from ("go1.26.10"); NULL when there is no row. */
const char *go_layout_row_origin(int minor, int patch);
/* How many wait reasons that release has (the length of its table of texts); 0 when there is no row. */
uint32_t go_layout_wait_reasons(int minor, int patch);

static inline bool go_has(const struct go_layout *l, enum go_field f)
{
	return l->f[f].offset >= 0;
}

#endif
