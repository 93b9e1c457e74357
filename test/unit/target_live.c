/*
 * A live target: the test's own children. Tracing one's own child needs no privilege.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake/child.h"
#include "target/live.h"

enum { PAGE = 4096, SPANS = 3000 };

static struct target *open_target(pid_t pid)
{
	struct target *t = NULL;
	struct error *err = target_open_live(pid, &t);

	if (err)
		fail_msg("%s: %s", err->what, err->why ? err->why : "");
	return t;
}

/* Three pages of which the middle one is taken away; known words elsewhere. */
static int child_with_hole(struct child_shared *s, void *arg)
{
	char *p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)arg;
	memset(p, 'a', PAGE);
	memset(p + 2 * PAGE, 'c', PAGE);
	munmap(p + PAGE, PAGE);
	s->value[0] = (uintptr_t)p;
	s->ready = 1;
	while (!s->stop)
		test_sleep_us(1000);
	return 0;
}

static void check_hole(const struct target *t, gaddr_t p)
{
	char a[100], b[100], c[100], d[100];
	struct span v[] = { { p + PAGE - 40, a, 100, 1 }, { p + PAGE + 8, b, 100, 1 },
			    { p + 2 * PAGE, c, 100, 1 }, { 0, d, 0, 1 }, { p, d, 100, 1 } };

	assert_null(target_read_v(t, v, 5));
	assert_int_equal(v[0].done, 40);
	assert_int_equal(a[39], 'a');
	assert_int_equal(v[1].done, 0);
	assert_int_equal(v[2].done, 100);
	assert_int_equal(c[99], 'c');
	assert_int_equal(v[3].done, 0);
	assert_int_equal(v[4].done, 100);
	assert_int_equal(d[0], 'a');
	assert_ptr_equal(target_read(t, p + PAGE - 40, a, 100), &err_fault);
}

static void spans_are_cut_at_holes(void **state)
{
	struct test_child c;

	(void)state;
	child_start(&c, child_with_hole, NULL);
	struct target *t = open_target(c.pid);
	check_hole(t, c.shared->value[0]);
	assert_false(((struct live *)t)->mem_only);
	((struct live *)t)->mem_only = true;	/* the same through /proc/PID/mem */
	check_hole(t, c.shared->value[0]);
	target_close(t);
	assert_int_equal(child_stop(&c), 0);
}

static void many_spans_take_several_calls(void **state)
{
	struct test_child c;
	static struct span v[SPANS];
	static uint16_t got[SPANS];

	(void)state;
	child_start(&c, child_with_hole, NULL);
	struct target *t = open_target(c.pid);
	gaddr_t p = c.shared->value[0];
	/* every third one lies in the hole */
	for (size_t i = 0; i < SPANS; i++)
		v[i] = (struct span){ p + (i % 3) * PAGE + i, &got[i], 2, 77 };
	assert_null(target_read_v(t, v, SPANS));
	for (size_t i = 0; i < SPANS; i++) {
		size_t expect = i % 3 == 1 ? 0 : 2;
		if (v[i].done != expect)
			fail_msg("span %zu: %zu bytes", i, v[i].done);
		if (expect)
			assert_int_equal(got[i], i % 3 ? 0x6363 : 0x6161);
	}
	target_close(t);
	child_stop(&c);
}

static int child_that_execs(struct child_shared *s, void *arg)
{
	(void)arg;
	s->ready = 1;
	while (!s->stop)
		test_sleep_us(1000);
	execl("/bin/sleep", "sleep", "100", (char *)NULL);
	return 1;
}

static bool life_has_changed(void *arg)
{
	return target_life(arg) != TARGET_ALIVE;
}

static void exec_is_told_from_exit(void **state)
{
	struct test_child c;
	uint64_t start, cpu;

	(void)state;
	child_start(&c, child_that_execs, NULL);
	struct target *t = open_target(c.pid);
	start = target_start_time(t);
	assert_true(start > 0);
	assert_int_equal(target_life(t), TARGET_ALIVE);
	assert_true(target_cpu_ns(t, &cpu));
	c.shared->stop = 1;
	assert_true(child_until(life_has_changed, t));
	assert_int_equal(target_life(t), TARGET_EXECED);
	struct target *anew = open_target(c.pid);
	assert_int_equal(target_start_time(anew), start);
	assert_int_equal(target_life(anew), TARGET_ALIVE);
	assert_non_null(strstr(target_exe_path(anew), "sleep"));
	kill(c.pid, SIGKILL);
	assert_true(child_until(life_has_changed, anew));
	assert_int_equal(target_life(anew), TARGET_ENDED);	/* a zombie, or on its way to one */
	assert_int_equal(target_life(t), TARGET_ENDED);
	pid_t pid = c.pid;
	child_kill(&c);
	assert_int_equal(target_life(anew), TARGET_ENDED);
	uint64_t word;
	assert_ptr_equal(target_read_u64(anew, ((struct live *)anew)->life_addr, &word), &err_gone);
	struct mappings m;
	assert_ptr_equal(target_mappings(anew, &m), &err_gone);
	assert_false(target_cpu_ns(anew, &cpu));
	target_close(anew);
	target_close(t);
	assert_int_equal(kill(pid, 0), -1);
}

static int child_that_unmaps(struct child_shared *s, void *arg)
{
	(void)arg;
	s->ready = 1;
	while (!s->stop)
		test_sleep_us(1000);
	munmap((void *)(uintptr_t)s->value[0], PAGE);
	s->value[1] = 1;
	pause();
	return 0;
}

static void unmapped_is_still_alive(void **state)
{
	struct test_child c;
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	child_start(&c, child_that_unmaps, NULL);
	struct target *t = open_target(c.pid);
	c.shared->value[0] = (uintptr_t)page;
	((struct live *)t)->life_addr = (uintptr_t)page;
	assert_int_equal(target_life(t), TARGET_ALIVE);
	c.shared->stop = 1;
	while (!c.shared->value[1])
		test_sleep_us(1000);
	uint64_t word;
	assert_ptr_equal(target_read_u64(t, (uintptr_t)page, &word), &err_fault);
	assert_int_equal(target_life(t), TARGET_ALIVE);
	target_close(t);
	child_kill(&c);
	munmap(page, PAGE);
}

static void *thread_main(void *arg)
{
	struct child_shared *s = arg;

	s->value[2] = (uint64_t)gettid();
	s->value[1]++;
	while (!s->stop)
		test_sleep_us(1000);
	if (s->value[3])
		_exit(0);	/* no thread is left that would */
	return NULL;
}

static int child_with_threads(struct child_shared *s, void *arg)
{
	pthread_t th;

	(void)arg;
	for (uint64_t i = 0; i < 3; i++) {
		pthread_create(&th, NULL, thread_main, s);
		while (s->value[1] <= i)
			test_sleep_us(100);
	}
	s->ready = 1;
	if (s->value[3])
		pthread_exit(NULL);
	while (!s->stop)
		s->count++;
	return 0;
}

static void threads_are_listed(void **state)
{
	struct test_child c;
	struct task *k;
	struct task_times a, b;
	struct task_syscall call;
	pid_t tids[16];
	size_t n = 2;

	(void)state;
	child_start(&c, child_with_threads, NULL);
	struct target *t = open_target(c.pid);
	pid_t last = (pid_t)c.shared->value[2];
	assert_null(target_tids(t, tids, &n));
	assert_int_equal(n, 4);
	n = 16;
	assert_null(target_tids(t, tids, &n));
	assert_int_equal(n, 4);
	assert_int_equal(target_tid_from_inner(t, last), last);
	assert_int_equal(target_tid_from_inner(t, 1), -1);
	assert_int_equal(target_tid_from_inner(t, getpid()), -1);
	assert_ptr_equal(task_open(t, getpid(), &k), &err_gone);

	assert_null(task_open(t, c.pid, &k));
	assert_true(task_read_times(k, &a));
	assert_true(child_counts(&c));
	test_sleep_us(50000);
	assert_true(task_read_times(k, &b));
	assert_true(b.cpu_ns > a.cpu_ns);
	task_close(k);

	assert_null(task_open(t, last, &k));
	while (task_read_syscall(k, &call) != TASK_BLOCKED)
		test_sleep_us(100);
	assert_true(target_arch(t)->syscall_waits(call.nr));
	assert_true(call.pc && call.sp);
	child_stop(&c);
	assert_false(task_read_times(k, &a));
	assert_int_equal(task_read_syscall(k, &call), TASK_GONE);
	task_close(k);
	n = 16;
	assert_ptr_equal(target_tids(t, tids, &n), &err_gone);
	target_close(t);
}

/* As on a kernel without scheduler statistics: clock ticks of stat in the place of nanoseconds. */
static void times_without_statistics(void **state)
{
	struct test_child c;
	struct task_times before, after;
	struct task *k;

	(void)state;
	child_start(&c, child_spin, NULL);
	struct target *t = open_target(c.pid);
	assert_int_equal(target_times_step(t), 0);	/* this kernel has them */
	t->times_step_ns = PROCFS_TICK_NS;
	assert_null(task_open(t, c.pid, &k));
	assert_true(task_read_times(k, &before));
	after = before;
	for (int i = 0; i < 1000 && after.cpu_ns < before.cpu_ns + 3 * PROCFS_TICK_NS; i++) {
		test_sleep_us(10000);
		assert_true(task_read_times(k, &after));
	}
	assert_true(after.cpu_ns >= before.cpu_ns + 3 * PROCFS_TICK_NS);
	assert_int_equal(after.cpu_ns % PROCFS_TICK_NS, 0);
	assert_int_equal(after.slices, 0);
	child_kill(&c);
	assert_false(task_read_times(k, &after));
	task_close(k);
	target_close(t);
}

/* ---- another pid namespace ---- */

static void *inner_thread(void *arg)
{
	struct child_shared *s = arg;

	s->value[2] = (uint64_t)syscall(SYS_gettid);
	s->value[1] = 1;
	while (!s->stop)
		test_sleep_us(1000);
	return NULL;
}

/* The parent of a process in a new pid namespace; 77: such a thing cannot be had here. */
static int child_in_namespace(struct child_shared *s, void *arg)
{
	pthread_t th;
	int status = 0;

	(void)arg;
	if (unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID)) {
		s->ready = 1;
		return 77;
	}
	pid_t pid = fork();
	if (pid == 0) {
		pthread_create(&th, NULL, inner_thread, s);
		pthread_join(th, NULL);
		_exit(0);
	}
	while (!s->value[1])
		test_sleep_us(1000);
	s->value[0] = (uint64_t)pid;
	s->ready = 1;
	waitpid(pid, &status, 0);
	return status;
}

static void inner_ids_are_translated(void **state)
{
	struct test_child c;
	struct task *k;
	pid_t tids[8];
	size_t n = 8;

	(void)state;
	child_start(&c, child_in_namespace, NULL);
	if (!c.shared->value[0]) {
		child_stop(&c);
		skip();
	}
	pid_t pid = (pid_t)c.shared->value[0], inner = (pid_t)c.shared->value[2];
	struct target *t = open_target(pid);
	assert_int_not_equal(inner, pid);
	assert_null(target_tids(t, tids, &n));
	assert_int_equal(n, 2);
	pid_t thread = tids[0] == pid ? tids[1] : tids[0];
	for (int i = 0; i < 3; i++) {	/* read once, then from memory */
		assert_int_equal(target_tid_from_inner(t, 1), pid);
		assert_int_equal(target_tid_from_inner(t, inner), thread);
		assert_int_equal(target_tid_from_inner(t, inner + 1), -1);
		assert_int_equal(target_tid_from_inner(t, thread), thread == inner ? thread : -1);
	}
	assert_null(task_open(t, thread, &k));
	task_close(k);
	c.shared->stop = 1;
	while (target_life(t) == TARGET_ALIVE)
		test_sleep_us(1000);
	assert_int_equal(child_stop(&c), 0);
	assert_int_equal(target_tid_from_inner(t, inner), -1);
	target_close(t);
}

static int child_without_leader(struct child_shared *s, void *arg)
{
	s->value[3] = 1;
	return child_with_threads(s, arg);
}

static bool is_zombie(void *arg)
{
	return child_state(*(pid_t *)arg) == 'Z';
}

/* The main thread has ended, the others run on: everything but that thread can still be seen. */
static void a_process_outlives_its_main_thread(void **state)
{
	struct test_child c;
	struct mappings m;
	uint64_t word;
	char ours[4096];
	int fd;

	(void)state;
	child_start(&c, child_without_leader, NULL);
	assert_true(child_until(is_zombie, &c.pid));
	struct target *t = open_target(c.pid);
	ssize_t n = readlink("/proc/self/exe", ours, sizeof(ours) - 1);
	ours[n] = 0;
	assert_string_equal(target_exe_path(t), ours);
	assert_null(target_exe_fd(t, &fd));
	assert_int_equal(pread(fd, ours, 4, 0), 4);
	assert_memory_equal(ours, "\177ELF", 4);
	assert_int_equal(target_life(t), TARGET_ALIVE);
	assert_null(target_mappings(t, &m));
	assert_true(m.n > 0);
	assert_null(target_read_u64(t, (uintptr_t)&state, &word));
	assert_true(((struct live *)t)->mem_only);
	mappings_deinit(&m);
	child_stop(&c);
	assert_int_equal(target_life(t), TARGET_ENDED);
	target_close(t);
}

static void the_program_is_named(void **state)
{
	struct test_child c;
	struct mappings m;
	char ours[4096];
	int fd;

	(void)state;
	child_start(&c, child_spin, NULL);
	struct target *t = open_target(c.pid);
	ssize_t n = readlink("/proc/self/exe", ours, sizeof(ours) - 1);
	ours[n] = 0;
	assert_string_equal(target_exe_path(t), ours);
	assert_null(target_exe_fd(t, &fd));
	assert_int_equal(pread(fd, ours, 4, 0), 4);
	assert_memory_equal(ours, "\177ELF", 4);
	assert_null(target_mappings(t, &m));
	const struct mapping *code = mappings_find(&m, (uintptr_t)the_program_is_named);
	assert_non_null(code);
	assert_true(code->flags & MAPPING_EXEC);
	assert_true(code->inode > 0);
	mappings_deinit(&m);
	target_close(t);
	child_stop(&c);
}

/* ---- refusals ---- */

static void expect_error(pid_t pid, enum error_kind kind, const char *what)
{
	struct target *t = NULL;
	struct error *err = target_open_live(pid, &t);

	assert_non_null(err);
	assert_null(t);
	if (!strstr(err->what, what))
		fail_msg("'%s' does not say '%s'", err->what, what);
	assert_int_equal(err->kind, kind);
	error_free(err);
}

static void no_such_process(void **state)
{
	struct test_child c;
	char text[64];

	(void)state;
	expect_error(0, ERROR_NO_PROCESS, "there is no process 0");
	expect_error(-5, ERROR_NO_PROCESS, "there is no process -5");
	expect_error(1 << 30, ERROR_NO_PROCESS, "there is no process 1073741824");
	expect_error(getpid(), ERROR_USAGE, "is goprof itself");
	child_start(&c, child_with_threads, NULL);
	snprintf(text, sizeof(text), "it is a thread of process %d", c.pid);
	expect_error((pid_t)c.shared->value[2], ERROR_NO_PROCESS, text);
	child_stop(&c);
	child_start(&c, child_spin, NULL);
	kill(c.pid, SIGKILL);
	assert_true(child_until(is_zombie, &c.pid));
	expect_error(c.pid, ERROR_NO_PROCESS, "has already ended");
	child_kill(&c);
}

static void traced_by_another(void **state)
{
	struct test_child c;
	int to_us[2], to_tracer[2];
	char byte = 0, text[64];

	(void)state;
	child_start(&c, child_spin, NULL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	assert_int_equal(pipe(to_us) | pipe(to_tracer), 0);
	pid_t tracer = fork();
	if (tracer == 0) {
		byte = ptrace(PTRACE_SEIZE, c.pid, NULL, NULL) ? 'n' : 'y';
		if (write(to_us[1], &byte, 1) != 1 || read(to_tracer[0], &byte, 1) != 1)
			_exit(1);
		_exit(0);
	}
	assert_int_equal(read(to_us[0], &byte, 1), 1);
	if (byte == 'y') {	/* Yama lets only a parent trace: then there is nothing to see */
		struct target *t = NULL;
		struct error *err = target_open_live(c.pid, &t);
		assert_non_null(err);
		assert_int_equal(err->kind, ERROR_TRACED);
		snprintf(text, sizeof(text), "(pid %d) traces it", tracer);
		assert_non_null(strstr(err->why, text));
		error_free(err);
	}
	assert_int_equal(write(to_tracer[1], "q", 1), 1);
	waitpid(tracer, NULL, 0);
	struct target *t = open_target(c.pid);	/* free again */
	target_close(t);
	for (int i = 0; i < 2; i++) {
		close(to_us[i]);
		close(to_tracer[i]);
	}
	child_stop(&c);
}

static int child_undumpable(struct child_shared *s, void *arg)
{
	(void)arg;
	prctl(PR_SET_DUMPABLE, 0);
	s->ready = 1;
	while (!s->stop)
		test_sleep_us(1000);
	return 0;
}

/* Run without privilege, in a child of its own: says what it was told. */
static int refused_body(struct child_shared *s, void *arg)
{
	struct target *t = NULL;

	if (getuid() == 0 && (setgid(65534) || setuid(65534)))
		return 2;
	struct error *err = target_open_live(*(pid_t *)arg, &t);
	s->ready = 1;
	if (!err || err->kind != ERROR_DENIED || !err->why || !err->todo)
		return 3;
	return strstr(err->why, "it belongs to user") ? 10 :
	       strstr(err->why, "made itself unreadable") ? 11 : 12;
}

static void not_permitted(void **state)
{
	struct test_child c, by;

	(void)state;
	child_start(&c, child_undumpable, NULL);
	child_start(&by, refused_body, &c.pid);
	int status = child_stop(&by);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), getuid() == 0 ? 10 : 11);
	child_stop(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spans_are_cut_at_holes),
		cmocka_unit_test(many_spans_take_several_calls),
		cmocka_unit_test(exec_is_told_from_exit),
		cmocka_unit_test(unmapped_is_still_alive),
		cmocka_unit_test(threads_are_listed),
		cmocka_unit_test(times_without_statistics),
		cmocka_unit_test(inner_ids_are_translated),
		cmocka_unit_test(a_process_outlives_its_main_thread),
		cmocka_unit_test(the_program_is_named),
		cmocka_unit_test(no_such_process),
		cmocka_unit_test(traced_by_another),
		cmocka_unit_test(not_permitted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
