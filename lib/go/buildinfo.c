/*
 * buildinfo.c: what the linker wrote about the build: version, module, settings.
 *
 * A record found by its magic at 16-byte steps, through segments. From 1.18 on the two strings
 * follow it; before that it holds pointers to string headers. Where the record was scrubbed, the
 * version is taken from the runtime's own variable. The text is not trusted: lengths are bounded,
 * lines without the expected fields are passed over.
 *
 * Upstream: src/debug/buildinfo/buildinfo.go, src/runtime/debug/mod.go (ParseBuildInfo).
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "go/go_impl.h"

enum {
	RECORD_STEP = 16, RECORD_SIZE = 32,
	FLAGS_AT = 15, VERSION_POINTER_AT = 16, MODINFO_POINTER_AT = 24,
	FLAG_BIG_ENDIAN = 1, FLAG_INLINE = 2,
	CANDIDATES_MAX = 16,
	MODINFO_MAX = 1 << 20,
	SENTINEL = 16,		/* bytes around the module text, by which tools find it */
	VARINT_BYTES = 10,
};

static const uint8_t magic[] = "\xff Go buildinf:";

struct record_search {
	gaddr_t at[CANDIDATES_MAX];
	size_t n;
};

static bool records_in_chunk(void *ctx, const struct image_chunk *c)
{
	struct record_search *s = ctx;

	for (size_t i = 0; i + RECORD_STEP <= c->own && s->n < CANDIDATES_MAX; i += RECORD_STEP)
		if (c->bytes[i] == magic[0] && memcmp(c->bytes + i, magic, sizeof(magic) - 1) == 0)
			s->at[s->n++] = c->addr + i;
	return s->n == CANDIDATES_MAX;
}

/* A piece of the program's text in memory of ours, NUL behind it. */
struct text {
	char *p;
	size_t len;
};

static void text_free(struct text *t)
{
	free(t->p);
}

static bool text_read(struct image *img, gaddr_t addr, uint64_t len, struct text *ret)
{
	_cleanup_free_ char *p = NULL;

	if (len > MODINFO_MAX)
		return false;
	p = calloc(1, (size_t)len + 1);
	if (!p || (len > 0 && image_read(img, addr, p, (size_t)len)))
		return false;
	*ret = (struct text){ .p = take(p), .len = (size_t)len };
	return true;
}

/* A length and that many bytes; *addr moves behind them. */
static bool text_inline(struct image *img, gaddr_t *addr, struct text *ret)
{
	uint8_t b[VARINT_BYTES];
	struct cursor c = cursor_over(b, image_read_some(img, *addr, b, sizeof(b)));
	uint64_t len = cursor_uvarint(&c);
	gaddr_t start = *addr + (uint64_t)(c.p - b);

	if (c.bad || !text_read(img, start, len, ret))
		return false;
	*addr = start + len;
	return true;
}

/* What a pointer to a string header leads to; a null pointer is an empty text. */
static bool text_pointed(struct image *img, gaddr_t pointer_at, struct text *ret)
{
	uint64_t header_at, header[2];

	if (image_read_relocated(img, pointer_at, &header_at, sizeof(header_at)))
		return false;
	if (header_at == 0)
		return text_read(img, 0, 0, ret);
	if (image_read_relocated(img, header_at, header, sizeof(header)))
		return false;
	return text_read(img, header[0], header[1], ret);
}

static bool record_texts(struct image *img, gaddr_t at, struct text *version, struct text *modinfo)
{
	uint8_t r[RECORD_SIZE];
	gaddr_t next = at + RECORD_SIZE;

	if (image_read(img, at, r, sizeof(r)) || (r[FLAGS_AT] & FLAG_BIG_ENDIAN))
		return false;
	if (r[FLAGS_AT] & FLAG_INLINE)
		return text_inline(img, &next, version) && text_inline(img, &next, modinfo);
	return text_pointed(img, at + VERSION_POINTER_AT, version) &&
	       text_pointed(img, at + MODINFO_POINTER_AT, modinfo);
}

/* ---- the module text ---- */

/* A field of a line: up to the next tab or the end. */
static const char *field_take(struct arena *strings, const char **p, const char *end)
{
	const char *tab = memchr(*p, '\t', (size_t)(end - *p));
	const char *stop = tab ? tab : end;
	const char *copy = arena_strndup(strings, *p, (size_t)(stop - *p));

	*p = tab ? tab + 1 : end;
	return copy ? copy : "";
}

static bool begins(const char **p, const char *end, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(end - *p) < n || memcmp(*p, word, n) != 0)
		return false;
	*p += n;
	return true;
}

static void line_read(const char *p, const char *end, struct arena *strings, struct buf *settings,
		      struct go_build *ret)
{
	if (begins(&p, end, "path\t")) {
		ret->path = field_take(strings, &p, end);
	} else if (begins(&p, end, "mod\t")) {
		ret->main_module = field_take(strings, &p, end);
		ret->main_version = field_take(strings, &p, end);
	} else if (begins(&p, end, "build\t")) {
		buf_add(settings, p, (size_t)(end - p));
		buf_addc(settings, '\n');
	}
}

static struct error *modinfo_parse(const struct text *t, struct arena *strings, struct go_build *ret)
{
	_cleanup_(buf_deinit) struct buf settings;
	const char *p = t->p, *end = t->p + t->len;

	buf_init(&settings);
	if (t->len >= 2 * SENTINEL + 1 && t->p[t->len - SENTINEL - 1] == '\n') {
		p += SENTINEL;
		end -= SENTINEL;
	}
	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		const char *stop = nl ? nl : end;

		line_read(p, stop, strings, &settings, ret);
		p = nl ? nl + 1 : end;
	}
	if (settings.len > 0)
		ret->settings = arena_strndup(strings, settings.data, settings.len);
	return settings.failed || !ret->settings ? &err_nomem : NULL;
}

/* ---- all of it ---- */

static bool version_set(const char *version, struct go_build *ret)
{
	if (strlen(version) >= sizeof(ret->version) ||
	    !go_version_parse(version, &ret->minor, &ret->patch))
		return false;
	strcpy(ret->version, version);
	return true;
}

/* NULL and has_buildinfo: it was one. NULL without: it was none. */
static struct error *record_read(struct image *img, gaddr_t at, struct arena *strings,
				 struct go_build *ret)
{
	_cleanup_(text_free) struct text version = { 0 };
	_cleanup_(text_free) struct text modinfo = { 0 };

	if (!record_texts(img, at, &version, &modinfo) || !version_set(version.p, ret))
		return NULL;
	ret->has_buildinfo = true;
	return modinfo_parse(&modinfo, strings, ret);
}

static struct error *records_read(struct image *img, uint32_t with, uint32_t without,
				  struct arena *strings, struct go_build *ret)
{
	struct record_search s = { 0 };
	struct error *err = image_scan(img, with, without, records_in_chunk, &s);

	for (size_t i = 0; !err && i < s.n && !ret->has_buildinfo; i++)
		err = record_read(img, s.at[i], strings, ret);
	return err;
}

struct error *go_buildinfo_read(struct image *img, struct arena *strings, struct go_build *ret)
{
	struct go_build b = {
		.minor = -1, .patch = -1,
		.path = "", .main_module = "", .main_version = "", .settings = "",
	};
	/* It belongs into writable data, where the search is short; packers may have moved it. */
	struct error *err = records_read(img, SEGMENT_WRITE, 0, strings, &b);

	if (!err && !b.has_buildinfo)
		err = records_read(img, 0, SEGMENT_WRITE, strings, &b);
	if (!err && !b.has_buildinfo) {
		char version[sizeof(b.version)];

		err = go_version_variable(img, version);
		if (!err && !version_set(version, &b))
			err = &err_notfound;
	}
	if (err)
		return err;
	*ret = b;
	return NULL;
}

/* ---- settings ---- */

/* The value as the go command meant it: quoted when it holds spaces, quotes or line ends. */
static size_t unquote(const char *s, size_t len, char *buf)
{
	static const char escapes[] = "n\nt\tr\r\"\"\\\\";
	size_t n = 0;

	if (len < 2 || s[0] != '"' || s[len - 1] != '"') {
		memcpy(buf, s, len);
		return len;
	}
	for (size_t i = 1; i < len - 1; i++) {
		const char *e = s[i] == '\\' && i + 1 < len - 1 ? escapes : NULL;

		while (e && *e && *e != s[i + 1])
			e += 2;
		if (e && *e) {
			buf[n++] = e[1];
			i++;
		} else {
			buf[n++] = s[i];
		}
	}
	return n;
}

bool go_build_setting(const struct go_build *b, const char *key, char *buf, size_t cap)
{
	size_t key_len = strlen(key);

	for (const char *line = b->settings; *line;) {
		const char *end = strchrnul(line, '\n');

		if ((size_t)(end - line) > key_len && memcmp(line, key, key_len) == 0 &&
		    line[key_len] == '=') {
			const char *value = line + key_len + 1;

			if ((size_t)(end - value) >= cap)
				return false;
			buf[unquote(value, (size_t)(end - value), buf)] = '\0';
			return true;
		}
		line = *end ? end + 1 : end;
	}
	return false;
}
