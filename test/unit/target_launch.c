/*
 * Launching: the child stands before its first instruction, inherits nothing of ours, and its end
 * and stops are told.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/stop.h"
#include "fake/child.h"
#include "fake/probe.h"

static int make(void **state)
{
	struct tracer *tr;

	assert_null(tracer_create(&tr));
	*state = tr;
	return 0;
}

static int unmake(void **state)
{
	tracer_destroy(*state);
	return 0;
}

static pid_t launch_shell(struct tracer *tr, const char *script, const struct inherited *in)
{
	char *argv[] = { (char *)"sh", (char *)"-c", (char *)script, NULL };
	char *envp[] = { (char *)"PATH=/bin:/usr/bin", (char *)"LC_ALL=C", NULL };
	const struct launch l = { .path = "/bin/sh", .argv = argv, .envp = envp, .inherited = in };
	pid_t pid = 0;
	struct error *err = tracer_launch(tr, &l, &pid);

	if (err)
		fail_msg("%s", err->what);
	assert_true(pid > 0);
	return pid;
}

static struct child_status wait_ended(struct tracer *tr, pid_t pid)
{
	struct child_status st = { 0 };

	for (int i = 0; i < 100 && !st.ended; i++)
		tracer_wait_child(tr, pid, 100000000, &st);
	assert_true(st.ended);
	return st;
}

/* ---- start ---- */

static void it_stands_at_its_exec(void **state)
{
	struct tracer *tr = *state;
	struct target *t;
	struct child_status st;
	pid_t pid = launch_shell(tr, "exit 7", NULL);

	test_sleep_us(20000);
	assert_int_equal(child_state(pid), 't');
	assert_null(target_open_live(pid, &t));	/* traced, but by ourselves */
	assert_non_null(strstr(target_exe_path(t), "sh"));
	tracer_child_status(tr, pid, &st);
	assert_false(st.ended);
	assert_int_equal(st.stop_signal, 0);
	assert_null(tracer_let_run(tr, pid));
	st = wait_ended(tr, pid);
	assert_true(WIFEXITED(st.wait_status));
	assert_int_equal(WEXITSTATUS(st.wait_status), 7);
	assert_true(st.usage.ru_maxrss > 0);
	assert_int_equal(target_life(t), TARGET_ENDED);
	target_close(t);
	assert_null(tracer_let_run(tr, pid));	/* too late, and no matter */
}

static void expect_failure(struct tracer *tr, const char *path, enum error_kind kind, const char *why)
{
	char *argv[] = { (char *)path, NULL }, *envp[] = { NULL };
	const struct launch l = { .path = path, .argv = argv, .envp = envp };
	pid_t pid = -77;
	struct error *err = tracer_launch(tr, &l, &pid);

	assert_non_null(err);
	assert_int_equal(err->kind, kind);
	assert_int_equal(pid, -77);
	assert_non_null(strstr(err->what, path));
	if (why)
		assert_non_null(strstr(err->why, why));
	error_free(err);
}

static void write_file(const char *path, const char *text, mode_t mode)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(chmod(path, mode), 0);
}

static void what_cannot_start_is_said(void **state)
{
	struct tracer *tr = *state;
	char dir[] = "/tmp/goprof-launch-XXXXXX", path[64];

	assert_non_null(mkdtemp(dir));
	expect_failure(tr, "/no/such/program", ERROR_START_MISSING, NULL);
	expect_failure(tr, dir, ERROR_START_EXEC, NULL);
	snprintf(path, sizeof(path), "%s/file", dir);
	write_file(path, "echo no interpreter line\n", 0755);
	expect_failure(tr, path, ERROR_START_EXEC, "neither a program");
	write_file(path, "#!/no/such/interpreter\n", 0755);
	expect_failure(tr, path, ERROR_START_MISSING, "interpreter");
	write_file(path, "#!/bin/sh\n", 0644);
	expect_failure(tr, path, ERROR_START_EXEC, "not executable");
	unlink(path);
	rmdir(dir);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);	/* nobody is left over */
	assert_int_equal(errno, ECHILD);
}

/* ---- what it inherits ---- */

static size_t read_pipe(int fd, char *buf, size_t cap)
{
	size_t n = 0;
	ssize_t r;

	while (n + 1 < cap && (r = read(fd, buf + n, cap - 1 - n)) > 0)
		n += (size_t)r;
	buf[n] = 0;
	return n;
}

/* Output of a script in the launched child: its stdout is a pipe only while it starts. */
static void run_and_read(struct tracer *tr, const char *script, const struct inherited *in, char *buf,
			 size_t cap)
{
	int fds[2], saved = fcntl(1, F_DUPFD_CLOEXEC, 10);

	fflush(stdout);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	dup2(fds[1], 1);
	pid_t pid = launch_shell(tr, script, in);
	dup2(saved, 1);
	close(saved);
	close(fds[1]);
	assert_null(tracer_let_run(tr, pid));
	read_pipe(fds[0], buf, cap);
	close(fds[0]);
	wait_ended(tr, pid);
}

static const char facts[] =
	"grep -E '^Sig(Blk|Ign):' /proc/self/status; cat /proc/self/oom_score_adj; "
	"cut -d' ' -f18,19,40,41 /proc/self/stat; cat /proc/self/timerslack_ns; ulimit -a; "
	"ls /proc/self/fd | wc -l; ps -o cls= -p $$ 2>/dev/null";

/* The truth: the same script from a plain fork, before goprof changes anything. */
static void read_plain(char *buf, size_t cap)
{
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(fds[1], 1);
		setenv("PATH", "/bin:/usr/bin", 1);
		execl("/bin/sh", "sh", "-c", facts, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	read_pipe(fds[0], buf, cap);
	close(fds[0]);
	waitpid(pid, NULL, 0);
}

static void nothing_of_ours_is_inherited(void **state)
{
	static char plain[8192], launched[8192];
	struct inherited *in;
	struct rlimit files, before;
	sigset_t some, old;
	struct tracer *tr;

	(void)state;
	signal(SIGUSR2, SIG_IGN);	/* was so before goprof: stays so */
	read_plain(plain, sizeof(plain));
	assert_true(strlen(plain) > 200);
	assert_null(inherited_save(&in));

	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&some);
	sigaddset(&some, SIGCHLD);
	sigaddset(&some, SIGTERM);
	sigprocmask(SIG_BLOCK, &some, &old);
	getrlimit(RLIMIT_NOFILE, &before);
	files = before;
	files.rlim_cur = files.rlim_cur > 100 ? files.rlim_cur - 1 : files.rlim_cur;
	setrlimit(RLIMIT_NOFILE, &files);
	prctl(PR_SET_TIMERSLACK, 1000ul);

	assert_null(tracer_create(&tr));
	run_and_read(tr, facts, in, launched, sizeof(launched));
	tracer_destroy(tr);

	prctl(PR_SET_TIMERSLACK, 0ul);
	setrlimit(RLIMIT_NOFILE, &before);
	sigprocmask(SIG_SETMASK, &old, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	signal(SIGUSR2, SIG_DFL);
	inherited_free(in);
	assert_string_equal(launched, plain);
}

/* ---- its states ---- */

static void a_signal_ends_it(void **state)
{
	struct tracer *tr = *state;
	pid_t pid = launch_shell(tr, "sleep 100", NULL);

	assert_null(tracer_let_run(tr, pid));
	kill(pid, SIGSEGV);
	struct child_status st = wait_ended(tr, pid);
	assert_true(WIFSIGNALED(st.wait_status));
	assert_int_equal(WTERMSIG(st.wait_status), SIGSEGV);
}

static void killed_at_its_exec(void **state)
{
	struct tracer *tr = *state;
	pid_t pid = launch_shell(tr, "exit 0", NULL);

	kill(pid, SIGKILL);
	struct child_status st = wait_ended(tr, pid);
	assert_int_equal(WTERMSIG(st.wait_status), SIGKILL);
	assert_null(tracer_let_run(tr, pid));
}

static void stops_are_told(void **state)
{
	struct tracer *tr = *state;
	struct child_status st = { 0 };
	pid_t pid = launch_shell(tr, "ulimit -t 60; while :; do :; done", NULL);

	assert_null(tracer_let_run(tr, pid));
	for (int round = 0; round < 3; round++) {
		kill(pid, SIGSTOP);
		for (int i = 0; i < 100 && !st.stop_signal; i++)
			tracer_wait_child(tr, pid, 100000000, &st);
		assert_int_equal(st.stop_signal, SIGSTOP);
		kill(pid, SIGCONT);
		for (int i = 0; i < 100 && st.stop_signal; i++)
			tracer_wait_child(tr, pid, 100000000, &st);
		assert_int_equal(st.stop_signal, 0);
	}
	kill(pid, SIGKILL);
	wait_ended(tr, pid);
}

/* Captures of a child of ours: its stops and its end come through all the same. */
static void states_come_through_captures(void **state)
{
	struct tracer *tr = *state;
	struct child_status st = { 0 };
	struct target *t;
	struct task *k;
	struct capture *c;
	pid_t pid = launch_shell(tr, "ulimit -t 60; while :; do :; done", NULL);
	int seen = 0;

	assert_null(tracer_let_run(tr, pid));
	assert_null(target_open_live(pid, &t));
	assert_null(task_open(t, pid, &k));
	for (int i = 0; i < 400 && !st.ended; i++) {
		const struct capture_request rq = { .task = k };
		if (i == 100)
			kill(pid, SIGSTOP);
		if (i == 200) {
			/* A busy machine takes its time. */
			for (int tries = 0; tries < 1000 && st.stop_signal != SIGSTOP; tries++) {
				test_sleep_us(5000);
				tracer_child_status(tr, pid, &st);
			}
			assert_int_equal(st.stop_signal, SIGSTOP);
			assert_int_equal(child_state(pid), 'T');
			kill(pid, SIGCONT);
		}
		if (i == 300)
			kill(pid, SIGTERM);
		tracer_capture(tr, t, &rq, 1, 1000000, probe_hook, NULL);
		if (tracer_collect(tr, tracer_now() + 2000000, &c, 1)) {
			seen += c->status == CAPTURE_OK;
			tracer_recycle(tr, c);
		}
		test_sleep_us(2000);
		tracer_child_status(tr, pid, &st);
	}
	assert_true(seen > 100);
	assert_true(tracer_drain(tr, t, 2000000000));
	st = wait_ended(tr, pid);
	assert_true(WIFSIGNALED(st.wait_status));
	assert_int_equal(WTERMSIG(st.wait_status), SIGTERM);
	task_close(k);
	target_close(t);
}

static void on_signal(int sig)
{
	(void)sig;
}

static void on_stop(int sig)
{
	(void)sig;
	stop_requests = stop_requests + 1;
}

/* A handler that runs while we wait ends the wait. */
static void a_handler_ends_the_wait(void **state)
{
	static void (*const handlers[])(int) = { on_signal, on_stop };
	struct tracer *tr = *state;
	struct child_status st;
	pid_t pid = launch_shell(tr, "sleep 100", NULL);

	assert_null(tracer_let_run(tr, pid));
	tracer_wait_child(tr, pid, 1000000, &st);
	for (size_t i = 0; i < 2; i++) {
		struct sigaction sa = { .sa_handler = handlers[i] };
		sigaction(SIGALRM, &sa, NULL);
		ualarm(50000, 50000);
		uint64_t before = tracer_now();
		tracer_wait_child(tr, pid, 5000000000ull, &st);
		ualarm(0, 0);
		assert_true(tracer_now() - before < 2000000000);
		assert_false(st.ended);
	}
	signal(SIGALRM, SIG_DFL);
	uint64_t before = tracer_now();
	tracer_wait_child(tr, pid, 120000000, &st);	/* and without one it lasts */
	assert_true(tracer_now() - before >= 120000000);
	kill(pid, SIGKILL);
	wait_ended(tr, pid);
}

/* ---- goprof's death ---- */

static int launching_body(struct child_shared *s, void *arg)
{
	char script[128];
	char *argv[] = { (char *)"sh", (char *)"-c", script, NULL }, *envp[] = { NULL };
	const struct launch l = { .path = "/bin/sh", .argv = argv, .envp = envp };
	struct tracer *tr;
	pid_t pid;

	/* the signal that says "I run" goes to the test itself */
	snprintf(script, sizeof(script), "kill -USR1 %d", *(pid_t *)arg);
	if (tracer_create(&tr) || tracer_launch(tr, &l, &pid))
		return 1;
	s->value[0] = (uint64_t)pid;
	s->ready = 1;
	pause();
	return 0;
}

static volatile sig_atomic_t child_ran;

static void on_child_runs(int sig)
{
	(void)sig;
	child_ran = 1;
}

static bool has_run(void *arg)
{
	(void)arg;
	return child_ran;
}

/* SIGKILL while the child stands at its exec: it runs on. */
static void the_child_outlives_us(void **state)
{
	struct sigaction sa = { .sa_handler = on_child_runs, .sa_flags = SA_RESTART };
	pid_t self = getpid();

	(void)state;
	sigaction(SIGUSR1, &sa, NULL);
	for (int i = 0; i < 20; i++) {
		struct test_child by;
		child_ran = 0;
		child_start(&by, launching_body, &self);
		assert_true(by.shared->value[0] > 0);
		assert_int_equal(child_ran, 0);
		child_kill(&by);
		assert_true(child_until(has_run, NULL));
	}
	signal(SIGUSR1, SIG_DFL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_stands_at_its_exec, make, unmake),
		cmocka_unit_test_setup_teardown(what_cannot_start_is_said, make, unmake),
		cmocka_unit_test(nothing_of_ours_is_inherited),
		cmocka_unit_test_setup_teardown(a_signal_ends_it, make, unmake),
		cmocka_unit_test_setup_teardown(killed_at_its_exec, make, unmake),
		cmocka_unit_test_setup_teardown(stops_are_told, make, unmake),
		cmocka_unit_test_setup_teardown(states_come_through_captures, make, unmake),
		cmocka_unit_test_setup_teardown(a_handler_ends_the_wait, make, unmake),
		cmocka_unit_test(the_child_outlives_us),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
