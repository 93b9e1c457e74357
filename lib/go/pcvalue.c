/*
 * pcvalue.c: the tables that give a number for every pc of a function: stack depth, line, file,
 * index in the inline tree.
 *
 * A table is a run of pairs (value delta, pc delta) from value -1 at the entry; a zero value delta
 * that is not the first ends it. The bytes are not trusted: a table ends at the end of pctab at the
 * latest, pcs never decrease, and an overlong number or a run past the function is no answer.
 *
 * Upstream: src/runtime/symtab.go (pcvalue, step, readvarint), cmd/internal/obj/pcln.go.
 */
#include <string.h>

#include "go/pclntab_impl.h"

enum {
	WINDOW = 256,		/* bytes of the table read at once */
	VARINT_MAX = 5,		/* bytes of a 32-bit number */
	STEPS_SLACK = 64,	/* pairs that move no pc */
};

/* A reader over pctab that holds a window of it. */
struct table {
	const struct go_module *module;
	uint64_t offset;	/* of the window's end */
	size_t at, len;
	uint8_t window[WINDOW];
};

static bool table_byte(struct table *t, uint8_t *ret)
{
	const struct go_module *m = t->module;

	if (t->at == t->len) {
		uint64_t left = t->offset < m->pctab_size ? m->pctab_size - t->offset : 0;

		t->at = 0;
		t->len = left ? image_read_some(m->image, m->pctab + t->offset, t->window,
						left < WINDOW ? left : WINDOW) : 0;
		t->offset += t->len;
		if (t->len == 0)
			return false;
	}
	*ret = t->window[t->at++];
	return true;
}

static bool table_varint(struct table *t, uint32_t *ret)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < VARINT_MAX; i++) {
		uint8_t b;

		if (!table_byte(t, &b))
			return false;
		v |= (uint64_t)(b & 0x7f) << (7 * i);
		if (b & 0x80)
			continue;
		if (v > UINT32_MAX)
			return false;
		*ret = (uint32_t)v;
		return true;
	}
	return false;
}

static int32_t unzigzag(uint32_t v)
{
	return (int32_t)((v >> 1) ^ (0 - (v & 1)));
}

bool pcvalue_at(const struct go_func *f, uint32_t offset, gaddr_t pc, int32_t *ret)
{
	struct table t = { .module = f->module, .offset = offset };
	uint64_t steps = f->end - f->entry + STEPS_SLACK;
	gaddr_t at = f->entry;
	int32_t value = -1;

	if (offset == 0 || offset >= f->module->pctab_size || pc < f->entry || pc >= f->end)
		return false;
	while (steps-- > 0) {
		uint32_t value_delta, pc_delta;

		if (!table_varint(&t, &value_delta) || (value_delta == 0 && at != f->entry) ||
		    !table_varint(&t, &pc_delta))
			return false;
		if (__builtin_add_overflow(value, unzigzag(value_delta), &value))
			return false;
		at += pc_delta;
		if (pc < at) {
			*ret = value;
			return true;
		}
	}
	return false;
}
