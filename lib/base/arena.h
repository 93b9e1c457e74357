/*
 * arena.h: a bump allocator. Many small things that live and die together: freed at once, never
 * one by one. Pointers stay valid until arena_reset or arena_deinit (blocks never move).
 */
#ifndef GOPROF_BASE_ARENA_H
#define GOPROF_BASE_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
	struct arena_block *head;
	size_t used;		/* bytes handed out, for bounds and health figures */
};

void arena_init(struct arena *a);
void arena_deinit(struct arena *a);

/* Forgets everything; keeps one block for reuse, so a scratch arena stops allocating. */
void arena_reset(struct arena *a);

/* `size` bytes, zeroed, aligned to 8; NULL when memory is short. */
void *arena_alloc(struct arena *a, size_t size);
/* A copy of `len` bytes with a NUL behind; NULL when memory is short. */
char *arena_strndup(struct arena *a, const char *s, size_t len);

#endif
