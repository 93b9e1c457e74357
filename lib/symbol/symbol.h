/*
 * symbol.h: from a pc to named frames; all logical frames, with flags. What to hide is for the
 * consumer to choose.
 */
#ifndef GOPROF_SYMBOL_SYMBOL_H
#define GOPROF_SYMBOL_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "go/go.h"

enum frame_flag {
	FRAME_INLINED		= 1 << 0,	/* into the next one */
	FRAME_WRAPPER		= 1 << 1,	/* compiler-made; profiles hide it */
	FRAME_RUNTIME_HIDDEN	= 1 << 2,	/* a traceback at level 1 hides it (but see symbol_shown) */
	FRAME_IN_APP		= 1 << 3,	/* at or below the main module's path */
	FRAME_NATIVE		= 1 << 4,	/* not Go code */
	FRAME_PSEUDO		= 1 << 5,	/* not a function: "[C]", "[gap]" */
	FRAME_NO_ARGS		= 1 << 6,	/* tracebacks print "()" behind it */
};

/* All strings borrowed from the symbols object, living as long as it. */
struct symbol_frame {
	const char *function;	/* full name, unescaped: "net/http.(*conn).serve", "m.F[...]" */
	const char *printed;	/* the same as tracebacks print it: the linker's %xx left in */
	const char *module;	/* import path: "net/http"; of C code its image: "libc.so.6"; "" for pseudo frames */
	const char *name;	/* the rest: "(*conn).serve" */
	const char *file;	/* import path + base name: "net/http/server.go"; "" unknown */
	const char *abs_path;	/* as in the binary; "" unknown */
	uint32_t line;		/* 0 unknown */
	uint32_t start_line;	/* 0 unknown */
	uint32_t flags;
	gaddr_t entry;		/* of the physical function */
};

struct symbols;

/* `rt` is borrowed and outlives it. */
struct error *symbols_create(struct go_runtime *rt, struct symbols **ret);
void symbols_destroy(struct symbols *s);
/* Where the vDSO stands in the process (its mapping): native pcs in it are "[vdso]", not "[C]". */
void symbols_set_vdso(struct symbols *s, gaddr_t start, gaddr_t end);

/*
 * From here on C code has the names that the images tell, else it is "[C]". Borrowed, outlives `s`.
 * The rules are in native_names.c. Nobody else holds an image that is gone from `images`: they are
 * closed here, at the next question.
 */
struct images;
struct error *symbols_set_images(struct symbols *s, struct images *images);
/* Another number whenever a pc in C code may have got another name (images_generation). */
uint64_t symbols_generation(const struct symbols *s);

/* An image whose C code was expanded. Strings live as long as `s`. */
struct native_image;
size_t symbols_image_count(const struct symbols *s);
const struct native_image *symbols_image(const struct symbols *s, size_t i);

enum symbol_pc { SYMBOL_EXACT, SYMBOL_RETURN, SYMBOL_NATIVE, SYMBOL_GAP };

/*
 * The logical frames of one pc, innermost first; never none: unknown code gives one pseudo frame.
 * The array is borrowed and lives until symbols_forget (cached by pc).
 */
struct error *symbol_expand(struct symbols *s, gaddr_t pc, enum symbol_pc how,
			    const struct symbol_frame **ret, size_t *n);
/* Forgets all pcs that were expanded, and gives back what they took: there are as many as a program has code. */
void symbols_forget(struct symbols *s);

/*
 * The runtime's own rule for tracebacks at GOTRACEBACK=1: is frames[i] of a whole stack (leaf
 * first, n frames) shown? (It depends on the frame that it calls: wrappers called by a panic show.)
 * Where it leaves nothing of a stack, the runtime shows all of it.
 */
bool symbol_shown(const struct symbol_frame *const *frames, size_t n, size_t i);

/* ---- names.c: pure text, for tests and others ---- */

/* Splits "a/b%2ev3.(*T[c/d.X]).M" into module and the rest; *name points into full. */
void name_split(const char *full, size_t *module_len, const char **name);
/* Undoes the linker's %xx escapes in the import path part, in place. */
void name_unescape(char *full);
/*
 * Generic arguments as the runtime prints them: "F[go.shape.int]" -> "F[...]". &err_corrupt when
 * it does not fit.
 */
struct error *name_print(const char *full, char *buf, size_t cap);
/* Is it the application's? main_module "" = no build info: then by standard library list and first element. */
bool name_in_app(const char *module, const char *main_module);
bool name_is_std(const char *module);
/* Does a traceback at level 1 leave this function out, by its name (as in the table) alone? */
bool name_runtime_hidden(const char *full, int go_minor);

#endif
