/*
 * cgroup.h: what a process's control groups do with it. Private to lib/target but for cgroup_own_cpu_quota.
 *
 * Control groups are looked for where they are mounted by custom: below `root`, which is /sys/fs/cgroup
 * (tests have their own). Whoever changes them the next moment is not seen. Upstream text: the kernel's
 * cgroup-v2.rst (cgroup.events, cpu.max), freezer-subsystem.rst, sched-bwc.rst.
 */
#ifndef GOPROF_TARGET_CGROUP_H
#define GOPROF_TARGET_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#define CGROUP_ROOT "/sys/fs/cgroup"

/* `proc`: descriptor of its folder under /proc. False also when nothing could be read. */
bool cgroup_is_frozen(int proc, const char *root);

/*
 * CPU time, in ns per second, that its groups grant it and those it shares them with: the least of the group
 * and all above it. 0: no limit, or none that could be read (a container does not see those above its own).
 */
uint64_t cgroup_cpu_quota(int proc, const char *root);
/* Of goprof itself. */
uint64_t cgroup_own_cpu_quota(void);

#endif
