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

/* From here on a call fails with that errno, in this process and in its children. */
static int forbid(int call, int errnum)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)errnum),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(*code), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

struct forbidden {
	int call, errnum;
	enum facility_id id;
	const char *why;	/* of facility_check; NULL: it finds nothing */
};

/* What a child says of itself behind a filter: 0 all as it should be, else the number of the complaint. */
static int behind_a_filter(struct child_shared *s, void *arg)
{
	const struct forbidden *f = arg;
	struct facility_result v[FACILITY_COUNT];

	s->ready = 1;
	if (forbid(f->call, f->errnum))
		return 77;
	_cleanup_error_ struct error *err = facility_check();
	if (!err != !f->why)
		return 1;
	if (err && (err->kind != ERROR_FACILITY || !err->why || !strstr(err->why, f->why)))
		return 2;
	if (facility_test(v))
		return 3;
	for (int id = 0; id < FACILITY_COUNT; id++) {
		bool hit = id == (int)f->id || (f->id == FACILITY_SEIZE && id <= FACILITY_DETACH);

		if (v[id].ok == hit)
			return 10 + id;
	}
	return v[f->id].errnum == f->errnum ? 0 : 4;
}

static void a_filter_is_named(void **state)
{
	static struct forbidden v[] = {
		{ SYS_ptrace, EPERM, FACILITY_SEIZE, "seccomp filter" },
		{ SYS_ptrace, ENOSYS, FACILITY_SEIZE, "no ptrace as Linux has it" },
		{ SYS_process_vm_readv, EPERM, FACILITY_VM_READ, NULL },
		{ SYS_pidfd_open, ENOSYS, FACILITY_PIDFD, NULL },
		{ SYS_perf_event_open, EPERM, FACILITY_PERF, NULL },
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_has_its_words),
		cmocka_unit_test(what_is_needed_is_there),
		cmocka_unit_test(a_filter_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
