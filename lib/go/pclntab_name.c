/*
 * pclntab_name.c: from a name to its functions.
 *
 * Names stand in their table once each, so one pass over its bytes finds the offset, and one over
 * the functions' name offsets (4 bytes a function, kept from the first search on) finds all that
 * carry it: a wrapper between calling conventions has the name of what it wraps.
 *
 * Upstream: cmd/link/internal/ld/pcln.go (generateFuncnametab).
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "go/pclntab_impl.h"

enum { SEARCH_CHUNK = 64 * 1024, SEARCH_NAME_MAX = 4096 };

/* The name offset of every function; 0 (the empty name) where the record is no good. */
static const uint32_t *names_load(struct go_runtime *rt, uint32_t module)
{
	const struct go_module *m = &rt->modules[module];
	struct module_cache *mc = module_cache_get(rt, module);
	uint32_t at = (uint32_t)pclntab_shape(m->format)->func.name;

	if (!mc || mc->names)
		return mc ? mc->names : NULL;
	mc->names = calloc((size_t)m->nfunc, sizeof(*mc->names));
	for (uint64_t i = 0; mc->names && i < m->nfunc; i++) {
		uint64_t offset = (uint64_t)mc->ftab[i].func + at;

		if (offset + sizeof(*mc->names) > m->functab_size ||
		    image_read(m->image, m->functab + offset, &mc->names[i], sizeof(*mc->names)))
			mc->names[i] = 0;
	}
	return mc->names;
}

/* Where `needle`, which begins and ends with NUL, stands in a table of strings; UINT64_MAX: nowhere. */
static uint64_t strings_search(struct image *img, gaddr_t table, uint64_t size, const char *needle,
			       size_t len)
{
	_cleanup_free_ char *buf = malloc(SEARCH_CHUNK + SEARCH_NAME_MAX);
	uint64_t offset = 0;

	while (buf && offset + len <= size) {
		uint64_t left = size - offset;
		size_t want = left < SEARCH_CHUNK + SEARCH_NAME_MAX ? left : SEARCH_CHUNK + SEARCH_NAME_MAX;
		size_t got = image_read_some(img, table + offset, buf, want);
		const char *hit = memmem(buf, got, needle, len);

		if (hit)
			return offset + (uint64_t)(hit - buf);
		if (got < want)
			break;
		offset += SEARCH_CHUNK;
	}
	return UINT64_MAX;
}

/* The offset of a name in a module's table; UINT64_MAX: it has no such name. */
static uint64_t name_offset(const struct go_module *m, const char *name)
{
	char needle[SEARCH_NAME_MAX] = { 0 };
	size_t len = strlen(name);
	uint64_t at;

	if (len == 0 || len > sizeof(needle) - 2)
		return UINT64_MAX;
	memcpy(needle + 1, name, len);
	/* The table's first string has no NUL before it. */
	if (m->funcnametab_size > len) {
		char first[SEARCH_NAME_MAX];

		if (!image_read(m->image, m->funcnametab, first, len + 1) && memcmp(first, needle + 1, len + 1) == 0)
			return 0;
	}
	at = strings_search(m->image, m->funcnametab, m->funcnametab_size, needle, len + 2);
	return at == UINT64_MAX ? at : at + 1;
}

/* The next function of one module with this name at or behind index `from`. */
static bool module_search(struct go_runtime *rt, uint32_t module, const char *name, uint32_t from,
			  uint32_t *index, struct go_func *ret)
{
	const struct go_module *m = &rt->modules[module];
	uint64_t offset = name_offset(m, name);
	const uint32_t *names = offset <= UINT32_MAX ? names_load(rt, module) : NULL;

	for (uint64_t i = from; names && i < m->nfunc; i++) {
		if (names[i] != (uint32_t)offset || !func_by_index(rt, module, (uint32_t)i, ret) ||
		    ret->name_off != (uint32_t)offset)
			continue;
		*index = (uint32_t)i;
		return true;
	}
	return false;
}

bool go_func_by_name(struct go_runtime *rt, const char *name, uint32_t *pos, struct go_func *ret)
{
	uint64_t base = 0;	/* functions of the modules before this one */

	for (uint32_t i = 0; i < rt->n_modules; i++) {
		uint64_t nfunc = rt->modules[i].nfunc;
		uint32_t from = *pos > base ? (uint32_t)(*pos - base) : 0, index;

		if (from < nfunc && module_search(rt, i, name, from, &index, ret)) {
			*pos = (uint32_t)(base + index + 1);
			return true;
		}
		base += nfunc;
	}
	return false;
}
