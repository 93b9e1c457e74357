/*
 * pclntab.h: functions, stack deltas, lines and inlining, from the program's own tables.
 *
 * All addresses are those of the process (biased). Upstream: src/runtime/symtab.go,
 * src/internal/abi/symtab.go, cmd/link/internal/ld/pcln.go. Every table is untrusted: reads are
 * bounds-checked, loops bounded; an answer that cannot be had is false or -1, never a guess.
 */
#ifndef GOPROF_GO_PCLNTAB_H
#define GOPROF_GO_PCLNTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "go/go.h"

/* What a function is to an unwinder, by its name (stable) rather than its number (not stable). */
enum go_func_role {
	GO_FUNC_NORMAL,
	GO_FUNC_GOEXIT, GO_FUNC_MSTART, GO_FUNC_RT0_GO, GO_FUNC_SIGTRAMP,
	GO_FUNC_SYSTEMSTACK, GO_FUNC_SYSTEMSTACK_SWITCH, GO_FUNC_MCALL, GO_FUNC_MORESTACK, GO_FUNC_GOGO,
	GO_FUNC_ASMCGOCALL, GO_FUNC_CGOCALLBACK, GO_FUNC_SIGPANIC, GO_FUNC_ASYNC_PREEMPT,
	GO_FUNC_DEBUG_CALL, GO_FUNC_GOPANIC, GO_FUNC_MAIN, GO_FUNC_SIGRETURN, GO_FUNC_RACECALL,
};

enum go_func_flag { GO_FUNC_TOPFRAME = 1, GO_FUNC_SPWRITE = 2, GO_FUNC_ASM = 4 };

struct go_func {
	const struct go_module *module;
	gaddr_t entry, end;	/* [entry, end) */
	uint32_t offset;	/* of the _func record in the function table */
	uint32_t name_off, cu_off, npcdata;
	uint32_t pcsp, pcfile, pcln;	/* offsets in pctab; 0: none */
	int32_t start_line;	/* 0: unknown (before 1.20) */
	uint32_t args;		/* bytes of arguments and results on the stack; assembly: 1u << 31 if unknown */
	uint8_t func_id, flags, nfuncdata;
	enum go_func_role role;
};

/* By the exact pc. False outside [text, etext) of every module. Cached. */
bool go_func_find(struct go_runtime *rt, gaddr_t pc, struct go_func *ret);
/* By full name ("runtime.allgadd"); the next match after *pos. Start with *pos = 0. Slow: scans. */
bool go_func_by_name(struct go_runtime *rt, const char *name, uint32_t *pos, struct go_func *ret);
/* The name as the table spells it. Borrowed, lives as long as the runtime. "" when unreadable. */
const char *go_func_name(struct go_runtime *rt, const struct go_func *f);
/* How far sp stands below the caller's frame at pc (the exact pc); -1 when the table does not say. */
int32_t go_func_spdelta(struct go_runtime *rt, const struct go_func *f, gaddr_t pc);
/* Where the go statement's wrapper leads (FUNCDATA_WrapInfo): entry of the wrapped function, or 0. */
gaddr_t go_func_wrapped(struct go_runtime *rt, const struct go_func *f);
/* The code bytes of a function, from the file. Returns how many. For decoders and audits. */
size_t go_code_read(struct go_runtime *rt, gaddr_t pc, void *buf, size_t len);

/* One logical frame of a pc. Strings borrowed, living as long as the runtime. */
struct go_line {
	const char *function;	/* full name as in the table */
	const char *file;	/* full path as in the table; "" unknown */
	int32_t line;		/* 0 unknown */
	int32_t start_line;	/* of the function; 0 unknown */
	gaddr_t entry;		/* of the physical function that holds the pc */
	bool inlined;		/* into the next one */
	bool wrapper;		/* made by the compiler (funcID wrapper) */
	bool no_args;		/* the function takes none, as far as tracebacks know; not for inlined ones */
};

/*
 * The logical frames of `pc`, innermost first: inlined calls, then the function itself. `pc` is
 * the lookup pc: callers subtract 1 from return addresses (see unwind.h, pc_frame). Returns how
 * many were written, 0 when pc is in no function; at most cap.
 */
size_t go_lines(struct go_runtime *rt, gaddr_t pc, struct go_line *out, size_t cap);

#endif
