/*
 * output_file.c: atomic files. The bytes go to a file without a name (O_TMPFILE) in the target's
 * directory, are synced, and get their name last: a reader sees the old file or the new one, and
 * a goprof that is killed leaves nothing. File systems without O_TMPFILE get a hidden name.
 *
 * Upstream: open(2) O_TMPFILE, linkat(2) AT_SYMLINK_FOLLOW with /proc/self/fd.
 */
#include "cmd/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cmd/refused.h"

static struct error *failed(const char *path, int number)
{
	return error_why(error_new(ERROR_OUTPUT, "cannot write %s", path), "%s", strerror(number));
}

/* The directory part: "." when there is none. */
static char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return strdup(".");
	return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* Of what is wrong with the directory, people want to know which one it is. */
static struct error *failed_in(const char *path, const char *dir, int number)
{
	_cleanup_(buf_deinit) struct buf word = { 0 };
	struct error *err = failed(path, number);

	if (number == EACCES)
		return error_why(err, "you may not write to %s", dir);
	if (number == ENOTDIR)
		return error_why(err, "%s is not a directory", dir);
	if (number != ENOENT)
		return err;
	buf_init(&word);
	shell_word_add(&word, dir);
	error_why(err, "there is no directory %s", dir);
	return buf_error(&word) ? err : error_todo(err, "mkdir -p %s", word.data);
}

/* The file being written: unnamed, or with a hidden name of its own. */
struct fresh {
	int fd;
	char *hidden;	/* NULL: it has no name yet */
};

static void fresh_deinit(struct fresh *f)
{
	if (f->hidden)
		unlink(f->hidden);
	free(f->hidden);
	if (f->fd >= 0)
		close(f->fd);
}

static bool no_tmpfile(int number)
{
	return number == EOPNOTSUPP || number == EISDIR || number == EINVAL || number == ENOENT;
}

static struct error *fresh_open(const char *path, struct fresh *f)
{
	_cleanup_free_ char *dir = directory_of(path);
	struct stat st;
	mode_t mask;

	if (!dir)
		return &err_nomem;
	if (stat(dir, &st) != 0)
		return failed_in(path, dir, errno);
	f->fd = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
	if (f->fd >= 0)
		return NULL;
	if (!no_tmpfile(errno))
		return failed_in(path, dir, errno);
	if (asprintf(&f->hidden, "%s/.goprof-XXXXXX", dir) < 0) {
		f->hidden = NULL;
		return &err_nomem;
	}
	f->fd = mkostemp(f->hidden, O_CLOEXEC);
	if (f->fd < 0) {
		int number = errno;

		free(take(f->hidden));
		return failed_in(path, dir, number);
	}
	mask = umask(022);
	umask(mask);
	(void)!fchmod(f->fd, 0666 & ~mask);
	return NULL;
}

/* A hidden name for an unnamed file, so that rename can replace what is there. */
static struct error *fresh_name(const char *path, struct fresh *f)
{
	_cleanup_free_ char *dir = directory_of(path);
	char self[64];

	if (!dir)
		return &err_nomem;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", f->fd);
	for (unsigned int i = 0; i < 100; i++) {
		_cleanup_free_ char *name = NULL;

		if (asprintf(&name, "%s/.goprof-%d-%u", dir, (int)getpid(), i) < 0) {
			name = NULL;
			return &err_nomem;
		}
		if (linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0) {
			f->hidden = take(name);
			return NULL;
		}
		if (errno != EEXIST)
			return failed(path, errno);
	}
	return failed(path, EEXIST);
}

/* Gives the file its name. */
static struct error *fresh_commit(const char *path, struct fresh *f, bool replace)
{
	struct error *err;
	char self[64];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", f->fd);
	if (!f->hidden && linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0)
		return NULL;
	if (f->hidden && link(f->hidden, path) == 0)
		return NULL;
	if (errno == EEXIST && !replace)
		return &err_notfound;
	if (errno != EEXIST && !f->hidden)
		return failed(path, errno);
	err = f->hidden ? NULL : fresh_name(path, f);
	if (err)
		return err;
	if (rename(f->hidden, path) != 0)
		return failed(path, errno);
	free(take(f->hidden));
	return NULL;
}

struct error *output_fd_write(int fd, const char *name, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed(name, errno);
		p += n;
		len -= (size_t)n;
	}
	return NULL;
}

/* A device, a pipe: something that has no content to be replaced. */
static bool is_special(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static struct error *write_special(const char *path, const void *data, size_t len)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return failed_in(path, "it", errno);
	return output_fd_write(fd, path, data, len);
}

struct error *output_file_check(const char *path)
{
	_cleanup_(fresh_deinit) struct fresh f = { .fd = -1 };
	struct stat st;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return error_todo(failed(path, EISDIR), "name a file in it: -o %s/%%e-%%t.pb.gz", path);
	if (is_special(path))
		return access(path, W_OK) == 0 ? NULL : failed_in(path, "it", errno);
	return fresh_open(path, &f);
}

struct error *output_file_write(const char *path, const void *data, size_t len, bool replace)
{
	_cleanup_(fresh_deinit) struct fresh f = { .fd = -1 };
	struct error *err;

	if (is_special(path))
		return write_special(path, data, len);
	err = fresh_open(path, &f);
	if (!err)
		err = output_fd_write(f.fd, path, data, len);
	if (!err && fsync(f.fd) != 0 && errno != EINVAL)
		err = failed(path, errno);
	return err ? err : fresh_commit(path, &f, replace);
}
