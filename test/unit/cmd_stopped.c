/*
 * Was goprof stopped, or is it only slow? SIGCONT tells, also of a stop by SIGSTOP, which nobody can catch.
 * And when does a window end?
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cmd/recording.h"
#include "cmd/signals.h"

static uint64_t s(unsigned seconds)
{
	return seconds * (uint64_t)NSEC_PER_SEC;
}

static void slow_is_not_stopped(void **state)
{
	(void)state;
	assert_false(recording_was_stopped(s(3), s(3), false));
	assert_false(recording_was_stopped(s(20), s(29), false));
	assert_true(recording_was_stopped(s(3), s(3), true));
	/* SIGCONT is sent to who is not stopped, too. */
	assert_false(recording_was_stopped(s(1), s(20), true));
}

/* Frozen by a cgroup, say: there is no signal, but a window that nobody would take is no use. */
static void no_window_could_hold_it(void **state)
{
	(void)state;
	assert_true(recording_was_stopped(s(3), s(31), false));
	assert_true(recording_was_stopped(s(31), 0, false));
	assert_false(recording_was_stopped(s(1), s(31), false));
}

/* What a child says: 0 all as it should be, else the number of the complaint. */
static int stops_itself(enum signals_for what)
{
	struct signals_news news;
	struct signals sig;

	if (signals_open(what, &sig))
		return 1;
	signals_take(&sig, 0, &news);
	if (news.continued || signals_continued())
		return 2;
	kill(getpid(), SIGSTOP);
	if (!signals_continued())
		return 3;
	signals_take(&sig, 0, &news);
	return !news.continued ? 4 : signals_continued() ? 5 : 0;
}

static void a_stop_is_known_by_its_end(void **state)
{
	static const enum signals_for v[] = { SIGNALS_RUN, SIGNALS_ATTACH };

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(*v); i++) {
		int status;

		pid_t pid = fork();
		if (pid == 0)
			_exit(stops_itself(v[i]));
		assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
		assert_true(WIFSTOPPED(status));
		kill(pid, SIGCONT);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

static enum window_fate fate(unsigned int ms, bool full, bool wanted, bool room)
{
	const struct window_facts f = { ms * (uint64_t)NSEC_PER_MSEC, full, wanted, room };

	return recording_window_fate(&f);
}

static void when_a_window_ends(void **state)
{
	(void)state;
	assert_int_equal(fate(29499, false, false, true), WINDOW_GOES_ON);
	assert_int_equal(fate(29500, false, false, true), WINDOW_ENDS);
	/* The consumer is behind: a little longer, but not as long as the service would refuse it. */
	assert_int_equal(fate(29500, false, false, false), WINDOW_GOES_ON);
	assert_int_equal(fate(29799, false, false, false), WINDOW_GOES_ON);
	assert_int_equal(fate(29800, false, false, false), WINDOW_ENDS_ANYWAY);
	/* Asked for: at once, or as soon as there is room. */
	assert_int_equal(fate(10, false, true, true), WINDOW_ENDS);
	assert_int_equal(fate(10, false, true, false), WINDOW_GOES_ON);
	/* Full: it may not become more, with room or without. */
	assert_int_equal(fate(999, true, false, true), WINDOW_GOES_ON);
	assert_int_equal(fate(1000, true, false, true), WINDOW_ENDS);
	assert_int_equal(fate(1000, true, false, false), WINDOW_ENDS_ANYWAY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_is_not_stopped),
		cmocka_unit_test(no_window_could_hold_it),
		cmocka_unit_test(a_stop_is_known_by_its_end),
		cmocka_unit_test(when_a_window_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
