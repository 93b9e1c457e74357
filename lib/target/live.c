/*
 * live.c: a running process as a target.
 *
 * Everything that names the process is opened once and held: /proc/PID and /proc/PID/task stand for
 * this process even after its number is given to another, the memory descriptor for the program it
 * ran when it was opened, the exe descriptor for that program's file whatever becomes of its path.
 * Nothing here stops or changes the target.
 *
 * Upstream text: proc(5), ptrace(2) "Ptrace access mode checking"; mem_rw, proc_mem_open in
 * fs/proc/base.c (a read of 0 bytes means that the memory is no more, EIO that it lives on without
 * a page there).
 */
#include "target/live.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

enum {
	MAPS_LIMIT = 256 << 20,		/* 65,530 mappings of long paths fit many times */
	/* Another goprof traces for microseconds at a time, a debugger stays. */
	TRACER_LOOKS = 6, TRACER_STEP_US = 7 * 1000,
	LISTS_TRIED = 4,
};

/* ---- a main thread that has ended ---- */

/*
 * Memory, map and program of a process are seen through any thread that lives: /proc/PID stands for
 * the main thread, and where that has ended its files are empty or gone, while those of the other
 * threads are as they were. `f` gets "" first, then "task/TID/" of one thread after the other,
 * until it says something else than -ESRCH.
 */
typedef int through_thread(struct live *l, const char *where, void *arg);

static int each_thread(struct live *l, through_thread *f, void *arg)
{
	int r = f(l, "", arg);

	/* All of a list may have ended by the time it is gone through: then there is a newer one. */
	for (int tries = 0; r == -ESRCH && tries < LISTS_TRIED; tries++) {
		pid_t tids[64];
		size_t n = sizeof(tids) / sizeof(*tids);
		_cleanup_error_ struct error *err = live_tids(&l->base, tids, &n);

		for (size_t i = 0; !err && r == -ESRCH && i < n && i < sizeof(tids) / sizeof(*tids); i++) {
			char where[32];

			snprintf(where, sizeof(where), "task/%d/", tids[i]);
			r = f(l, where, arg);
		}
	}
	return r;
}

enum { THREAD_FILE = 48 };

static const char *file_of(char buf[THREAD_FILE], const char *where, const char *name)
{
	snprintf(buf, THREAD_FILE, "%s%s", where, name);
	return buf;
}

/* Gone, or gone as far as this thread knows. */
static int no_such_thread(int errnum)
{
	return errnum == ENOENT ? -ESRCH : -errnum;
}

/* ---- operations ---- */

static void live_close(struct target *t)
{
	struct live *l = (struct live *)t;
	const int fds[] = { l->dir_fd, l->task_fd, l->mem_fd };

	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	map64_deinit(&l->inner_of);
	map64_deinit(&l->outer_of);
	free(l);
}

static int maps_through(struct live *l, const char *where, void *arg)
{
	char path[THREAD_FILE];
	struct buf *text = arg;

	buf_clear(text);
	int r = procfs_read_all(l->dir_fd, file_of(path, where, "maps"), MAPS_LIMIT, text);
	if (r)
		return no_such_thread(-r);
	return text->len > 0 ? 0 : -ESRCH;
}

static void buf_guard(struct buf *b)
{
	buf_deinit(b);
}

static struct error *live_mappings(const struct target *t, struct mappings *ret)
{
	_cleanup_(buf_guard) struct buf text;

	buf_init(&text);
	int r = each_thread((struct live *)t, maps_through, &text);
	if (r == -ENOMEM)
		return &err_nomem;
	if (r == -EACCES || r == -EPERM)
		return error_new(ERROR_DENIED, "cannot read the memory map of %d: %s", t->pid,
				 strerror(-r));
	if (r < 0)
		return &err_gone;
	size_t len = text.len;
	return procfs_parse_maps(buf_take(&text), len, ret);
}

static enum target_life live_life(const struct target *t)
{
	const struct live *l = (const struct live *)t;
	struct procfs_stat st;
	uint64_t word;

	/* -1 (EIO) is life, too: only this address is no longer mapped. */
	if (pread(l->mem_fd, &word, sizeof(word), (off_t)l->life_addr) != 0)
		return TARGET_ALIVE;
	if (!procfs_stat_at(l->dir_fd, "stat", &st) || strchr("ZXx", st.state))
		return TARGET_ENDED;
	/* On its way out a process has no memory at all; after exec it has another one. */
	return st.start_time == t->start_time && st.vsize ? TARGET_EXECED : TARGET_ENDED;
}

static bool live_cpu_ns(const struct target *t, uint64_t *ret)
{
	struct timespec ts;

	if (clock_gettime(((const struct live *)t)->cpu_clock, &ts))
		return false;
	*ret = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	return true;
}

static const struct target_ops live_ops = {
	.close = live_close,
	.read_v = live_read_v,
	.mappings = live_mappings,
	.tids = live_tids,
	.tid_from_inner = live_tid_from_inner,
	.thread_name = live_thread_name,
	.life = live_life,
	.cpu_ns = live_cpu_ns,
	.task_open = live_task_open,
	.tid_state = live_tid_state,
	.mapping_fd = live_mapping_fd,
};

/* ---- opening ---- */

static struct error *no_process(pid_t pid)
{
	return error_new(ERROR_NO_PROCESS, "there is no process %d", pid);
}

/* /proc does not show it: is it there at all? */
static struct error *hidden(pid_t pid)
{
	if (kill(pid, 0) && errno != EPERM)
		return no_process(pid);
	return error_todo(error_why(error_new(ERROR_DENIED, "cannot attach to %d: not permitted", pid),
				    "/proc is mounted with hidepid: it hides the processes of others"),
			  "sudo goprof attach %d", pid);
}

static struct error *open_dir(pid_t pid, int *ret)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	int fd = pid > 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		*ret = fd;
		return NULL;
	}
	if (pid <= 0)
		return no_process(pid);
	if (access("/proc/self/stat", R_OK))
		return error_why(error_new(ERROR_FACILITY, "cannot look at process %d", pid),
				 "/proc is not mounted here");
	if (errno == EMFILE || errno == ENFILE)
		return error_new(ERROR_FACILITY, "cannot look at process %d: %s", pid, strerror(errno));
	return hidden(pid);
}

static int path_through(struct live *l, const char *where, void *arg)
{
	char path[THREAD_FILE], target[PROCFS_SMALL], **ret = arg;
	ssize_t n = readlinkat(l->dir_fd, file_of(path, where, "exe"), target, sizeof(target));

	if (n <= 0)
		return no_such_thread(n < 0 ? errno : ENOENT);
	*ret = strndup(target, (size_t)n);
	return *ret ? 0 : -ENOMEM;
}

static int exe_through(struct live *l, const char *where, void *arg)
{
	char path[THREAD_FILE];

	(void)arg;
	int fd = openat(l->dir_fd, file_of(path, where, "exe"), O_RDONLY | O_CLOEXEC);
	return fd < 0 ? no_such_thread(errno) : fd;
}

/* What to call it when its path cannot be had: the first word of its command line, or its short name. */
static char *other_name(int dir, const struct procfs_status *st)
{
	char buf[PROCFS_SMALL];
	ssize_t n = procfs_read(dir, "cmdline", buf, sizeof(buf));

	return strdup(n > 0 && buf[0] ? buf : st->name);
}

/* Is it one of goprof's own threads that traces it (the child of `run` before its start)? */
static bool traced_by_us(pid_t tracer)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/self/task/%d", tracer);
	return access(path, F_OK) == 0;
}

static pid_t foreign_tracer(int dir)
{
	struct procfs_status st;

	if (!procfs_status_at(dir, "status", &st) || !st.tracer || traced_by_us(st.tracer))
		return 0;
	return st.tracer;
}

static struct error *check_tracer(pid_t pid, int dir, const char *name)
{
	pid_t tracer = foreign_tracer(dir);

	/* Of growing distance, so that nobody's rhythm is met again and again. */
	for (unsigned i = 1; tracer && i < TRACER_LOOKS; i++) {
		usleep(i * TRACER_STEP_US);
		tracer = foreign_tracer(dir);
	}
	if (!tracer)
		return NULL;

	char path[32];
	struct procfs_status by = { .name = "another process" };
	snprintf(path, sizeof(path), "/proc/%d/status", tracer);
	if (procfs_status_at(AT_FDCWD, path, &by) && by.tgid != tracer) {
		/* the id of a thread: people know the process */
		tracer = by.tgid;
		snprintf(path, sizeof(path), "/proc/%d/status", tracer);
		procfs_status_at(AT_FDCWD, path, &by);
	}
	return error_todo(error_why(error_new(ERROR_TRACED, "cannot attach to %d (%s): it is being traced",
					      pid, name),
				    "%s (pid %d) traces it, and only one can", by.name, tracer),
			  "let %s detach first", by.name);
}

/* Processes that have no user memory to look at, or that are goprof itself. */
static struct error *check_kind(pid_t pid, const struct procfs_status *status,
				const struct procfs_stat *stat)
{
	if (pid == getpid())
		return error_new(ERROR_USAGE, "%d is goprof itself", pid);
	if (stat->flags & PROCFS_PF_KTHREAD)
		return error_new(ERROR_NOT_GO, "%d (%s) is a thread of the kernel, not a program", pid,
				 status->name);
	if (status->tgid != pid)
		return error_todo(error_new(ERROR_NO_PROCESS, "there is no process %d; it is a thread of "
					    "process %d (%s)", pid, status->tgid, status->name),
				  "goprof attach %d", status->tgid);
	if (stat->state == 'X' || (stat->state == 'Z' && stat->threads <= 1))
		return error_new(ERROR_NO_PROCESS, "process %d (%s) has already ended", pid, status->name);
	return NULL;
}

static struct error *check_process(pid_t pid, int dir, struct procfs_status *status,
				   struct procfs_stat *stat)
{
	if (!procfs_status_at(dir, "status", status) || !procfs_stat_at(dir, "stat", stat))
		return hidden(pid);
	return check_kind(pid, status, stat);
}

/* Opens the memory and finds an address that is mapped. */
static int mem_through(struct live *l, const char *where, void *arg)
{
	char path[THREAD_FILE], first[256];
	gaddr_t *addr = arg;
	uint64_t start, word;
	ssize_t n = procfs_read(l->dir_fd, file_of(path, where, "maps"), first, sizeof(first));
	struct text t = { first, first + (n > 0 ? n : 0) };

	if (n < 0)
		return no_such_thread((int)-n);
	if (!text_hex(&t, &start))
		return -ESRCH;
	_cleanup_close_ int fd = openat(l->dir_fd, file_of(path, where, "mem"), O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return no_such_thread(errno);
	if (pread(fd, &word, sizeof(word), (off_t)start) == 0)
		return -ESRCH;
	*addr = start;
	return take_fd(fd);
}

static struct error *open_files(struct live *l, const char *name)
{
	pid_t pid = l->base.pid;

	l->mem_fd = each_thread(l, mem_through, &l->life_addr);
	if (l->mem_fd == -EACCES || l->mem_fd == -EPERM)
		return refusal_error(pid, l->dir_fd, name, -l->mem_fd);
	if (l->mem_fd == -ESRCH)
		return no_process(pid);
	if (l->mem_fd < 0)
		return error_new(ERROR_FACILITY, "cannot open the memory of %d (%s): %s", pid, name,
				 strerror(-l->mem_fd));
	l->base.exe_fd = each_thread(l, exe_through, NULL);
	if (clock_getcpuclockid(pid, &l->cpu_clock))
		return no_process(pid);
	return NULL;
}

static void target_guard(struct live **l)
{
	if (*l)
		target_close(&(*l)->base);
}

/* We ourselves have run, so our own time is not 0 where it is kept at all. */
static uint64_t times_step(void)
{
	char buf[96];
	struct task_times ours;
	ssize_t n = procfs_read(AT_FDCWD, "/proc/thread-self/schedstat", buf, sizeof(buf));

	return n > 0 && procfs_parse_times(buf, (size_t)n, &ours) && ours.cpu_ns && ours.slices ? 0 : PROCFS_TICK_NS;
}

/*
 * The coarse clocks move at each scheduler tick. CPUs named in nohz_full have none while one thread has
 * them for itself. Upstream text: clock_getres(2), the kernel's no_hz.rst.
 */
static uint64_t cpu_step(void)
{
	char full[256];
	struct timespec step;
	ssize_t n = procfs_read(AT_FDCWD, "/sys/devices/system/cpu/nohz_full", full, sizeof(full));

	if (n > 0 && full[0] >= '0' && full[0] <= '9')
		return UINT64_MAX;
	return clock_getres(CLOCK_MONOTONIC_COARSE, &step) ? UINT64_MAX : (uint64_t)step.tv_nsec;
}

static struct live *live_new(pid_t pid, int dir, const struct procfs_status *status,
			     const struct procfs_stat *stat)
{
	struct live *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->base = (struct target){ .ops = &live_ops, .arch = arch_host(), .pid = pid,
				   .start_time = stat->start_time, .exe_fd = -1,
				   .times_step_ns = times_step(), .cpu_step_ns = cpu_step() };
	l->dir_fd = dir;
	l->task_fd = l->mem_fd = -1;
	l->same_ns = status->ns_depth <= 1;
	map64_init(&l->inner_of);
	map64_init(&l->outer_of);
	return l;
}

struct error *target_open_live(pid_t pid, struct target **ret)
{
	_cleanup_close_ int dir = -1;
	struct procfs_status status;
	struct procfs_stat stat;
	struct error *err = open_dir(pid, &dir);

	if (!err)
		err = check_process(pid, dir, &status, &stat);
	if (err)
		return err;
	_cleanup_(target_guard) struct live *l = live_new(pid, dir, &status, &stat);
	if (!l)
		return &err_nomem;
	dir = -1;	/* it is the target's now */
	l->task_fd = openat(l->dir_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->task_fd < 0)
		return no_process(pid);
	if (each_thread(l, path_through, &l->base.exe_path) == -ENOMEM)
		return &err_nomem;
	_cleanup_free_ char *name = l->base.exe_path ? strdup(l->base.exe_path) : other_name(l->dir_fd, &status);
	if (!name)
		return &err_nomem;

	err = check_tracer(pid, l->dir_fd, name);
	if (!err)
		err = open_files(l, name);
	if (err)
		return err;
	*ret = &take(l)->base;
	return NULL;
}
