/*
 * hold_labels.c: the labels themselves, copied in a hold. Where a look is seen to only at the next tick, a
 * set that belonged to one request may be gone by then; its mark would say so, and the labels be unknown.
 *
 *	extra:  [ number ][ truncated ] [ length of key, of value ]... [ key value ]...
 */
#include <string.h>

#include "sample/sample_impl.h"

enum { KEPT_MOST = 8192 };	/* bytes; a larger set is read later, if it is still there */

static void put_number(uint8_t **at, uint32_t v)
{
	memcpy(*at, &v, sizeof(v));
	*at += sizeof(v);
}

static size_t size_of(const struct go_labels *l)
{
	size_t size = 2 * sizeof(uint32_t);

	for (uint32_t i = 0; i < l->n; i++)
		size += 2 * sizeof(uint32_t) + l->v[i].key_len + l->v[i].value_len;
	return size;
}

static void pack(const struct go_labels *l, uint8_t *at)
{
	put_number(&at, l->n);
	put_number(&at, l->truncated);
	for (uint32_t i = 0; i < l->n; i++) {
		put_number(&at, l->v[i].key_len);
		put_number(&at, l->v[i].value_len);
	}
	for (uint32_t i = 0; i < l->n; i++) {
		memcpy(at, l->v[i].key, l->v[i].key_len);
		memcpy(at + l->v[i].key_len, l->v[i].value, l->v[i].value_len);
		at += l->v[i].key_len + l->v[i].value_len;
	}
}

void hold_keep_labels(const struct hold_plan *plan, const struct target *t, struct capture *c)
{
	const struct go_field_at *f = &plan->layout.f[GO_G_LABELS];
	struct go_labels labels;
	size_t used = 0, size;
	uint64_t mark;
	gaddr_t at;

	if (!hold_read_mark(plan, c, &mark))
		return;
	memcpy(&at, c->note + plan->m_span + f->offset, sizeof(at));
	if (go_labels_read(plan->rt, t, at, &labels))
		return;		/* one of the static errors, see go_labels_read */
	for (uint32_t i = 0; i < c->n_views; i++)
		used += c->views[i].len;
	size = size_of(&labels);
	if (size > KEPT_MOST || used + size > sizeof(c->bytes))
		return;
	pack(&labels, c->bytes + used);
	c->extra = (struct mem_view){ .len = (uint32_t)size, .bytes = c->bytes + used };
}

static uint32_t get_number(const uint8_t **at)
{
	uint32_t v;

	memcpy(&v, *at, sizeof(v));
	*at += sizeof(v);
	return v;
}

bool hold_kept_labels(const struct capture *c, struct go_labels *ret)
{
	const uint8_t *at = c->extra.bytes;
	size_t used = 0;

	if (!c->extra.len)
		return false;
	ret->n = get_number(&at);
	ret->truncated = get_number(&at);
	for (uint32_t i = 0; i < ret->n; i++) {
		ret->v[i].key_len = get_number(&at);
		ret->v[i].value_len = get_number(&at);
		ret->v[i].key = ret->text + used;
		ret->v[i].value = ret->text + used + ret->v[i].key_len;
		used += ret->v[i].key_len + ret->v[i].value_len;
	}
	memcpy(ret->text, at, used);
	return true;
}
