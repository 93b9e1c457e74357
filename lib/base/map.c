/*
 * map.c: open addressing with linear probing over a power of two, at most three quarters full.
 *
 * A slot is free when its value is MAP_NONE. Deleting shifts the followers back instead of leaving
 * a tombstone, so a map that lives through millions of goroutines does not silt up. Byte keys stay
 * with the caller: a slot remembers half of the hash, and the caller's bytes are asked for only when
 * those 32 bits agree.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/map.h"

enum { MAP_FIRST = 16 };

struct map64_slot {
	uint64_t key;
	uint32_t value;
};

struct mapb_slot {
	uint32_t hash;		/* its low half: enough to find the place in any map, and to tell most keys apart */
	uint32_t value;
};

uint64_t hash_bytes(const void *data, size_t len)
{
	return XXH3_64bits(data, len);
}

/* Keys are often addresses or counters: their low bits alone would cluster. */
static uint32_t home64(uint64_t key, uint32_t cap)
{
	key ^= key >> 32;
	key *= 0x9e3779b97f4a7c15u;
	return (uint32_t)(key >> 32) & (cap - 1);
}

/* The capacity to grow to before one more entry is stored; `cap` when there is room; 0: too many. */
static uint32_t grown_cap(uint32_t n, uint32_t cap)
{
	if (cap == 0)
		return MAP_FIRST;
	if ((uint64_t)n + 1 <= (uint64_t)cap / 4 * 3)
		return cap;
	return cap <= UINT32_MAX / 4 ? cap * 2 : 0;
}

static struct error *error_none_stored(void)
{
	return error_new(ERROR_INTERNAL, "MAP_NONE cannot be stored in a map");
}

/* ---- u64 -> u32 ---- */

void map64_init(struct map64 *m)
{
	*m = (struct map64){ 0 };
}

void map64_deinit(struct map64 *m)
{
	free(m->slots);
	map64_init(m);
}

static void slots64_clear(struct map64_slot *slots, uint32_t cap)
{
	for (uint32_t i = 0; i < cap; i++)
		slots[i] = (struct map64_slot){ .value = MAP_NONE };
}

void map64_clear(struct map64 *m)
{
	slots64_clear(m->slots, m->cap);
	m->n = 0;
}

/* The slot of `key`, or the free one where it belongs. There is always a free one. */
static struct map64_slot *slot64(struct map64_slot *slots, uint32_t cap, uint64_t key)
{
	uint32_t i = home64(key, cap);

	while (slots[i].value != MAP_NONE && slots[i].key != key)
		i = (i + 1) & (cap - 1);
	return &slots[i];
}

uint32_t map64_get(const struct map64 *m, uint64_t key)
{
	return m->n ? slot64(m->slots, m->cap, key)->value : MAP_NONE;
}

static struct error *map64_grow(struct map64 *m)
{
	uint32_t cap = grown_cap(m->n, m->cap);
	struct map64_slot *slots;

	if (cap == m->cap)
		return NULL;
	slots = cap ? calloc(cap, sizeof(*slots)) : NULL;
	if (!slots)
		return &err_nomem;
	slots64_clear(slots, cap);
	for (uint32_t i = 0; i < m->cap; i++)
		if (m->slots[i].value != MAP_NONE)
			*slot64(slots, cap, m->slots[i].key) = m->slots[i];
	free(m->slots);
	m->slots = slots;
	m->cap = cap;
	return NULL;
}

struct error *map64_put(struct map64 *m, uint64_t key, uint32_t value)
{
	struct map64_slot *slot;
	struct error *err;

	if (value == MAP_NONE)
		return error_none_stored();
	err = map64_grow(m);
	if (err)
		return err;
	slot = slot64(m->slots, m->cap, key);
	m->n += slot->value == MAP_NONE;
	*slot = (struct map64_slot){ .key = key, .value = value };
	return NULL;
}

void map64_del(struct map64 *m, uint64_t key)
{
	uint32_t mask = m->cap - 1, hole, i;
	struct map64_slot *slot;

	if (map64_get(m, key) == MAP_NONE)
		return;
	slot = slot64(m->slots, m->cap, key);
	hole = (uint32_t)(slot - m->slots);
	for (i = (hole + 1) & mask; m->slots[i].value != MAP_NONE; i = (i + 1) & mask) {
		uint32_t home = home64(m->slots[i].key, m->cap);

		/* It may move back unless its home lies after the hole. */
		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		m->slots[hole] = m->slots[i];
		hole = i;
	}
	m->slots[hole].value = MAP_NONE;
	m->n--;
}

bool map64_next(const struct map64 *m, uint32_t *pos, uint64_t *key, uint32_t *value)
{
	while (*pos < m->cap) {
		const struct map64_slot *slot = &m->slots[(*pos)++];

		if (slot->value == MAP_NONE)
			continue;
		*key = slot->key;
		*value = slot->value;
		return true;
	}
	return false;
}

/* ---- u64 -> u32, where items know their keys ---- */

void mapi_init(struct mapi *m, uint64_t (*key_of)(const void *ctx, uint32_t value), const void *ctx)
{
	*m = (struct mapi){ .key_of = key_of, .ctx = ctx };
}

void mapi_deinit(struct mapi *m)
{
	free(m->slots);
	mapi_init(m, m->key_of, m->ctx);
}

/* As slot64. */
static uint32_t *sloti(const struct mapi *m, uint32_t *slots, uint32_t cap, uint64_t key)
{
	uint32_t i = home64(key, cap);

	while (slots[i] != MAP_NONE && m->key_of(m->ctx, slots[i]) != key)
		i = (i + 1) & (cap - 1);
	return &slots[i];
}

uint32_t mapi_get(const struct mapi *m, uint64_t key)
{
	return m->n ? *sloti(m, m->slots, m->cap, key) : MAP_NONE;
}

static struct error *mapi_grow(struct mapi *m)
{
	uint32_t cap = grown_cap(m->n, m->cap);
	uint32_t *slots;

	if (cap == m->cap)
		return NULL;
	slots = cap ? malloc(cap * sizeof(*slots)) : NULL;
	if (!slots)
		return &err_nomem;
	memset(slots, 0xff, cap * sizeof(*slots));	/* MAP_NONE */
	for (uint32_t i = 0; i < m->cap; i++)
		if (m->slots[i] != MAP_NONE)
			*sloti(m, slots, cap, m->key_of(m->ctx, m->slots[i])) = m->slots[i];
	free(m->slots);
	m->slots = slots;
	m->cap = cap;
	return NULL;
}

struct error *mapi_put(struct mapi *m, uint64_t key, uint32_t value)
{
	uint32_t *slot;
	struct error *err;

	if (value == MAP_NONE)
		return error_none_stored();
	err = mapi_grow(m);
	if (err)
		return err;
	slot = sloti(m, m->slots, m->cap, key);
	m->n += *slot == MAP_NONE;
	*slot = value;
	return NULL;
}

/* As map64_del. */
void mapi_del(struct mapi *m, uint64_t key)
{
	uint32_t mask = m->cap - 1, hole, i;

	if (mapi_get(m, key) == MAP_NONE)
		return;
	hole = (uint32_t)(sloti(m, m->slots, m->cap, key) - m->slots);
	for (i = (hole + 1) & mask; m->slots[i] != MAP_NONE; i = (i + 1) & mask) {
		uint32_t home = home64(m->key_of(m->ctx, m->slots[i]), m->cap);

		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		m->slots[hole] = m->slots[i];
		hole = i;
	}
	m->slots[hole] = MAP_NONE;
	m->n--;
}

/* ---- byte string -> u32 ---- */

void mapb_init(struct mapb *m, const void *(*key_of)(const void *ctx, uint32_t value, size_t *len),
	       const void *ctx)
{
	*m = (struct mapb){ .key_of = key_of, .ctx = ctx };
}

void mapb_deinit(struct mapb *m)
{
	free(m->slots);
	mapb_init(m, m->key_of, m->ctx);
}

static void slotsb_clear(struct mapb_slot *slots, uint32_t cap)
{
	for (uint32_t i = 0; i < cap; i++)
		slots[i] = (struct mapb_slot){ .value = MAP_NONE };
}

void mapb_clear(struct mapb *m)
{
	slotsb_clear(m->slots, m->cap);
	m->n = 0;
}

size_t mapb_bytes(const struct mapb *m)
{
	return m->cap * sizeof(*m->slots);
}

static bool mapb_holds(const struct mapb *m, uint32_t value, const void *key, size_t len)
{
	size_t have_len = 0;
	const void *have = m->key_of(m->ctx, value, &have_len);

	return have_len == len && (len == 0 || memcmp(have, key, len) == 0);
}

uint32_t mapb_get(const struct mapb *m, const void *key, size_t len)
{
	uint32_t hash = (uint32_t)hash_bytes(key, len);
	uint32_t mask = m->cap - 1;

	if (!m->n)
		return MAP_NONE;
	for (uint32_t i = hash & mask; m->slots[i].value != MAP_NONE; i = (i + 1) & mask)
		if (m->slots[i].hash == hash && mapb_holds(m, m->slots[i].value, key, len))
			return m->slots[i].value;
	return MAP_NONE;
}

static void slotb_add(struct mapb_slot *slots, uint32_t cap, struct mapb_slot slot)
{
	uint32_t i = slot.hash & (cap - 1);

	while (slots[i].value != MAP_NONE)
		i = (i + 1) & (cap - 1);
	slots[i] = slot;
}

static struct error *mapb_grow(struct mapb *m)
{
	uint32_t cap = grown_cap(m->n, m->cap);
	struct mapb_slot *slots;

	if (cap == m->cap)
		return NULL;
	slots = cap ? calloc(cap, sizeof(*slots)) : NULL;
	if (!slots)
		return &err_nomem;
	slotsb_clear(slots, cap);
	for (uint32_t i = 0; i < m->cap; i++)
		if (m->slots[i].value != MAP_NONE)
			slotb_add(slots, cap, m->slots[i]);
	free(m->slots);
	m->slots = slots;
	m->cap = cap;
	return NULL;
}

struct error *mapb_put(struct mapb *m, const void *key, size_t len, uint32_t value)
{
	struct error *err;

	if (value == MAP_NONE)
		return error_none_stored();
	err = mapb_grow(m);
	if (err)
		return err;
	slotb_add(m->slots, m->cap, (struct mapb_slot){ .hash = (uint32_t)hash_bytes(key, len), .value = value });
	m->n++;
	return NULL;
}
