/*
 * What a target must not notice: signals, job control, waits that our stop breaks into, and the
 * sudden death of the tracer.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fake/child.h"
#include "fake/probe.h"

/* ---- signals ---- */

enum { SIGNALS = 2000 };

/* The child counts what its handlers got; queued signals may not be lost, nor their values. */
static struct child_shared *shared_of_child;

static void on_realtime(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	shared_of_child->value[0]++;
	shared_of_child->value[1] += (uint64_t)info->si_value.sival_int;
	if (info->si_code != SI_QUEUE || info->si_pid != getppid())
		shared_of_child->errors++;
}

static int child_with_handler(struct child_shared *s, void *arg)
{
	struct sigaction sa = { .sa_sigaction = on_realtime, .sa_flags = SA_SIGINFO };

	(void)arg;
	shared_of_child = s;
	sigaction(SIGRTMIN + 3, &sa, NULL);
	return child_spin(s, NULL);
}

static bool got_all(void *arg)
{
	return ((struct test_child *)arg)->shared->value[0] >= SIGNALS;
}

/* One every millisecond or so, and captures all the time. */
static void no_signal_is_lost(void **state)
{
	struct test_child c;
	struct probe p;
	struct capture *out[TRACER_POOL];
	uint64_t sum = 0;
	int met = 0, taken = 0;

	(void)state;
	child_start(&c, child_with_handler, NULL);
	probe_open(&p, c.pid);
	for (int i = 1; i <= SIGNALS; i++) {
		/* before the stop is asked for and after, in turn */
		if (i % 2)
			probe_ask_all(&p, 0);
		assert_int_equal(sigqueue(c.pid, SIGRTMIN + 3, (union sigval){ .sival_int = i }), 0);
		if (!(i % 2))
			probe_ask_all(&p, 0);
		sum += (uint64_t)i;
		test_sleep_us(1000);
		size_t n = tracer_collect(p.tracer, 0, out, TRACER_POOL);
		for (size_t k = 0; k < n; k++) {
			taken++;
			met += out[k]->signal == SIGRTMIN + 3;
			assert_false(out[k]->signal && out[k]->healed);
			tracer_recycle(p.tracer, out[k]);
		}
	}
	assert_true(tracer_drain(p.tracer, p.target, 2000000000));
	assert_true(child_until(got_all, &c));
	assert_int_equal(c.shared->value[0], SIGNALS);
	assert_int_equal(c.shared->value[1], sum);
	assert_int_equal(c.shared->errors, 0);
	assert_true(taken > SIGNALS / 50);
	print_message("%d signals, %d captures, %d of them in a signal's stop\n", SIGNALS, taken, met);
	probe_close(&p);
	assert_int_equal(child_stop(&c), 0);
}

static bool is_dead(void *arg)
{
	char state = child_state(*(pid_t *)arg);

	return !state || state == 'Z';
}

/* A signal without a handler does what it does. */
static void a_deadly_signal_kills(void **state)
{
	struct capture *out[TRACER_POOL];

	(void)state;
	for (int i = 0; i < 30; i++) {
		struct test_child c;
		struct probe p;
		child_start(&c, child_spin, NULL);
		probe_open(&p, c.pid);
		probe_ask_all(&p, 0);
		kill(c.pid, i % 2 ? SIGTERM : SIGSEGV);
		tracer_collect(p.tracer, system_clock.mono(&system_clock) + 3000000, out, TRACER_POOL);
		assert_true(child_until(is_dead, &c.pid));
		assert_true(tracer_drain(p.tracer, p.target, 2000000000));
		probe_close(&p);
		child_kill(&c);
	}
}

/* ---- job control ---- */

static bool is_stopped(void *arg)
{
	return child_state(*(pid_t *)arg) == 'T';
}

static void take_all(struct probe *p, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		struct capture *cap = probe_take(p, p->tids[0], 0);
		assert_int_equal(cap->status, CAPTURE_OK);
		tracer_recycle(p->tracer, cap);
	}
}

static void a_stopped_process_stays_stopped(void **state)
{
	struct test_child c;
	struct probe p;

	(void)state;
	child_start(&c, child_spin, NULL);
	probe_open(&p, c.pid);
	kill(c.pid, SIGSTOP);
	assert_true(child_until(is_stopped, &c.pid));
	take_all(&p, 20);
	assert_true(child_until(is_stopped, &c.pid));
	uint64_t before = c.shared->count;
	test_sleep_us(50000);
	assert_int_equal(c.shared->count, before);
	kill(c.pid, SIGCONT);
	assert_true(child_counts(&c));
	take_all(&p, 20);
	assert_true(child_counts(&c));
	probe_close(&p);
	assert_int_equal(child_stop(&c), 0);
}

/* Stops and continues that fall between our seize and our detach: the last one holds. */
static void the_last_word_holds(void **state)
{
	struct test_child c;
	struct probe p;
	struct capture *out[TRACER_POOL];

	(void)state;
	child_start(&c, child_spin, NULL);
	probe_open(&p, c.pid);
	for (int i = 0; i < 300; i++) {
		probe_ask_all(&p, 0);
		kill(c.pid, i % 3 == 1 ? SIGTSTP : SIGSTOP);
		if (i % 2)
			kill(c.pid, SIGCONT);
		size_t n = tracer_collect(p.tracer, system_clock.mono(&system_clock) + 3000000, out,
					  TRACER_POOL);
		while (n > 0)
			tracer_recycle(p.tracer, out[--n]);
		assert_true(tracer_drain(p.tracer, p.target, 2000000000));
		if (i % 2)
			assert_true(child_counts(&c));
		else
			assert_true(child_until(is_stopped, &c.pid));
		kill(c.pid, SIGCONT);
		assert_true(child_counts(&c));
	}
	probe_close(&p);
	assert_int_equal(child_stop(&c), 0);
}

/* ---- waits ---- */

/* Waits in short turns, so that many stops come just as a wait begins. Counts each EINTR. */
static int child_epoll(struct child_shared *s, void *arg)
{
	struct epoll_event ev;
	int ep = epoll_create1(EPOLL_CLOEXEC);

	(void)arg;
	s->ready = 1;
	while (!s->stop) {
		if (epoll_wait(ep, &ev, 1, 1) < 0)
			s->errors += errno == EINTR;
		s->count++;
	}
	return 0;
}

static int child_recv(struct child_shared *s, void *arg)
{
	const struct timeval timeout = { 0, 2000 };
	int sv[2];
	char byte;

	(void)arg;
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, sv) ||
	    setsockopt(sv[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)))
		return 1;
	s->ready = 1;
	while (!s->stop) {
		if (recv(sv[0], &byte, 1, 0) < 0)
			s->errors += errno == EINTR;
		s->count++;
	}
	return 0;
}

static void check_waits(int (*body)(struct child_shared *s, void *arg), int captures)
{
	struct test_child c;
	struct probe p;
	int late = 0, healed = 0;

	child_start(&c, body, NULL);
	probe_open(&p, c.pid);
	for (int i = 0; i < captures; i++) {
		struct capture *cap = probe_take(&p, c.pid, 0);
		assert_int_equal(cap->status, CAPTURE_OK);
		late += cap->late_blocked;
		healed += cap->healed;
		assert_false(cap->healed && !cap->late_blocked);
		tracer_recycle(p.tracer, cap);
	}
	assert_true(child_counts(&c));
	print_message("%d captures, %d late-blocked, %d healed, the child saw EINTR %d times\n", captures,
		      late, healed, (int)c.shared->errors);
	assert_true(healed > captures / 100);	/* else nothing was tried */
	assert_int_equal(c.shared->errors, 0);
	probe_close(&p);
	assert_int_equal(child_stop(&c), 0);
}

/* Waits that the kernel itself goes on with after a stop: they are ours to leave alone. */
static int child_waits(struct child_shared *s, void *arg)
{
	const struct timespec moment = { 0, 1000000 };
	uint32_t word = 0;

	(void)arg;
	s->ready = 1;
	while (!s->stop) {
		struct timeval tv = { 0, 1000 };

		if (poll(NULL, 0, 1) < 0)
			s->errors += errno == EINTR;
		if (nanosleep(&moment, NULL))
			s->errors += errno == EINTR;
		if (clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL))
			s->errors++;
		if (select(0, NULL, NULL, NULL, &tv) < 0)
			s->errors += errno == EINTR;
		if (ppoll(NULL, 0, &moment, NULL) < 0)
			s->errors += errno == EINTR;
		if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &moment, NULL, 0))
			s->errors += errno == EINTR;
		s->count++;
	}
	return 0;
}

static void other_waits_see_nothing(void **state)
{
	struct test_child c;
	struct probe p;

	(void)state;
	child_start(&c, child_waits, NULL);
	probe_open(&p, c.pid);
	take_all(&p, 2000);
	assert_true(child_counts(&c));
	assert_int_equal(c.shared->errors, 0);
	probe_close(&p);
	assert_int_equal(child_stop(&c), 0);
}

static void epoll_wait_sees_nothing(void **state)
{
	(void)state;
	check_waits(child_epoll, 2000);
}

static void recv_sees_nothing(void **state)
{
	(void)state;
	check_waits(child_recv, 1000);
}

static void on_alarm(int sig)
{
	(void)sig;
	shared_of_child->value[0]++;
}

/*
 * A wait that a signal interrupts must end with EINTR, captured or not. The signal is open during
 * the wait alone, so none can slip in before it.
 */
static int child_epoll_signalled(struct child_shared *s, void *arg)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	struct epoll_event ev;
	sigset_t blocked, open;
	int ep = epoll_create1(EPOLL_CLOEXEC);

	(void)arg;
	shared_of_child = s;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	sigprocmask(SIG_BLOCK, &blocked, &open);
	sigaction(SIGUSR1, &sa, NULL);
	s->ready = 1;
	while (!s->stop) {
		uint64_t before = s->value[0];
		int r = epoll_pwait(ep, &ev, 1, 30000, &open);
		bool handled = s->value[0] != before;

		/* EINTR without a handler's run would be our stop's, and the other way round a loss */
		if ((r < 0 && errno == EINTR) != handled)
			s->errors++;
		s->count += handled;
	}
	return 0;
}

static bool counted(void *arg)
{
	const struct test_child *c = ((void **)arg)[0];
	return c->shared->count >= *(uint64_t *)((void **)arg)[1];
}

static void a_signal_still_interrupts(void **state)
{
	struct test_child c;
	struct probe p;
	struct capture *out[TRACER_POOL];

	(void)state;
	child_start(&c, child_epoll_signalled, NULL);
	probe_open(&p, c.pid);
	for (uint64_t i = 1; i <= 300; i++) {
		probe_ask_all(&p, 0);
		kill(c.pid, SIGUSR1);
		size_t n = tracer_collect(p.tracer, system_clock.mono(&system_clock) + 3000000, out,
					  TRACER_POOL);
		while (n > 0)
			tracer_recycle(p.tracer, out[--n]);
		if (!child_until(counted, (void *[]){ &c, &i }))
			fail_msg("signal %d did not end the wait", (int)i);
	}
	assert_int_equal(c.shared->errors, 0);
	assert_true(tracer_drain(p.tracer, p.target, 2000000000));
	c.shared->stop = 1;
	kill(c.pid, SIGUSR1);
	probe_close(&p);
	assert_int_equal(child_stop(&c), 0);
}

/* ---- the tracer's death ---- */

static int tracing_body(struct child_shared *s, void *arg)
{
	struct probe p;
	struct capture *out[TRACER_POOL];

	probe_open(&p, *(pid_t *)arg);
	s->ready = 1;
	for (;;) {
		probe_ask_all(&p, 0);
		size_t n = tracer_collect(p.tracer, system_clock.mono(&system_clock) + 1000000, out,
					  TRACER_POOL);
		s->count += n;
		while (n > 0)
			tracer_recycle(p.tracer, out[--n]);
	}
	return 0;
}

static void a_killed_tracer_leaves_no_trace(void **state)
{
	struct test_child target;

	(void)state;
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	child_start(&target, child_spin, NULL);
	for (int i = 0; i < 40; i++) {
		struct test_child by;
		child_start(&by, tracing_body, &target.pid);
		if (!child_counts(&by)) {	/* Yama or a sandbox: another process may not trace */
			child_kill(&by);
			skip();
		}
		test_sleep_us((unsigned)(i * 97 % 1000));
		child_kill(&by);
		assert_int_equal(child_status_field(target.pid, "TracerPid:"), 0);
		assert_true(child_counts(&target));
	}
	assert_int_equal(child_stop(&target), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_signal_is_lost),
		cmocka_unit_test(a_deadly_signal_kills),
		cmocka_unit_test(a_stopped_process_stays_stopped),
		cmocka_unit_test(the_last_word_holds),
		cmocka_unit_test(other_waits_see_nothing),
		cmocka_unit_test(epoll_wait_sees_nothing),
		cmocka_unit_test(recv_sees_nothing),
		cmocka_unit_test(a_signal_still_interrupts),
		cmocka_unit_test(a_killed_tracer_leaves_no_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
