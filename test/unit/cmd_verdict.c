/*
 * cmd_verdict.c: can the profile be trusted? What is said of each figure, and which is worst.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "summary_sample.h"

static void says(const struct summary *s, bool good, const char *text)
{
	_cleanup_(buf_deinit) struct buf line;

	buf_init(&line);
	assert_int_equal(verdict_text(s, &line), good);
	if (!strstr(line.data, text))
		fail_msg("no '%s' in '%s'", text, line.data);
}

/* What is no fault of the profile, and yet must be known to who reads it. */
static void test_said_and_good(void **state)
{
	struct summary s = sample();

	(void)state;
	s.health[HEALTH_PAUSED] = 3200 * MS;
	says(&s, true, "1,253 of 1,253 ticks at 101 Hz, stopped for 3.2 s (left out), 99.8 %");
	s = sample();
	s.health[HEALTH_LABELS_MERGED] = 12345;
	s.health[HEALTH_STACKS_MERGED] = 6;
	says(&s, true, "pprof: 12,345 rare label sets and 6 rare stacks merged");
	s.health[HEALTH_LABELS_MERGED] = 0;
	says(&s, true, "pprof: 6 rare stacks merged");
	s = sample();
	s.health[HEALTH_LABELS_MERGED] = 12345;
	says(&s, true, "pprof: 12,345 rare label sets merged");
	s = sample();
	s.health[HEALTH_WINDOWS_LOST] = 2;
	s.health[HEALTH_TIME_LOST] = 59ull * NSEC_PER_SEC;
	says(&s, false, "2 windows of 59.0 s lost (outputs were slower than sampling)");
	s = sample();
	s.health[HEALTH_CLOCK_STEP] = 10 * MS;
	says(&s, true, "CPU time of threads known in steps of 10 ms (kernel without scheduler statistics)");
	s = sample();
	s.health[HEALTH_CPU_UNSEEN] = s.health[HEALTH_CPU_PROCESS] / 2;
	s.health[HEALTH_DENIED] = 1000;
	says(&s, false, "50.0 % of CPU time without a stack (1,000 times a thread might not be held, "
	     "or was held from outside this container)");
}

static void test_check_worst_first(void **state)
{
	_cleanup_(buf_deinit) struct buf b, line;
	struct summary s = sample();

	(void)state;
	s.health[HEALTH_TICKS_DONE] = 1101;
	s.health[HEALTH_STACKS_COMPLETE] = 91400;
	s.health[HEALTH_STACKS_NATIVE] = 8600;
	buf_init(&b);
	buf_init(&line);
	assert_false(verdict_text(&s, &line));
	summary_paragraph(&b, "health", line.data);
	expect(&b,
	       "  health  CHECK: 1,101 of 1,253 ticks (152 late: cores busy), 91.4 % of stacks\n"
	       "          complete (8.6 % stood in C code), 98.9 % of CPU time accounted for\n");

	/* CPU time that went nowhere is worse than both. */
	s.health[HEALTH_CPU_ACCOUNTED] = s.health[HEALTH_CPU_PROCESS] / 2;
	buf_clear(&line);
	assert_false(verdict_text(&s, &line));
	assert_ptr_equal(strstr(line.data, "CHECK: 50.0 % of CPU time accounted for, 1,101"), line.data);
}

static void test_each_check_can_fail(void **state)
{
	static const struct {
		enum health_id id;
		uint64_t value;
		const char *text;
	} v[] = {
		{ HEALTH_TICKS_DONE, 1000, "1,000 of 1,253 ticks (253 late: cores busy)" },
		{ HEALTH_STACKS_COMPLETE, 90000, "90.0 % of stacks complete" },
		{ HEALTH_CPU_ACCOUNTED, 6000 * MS, "70.4 % of CPU time accounted" },
		{ HEALTH_CPU_ACCOUNTED, 9500 * MS, "111.5 % of CPU time accounted" },
		{ HEALTH_OWN_CPU, 2000 * MS, "own CPU 16.1 %" },
		{ HEALTH_OWN_QUOTA, 500 * MS, "CHECK: 47.2 % of what its cgroup may use" },
		{ HEALTH_HELD_MEDIAN, 2 * MS, "threads held 2.0 ms" },
		{ HEALTH_NOT_ARRIVED, 600, "60.0 % of threads came late" },
		{ HEALTH_LABELS_UNKNOWN, 5000, "labels unknown for 5.0 % of stacks" },
		{ HEALTH_CALLS_WRONG, 1, "1 of 1,000 audited frames follow no call of their callee" },
		{ HEALTH_LOOK_STACKS_COMPLETE, 800, "80.0 % of on-CPU stacks complete" },
		{ HEALTH_AUDIT_MISMATCH, 3, "3 of 1,000 audited stacks had changed unnoticed" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		_cleanup_(buf_deinit) struct buf line;
		struct summary s = sample();

		s.attached = true;
		s.health[HEALTH_LOOKS] = s.health[HEALTH_AUDITED] = s.health[HEALTH_CALLS_AUDITED] = 1000;
		s.health[HEALTH_LOOK_STACKS] = s.health[HEALTH_LOOK_STACKS_COMPLETE] = 1000;
		buf_init(&line);
		assert_true(verdict_text(&s, &line));
		buf_clear(&line);
		s.health[v[i].id] = v[i].value;
		assert_false(verdict_text(&s, &line));
		assert_non_null(strstr(line.data, v[i].text));
		assert_int_equal(strncmp(line.data, "CHECK: ", 7), 0);
	}
}

static void test_rank_and_quota_are_said(void **state)
{
	_cleanup_(buf_deinit) struct buf line;
	struct summary s = sample();

	(void)state;
	s.attached = true;
	buf_init(&line);
	s.health[HEALTH_RANK] = 1;
	s.health[HEALTH_OWN_QUOTA] = 6200 * MS;
	assert_true(verdict_text(&s, &line));
	assert_non_null(strstr(line.data, "threads held 9 us (p99 180 us; no real time: nice -20)"));
	assert_non_null(strstr(line.data, "own CPU 1.9 %, 3.8 % of what its cgroup may use"));
	/* What is too much for a few goroutines is fair for very many. */
	s = sample();
	s.health[HEALTH_OWN_CPU] = 2400 * MS;
	buf_clear(&line);
	assert_false(verdict_text(&s, &line));
	s.health[HEALTH_G_READ] = 1253 * 10000;
	s.health[HEALTH_G_PASSES] = 1253;
	buf_clear(&line);
	assert_true(verdict_text(&s, &line));
}

/* More goroutines than a tick reads: said, never a fault. */
static void test_coverage(void **state)
{
	static const struct {
		uint64_t done, gated, passes, put_off;
		const char *text;	/* NULL: nothing is said */
	} v[] = {
		{ 1000, 0, 1000, 0, NULL },
		{ 1000, 900, 100, 0, NULL },
		{ 1000, 0, 100, 0, "each goroutine looked at every 10.0 ticks," },
		{ 1000, 500, 5, 0, "each goroutine looked at every 100.0 ticks," },
		{ 1000, 0, 0, 0, "not all goroutines were looked at," },
		{ 1000, 0, 1000, 1000, "at 101 Hz, 1.0 % of changed stacks put off," },
		{ 1000, 0, 500, 1000, "each goroutine looked at every 2.0 ticks, 1.0 % of changed stacks put off," },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		_cleanup_(buf_deinit) struct buf line;
		struct summary s = sample();

		s.health[HEALTH_TICKS_DUE] = s.health[HEALTH_TICKS_DONE] = v[i].done;
		s.health[HEALTH_TICKS_GATED] = v[i].gated;
		s.health[HEALTH_G_READ] = 1;
		s.health[HEALTH_G_PASSES] = v[i].passes;
		s.health[HEALTH_G_PUT_OFF] = v[i].put_off;
		s.health[HEALTH_LOOK_STACKS] = s.health[HEALTH_LOOK_STACKS_COMPLETE] = 5000;
		s.health[HEALTH_STACKS] = s.health[HEALTH_STACKS_COMPLETE] = 99000 + 5000;
		buf_init(&line);
		assert_true(verdict_text(&s, &line));
		if (v[i].text)
			assert_non_null(strstr(line.data, v[i].text));
		else
			assert_null(strstr(line.data, "looked at"));
	}
}

/* Too little CPU time is said but not judged; none at all is not said. */
static void test_little_cpu(void **state)
{
	_cleanup_(buf_deinit) struct buf line;
	struct summary s = sample();

	(void)state;
	buf_init(&line);
	s.health[HEALTH_CPU_PROCESS] = 100 * MS;
	s.health[HEALTH_CPU_ACCOUNTED] = 10 * MS;
	assert_true(verdict_text(&s, &line));
	assert_non_null(strstr(line.data, "10.0 % of CPU time accounted for"));
	buf_clear(&line);
	s.health[HEALTH_CPU_PROCESS] = 0;
	assert_true(verdict_text(&s, &line));
	assert_null(strstr(line.data, "CPU time accounted"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_said_and_good),
		cmocka_unit_test(test_check_worst_first),
		cmocka_unit_test(test_each_check_can_fail),
		cmocka_unit_test(test_rank_and_quota_are_said),
		cmocka_unit_test(test_coverage),
		cmocka_unit_test(test_little_cpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
