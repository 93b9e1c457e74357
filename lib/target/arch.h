/*
 * arch.h: everything that depends on the CPU, as one const struct. No other file asks which CPU
 * this is. A new port adds arch_<cpu>.c, a decoder in lib/insn, layout rows, a row in
 * scripts/gen-layouts and a build in test/live.
 */
#ifndef GOPROF_TARGET_ARCH_H
#define GOPROF_TARGET_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t gaddr_t;	/* an address in a target; never a pointer of ours */

enum { REGS_RAW_MAX = 512 };	/* bytes of the kernel's general register set */

/* One thread's user registers. The named ones are copies out of `raw`. */
struct regs {
	gaddr_t pc, sp, bp;
	int64_t syscall_nr;	/* the call the thread is in, -1 when it is in none */
	int64_t syscall_ret;	/* its result register: -EINTR or -ERESTART* tell a call cut short */
	uint32_t raw_len;
	uint8_t raw[REGS_RAW_MAX];	/* NT_PRSTATUS, whole: libunwind and SETREGS need all of it */
};

/* The registers that unwind tables speak of, by their DWARF numbers. */
enum { DWARF_REGS_MAX = 17 };

enum { PERF_REGS_MAX = 24 };	/* registers of a perf sample at most */

struct dwarf_regs {
	uint64_t v[DWARF_REGS_MAX];
	uint32_t known;			/* bit i: v[i] holds */
};

struct arch {
	const char *name;		/* as Sentry and Go spell it: "amd64" */
	uint16_t elf_machine;
	uint32_t page_size;
	uint32_t min_frame;		/* bytes a call takes at least: the return address */
	/* Fills the named registers from `raw`. False when raw_len is not this CPU's. */
	bool (*regs_parse)(struct regs *r);
	/* A call that makes a thread: the new one goes on behind it as the old one does. */
	bool (*syscall_clones)(int64_t nr);
	/* A call in which a thread waits for something else (futex, epoll, poll, nanosleep ...). */
	bool (*syscall_waits)(int64_t nr);
	/*
	 * A wait that our stop cut short and that the kernel would end with EINTR instead of
	 * restarting it: writes into `raw` so that it is restarted. False: nothing to heal.
	 * Only right in an event stop, never in a signal stop (facts: oncpu "EINTR").
	 */
	bool (*heal_interrupted_wait)(struct regs *r);
	/* Offset into PTRACE_PEEKUSER space of the register that heal_interrupted_wait changed. */
	size_t heal_user_offset;
	uint64_t (*heal_value)(const struct regs *r);
	uint8_t syscall_insn[4], syscall_len;	/* the instruction that makes a system call */
	uint8_t racecall_insn[4], racecall_len;	/* with which racecall of Go's runtime keeps its sp */
	/*
	 * DWARF numbers of the registers for pc, sp, bp, a system call's result, and what racecall of Go's
	 * runtime keeps sp in; how many of dwarf_regs there are.
	 */
	uint8_t dwarf_pc, dwarf_sp, dwarf_bp, dwarf_result, dwarf_racecall, dwarf_n;
	/* Where DWARF register i stands in `raw`, and in the ucontext of a signal frame. */
	uint16_t dwarf_raw[DWARF_REGS_MAX], dwarf_ucontext[DWARF_REGS_MAX];
	uint16_t ucontext_stack;	/* in a ucontext: the signal stack it runs on: base; size 16 bytes on */
	uint64_t perf_regs;	/* the user registers to ask perf for: a bit each */
	/* What came of them, in the order of their bits. The call that the thread is in is not among them. */
	void (*regs_from_perf)(const uint64_t v[PERF_REGS_MAX], struct regs *ret);
	/* DWARF number of the register in which Go code holds its goroutine (ABIInternal). */
	uint8_t dwarf_g;
};

extern const struct arch arch_amd64;
/* The CPU goprof was built for. */
const struct arch *arch_host(void);

#endif
