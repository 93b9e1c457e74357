/*
 * block_cache.c: a bounded window onto a file, read by pread and never mapped, or onto the memory of
 * a process.
 *
 * Must not know what the bytes mean. A file that shrinks, or a disk that fails, gives short reads
 * here where a mapping would give SIGBUS. Memory is held page by page: a larger block would not be
 * had where the page before the one that is asked for is not mapped. Blocks are thrown out by the
 * clock algorithm: each block used since the hand last passed gets one more round. Big reads go past
 * the cache, since a scan of the whole file would only push out what is asked for again and again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "image/image_impl.h"

enum { PAST_CACHE = 4 * BLOCK_SIZE };	/* reads this long do not go through the blocks */

static void cache_init(struct block_cache *c, int fd, struct target *t, uint32_t block_size)
{
	memset(c, 0, sizeof(*c));
	c->fd = fd;
	c->target = t;
	c->block_size = block_size;
	map64_init(&c->by_index);
}

void block_cache_init(struct block_cache *c, int fd)
{
	cache_init(c, fd, NULL, BLOCK_SIZE);
}

void block_cache_init_memory(struct block_cache *c, struct target *t)
{
	cache_init(c, -1, t, MEMORY_BLOCK_SIZE);
}

void block_cache_drop(struct block_cache *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		free(c->slots[i].data);
	map64_clear(&c->by_index);
	c->n = c->hand = c->last = 0;
}

void block_cache_deinit(struct block_cache *c)
{
	block_cache_drop(c);
	map64_deinit(&c->by_index);
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

static size_t file_read(int fd, uint64_t offset, uint8_t *buf, size_t len)
{
	size_t done = 0;

	while (done < len && offset + done <= INT64_MAX) {
		ssize_t n = pread(fd, buf + done, len - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

static size_t memory_read(struct target *t, uint64_t addr, void *buf, size_t len)
{
	struct span s = { .addr = addr, .buf = buf, .len = len };
	_cleanup_error_ struct error *err = target_read_v(t, &s, 1);

	return err ? 0 : s.done;
}

static size_t source_read(const struct block_cache *c, uint64_t offset, void *buf, size_t len)
{
	return c->target ? memory_read(c->target, offset, buf, len) : file_read(c->fd, offset, buf, len);
}

/* A slot for a new block: a fresh one while there are any, else the first that had no second use. */
static struct block *slot_take(struct block_cache *c)
{
	struct block *b;

	if (c->n < BLOCK_COUNT) {
		b = &c->slots[c->n];
		b->data = malloc(c->block_size);
		if (!b->data)
			return NULL;
		c->n++;
		return b;
	}
	for (;;) {
		b = &c->slots[c->hand];
		c->hand = (c->hand + 1) % BLOCK_COUNT;
		if (!b->recent)
			break;
		b->recent = false;
	}
	map64_del(&c->by_index, b->index);
	return b;
}

static struct block *block_load(struct block_cache *c, uint64_t index)
{
	struct block *b = slot_take(c);
	struct error *err;

	if (!b)
		return NULL;
	b->index = index;
	b->recent = false;
	b->len = (uint32_t)source_read(c, index * c->block_size, b->data, c->block_size);
	err = map64_put(&c->by_index, index, (uint32_t)(b - c->slots));
	/* A block that the map does not know is found by nobody and thrown out when its turn comes. */
	error_free(err);
	return b;
}

static struct block *block_get(struct block_cache *c, uint64_t index)
{
	uint32_t slot;

	if (c->last < c->n && c->slots[c->last].index == index)
		return &c->slots[c->last];
	slot = map64_get(&c->by_index, index);
	if (slot == MAP_NONE) {
		struct block *b = block_load(c, index);

		if (!b)
			return NULL;
		slot = (uint32_t)(b - c->slots);
	}
	c->last = slot;
	c->slots[slot].recent = true;
	return &c->slots[slot];
}

size_t block_cache_read(struct block_cache *c, uint64_t offset, void *buf, size_t len)
{
	size_t done = 0;

	if (offset > INT64_MAX - (uint64_t)BLOCK_SIZE || len > INT64_MAX - offset)
		return 0;
	if (len >= PAST_CACHE)
		return source_read(c, offset, buf, len);
	while (done < len) {
		size_t within = (offset + done) % c->block_size, n;
		struct block *b = block_get(c, (offset + done) / c->block_size);

		if (!b || within >= b->len)
			break;
		n = b->len - within < len - done ? b->len - within : len - done;
		memcpy((uint8_t *)buf + done, b->data + within, n);
		done += n;
	}
	return done;
}
