/*
 * native_names.c: names for C code. For each image that is met, once: the symbols of its debug file
 * where there is one, else its own, and its own DWARF. (That of debug files would cost 20 MB for the
 * lines of the C library alone.)
 *
 *	function	by symbol, else by DWARF, which also tells inlined calls, else
 *			"libc.so.6+0x27d00": the place in the file where the function begins, as far as
 *			the unwind table says that, so that one without a name is still one function
 *	"name?"		the symbol has no size, and no unwind table tells where the function ends:
 *			this pc may be that of another one which has no name
 *	module		the base name of the image's file
 *	in_app		C code linked into the Go program itself, where the program's main module is
 *			known, and only where DWARF tells its source and that is not the Go runtime's
 *			own C part
 *
 * Bounds: 12 MiB of symbols for an image and 64 MiB for all together, and 32 MiB of DWARF for an image
 * and 64 MiB for all together; what is beyond has names by symbol, or by place. An image that is no
 * longer mapped gives back what it took.
 *
 * Must not know stacks or formats.
 */
#include "symbol/native_names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "image/code_names.h"
#include "image/eh_frame.h"

enum {
	INLINE_MAX = 32,		/* logical frames of one pc */
	NAME_BYTES = 4096,
	DWARF_MAX = 32 << 20,		/* bytes for one image */
	DWARF_ALL_MAX = 64 << 20,
	SYMBOLS_ALL_MAX = 64 << 20,
	BUILD_ID_BYTES = 129,
};

static const char debug_root[] = "/usr/lib/debug";

/* What is known of one image; opened at the first question about its code. */
struct named_image {
	const struct mapped_image *mapped;
	struct native_image pub;
	struct image *debug;		/* its debug file; NULL: none */
	struct code_symbols *symbols;
	struct dwarf_names *dwarf;
	uint64_t symbol_bytes, dwarf_bytes;
};

struct native_names {
	struct images *images;
	struct arena *arena;		/* of frames */
	struct arena facts;		/* about images */
	const struct mapped_image *app;
	struct named_image **v;
	uint32_t n, cap;
	uint64_t symbol_bytes, dwarf_bytes;	/* of all together */
};

/* ---- life ---- */

struct error *native_names_create(struct images *images, struct arena *arena, gaddr_t app_code,
				  struct native_names **ret)
{
	struct native_names *nn = calloc(1, sizeof(*nn));

	if (!nn)
		return &err_nomem;
	*nn = (struct native_names){ .images = images, .arena = arena };
	arena_init(&nn->facts);
	nn->app = app_code ? images_find(images, app_code) : NULL;
	*ret = nn;
	return NULL;
}

/* Its sources of names; what people are told of it (pub) stays. */
static void named_close(struct native_names *nn, struct named_image *ni)
{
	dwarf_names_close(take(ni->dwarf));
	code_symbols_free(take(ni->symbols));
	image_close(take(ni->debug));
	nn->dwarf_bytes -= ni->dwarf_bytes;
	nn->symbol_bytes -= ni->symbol_bytes;
	ni->dwarf_bytes = ni->symbol_bytes = 0;
}

void native_names_close_gone(struct native_names *nn)
{
	for (uint32_t i = 0; i < nn->n; i++)
		if (nn->v[i]->mapped->gone)
			named_close(nn, nn->v[i]);
}

void native_names_destroy(struct native_names *nn)
{
	if (!nn)
		return;
	for (uint32_t i = 0; i < nn->n; i++) {
		named_close(nn, nn->v[i]);
		free(nn->v[i]);
	}
	arena_deinit(&nn->facts);
	free(nn->v);
	free(nn);
}

size_t native_names_count(const struct native_names *nn)
{
	return nn->n;
}

const struct native_image *native_names_image(const struct native_names *nn, size_t i)
{
	return &nn->v[i]->pub;
}

/* ---- one image ---- */

/* "/usr/lib/libc.so.6 (deleted)" -> "libc.so.6" */
static const char *base_name(struct native_names *nn, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	return arena_strndup(&nn->facts, name, image_path_length(name));
}

static const char *build_id(struct native_names *nn, struct image *img)
{
	char id[BUILD_ID_BYTES];
	struct error *err = image_build_id(img, id, sizeof(id));

	if (err)
		id[0] = '\0';
	error_free(err);
	return arena_strndup(&nn->facts, id, strlen(id));
}

static void open_dwarf(struct native_names *nn, struct named_image *ni, struct image *img)
{
	uint64_t left = DWARF_ALL_MAX - nn->dwarf_bytes, bytes = 0;
	struct error *err = dwarf_names_open(img, left < DWARF_MAX ? left : DWARF_MAX, &ni->dwarf, &bytes);

	if (!err) {
		nn->dwarf_bytes += bytes;
		ni->dwarf_bytes = bytes;
	}
	error_free(err);
}

static void open_symbols(struct native_names *nn, struct named_image *ni, struct image *img)
{
	struct code_symbols *cs = NULL;
	uint64_t bytes;

	error_free(code_symbols_load(img, &cs));
	bytes = cs ? code_symbols_bytes(cs) : 0;
	if (nn->symbol_bytes + bytes > SYMBOLS_ALL_MAX) {
		code_symbols_free(cs);
		return;
	}
	nn->symbol_bytes += bytes;
	ni->symbol_bytes = bytes;
	ni->symbols = cs;
}

/* The sources of names that the image has; what it has not stays NULL. */
static void open_sources(struct native_names *nn, struct named_image *ni)
{
	struct image *img = ni->mapped->image;

	error_free(debug_file_open(img, debug_root, &ni->debug));
	open_dwarf(nn, ni, img);
	if (ni->debug)
		open_symbols(nn, ni, ni->debug);
	if (!ni->symbols)
		open_symbols(nn, ni, img);
}

/* The lowest segment of code: what a mapping line of pprof tells. */
static void fill_mapping(struct named_image *ni)
{
	size_t n;
	const struct segment *s = image_segments(ni->mapped->image, &n);

	ni->pub.start = ni->mapped->start;
	ni->pub.end = ni->mapped->end;
	for (size_t i = 0; i < n; i++) {
		if (!(s[i].flags & SEGMENT_EXEC))
			continue;
		ni->pub.start = s[i].vaddr + ni->mapped->bias;
		ni->pub.end = ni->pub.start + s[i].memsz;
		ni->pub.offset = ni->mapped->in_memory ? 0 : s[i].offset;
		return;
	}
}

static struct error *named_create(struct native_names *nn, const struct mapped_image *m, struct named_image **ret)
{
	struct named_image *ni = calloc(1, sizeof(*ni));

	if (!ni)
		return &err_nomem;
	ni->mapped = m;
	ni->pub.name = base_name(nn, m->path);
	ni->pub.path = arena_strndup(&nn->facts, m->path, strlen(m->path));
	ni->pub.build_id = build_id(nn, m->image);
	if (!ni->pub.name || !ni->pub.path || !ni->pub.build_id) {
		free(ni);
		return &err_nomem;
	}
	fill_mapping(ni);
	open_sources(nn, ni);
	ni->pub.lines = ni->dwarf != NULL;
	*ret = ni;
	return NULL;
}

static struct error *named_find(struct native_names *nn, const struct mapped_image *m, struct named_image **ret)
{
	struct error *err;

	for (uint32_t i = 0; i < nn->n; i++) {
		if (nn->v[i]->mapped == m) {
			*ret = nn->v[i];
			return NULL;
		}
	}
	err = array_reserve(&nn->v, &nn->cap, nn->n + 1, sizeof(*nn->v));
	if (!err)
		err = named_create(nn, m, ret);
	if (!err)
		nn->v[nn->n++] = *ret;
	return err;
}

/* ---- one pc ---- */

static const char *keep(struct native_names *nn, const char *s)
{
	return *s ? arena_strndup(nn->arena, s, strlen(s)) : "";
}

/* "libc.so.6+0x27d00" */
static void name_by_place(const struct named_image *ni, gaddr_t pc, gaddr_t *start, char *buf, size_t cap)
{
	const struct segment *s;
	struct eh_entry e;

	*start = eh_frame_find(ni->mapped->image, pc, &e) ? e.start : pc;
	s = ni->mapped->in_memory ? NULL : image_segment_at(ni->mapped->image, *start);
	snprintf(buf, cap, "%s+0x%" PRIx64, ni->pub.name, s ? s->offset + (*start - s->vaddr) : *start);
}

/* Does the unwind table say how long the function is that the symbol does not tell the size of? */
static bool size_told(const struct named_image *ni, gaddr_t pc, const struct code_symbol *s)
{
	struct eh_entry e;

	/* Code that the kernel returns to is described from one byte before it on. */
	return eh_frame_find(ni->mapped->image, pc, &e) && e.start + e.signal_frame == s->start;
}

/* The function that holds pc. False: it has no name of its own, and is called by its place. */
static bool name_function(const struct named_image *ni, gaddr_t pc, gaddr_t *start, char *buf, size_t cap)
{
	struct code_symbol symbol;
	size_t len;

	if (!ni->symbols || !code_symbols_find(ni->symbols, pc, &symbol, buf, cap - 1)) {
		name_by_place(ni, pc, start, buf, cap);
		return false;
	}
	*start = symbol.start;
	len = strlen(buf);
	if (!symbol.guessed || size_told(ni, pc, &symbol))
		return true;
	buf[len] = '?';
	buf[len + 1] = '\0';
	return false;
}

/* "libc.so.6/malloc.c": two files of one name in different images must not look like one. */
static const char *relative_file(struct native_names *nn, const char *module, const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	size_t len = strlen(module), base_len = strlen(base);
	char *s;

	if (!base_len)
		return "";
	s = arena_alloc(nn->arena, len + 1 + base_len + 1);
	if (!s)
		return NULL;
	memcpy(s, module, len);
	s[len] = '/';
	memcpy(s + len + 1, base, base_len);
	return s;
}

static bool is_app(const struct native_names *nn, const struct named_image *ni, const char *file)
{
	return ni->mapped == nn->app && *file && !strstr(file, "/runtime/cgo/");
}

static bool fill_frame(struct native_names *nn, const struct named_image *ni, const struct dwarf_frame *d,
		       gaddr_t entry, struct symbol_frame *f)
{
	const char *function = keep(nn, d->function);
	const char *path = keep(nn, d->file);

	*f = (struct symbol_frame){
		.function = function, .printed = function, .name = function, .module = ni->pub.name,
		.abs_path = path, .line = d->line, .start_line = d->start_line, .entry = entry,
		.flags = FRAME_NATIVE | (d->inlined ? FRAME_INLINED : 0),
	};
	if (!function || !path)
		return false;
	if (is_app(nn, ni, path))
		f->flags |= FRAME_IN_APP;
	f->file = relative_file(nn, f->module, path);
	return f->file != NULL;
}

/*
 * The frames at a link-time pc. What DWARF calls the function itself may be an internal name: the
 * symbol's is the public one, if it is sure.
 */
static size_t lines_of(const struct named_image *ni, gaddr_t pc, const char *name, bool sure,
		       struct dwarf_frame v[INLINE_MAX])
{
	size_t n = ni->dwarf ? dwarf_names_find(ni->dwarf, pc, v, INLINE_MAX) : 0;

	if (!n)
		v[n++] = (struct dwarf_frame){ .function = name, .file = "" };
	else if (sure || !*v[n - 1].function)
		v[n - 1].function = name;
	return n;
}

struct error *native_names_expand(struct native_names *nn, gaddr_t pc, struct symbol_frame **ret, size_t *n)
{
	const struct mapped_image *m = images_find(nn->images, pc);
	_cleanup_free_ char *name = NULL;
	struct dwarf_frame lines[INLINE_MAX];
	struct named_image *ni;
	struct symbol_frame *v;
	struct error *err;
	size_t count;
	gaddr_t start;
	bool sure;

	*n = 0;
	if (!m || !m->image)
		return NULL;
	name = malloc(NAME_BYTES);
	err = name ? named_find(nn, m, &ni) : &err_nomem;
	if (err)
		return err;
	sure = name_function(ni, pc - m->bias, &start, name, NAME_BYTES);
	count = lines_of(ni, pc - m->bias, name, sure, lines);
	v = arena_alloc(nn->arena, count * sizeof(*v));
	if (!v)
		return &err_nomem;
	for (size_t i = 0; i < count; i++)
		if (!fill_frame(nn, ni, &lines[i], start + m->bias, &v[i]))
			return &err_nomem;
	*ret = v;
	*n = count;
	return NULL;
}
