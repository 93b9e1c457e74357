/*
 * pclntab_cache.c: what is kept in memory of the function tables, and for how long.
 *
 * Per module: the sorted table (8 bytes a function) and one byte of role, from the first question
 * on. Per runtime: two direct-mapped tables, pc -> function and function -> decoded record, in
 * which a collision replaces, so that their size is fixed; and the strings handed out, which live
 * as long as the runtime because callers keep the pointers. Everything else stays in the file.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "go/pclntab_impl.h"

enum { STRING_SHORT = 256, STRING_MAX = 64 * 1024 };

static void slots_clear(struct pclntab_cache *c)
{
	for (uint32_t i = 0; i < PC_SLOTS; i++)
		c->pcs[i].index = INDEX_NONE;
	for (uint32_t i = 0; i < FUNC_SLOTS; i++)
		c->funcs[i].index = INDEX_NONE;
}

struct error *pclntab_cache_create(struct pclntab_cache **ret)
{
	struct pclntab_cache *c = calloc(1, sizeof(*c));

	if (!c)
		return &err_nomem;
	map64_init(&c->by_offset);
	c->pcs = malloc(PC_SLOTS * sizeof(*c->pcs));
	c->funcs = malloc(FUNC_SLOTS * sizeof(*c->funcs));
	if (!c->pcs || !c->funcs) {
		pclntab_cache_destroy(c);
		return &err_nomem;
	}
	slots_clear(c);
	*ret = c;
	return NULL;
}

void pclntab_cache_destroy(struct pclntab_cache *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < GO_MODULES_MAX; i++) {
		free(c->modules[i].ftab);
		free(c->modules[i].roles);
		free(c->modules[i].names);
	}
	map64_deinit(&c->by_offset);
	free(c->strings);
	free(c->pcs);
	free(c->funcs);
	free(c);
}

/* Reads the sorted table and makes sure that it is sorted: a search in another one finds anything. */
static bool ftab_load(const struct go_module *m, struct ftab_entry *ftab)
{
	size_t whole = (size_t)m->nfunc * sizeof(*ftab);

	if (image_read(m->image, m->ftab, ftab, whole) ||
	    image_read(m->image, m->ftab + whole, &ftab[m->nfunc].entry, sizeof(ftab->entry)))
		return false;
	for (uint64_t i = 0; i < m->nfunc; i++)
		if (ftab[i].entry >= ftab[i + 1].entry)
			return false;
	return true;
}

static void module_cache_load(const struct go_module *m, struct module_cache *mc)
{
	mc->loaded = true;
	if (!pclntab_shape(m->format)->supported)
		return;
	mc->ftab = calloc((size_t)m->nfunc + 1, sizeof(*mc->ftab));
	mc->roles = malloc((size_t)m->nfunc);
	if (!mc->ftab || !mc->roles || !ftab_load(m, mc->ftab))
		return;
	memset(mc->roles, ROLE_UNKNOWN, (size_t)m->nfunc);
	mc->usable = true;
}

struct module_cache *module_cache_get(struct go_runtime *rt, uint32_t module)
{
	struct module_cache *mc = &rt->cache->modules[module];

	if (!mc->loaded)
		module_cache_load(&rt->modules[module], mc);
	return mc->usable ? mc : NULL;
}

/* A copy that lives as long as the runtime, of a string of any sane length; NULL: none. */
static const char *string_read(struct go_runtime *rt, const struct go_module *m, gaddr_t addr,
			       uint64_t left)
{
	_cleanup_free_ char *big = NULL;
	char small[STRING_SHORT];
	const char *nul;
	size_t n = image_read_some(m->image, addr, small, left < sizeof(small) ? left : sizeof(small));

	nul = memchr(small, '\0', n);
	if (nul)
		return arena_strndup(&rt->strings, small, (size_t)(nul - small));
	if (n < sizeof(small))
		return NULL;
	big = malloc(STRING_MAX);
	if (!big)
		return NULL;
	n = image_read_some(m->image, addr, big, left < STRING_MAX ? left : STRING_MAX);
	nul = memchr(big, '\0', n);
	return nul ? arena_strndup(&rt->strings, big, (size_t)(nul - big)) : NULL;
}

/* Remembers a string; false: it is good for this time but will be read again. */
static bool string_keep(struct pclntab_cache *c, uint64_t key, const char *s)
{
	_cleanup_error_ struct error *err = NULL;

	if (c->n_strings == c->cap_strings) {
		uint32_t cap = c->cap_strings ? c->cap_strings * 2 : 256;
		const char **strings = cap > c->cap_strings ? realloc(c->strings, cap * sizeof(*strings)) : NULL;

		if (!strings)
			return false;
		c->strings = strings;
		c->cap_strings = cap;
	}
	err = map64_put(&c->by_offset, key, c->n_strings);
	if (err)
		return false;
	c->strings[c->n_strings++] = s;
	return true;
}

const char *pclntab_string(struct go_runtime *rt, const struct go_module *m, enum string_kind kind,
			   uint64_t offset)
{
	struct pclntab_cache *c = rt->cache;
	gaddr_t table = kind == STRING_NAME ? m->funcnametab : m->filetab;
	uint64_t size = kind == STRING_NAME ? m->funcnametab_size : m->filetab_size;
	uint64_t key = (uint64_t)module_index(rt, m) << 48 | (uint64_t)kind << 40 | offset;
	uint32_t known;
	const char *s;

	if (offset >= size || offset > UINT32_MAX)
		return NULL;
	known = map64_get(&c->by_offset, key);
	if (known != MAP_NONE)
		return c->strings[known];
	s = string_read(rt, m, table + offset, size - offset);
	if (s)
		string_keep(c, key, s);
	return s;
}
