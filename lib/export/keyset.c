/*
 * keyset.c: gives byte strings the numbers 0, 1, 2 ... in the order in which they come. Locations,
 * frames, stacks and samples of the formats are all numbered like this.
 */
#include <stdlib.h>

#include "export/export_impl.h"

static const void *key_of(const void *ctx, uint32_t value, size_t *len)
{
	return keyset_get(ctx, value, len);
}

void keyset_init(struct keyset *k)
{
	*k = (struct keyset){ 0 };
	buf_init(&k->bytes);
	mapb_init(&k->map, key_of, k);
}

void keyset_deinit(struct keyset *k)
{
	mapb_deinit(&k->map);
	buf_deinit(&k->bytes);
	free(k->v);
}

/* Offsets are multiples of 8, so that keys can be read as the structs they were. */
static struct error *append(struct keyset *k, const void *key, size_t len)
{
	static const char zeros[8];
	struct error *err = array_reserve(&k->v, &k->cap, k->n + 1, sizeof(*k->v));

	if (err)
		return err;
	k->v[k->n] = (struct keyset_key){ k->bytes.len, (uint32_t)len };
	buf_add(&k->bytes, key, len);
	buf_add(&k->bytes, zeros, -len & 7);
	err = buf_error(&k->bytes);
	if (!err)
		k->n++;
	return err;
}

struct error *keyset_add(struct keyset *k, const void *key, size_t len, uint32_t *ret, bool *fresh)
{
	uint32_t i;
	struct error *err;

	if (len >= UINT32_MAX)
		return &err_nomem;
	i = mapb_get(&k->map, key, len);
	if (i != MAP_NONE) {
		*ret = i;
		*fresh = false;
		return NULL;
	}
	err = append(k, key, len);
	if (!err)
		err = mapb_put(&k->map, key, len, k->n - 1);
	if (err)
		return err;
	*ret = k->n - 1;
	*fresh = true;
	return NULL;
}

uint32_t keyset_find(const struct keyset *k, const void *key, size_t len)
{
	uint32_t i = mapb_get(&k->map, key, len);

	return i != MAP_NONE ? i : UINT32_MAX;
}

size_t keyset_bytes(const struct keyset *k)
{
	return mapb_bytes(&k->map) + k->bytes.len + k->cap * sizeof(*k->v);
}

const void *keyset_get(const struct keyset *k, uint32_t i, size_t *len)
{
	*len = k->v[i].len;
	return *len ? k->bytes.data + k->v[i].offset : "";
}
