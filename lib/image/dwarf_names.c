/*
 * dwarf_names.c: functions, lines and inlined calls of C code, by libdw.
 *
 * What is too large for the limit (dwarf_file.c) stays closed, and the names come from symbols alone.
 *
 * Upstream: DWARF 4 and 5; elfutils libdw.h.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "image/code_names.h"
#include "image/dwarf_file.h"

enum {
	UNITS_MAX = 8192,	/* looked through where the file has no index of addresses */
	LINE_FACTOR = 8,	/* a row takes 40 bytes in memory, and most take three to five in the file */
};

struct dwarf_names {
	struct dwarf_file file;
};

/* ---- life ---- */

struct error *dwarf_names_open(struct image *img, uint64_t max_bytes, struct dwarf_names **ret, uint64_t *bytes)
{
	const struct dwarf_limit limit = { .bytes = max_bytes, .line_factor = LINE_FACTOR };
	struct dwarf_names *dn = calloc(1, sizeof(*dn));
	struct error *err = dn ? dwarf_file_open(img, &limit, &dn->file, bytes) : &err_nomem;

	if (!err) {
		*ret = dn;
		return NULL;
	}
	free(dn);
	if (err == &err_nomem)
		return err;
	error_free(err);
	return &err_notfound;
}

void dwarf_names_close(struct dwarf_names *dn)
{
	if (!dn)
		return;
	dwarf_file_close(&dn->file);
	free(dn);
}

/* ---- asking ---- */

/* The unit that describes pc. Without an index of addresses they are asked one by one. */
static bool unit_find(struct dwarf_names *dn, Dwarf_Addr pc, Dwarf_Die *ret)
{
	Dwarf_CU *cu = NULL;
	int n = 0;

	if (dwarf_addrdie(dn->file.dwarf, pc, ret))
		return true;
	while (n++ < UNITS_MAX && dwarf_get_units(dn->file.dwarf, cu, &cu, NULL, NULL, ret, NULL) == 0)
		if (dwarf_haspc(ret, pc) == 1)
			return true;
	return false;
}

static const char *name_of(Dwarf_Die *die)
{
	static const unsigned int linkage[] = { DW_AT_linkage_name, DW_AT_MIPS_linkage_name };
	const char *name = NULL;
	Dwarf_Attribute a;

	for (size_t i = 0; i < sizeof(linkage) / sizeof(*linkage) && !name; i++)
		name = dwarf_formstring(dwarf_attr_integrate(die, linkage[i], &a));
	if (!name)
		name = dwarf_diename(die);
	return name ? name : "";
}

/* The place of a call that was inlined, in the function around it. */
static void call_site(Dwarf_Die *unit, Dwarf_Die *die, struct dwarf_frame *f)
{
	Dwarf_Files *files;
	Dwarf_Attribute a;
	Dwarf_Word v;
	const char *name;
	size_t n;

	if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &a), &v) == 0 && v <= UINT32_MAX)
		f->line = (uint32_t)v;
	if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &a), &v) || dwarf_getsrcfiles(unit, &files, &n) || v >= n)
		return;
	name = dwarf_filesrc(files, (size_t)v, NULL, NULL);
	if (name)
		f->file = name;
}

/* The line of the instruction itself. */
static void line_at(Dwarf_Die *unit, Dwarf_Addr pc, struct dwarf_frame *f)
{
	Dwarf_Line *line = dwarf_getsrc_die(unit, pc);
	const char *file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
	int n;

	if (file)
		f->file = file;
	if (line && dwarf_lineno(line, &n) == 0 && n > 0)
		f->line = (uint32_t)n;
}

/* A function or an inlined call; *place is where in it pc stands, and becomes where it was called. */
static void fill_frame(Dwarf_Die *unit, Dwarf_Die *scope, struct dwarf_frame *place, struct dwarf_frame *ret)
{
	int line;

	*ret = *place;
	ret->function = name_of(scope);
	ret->inlined = dwarf_tag(scope) == DW_TAG_inlined_subroutine;
	if (dwarf_decl_line(scope, &line) == 0 && line > 0)
		ret->start_line = (uint32_t)line;
	*place = (struct dwarf_frame){ .file = "" };
	if (ret->inlined)
		call_site(unit, scope, place);
}

static bool is_function(Dwarf_Die *die)
{
	int tag = dwarf_tag(die);

	return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
}

/*
 * What encloses pc, innermost first, as far as the code is nested. (The first question also answers
 * with what encloses the *source* of an inlined function, so its first function is asked again.)
 */
static int scopes_find(Dwarf_Die *unit, Dwarf_Addr pc, Dwarf_Die **ret)
{
	_cleanup_free_ Dwarf_Die *scopes = NULL;
	int n = dwarf_getscopes(unit, pc, &scopes);

	for (int i = 0; i < n; i++)
		if (is_function(&scopes[i]))
			return dwarf_getscopes_die(&scopes[i], ret);
	return 0;
}

size_t dwarf_names_find(struct dwarf_names *dn, gaddr_t pc, struct dwarf_frame *out, size_t cap)
{
	struct dwarf_frame place = { .file = "" };
	_cleanup_free_ Dwarf_Die *scopes = NULL;
	Dwarf_Die unit;
	size_t n = 0;
	int count;

	if (!unit_find(dn, pc, &unit))
		return 0;
	line_at(&unit, pc, &place);
	count = scopes_find(&unit, pc, &scopes);
	for (int i = 0; i < count && n < cap; i++) {
		if (!is_function(&scopes[i]))
			continue;
		fill_frame(&unit, &scopes[i], &place, &out[n++]);
		if (!out[n - 1].inlined)
			return n;
	}
	return 0;	/* what holds it all was not found */
}
