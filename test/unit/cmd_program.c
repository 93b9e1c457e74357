/*
 * The command behind run: found as execvp would, or refused with what stands in the way and the
 * next line to type.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "cmd/output_file.h"
#include "cmd/program.h"
#include "unit/cmd_place.h"

static void ok(struct error *err)
{
	if (err)
		fail_msg("%s: %s", err->what, err->why ? err->why : "");
}

static void program_fails(const char *word, const char *path, enum error_kind kind, const char *what,
			  const char *todo)
{
	char *found = NULL;
	_cleanup_error_ struct error *err = program_find(word, path, &found);

	assert_non_null(err);
	assert_null(found);
	assert_int_equal(err->kind, kind);
	assert_string_equal(err->what, what);
	if (todo)
		assert_string_equal(err->todo, todo);
	else
		assert_null(err->todo);
}

static void test_program(void **state)
{
	char *found = NULL;

	(void)state;
	ok(output_file_write("app", "", 0, true));
	ok(output_file_write("text", "", 0, true));
	ok(output_file_write("main.go", "", 0, true));
	assert_int_equal(chmod("app", 0755), 0);
	assert_int_equal(mkdir("bin", 0755), 0);
	assert_int_equal(mkdir("pkg", 0755), 0);
	ok(output_file_write("pkg/x.go", "", 0, true));
	ok(output_file_write("bin/tool", "", 0, true));

	ok(program_find("./app", "/nowhere", &found));
	assert_string_equal(found, "./app");
	free(found);
	found = NULL;
	program_fails("app", "/nowhere:bin", ERROR_START_MISSING, "cannot start app: not found in PATH",
		      "there is an executable ./app here: goprof run ./app");
	program_fails("gone", "/nowhere", ERROR_START_MISSING, "cannot start gone: not found in PATH", NULL);
	program_fails("./gone", "", ERROR_START_MISSING, "cannot start ./gone: no such file", NULL);
	program_fails("./app/x", "", ERROR_START_MISSING, "cannot start ./app/x: no such file", NULL);
	program_fails("./text", "", ERROR_START_EXEC, "cannot start ./text: not executable",
		      "chmod +x ./text");
	program_fails("./pkg", "", ERROR_START_EXEC, "cannot start ./pkg: it is a directory",
		      "go build -o app ./pkg && goprof run ./app");
	program_fails("main.go", "/nowhere", ERROR_START_MISSING, "cannot start main.go: not found in PATH",
		      "go build -o main main.go && goprof run ./main");
	program_fails("tool", "bin", ERROR_START_EXEC, "cannot start tool: not executable",
		      "chmod +x bin/tool");
	program_fails("", "bin", ERROR_START_MISSING, "cannot start '': the name is empty", NULL);
	assert_int_equal(chmod("bin/tool", 0755), 0);
	ok(program_find("tool", "/nowhere:bin:pkg", &found));
	assert_string_equal(found, "bin/tool");
	free(found);
	/* An empty element of PATH is the working directory. */
	ok(program_find("app", "/nowhere:", &found));
	assert_string_equal(found, "./app");
	free(found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_place(test_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
