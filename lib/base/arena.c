/*
 * arena.c: a bump allocator over a chain of malloc'ed blocks that double in size.
 *
 * Doubling bounds the number of blocks by the logarithm of what is stored, and lets arena_reset
 * keep a block that holds at least half of the last use: a scratch arena that is reset at every
 * tick settles on one block and then calls malloc no more. Memory is zeroed when it is handed out,
 * not when it is obtained, because blocks are reused; pages never handed out are never touched.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum {
	BLOCK_FIRST = 4096,
	BLOCK_DOUBLING_END = 16 << 20,
	ALIGNMENT = 8,
};

struct arena_block {
	struct arena_block *next;
	size_t len, cap;
	_Alignas(ALIGNMENT) char data[];
};

void arena_init(struct arena *a)
{
	*a = (struct arena){ 0 };
}

void arena_deinit(struct arena *a)
{
	struct arena_block *next;

	for (struct arena_block *b = a->head; b; b = next) {
		next = b->next;
		free(b);
	}
	arena_init(a);
}

void arena_reset(struct arena *a)
{
	struct arena_block *keep = a->head, *next;

	for (struct arena_block *b = a->head; b; b = b->next)
		if (b->cap > keep->cap)
			keep = b;
	for (struct arena_block *b = a->head; b; b = next) {
		next = b->next;
		if (b != keep)
			free(b);
	}
	if (keep) {
		keep->next = NULL;
		keep->len = 0;
	}
	a->head = keep;
	a->used = 0;
}

static size_t block_cap(const struct arena *a, size_t size)
{
	size_t cap = BLOCK_FIRST;

	if (a->head)
		cap = a->head->cap < BLOCK_DOUBLING_END / 2 ? a->head->cap * 2 : BLOCK_DOUBLING_END;
	return cap < size ? size : cap;
}

static struct arena_block *block_add(struct arena *a, size_t size)
{
	size_t cap = block_cap(a, size);
	struct arena_block *b = malloc(sizeof(*b) + cap);

	if (!b)
		return NULL;
	b->next = a->head;
	b->len = 0;
	b->cap = cap;
	a->head = b;
	return b;
}

void *arena_alloc(struct arena *a, size_t size)
{
	struct arena_block *b = a->head;
	void *p;

	if (size > PTRDIFF_MAX - sizeof(struct arena_block) - ALIGNMENT)
		return NULL;
	size = size ? (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1) : ALIGNMENT;
	if (!b || b->cap - b->len < size)
		b = block_add(a, size);
	if (!b)
		return NULL;
	p = memset(b->data + b->len, 0, size);
	b->len += size;
	a->used += size;
	return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
	char *copy = len < SIZE_MAX ? arena_alloc(a, len + 1) : NULL;

	if (copy && len)
		memcpy(copy, s, len);
	return copy;
}
