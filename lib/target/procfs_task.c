/*
 * procfs_task.c: one thread by its held schedstat and syscall files: the cheapest looks there are
 * (0.3 to 0.7 microseconds each), taken for many threads at every tick. A kernel without scheduler
 * statistics has no schedstat, or one of zeros: then the thread's stat stands in its place.
 *
 * A descriptor of /proc/PID/task/TID/... belongs to that very thread, not to its number: once the
 * thread is gone every read fails with ESRCH, even when the id was given to another. The tracer
 * relies on this. Upstream text: proc_pid_schedstat and proc_pid_syscall in fs/proc/base.c.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/procfs.h"
#include "target/target_impl.h"

struct error *task_create(pid_t tid, int times_fd, int syscall_fd, struct task **ret)
{
	struct task *k = malloc(sizeof(*k));

	if (!k) {
		close(times_fd);
		close(syscall_fd);
		return &err_nomem;
	}
	*k = (struct task){ .tid = tid, .times_fd = times_fd, .syscall_fd = syscall_fd };
	*ret = k;
	return NULL;
}

void task_close(struct task *k)
{
	if (!k)
		return;
	close(k->times_fd);
	close(k->syscall_fd);
	free(k);
}

pid_t task_tid(const struct task *k)
{
	return k->tid;
}

/* A stat has a name in brackets, a schedstat nothing but numbers. */
static bool parse_stat_times(const char *s, size_t len, struct task_times *ret)
{
	struct procfs_stat st;

	if (!procfs_parse_stat(s, len, &st))
		return false;
	*ret = (struct task_times){ .cpu_ns = st.cpu_ticks * PROCFS_TICK_NS };
	return true;
}

bool procfs_parse_times(const char *s, size_t len, struct task_times *ret)
{
	struct text t = { s, s + len };
	struct task_times v;

	if (memchr(s, '(', len))
		return parse_stat_times(s, len, ret);
	if (!text_dec(&t, &v.cpu_ns) || !text_dec(&t, &v.wait_ns) || !text_dec(&t, &v.slices))
		return false;
	*ret = v;
	return true;
}

bool task_read_times(const struct task *k, struct task_times *ret)
{
	char buf[1024];		/* a stat has 52 numbers */
	ssize_t n = pread(k->times_fd, buf, sizeof(buf), 0);

	return n > 0 && procfs_parse_times(buf, (size_t)n, ret);
}

/* "running", "NR ARG*6 SP PC" in a call, "-1 SP PC" blocked outside one. */
enum task_state procfs_parse_syscall(const char *s, size_t len, struct task_syscall *ret)
{
	static const char running[] = "running";
	struct text t = { s, s + len };
	struct task_syscall v;
	uint64_t skipped;

	if (len >= sizeof(running) - 1 && !memcmp(s, running, sizeof(running) - 1))
		return TASK_RUNNING;
	if (!text_sdec(&t, &v.nr))
		return TASK_GONE;
	for (int i = 0; v.nr != -1 && i < 6; i++)
		if (!text_hex(&t, &skipped))
			return TASK_GONE;
	if (!text_hex(&t, &v.sp) || !text_hex(&t, &v.pc))
		return TASK_GONE;
	/* A thread that has ended but is not collected has no stack: the kernel says -1 0x0 0x0. */
	if (v.nr == -1 && !v.sp && !v.pc)
		return TASK_GONE;
	*ret = v;
	return TASK_BLOCKED;
}

enum task_state task_read_syscall(const struct task *k, struct task_syscall *ret)
{
	char buf[256];
	ssize_t n = pread(k->syscall_fd, buf, sizeof(buf), 0);

	return n > 0 ? procfs_parse_syscall(buf, (size_t)n, ret) : TASK_GONE;
}
