/*
 * go_impl.h: what the files of lib/go share. Nobody outside includes this.
 *
 * Who fills what: process.c opens and owns, runtimes.c and memory.c find; buildinfo.c -> build;
 * moduledata.c and modules.c -> modules;
 * pclntab_*.c and lines.c work on modules; layout.c -> layout; globals.c -> globals; check.c -> checked, caps.
 */
#ifndef GOPROF_GO_GO_IMPL_H
#define GOPROF_GO_GO_IMPL_H

#include "base/arena.h"
#include "base/map.h"
#include "go/go.h"
#include "go/goroutine.h"
#include "go/pclntab.h"
#include "image/images.h"

enum { GO_MODULES_MAX = 64, GO_RUNTIMES_MAX = 64, GO_WAIT_REASONS_MAX = 128 };

/* The four header formats of the function table, by magic. */
enum pclntab_format { PCLNTAB_12, PCLNTAB_116, PCLNTAB_118, PCLNTAB_120 };

struct go_module {
	struct image *image;	/* borrowed from the process */
	uint64_t bias;		/* real address = link-time + bias */
	/* All addresses below are link-time addresses. */
	enum pclntab_format format;
	gaddr_t moduledata, pclntab;
	uint64_t pclntab_size;	/* upper bound for every read of the table */
	uint64_t nfunc;
	gaddr_t text, etext;	/* runtime.text, from moduledata, never from the header or .text */
	gaddr_t funcnametab, cutab, filetab, pctab, functab;	/* functab: records are relative to it */
	uint64_t funcnametab_size, cutab_size, filetab_size, pctab_size, functab_size;
	gaddr_t ftab;		/* the sorted {entry, offset} array */
	gaddr_t gofunc;		/* base of funcdata offsets; 0: funcdata are pointers (before 1.18) */
	gaddr_t noptrdata, enoptrbss;	/* bounds of all writable data, whatever the order of its parts */
};

/* What modules.c has seen of the runtime's list of modules. */
struct go_chain {
	gaddr_t seen[GO_MODULES_MAX];	/* real addresses of moduledata; the last one's link is open */
	uint32_t n_seen, n_unread;
	uint64_t t_looked;		/* CLOCK_MONOTONIC */
};

struct go_runtime {
	struct go_process *process;
	struct go_build build;
	struct go_layout layout;
	bool has_layout;
	struct go_global_at globals[GO_GLOBAL_COUNT];
	uint32_t caps;
	bool checked;
	const char *restricted;	/* why it is in restricted mode, static or in `strings`; NULL */
	uint8_t wrapper_id;	/* funcID of compiler-made wrappers in this version */
	const char *path;	/* what it was found in, as the mappings name it */
	const char *file;	/* its base name: the end of `path` */
	const char *where;	/* the same in words: "its file", "the library a.so" */
	struct go_module modules[GO_MODULES_MAX];	/* the first is that of the runtime itself */
	uint32_t n_modules;
	struct go_chain chain;
	/* wait reason texts, read at the first question; arena strings, NULL: unreadable */
	const char *wait_reasons[GO_WAIT_REASONS_MAX];
	uint32_t n_wait_reasons;
	bool wait_reasons_read;
	/* caches of pclntab_*.c; private to them */
	struct pclntab_cache *cache;
	struct arena strings;	/* names and files handed out; lives as long as the runtime */
};

struct go_process {
	struct target *target;	/* borrowed; NULL: a bare file */
	struct go_options options;
	struct image *images[GO_MODULES_MAX];	/* owned: the executable's file, pieces of memory */
	uint32_t n_images;
	struct images *mapped;		/* owned; all others, NULL until they are asked for */
	struct go_runtime *runtimes[GO_RUNTIMES_MAX];	/* owned */
	uint32_t n_runtimes;
	uint32_t n_left_out;	/* runtimes for which there was no room */
};

/* buildinfo.c: version, path, module, settings out of the image (live memory is not needed). */
struct error *go_buildinfo_read(struct image *img, struct arena *strings, struct go_build *ret);
/* version_variable.c: the same, where build information was scrubbed. ERROR_NOT_FOUND. */
enum { GO_VERSION_MAX = 64 };
struct error *go_version_variable(struct image *img, char ret[GO_VERSION_MAX]);
/* Parses "go1.26.10 X:..." into minor and patch; false when it is no such version. */
bool go_version_parse(const char *version, int *minor, int *patch);

/* moduledata.c: finds function table and moduledata by content; fills every field of one module. */
struct error *go_module_find(struct image *img, uint64_t bias, const struct go_layout *layout,
			     struct go_module *ret);
/*
 * Where there is none: what of the moduledata that comes next to it does not agree with the rest, in
 * words ("the bounds of its code"); NULL: nothing looks like one.
 */
const char *go_module_contradiction(struct image *img, const struct go_layout *layout);
/* The module whose moduledata stands at this link-time address; &err_notfound: none does. */
struct error *go_module_at(struct image *img, uint64_t bias, gaddr_t at, const struct go_layout *layout,
			   struct go_module *ret);

/* place.c: bias of the executable in a live process; &err_notfound: it is not where it says. */
struct error *go_image_place(const struct target *t, int fd, struct image *img, uint64_t *ret);

/* process.c: the runtime in an image, up to its variables. Not yet in p->runtimes. */
struct error *go_runtime_open(struct go_process *p, struct image *img, uint64_t bias,
			      struct go_runtime **ret);
void go_runtime_destroy(struct go_runtime *rt);

/*
 * runtimes.c: fills p->runtimes with the one that is meant. `exe` is the executable's image, NULL
 * when it cannot be opened, `bias` its place, NULL when it is not mapped. &err_notfound: no Go
 * anywhere; &err_fault: Go is in the executable, but that is not mapped.
 */
struct error *go_runtimes_find(struct go_process *p, struct image *exe, const uint64_t *bias);

/*
 * memory.c: an image around the function table number `skip` in memory of no file. &err_notfound:
 * there are not so many.
 */
struct error *go_memory_image(struct target *t, struct images *images, size_t skip, struct image **ret);

/* modules.c: reads on in the runtime's list of modules, in live memory. Errors only for memory. */
struct error *go_modules_read(struct go_runtime *rt);
/*
 * The same for a pc that no module holds, a few times per second at most: a plugin may have come.
 * True: there are new modules, look again.
 */
bool go_modules_grew(struct go_runtime *rt);

/* layout.c */
uint8_t go_wrapper_func_id(int minor);
/*
 * calibrate_md.c: the layout to begin with. *is_own: it is the row of this very version. Else the
 * members of moduledata are proved by content or absent, and nothing else is known.
 * &err_notfound: a version older than all that have a row.
 */
struct error *go_layout_choose(struct image *img, const struct go_build *b, struct go_layout *ret,
			       bool *is_own);

/* goroutine.c: has it the members without which there is nothing to check or to do? */
bool go_layout_has_core(const struct go_layout *l);
/*
 * Forgets members that have not the size they must have, and others, the farthest first, until gs and ms are as
 * short as readers have room for.
 */
void go_layout_shorten(struct go_layout *l);

/* globals.c: symbols, else the instruction rules. Fills rt->globals; missing ones stay 0. */
struct error *go_globals_find(struct go_runtime *rt);

/* pclntab_cache.c */
struct error *pclntab_cache_create(struct pclntab_cache **ret);
void pclntab_cache_destroy(struct pclntab_cache *c);

#endif
