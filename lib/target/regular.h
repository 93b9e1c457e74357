/*
 * regular.h: regular files by names that nobody vouches for.
 */
#ifndef GOPROF_TARGET_REGULAR_H
#define GOPROF_TARGET_REGULAR_H

#include <sys/stat.h>

/*
 * Opens `path`, relative to the folder `dir` (AT_FDCWD: the current one), for reading if it is a
 * regular file; *st is filled then. The caller closes it. -1 with errno otherwise; EINVAL: it is
 * no regular file. Such a thing is not opened, not even for a moment: with a device or a pipe that
 * alone can have effects. Needs /proc.
 */
int open_regular(int dir, const char *path, struct stat *st);

#endif
