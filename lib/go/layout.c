/*
 * layout.c: the generated table of struct layouts, by Go version.
 *
 * The rows are data (layout_table.inc, written by scripts/gen-layouts from DWARF); this file only
 * hands them out. It must not know whether a row fits the process at hand: patch releases can move
 * members, so go_runtime_check asks the process before anybody believes a row.
 *
 * Upstream: src/runtime/runtime2.go, symtab.go; funcIDs: src/internal/abi/symtab.go
 * (before 1.21 src/cmd/internal/objabi/funcid.go).
 */
#include <limits.h>

#include "go/go_impl.h"

struct layout_row {
	int minor, from;	/* holds from this patch release on */
	const char *origin;
	uint32_t wait_reasons;
	struct {
		int32_t offset;
		uint32_t size;
	} f[GO_FIELD_COUNT];
};

static const struct layout_row rows[] = {
#include "go/layout_table.inc"
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

/* Rows of one minor version stand in the order of their releases. */
static const struct layout_row *row_of(int minor, int patch)
{
	const struct layout_row *row = NULL;

	for (int i = 0; i < N_ROWS; i++)
		if (rows[i].minor == minor && (!row || rows[i].from <= patch))
			row = &rows[i];
	return row;
}

bool go_layout_row(int minor, struct go_layout *ret)
{
	return go_layout_row_of(minor, INT_MAX, ret);
}

bool go_layout_row_of(int minor, int patch, struct go_layout *ret)
{
	const struct layout_row *row = row_of(minor, patch);

	if (!row)
		return false;
	for (int i = 0; i < GO_FIELD_COUNT; i++) {
		/* No member is 0 bytes long: a row that was not regenerated has not got the field. */
		bool known = row->f[i].offset >= 0 && row->f[i].size > 0;

		ret->f[i] = (struct go_field_at){
			.offset = known ? row->f[i].offset : -1,
			.size = known ? row->f[i].size : 0,
			.source = GO_SOURCE_ROW,
		};
	}
	return true;
}

/* Kept beside the table because callers get an array of ints; a unit test compares the two. */
static const int minors[] = { 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27 };

const int *go_layout_minors(int *n)
{
	*n = sizeof(minors) / sizeof(minors[0]);
	return minors;
}

const char *go_layout_row_origin(int minor, int patch)
{
	const struct layout_row *row = row_of(minor, patch);

	return row ? row->origin : NULL;
}

uint32_t go_layout_wait_reasons(int minor, int patch)
{
	const struct layout_row *row = row_of(minor, patch);

	return row ? row->wait_reasons : 0;
}

/* The number changes whenever a special function is added before it in the list of funcIDs. */
static const struct {
	int first, last;
	uint8_t id;
} wrapper_ids[] = {
	{ 15, 17, 22 },
	{ 18, 21, 21 },
	{ 22, 24, 22 },
	{ 25, 27, 23 },
};

uint8_t go_wrapper_func_id(int minor)
{
	for (size_t i = 0; i < sizeof(wrapper_ids) / sizeof(wrapper_ids[0]); i++)
		if (minor >= wrapper_ids[i].first && minor <= wrapper_ids[i].last)
			return wrapper_ids[i].id;
	return UINT8_MAX;	/* no function has it: wrappers are shown rather than others hidden */
}

const char *go_source_name(enum go_source s)
{
	static const char *const names[] = {
		[GO_SOURCE_NONE] = "not found",
		[GO_SOURCE_ROW] = "table",
		[GO_SOURCE_CALIBRATED] = "calibration",
		[GO_SOURCE_DWARF] = "debug information",
		[GO_SOURCE_SYMBOL] = "symbol table",
		[GO_SOURCE_CODE] = "code",
		[GO_SOURCE_DATA] = "search in data",
	};

	return (size_t)s < sizeof(names) / sizeof(names[0]) ? names[s] : "unknown";
}
