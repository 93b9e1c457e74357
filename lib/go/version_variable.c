/*
 * version_variable.c: the version of a program whose build information was scrubbed, from the
 * variable runtime.buildVersion.
 *
 * With symbols it is looked up. Without, it is known by what it is: a string header in writable
 * data that points to text which is a version and nothing else, with exactly its length; the linker
 * writes that text as a string of its own, ended by NUL. A program may hold other versions as data
 * of its own: if two different ones are found, there is no answer.
 *
 * Upstream: cmd/link/internal/ld/data.go (addstrdata), src/runtime/proc.go (buildVersion).
 */
#include <string.h>

#include "base/cleanup.h"
#include "go/go_impl.h"

enum { TEXT_MAX = 64, TEXTS_MAX = 256, HEADERS_MAX = 16 };

_Static_assert((int)TEXT_MAX <= (int)IMAGE_SCAN_OVERLAP, "texts must be seen whole");

/* A string header; false when it does not hold a version of exactly its length. */
static bool version_at_header(struct image *img, gaddr_t header_at, char version[TEXT_MAX])
{
	uint64_t header[2];
	char text[TEXT_MAX] = { 0 };
	int minor, patch;

	if (image_read_relocated(img, header_at, header, sizeof(header)) || header[1] == 0 ||
	    header[1] >= TEXT_MAX || image_read(img, header[0], text, (size_t)header[1]) ||
	    strlen(text) != header[1] || !go_version_parse(text, &minor, &patch))
		return false;
	memcpy(version, text, TEXT_MAX);
	return true;
}

struct text_search {
	gaddr_t at[TEXTS_MAX];
	size_t n;
};

/* Texts that begin like a version and end by NUL in time. */
static bool texts_in_chunk(void *ctx, const struct image_chunk *c)
{
	static const char start[] = "go1.";
	struct text_search *s = ctx;
	const uint8_t *p = c->bytes, *end = c->bytes + c->len;

	while (s->n < TEXTS_MAX && (p = memmem(p, (size_t)(end - p), start, sizeof(start) - 1))) {
		size_t left = (size_t)(end - p);
		int minor, patch;

		if ((size_t)(p - c->bytes) >= c->own)
			break;
		if (memchr(p, '\0', left < TEXT_MAX ? left : TEXT_MAX) &&
		    go_version_parse((const char *)p, &minor, &patch))
			s->at[s->n++] = c->addr + (uint64_t)(p - c->bytes);
		p++;
	}
	return s->n == TEXTS_MAX;
}

/* Compares what the headers that point to `text` say with what was found before ("" : nothing yet). */
static struct error *headers_of(struct image *img, gaddr_t text, char found[TEXT_MAX], bool *clash)
{
	gaddr_t at[HEADERS_MAX];
	size_t n = HEADERS_MAX;
	struct error *err = image_find_pointers(img, text, at, &n);

	for (size_t i = 0; !err && i < n; i++) {
		char version[TEXT_MAX];

		if (!version_at_header(img, at[i], version))
			continue;
		if (found[0] && strcmp(found, version) != 0)
			*clash = true;
		memcpy(found, version, TEXT_MAX);
	}
	return err;
}

static struct error *by_search(struct image *img, char ret[TEXT_MAX])
{
	struct text_search s = { 0 };
	char found[TEXT_MAX] = "";
	bool clash = false;
	struct error *err = image_scan(img, 0, 0, texts_in_chunk, &s);

	for (size_t i = 0; !err && !clash && i < s.n; i++)
		err = headers_of(img, s.at[i], found, &clash);
	if (err)
		return err;
	if (clash || !found[0])
		return &err_notfound;
	memcpy(ret, found, TEXT_MAX);
	return NULL;
}

struct error *go_version_variable(struct image *img, char ret[GO_VERSION_MAX])
{
	static const char *const name[] = { "runtime.buildVersion" };
	struct image_symbol sym = { 0 };
	struct error *err = image_find_symbols(img, name, 1, &sym);

	_Static_assert((int)TEXT_MAX == (int)GO_VERSION_MAX, "one bound for versions");
	error_free(err);
	if (!err && sym.addr && version_at_header(img, sym.addr, ret))
		return NULL;
	return by_search(img, ret);
}
