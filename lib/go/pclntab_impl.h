/*
 * pclntab_impl.h: what the pclntab_*.c files share: the shapes of the table's formats as data, the
 * caches, and the small readers that everything is made of.
 *
 * All readers take link-time addresses or offsets and answer false for whatever the file does not
 * hold. Upstream: src/runtime/symtab.go, runtime2.go (_func), src/internal/abi/symtab.go.
 */
#ifndef GOPROF_GO_PCLNTAB_IMPL_H
#define GOPROF_GO_PCLNTAB_IMPL_H

#include "go/go_impl.h"

enum {
	NFUNC_MAX = 5 * 1000 * 1000,
	NFUNC_UNKNOWN = 0,	/* a header that is damaged: moduledata says how many */
	PCLNTAB_CANDIDATES = 8,
};

enum { PCDATA_INL_TREE_INDEX = 2, FUNCDATA_ARG_INFO = 5, FUNCDATA_WRAP_INFO = 7 };

enum { NO_FIELD = -1 };

/* One row per format: where things stand. */
struct pclntab_shape {
	uint32_t magic;
	bool flags_by_name;		/* its records have none, at least in its first versions */
	uint8_t first_file;		/* file numbers begin here */
	uint8_t header_size;
	uint8_t tables_at;		/* of the five table offsets in the header; 0: it has none */
	uint8_t ftab_word;		/* bytes of each of the two words of an ftab entry */
	struct {
		uint8_t size;		/* up to the pcdata array */
		uint8_t entry_size;	/* 4: offset from text; 8: address */
		int8_t name, args, pcsp, pcfile, pcln, npcdata, cu, start_line, func_id, flags, nfuncdata;
	} func;
	uint8_t funcdata_word;		/* 4: offset from gofunc; 8: address */
	uint8_t funcdata_inl_tree;	/* index of the inline tree */
	struct {
		uint8_t size;
		int8_t func_id, name, parent_pc, start_line;
	} inl;
};

/* NULL for a number that is no format. */
const struct pclntab_shape *pclntab_shape(enum pclntab_format format);

/* What the header of a function table says. */
struct pclntab_header {
	gaddr_t addr;
	enum pclntab_format format;
	uint64_t nfunc;		/* or NFUNC_UNKNOWN */
};

/* The first places in the image that look like a function table; *n in: room, out: how many. */
struct error *pclntab_candidates(struct image *img, struct pclntab_header *out, size_t *n);
/* Is this the start of one? `bytes` are those at the address, at least 72; avail: up to the end of the segment. */
bool pclntab_header_parse(const uint8_t *bytes, uint64_t avail, enum pclntab_format *format,
			  uint64_t *nfunc);

/* ---- caches ---- */

/* An entry of the sorted table as files of 1.18 and later have it; older ones are brought to this. */
struct ftab_entry {
	uint32_t entry;		/* offset from text */
	uint32_t func;		/* offset of the record */
};

struct module_cache {
	bool loaded, usable;
	struct ftab_entry *ftab;	/* nfunc + 1; the last one has no record */
	uint8_t *roles;			/* enum go_func_role per function, ROLE_UNKNOWN until asked */
	uint32_t *names;		/* name offset per function; NULL until somebody searches by name */
};

enum {
	ROLE_UNKNOWN = 0xff,
	PCS_MAX = 64 * 1024,	/* a cache that is full is emptied: what is hot comes back at once */
	FUNCS_MAX = 16 * 1024,
	INDEX_NONE = UINT32_MAX,
};

enum { DELTA_UNKNOWN = INT32_MIN };

/* What is known of a pc. */
struct pc_entry {
	uint32_t func;		/* in pclntab_cache.funcs */
	int32_t delta;		/* DELTA_UNKNOWN until asked */
};

struct pclntab_cache {
	struct module_cache modules[GO_MODULES_MAX];
	struct map64 by_pc;		/* -> pcs */
	struct pc_entry *pcs;
	uint32_t n_pcs;
	gaddr_t last_pc;		/* the depth of a pc is asked right after its function */
	uint32_t last;			/* its entry; INDEX_NONE: none */
	struct map64 by_func;		/* (module, index) -> funcs */
	struct go_func *funcs;
	uint32_t n_funcs;
	/* strings handed out: (module, kind, offset) -> index */
	struct map64 by_offset;
	const char **strings;
	uint32_t n_strings, cap_strings;
};

/* The entry of a pc; NULL when it is not known yet. Valid until the next pc_entry_add. */
struct pc_entry *pc_entry_get(struct pclntab_cache *c, gaddr_t pc);
/* Remembers that a pc belongs to function `index` of a module, whose record is `f`. */
void pc_entry_add(struct pclntab_cache *c, gaddr_t pc, uint32_t module, uint32_t index,
		  const struct go_func *f);
/* A record that was decoded before; NULL when there is none. */
const struct go_func *func_entry_get(const struct pclntab_cache *c, uint32_t module, uint32_t index);

/* The module's sorted table, in memory from the first question on; NULL when it is no good. */
struct module_cache *module_cache_get(struct go_runtime *rt, uint32_t module);
/* The function number `index` of a module, decoded and checked. */
bool func_by_index(struct go_runtime *rt, uint32_t module, uint32_t index, struct go_func *ret);

enum string_kind { STRING_NAME, STRING_FILE };

/* A string of funcnametab or filetab; borrowed, NULL when it cannot be read. */
const char *pclntab_string(struct go_runtime *rt, const struct go_module *m, enum string_kind kind,
			   uint64_t offset);

/* ---- records and pc-value tables ---- */

/* An offset in pctab for one of the pcdata tables of a function; 0: none. */
uint32_t func_pcdata(const struct go_func *f, uint32_t table);
/* Link-time address of one of its funcdata; 0: none. */
gaddr_t func_funcdata(const struct go_func *f, uint32_t which);
/* The value at `pc` (biased, inside f) of the table at `offset` in pctab; false: not covered, corrupt. */
bool pcvalue_at(const struct go_func *f, uint32_t offset, gaddr_t pc, int32_t *ret);

/* role.c: by name */
enum go_func_role go_func_role_by_name(const char *name);
/* The flags (enum go_func_flag) of an assembly function in versions whose records have none. */
uint8_t go_func_flags_by_name(const char *name);

static inline uint32_t module_index(const struct go_runtime *rt, const struct go_module *m)
{
	return (uint32_t)(m - rt->modules);
}

#endif
