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
	TRACER_WAIT_US = 50 * 1000,	/* another goprof traces for microseconds, a debugger stays */
};

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

/* The memory of a process whose main thread has ended is seen through its other threads only. */
static int maps_text(const struct live *l, struct buf *ret)
{
	pid_t tids[16];
	size_t n = sizeof(tids) / sizeof(*tids);
	int r = procfs_read_all(l->dir_fd, "maps", MAPS_LIMIT, ret);

	if (r == 0 && ret->len > 0)
		return 0;
	_cleanup_error_ struct error *err = live_tids(&l->base, tids, &n);
	for (size_t i = 0; !err && i < n && i < sizeof(tids) / sizeof(*tids); i++) {
		char path[32];
		snprintf(path, sizeof(path), "task/%d/maps", tids[i]);
		buf_clear(ret);
		r = procfs_read_all(l->dir_fd, path, MAPS_LIMIT, ret);
		if (r == 0 && ret->len > 0)
			return 0;
	}
	return r ? r : -ESRCH;
}

static void buf_guard(struct buf *b)
{
	buf_deinit(b);
}

static struct error *live_mappings(const struct target *t, struct mappings *ret)
{
	const struct live *l = (const struct live *)t;
	_cleanup_(buf_guard) struct buf text;

	buf_init(&text);
	int r = maps_text(l, &text);
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
	.life = live_life,
	.cpu_ns = live_cpu_ns,
	.task_open = live_task_open,
	.tid_state = live_tid_state,
};

/* ---- opening ---- */

static struct error *no_process(pid_t pid)
{
	return error_new(ERROR_NO_PROCESS, "there is no process %d", pid);
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
	if (kill(pid, 0) == 0 || errno == EPERM)
		return error_todo(error_why(error_new(ERROR_DENIED, "cannot attach to %d: not permitted", pid),
					    "/proc is mounted with hidepid: it hides the processes of others"),
				  "sudo goprof attach %d", pid);
	return no_process(pid);
}

/* The program's path, else the first word of its command line, else its short name. */
static char *program_name(int dir, const struct procfs_status *st, bool *is_path)
{
	char buf[PROCFS_SMALL];
	ssize_t n = readlinkat(dir, "exe", buf, sizeof(buf) - 1);

	*is_path = n > 0;
	if (n > 0)
		return strndup(buf, (size_t)n);
	n = procfs_read(dir, "cmdline", buf, sizeof(buf));
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
	if (!foreign_tracer(dir))
		return NULL;
	usleep(TRACER_WAIT_US);
	pid_t tracer = foreign_tracer(dir);
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
		return no_process(pid);
	return check_kind(pid, status, stat);
}

/*
 * Opens the memory and finds an address that is mapped. A main thread that has ended gives 0 bytes
 * everywhere; then the other threads are tried.
 */
static int open_mem_of(int dir, const char *mem, const char *maps, gaddr_t *addr)
{
	char first[256];
	uint64_t start, word;
	ssize_t n = procfs_read(dir, maps, first, sizeof(first));
	struct text t = { first, first + (n > 0 ? n : 0) };

	if (n < 0)
		return (int)n;
	if (!text_hex(&t, &start))
		return -ESRCH;
	int fd = openat(dir, mem, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (pread(fd, &word, sizeof(word), (off_t)start) == 0) {
		close(fd);
		return -ESRCH;
	}
	*addr = start;
	return fd;
}

static int open_mem(struct live *l)
{
	pid_t tids[64];
	size_t n = sizeof(tids) / sizeof(*tids);
	int fd = open_mem_of(l->dir_fd, "mem", "maps", &l->life_addr);

	if (fd != -ESRCH)
		return fd;
	_cleanup_error_ struct error *err = live_tids(&l->base, tids, &n);
	for (size_t i = 0; !err && i < n && i < sizeof(tids) / sizeof(*tids); i++) {
		char mem[32], maps[32];
		snprintf(mem, sizeof(mem), "task/%d/mem", tids[i]);
		snprintf(maps, sizeof(maps), "task/%d/maps", tids[i]);
		fd = open_mem_of(l->dir_fd, mem, maps, &l->life_addr);
		if (fd != -ESRCH)
			return fd;
	}
	return fd;
}

static struct error *open_files(struct live *l, const char *name)
{
	pid_t pid = l->base.pid;

	l->task_fd = openat(l->dir_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->task_fd < 0)
		return no_process(pid);
	l->mem_fd = open_mem(l);
	if (l->mem_fd == -EACCES || l->mem_fd == -EPERM)
		return refusal_error(pid, l->dir_fd, name, -l->mem_fd);
	if (l->mem_fd == -ESRCH || l->mem_fd == -ENOENT)
		return no_process(pid);
	if (l->mem_fd < 0)
		return error_new(ERROR_FACILITY, "cannot open the memory of %d (%s): %s", pid, name,
				 strerror(-l->mem_fd));
	l->base.exe_fd = openat(l->dir_fd, "exe", O_RDONLY | O_CLOEXEC);
	if (clock_getcpuclockid(pid, &l->cpu_clock))
		return no_process(pid);
	return NULL;
}

static void target_guard(struct live **l)
{
	if (*l)
		target_close(&(*l)->base);
}

struct error *target_open_live(pid_t pid, struct target **ret)
{
	_cleanup_close_ int dir = -1;
	struct procfs_status status;
	struct procfs_stat stat;
	bool is_path;
	struct error *err = open_dir(pid, &dir);

	if (!err)
		err = check_process(pid, dir, &status, &stat);
	if (err)
		return err;
	_cleanup_free_ char *name = program_name(dir, &status, &is_path);
	_cleanup_(target_guard) struct live *l = calloc(1, sizeof(*l));
	if (!name || !l)
		return &err_nomem;
	l->base = (struct target){ .ops = &live_ops, .arch = arch_host(), .pid = pid,
				   .start_time = stat.start_time, .exe_fd = -1 };
	l->task_fd = l->mem_fd = -1;
	l->dir_fd = take_fd(dir);
	l->same_ns = status.ns_depth <= 1;
	map64_init(&l->inner_of);
	map64_init(&l->outer_of);

	err = check_tracer(pid, l->dir_fd, name);
	if (!err)
		err = open_files(l, name);
	if (err)
		return err;
	l->base.exe_path = is_path ? take(name) : NULL;
	*ret = &take(l)->base;
	return NULL;
}
