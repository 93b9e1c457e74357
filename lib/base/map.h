/*
 * map.h: the only hash table of the tree. Keys are 64-bit numbers or byte strings, values are
 * 32-bit indices into an array of the caller. Open addressing, xxhash for byte strings.
 *
 *	map64	numbers, kept in the map
 *	mapi	numbers that the caller's items hold themselves: a quarter of the memory
 *	mapb	byte strings of the caller's
 */
#ifndef GOPROF_BASE_MAP_H
#define GOPROF_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { MAP_NONE = UINT32_MAX };	/* "no such key"; never a stored value */

/* ---- u64 -> u32 ---- */
struct map64 {
	struct map64_slot *slots;
	uint32_t n, cap;	/* cap is 0 or a power of two */
};

void map64_init(struct map64 *m);
void map64_deinit(struct map64 *m);
void map64_clear(struct map64 *m);
uint32_t map64_get(const struct map64 *m, uint64_t key);
/* Inserts or replaces. */
struct error *map64_put(struct map64 *m, uint64_t key, uint32_t value);
void map64_del(struct map64 *m, uint64_t key);
/* Walks all entries: start with *pos = 0; false at the end. The order means nothing. */
bool map64_next(const struct map64 *m, uint32_t *pos, uint64_t *key, uint32_t *value);

/* ---- u64 -> u32, where items know their keys ---- */
struct mapi {
	uint32_t *slots;
	uint32_t n, cap;
	/* The key of a stored value; must be right from mapi_put on until it is replaced or deleted. */
	uint64_t (*key_of)(const void *ctx, uint32_t value);
	const void *ctx;	/* borrowed, outlives the map */
};

void mapi_init(struct mapi *m, uint64_t (*key_of)(const void *ctx, uint32_t value), const void *ctx);
void mapi_deinit(struct mapi *m);
uint32_t mapi_get(const struct mapi *m, uint64_t key);
/* Inserts or replaces. */
struct error *mapi_put(struct mapi *m, uint64_t key, uint32_t value);
void mapi_del(struct mapi *m, uint64_t key);

/* ---- byte string -> u32 ----
 * The map keeps hashes and values only; the caller owns the keys and tells them by value, so that
 * interned tables hold each key once.
 */
struct mapb {
	struct mapb_slot *slots;
	uint32_t n, cap;
	/* The key that belongs to a stored value. */
	const void *(*key_of)(const void *ctx, uint32_t value, size_t *len);
	const void *ctx;	/* borrowed, outlives the map */
};

void mapb_init(struct mapb *m, const void *(*key_of)(const void *ctx, uint32_t value, size_t *len),
	       const void *ctx);
void mapb_deinit(struct mapb *m);
void mapb_clear(struct mapb *m);
/* What it takes of memory, without the keys. */
size_t mapb_bytes(const struct mapb *m);
uint32_t mapb_get(const struct mapb *m, const void *key, size_t len);
/* The key must not be present yet (mapb_get first). */
struct error *mapb_put(struct mapb *m, const void *key, size_t len, uint32_t value);

/* A good 64-bit hash of bytes (xxh3), for fingerprints. */
uint64_t hash_bytes(const void *data, size_t len);

#endif
