/*
 * live_standstill.c: does a process stand still as a whole, and by whom? People who attach to one that is
 * stopped or frozen see no CPU time at all, and should be told why.
 *
 * Only for words: whoever freezes it the next moment is not seen.
 */
#include "target/cgroup.h"
#include "target/live.h"

enum target_standstill target_standstill(const struct target *t)
{
	const struct live *l = (const struct live *)t;
	struct procfs_stat st;

	if (procfs_stat_at(l->dir_fd, "stat", &st) && st.state == 'T')
		return TARGET_STOPPED;
	return cgroup_is_frozen(l->dir_fd, CGROUP_ROOT) ? TARGET_FROZEN : TARGET_MOVES;
}
