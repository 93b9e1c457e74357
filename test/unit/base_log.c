/*
 * base_log.c: lines go to stderr whole, only at the level that was asked for, with control
 * characters masked, cut at a bound, and without touching errno. stderr is a pipe here.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/stop.h"

/* What `speak` wrote to stderr. */
static size_t listen(void (*speak)(void), char *out, size_t cap)
{
	int saved = dup(STDERR_FILENO), fds[2];
	ssize_t n;

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
	close(fds[1]);
	speak();
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);	/* the last writer is gone */
	close(saved);
	n = read(fds[0], out, cap - 1);
	close(fds[0]);
	assert_true(n >= 0);
	out[n] = '\0';
	return (size_t)n;
}

static void speak_both(void)
{
	errno = ENOENT;
	log_info("tracer", "held %d us", 12);
	log_debug("http", "status %d", 200);
	assert_int_equal(errno, ENOENT);
}

static void test_levels(void **state)
{
	static const char *const expected[] = {
		[LOG_QUIET] = "",
		[LOG_INFO] = "goprof: tracer: held 12 us\n",
		[LOG_DEBUG] = "goprof: tracer: held 12 us\ngoprof: http: status 200\n",
	};
	char out[256];

	(void)state;
	for (int level = LOG_QUIET; level <= LOG_DEBUG; level++) {
		log_set_level((enum log_level)level);
		listen(speak_both, out, sizeof(out));
		assert_string_equal(out, expected[level]);
	}
}

static void speak_controls(void)
{
	log_info("x", "%s", "a\033[31mb\nc\x7f");
}

static void test_controls_are_masked(void **state)
{
	char out[256];

	(void)state;
	log_set_level(LOG_INFO);
	listen(speak_controls, out, sizeof(out));
	assert_string_equal(out, "goprof: x: a?[31mb?c?\n");
}

static void speak_long(void)
{
	char text[5000];

	memset(text, 'l', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_info("x", "%s", text);
	log_info(text, "%s", "lost");
}

static void test_long_lines_are_cut(void **state)
{
	char out[8192];
	size_t n;

	(void)state;
	log_set_level(LOG_INFO);
	n = listen(speak_long, out, sizeof(out));
	assert_true(n > 2000 && n <= 2048);
	assert_int_equal(out[n - 1], '\n');
	assert_non_null(strchr(out, '\n'));
	assert_ptr_not_equal(strchr(out, '\n'), out + n - 1);	/* two lines, both ended */
}

static void test_failed_write_leaves_errno(void **state)
{
	int saved = dup(STDERR_FILENO);

	(void)state;
	log_set_level(LOG_INFO);
	close(STDERR_FILENO);
	errno = ENOENT;
	log_info("x", "lost");
	assert_int_equal(errno, ENOENT);
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	close(saved);
}

static void test_nobody_wants_to_stop(void **state)
{
	(void)state;
	assert_int_equal(stop_requests, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_levels),
		cmocka_unit_test(test_controls_are_masked),
		cmocka_unit_test(test_long_lines_are_cut),
		cmocka_unit_test(test_failed_write_leaves_errno),
		cmocka_unit_test(test_nobody_wants_to_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
