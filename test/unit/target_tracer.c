/*
 * Captures of the test's own children: what comes back, what is refused, what is dropped.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fake/child.h"
#include "fake/probe.h"

/* A function whose address range the test knows: it spins with a mark on its stack. */
static __attribute__((noinline)) void spin_marked(struct child_shared *s, uint64_t mark)
{
	volatile uint64_t on_stack[8] = { mark, mark, mark, mark };

	s->value[0] = (uintptr_t)&on_stack[0];
	s->ready = 1;
	while (!s->stop)
		s->count += on_stack[1] == mark;
}

enum { MARK = 0x5eed };

static int child_marked(struct child_shared *s, void *arg)
{
	(void)arg;
	spin_marked(s, MARK);
	return 0;
}

static void a_running_thread_is_seen(void **state)
{
	struct test_child c;
	struct probe p;
	struct capture *cap;

	(void)state;
	child_start(&c, child_marked, NULL);
	probe_open(&p, c.pid);
	for (int i = 0; i < 200; i++) {
		cap = probe_take(&p, c.pid, 77);
		assert_int_equal(cap->status, CAPTURE_OK);
		assert_int_equal(cap->tid, c.pid);
		assert_int_equal(cap->cookie, 77);
		/* somewhere in the loop's code, or in what it calls; the mark lies in the view */
		uint64_t mark = 0;
		gaddr_t at = c.shared->value[0];
		assert_true(at >= cap->views[0].low && at + 8 <= cap->views[0].low + cap->views[0].len);
		memcpy(&mark, cap->views[0].bytes + (at - cap->views[0].low), sizeof(mark));
		assert_int_equal(mark, MARK);
		assert_int_equal(cap->regs.sp, cap->views[0].low);
		assert_int_equal(cap->regs.syscall_nr, -1);
		assert_int_equal(cap->signal, 0);
		assert_false(cap->late_blocked);
		assert_true(cap->held.cpu_ns >= cap->before.cpu_ns);
		assert_true(cap->t_resumed > cap->t_tick);
		assert_true(cap->t_arrived >= cap->t_tick && cap->t_resumed >= cap->t_arrived);
		tracer_recycle(p.tracer, cap);
	}
	assert_false(tracer_owes(p.tracer, c.pid));
	assert_int_equal(child_status_field(c.pid, "TracerPid:"), 0);
	assert_true(child_counts(&c));
	probe_close(&p);
	assert_int_equal(child_stop(&c), 0);
}

static void *spin_thread(void *arg)
{
	struct child_shared *s = arg;

	while (!s->stop)
		s->count++;
	return NULL;
}

static int child_of_13(struct child_shared *s, void *arg)
{
	pthread_t th;

	(void)arg;
	for (int i = 0; i < 12; i++)
		pthread_create(&th, NULL, spin_thread, s);
	s->ready = 1;
	spin_thread(s);
	return 0;
}

static void many_threads_at_once(void **state)
{
	struct test_child c;
	struct probe p;
	struct capture *out[TRACER_POOL];
	int seen = 0;

	(void)state;
	child_start(&c, child_of_13, NULL);
	probe_open(&p, c.pid);
	assert_int_equal(p.n, 13);
	for (int i = 0; i < 20; i++) {
		probe_ask_all(&p, i);
		for (int tries = 0; tries < 1000 && probe_owes(&p); tries++)
			test_sleep_us(1000);
		assert_false(probe_owes(&p));
		size_t n = tracer_collect(p.tracer, 0, out, TRACER_POOL);
		assert_int_equal(n, 13);
		for (size_t k = 0; k < n; k++) {
			assert_int_equal(out[k]->cookie, i);
			seen += out[k]->status == CAPTURE_OK;
			tracer_recycle(p.tracer, out[k]);
		}
	}
	assert_int_equal(seen, 20 * 13);
	probe_close(&p);
	assert_int_equal(child_stop(&c), 0);
}

/* Each thread once, the pool's size at most, and not again while it owes. */
static void the_pool_bounds_requests(void **state)
{
	struct test_child c;
	struct probe p;
	struct capture *out[TRACER_POOL], *one;

	(void)state;
	child_start(&c, child_spin, NULL);
	probe_open(&p, c.pid);
	for (int i = 0; i < TRACER_POOL; i++) {
		probe_ask_all(&p, i);
		for (int tries = 0; tries < 1000 && probe_owes(&p); tries++)
			test_sleep_us(1000);
	}
	assert_int_equal(probe_ask_all(&p, 99), 0);
	assert_int_equal(tracer_collect(p.tracer, 0, &one, 1), 1);
	tracer_recycle(p.tracer, one);
	assert_int_equal(probe_ask_all(&p, 100), 1);
	struct capture_request twice[2] = { { .task = p.tasks[0] }, { .task = p.tasks[0] } };
	for (int tries = 0; tries < 1000 && probe_owes(&p); tries++)
		test_sleep_us(1000);
	size_t n = tracer_collect(p.tracer, 0, out, TRACER_POOL);
	assert_int_equal(n, TRACER_POOL);
	for (size_t i = 0; i < n; i++)
		tracer_recycle(p.tracer, out[i]);
	assert_int_equal(tracer_capture(p.tracer, p.target, twice, 2, 1000000, probe_hook, NULL), 1);
	assert_true(tracer_drain(p.tracer, p.target, 2000000000));
	assert_int_equal(tracer_capture(p.tracer, p.target, twice, 1, 1000000, probe_hook, NULL), 1);
	probe_close(&p);
	child_stop(&c);
}

/* What is to be warmed up may be gone, or more than there is room for: the look is the same. */
static void a_warm_up_changes_nothing(void **state)
{
	static const struct { gaddr_t addr; uint32_t len; } soon[][2] = {
		{ { 8, 64 }, { 0, 0 } }, { { 8, CAPTURE_NOTE }, { 8, 64 } }, { { 8, UINT32_MAX }, { 8, 64 } },
	};
	struct test_child c;
	struct probe p;
	struct capture *got;

	(void)state;
	child_start(&c, child_spin, NULL);
	probe_open(&p, c.pid);
	for (size_t i = 0; i < sizeof(soon) / sizeof(*soon); i++) {
		struct capture_request rq = { .task = p.tasks[0] };

		for (size_t k = 0; k < 2; k++) {
			rq.soon[k].addr = soon[i][k].addr;
			rq.soon[k].len = soon[i][k].len;
		}
		assert_int_equal(tracer_capture(p.tracer, p.target, &rq, 1, 1000000000, probe_hook, NULL), 1);
		for (int tries = 0; tries < 1000 && !tracer_collect(p.tracer, 0, &got, 1); tries++) {
			assert_true(tries < 999);
			test_sleep_us(1000);
		}
		assert_int_equal(got->status, CAPTURE_OK);
		assert_int_equal(got->n_views, 1);
		tracer_recycle(p.tracer, got);
	}
	probe_close(&p);
	child_stop(&c);
}

static void an_ended_thread_is_gone(void **state)
{
	struct test_child c;
	struct probe p;

	(void)state;
	child_start(&c, child_of_13, NULL);
	probe_open(&p, c.pid);
	kill(c.pid, SIGKILL);
	for (int tries = 0; tries < 1000 && child_state(c.pid) != 'Z'; tries++)
		test_sleep_us(1000);
	struct capture *cap = probe_take(&p, p.tids[12], 1);
	assert_int_equal(cap->status, CAPTURE_GONE);
	tracer_recycle(p.tracer, cap);
	cap = probe_take(&p, c.pid, 1);	/* the main thread: a zombie, not yet collected */
	assert_int_equal(cap->status, CAPTURE_GONE);
	tracer_recycle(p.tracer, cap);
	probe_close(&p);
	child_kill(&c);
}

static void a_traced_thread_is_busy(void **state)
{
	struct test_child c;
	struct probe p;
	char byte;
	int up[2], down[2];

	(void)state;
	child_start(&c, child_spin, NULL);
	probe_open(&p, c.pid);
	assert_int_equal(pipe(up) | pipe(down), 0);
	/* a thread of ours is another tracer as well as another process is; that needs no privilege */
	pid_t other = fork();
	if (other == 0) {
		byte = ptrace(PTRACE_SEIZE, c.pid, NULL, NULL) ? 'n' : 'y';
		_exit(write(up[1], &byte, 1) != 1 || read(down[0], &byte, 1) != 1);
	}
	assert_int_equal(read(up[0], &byte, 1), 1);
	struct capture *cap = probe_take(&p, c.pid, 1);
	assert_int_equal(cap->status, byte == 'y' ? CAPTURE_BUSY : CAPTURE_OK);
	tracer_recycle(p.tracer, cap);
	assert_int_equal(write(down[1], "q", 1), 1);
	waitpid(other, NULL, 0);
	cap = probe_take(&p, c.pid, 1);
	assert_int_equal(cap->status, CAPTURE_OK);
	tracer_recycle(p.tracer, cap);
	for (int i = 0; i < 2; i++) {
		close(up[i]);
		close(down[i]);
	}
	probe_close(&p);
	child_stop(&c);
}

/* Spins; makes itself unreadable when it is told to. */
static int child_hides(struct child_shared *s, void *arg)
{
	(void)arg;
	s->ready = 1;
	while (!s->stop) {
		s->count++;
		if (s->value[0] && !s->value[1]) {
			prctl(PR_SET_DUMPABLE, 0);
			s->value[1] = 1;
		}
	}
	return 0;
}

/* In a child without privilege of its own: looks at a process that is no longer its user's. */
static int denied_body(struct child_shared *s, void *arg)
{
	struct probe p;
	struct test_child c;

	(void)arg;
	if (setgid(65534) || setuid(65534))
		return 77;
	prctl(PR_SET_DUMPABLE, 1);	/* else its own child would be closed to it, too */
	child_start(&c, child_hides, NULL);
	probe_open(&p, c.pid);
	struct capture *before = probe_take(&p, c.pid, 1);
	int first = before->status;
	tracer_recycle(p.tracer, before);
	c.shared->value[0] = 1;		/* now it makes itself unreadable */
	for (int i = 0; i < 10000 && c.shared->value[1] != 1; i++)
		test_sleep_us(1000);
	struct capture *after = probe_take(&p, c.pid, 1);
	s->value[0] = after->status;
	tracer_recycle(p.tracer, after);
	probe_close(&p);
	child_kill(&c);
	s->ready = 1;
	return first == CAPTURE_OK ? 0 : 1;
}

/* Not permitted is not the same as held by another. */
static void a_thread_that_hides_is_denied(void **state)
{
	struct test_child c;

	(void)state;
	if (getuid())
		skip();		/* a user's own rights end in the same way, but cannot be taken by a child alone */
	child_start(&c, denied_body, NULL);
	int answer = (int)c.shared->value[0], status = child_stop(&c);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(answer, CAPTURE_DENIED);
}

/* Dropped before their stop or after it. */
static void dropped_requests_leave_no_trace(void **state)
{
	struct test_child c;
	struct probe p;

	(void)state;
	child_start(&c, child_spin, NULL);
	probe_open(&p, c.pid);
	for (int i = 0; i < 300; i++) {
		probe_ask_all(&p, i);
		assert_true(tracer_drain(p.tracer, p.target, 2000000000));
		assert_false(probe_owes(&p));
	}
	assert_int_equal(child_status_field(c.pid, "TracerPid:"), 0);
	assert_true(child_counts(&c));
	probe_close(&p);
	child_stop(&c);
}

static void *short_thread(void *arg)
{
	struct child_shared *s = arg;

	for (int i = 0; i < 20000; i++)
		s->count++;
	return NULL;
}

static void *exec_thread(void *arg)
{
	struct child_shared *s = arg;

	while (s->count < 50000000 && !s->stop)
		s->count++;
	execl("/bin/sleep", "sleep", "100", (char *)NULL);
	return NULL;
}

static int child_churn(struct child_shared *s, void *arg)
{
	pthread_t th;

	(void)arg;
	s->ready = 1;
	while (!s->stop) {
		if (pthread_create(&th, NULL, short_thread, s))
			return 1;
		pthread_join(th, NULL);
	}
	return 0;
}

/* Threads that end while they are seized: none may stay a zombie. */
static void dying_threads_leave_nothing_behind(void **state)
{
	struct test_child c;
	struct probe p;
	struct capture *out[TRACER_POOL];
	int ok = 0, gone = 0;

	(void)state;
	child_start(&c, child_churn, NULL);
	for (int i = 0; i < 200; i++) {
		probe_open(&p, c.pid);
		probe_ask_all(&p, i);
		for (int tries = 0; tries < 2000 && probe_owes(&p); tries++)
			test_sleep_us(1000);
		assert_false(probe_owes(&p));
		size_t n = tracer_collect(p.tracer, 0, out, TRACER_POOL);
		for (size_t k = 0; k < n; k++) {
			ok += out[k]->status == CAPTURE_OK;
			gone += out[k]->status == CAPTURE_GONE;
			tracer_recycle(p.tracer, out[k]);
		}
		probe_close(&p);
	}
	assert_true(ok > 0);
	assert_int_equal(child_stop(&c), 0);
	print_message("%d captured, %d gone\n", ok, gone);
}

static int child_that_execs(struct child_shared *s, void *arg)
{
	pthread_t th;

	(void)arg;
	for (int i = 0; i < 3; i++)
		pthread_create(&th, NULL, spin_thread, s);
	pthread_create(&th, NULL, exec_thread, s);
	s->ready = 1;
	while (!s->stop)
		s->count++;
	pause();
	return 0;
}

/*
 * One thread calls exec while it and the others are under capture: exec waits until somebody has
 * waited for each seized thread, SEIZE waits for exec, and the seizure moves to another number.
 */
static void exec_under_capture(void **state)
{
	struct capture *out[TRACER_POOL];

	(void)state;
	for (int round = 0; round < 10; round++) {
		struct test_child c;
		struct probe p;
		child_start(&c, child_that_execs, NULL);
		probe_open(&p, c.pid);
		uint64_t end = system_clock.mono(&system_clock) + 5000000000ull;
		for (int i = 0; target_life(p.target) == TARGET_ALIVE; i++) {
			assert_true(system_clock.mono(&system_clock) < end);
			probe_ask_all(&p, i);
			if (i == 20 + round)
				c.shared->stop = 1;
			size_t n = tracer_collect(p.tracer, system_clock.mono(&system_clock) + 3000000, out,
						  TRACER_POOL);
			while (n > 0)
				tracer_recycle(p.tracer, out[--n]);
		}
		assert_int_equal(target_life(p.target), TARGET_EXECED);
		assert_true(tracer_drain(p.tracer, p.target, 2000000000));
		/* the new program runs, untraced: it comes to its sleep */
		for (int tries = 0; tries < 2000 && child_state(c.pid) != 'S'; tries++)
			test_sleep_us(1000);
		assert_int_equal(child_state(c.pid), 'S');
		assert_int_equal(child_status_field(c.pid, "TracerPid:"), 0);
		probe_close(&p);
		child_kill(&c);
	}
}

static void the_tracer_says_how_it_runs(void **state)
{
	struct tracer *tr;
	int nice_before = getpriority(PRIO_PROCESS, 0);

	(void)state;
	assert_null(tracer_create(&tr));
	assert_in_range(tracer_rank(tr), TRACER_ORDINARY, TRACER_REAL_TIME);
	assert_string_equal(tracer_rank_name(TRACER_REAL_TIME), "SCHED_FIFO");
	assert_int_equal(getpriority(PRIO_PROCESS, 0), nice_before);	/* its thread alone */
	tracer_destroy(tr);
	tracer_destroy(NULL);
}

/* CPU time of an idle tracer: none worth a name. */
static void an_idle_tracer_sleeps(void **state)
{
	struct tracer *tr;
	struct rusage a, b;

	(void)state;
	assert_null(tracer_create(&tr));
	getrusage(RUSAGE_SELF, &a);
	test_sleep_us(300000);
	getrusage(RUSAGE_SELF, &b);
	long us = (b.ru_utime.tv_sec - a.ru_utime.tv_sec + b.ru_stime.tv_sec - a.ru_stime.tv_sec) * 1000000 +
		  b.ru_utime.tv_usec - a.ru_utime.tv_usec + b.ru_stime.tv_usec - a.ru_stime.tv_usec;
	assert_true(us < 10000);
	tracer_destroy(tr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_running_thread_is_seen),
		cmocka_unit_test(many_threads_at_once),
		cmocka_unit_test(the_pool_bounds_requests),
		cmocka_unit_test(a_warm_up_changes_nothing),
		cmocka_unit_test(an_ended_thread_is_gone),
		cmocka_unit_test(a_traced_thread_is_busy),
		cmocka_unit_test(a_thread_that_hides_is_denied),
		cmocka_unit_test(dropped_requests_leave_no_trace),
		cmocka_unit_test(dying_threads_leave_nothing_behind),
		cmocka_unit_test(exec_under_capture),
		cmocka_unit_test(the_tracer_says_how_it_runs),
		cmocka_unit_test(an_idle_tracer_sleeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
