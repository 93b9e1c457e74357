/*
 * arch_amd64.c: what is special about x86-64: the kernel's register sets, its numbers of system
 * calls, and how a wait that a stop cut short is made to restart.
 *
 * Upstream text: arch/x86/include/uapi/asm/ptrace-abi.h, arch/x86/entry/syscalls/syscall_64.tbl,
 * and arch_do_signal_or_restart in arch/x86/kernel/signal.c, which decides by rax what becomes of
 * an interrupted call.
 */
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <sys/user.h>

#include "target/arch.h"

/* The kernel's own: not in errno.h, as a program never sees it. Restart unless a handler runs. */
enum { KERNEL_ERESTARTNOHAND = 514 };

/* Newer than the C library's headers may be. */
enum { NR_CLONE3 = 435, NR_EPOLL_PWAIT2 = 441, NR_FUTEX_WAITV = 449, NR_FUTEX_WAIT = 455 };

static uint64_t raw_word(const struct regs *r, size_t offset)
{
	uint64_t v;

	memcpy(&v, r->raw + offset, sizeof(v));
	return v;
}

static bool amd64_regs_parse(struct regs *r)
{
	if (r->raw_len != sizeof(struct user_regs_struct))
		return false;
	r->pc = raw_word(r, offsetof(struct user_regs_struct, rip));
	r->sp = raw_word(r, offsetof(struct user_regs_struct, rsp));
	r->bp = raw_word(r, offsetof(struct user_regs_struct, rbp));
	/* The kernel, too, looks at 32 bits; negative means: not in a call. */
	int32_t nr = (int32_t)raw_word(r, offsetof(struct user_regs_struct, orig_rax));
	r->syscall_nr = nr >= 0 ? nr : -1;
	r->syscall_ret = (int64_t)raw_word(r, offsetof(struct user_regs_struct, rax));
	return true;
}

static bool listed(int64_t nr, const int32_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] == nr)
			return true;
	return false;
}

static bool amd64_syscall_clones(int64_t nr)
{
	static const int32_t clones[] = { SYS_clone, NR_CLONE3 };

	return listed(nr, clones, sizeof(clones) / sizeof(*clones));
}

static bool amd64_syscall_waits(int64_t nr)
{
	static const int32_t waits[] = {
		SYS_futex, SYS_epoll_wait, SYS_epoll_pwait, NR_EPOLL_PWAIT2, SYS_nanosleep,
		SYS_clock_nanosleep, SYS_poll, SYS_ppoll, SYS_select, SYS_pselect6,
		SYS_restart_syscall, NR_FUTEX_WAIT, NR_FUTEX_WAITV,
	};

	return listed(nr, waits, sizeof(waits) / sizeof(*waits));
}

static uint64_t amd64_heal_value(const struct regs *r)
{
	(void)r;
	return (uint64_t)-(int64_t)KERNEL_ERESTARTNOHAND;
}

static bool amd64_heal_interrupted_wait(struct regs *r)
{
	/* Only calls that were seen to end in EINTR by a stop, and to survive their restart. */
	static const int32_t healed[] = { SYS_epoll_wait, SYS_epoll_pwait, NR_EPOLL_PWAIT2, SYS_recvfrom };

	if (r->syscall_ret != -EINTR || !listed(r->syscall_nr, healed, sizeof(healed) / sizeof(*healed)))
		return false;
	uint64_t v = amd64_heal_value(r);
	memcpy(r->raw + offsetof(struct user_regs_struct, rax), &v, sizeof(v));
	r->syscall_ret = (int64_t)v;
	return true;
}

#define RAW(r) offsetof(struct user_regs_struct, r)
#define CONTEXT(r) (offsetof(ucontext_t, uc_mcontext.gregs) + (r) * sizeof(greg_t))

static void amd64_regs_from_perf(const uint64_t v[PERF_REGS_MAX], struct regs *ret)
{
	/* The order of enum perf_event_x86_regs. */
	static const uint16_t at[] = {
		RAW(rax), RAW(rbx), RAW(rcx), RAW(rdx), RAW(rsi), RAW(rdi), RAW(rbp), RAW(rsp), RAW(rip),
		RAW(eflags), RAW(cs), RAW(ss), RAW(r8), RAW(r9), RAW(r10), RAW(r11), RAW(r12), RAW(r13),
		RAW(r14), RAW(r15),
	};
	const int64_t none = -1;

	*ret = (struct regs){ .raw_len = sizeof(struct user_regs_struct) };
	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++)
		memcpy(ret->raw + at[i], &v[i], sizeof(v[i]));
	memcpy(ret->raw + RAW(orig_rax), &none, sizeof(none));
	amd64_regs_parse(ret);
}

const struct arch arch_amd64 = {
	.name = "amd64",
	.elf_machine = EM_X86_64,
	.page_size = 4096,
	.min_frame = 8,
	.regs_parse = amd64_regs_parse,
	.syscall_clones = amd64_syscall_clones,
	.syscall_waits = amd64_syscall_waits,
	.heal_interrupted_wait = amd64_heal_interrupted_wait,
	.heal_user_offset = offsetof(struct user, regs.rax),
	.heal_value = amd64_heal_value,
	.syscall_insn = { 0x0f, 0x05 }, .syscall_len = 2,
	.racecall_insn = { 0x49, 0x89, 0xe4 }, .racecall_len = 3,	/* mov %rsp, %r12 */
	.dwarf_pc = 16, .dwarf_sp = 7, .dwarf_bp = 6, .dwarf_result = 0, .dwarf_racecall = 12, .dwarf_n = 17,
	.dwarf_raw = {
		RAW(rax), RAW(rdx), RAW(rcx), RAW(rbx), RAW(rsi), RAW(rdi), RAW(rbp), RAW(rsp),
		RAW(r8), RAW(r9), RAW(r10), RAW(r11), RAW(r12), RAW(r13), RAW(r14), RAW(r15), RAW(rip),
	},
	.dwarf_ucontext = {
		CONTEXT(REG_RAX), CONTEXT(REG_RDX), CONTEXT(REG_RCX), CONTEXT(REG_RBX), CONTEXT(REG_RSI),
		CONTEXT(REG_RDI), CONTEXT(REG_RBP), CONTEXT(REG_RSP), CONTEXT(REG_R8), CONTEXT(REG_R9),
		CONTEXT(REG_R10), CONTEXT(REG_R11), CONTEXT(REG_R12), CONTEXT(REG_R13), CONTEXT(REG_R14),
		CONTEXT(REG_R15), CONTEXT(REG_RIP),
	},
	.ucontext_stack = offsetof(ucontext_t, uc_stack),
	.perf_regs = 0xff0fff,	/* all but ds, es, fs, gs, which 64-bit code has no use for */
	.regs_from_perf = amd64_regs_from_perf,
	.dwarf_g = 14,
};

const struct arch *arch_host(void)
{
	return &arch_amd64;
}
