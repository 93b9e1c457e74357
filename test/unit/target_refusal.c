/*
 * Why the kernel refuses: one cause, the one that holds, and never advice that is already followed.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "target/live.h"

enum { SYS_PTRACE_BIT = 1 << 19 };

/* A process of our own user that nothing forbids. */
static struct refusal_facts plain(void)
{
	return (struct refusal_facts){ .pid = 4711, .name = "/srv/app", .uid = { 1000, 1000, 1000 },
				       .gid = { 100, 100, 100 }, .our_uid = 1000, .our_gid = 100,
				       .yama_scope = 0, .dumpable = true, .same_user_ns = true,
				       .errnum = EPERM };
}

static void expect(const struct refusal_facts *f, const char *why, const char *todo)
{
	struct error *err = refusal_explain(f);

	assert_int_equal(err->kind, ERROR_DENIED);
	assert_string_equal(err->what, "cannot attach to 4711 (/srv/app): not permitted");
	assert_non_null(err->why);
	if (!strstr(err->why, why))
		fail_msg("'%s' is not about '%s'", err->why, why);
	if (todo)
		assert_non_null(strstr(err->todo, todo));
	else
		assert_null(err->todo);
	error_free(err);
}

static void other_user(void **state)
{
	struct refusal_facts f = plain();

	(void)state;
	f.uid[0] = f.uid[1] = f.uid[2] = 4000000001u;	/* surely without a name */
	f.our_uid = 4000000002u;
	f.yama_scope = 1;	/* holds as well, but is not what decides */
	expect(&f, "it belongs to user 4000000001, you are 4000000002", "sudo goprof attach 4711");
	f = plain();
	f.uid[1] = 0;		/* a set-user-id program of ours */
	expect(&f, "it belongs to user root (0)", "sudo");
}

static void other_group(void **state)
{
	struct refusal_facts f = plain();

	(void)state;
	f.gid[1] = 7;
	expect(&f, "group 7, you with group 100", "sudo");
}

static void yama(void **state)
{
	struct refusal_facts f = plain();

	(void)state;
	f.yama_scope = 1;
	expect(&f, "kernel.yama.ptrace_scope is 1: only a parent may trace its child",
	       "or start it by: goprof run /srv/app");
	f.yama_scope = 2;
	expect(&f, "ptrace_scope is 2", "sudo");
	f.yama_scope = 3;
	f.our_uid = 0;
	f.our_caps = SYS_PTRACE_BIT;
	expect(&f, "ptrace_scope is 3", "boot");
}

static void container(void **state)
{
	struct refusal_facts f = plain();

	(void)state;
	f.our_uid = 0;
	expect(&f, "you are root, but without CAP_SYS_PTRACE", "systemd-run --pty --same-dir goprof attach 4711");
	f.place = PLACE_DOCKER;
	expect(&f, "this container lacks CAP_SYS_PTRACE", "docker run --cap-add SYS_PTRACE");
	f.place = PLACE_KUBERNETES;
	expect(&f, "this container lacks CAP_SYS_PTRACE", "securityContext: {capabilities: {add: [\"SYS_PTRACE\"]}}");
	f.place = PLACE_CONTAINER;
	expect(&f, "this container lacks CAP_SYS_PTRACE", "podman run --cap-add SYS_PTRACE");
	/* What is there already is not advised: then it is something else. */
	f.our_caps = SYS_PTRACE_BIT;
	expect(&f, "a security module or a sandbox", NULL);
}

/* A container's user is told of the container, not of sudo. */
static void user_of_a_container(void **state)
{
	struct refusal_facts f = plain();

	(void)state;
	f.yama_scope = 1;
	f.place = PLACE_DOCKER;
	expect(&f, "ptrace_scope is 1", "docker exec -it --privileged -u 0 CONTAINER goprof attach 4711");
	f.place = PLACE_KUBERNETES;
	expect(&f, "ptrace_scope is 1", "runAsUser: 0");
}

static void security_module(void **state)
{
	struct refusal_facts f = plain();

	(void)state;
	strcpy(f.our_label, "docker-default (enforce)");
	expect(&f, "what it calls docker-default (enforce)", NULL);
}

/* Not even a child of our own may be traced. */
static void expect_of_all(const struct refusal_facts *f, const char *why, const char *todo)
{
	struct error *err = refusal_of_all(error_new(ERROR_FACILITY, "x"), f);

	assert_int_equal(err->kind, ERROR_FACILITY);
	if (!strstr(err->why, why))
		fail_msg("'%s' is not about '%s'", err->why, why);
	if (todo)
		assert_non_null(strstr(err->todo, todo));
	else
		assert_null(err->todo);
	error_free(err);
}

static void nothing_may_be_traced(void **state)
{
	struct refusal_facts f = plain();

	(void)state;
	f.pid = 0;
	expect_of_all(&f, "Operation not permitted", NULL);
	f.our_seccomp = true;
	expect_of_all(&f, "a seccomp filter on goprof forbids ptrace", "outside of this sandbox");
	f.place = PLACE_DOCKER;
	expect_of_all(&f, "a seccomp filter on goprof forbids ptrace", "--security-opt seccomp=unconfined");
	f.place = PLACE_KUBERNETES;
	expect_of_all(&f, "a seccomp filter on goprof forbids ptrace", "seccompProfile: {type: Unconfined}");
	f.place = PLACE_HOST;
	f.yama_scope = 1;	/* a parent may trace its child */
	expect_of_all(&f, "a seccomp filter on goprof forbids ptrace", "outside of this sandbox");
	f.our_seccomp = false;
	expect_of_all(&f, "Operation not permitted", NULL);
	f.our_seccomp = true;
	f.yama_scope = 2;
	expect_of_all(&f, "ptrace_scope is 2", "sudo sysctl kernel.yama.ptrace_scope=1");
	f.our_caps = SYS_PTRACE_BIT;
	expect_of_all(&f, "a seccomp filter", "sandbox");
	f.yama_scope = 3;
	expect_of_all(&f, "ptrace_scope is 3", "boot");
	f.our_tracer = 99;
	expect_of_all(&f, "being traced itself (by pid 99)", "without");
	f.our_tracer = 0;
	f.errnum = ENOSYS;
	expect_of_all(&f, "no ptrace as Linux has it", NULL);
}

static void user_namespace(void **state)
{
	struct refusal_facts f = plain();

	(void)state;
	f.our_uid = 0;
	f.our_caps = SYS_PTRACE_BIT;
	f.same_user_ns = false;
	expect(&f, "another user namespace", "outside");
}

static void capabilities_and_dumpable(void **state)
{
	struct refusal_facts f = plain();

	(void)state;
	f.caps = 1 << 10;
	expect(&f, "capabilities that you lack (400)", "sudo");
	f.our_caps = 1 << 10;
	f.dumpable = false;
	expect(&f, "made itself unreadable", "sudo");
}

static void root_is_not_told_to_become_root(void **state)
{
	struct refusal_facts f = plain();

	(void)state;
	f.our_uid = 0;
	f.our_caps = SYS_PTRACE_BIT;
	f.uid[0] = 33;
	f.dumpable = false;
	f.yama_scope = 1;
	expect(&f, "a security module or a sandbox", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_user),
		cmocka_unit_test(other_group),
		cmocka_unit_test(yama),
		cmocka_unit_test(container),
		cmocka_unit_test(user_of_a_container),
		cmocka_unit_test(security_module),
		cmocka_unit_test(nothing_may_be_traced),
		cmocka_unit_test(user_namespace),
		cmocka_unit_test(capabilities_and_dumpable),
		cmocka_unit_test(root_is_not_told_to_become_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
