/*
 * dwarf_layout.c: members of structs from DWARF, through libdw.
 *
 * Versions 4 and 5 and both ways of compressing sections are libdw's business. Types of a Go program
 * stand directly below their compilation unit. Everything is freed at the end. Loops are bounded by
 * the number of entries, memory by the limit for the sections (dwarf_file.c).
 *
 * Must not know Go. Upstream: DWARF 5, chapters 5.7 (structures) and 7.27 (names and forms).
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <string.h>

#include "base/cleanup.h"
#include "image/dwarf_file.h"
#include "image/dwarf_layout.h"

enum {
	TYPES_MAX = 1 << 22,	/* entries looked at below all units */
	MEMBERS_MAX = 4096,	/* of one struct */
	NESTED_MAX = 8,		/* typedefs and qualifiers around a type */
};

static const struct dwarf_limit limit = { .bytes = 1ull << 30, .line_factor = 1 };

/* ---- types ---- */

/* What a type is behind its other names; false: not known. */
static bool real_type(Dwarf_Die *of, Dwarf_Die *ret)
{
	Dwarf_Attribute a;

	if (!dwarf_attr(of, DW_AT_type, &a) || !dwarf_formref_die(&a, ret))
		return false;
	for (int i = 0; i < NESTED_MAX; i++) {
		int tag = dwarf_tag(ret);

		if (tag != DW_TAG_typedef && tag != DW_TAG_const_type && tag != DW_TAG_volatile_type)
			return true;
		if (!dwarf_attr(ret, DW_AT_type, &a) || !dwarf_formref_die(&a, ret))
			return false;
	}
	return false;
}

static bool location(Dwarf_Die *member, uint64_t *ret)
{
	Dwarf_Attribute a;
	Dwarf_Word v;
	Dwarf_Op *op;
	size_t n;

	if (!dwarf_attr(member, DW_AT_data_member_location, &a))
		return false;
	if (dwarf_formudata(&a, &v) == 0)
		*ret = v;
	else if (dwarf_getlocation(&a, &op, &n) == 0 && n == 1 && op[0].atom == DW_OP_plus_uconst)
		*ret = op[0].number;
	else
		return false;
	return true;
}

/* The member with this name; len of it. */
static bool member_find(Dwarf_Die *strct, const char *name, size_t len, Dwarf_Die *ret)
{
	int more = dwarf_child(strct, ret);

	for (int i = 0; more == 0 && i < MEMBERS_MAX; i++, more = dwarf_siblingof(ret, ret)) {
		const char *is = dwarf_tag(ret) == DW_TAG_member ? dwarf_diename(ret) : NULL;

		if (is && strlen(is) == len && memcmp(is, name, len) == 0)
			return true;
	}
	return false;
}

/* Follows the path; true: offset and size are known. */
static bool member_place(Dwarf_Die *strct, const char *path, uint64_t *offset, Dwarf_Word *size)
{
	Dwarf_Die at = *strct, member;

	*offset = 0;
	if (strcmp(path, "<sizeof>") == 0) {
		if (dwarf_aggregate_size(&at, size))
			return false;
		*offset = *size;
		return true;
	}
	while (*path) {
		size_t len = strcspn(path, ".");
		uint64_t here;

		if (dwarf_tag(&at) != DW_TAG_structure_type || !member_find(&at, path, len, &member) ||
		    !location(&member, &here) || !real_type(&member, &at))
			return false;
		*offset += here;
		path += len + (path[len] == '.');
	}
	return dwarf_aggregate_size(&at, size) == 0;
}

static void answer(Dwarf_Die *type, struct dwarf_member *v, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t offset;
		Dwarf_Word size;

		if (v[i].offset >= 0 || strcmp(v[i].strct, name) != 0 ||
		    !member_place(type, v[i].member, &offset, &size) || offset > INT32_MAX || size > INT32_MAX)
			continue;
		v[i].offset = (int32_t)offset;
		v[i].size = (uint32_t)size;
	}
}

/* How many different structs are asked for; the walk is over when all have come. */
static size_t count_structs(const struct dwarf_member *v, size_t n)
{
	size_t structs = 0;

	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < i && strcmp(v[k].strct, v[i].strct) != 0)
			k++;
		structs += k == i;
	}
	return structs;
}

static bool is_asked(const struct dwarf_member *v, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(v[i].strct, name) == 0)
			return true;
	return false;
}

struct type_walk {
	struct dwarf_member *v;
	size_t n, left;		/* left: structs that have not been met */
	uint32_t looked_at;
};

static void unit_walk(struct type_walk *w, Dwarf_Die *unit)
{
	Dwarf_Die die;
	int more = dwarf_child(unit, &die);

	for (; more == 0 && w->left && w->looked_at < TYPES_MAX; more = dwarf_siblingof(&die, &die)) {
		const char *name;

		w->looked_at++;
		if (dwarf_tag(&die) != DW_TAG_structure_type)
			continue;
		name = dwarf_diename(&die);
		if (!name || !is_asked(w->v, w->n, name) || dwarf_hasattr(&die, DW_AT_declaration))
			continue;
		answer(&die, w->v, w->n, name);
		w->left--;
	}
}

static struct error *types_walk(Dwarf *dwarf, struct type_walk *w)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;
	uint8_t unit_type;
	int more;

	while (w->left && w->looked_at < TYPES_MAX &&
	       (more = dwarf_get_units(dwarf, cu, &cu, NULL, &unit_type, &unit, NULL)) != 1) {
		if (more != 0)
			return &err_corrupt;
		unit_walk(w, &unit);
	}
	return NULL;
}

struct error *image_dwarf_members(struct image *img, struct dwarf_member *v, size_t n)
{
	_cleanup_(dwarf_file_close) struct dwarf_file file = { .fd = -1 };
	struct type_walk w = { .v = v, .n = n, .left = count_structs(v, n) };
	struct error *err;
	uint64_t bytes;

	for (size_t i = 0; i < n; i++)
		v[i].offset = -1;
	err = dwarf_file_open(img, &limit, &file, &bytes);
	return err ? err : types_walk(file.dwarf, &w);
}
