/*
 * Errors in the words of the command: the verb, the line to paste, words that are no pid, and the
 * width of what is printed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "cmd/command.h"
#include "cmd/refused.h"
#include "cmd/words.h"
#include "target/live.h"

/* What lib/ says about a process of somebody else. */
static struct error *denied(uint32_t yama)
{
	const struct refusal_facts f = {
		.pid = 4711, .name = "/srv/app", .uid = { 1000, 1000, 1000 }, .gid = { 100, 100, 100 },
		.our_uid = yama ? 1000 : 4000000002u, .our_gid = 100, .yama_scope = (int)yama,
		.dumpable = true, .same_user_ns = true,
	};

	return refusal_explain(&f);
}

static void fits(const char *command, char *const *argv, struct error *err, const char *what,
		 const char *todo)
{
	_cleanup_error_ struct error *e = refused_by(command_find(command), argv, argv[0], err);

	assert_string_equal(e->what, what);
	if (todo)
		assert_string_equal(e->todo, todo);
	else
		assert_null(e->todo);
}

static void test_denied(void **state)
{
	static const char attach[] = "cannot attach to 4711 (/srv/app): not permitted";
	static const char look[] = "cannot look into 4711 (/srv/app): not permitted";
	char *const pid[] = { (char *)"4711", NULL };
	char *const more[] = { (char *)"4711", (char *)"-o", (char *)"a b.pb.gz", (char *)"--dsn",
			       (char *)"https://key@h/1", (char *)"--dsn=https://key@h/2", NULL };

	(void)state;
	fits("attach", pid, denied(0), attach, "sudo goprof attach 4711");
	fits("dump", pid, denied(0), look, "sudo goprof dump 4711");
	fits("info", pid, denied(0), look, "sudo goprof info 4711");
	fits("attach", more, denied(0), attach,
	     "sudo goprof attach 4711 -o 'a b.pb.gz' --dsn DSN --dsn=DSN");
	fits("attach", pid, denied(1), attach, "sudo goprof attach 4711    or start it by: goprof run /srv/app");
	fits("dump", pid, denied(1), look, "sudo goprof dump 4711");
	/* Where root does not help nothing is put in. */
	fits("dump", pid, denied(3), look, "set kernel.yama.ptrace_scope to 1 in /etc/sysctl.d and boot again");
}

static void test_not_go(void **state)
{
	char *const pid[] = { (char *)"815", NULL };
	static const char what[] = "815 (/bin/sh) is not a Go program";

	(void)state;
	fits("attach", pid, error_new(ERROR_NOT_GO, what), what, "goprof info 815 shows what was tried");
	fits("dump", pid, error_new(ERROR_NOT_GO, what), what, "goprof info 815 shows what was tried");
	fits("info", pid, error_new(ERROR_NOT_GO, what), what, NULL);
	fits("run", pid, error_new(ERROR_NOT_GO, what), what, NULL);
	assert_ptr_equal(refused_by(command_find("dump"), pid, pid[0], &err_nomem), &err_nomem);
	assert_null(refused_by(command_find("dump"), pid, pid[0], NULL));
}

static void no_pid(const char *command, const char *word, enum error_kind kind, const char *what,
		   const char *todo)
{
	pid_t pid = -7;
	_cleanup_error_ struct error *err = pid_read(command_find(command), word, &pid);

	assert_non_null(err);
	assert_int_equal(err->kind, kind);
	assert_string_equal(err->what, what);
	if (todo)
		assert_string_equal(err->todo, todo);
	else
		assert_null(err->todo);
	assert_int_equal(pid, -7);
}

static void test_pid(void **state)
{
	pid_t pid;

	(void)state;
	assert_null(pid_read(command_find("dump"), "2147483647", &pid));
	assert_int_equal(pid, INT32_MAX);
	for (size_t i = 0; i < 2; i++) {
		const char *c = i ? "dump" : "attach";

		no_pid(c, "0", ERROR_NO_PROCESS, "there is no process 0", NULL);
		no_pid(c, "2147483648", ERROR_NO_PROCESS, "there is no process 2147483648", NULL);
		no_pid(c, "", ERROR_USAGE, "'' is not the id of a process", NULL);
		no_pid(c, "-5", ERROR_USAGE, "'-5' is not the id of a process", NULL);
	}
	no_pid("attach", "app", ERROR_USAGE, "'app' is not the id of a process",
	       "goprof attach \"$(pgrep -n app)\"");
	no_pid("dump", "it's", ERROR_USAGE, "'it's' is not the id of a process",
	       "goprof dump \"$(pgrep -n 'it'\\''s')\"");
	no_pid("attach", "/bin/sh", ERROR_USAGE, "'/bin/sh' is not the id of a process",
	       "to start it: goprof run /bin/sh");
	no_pid("dump", "/bin/sh", ERROR_USAGE, "'/bin/sh' is not the id of a process",
	       "goprof dump \"$(pgrep -n sh)\"");
}

static void test_reword(void **state)
{
	_cleanup_error_ struct error *err = error_new(ERROR_NOT_GO, "the file is not a Go program");

	(void)state;
	assert_true(error_reword(err, "the file", "/bin/ls"));
	assert_string_equal(err->what, "/bin/ls is not a Go program");
	assert_false(error_reword(err, "the file", "x"));
	assert_string_equal(err->what, "/bin/ls is not a Go program");
	assert_false(error_reword(&err_nomem, "out", "in"));
}

/* What is prose is broken before column 80; a line to paste never, and no word either. */
static void test_width(void **state)
{
	_cleanup_(buf_deinit) struct buf b = { 0 };
	_cleanup_error_ struct error *err =
		error_new(ERROR_DENIED, "cannot attach to 4711 (/srv/a/rather/long/path/of/a/program): not "
			  "permitted");
	char word[700];

	(void)state;
	buf_init(&b);
	error_why(err, "a security module or a sandbox of this machine forbids it (Operation not permitted)");
	error_todo(err, "docker run --cap-add SYS_PTRACE ...   Kubernetes: "
		   "securityContext.capabilities.add: [\"SYS_PTRACE\"]");
	error_text(err, &b);
	assert_null(buf_error(&b));
	assert_string_equal(b.data,
		"goprof: cannot attach to 4711 (/srv/a/rather/long/path/of/a/program): not\n"
		"        permitted\n"
		"  why   a security module or a sandbox of this machine forbids it (Operation not\n"
		"        permitted)\n"
		"  do    docker run --cap-add SYS_PTRACE ...   Kubernetes: "
		"securityContext.capabilities.add: [\"SYS_PTRACE\"]\n");
	error_free(err);
	memset(word, 'x', sizeof(word) - 1);
	word[sizeof(word) - 1] = 0;
	err = error_new(ERROR_OUTPUT, "cannot write %s\n\033", word);
	buf_clear(&b);
	error_text(err, &b);
	assert_int_equal(strlen(b.data), strlen("goprof: cannot write\n        ") + sizeof(word) - 1 + 3);
	assert_non_null(strstr(b.data, "x??\n"));
	/* Paths come from cores, too: none of the three parts may write to the terminal. */
	error_free(err);
	err = error_todo(error_why(error_new(ERROR_USAGE, "a\033[2J"), "b\033[2J"), "c\033[2J\n");
	buf_clear(&b);
	error_text(err, &b);
	assert_string_equal(b.data, "goprof: a?[2J\n  why   b?[2J\n  do    c?[2J?\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_denied),
		cmocka_unit_test(test_not_go),
		cmocka_unit_test(test_pid),
		cmocka_unit_test(test_reword),
		cmocka_unit_test(test_width),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
