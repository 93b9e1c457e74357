/*
 * memory.c: a Go program whose file is not mapped: unpacked into anonymous memory.
 *
 * Nothing but the function table is looked for, since a packer may have wiped every header. Around
 * it, what lies side by side makes the image: pieces of memory as segments, at real addresses.
 * Looked at is only what costs the process nothing or little: memory of no file (or of an anonymous
 * file) that can be read and not written, and then what can be written as far as it stands beside
 * code of no file, which ordinary programs do not have. Anonymous memory that was never touched
 * costs page tables, so the whole search has a budget.
 *
 * Upstream: src/runtime/symtab.go (pcHeader); nothing of any packer.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "go/pclntab_impl.h"

enum {
	CHUNK = 64 * 1024,
	HEADER_BYTES = 72,
	STEP = 8,
	BUDGET = 256 << 20,	/* bytes read: half a megabyte of page tables at most */
	GAP_MAX = 4 << 20,	/* between two segments of one program */
	PIECES_MAX = 32,
	DATA_MAX = 64 << 20,	/* of a piece with data: what belongs to a program stands at its beginning */
};

struct search {
	const struct target *t;
	struct mappings maps;
	bool *no_file;		/* of each mapping: no image of a file has it */
	uint64_t budget;
	size_t skip;		/* so many finds are passed over */
	uint8_t buf[CHUNK + HEADER_BYTES];
};

static void search_deinit(struct search **s)
{
	if (!*s)
		return;
	mappings_deinit(&(*s)->maps);
	free((*s)->no_file);
	free(*s);
}

/* ---- which memory ---- */

static bool is_anonymous(const struct mapping *m)
{
	static const char memfd[] = "/memfd:";

	return m->inode == 0 || strncmp(m->path, memfd, sizeof(memfd) - 1) == 0;
}

/* The heap, stacks and what is the kernel's have names in brackets. */
static bool is_own(const struct mapping *m)
{
	return m->path[0] != '[' || strncmp(m->path, "[anon", 5) == 0;
}

static bool is_candidate(struct images *images, const struct mapping *m)
{
	const struct mapped_image *of;

	if (!(m->flags & MAPPING_READ) || !is_anonymous(m) || !is_own(m))
		return false;
	of = m->inode ? images_find(images, m->start) : NULL;
	return !of || !of->image;
}

static bool adjoins(const struct mapping *low, const struct mapping *high)
{
	return high->start - low->end <= GAP_MAX;
}

/* Code of no file in the same row of memory? */
static bool is_beside_code(const struct search *s, size_t i)
{
	size_t first = i, last = i;

	while (first > 0 && s->no_file[first - 1] && adjoins(&s->maps.v[first - 1], &s->maps.v[first]))
		if (s->maps.v[--first].flags & MAPPING_EXEC)
			return true;
	while (last + 1 < s->maps.n && s->no_file[last + 1] && adjoins(&s->maps.v[last], &s->maps.v[last + 1]))
		if (s->maps.v[++last].flags & MAPPING_EXEC)
			return true;
	return (s->maps.v[i].flags & MAPPING_EXEC) != 0;
}

/* ---- the table ---- */

static bool header_in(const uint8_t *buf, size_t len, uint64_t left, size_t *at)
{
	enum pclntab_format format;
	uint64_t nfunc;

	for (size_t i = *at; i + HEADER_BYTES <= len; i += STEP) {
		/* All magic numbers end so. */
		if (buf[i + 1] != 0xff || buf[i + 2] != 0xff || buf[i + 3] != 0xff)
			continue;
		*at = i;
		if (pclntab_header_parse(buf + i, left - i, &format, &nfunc))
			return true;
	}
	return false;
}

static bool mapping_search(struct search *s, const struct mapping *m)
{
	/* Chunks overlap by a header, so that none is cut in two. */
	for (gaddr_t at = m->start; at < m->end && s->budget >= CHUNK; at += CHUNK) {
		uint64_t left = m->end - at;
		struct span v = { .addr = at, .buf = s->buf,
				  .len = left < sizeof(s->buf) ? left : sizeof(s->buf) };
		_cleanup_error_ struct error *err = target_read_v(s->t, &v, 1);

		s->budget -= CHUNK;
		if (err)
			return false;
		for (size_t i = 0; header_in(s->buf, v.done, left, &i) && i < CHUNK; i += STEP)
			if (s->skip-- == 0)
				return true;
	}
	return false;
}

/* ---- the image around it ---- */

static void piece_add(struct segment *v, size_t *n, const struct mapping *m)
{
	uint64_t size = m->end - m->start;
	struct segment s = { .vaddr = m->start, .memsz = size, .filesz = size, .offset = m->start };
	struct segment *before = *n ? &v[*n - 1] : NULL;

	s.flags = (m->flags & MAPPING_READ ? SEGMENT_READ : 0) |
		  (m->flags & MAPPING_WRITE ? SEGMENT_WRITE : 0) |
		  (m->flags & MAPPING_EXEC ? SEGMENT_EXEC : 0);
	/* What the kernel shows in two lines may be one segment. */
	if (before && before->vaddr + before->memsz == s.vaddr && before->flags == s.flags)
		before->filesz = before->memsz += size;
	else if (*n < PIECES_MAX)
		v[(*n)++] = s;
}

static bool is_data(const struct mapping *m)
{
	return (m->flags & (MAPPING_WRITE | MAPPING_EXEC)) == MAPPING_WRITE;
}

/*
 * Data is what programs end with: below the table another program's data ends the row, above it the
 * first thing that is no data after data.
 */
static struct error *image_around(const struct search *s, struct target *t, size_t i, struct image **ret)
{
	const struct mapping *v = s->maps.v;
	struct segment pieces[PIECES_MAX];
	size_t first = i, last = i, n = 0;
	bool data = is_data(&v[i]);

	while (first > 0 && s->no_file[first - 1] && adjoins(&v[first - 1], &v[first]) &&
	       !is_data(&v[first - 1]))
		first--;
	while (last + 1 < s->maps.n && s->no_file[last + 1] && adjoins(&v[last], &v[last + 1]) &&
	       (!data || is_data(&v[last + 1])))
		data |= is_data(&v[++last]);
	for (size_t k = first; k <= last; k++)
		piece_add(pieces, &n, &v[k]);
	for (size_t k = 0; k < n; k++)
		if (pieces[k].flags & SEGMENT_WRITE && pieces[k].filesz > DATA_MAX)
			pieces[k].filesz = DATA_MAX;
	return image_open_pieces(t, pieces, n, ret);
}

static struct error *search_create(struct target *t, struct images *images, size_t skip,
				   struct search **ret)
{
	_cleanup_(search_deinit) struct search *s = calloc(1, sizeof(*s));
	struct error *err;

	if (!s)
		return &err_nomem;
	s->t = t;
	s->skip = skip;
	s->budget = BUDGET;
	err = target_mappings(t, &s->maps);
	if (err)
		return err;
	s->no_file = calloc(s->maps.n + 1, sizeof(*s->no_file));
	if (!s->no_file)
		return &err_nomem;
	for (size_t i = 0; i < s->maps.n; i++)
		s->no_file[i] = is_candidate(images, &s->maps.v[i]);
	*ret = take(s);
	return NULL;
}

struct error *go_memory_image(struct target *t, struct images *images, size_t skip, struct image **ret)
{
	_cleanup_(search_deinit) struct search *s = NULL;
	struct error *err = search_create(t, images, skip, &s);

	if (err)
		return err;
	for (int writable = 0; writable < 2; writable++) {
		for (size_t i = 0; i < s->maps.n; i++) {
			const struct mapping *m = &s->maps.v[i];

			if (!s->no_file[i] || ((m->flags & MAPPING_WRITE) != 0) != writable ||
			    (writable && !is_beside_code(s, i)))
				continue;
			if (mapping_search(s, m))
				return image_around(s, t, i, ret);
		}
	}
	return &err_notfound;
}
