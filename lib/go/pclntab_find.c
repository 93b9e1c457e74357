/*
 * pclntab_find.c: the function table, found by its content.
 *
 * The section that holds it has had three names and sometimes none; the magic number and a header
 * that agrees with itself are found in every program. Alignment is 32 up to Go 1.25 and 8 since.
 * Read-only and writable segments come first (in old position independent programs the table is
 * relocated data), code last: linkers that save pages put read-only data into the code segment.
 * The header's text start is not looked at: it is 0 since Go 1.26. Where nothing agrees with itself,
 * the magic will do if something points to it that begins as moduledata does: the runtime asks for no
 * more, and other programs that know of Go have the magic in their data. What a candidate is worth is
 * decided by moduledata.c.
 *
 * Upstream: src/runtime/symtab.go (pcHeader, moduledataverify1), cmd/link/internal/ld/pcln.go.
 */
#include <string.h>

#include "base/buf.h"
#include "go/pclntab_impl.h"

enum { HEADER_MAX = 72, TABLE_STEP = 8, N_TABLES = 5, MIN_LC = 1, PTR_SIZE = 8,
       N_SLICES = 3, POINTERS_MAX = 64 };

_Static_assert((int)HEADER_MAX <= (int)IMAGE_SCAN_OVERLAP, "headers must be seen whole");

static bool format_of(const uint8_t *bytes, enum pclntab_format *ret)
{
	uint32_t magic;

	if (bytes[4] != 0 || bytes[5] != 0 || bytes[6] != MIN_LC || bytes[7] != PTR_SIZE)
		return false;
	memcpy(&magic, bytes, sizeof(magic));
	for (enum pclntab_format f = 0; pclntab_shape(f); f++) {
		if (pclntab_shape(f)->magic != magic)
			continue;
		*ret = f;
		return true;
	}
	return false;
}

/* The five tables come in one order and each begins within what is left of the segment. */
static bool tables_sane(const struct pclntab_shape *s, struct cursor c, uint64_t nfunc, uint64_t avail)
{
	uint64_t last = s->header_size;

	if (!s->tables_at)
		return true;
	cursor_bytes(&c, s->tables_at);
	for (int i = 0; i < N_TABLES; i++) {
		uint64_t offset = cursor_u64(&c);

		if (c.bad || offset < last || offset >= avail)
			return false;
		last = offset;
	}
	return nfunc * 2 * s->ftab_word < avail - last;
}

bool pclntab_header_parse(const uint8_t *bytes, uint64_t avail, enum pclntab_format *format,
			  uint64_t *nfunc)
{
	const struct pclntab_shape *s;
	enum pclntab_format f;
	uint64_t n;

	if (avail < HEADER_MAX || !format_of(bytes, &f))
		return false;
	s = pclntab_shape(f);
	memcpy(&n, bytes + 8, sizeof(n));
	if (n == 0 || n > NFUNC_MAX || n * 2 * s->ftab_word > avail)
		return false;
	if (!tables_sane(s, cursor_over(bytes, HEADER_MAX), n, avail))
		return false;
	*format = f;
	*nfunc = n;
	return true;
}

struct header_search {
	bool magic_only;
	const struct image *img;
	struct pclntab_header *out;
	size_t n, cap;
};

static bool headers_in_chunk(void *ctx, const struct image_chunk *c)
{
	struct header_search *s = ctx;

	for (size_t i = 0; i < c->own && c->len - i >= HEADER_MAX && s->n < s->cap; i += TABLE_STEP) {
		gaddr_t addr = c->addr + i;
		const struct segment *seg;
		struct pclntab_header *h = &s->out[s->n];

		/* All four magic numbers end so: one compare passes over nearly everything. */
		if (c->bytes[i + 1] != 0xff || c->bytes[i + 2] != 0xff || c->bytes[i + 3] != 0xff)
			continue;
		seg = image_segment_at(s->img, addr);
		h->addr = addr;
		h->nfunc = NFUNC_UNKNOWN;
		if (seg && (s->magic_only ? format_of(c->bytes + i, &h->format)
					  : pclntab_header_parse(c->bytes + i, seg->filesz - (addr - seg->vaddr),
								 &h->format, &h->nfunc)))
			s->n++;
	}
	return s->n == s->cap;
}

/* ---- the magic alone ---- */

/* A slice as the linker makes them: some bytes of the file, and no room for more. */
static bool is_slice(const struct image *img, const uint64_t *words)
{
	return image_segment_at(img, words[0]) && words[1] > 0 && words[1] == words[2];
}

/* Do some tables follow behind the word? Up to 1.15 that is the first table's own. */
static bool begins_moduledata(struct image *img, gaddr_t at, const struct pclntab_header *h)
{
	uint64_t words[1 + 3 * N_SLICES];
	const uint64_t *slices = pclntab_shape(h->format)->tables_at ? words + 1 : words;
	struct error *err = image_read_relocated(img, at, words, sizeof(words));

	error_free(err);
	for (int i = 0; !err && i < N_SLICES; i++)
		if (!is_slice(img, slices + 3 * i))
			return false;
	return !err && words[0] == h->addr;
}

static struct error *has_moduledata(struct image *img, const struct pclntab_header *h, bool *ret)
{
	gaddr_t at[POINTERS_MAX];
	size_t n = POINTERS_MAX;
	struct error *err = image_find_pointers(img, h->addr, at, &n);

	*ret = false;
	for (size_t i = 0; !err && i < n && !*ret; i++)
		*ret = begins_moduledata(img, at[i], h);
	return err;
}

static struct error *search_magic(struct image *img, struct header_search *s)
{
	struct pclntab_header h[PCLNTAB_CANDIDATES];
	struct header_search all = { .magic_only = true, .img = img, .out = h, .cap = PCLNTAB_CANDIDATES };
	struct error *err = image_scan(img, 0, SEGMENT_EXEC, headers_in_chunk, &all);

	for (size_t i = 0; !err && i < all.n && s->n < s->cap; i++) {
		bool has;

		err = has_moduledata(img, &h[i], &has);
		if (!err && has)
			s->out[s->n++] = h[i];
	}
	return err;
}

struct error *pclntab_candidates(struct image *img, struct pclntab_header *out, size_t *n)
{
	struct header_search s = { .img = img, .out = out, .cap = *n };
	struct error *err = image_scan(img, 0, SEGMENT_EXEC, headers_in_chunk, &s);

	if (!err && s.n == 0)
		err = image_scan(img, SEGMENT_EXEC, 0, headers_in_chunk, &s);
	if (!err && s.n == 0)
		err = search_magic(img, &s);
	if (err)
		return err;
	*n = s.n;
	return NULL;
}
