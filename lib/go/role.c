/*
 * role.c: the functions that an unwinder must know, by name.
 *
 * Names have stayed where numbers have not: the runtime renumbers its function ids whenever one is
 * added. Several functions may share a role. Flags (top frame, stack pointer written) stand in the
 * records from 1.17 on, for 1.15 and 1.16 here. Must not know how any of them is unwound.
 *
 * Upstream: src/runtime/asm_amd64.s, sys_linux_amd64.s, race_amd64.s, src/internal/abi/symtab.go (FuncID).
 */
#include <string.h>

#include "go/pclntab_impl.h"

static const struct {
	const char *name;
	enum go_func_role role;
} roles[] = {
	{ "goexit", GO_FUNC_GOEXIT },
	{ "mstart", GO_FUNC_MSTART },
	{ "rt0_go", GO_FUNC_RT0_GO },
	{ "sigtramp", GO_FUNC_SIGTRAMP },
	{ "cgoSigtramp", GO_FUNC_SIGTRAMP },
	{ "systemstack", GO_FUNC_SYSTEMSTACK },
	{ "systemstack_switch", GO_FUNC_SYSTEMSTACK_SWITCH },
	{ "mcall", GO_FUNC_MCALL },
	{ "morestack", GO_FUNC_MORESTACK },
	{ "gogo", GO_FUNC_GOGO },
	{ "asmcgocall", GO_FUNC_ASMCGOCALL },
	{ "cgocallback", GO_FUNC_CGOCALLBACK },
	{ "cgocallback_gofunc", GO_FUNC_CGOCALLBACK },	/* up to 1.15 */
	{ "sigpanic", GO_FUNC_SIGPANIC },
	{ "sigpanic0", GO_FUNC_SIGPANIC },		/* the assembly that is injected and jumps to it */
	{ "asyncPreempt", GO_FUNC_ASYNC_PREEMPT },
	{ "debugCallV1", GO_FUNC_DEBUG_CALL },		/* up to 1.16 */
	{ "debugCallV2", GO_FUNC_DEBUG_CALL },
	{ "gopanic", GO_FUNC_GOPANIC },
	{ "main", GO_FUNC_MAIN },
	{ "sigreturn", GO_FUNC_SIGRETURN },		/* up to 1.20 */
	{ "sigreturn__sigaction", GO_FUNC_SIGRETURN },
};

/* What the assembler marks in 1.17, for all of these that 1.15 or 1.16 have. */
static const struct {
	const char *name;
	uint8_t flags;
} flagged[] = {
	{ "runtime.goexit", GO_FUNC_TOPFRAME | GO_FUNC_ASM },
	{ "runtime.mstart", GO_FUNC_TOPFRAME },
	{ "runtime.rt0_go", GO_FUNC_TOPFRAME | GO_FUNC_SPWRITE | GO_FUNC_ASM },
	{ "runtime.asmcgocall", GO_FUNC_SPWRITE | GO_FUNC_ASM },
	{ "runtime.callCgoMmap", GO_FUNC_SPWRITE | GO_FUNC_ASM },
	{ "runtime.callCgoMunmap", GO_FUNC_SPWRITE | GO_FUNC_ASM },
	{ "runtime.callCgoSigaction", GO_FUNC_SPWRITE | GO_FUNC_ASM },
	{ "runtime.clone", GO_FUNC_SPWRITE | GO_FUNC_ASM },
	{ "runtime.gogo", GO_FUNC_SPWRITE | GO_FUNC_ASM },
	{ "runtime.jmpdefer", GO_FUNC_SPWRITE | GO_FUNC_ASM },
	{ "runtime.mcall", GO_FUNC_SPWRITE | GO_FUNC_ASM },
	{ "runtime.morestack", GO_FUNC_SPWRITE | GO_FUNC_ASM },
	{ "runtime.nanotime1", GO_FUNC_SPWRITE | GO_FUNC_ASM },
	{ "runtime.sigfwd", GO_FUNC_SPWRITE | GO_FUNC_ASM },
	{ "runtime.systemstack", GO_FUNC_SPWRITE | GO_FUNC_ASM },
	{ "runtime.walltime1", GO_FUNC_SPWRITE | GO_FUNC_ASM },
	{ "racecall", GO_FUNC_SPWRITE | GO_FUNC_ASM },
};

uint8_t go_func_flags_by_name(const char *name)
{
	for (size_t i = 0; i < sizeof(flagged) / sizeof(flagged[0]); i++)
		if (strcmp(name, flagged[i].name) == 0)
			return flagged[i].flags;
	return 0;
}

enum go_func_role go_func_role_by_name(const char *name)
{
	static const char package[] = "runtime.";

	/* What runtime.gogo jumps to, and the way to the race detector: local to their files, so without a package. */
	if (strcmp(name, "gogo") == 0)
		return GO_FUNC_GOGO;
	if (strcmp(name, "racecall") == 0)
		return GO_FUNC_RACECALL;
	if (strncmp(name, package, sizeof(package) - 1) != 0)
		return GO_FUNC_NORMAL;
	name += sizeof(package) - 1;
	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
		if (strcmp(name, roles[i].name) == 0)
			return roles[i].role;
	return GO_FUNC_NORMAL;
}
