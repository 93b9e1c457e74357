/*
 * lock.c: a lock file per process and user, see lock.h.
 *
 * The name says which process: its pid namespace, its pid in there, and its start time; so the name
 * is the same from inside and outside of a container, and never that of a later process. The lock is
 * flock(2) on the open file: the kernel gives it up at any death of its holder, and a file that was
 * left behind means nothing. Files are taken away by the holder, or by the next goprof that finds
 * them unlocked; so whoever has got a lock looks whether its file still has its name.
 *
 * The folder is ours: owned by our user, open to nobody else, no symbolic link. One that somebody has
 * put in its place is not used. Must not know which commands lock.
 *
 * Upstream text: flock(2), open(2) O_NOFOLLOW, file-hierarchy(7).
 */
#include "target/lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "target/live.h"

enum { LOCK_NAME = 96, TRIES = 20, SWEPT_MOST = 256, BELIEVED_AFTER = 3, SWEEPER_US = 1000, WRITER_US = 5000 };

static const char suffix[] = ".lock";

struct target_lock {
	int folder, fd;
	char name[LOCK_NAME];
};

/* ---- the folder ---- */

static bool is_ours(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077);
}

/* -1: not to be had, or not safe. */
static int open_folder(const char *path)
{
	if (mkdir(path, 0700) && errno != EEXIST)
		return -1;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || !is_ours(fd))
		return -1;
	return take_fd(fd);
}

/* The first that can be had; each user's goprofs go the same way and so come to the same place. */
static int find_folder(const char *runtime_dir)
{
	char paths[4][256];
	unsigned uid = geteuid();
	size_t n = 0;

	if (uid == 0)
		snprintf(paths[n++], sizeof(*paths), "/run/goprof");
	else
		snprintf(paths[n++], sizeof(*paths), "/run/user/%u/goprof", uid);
	if (runtime_dir && runtime_dir[0] == '/' && strlen(runtime_dir) < sizeof(*paths) - 16)
		snprintf(paths[n++], sizeof(*paths), "%.200s/goprof", runtime_dir);
	snprintf(paths[n++], sizeof(*paths), "/tmp/goprof-%u", uid);
	for (size_t i = 0; i < n; i++) {
		int fd = open_folder(paths[i]);

		if (fd >= 0)
			return fd;
	}
	return -1;
}

/* ---- one file ---- */

/* The file that is open here still has this name: nobody has taken it away meanwhile. */
static bool has_its_name(int folder, const char *name, int fd)
{
	struct stat open_one, named;

	return !fstat(fd, &open_one) && !fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) &&
	       open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

/* 0 and a locked descriptor; EWOULDBLOCK and one to read from; another errno. */
static int lock_file(int folder, const char *name, int flags, int *ret)
{
	for (int i = 0; i < TRIES; i++) {
		_cleanup_close_ int fd = openat(folder, name, flags | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);

		if (fd < 0)
			return errno;
		if (flock(fd, LOCK_EX | LOCK_NB)) {
			int errnum = errno;

			/* A sweep holds what it takes away for a moment. */
			if (errnum == EWOULDBLOCK && i < BELIEVED_AFTER) {
				usleep(SWEEPER_US);
				continue;
			}
			*ret = take_fd(fd);
			return errnum;
		}
		if (!has_its_name(folder, name, fd))
			continue;
		*ret = take_fd(fd);
		return 0;
	}
	return EAGAIN;
}

/* Takes away what dead goprofs left. A lock in use is not touched, as it cannot be had. */
static void sweep(int folder)
{
	DIR *dir = fdopendir(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	const struct dirent *d;

	for (int i = 0; dir && i < SWEPT_MOST && (d = readdir(dir)); i++) {
		_cleanup_close_ int fd = -1;
		size_t len = strlen(d->d_name);

		if (len < sizeof(suffix) || strcmp(d->d_name + len - (sizeof(suffix) - 1), suffix))
			continue;
		if (lock_file(folder, d->d_name, 0, &fd) == 0)
			unlinkat(folder, d->d_name, 0);
	}
	if (dir)
		closedir(dir);
}

/* Numbers of processes mean something within one pid namespace only. */
static uint64_t own_pid_ns(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : (uint64_t)st.st_ino;
}

/* "PID NAMESPACE": its holder's pid, which may be the last holder's; 0: not written, or of another namespace. */
static pid_t read_holder(int fd)
{
	for (int i = 0; i < TRIES; i++) {
		char buf[48] = "";
		struct text t = { buf, buf };
		uint64_t pid, ns;
		ssize_t n = pread(fd, buf, sizeof(buf) - 1, 0);

		t.end += n > 0 ? n : 0;
		if (text_dec(&t, &pid) && pid <= INT32_MAX && text_dec(&t, &ns) && text_char(&t, '\n'))
			return ns == own_pid_ns() ? (pid_t)pid : 0;
		usleep(WRITER_US);
	}
	return 0;
}

static void write_holder(int fd)
{
	char buf[48];
	int n = snprintf(buf, sizeof(buf), "%d %llu\n", getpid(), (unsigned long long)own_pid_ns());

	/* It only makes the refusal of others more helpful. */
	if (ftruncate(fd, 0) || pwrite(fd, buf, (size_t)n, 0) < 0)
		log_info("lock", "cannot write into the lock file: %s", strerror(errno));
}

static struct error *held_by(pid_t pid, pid_t holder)
{
	struct error *err = error_new(ERROR_TRACED, "cannot attach to %d: another goprof records it already", pid);

	if (!holder)
		return error_why(err, "one recording of a process at a time; that goprof cannot be seen "
				 "from here (it may be in another container)");
	return error_todo(error_why(err, "one recording of a process at a time; that is goprof's pid %d", holder),
			  "kill -INT %d    ends that one and writes its profile", holder);
}

static bool is_dead(pid_t pid)
{
	return kill(pid, 0) && errno == ESRCH;
}

/*
 * As lock_file. A lock that is in use and names a dead process is about to be taken away by a sweep, or its
 * new holder has not written its name yet: that is waited for. *holder is 0 when nobody can be named.
 */
static int lock_or_holder(int folder, const char *name, int *fd, pid_t *holder)
{
	for (int i = 0; ; i++) {
		int r = lock_file(folder, name, O_CREAT, fd);

		if (r != EWOULDBLOCK || *fd < 0)
			return r;
		*holder = read_holder(*fd);
		bool dead = *holder && is_dead(*holder);
		if (*holder && !dead)
			return r;
		*holder = 0;
		if (!dead || i == TRIES)
			return r;
		close(*fd);
		*fd = -1;
	}
}

static struct error *take_in(int folder, const char *name, pid_t pid, struct target_lock **ret)
{
	struct target_lock *l = calloc(1, sizeof(*l));
	pid_t holder = 0;
	int r;

	if (!l)
		return &err_nomem;
	*l = (struct target_lock){ .folder = folder, .fd = -1 };
	snprintf(l->name, sizeof(l->name), "%s%s", name, suffix);
	sweep(folder);
	r = lock_or_holder(folder, l->name, &l->fd, &holder);
	if (r == 0) {
		write_holder(l->fd);
		*ret = l;
		return NULL;
	}
	struct error *err = r == EWOULDBLOCK && l->fd >= 0 ? held_by(pid, holder) : NULL;
	if (!err)
		log_info("lock", "no lock for %d: %s", pid, strerror(r));
	if (l->fd >= 0)
		close(l->fd);
	free(l);
	return err;
}

struct error *lock_take_in(const char *path, const char *name, pid_t pid, struct target_lock **ret)
{
	int folder = open_folder(path);

	*ret = NULL;
	if (folder < 0)
		return NULL;
	struct error *err = take_in(folder, name, pid, ret);
	if (!*ret)
		close(folder);
	return err;
}

struct error *target_lock_take(const struct target *t, const char *runtime_dir, struct target_lock **ret)
{
	const struct live *l = (const struct live *)t;
	struct procfs_status status;
	struct stat ns = { 0 };
	char name[LOCK_NAME];
	int folder = find_folder(runtime_dir);

	*ret = NULL;
	if (folder < 0) {
		log_info("lock", "no safe place for a lock file");
		return NULL;
	}
	/* Namespaces that cannot be read are all 0: the start time still tells processes apart. */
	if (fstatat(l->dir_fd, "ns/pid", &ns, 0))
		ns.st_ino = 0;
	pid_t inner = procfs_status_at(l->dir_fd, "status", &status) && status.ns_inner ? status.ns_inner : t->pid;
	snprintf(name, sizeof(name), "%llu-%d-%llu", (unsigned long long)ns.st_ino, inner,
		 (unsigned long long)t->start_time);
	struct error *err = take_in(folder, name, t->pid, ret);
	if (!*ret)
		close(folder);
	return err;
}

void target_lock_free(struct target_lock *l)
{
	if (!l)
		return;
	/* While it is still locked: whoever waits for it then finds it nameless and makes its own. */
	unlinkat(l->folder, l->name, 0);
	close(l->fd);
	close(l->folder);
	free(l);
}
