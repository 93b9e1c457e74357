/*
 * regular.c: a file is looked at through a descriptor that does not open it (O_PATH), and what was
 * looked at, not what the name leads to by then, is opened. Must not know whose file it is.
 *
 * Upstream text: open(2) "O_PATH"; proc(5) "/proc/pid/fd".
 */
#include "target/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"

int open_regular(int dir, const char *path, struct stat *st)
{
	_cleanup_close_ int seen = openat(dir, path, O_PATH | O_CLOEXEC);
	char name[32];

	if (seen < 0 || fstat(seen, st) != 0)
		return -1;
	if (!S_ISREG(st->st_mode)) {
		errno = EINVAL;
		return -1;
	}
	snprintf(name, sizeof(name), "/proc/self/fd/%d", seen);
	return open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}
