/*
 * live_standstill.c: does a process stand still as a whole, and by whom? People who attach to one that is
 * stopped or frozen see no CPU time at all, and should be told why.
 *
 * Only for words: whoever freezes it the next moment is not seen. Cgroups are looked for where they are
 * mounted by custom. Upstream text: proc(5), "cgroup"; the kernel's cgroup-v2.rst (cgroup.events) and
 * freezer-subsystem.rst.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "target/live.h"

/* "0::/a/b" of version 2, "6:freezer:/a/b" of version 1: the folder, or NULL. */
static const char *folder_behind(const char *line, const char *controller)
{
	const char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
	size_t len = strlen(controller);

	if (!path || (size_t)(path - names - 1) != len || memcmp(names + 1, controller, len))
		return NULL;
	return path + 1;
}

static bool file_says(const char *root, const char *folder, const char *name, const char *text)
{
	char path[PROCFS_SMALL], buf[256];
	int len = snprintf(path, sizeof(path), "%s%s/%s", root, folder, name);

	return len > 0 && (size_t)len < sizeof(path) &&
	       procfs_read(AT_FDCWD, path, buf, sizeof(buf)) > 0 && strstr(buf, text);
}

static bool is_frozen(const struct live *l)
{
	char buf[PROCFS_SMALL], *rest = NULL;
	const char *folder;

	if (procfs_read(l->dir_fd, "cgroup", buf, sizeof(buf)) <= 0)
		return false;
	for (const char *line = strtok_r(buf, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		folder = folder_behind(line, "");
		if (folder && (file_says("/sys/fs/cgroup", folder, "cgroup.events", "frozen 1") ||
			       file_says("/sys/fs/cgroup/unified", folder, "cgroup.events", "frozen 1")))
			return true;
		folder = folder_behind(line, "freezer");
		if (folder && file_says("/sys/fs/cgroup/freezer", folder, "freezer.state", "FROZEN"))
			return true;
	}
	return false;
}

enum target_standstill target_standstill(const struct target *t)
{
	const struct live *l = (const struct live *)t;
	struct procfs_stat st;

	if (procfs_stat_at(l->dir_fd, "stat", &st) && st.state == 'T')
		return TARGET_STOPPED;
	return is_frozen(l) ? TARGET_FROZEN : TARGET_MOVES;
}
