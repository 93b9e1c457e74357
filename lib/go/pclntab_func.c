/*
 * pclntab_func.c: from a pc to its function, and what the function's record says.
 *
 * The hot path of every stack walk: a warm pc costs one probe of a table in memory. A cold one is
 * a binary search of the sorted table and one read of the record. A record that contradicts the
 * sorted table is no answer. Addresses that go in and out are those of the process.
 *
 * Upstream: src/runtime/symtab.go (findfunc, funcspdelta, pcdatastart, funcdata), runtime2.go (_func).
 */
#include <string.h>

#include "go/pclntab_impl.h"

enum { RECORD_MAX = 48, NO_FUNCDATA = -1 };

static uint32_t record_u32(const uint8_t *r, int8_t at)
{
	uint32_t v;

	if (at < 0)
		return 0;
	memcpy(&v, r + at, sizeof(v));
	return v;
}

static uint8_t record_u8(const uint8_t *r, int8_t at)
{
	return at < 0 ? 0 : r[at];
}

/* The role of a function, found once. */
static enum go_func_role role_of(const struct go_module *m, struct module_cache *mc, uint32_t index,
				 uint32_t name_off)
{
	char name[48];
	struct error *err;

	if (mc->roles[index] != ROLE_UNKNOWN)
		return mc->roles[index];
	mc->roles[index] = GO_FUNC_NORMAL;
	if (name_off >= m->funcnametab_size)
		return GO_FUNC_NORMAL;
	/* Names too long for the buffer are none of those in the list. */
	err = image_read_string(m->image, m->funcnametab + name_off, name, sizeof(name));
	if (!err)
		mc->roles[index] = go_func_role_by_name(name);
	error_free(err);
	return mc->roles[index];
}

/* A record must say the same entry as the sorted table; relocated, because old ones say an address. */
static bool record_read(const struct go_module *m, const struct ftab_entry *e, uint8_t r[RECORD_MAX])
{
	const struct pclntab_shape *s = pclntab_shape(m->format);
	bool wide = s->func.entry_size == sizeof(uint64_t);
	uint64_t entry = wide ? m->text + e->entry : e->entry;

	if (e->func >= m->functab_size || m->functab_size - e->func < s->func.size)
		return false;
	if (wide ? image_read_relocated(m->image, m->functab + e->func, r, s->func.size) != NULL
		 : image_read(m->image, m->functab + e->func, r, s->func.size) != NULL)
		return false;
	return memcmp(r, &entry, s->func.entry_size) == 0;
}

bool func_by_index(struct go_runtime *rt, uint32_t module, uint32_t index, struct go_func *ret)
{
	const struct go_module *m = &rt->modules[module];
	const struct pclntab_shape *s = pclntab_shape(m->format);
	struct module_cache *mc = module_cache_get(rt, module);
	const struct ftab_entry *e;
	uint8_t r[RECORD_MAX];

	if (!mc || index >= m->nfunc)
		return false;
	e = &mc->ftab[index];
	if (!record_read(m, e, r))
		return false;
	*ret = (struct go_func){
		.module = m,
		.entry = m->text + m->bias + e->entry,
		.end = m->text + m->bias + e[1].entry,
		.offset = e->func,
		.name_off = record_u32(r, s->func.name),
		.cu_off = record_u32(r, s->func.cu),
		.args = record_u32(r, s->func.args),
		.npcdata = record_u32(r, s->func.npcdata),
		.pcsp = record_u32(r, s->func.pcsp),
		.pcfile = record_u32(r, s->func.pcfile),
		.pcln = record_u32(r, s->func.pcln),
		.start_line = (int32_t)record_u32(r, s->func.start_line),
		.func_id = record_u8(r, s->func.func_id),
		.flags = record_u8(r, s->func.flags),
		.nfuncdata = record_u8(r, s->func.nfuncdata),
	};
	ret->role = role_of(m, mc, index, ret->name_off);
	if (s->flags_by_name)
		ret->flags |= go_func_flags_by_name(go_func_name(rt, ret));
	return true;
}

/* ---- lookup ---- */

/* The last entry that is not above `offset`; INDEX_NONE when there is none. */
static uint32_t ftab_search(const struct module_cache *mc, uint64_t nfunc, uint32_t offset)
{
	uint32_t low = 0, high = (uint32_t)nfunc;

	if (offset < mc->ftab[0].entry || offset >= mc->ftab[nfunc].entry)
		return INDEX_NONE;
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (mc->ftab[middle].entry <= offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static bool pc_locate_now(struct go_runtime *rt, gaddr_t pc, uint32_t *module, uint32_t *index)
{
	for (uint32_t i = 0; i < rt->n_modules; i++) {
		const struct go_module *m = &rt->modules[i];
		gaddr_t at = pc - m->bias;
		struct module_cache *mc;

		if (at < m->text || at >= m->etext)
			continue;
		mc = module_cache_get(rt, i);
		*module = i;
		*index = mc ? ftab_search(mc, m->nfunc, (uint32_t)(at - m->text)) : INDEX_NONE;
		return *index != INDEX_NONE;
	}
	return false;
}

static bool pc_locate(struct go_runtime *rt, gaddr_t pc, uint32_t *module, uint32_t *index)
{
	return pc_locate_now(rt, pc, module, index) ||
	       (go_modules_grew(rt) && pc_locate_now(rt, pc, module, index));
}

bool go_func_find(struct go_runtime *rt, gaddr_t pc, struct go_func *ret)
{
	const struct pc_entry *known = pc_entry_get(rt->cache, pc);
	const struct go_func *cached;
	uint32_t module, index;
	struct go_func f;

	if (known) {
		*ret = rt->cache->funcs[known->func];
		return true;
	}
	if (!pc_locate(rt, pc, &module, &index))
		return false;
	cached = func_entry_get(rt->cache, module, index);
	if (cached)
		f = *cached;
	else if (!func_by_index(rt, module, index, &f))
		return false;
	pc_entry_add(rt->cache, pc, module, index, &f);
	*ret = f;
	return true;
}

static int32_t spdelta_compute(const struct go_func *f, gaddr_t pc)
{
	int32_t delta;

	/* A depth below zero or not of whole words is no depth. */
	if (!pcvalue_at(f, f->pcsp, pc, &delta) || delta < 0 || delta % (int)sizeof(uint64_t) != 0)
		return -1;
	return delta;
}

int32_t go_func_spdelta(struct go_runtime *rt, const struct go_func *f, gaddr_t pc)
{
	struct pc_entry *known;

	if (pc < f->entry || pc >= f->end)
		return -1;
	known = pc_entry_get(rt->cache, pc);
	if (!known)
		return spdelta_compute(f, pc);
	if (known->delta == DELTA_UNKNOWN)
		known->delta = spdelta_compute(f, pc);
	return known->delta;
}

/* ---- what stands behind the record ---- */

uint32_t func_pcdata(const struct go_func *f, uint32_t table)
{
	const struct go_module *m = f->module;
	uint64_t at = (uint64_t)f->offset + pclntab_shape(m->format)->func.size + 4 * (uint64_t)table;
	uint32_t v;

	if (table >= f->npcdata || at + sizeof(v) > m->functab_size ||
	    image_read(m->image, m->functab + at, &v, sizeof(v)))
		return 0;
	return v;
}

/* Up to 1.17: an aligned pointer. */
static gaddr_t funcdata_pointer(const struct go_module *m, uint64_t pcdata_end, uint32_t which)
{
	uint64_t skip = (0 - (m->functab + pcdata_end)) % sizeof(gaddr_t);
	uint64_t at = pcdata_end + skip + (uint64_t)which * sizeof(gaddr_t);
	gaddr_t v;

	if (at + sizeof(v) > m->functab_size || image_read_relocated(m->image, m->functab + at, &v, sizeof(v)))
		return 0;
	return v;
}

static gaddr_t funcdata_offset(const struct go_module *m, uint64_t pcdata_end, uint32_t which)
{
	uint64_t at = pcdata_end + (uint64_t)which * sizeof(int32_t);
	int32_t v;

	if (m->gofunc == 0 || at + sizeof(v) > m->functab_size ||
	    image_read(m->image, m->functab + at, &v, sizeof(v)) || v == NO_FUNCDATA)
		return 0;
	return m->gofunc + (uint32_t)v;
}

gaddr_t func_funcdata(const struct go_func *f, uint32_t which)
{
	const struct go_module *m = f->module;
	const struct pclntab_shape *s = pclntab_shape(m->format);
	uint64_t pcdata_end = (uint64_t)f->offset + s->func.size + 4 * (uint64_t)f->npcdata;

	if (which >= f->nfuncdata)
		return 0;
	return s->funcdata_word == sizeof(gaddr_t) ? funcdata_pointer(m, pcdata_end, which)
						   : funcdata_offset(m, pcdata_end, which);
}

const char *go_func_name(struct go_runtime *rt, const struct go_func *f)
{
	const char *name = pclntab_string(rt, f->module, STRING_NAME, f->name_off);

	return name ? name : "";
}

gaddr_t go_func_wrapped(struct go_runtime *rt, const struct go_func *f)
{
	const struct go_module *m = f->module;
	gaddr_t at = func_funcdata(f, FUNCDATA_WRAP_INFO);
	struct go_func target;
	uint32_t offset;

	if (at == 0 || image_read(m->image, at, &offset, sizeof(offset)))
		return 0;
	/* Only the entry of a function can be wrapped. */
	if (!go_func_find(rt, m->text + m->bias + offset, &target) ||
	    target.entry != m->text + m->bias + offset)
		return 0;
	return target.entry;
}

size_t go_code_read(struct go_runtime *rt, gaddr_t pc, void *buf, size_t len)
{
	for (uint32_t i = 0; i < rt->n_modules; i++) {
		const struct go_module *m = &rt->modules[i];
		gaddr_t at = pc - m->bias;

		if (at < m->text || at >= m->etext)
			continue;
		return image_read_some(m->image, at, buf, m->etext - at < len ? m->etext - at : len);
	}
	return 0;
}
