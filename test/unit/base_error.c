/*
 * base_error.c: errors keep their kind and their three texts through everything that is done to
 * them, sentinels are never changed, and each kind has the exit status the manual promises.
 * Leaks are found by the address sanitizer.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"

static void test_new_formats(void **state)
{
	_cleanup_error_ struct error *err = error_new(ERROR_NO_PROCESS, "no process %d", 42);

	(void)state;
	assert_int_equal(err->kind, ERROR_NO_PROCESS);
	assert_false(err->is_static);
	assert_string_equal(err->what, "no process 42");
	assert_null(err->why);
	assert_null(err->todo);
}

static void test_why_and_todo_replace(void **state)
{
	_cleanup_error_ struct error *err = error_new(ERROR_DENIED, "not permitted");

	(void)state;
	assert_ptr_equal(error_why(err, "uid %d", 1), err);
	assert_ptr_equal(error_why(err, "because of %s", err->why), err);	/* quotes itself */
	assert_ptr_equal(error_todo(err, "sudo goprof attach %d", 7), err);
	assert_string_equal(err->why, "because of uid 1");
	assert_string_equal(err->todo, "sudo goprof attach 7");
	assert_string_equal(err->what, "not permitted");
}

static void test_wrap_heap(void **state)
{
	_cleanup_error_ struct error *err = error_new(ERROR_CORRUPT, "bad magic");

	(void)state;
	assert_ptr_equal(error_wrap(err, "segment %u", 3u), err);
	assert_string_equal(err->what, "segment 3: bad magic");
	assert_ptr_equal(error_wrap(err, "%s", err->what), err);
	assert_string_equal(err->what, "segment 3: bad magic: segment 3: bad magic");
	assert_int_equal(err->kind, ERROR_CORRUPT);
}

static void test_sentinels_stay(void **state)
{
	struct error *all[] = { &err_nomem, &err_fault, &err_gone, &err_end, &err_notfound, &err_corrupt };

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		const char *what = all[i]->what;
		_cleanup_error_ struct error *wrapped = NULL;

		assert_true(all[i]->is_static);
		assert_ptr_equal(error_why(all[i], "x"), all[i]);
		assert_ptr_equal(error_todo(all[i], "y"), all[i]);
		assert_null(all[i]->why);
		assert_null(all[i]->todo);
		error_free(all[i]);
		wrapped = error_wrap(all[i], "g %d", 1);
		assert_ptr_not_equal(wrapped, all[i]);
		assert_false(wrapped->is_static);
		assert_int_equal(wrapped->kind, all[i]->kind);
		assert_memory_equal(wrapped->what, "g 1: ", 5);
		assert_string_equal(wrapped->what + 5, what);
		assert_ptr_equal(all[i]->what, what);
	}
}

static void test_null_is_success(void **state)
{
	(void)state;
	error_free(NULL);
	assert_null(error_wrap(NULL, "x"));
	assert_null(error_why(NULL, "x"));
	assert_null(error_todo(NULL, "x"));
	assert_false(error_is_fatal(NULL));
}

static void test_take_leaves_the_guard_empty(void **state)
{
	struct error *kept;

	(void)state;
	{
		_cleanup_error_ struct error *err = error_new(ERROR_USAGE, "x");

		kept = take(err);
		assert_null(err);
	}
	assert_string_equal(kept->what, "x");	/* a use after free if the guard had run */
	error_free(kept);
}

static const struct {
	enum error_kind kind;
	int status;
	bool fatal;
} expected[] = {
	{ ERROR_INTERNAL, 70, true },		{ ERROR_NOMEM, 70, true },
	{ ERROR_FAULT, 70, false },		{ ERROR_GONE, 70, true },
	{ ERROR_END, 70, false },		{ ERROR_NOT_FOUND, 70, false },
	{ ERROR_CORRUPT, 70, false },		{ ERROR_USAGE, 2, true },
	{ ERROR_NOT_GO, 64, true },		{ ERROR_UNSUPPORTED, 65, true },
	{ ERROR_NO_PROCESS, 66, true },		{ ERROR_DENIED, 67, true },
	{ ERROR_TRACED, 68, true },		{ ERROR_FACILITY, 69, true },
	{ ERROR_OUTPUT, 73, true },		{ ERROR_NETWORK, 74, false },
	{ ERROR_START_SELF, 125, true },	{ ERROR_START_EXEC, 126, true },
	{ ERROR_START_MISSING, 127, true },
};

static void test_kinds(void **state)
{
	(void)state;
	assert_int_equal(sizeof(expected) / sizeof(*expected), ERROR_KIND_COUNT);
	for (size_t i = 0; i < ERROR_KIND_COUNT; i++) {
		_cleanup_error_ struct error *err = error_new(expected[i].kind, "x");

		assert_int_equal(expected[i].kind, i);
		assert_int_equal(error_exit_status(expected[i].kind), expected[i].status);
		assert_int_equal(error_is_fatal(err), expected[i].fatal);
	}
	assert_int_equal(error_exit_status((enum error_kind)999), 70);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new_formats),
		cmocka_unit_test(test_why_and_todo_replace),
		cmocka_unit_test(test_wrap_heap),
		cmocka_unit_test(test_sentinels_stay),
		cmocka_unit_test(test_null_is_success),
		cmocka_unit_test(test_take_leaves_the_guard_empty),
		cmocka_unit_test(test_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
