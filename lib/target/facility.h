/*
 * facility.h: what the kernel and the sandbox around goprof allow, found out by trying it on a
 * child of goprof's own. Results, not names and versions: a kernel that is none (gVisor, WSL1), a
 * seccomp filter and a missing capability all look the same here, and to the user they are.
 */
#ifndef GOPROF_TARGET_FACILITY_H
#define GOPROF_TARGET_FACILITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* In the order in which they are tried; each ptrace row needs those above it. */
enum facility_id {
	FACILITY_SEIZE,
	FACILITY_INTERRUPT,
	FACILITY_REGISTERS,
	FACILITY_DETACH,
	FACILITY_VM_READ,
	FACILITY_PROC_MEM,
	FACILITY_SYSCALL,
	FACILITY_SCHEDSTAT,
	FACILITY_MAP_FILES,
	FACILITY_PIDFD,
	FACILITY_PERF,
	FACILITY_REAL_TIME,
	FACILITY_CLOCK,
	FACILITY_COUNT,
};

struct facility_result {
	bool ok;
	bool untried;		/* not ok, because what it needs failed before; errnum is 0 */
	int errnum;		/* of the call that failed; 0: it gave a wrong answer */
	/*
	 * FACILITY_CLOCK, FACILITY_SCHEDSTAT: the steps in which it moves. FACILITY_PERF: how old a sample may
	 * be whose thread has not moved. 0 unknown.
	 */
	uint64_t ns;
};

/* "ptrace seize" */
const char *facility_name(enum facility_id id);
/* What goes without it: "no stacks of running goroutines" */
const char *facility_loss(enum facility_id id);

/*
 * Tries all of them; takes some 100 ms, forks two children that end before this returns. The calling
 * thread must trace nothing. ERROR_FACILITY when no child can be had.
 */
struct error *facility_test(struct facility_result ret[FACILITY_COUNT]);

/*
 * Is there something among them without which nothing goes? ERROR_FACILITY names the cause that was
 * found and what helps. A thread that was only late to stop is no reason: the machine may be that busy.
 */
struct error *facility_judge(const struct facility_result v[FACILITY_COUNT]);

/*
 * The one that nothing goes without: may goprof stop a thread and let it go? Some milliseconds.
 * Errors as of facility_judge. When no child can be had to try it on,
 * nothing is known and nothing refused.
 */
struct error *facility_check(void);

/* Why PTRACE_SEIZE of a child of our own was refused with `errnum`: adds cause and remedy to err. */
struct error *facility_explain(struct error *err, int errnum);

#endif
