/*
 * live_threads.c: the threads of a live process: their ids, their ids as the process itself sees
 * them, and their files.
 *
 * A Go runtime inside a container keeps the ids of its own pid namespace. The last number of the
 * line NSpid is that id; reading it costs some 10 microseconds a thread, so it is read once for
 * each. Upstream text: proc_pid_status and proc_task_readdir in fs/proc.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "target/live.h"

enum { TID_NAME = 16, TIDS_MAX = 1 << 22 };

static pid_t parse_tid(const char *name)
{
	struct text t = { name, name + strlen(name) };
	uint64_t v;

	return text_dec(&t, &v) && t.p == t.end && v <= INT32_MAX ? (pid_t)v : 0;
}

static size_t collect_tids(const char *buf, size_t len, pid_t *tids, size_t cap, size_t n)
{
	for (size_t at = 0; at < len;) {
		const struct dirent64 *d = (const struct dirent64 *)(buf + at);
		pid_t tid = parse_tid(d->d_name);

		if (tid > 0 && n < cap)
			tids[n] = tid;
		n += tid > 0;
		at += d->d_reclen;
	}
	return n;
}

struct error *live_tids(const struct target *t, pid_t *tids, size_t *n)
{
	const struct live *l = (const struct live *)t;
	/* A file description of its own: its position is not shared with other threads of ours. */
	_cleanup_close_ int fd = openat(l->task_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char buf[8192] __attribute__((aligned(8)));
	size_t found = 0;
	ssize_t r;

	if (fd < 0)
		return &err_gone;
	while ((r = getdents64(fd, buf, sizeof(buf))) > 0)
		found = collect_tids(buf, (size_t)r, tids, *n, found);
	if (found == 0)
		return &err_gone;
	*n = found;
	return NULL;
}

/* "TID/file" */
static void task_file(char buf[TID_NAME + 16], pid_t tid, const char *file)
{
	snprintf(buf, TID_NAME + 16, "%d/%s", tid, file);
}

struct error *live_task_open(const struct target *t, pid_t tid, struct task **ret)
{
	const struct live *l = (const struct live *)t;
	char path[TID_NAME + 16];

	task_file(path, tid, t->times_step_ns ? "stat" : "schedstat");
	_cleanup_close_ int times = openat(l->task_fd, path, O_RDONLY | O_CLOEXEC);
	if (times < 0)
		return errno == EMFILE || errno == ENFILE ? &err_nomem : &err_gone;
	task_file(path, tid, "syscall");
	_cleanup_close_ int call = openat(l->task_fd, path, O_RDONLY | O_CLOEXEC);
	if (call < 0)
		return errno == EMFILE || errno == ENFILE ? &err_nomem : &err_gone;
	return task_create(tid, take_fd(times), take_fd(call), ret);
}

bool live_thread_name(const struct target *t, pid_t tid, char *buf, size_t cap)
{
	const struct live *l = (const struct live *)t;
	char path[TID_NAME + 16];
	ssize_t n;

	task_file(path, tid, "comm");
	_cleanup_close_ int fd = openat(l->task_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, buf, cap - 1);
	if (n <= 0)
		return false;
	buf[n] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	return true;
}

char live_tid_state(const struct target *t, pid_t tid)
{
	const struct live *l = (const struct live *)t;
	char path[TID_NAME + 16];
	struct procfs_stat st;

	task_file(path, tid, "stat");
	return procfs_stat_at(l->task_fd, path, &st) ? st.state : 0;
}

/* ---- ids in the target's own namespace ---- */

static bool thread_exists(const struct live *l, pid_t tid)
{
	char name[TID_NAME];

	snprintf(name, sizeof(name), "%d", tid);
	return faccessat(l->task_fd, name, F_OK, 0) == 0;
}

static pid_t read_inner(const struct live *l, pid_t tid)
{
	char path[TID_NAME + 16];
	struct procfs_status st;

	task_file(path, tid, "status");
	if (!procfs_status_at(l->task_fd, path, &st) || !st.ns_depth)
		return -1;
	return st.ns_inner;
}

/* All ids at this moment, in memory of their own. */
static struct error *all_tids(const struct target *t, pid_t **ret, size_t *ret_n)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t cap = 64, n = 0;

	while (cap < TIDS_MAX) {
		free(tids);
		tids = malloc(cap * sizeof(*tids));
		if (!tids)
			return &err_nomem;
		n = cap;
		struct error *err = live_tids(t, tids, &n);
		if (err)
			return err;
		if (n <= cap)
			break;
		cap = n + n / 4;
	}
	*ret_n = n < cap ? n : cap;
	*ret = take(tids);
	return NULL;
}

/* Builds both maps anew: known threads keep what was read of them, ended ones fall out. */
static struct error *refresh_inner(struct live *l)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n;
	struct map64 inner_of, outer_of;
	struct error *err = all_tids(&l->base, &tids, &n);

	if (err)
		return err;
	map64_init(&inner_of);
	map64_init(&outer_of);
	for (size_t i = 0; i < n && !err; i++) {
		uint32_t inner = map64_get(&l->inner_of, (uint64_t)tids[i]);
		if (inner == MAP_NONE)
			inner = (uint32_t)read_inner(l, tids[i]);
		if ((pid_t)inner <= 0)
			continue;
		err = map64_put(&inner_of, (uint64_t)tids[i], inner);
		if (!err)
			err = map64_put(&outer_of, inner, (uint32_t)tids[i]);
	}
	map64_deinit(&l->inner_of);
	map64_deinit(&l->outer_of);
	l->inner_of = inner_of;
	l->outer_of = outer_of;
	return err;
}

pid_t live_tid_from_inner(struct target *t, pid_t inner)
{
	struct live *l = (struct live *)t;

	if (inner <= 0)
		return -1;
	if (l->same_ns)
		return thread_exists(l, inner) ? inner : -1;
	uint32_t outer = map64_get(&l->outer_of, (uint64_t)inner);
	if (outer != MAP_NONE && thread_exists(l, (pid_t)outer))
		return (pid_t)outer;
	_cleanup_error_ struct error *err = refresh_inner(l);
	if (err)
		return -1;
	outer = map64_get(&l->outer_of, (uint64_t)inner);
	return outer == MAP_NONE ? -1 : (pid_t)outer;
}
