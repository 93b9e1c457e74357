/*
 * tracer_launch.c: starts the command of `run` and holds it at its exec, so that profiling begins
 * before its first instruction.
 *
 * The child waits on a pipe until it is seized, puts back what it inherited, and calls exec; an
 * error comes back through a second pipe, which a successful exec closes. It is bound to goprof by
 * nothing: should goprof be killed while it stands at its exec, the kernel detaches it and it runs.
 * Only the tracer thread forks, as only the thread that seized may speak to a tracee.
 *
 * Upstream text: ptrace(2) "PTRACE_EVENT_EXEC", "Group-stop"; env(1) for the exit statuses.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/facility.h"
#include "target/tracer_impl.h"

enum { LAUNCH_STEP_NS = 200 * NSEC_PER_USEC, EXIT_NOT_STARTED = 127 };

struct pipe_pair {
	int read, write;
};

struct launching {
	const struct launch *launch;
	struct pipe_pair go, failure;
	struct child *child;
	struct error *err;
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static bool make_pipe(struct pipe_pair *p)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return false;
	*p = (struct pipe_pair){ fds[0], fds[1] };
	return true;
}

static void close_pipe(struct pipe_pair *p)
{
	close_fd(&p->read);
	close_fd(&p->write);
}

/* ---- the child; async-signal-safe calls only ---- */

static _Noreturn void child_main(const struct tracer *tr, struct launching *l)
{
	char c;

	close_fd(&l->go.write);
	/* The end of the file: goprof died before it was ready. */
	if (read(l->go.read, &c, 1) != 1)
		_exit(EXIT_NOT_STARTED);
	if (l->launch->inherited)
		inherited_restore(l->launch->inherited);
	else
		sigprocmask(SIG_SETMASK, &tr->given_mask, NULL);
	execve(l->launch->path, l->launch->argv, l->launch->envp);
	int errnum = errno;
	if (write(l->failure.write, &errnum, sizeof(errnum)) < 0)
		_exit(EXIT_NOT_STARTED);
	_exit(EXIT_NOT_STARTED);
}

/* ---- errors ---- */

static struct error *exec_error(const struct launch *l, int errnum)
{
	enum error_kind kind = errnum == ENOENT ? ERROR_START_MISSING : ERROR_START_EXEC;
	struct error *err = error_new(kind, "cannot start %s: %s", l->path, strerror(errnum));

	if (errnum == ENOEXEC)
		return error_todo(error_why(err, "it is neither a program for this machine nor a script "
					    "that begins with #!"),
				  "goprof run sh %s", l->path);
	if (errnum == ENOENT && access(l->path, F_OK) == 0)
		return error_why(err, "the file is there, but the interpreter or loader it names is not");
	if (errnum == EACCES && access(l->path, F_OK) == 0 && access(l->path, X_OK))
		return error_todo(error_why(err, "the file is not executable for you"), "chmod +x %s", l->path);
	return err;
}

static struct error *self_error(const struct launch *l, const char *what, int errnum)
{
	return error_new(ERROR_START_SELF, "cannot start %s: %s: %s", l->path, what, strerror(errnum));
}

static struct error *early_end(struct launching *l, int status)
{
	int errnum;

	if (read(l->failure.read, &errnum, sizeof(errnum)) == sizeof(errnum))
		return exec_error(l->launch, errnum);
	if (WIFSIGNALED(status))
		return error_new(ERROR_START_SELF, "cannot start %s: a signal (%s) ended it before it began",
				 l->launch->path, strsignal(WTERMSIG(status)));
	return error_new(ERROR_START_SELF, "cannot start %s: it ended before it began", l->launch->path);
}

/* ---- the parent ---- */

/* Lets the child go on from a stop on its way to exec. */
static void pass_stop(pid_t pid, int status)
{
	int sig = WSTOPSIG(status);

	if (status >> 16 != PTRACE_EVENT_STOP)
		ptrace(PTRACE_CONT, pid, NULL, (void *)(uintptr_t)sig);
	else if (sig == SIGTRAP)
		ptrace(PTRACE_CONT, pid, NULL, NULL);
	else
		ptrace(PTRACE_LISTEN, pid, NULL, NULL);	/* stopped by job control: stays so until SIGCONT */
}

static struct error *await_exec(struct launching *l)
{
	const struct timespec step = { 0, LAUNCH_STEP_NS };
	pid_t pid = l->child->pid;
	int status;

	for (;;) {
		pid_t r = waitpid(pid, &status, WNOHANG | __WALL);
		if (r < 0)
			return self_error(l->launch, "wait", errno);
		if (r == 0)
			nanosleep(&step, NULL);
		else if (!WIFSTOPPED(status))
			return early_end(l, status);
		else if (status >> 16 == PTRACE_EVENT_EXEC)
			return NULL;
		else
			pass_stop(pid, status);
	}
}

/* The child is waiting for its byte, or for the end of the pipe. */
static struct error *start_forked(struct launching *l)
{
	pid_t pid = l->child->pid;
	int status;

	close_fd(&l->go.read);
	close_fd(&l->failure.write);
	if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)PTRACE_O_TRACEEXEC)) {
		int errnum = errno;
		close_fd(&l->go.write);
		waitpid(pid, &status, __WALL);
		return facility_explain(error_new(ERROR_START_SELF, "cannot start %s: it may not be traced",
						  l->launch->path), errnum);
	}
	if (write(l->go.write, "g", 1) != 1 && errno != EPIPE)
		return self_error(l->launch, "pipe", errno);
	return await_exec(l);
}

static void launch_in_tracer(struct tracer *tr, void *arg)
{
	struct launching *l = arg;

	/* The child takes scheduling and timer slack from the thread that forks it. */
	rank_set(&tr->given);
	pid_t pid = fork();
	if (pid == 0)
		child_main(tr, l);
	int errnum = errno;
	rank_raise();
	if (pid < 0) {
		l->err = self_error(l->launch, "fork", errnum);
		return;
	}
	l->child->pid = pid;
	l->err = start_forked(l);
	if (!l->err)
		tracer_add_child(tr, take(l->child));
}

struct error *tracer_launch(struct tracer *tr, const struct launch *launch, pid_t *ret)
{
	struct launching l = { .launch = launch, .go = { -1, -1 }, .failure = { -1, -1 } };
	pid_t pid = 0;

	l.child = child_create();
	if (!l.child)
		return &err_nomem;
	if (!make_pipe(&l.go) || !make_pipe(&l.failure)) {
		l.err = self_error(launch, "pipe", errno);
	} else {
		struct child *c = l.child;
		tracer_call(tr, launch_in_tracer, &l);
		pid = c->pid;
	}
	close_pipe(&l.go);
	close_pipe(&l.failure);
	child_free(l.child);
	if (!l.err)
		*ret = pid;
	return l.err;
}

/* ---- letting it run ---- */

struct letting {
	pid_t pid;
	int errnum;
};

static void let_run_in_tracer(struct tracer *tr, void *arg)
{
	struct letting *l = arg;

	(void)tr;
	l->errnum = ptrace(PTRACE_DETACH, l->pid, NULL, NULL) ? errno : 0;
}

struct error *tracer_let_run(struct tracer *tr, pid_t pid)
{
	struct letting l = { .pid = pid };

	tracer_call(tr, let_run_in_tracer, &l);
	/* Killed at its exec: its end is told by its status, as any other. */
	if (!l.errnum || l.errnum == ESRCH)
		return NULL;
	return error_new(ERROR_INTERNAL, "cannot let %d run: %s", pid, strerror(l.errnum));
}
