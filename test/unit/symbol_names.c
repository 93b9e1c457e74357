/*
 * symbol_names.c: names as the linker spells them: import path and rest, escapes, generic
 * arguments, whose code it is, and what a traceback hides. Rows are spellings seen in programs, or
 * chosen to break a reader that counts dots or slashes.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "symbol/symbol.h"

static void test_split(void **state)
{
	static const struct { const char *full, *module, *name; } rows[] = {
		{ "main.main", "main", "main" },
		{ "net/http.(*conn).serve", "net/http", "(*conn).serve" },
		{ "net/http.(*Server).Serve.func1.gowrap2", "net/http", "(*Server).Serve.func1.gowrap2" },
		{ "example.org/a/b%2ev3.F", "example.org/a/b%2ev3", "F" },
		{ "a/b%2ev3.(*T[c/d.X]).M", "a/b%2ev3", "(*T[c/d.X]).M" },
		{ "main.F[go.shape.struct { net/http.X int }]", "main", "F[go.shape.struct { net/http.X int }]" },
		{ "main.F[...]", "main", "F[...]" },
		{ "main.glob..func1", "main", "glob..func1" },
		{ "main.T.Val-fm", "main", "T.Val-fm" },
		{ "main._Cfunc_c_spin", "main", "_Cfunc_c_spin" },
		{ "go.(*struct { sync.Mutex; net/http.Y }).Lock", "go", "(*struct { sync.Mutex; net/http.Y }).Lock" },
		{ "type:.eq.[2]example.org/x.T", "", "type:.eq.[2]example.org/x.T" },
		{ "type..eq.net/http.T", "", "type..eq.net/http.T" },
		{ "go:textfipsstart", "", "go:textfipsstart" },
		{ "_rt0_amd64_linux", "", "_rt0_amd64_linux" },
		{ "crosscall2", "", "crosscall2" },
		{ "struct { example.org/x.T }.M", "", "struct { example.org/x.T }.M" },
		{ "", "", "" },
		{ ".", "", "" },
		{ "a/.", "a/", "" },
		{ "a.b/c", "", "a.b/c" },
		{ "[a.b", "", "[a.b" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		size_t len = 999;
		const char *name = NULL;

		name_split(rows[i].full, &len, &name);
		assert_int_equal(len, strlen(rows[i].module));
		assert_memory_equal(rows[i].full, rows[i].module, len);
		assert_string_equal(name, rows[i].name);
	}
}

static void test_unescape(void **state)
{
	static const struct { const char *full, *plain; } rows[] = {
		{ "example.org/dot%2eted.(*T).M", "example.org/dot.ted.(*T).M" },
		{ "gopkg.in/yaml%2ev3.F", "gopkg.in/yaml.v3.F" },
		{ "a%2eb%2ec.F%2e", "a.b.c.F%2e" },		/* only the path is escaped */
		{ "a%25b.F", "a%b.F" },
		{ "a%00b.F", "a%00b.F" },			/* a NUL would cut the name */
		{ "a%2.F", "a%2.F" },
		{ "a%.F", "a%.F" },
		{ "a%zz.F", "a%zz.F" },
		{ "a%2E.F", "a%2E.F" },				/* the linker writes lower case */
		{ "%e4%b8%96.F", "\xe4\xb8\x96.F" },
		{ "noescape", "noescape" },
		{ "%2e", "%2e" },
		{ "", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char *s = strdup(rows[i].full);

		assert_non_null(s);
		name_unescape(s);
		assert_string_equal(s, rows[i].plain);
		free(s);
	}
}

static void test_print(void **state)
{
	static const struct { const char *full, *printed; } rows[] = {
		{ "main.F[go.shape.int]", "main.F[...]" },
		{ "main.(*T[go.shape.struct { F [2]int }]).M.func1", "main.(*T[...]).M.func1" },
		{ "main.F[a].G[b].func1", "main.F[...].func1" },	/* first bracket to last, as the runtime */
		{ "main.F[...]", "main.F[...]" },
		{ "main.F", "main.F" },
		{ "main.F]x[y", "main.F]x[y" },
		{ "main.F[", "main.F[" },
		{ "", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		size_t need = strlen(rows[i].printed) + 1;
		char *buf = malloc(need);

		assert_non_null(buf);
		assert_null(name_print(rows[i].full, buf, need));
		assert_string_equal(buf, rows[i].printed);
		/* One byte less: refused, and nothing is written behind the end. */
		assert_ptr_equal(name_print(rows[i].full, buf, need - 1), &err_corrupt);
		free(buf);
	}
}

static void test_std(void **state)
{
	static const char *const std[] = { "runtime", "net/http", "internal/poll", "vendor/golang.org/x/net/dns",
					   "archive/tar", "weak", "fmt", "unique", "go/ast", "iter" };
	static const char *const others[] = { "main", "example.org/fmt", "golang.org/x/net", "fm", "fmtx", "fmtx/a",
					      "app", "", "/fmt", "zzz", "aaa", "Fmt", "type:" };

	(void)state;
	for (size_t i = 0; i < sizeof(std) / sizeof(*std); i++)
		assert_true(name_is_std(std[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_false(name_is_std(others[i]));
}

static void test_in_app(void **state)
{
	static const struct { const char *module, *main_module; bool app; } rows[] = {
		{ "main", "example.org/app", true },
		{ "main", "", true },
		{ "example.org/app", "example.org/app", true },
		{ "example.org/app/store", "example.org/app", true },
		{ "example.org/app_test", "example.org/app", true },
		{ "example.org/apple", "example.org/app", false },
		{ "example.org/app2/x", "example.org/app", false },
		{ "example.org", "example.org/app", false },
		{ "example.org/dep", "example.org/app", false },
		{ "net/http", "example.org/app", false },
		{ "runtime", "example.org/app", false },
		{ "", "example.org/app", false },
		{ "app/store", "app", true },
		{ "example.org/app/vendor/example.org/dep", "example.org/app", false },
		/* No build information. */
		{ "example.org/x", "", true },
		{ "net/http", "", false },
		{ "vendor/golang.org/x/net", "", false },
		{ "app/store", "", false },
		{ "app/store.v2", "", false },
		{ "", "", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_int_equal(name_in_app(rows[i].module, rows[i].main_module), rows[i].app);
}

static void test_hidden(void **state)
{
	static const struct { const char *full; bool old, new; } rows[] = {	/* before 1.23, from then on */
		{ "main.main", false, false },
		{ "goexit", true, true },
		{ "runtime.goexit", true, true },
		{ "runtime.gopark", true, true },
		{ "runtime.main", true, true },
		{ "runtime.GC", false, false },
		{ "runtime.Goexit", false, false },
		{ "runtime.Goexit.func1", false, true },
		{ "runtime.(*Func).Entry", true, false },
		{ "runtime.(*Func).entry", true, true },
		{ "runtime.(*itab).Init", true, true },
		{ "runtime.Frames.Next", false, false },
		{ "runtime.main.func1", true, true },
		{ "runtime.runFinalizers", false, false },
		{ "runtime.runCleanups", false, false },
		{ "runtime.runfinq", true, true },
		{ "runtime.gopanic", true, true },
		{ "runtime.", true, true },
		{ "runtime.X[go.shape.int]", false, true },	/* the last dot is inside the brackets */
		{ "runtime/debug.ReadGCStats", false, false },
		{ "runtimes.x", false, false },
		{ "internal/poll.runtime_pollWait", false, false },
		{ "", true, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_int_equal(name_runtime_hidden(rows[i].full, 19), rows[i].old);
		assert_int_equal(name_runtime_hidden(rows[i].full, 22), rows[i].old);
		assert_int_equal(name_runtime_hidden(rows[i].full, 23), rows[i].new);
		assert_int_equal(name_runtime_hidden(rows[i].full, 27), rows[i].new);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_unescape),
		cmocka_unit_test(test_print),
		cmocka_unit_test(test_std),
		cmocka_unit_test(test_in_app),
		cmocka_unit_test(test_hidden),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
