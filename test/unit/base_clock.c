/*
 * base_clock.c: the machine's clocks agree with the kernel's, sleeping ends at its deadline or at a
 * signal, and an anchor prefers the narrowest of its brackets (told by a clock of the test's own).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <cmocka.h>

#include "base/clock.h"

static uint64_t kernel_nsec(clockid_t id)
{
	struct timespec ts;

	assert_int_equal(clock_gettime(id, &ts), 0);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static void check_between(uint64_t (*read)(const struct clock *), clockid_t id)
{
	uint64_t before = kernel_nsec(id), got = read(&system_clock), after = kernel_nsec(id);

	assert_true(before <= got && got <= after);
}

static void test_system_clocks(void **state)
{
	struct clock_anchor a = clock_anchor(&system_clock);
	uint64_t mono = system_clock.mono(&system_clock);

	(void)state;
	check_between(system_clock.mono, CLOCK_MONOTONIC);
	check_between(system_clock.real, CLOCK_REALTIME);
	check_between(system_clock.boot, CLOCK_BOOTTIME);
	assert_true(a.mono <= mono && mono - a.mono < NSEC_PER_SEC);
	assert_true(a.boot + NSEC_PER_MSEC >= a.mono);
}

static void test_sleep_to_deadline(void **state)
{
	uint64_t deadline = system_clock.mono(&system_clock) + 3 * NSEC_PER_MSEC;

	(void)state;
	assert_true(system_clock.sleep_until(&system_clock, deadline));
	assert_true(system_clock.mono(&system_clock) >= deadline);
	assert_true(system_clock.sleep_until(&system_clock, 0));	/* long past */
}

static void on_alarm(int sig)
{
	(void)sig;
}

static void test_signal_wakes(void **state)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	struct itimerval tv = { .it_value = { .tv_usec = 20000 } };
	uint64_t deadline = system_clock.mono(&system_clock) + 20ull * NSEC_PER_SEC;

	(void)state;
	assert_int_equal(sigaction(SIGALRM, &sa, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &tv, NULL), 0);
	assert_false(system_clock.sleep_until(&system_clock, deadline));
	assert_true(system_clock.mono(&system_clock) < deadline);
}

/* A clock whose readings of mono are a list: the second bracket is the narrow one. */
struct scripted {
	const uint64_t *mono;
	unsigned next, real;
};

static uint64_t scripted_mono(const struct clock *c)
{
	struct scripted *s = c->ctx;

	return s->mono[s->next++];
}

static uint64_t scripted_real(const struct clock *c)
{
	struct scripted *s = c->ctx;

	return 5000 + s->real++;
}

static uint64_t scripted_boot(const struct clock *c)
{
	struct scripted *s = c->ctx;

	return 9000 + s->real;
}

static void test_anchor_takes_the_narrowest(void **state)
{
	static const uint64_t mono[] = { 0, 90000, 100000, 110000, 200000, 280000, 300000, 390000 };
	struct scripted s = { .mono = mono };
	const struct clock c = {
		.mono = scripted_mono, .real = scripted_real, .boot = scripted_boot, .ctx = &s,
	};
	struct clock_anchor a = clock_anchor(&c);

	(void)state;
	assert_int_equal(a.mono, 105000);
	assert_int_equal(a.real, 5001);
	assert_int_equal(a.boot, 9002);
	assert_int_equal(s.next, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_system_clocks),
		cmocka_unit_test(test_sleep_to_deadline),
		cmocka_unit_test(test_signal_wakes),
		cmocka_unit_test(test_anchor_takes_the_narrowest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
