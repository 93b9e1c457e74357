/*
 * pclntab_cache.c: what is kept in memory of the function tables, and for how long.
 *
 * Per module: the sorted table (8 bytes a function) and one byte of role, from the first question
 * on. Per runtime: pcs with their function and stack depth, and decoded records, both of bounded
 * number and emptied when full; and the strings handed out, which live as long as the runtime
 * because callers keep the pointers. Everything else stays in the file.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "go/pclntab_impl.h"

enum { STRING_SHORT = 256, STRING_MAX = 64 * 1024 };

struct error *pclntab_cache_create(struct pclntab_cache **ret)
{
	struct pclntab_cache *c = calloc(1, sizeof(*c));

	if (!c)
		return &err_nomem;
	map64_init(&c->by_offset);
	map64_init(&c->by_pc);
	map64_init(&c->by_func);
	c->last = INDEX_NONE;
	c->pcs = malloc(PCS_MAX * sizeof(*c->pcs));
	c->funcs = malloc(FUNCS_MAX * sizeof(*c->funcs));
	if (!c->pcs || !c->funcs) {
		pclntab_cache_destroy(c);
		return &err_nomem;
	}
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
	map64_deinit(&c->by_pc);
	map64_deinit(&c->by_func);
	free(c->strings);
	free(c->pcs);
	free(c->funcs);
	free(c);
}

/* ---- pcs and records ---- */

static void pcs_clear(struct pclntab_cache *c)
{
	map64_clear(&c->by_pc);
	c->n_pcs = 0;
	c->last = INDEX_NONE;
}

static uint64_t func_key(uint32_t module, uint32_t index)
{
	return (uint64_t)module << 32 | index;
}

struct pc_entry *pc_entry_get(struct pclntab_cache *c, gaddr_t pc)
{
	uint32_t at;

	if (c->last != INDEX_NONE && c->last_pc == pc)
		return &c->pcs[c->last];
	at = map64_get(&c->by_pc, pc);
	if (at == MAP_NONE)
		return NULL;
	c->last_pc = pc;
	c->last = at;
	return &c->pcs[at];
}

const struct go_func *func_entry_get(const struct pclntab_cache *c, uint32_t module, uint32_t index)
{
	uint32_t at = map64_get(&c->by_func, func_key(module, index));

	return at == MAP_NONE ? NULL : &c->funcs[at];
}

/* The number of a record in the cache, put there if need be; INDEX_NONE: no memory for it. */
static uint32_t func_entry_put(struct pclntab_cache *c, uint32_t module, uint32_t index,
			       const struct go_func *f)
{
	uint32_t at = map64_get(&c->by_func, func_key(module, index));

	if (at != MAP_NONE)
		return at;
	if (c->n_funcs == FUNCS_MAX) {
		map64_clear(&c->by_func);
		c->n_funcs = 0;
		pcs_clear(c);	/* they name records by number */
	}
	if (map64_put(&c->by_func, func_key(module, index), c->n_funcs))
		return INDEX_NONE;
	c->funcs[c->n_funcs] = *f;
	return c->n_funcs++;
}

void pc_entry_add(struct pclntab_cache *c, gaddr_t pc, uint32_t module, uint32_t index,
		  const struct go_func *f)
{
	uint32_t func = func_entry_put(c, module, index, f);

	if (c->n_pcs == PCS_MAX)
		pcs_clear(c);
	if (func == INDEX_NONE || map64_put(&c->by_pc, pc, c->n_pcs))
		return;
	c->pcs[c->n_pcs] = (struct pc_entry){ .func = func, .delta = DELTA_UNKNOWN };
	c->last_pc = pc;
	c->last = c->n_pcs++;
}

/* ---- modules ---- */

static bool ftab_read(const struct go_module *m, struct ftab_entry *ftab)
{
	size_t whole = (size_t)m->nfunc * sizeof(*ftab);

	return !image_read(m->image, m->ftab, ftab, whole) &&
	       !image_read(m->image, m->ftab + whole, &ftab[m->nfunc].entry, sizeof(ftab->entry));
}

/* An entry with an address, as one with an offset from the code's start. */
static bool entry_convert(const struct go_module *m, const uint64_t wide[2], struct ftab_entry *ret)
{
	uint64_t entry = wide[0] - m->text;

	if (wide[0] < m->text || entry > UINT32_MAX || wide[1] > UINT32_MAX)
		return false;
	*ret = (struct ftab_entry){ (uint32_t)entry, (uint32_t)wide[1] };
	return true;
}

/* Some at a time: the file's bytes are twice as many as ours. The last one has no second word. */
static bool ftab_read_wide(const struct go_module *m, struct ftab_entry *ftab)
{
	enum { ENTRIES = 512 };
	uint64_t wide[ENTRIES][2];

	for (uint64_t i = 0; i <= m->nfunc; i += ENTRIES) {
		uint64_t left = m->nfunc + 1 - i, n = left < ENTRIES ? left : ENTRIES;
		size_t len = (size_t)(n * sizeof(*wide)) - (n == left ? sizeof(uint64_t) : 0);

		wide[n - 1][1] = 0;
		if (image_read_relocated(m->image, m->ftab + i * sizeof(*wide), wide, len))
			return false;
		for (uint64_t k = 0; k < n; k++)
			if (!entry_convert(m, wide[k], &ftab[i + k]))
				return false;
	}
	return true;
}

/* Reads the sorted table and makes sure that it is sorted: a search in another one finds anything. */
static bool ftab_load(const struct go_module *m, struct ftab_entry *ftab)
{
	bool wide = pclntab_shape(m->format)->ftab_word == sizeof(uint64_t);

	if (wide ? !ftab_read_wide(m, ftab) : !ftab_read(m, ftab))
		return false;
	for (uint64_t i = 0; i < m->nfunc; i++)
		if (ftab[i].entry >= ftab[i + 1].entry)
			return false;
	return true;
}

static void module_cache_load(const struct go_module *m, struct module_cache *mc)
{
	mc->loaded = true;
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

/* ---- strings ---- */

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
