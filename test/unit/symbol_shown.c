/*
 * symbol_shown.c: which frames of a whole stack a traceback shows: the runtime's own functions,
 * compiler-made wrappers, and the two exceptions that a panic makes.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "symbol/symbol.h"

enum { MAX = 8 };

struct row {
	const char *function;
	uint32_t flags;
	bool shown;
};

static void check(const struct row *rows, size_t n)
{
	struct symbol_frame frames[MAX];
	const struct symbol_frame *stack[MAX];

	assert_true(n <= MAX);
	for (size_t i = 0; i < n; i++) {
		frames[i] = (struct symbol_frame){ .function = rows[i].function, .flags = rows[i].flags };
		stack[i] = &frames[i];
	}
	for (size_t i = 0; i < n; i++)
		assert_int_equal(symbol_shown(stack, n, i), rows[i].shown);
	assert_false(symbol_shown(stack, n, n));
}

#define CHECK(...) do {								\
	static const struct row rows_[] = { __VA_ARGS__ };			\
	check(rows_, sizeof(rows_) / sizeof(*rows_));				\
} while (0)

enum { HID = FRAME_RUNTIME_HIDDEN, WRAP = FRAME_WRAPPER };

static void test_plain(void **state)
{
	(void)state;
	CHECK({ "runtime.gopark", HID, false }, { "runtime.chanrecv", HID, false }, { "main.work", 0, true },
	      { "runtime.goexit", HID, false });
}

static void test_wrapper(void **state)
{
	(void)state;
	/* It calls what it wraps: one line is enough. */
	CHECK({ "main.T.M", 0, true }, { "main.(*T).M", WRAP, false }, { "main.main", 0, true });
	/* It called a panic itself (nil receiver, nil pointer): then it is the only trace of it. */
	CHECK({ "runtime.panicwrap", HID, false }, { "main.(*T).M", WRAP, true }, { "main.main", 0, true });
	CHECK({ "runtime.sigpanic", HID, false }, { "main.(*T).M", WRAP, true });
	CHECK({ "runtime.gopanic", HID, false }, { "main.(*T).M", WRAP, true });
	/* Innermost: nothing called. */
	CHECK({ "main.(*T).M", WRAP, false }, { "main.main", 0, true });
	/* A hidden frame between them is the one that counts. */
	CHECK({ "runtime.gopanic", HID, false }, { "runtime.x", HID, false }, { "main.(*T).M", WRAP, false });
}

static void test_gopanic(void **state)
{
	(void)state;
	/* In the middle it marks where deferred code begins. */
	CHECK({ "main.deferred", 0, true }, { "runtime.gopanic", HID, true }, { "main.bad", 0, true });
	/* As the first line it says nothing. */
	CHECK({ "runtime.gopark", HID, false }, { "runtime.gopanic", HID, false }, { "main.bad", 0, true });
	/* Two of them: the second has lines before it. */
	CHECK({ "runtime.gopanic", HID, false }, { "main.d2", 0, true }, { "runtime.gopanic", HID, true });
	/* A shown wrapper is a line too. */
	CHECK({ "runtime.sigpanic", HID, false }, { "main.(*T).M", WRAP, true }, { "runtime.gopanic", HID, true });
}

static void test_pseudo(void **state)
{
	(void)state;
	CHECK({ "[C]", FRAME_PSEUDO | FRAME_NATIVE, true }, { "runtime.cgocall", HID, false },
	      { "main._Cfunc_f", 0, true });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_wrapper),
		cmocka_unit_test(test_gopanic),
		cmocka_unit_test(test_pseudo),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
