/*
 * go.h: the Go runtime(s) inside a process, found without symbols or DWARF.
 *
 * A process holds 1..n runtimes (c-shared libraries bring their own), each with 1..n modules
 * (plugins). Everything static (function tables, names, lines, layouts) is read from the file;
 * only the runtime's variables are read from the process. A go_process over a bare file (no
 * target) answers the static questions.
 *
 * Upstream: src/runtime/{symtab,runtime2,proc}.go, src/debug/buildinfo, cmd/link.
 * Not thread safe; the capture hook uses only plain values copied out of here before.
 */
#ifndef GOPROF_GO_GO_H
#define GOPROF_GO_GO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "go/layout.h"
#include "target/target.h"

struct image;
struct go_process;
struct go_runtime;
struct go_module;

/* How to open one. All zero: everything that can be told, the only runtime there is. */
struct go_options {
	bool strict;		/* refuse where otherwise restricted mode would do */
	const char *runtime;	/* of several runtimes the one whose file has this path or base name; NULL */
};

/*
 * (`o` may be NULL.) Finds the runtime of a process: in its executable, in its libraries, or in
 * memory. ERROR_NOT_GO; ERROR_UNSUPPORTED (Go, but its tables cannot be read, gccgo, several
 * runtimes and none chosen ...). A version that has no layout row is not refused: see
 * go_runtime_check. Works on a process that stands at its exec; what is loaded or unpacked later is
 * not there yet.
 */
struct error *go_process_open(struct target *t, const struct go_options *o, struct go_process **ret);
/* The static side only, for a file. */
struct error *go_process_open_file(int fd, struct go_process **ret);
void go_process_close(struct go_process *p);

size_t go_process_runtimes(const struct go_process *p);
struct go_runtime *go_process_runtime(struct go_process *p, size_t i);

/* What it was found in, for people: "its file", "the library a.so"; "" for a bare file. Borrowed. */
const char *go_runtime_where(const struct go_runtime *rt);
/* The image that holds it. Borrowed. */
struct image *go_runtime_image(const struct go_runtime *rt);
/* How many modules it has (plugins bring theirs), and how many of its list could not be read. */
uint32_t go_runtime_modules(const struct go_runtime *rt, uint32_t *unread);

/* ---- build ---- */

struct go_build {
	char version[64];	/* "go1.26.10", as the program says it */
	int minor, patch;	/* of go1.MINOR.PATCH; patch -1 for betas and unknown */
	const char *path;	/* import path of package main; "" when unknown */
	const char *main_module;	/* "" when unknown */
	const char *main_version;	/* "(devel)", "v1.2.3"; "" when unknown */
	const char *settings;	/* build settings, "key=value\n" each; "" when unknown */
	bool has_buildinfo;
};

/* Borrowed, lives as long as the process object. */
const struct go_build *go_runtime_build(const struct go_runtime *rt);
/* Where the code of the runtime's own module begins in the process. */
gaddr_t go_runtime_text(const struct go_runtime *rt);
/* One build setting ("vcs.revision", "CGO_ENABLED"), into buf; false when absent. */
bool go_build_setting(const struct go_build *b, const char *key, char *buf, size_t cap);

/* The versions that can be read: "go1.19 and go1.21 to go1.27". */
void go_versions_text(struct buf *b);

/* ---- variables ---- */

enum go_global {
	GO_ALLGS, GO_ALLGLEN, GO_ALLGPTR, GO_ALLM, GO_ALLP, GO_SCHED, GO_GOMAXPROCS,
	GO_WAITREASON_STRINGS,
	GO_GLOBAL_COUNT,
};

struct go_global_at {
	gaddr_t addr;		/* in the process (biased); 0: not found */
	enum go_source source;
};

const char *go_global_name(enum go_global g);	/* "runtime.allgs" */
const struct go_global_at *go_runtime_globals(const struct go_runtime *rt);
const struct go_layout *go_runtime_layout(const struct go_runtime *rt);
uint32_t go_runtime_caps(const struct go_runtime *rt);	/* enum go_cap bits */

/*
 * Settles which layout is used. The row of the version and the globals are checked against the
 * process by the invariants (goroutine 1 starts in runtime.main, allglen fits allgptr, m.g0.m links
 * back, procids are threads, ...). If they do not fit, or there is no row, members are proved one by
 * one in the process, then taken from its debug information; layout, globals and caps change here.
 * NULL: there is a layout, or restricted mode (go_runtime_restricted). &err_end: the runtime has not
 * come up yet, ask again. ERROR_UNSUPPORTED: only with options.strict, in place of restricted mode;
 * what did not fit is in `why`.
 */
struct error *go_runtime_check(struct go_runtime *rt);

/*
 * Restricted mode: why only process metrics and on-CPU stacks of threads can be told, one clause
 * without a full stop ("its g structs are laid out in an unknown way"); NULL when all can. Known
 * after go_runtime_check. Borrowed. GO_CAP_G_LAYOUT or GO_CAP_ALLGS is missing then, and goprof
 * must not claim anything about goroutines.
 */
const char *go_runtime_restricted(const struct go_runtime *rt);

/* The target's own text for a wait reason number; NULL when it has none. Borrowed. */
const char *go_wait_reason(struct go_runtime *rt, uint8_t reason);

/*
 * The pc that a sampled pc stands for: itself, until stubs exist (a pc inside a trampoline stands
 * for the place it was displaced from).
 */
gaddr_t go_pc_real(const struct go_runtime *rt, gaddr_t pc);

#endif
