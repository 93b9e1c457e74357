/*
 * live_files.c: the file behind a mapping of a live process.
 *
 * A path names a file in the target's root, and perhaps another one by now; the links of
 * /proc/PID/map_files lead to the very file that is mapped, deleted or not, but only the privileged
 * may follow them. So the path is the second way, and what is found by it is believed only if it is
 * that file: by device and inode, or, where file systems show two device numbers for one file
 * (overlay, btrfs), by inode and by the bytes of the mapping. Nothing but regular files is opened.
 * Must not know ELF.
 *
 * Upstream text: proc(5) "map_files"; d_path in fs/d_path.c; proc_map_files_get_link in
 * fs/proc/base.c (CAP_SYS_ADMIN, since Linux 5.9 CAP_CHECKPOINT_RESTORE).
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "target/live.h"
#include "target/regular.h"

enum { COMPARED = 4096 };

/* Are the first bytes of the mapping those of the file? Only memory that nobody has written tells. */
static bool same_bytes(const struct live *l, const struct mapping *m, int fd)
{
	uint8_t file[COMPARED], memory[COMPARED];
	ssize_t n;

	if (m->flags & MAPPING_WRITE)
		return false;
	n = pread(fd, file, sizeof(file), (off_t)m->offset);
	if (n <= 0)
		return false;
	_cleanup_error_ struct error *err = target_read(&l->base, m->start, memory, (size_t)n);
	return !err && memcmp(file, memory, (size_t)n) == 0;
}

static int open_map_file(const struct live *l, const struct mapping *m)
{
	_cleanup_close_ int fd = -1;
	char name[64];
	struct stat st;

	snprintf(name, sizeof(name), "map_files/%llx-%llx", (unsigned long long)m->start,
		 (unsigned long long)m->end);
	fd = open_regular(l->dir_fd, name, &st);
	/* The range may have been mapped anew since the list was read. */
	if (fd < 0 || (st.st_ino != m->inode && !same_bytes(l, m, fd)))
		return -1;
	return take_fd(fd);
}

static int open_by_path(const struct live *l, const struct mapping *m)
{
	_cleanup_close_ int root = -1;
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (m->path[0] != '/')
		return -1;
	root = openat(l->dir_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -1;
	fd = open_regular(root, m->path + strspn(m->path, "/"), &st);
	if (fd < 0 || st.st_ino != m->inode)
		return -1;
	if (st.st_dev != m->dev && !same_bytes(l, m, fd))
		return -1;
	return take_fd(fd);
}

struct error *live_mapping_fd(const struct target *t, const struct mapping *m, int *ret)
{
	const struct live *l = (const struct live *)t;
	int fd;

	if (m->inode == 0)
		return &err_notfound;
	fd = open_map_file(l, m);
	if (fd < 0)
		fd = open_by_path(l, m);
	if (fd < 0)
		return &err_notfound;
	*ret = fd;
	return NULL;
}
