/*
 * code_names.h: names of C code: symbol tables, debug files, DWARF. All addresses are link-time
 * addresses of the image. Nothing here knows a process or Go.
 */
#ifndef GOPROF_IMAGE_CODE_NAMES_H
#define GOPROF_IMAGE_CODE_NAMES_H

#include "image/image.h"

/* ---- code_symbols.c ---- */

struct code_symbols;

/*
 * All functions of .symtab, else of .dynsym, else of the dynamic section's table, sorted: 24 bytes
 * each. ERROR_NOT_FOUND: none, or more than CODE_SYMBOLS_MAX. `img` is borrowed and outlives it.
 */
enum { CODE_SYMBOLS_MAX = 1 << 19 };
struct error *code_symbols_load(struct image *img, struct code_symbols **ret);
void code_symbols_free(struct code_symbols *cs);	/* NULL is fine */
uint64_t code_symbols_bytes(const struct code_symbols *cs);	/* what they take in memory */

struct code_symbol {
	gaddr_t start, end;
	/*
	 * The table does not say how long the function is (assembly): it is taken to reach to the
	 * next symbol of its section, which may be wrong.
	 */
	bool guessed;
};

/*
 * The function that holds pc, never a neighbour; its name into buf (cut when it is longer). Of
 * several names the public one without underscores is taken. False: none.
 */
bool code_symbols_find(struct code_symbols *cs, gaddr_t pc, struct code_symbol *ret, char *buf, size_t cap);

/* ---- debug_file.c ---- */

/*
 * The file with the debug information of an image that was stripped of it, by its build id, below
 * `root` ("/usr/lib/debug"); believed only if it has that id itself. ERROR_NOT_FOUND.
 */
struct error *debug_file_open(struct image *img, const char *root, struct image **ret);

/* ---- dwarf_names.c ---- */

struct dwarf_names;

/*
 * The DWARF of an image's file, read into memory: at most `max_bytes` of it. *bytes is what it takes,
 * with the tables of lines as large as they become. ERROR_NOT_FOUND: none, or more than that, or a part
 * of it lies in other files.
 */
struct error *dwarf_names_open(struct image *img, uint64_t max_bytes, struct dwarf_names **ret, uint64_t *bytes);
void dwarf_names_close(struct dwarf_names *dn);		/* NULL is fine */

/* Strings are borrowed until dwarf_names_close; "" unknown. */
struct dwarf_frame {
	const char *function;	/* the linkage name where there is one: C++ names stay mangled */
	const char *file;	/* as the compiler saw it, with its directory */
	uint32_t line, start_line;
	bool inlined;		/* into the next one */
};

/* The logical frames at pc, innermost first; 0 when no unit describes it. At most cap. */
size_t dwarf_names_find(struct dwarf_names *dn, gaddr_t pc, struct dwarf_frame *out, size_t cap);

#endif
