/*
 * symbol.c: from a pc to named frames, each pc expanded once and then remembered.
 *
 * The rules about return addresses are those of a walk: the exact pc finds the function, the
 * byte before a return address finds line and inlining (it lies in the CALL). Every logical frame
 * is kept, also compiler-made and runtime ones; flags tell them apart and consumers choose.
 *
 * What a pc in C code is called holds as long as the same code is mapped: libraries come and go, and
 * others may stand in their place.
 *
 * Must not know processes, stacks or formats.
 *
 * Upstream: src/runtime/symtab.go, traceback.go (showframe, elideWrapperCalling).
 */
#include "symbol/symbol.h"

#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "go/pclntab.h"
#include "symbol/native_names.h"

enum {
	INLINE_MAX = 257,	/* logical frames of one pc: as many as the table reader tells */
	NAME_MAX_BYTES = 64 * 1024,
	HOW_BITS = 2,
};

struct expansion {
	struct symbol_frame *v;
	size_t n;
};

/* What has been expanded. */
struct known {
	struct map64 by_pc;		/* pc and how -> index in v */
	struct expansion *v;
	uint32_t n, cap;
};

struct symbols {
	struct go_runtime *rt;
	const struct go_build *build;
	gaddr_t vdso_start, vdso_end;
	struct native_names *native;	/* NULL: C code has no names */
	struct images *images;		/* borrowed; NULL with `native` */
	uint64_t generation;		/* of the images, for which `in_c` holds */
	struct arena arena;
	struct known in_go, in_c;
};

/* ---- pseudo frames ---- */

#define PSEUDO_FRAME(text, more) {							\
	.function = text, .printed = text, .module = "", .name = text, .file = "",	\
	.abs_path = "", .flags = FRAME_PSEUDO | (more),					\
}

enum pseudo { PSEUDO_C, PSEUDO_VDSO, PSEUDO_GAP, PSEUDO_UNKNOWN };

static const struct symbol_frame pseudo_frames[] = {
	[PSEUDO_C]	 = PSEUDO_FRAME("[C]", FRAME_NATIVE),
	[PSEUDO_VDSO]	 = PSEUDO_FRAME("[vdso]", FRAME_NATIVE),
	[PSEUDO_GAP]	 = PSEUDO_FRAME("[gap]", 0),
	[PSEUDO_UNKNOWN] = PSEUDO_FRAME("[unknown]", 0),
};

/* ---- life ---- */

struct error *symbols_create(struct go_runtime *rt, struct symbols **ret)
{
	struct symbols *s = calloc(1, sizeof(*s));

	if (!s)
		return &err_nomem;
	s->rt = rt;
	s->build = go_runtime_build(rt);
	arena_init(&s->arena);
	map64_init(&s->in_go.by_pc);
	map64_init(&s->in_c.by_pc);
	*ret = s;
	return NULL;
}

void symbols_destroy(struct symbols *s)
{
	if (!s)
		return;
	native_names_destroy(s->native);
	map64_deinit(&s->in_go.by_pc);
	map64_deinit(&s->in_c.by_pc);
	arena_deinit(&s->arena);
	free(s->in_go.v);
	free(s->in_c.v);
	free(s);
}

void symbols_set_vdso(struct symbols *s, gaddr_t start, gaddr_t end)
{
	s->vdso_start = start;
	s->vdso_end = end;
}

struct error *symbols_set_images(struct symbols *s, struct images *images)
{
	/* Go's code lies in the program's own image, or in the library that Go is in; so does its C code. */
	gaddr_t app = *s->build->main_module ? go_runtime_text(s->rt) : 0;
	struct error *err = native_names_create(images, &s->arena, app, &s->native);

	if (err)
		return err;
	s->images = images;
	s->generation = images_generation(images);
	return NULL;
}

uint64_t symbols_generation(const struct symbols *s)
{
	return s->images ? images_generation(s->images) : 0;
}

/* Forgets C code that may have become other code. */
static void forget_unloaded(struct symbols *s)
{
	if (s->generation == symbols_generation(s))
		return;
	s->generation = symbols_generation(s);
	map64_clear(&s->in_c.by_pc);
	s->in_c.n = 0;
	native_names_close_gone(s->native);
	images_close_gone(s->images);
}

static void known_forget(struct known *k)
{
	map64_deinit(&k->by_pc);
	free(k->v);
	*k = (struct known){ 0 };
}

void symbols_forget(struct symbols *s)
{
	known_forget(&s->in_go);
	known_forget(&s->in_c);
	arena_deinit(&s->arena);
}

size_t symbols_image_count(const struct symbols *s)
{
	return s->native ? native_names_count(s->native) : 0;
}

const struct native_image *symbols_image(const struct symbols *s, size_t i)
{
	return native_names_image(s->native, i);
}

/* ---- one frame ---- */

/* The name as the runtime prints it, in the arena; NULL when memory is short. */
static char *printed_name(struct symbols *s, const char *full)
{
	size_t cap = strnlen(full, NAME_MAX_BYTES) + sizeof("[...]");
	_cleanup_free_ char *buf = malloc(cap);

	if (!buf)
		return NULL;
	if (name_print(full, buf, cap))
		return arena_strndup(&s->arena, full, NAME_MAX_BYTES);
	return arena_strndup(&s->arena, buf, strlen(buf));
}

/* "net/http" + "/" + "server.go"; files of package main carry its import path. */
static const char *relative_file(struct symbols *s, const struct symbol_frame *f)
{
	const char *slash = strrchr(f->abs_path, '/');
	const char *base = slash ? slash + 1 : f->abs_path;
	const char *path = f->module;
	size_t path_len, base_len = strlen(base);
	char *file;

	if (!strcmp(path, "main") && *s->build->path)
		path = s->build->path;
	if (!*base || !*path)
		return base;
	path_len = strlen(path);
	file = arena_alloc(&s->arena, path_len + 1 + base_len + 1);
	if (!file)
		return NULL;
	memcpy(file, path, path_len);
	file[path_len] = '/';
	memcpy(file + path_len + 1, base, base_len);
	return file;
}

/* Import path, rest and full name, without the linker's escapes. False when memory is short. */
static bool fill_names(struct symbols *s, const char *table_name, struct symbol_frame *f)
{
	size_t len, printed_len, module_len;
	const char *rest;
	char *printed, *function = NULL, *module;

	printed = printed_name(s, table_name);
	if (!printed)
		return false;
	name_split(printed, &len, &rest);
	printed_len = strlen(printed);
	if (memchr(printed, '%', len)) {
		function = arena_strndup(&s->arena, printed, printed_len);
		if (!function)
			return false;
		name_unescape(function);
	}
	f->printed = printed;
	f->function = function ? function : printed;
	f->name = f->function + strlen(f->function) - strlen(rest);
	/* What stands between them is the dot, or nothing where there is no package. */
	module_len = len ? (size_t)(f->name - f->function) - 1 : 0;
	module = arena_strndup(&s->arena, f->function, module_len);
	f->module = module;
	return module != NULL;
}

static bool fill_frame(struct symbols *s, const struct go_line *line, struct symbol_frame *f)
{
	if (!fill_names(s, line->function, f))
		return false;
	f->abs_path = line->file;
	f->line = line->line > 0 ? (uint32_t)line->line : 0;
	f->start_line = line->start_line > 0 ? (uint32_t)line->start_line : 0;
	f->entry = line->entry;
	f->flags = (line->inlined ? FRAME_INLINED : 0) | (line->wrapper ? FRAME_WRAPPER : 0) |
		   (line->no_args ? FRAME_NO_ARGS : 0);
	if (name_runtime_hidden(line->function, s->build->minor))
		f->flags |= FRAME_RUNTIME_HIDDEN;
	if (name_in_app(f->module, s->build->main_module))
		f->flags |= FRAME_IN_APP;
	f->file = relative_file(s, f);
	return f->file != NULL;
}

/* ---- one pc ---- */

static struct error *expand_pseudo(struct symbols *s, enum pseudo which, gaddr_t pc, struct expansion *ret)
{
	struct symbol_frame *f = arena_alloc(&s->arena, sizeof(*f));

	if (!f)
		return &err_nomem;
	*f = pseudo_frames[which];
	f->entry = pc;
	*ret = (struct expansion){ .v = f, .n = 1 };
	return NULL;
}

static struct error *expand_go(struct symbols *s, gaddr_t pc, enum symbol_pc how, struct expansion *ret)
{
	struct go_line lines[INLINE_MAX];
	struct symbol_frame *v;
	struct go_func f;
	size_t n = 0;

	pc = go_pc_real(s->rt, pc);
	if (go_func_find(s->rt, pc, &f))
		n = go_lines(s->rt, how == SYMBOL_RETURN && pc > f.entry ? pc - 1 : pc, lines, INLINE_MAX);
	if (!n)
		return expand_pseudo(s, PSEUDO_UNKNOWN, pc, ret);
	v = arena_alloc(&s->arena, n * sizeof(*v));
	if (!v)
		return &err_nomem;
	for (size_t i = 0; i < n; i++)
		if (!fill_frame(s, &lines[i], &v[i]))
			return &err_nomem;
	*ret = (struct expansion){ .v = v, .n = n };
	return NULL;
}

static struct error *expand_native(struct symbols *s, gaddr_t pc, struct expansion *ret)
{
	bool vdso = pc >= s->vdso_start && pc < s->vdso_end;
	struct expansion e = { .n = 0 };
	struct error *err = s->native && pc ? native_names_expand(s->native, pc, &e.v, &e.n) : NULL;

	if (err)
		return err;
	if (!e.n)
		return expand_pseudo(s, vdso ? PSEUDO_VDSO : PSEUDO_C, pc, ret);
	*ret = e;
	return NULL;
}

static struct error *expand(struct symbols *s, gaddr_t pc, enum symbol_pc how, struct expansion *ret)
{
	switch (how) {
	case SYMBOL_NATIVE:
		return expand_native(s, pc, ret);
	case SYMBOL_GAP:
		return expand_pseudo(s, PSEUDO_GAP, pc, ret);
	default:
		return expand_go(s, pc, how, ret);
	}
}

static struct error *remember(struct known *k, uint64_t key, struct expansion e)
{
	struct error *err = array_reserve(&k->v, &k->cap, k->n + 1, sizeof(*k->v));

	if (!err)
		err = map64_put(&k->by_pc, key, k->n);
	if (err)
		return err;
	k->v[k->n++] = e;
	return NULL;
}

struct error *symbol_expand(struct symbols *s, gaddr_t pc, enum symbol_pc how,
			    const struct symbol_frame **ret, size_t *n)
{
	uint64_t key = pc << HOW_BITS | (uint64_t)how;
	struct known *k = how == SYMBOL_NATIVE ? &s->in_c : &s->in_go;
	struct expansion e;
	struct error *err;
	uint32_t at;

	/* No user address has its top bits set; what comes so is no code, and its key would not be its own. */
	if (pc >> (64 - HOW_BITS) && how != SYMBOL_GAP) {
		*ret = &pseudo_frames[how == SYMBOL_NATIVE ? PSEUDO_C : PSEUDO_UNKNOWN];
		*n = 1;
		return NULL;
	}
	forget_unloaded(s);
	at = map64_get(&k->by_pc, key);
	if (at == MAP_NONE) {
		err = expand(s, pc, how, &e);
		if (!err)
			err = remember(k, key, e);
		if (err)
			return err;
		at = k->n - 1;
	}
	*ret = k->v[at].v;
	*n = k->v[at].n;
	return NULL;
}

/* ---- what a traceback shows ---- */

static bool is_gopanic(const struct symbol_frame *f)
{
	return !strcmp(f->function, "runtime.gopanic");
}

/* A wrapper is shown when it called a panic and not what it wraps. */
static bool starts_panic(const struct symbol_frame *f)
{
	return is_gopanic(f) || !strcmp(f->function, "runtime.sigpanic") ||
	       !strcmp(f->function, "runtime.panicwrap");
}

/* By itself, without what is special about gopanic. */
static bool shown_alone(const struct symbol_frame *const *frames, size_t i)
{
	const struct symbol_frame *f = frames[i];

	if (f->flags & FRAME_PSEUDO)
		return true;
	if (f->flags & FRAME_WRAPPER && !(i && starts_panic(frames[i - 1])))
		return false;
	return !(f->flags & FRAME_RUNTIME_HIDDEN);
}

bool symbol_shown(const struct symbol_frame *const *frames, size_t n, size_t i)
{
	if (i >= n)
		return false;
	if (shown_alone(frames, i))
		return true;
	/* It marks the border between the code that panicked and the deferred code above it. */
	if (frames[i]->flags & FRAME_WRAPPER || !is_gopanic(frames[i]))
		return false;
	for (size_t j = 0; j < i; j++)
		if (shown_alone(frames, j))
			return true;
	return false;
}
