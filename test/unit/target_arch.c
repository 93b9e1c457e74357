/*
 * The x86-64 rules: registers out of the kernel's set, which calls wait, which waits are healed.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/user.h>

#include <cmocka.h>

#include "target/arch.h"

static struct regs regs_of(unsigned long long orig_rax, long long rax)
{
	struct user_regs_struct u = { .rip = 0x401000, .rsp = 0x7ffd1000, .rbp = 0x7ffd1040,
				      .orig_rax = orig_rax, .rax = (unsigned long long)rax };
	struct regs r = { .raw_len = sizeof(u) };

	memcpy(r.raw, &u, sizeof(u));
	assert_true(arch_host()->regs_parse(&r));
	return r;
}

static void registers_are_named(void **state)
{
	(void)state;
	struct regs r = regs_of(SYS_futex, -516);
	assert_int_equal(r.pc, 0x401000);
	assert_int_equal(r.sp, 0x7ffd1000);
	assert_int_equal(r.bp, 0x7ffd1040);
	assert_int_equal(r.syscall_nr, SYS_futex);
	assert_int_equal(r.syscall_ret, -516);
	r = regs_of(UINT64_MAX, 5);
	assert_int_equal(r.syscall_nr, -1);
	assert_int_equal(regs_of(0xfffffffffffffffeull, 0).syscall_nr, -1);
}

static void another_register_set_is_refused(void **state)
{
	struct regs r = { .raw_len = 68 };	/* that of a 32-bit program */

	(void)state;
	assert_false(arch_host()->regs_parse(&r));
	r.raw_len = REGS_RAW_MAX;
	assert_false(arch_host()->regs_parse(&r));
}

static void waiting_calls_are_known(void **state)
{
	static const int waits[] = { SYS_futex, SYS_epoll_pwait, SYS_epoll_wait, 441, SYS_nanosleep,
				     SYS_clock_nanosleep, SYS_poll, SYS_ppoll, SYS_select, SYS_pselect6,
				     SYS_restart_syscall };
	static const int others[] = { SYS_read, SYS_write, SYS_openat, SYS_getpid, -1, 100000 };

	(void)state;
	for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++)
		assert_true(arch_host()->syscall_waits(waits[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_false(arch_host()->syscall_waits(others[i]));
}

static void calls_that_make_threads_are_known(void **state)
{
	static const int others[] = { SYS_fork, SYS_vfork, SYS_execve, SYS_read, -1, 100000 };

	(void)state;
	assert_true(arch_host()->syscall_clones(SYS_clone));
	assert_true(arch_host()->syscall_clones(435));		/* clone3 */
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_false(arch_host()->syscall_clones(others[i]));
}

static void broken_waits_are_healed(void **state)
{
	static const int healed[] = { SYS_epoll_wait, SYS_epoll_pwait, 441, SYS_recvfrom };
	struct user_regs_struct u;

	(void)state;
	for (size_t i = 0; i < sizeof(healed) / sizeof(*healed); i++) {
		struct regs r = regs_of((unsigned long long)healed[i], -EINTR);
		assert_true(arch_host()->heal_interrupted_wait(&r));
		memcpy(&u, r.raw, sizeof(u));
		assert_int_equal((long)u.rax, -514);
		assert_int_equal(u.orig_rax, healed[i]);
		assert_int_equal(arch_host()->heal_value(&r), (uint64_t)-514);
	}
	assert_int_equal(arch_host()->heal_user_offset, offsetof(struct user, regs.rax));
}

static void nothing_else_is_touched(void **state)
{
	static const struct {
		unsigned long long nr;
		long long ret;
	} others[] = {
		{ SYS_epoll_wait, 0 }, { SYS_epoll_wait, 3 }, { SYS_epoll_wait, -EBADF },
		{ SYS_epoll_wait, -514 }, { SYS_read, -EINTR }, { SYS_futex, -512 },
		{ SYS_semop, -EINTR }, { UINT64_MAX, -EINTR },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		struct regs r = regs_of(others[i].nr, others[i].ret), before = r;
		assert_false(arch_host()->heal_interrupted_wait(&r));
		assert_memory_equal(&r, &before, sizeof(r));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers_are_named),
		cmocka_unit_test(another_register_set_is_refused),
		cmocka_unit_test(waiting_calls_are_known),
		cmocka_unit_test(calls_that_make_threads_are_known),
		cmocka_unit_test(broken_waits_are_healed),
		cmocka_unit_test(nothing_else_is_touched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
