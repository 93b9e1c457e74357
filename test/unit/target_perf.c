/*
 * target_perf.c: perf events of a child that counts: it stands still while it is looked at, without ever being
 * traced or stopped; its samples are as many as its CPU time says. Skipped where perf events are refused.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "fake/child.h"
#include "target/perf.h"
#include "target/perf_impl.h"

enum {
	PERIOD_NS = 2 * NSEC_PER_MSEC,
	PAUSE_NS = 100 * NSEC_PER_USEC,	/* of the hook, between its two readings */
	LOOKS = 40,
};

static const struct perf_hints no_hints = { { 0 } };

/* Without the right to them, or where no thread stands still: nothing to test. */
static struct perf_ability ability_or_skip(void)
{
	struct perf_ability ability;
	_cleanup_error_ struct error *err = perf_try(&ability);

	if (err) {
		print_message("no perf events: %s\n", err->what);
		skip();
	}
	return ability;
}

static uint64_t now(void)
{
	return system_clock.mono(&system_clock);
}

/* What the child counts is in memory that both share. */
static void look_twice(void *ctx, const struct target *none, const struct capture_request *rq, struct capture *c)
{
	const struct child_shared *s = ctx;
	uint64_t begin = now(), first = s->count;

	(void)none;
	(void)rq;
	while (now() - begin < PAUSE_NS)
		;
	c->note[0] = s->count == first;
	c->note_len = 1;
}

static void look_away(void *ctx, const struct target *none, const struct capture_request *rq, struct capture *c)
{
	(void)ctx;
	(void)none;
	(void)rq;
	c->note_len = 0;
}

struct watched {
	struct test_child child;
	struct perf *perf;
	struct perf_watch *watch;
};

static void watch(struct watched *w, const struct perf_ability *ability)
{
	child_start(&w->child, child_spin, NULL);
	const struct perf_options o = {
		.pid = w->child.pid, .period_ns = PERIOD_NS, .ability = *ability, .held = look_twice,
		.late = look_away, .ctx = w->child.shared,
	};
	assert_null(perf_create(&o, &w->perf));
	assert_null(perf_watch_thread(w->perf, w->child.pid, &no_hints, &w->watch));
}

static void stands_still(void **state)
{
	struct perf_ability ability = ability_or_skip();
	struct watched w;
	struct perf_look *l;
	int held = 0, late = 0;
	uint64_t end = now() + 10ull * NSEC_PER_SEC;

	(void)state;
	if (!ability.held_ns)
		skip();
	watch(&w, &ability);
	while (held < LOOKS && now() < end) {
		test_sleep_us(1000);
		assert_int_equal(child_status_field(w.child.pid, "TracerPid:"), 0);
		assert_true(child_state(w.child.pid) == 'R');
		while (held < LOOKS && perf_collect(w.perf, &l, 1)) {
			assert_int_equal(l->capture.tid, w.child.pid);
			assert_true(l->t_sample <= l->capture.t_arrived && l->capture.t_arrived <= l->capture.t_resumed);
			assert_true(l->capture.regs.pc && l->capture.regs.sp);
			if (l->held) {
				assert_int_equal(l->capture.note_len, 1);
				assert_int_equal(l->capture.note[0], 1);
				assert_true(l->bound && l->ran_ns <= ability.held_ns);
				held++;
			} else {
				/* The registers' stack, from the sample. */
				assert_int_equal(l->capture.n_views, 1);
				assert_int_equal(l->capture.views[0].low, l->capture.regs.sp);
				late++;
			}
			perf_recycle(w.perf, l);
		}
	}
	print_message("%d held, %d not\n", held, late);
	assert_int_equal(held, LOOKS);
	assert_true(late <= held);
	perf_destroy(w.perf);
	child_stop(&w.child);
}

/* The hook says that the child moved if it is given one that does: the test above can fail. */
static void moves_when_not_held(void **state)
{
	struct test_child child;
	struct capture c = { 0 };
	int moved = 0;

	(void)state;
	child_start(&child, child_spin, NULL);
	for (int i = 0; i < 1000 && !moved; i++) {
		look_twice(child.shared, NULL, NULL, &c);
		moved += !c.note[0];
	}
	assert_int_not_equal(moved, 0);
	child_stop(&child);
}

static uint64_t cpu_of(pid_t pid)
{
	clockid_t clock;
	struct timespec ts;

	assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
	assert_int_equal(clock_gettime(clock, &ts), 0);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* Periods vary, but on average they are what was asked for; none is lost unsaid. */
static void samples_are_cpu_time(void **state)
{
	struct perf_ability ability = ability_or_skip();
	struct watched w;
	struct perf_look *l;
	uint64_t n = 0, before, spent = 0;

	(void)state;
	watch(&w, &ability);
	before = cpu_of(w.child.pid);
	while (spent < NSEC_PER_SEC / 2) {
		test_sleep_us(2000);
		for (; perf_collect(w.perf, &l, 1); n++)
			perf_recycle(w.perf, l);
		spent = cpu_of(w.child.pid) - before;
	}
	n += perf_counts(w.perf).lost;
	print_message("%llu samples of %llu ms\n", (unsigned long long)n, (unsigned long long)(spent / NSEC_PER_MSEC));
	assert_true(n * PERIOD_NS > spent * 8 / 10 && n * PERIOD_NS < spent * 12 / 10);
	perf_destroy(w.perf);
	child_stop(&w.child);
}

/* Looks that nobody takes fill the pool: what comes then is lost and said, and all of it comes back. */
static void a_full_pool_is_told(void **state)
{
	struct perf_ability ability = ability_or_skip();
	struct watched w;
	struct perf_look *l;
	uint64_t lost = 0, end = now() + 20ull * NSEC_PER_SEC;
	size_t n = 0;

	(void)state;
	watch(&w, &ability);
	while (!lost && now() < end) {
		test_sleep_us(10000);
		lost = perf_counts(w.perf).lost;
	}
	assert_true(lost > 0);
	for (; perf_collect(w.perf, &l, 1); n++)
		perf_recycle(w.perf, l);
	assert_true(n >= 64);
	while (!perf_collect(w.perf, &l, 1) && now() < end)
		test_sleep_us(1000);
	perf_recycle(w.perf, l);
	perf_destroy(w.perf);
	child_stop(&w.child);
}

/* Watching begins and ends while samples come; a thread that ends leaves nothing that spins or hangs. */
static void comes_and_goes(void **state)
{
	struct perf_ability ability = ability_or_skip();
	struct perf_look *l;
	struct watched w;

	(void)state;
	watch(&w, &ability);
	for (int i = 0; i < 50; i++) {
		perf_unwatch(w.perf, w.watch);
		assert_null(perf_watch_thread(w.perf, w.child.pid, &no_hints, &w.watch));
		test_sleep_us(3000);
		while (perf_collect(w.perf, &l, 1))
			perf_recycle(w.perf, l);
	}
	pid_t pid = w.child.pid;
	child_stop(&w.child);
	uint64_t before = cpu_of(getpid());
	test_sleep_us(200 * 1000);
	assert_true(cpu_of(getpid()) - before < 100 * NSEC_PER_MSEC);
	perf_unwatch(w.perf, w.watch);
	assert_ptr_equal(perf_watch_thread(w.perf, pid, &no_hints, &w.watch), &err_gone);
	perf_destroy(w.perf);
}

/* No descriptors left: said, with what helps; what is watched already goes on. */
static void a_limit_is_told(void **state)
{
	struct perf_ability ability = ability_or_skip();
	struct rlimit old, low;
	struct perf_watch *second;
	struct perf_look *l;
	struct watched w;

	(void)state;
	watch(&w, &ability);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = (struct rlimit){ .rlim_cur = 3, .rlim_max = old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	_cleanup_error_ struct error *err = perf_watch_thread(w.perf, getpid(), &no_hints, &second);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_non_null(err);
	assert_int_equal(err->kind, ERROR_FACILITY);
	assert_string_equal(err->todo, "ulimit -n 65536");
	for (int i = 0; i < 5000 && !perf_collect(w.perf, &l, 1); i++)
		test_sleep_us(1000);
	assert_int_equal(l->capture.tid, w.child.pid);
	perf_destroy(w.perf);
	child_stop(&w.child);
}

static void refusals_have_words(void **state)
{
	static const struct {
		int errnum;
		enum error_kind kind;
		bool todo;
	} v[] = {
		{ EACCES, ERROR_DENIED, true }, { EPERM, ERROR_DENIED, true }, { EMFILE, ERROR_FACILITY, true },
		{ ENOMEM, ERROR_FACILITY, true }, { ENOSYS, ERROR_FACILITY, false }, { ENOENT, ERROR_FACILITY, false },
		{ EINVAL, ERROR_FACILITY, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(*v); i++) {
		_cleanup_error_ struct error *err = perf_event_error(v[i].errnum);

		assert_int_equal(err->kind, v[i].kind);
		assert_true(strstr(err->what, "perf event"));
		assert_int_equal(err->todo != NULL, v[i].todo);
		assert_int_equal(err->why != NULL, v[i].kind == ERROR_DENIED);
	}
	assert_ptr_equal(perf_event_error(ESRCH), &err_gone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stands_still),
		cmocka_unit_test(moves_when_not_held),
		cmocka_unit_test(samples_are_cpu_time),
		cmocka_unit_test(a_full_pool_is_told),
		cmocka_unit_test(comes_and_goes),
		cmocka_unit_test(a_limit_is_told),
		cmocka_unit_test(refusals_have_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
