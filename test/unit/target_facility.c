/*
 * The self-test of the kernel's facilities: on the machine of the tests all that goprof needs is
 * there; behind a seccomp filter it is not, and the cause is named.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "fake/child.h"
#include "target/facility.h"
#include "target/live.h"

static void every_row_has_its_words(void **state)
{
	(void)state;
	for (int id = 0; id < FACILITY_COUNT; id++) {
		assert_non_null(facility_name((enum facility_id)id));
		assert_true(strlen(facility_name((enum facility_id)id)) <= 26);
		assert_non_null(facility_loss((enum facility_id)id));
	}
}

static int children_of_ours(void)
{
	int status;

	return (int)waitpid(-1, &status, WNOHANG | __WALL);
}

static void what_is_needed_is_there(void **state)
{
	struct facility_result v[FACILITY_COUNT];

	(void)state;
	assert_null(facility_check());
	assert_null(facility_test(v));
	for (int id = FACILITY_SEIZE; id <= FACILITY_SCHEDSTAT; id++)
		if (!v[id].ok)
			fail_msg("%s: %s", facility_name((enum facility_id)id), strerror(v[id].errnum));
	assert_true(v[FACILITY_CLOCK].ok);
	assert_in_range(v[FACILITY_CLOCK].ns, 1, 100000000);
	assert_int_equal(v[FACILITY_SCHEDSTAT].ns, 1);
	/* Nothing is left behind. */
	assert_int_equal(children_of_ours(), -1);
	assert_int_equal(errno, ECHILD);
}

/* From here on a call (with that first argument; -1 any) fails with that errno, in this process and in its children. */
static int forbid(int call, int argument, int errnum)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | (argument < 0 ? BPF_JGE : BPF_JEQ) | BPF_K, argument < 0 ? 0 : (uint32_t)argument, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)errnum),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(*code), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

struct forbidden {
	int call, argument, errnum;
	enum facility_id id, last;	/* what fails, and up to which nothing could be tried */
	const char *why;		/* of facility_check; NULL: it finds nothing */
};

/* What a child says of itself behind a filter: 0 all as it should be, else the number of the complaint. */
static int behind_a_filter(struct child_shared *s, void *arg)
{
	const struct forbidden *f = arg;
	struct facility_result v[FACILITY_COUNT];

	s->ready = 1;
	if (forbid(f->call, f->argument, f->errnum))
		return 77;
	_cleanup_error_ struct error *err = facility_check();
	if (!err != !f->why)
		return 1;
	if (err && (err->kind != ERROR_FACILITY || !err->why || !strstr(err->why, f->why) ||
		    !strstr(err->what, facility_name(f->id))))
		return 2;
	if (facility_test(v))
		return 3;
	for (int id = 0; id < FACILITY_COUNT; id++) {
		bool untried = id > (int)f->id && id <= (int)f->last;

		if (v[id].ok == (id == (int)f->id || untried))
			return 10 + id;
		if (v[id].untried != untried)
			return 30 + id;
	}
	return v[f->id].errnum == f->errnum ? 0 : 4;
}

static void a_filter_is_named(void **state)
{
	static struct forbidden v[] = {
		{ SYS_ptrace, -1, EPERM, FACILITY_SEIZE, FACILITY_DETACH, "seccomp filter" },
		{ SYS_ptrace, -1, ENOSYS, FACILITY_SEIZE, FACILITY_DETACH, "no ptrace as Linux has it" },
		{ SYS_ptrace, PTRACE_INTERRUPT, EPERM, FACILITY_INTERRUPT, FACILITY_DETACH, "seccomp filter" },
		{ SYS_ptrace, PTRACE_GETREGSET, EPERM, FACILITY_REGISTERS, FACILITY_REGISTERS, "seccomp filter" },
		{ SYS_process_vm_readv, -1, EPERM, FACILITY_VM_READ, FACILITY_VM_READ, NULL },
		{ SYS_pidfd_open, -1, ENOSYS, FACILITY_PIDFD, FACILITY_PIDFD, NULL },
		{ SYS_perf_event_open, -1, EPERM, FACILITY_PERF, FACILITY_PERF, NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(*v); i++) {
		struct test_child c;

		child_start(&c, behind_a_filter, &v[i]);
		int status = child_stop(&c);
		assert_true(WIFEXITED(status));
		if (WEXITSTATUS(status) == 77)
			skip();
		if (WEXITSTATUS(status))
			fail_msg("filter %zu: %d", i, WEXITSTATUS(status));
	}
}

/* A child that did not come to its stop in time says nothing of what is permitted. */
static void late_is_not_never(void **state)
{
	struct facility_result v[FACILITY_COUNT] = { [FACILITY_SEIZE] = { .ok = true } };

	(void)state;
	v[FACILITY_INTERRUPT].errnum = ETIMEDOUT;
	v[FACILITY_REGISTERS].untried = v[FACILITY_DETACH].untried = true;
	assert_null(facility_judge(v));
	v[FACILITY_INTERRUPT].errnum = EPERM;
	_cleanup_error_ struct error *err = facility_judge(v);
	assert_non_null(err);
	assert_string_equal(err->what, "goprof cannot trace any process here (ptrace interrupt)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_has_its_words),
		cmocka_unit_test(what_is_needed_is_there),
		cmocka_unit_test(a_filter_is_named),
		cmocka_unit_test(late_is_not_never),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
