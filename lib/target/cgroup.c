/* cgroup.c: see cgroup.h. Two versions of control groups, which a machine may use side by side. */
#include "target/cgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/procfs.h"

/* Text of a file below a folder; false when there is none. */
static bool read_file(const char *mount, const char *folder, const char *name, char *buf, size_t cap)
{
	char path[PROCFS_SMALL];
	int len = snprintf(path, sizeof(path), "%s%s/%s", mount, folder, name);

	return len > 0 && (size_t)len < sizeof(path) && procfs_read(AT_FDCWD, path, buf, cap) > 0;
}

/* ---- frozen? ---- */

static bool frozen_v2(const char *mount, const char *folder)
{
	char buf[256];

	return read_file(mount, folder, "cgroup.events", buf, sizeof(buf)) && strstr(buf, "frozen 1");
}

static bool frozen_v1(const char *mount, const char *folder)
{
	char buf[256];

	return read_file(mount, folder, "freezer.state", buf, sizeof(buf)) && strstr(buf, "FROZEN");
}

/* ---- how much CPU time? ---- */

static bool number_in(const char *mount, const char *folder, const char *name, uint64_t *ret)
{
	char buf[64];
	struct text t = { buf, buf };

	if (!read_file(mount, folder, name, buf, sizeof(buf)))
		return false;
	t.end = buf + strlen(buf);
	return text_dec(&t, ret);	/* not -1, which is no limit */
}

static uint64_t per_second(uint64_t quota_us, uint64_t period_us)
{
	if (!quota_us || !period_us || quota_us > UINT64_MAX / NSEC_PER_SEC)
		return 0;
	return quota_us * NSEC_PER_SEC / period_us;
}

/* "50000 100000", or "max 100000". */
static uint64_t quota_v2(const char *mount, const char *folder)
{
	uint64_t quota, period;
	char buf[64];
	struct text t = { buf, buf };

	if (!read_file(mount, folder, "cpu.max", buf, sizeof(buf)))
		return 0;
	t.end = buf + strlen(buf);
	return text_dec(&t, &quota) && text_dec(&t, &period) ? per_second(quota, period) : 0;
}

static uint64_t quota_v1(const char *mount, const char *folder)
{
	uint64_t quota, period;

	return number_in(mount, folder, "cpu.cfs_quota_us", &quota) &&
	       number_in(mount, folder, "cpu.cfs_period_us", &period) ? per_second(quota, period) : 0;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

/* Of a folder and all above it. */
static uint64_t least_quota(const char *mount, char *folder, uint64_t (*quota)(const char *, const char *))
{
	uint64_t least = quota(mount, "");

	for (char *end; *folder; *end = 0) {
		least = lesser(least, quota(mount, folder));
		end = strrchr(folder, '/');
	}
	return least;
}

/* ---- where its groups are ---- */

/* What is wanted of a version of control groups, and where that is mounted below the root. */
struct place {
	const char *controllers;	/* as /proc/PID/cgroup has them; "" is version 2 */
	const char *mount;
};

/* "0::/a/b", "3:cpu,cpuacct:/a/b": the folder, or NULL. */
static char *folder_behind(char *line, const char *controllers)
{
	char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
	size_t len = strlen(controllers);

	if (!path || (size_t)(path - names - 1) != len || memcmp(names + 1, controllers, len))
		return NULL;
	/* A way up leads out of what can be seen. */
	return path[1] != '/' || strstr(path + 1, "/..") ? NULL : path + 1;
}

/* Calls f for each place that the process has a group in, until that says enough. */
static void each_place(int proc, const char *root, const struct place *v, size_t n,
		       bool (*f)(void *ctx, const struct place *place, const char *mount, char *folder), void *ctx)
{
	char buf[PROCFS_SMALL], *rest = NULL;

	if (procfs_read(proc, "cgroup", buf, sizeof(buf)) <= 0)
		return;
	for (char *line = strtok_r(buf, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		for (size_t i = 0; i < n; i++) {
			char mount[256], copy[PROCFS_SMALL];
			const char *folder = folder_behind(line, v[i].controllers);

			if (!folder)
				continue;
			snprintf(mount, sizeof(mount), "%s%s", root, v[i].mount);
			snprintf(copy, sizeof(copy), "%s", strcmp(folder, "/") ? folder : "");
			if (f(ctx, &v[i], mount, copy))
				return;
		}
	}
}

static bool find_frozen(void *ctx, const struct place *place, const char *mount, char *folder)
{
	bool *ret = ctx;

	*ret = place->controllers[0] ? frozen_v1(mount, folder) : frozen_v2(mount, folder);
	return *ret;
}

bool cgroup_is_frozen(int proc, const char *root)
{
	static const struct place places[] = { { "", "" }, { "", "/unified" }, { "freezer", "/freezer" } };
	bool ret = false;

	each_place(proc, root, places, sizeof(places) / sizeof(*places), find_frozen, &ret);
	return ret;
}

static bool find_quota(void *ctx, const struct place *place, const char *mount, char *folder)
{
	uint64_t *ret = ctx;

	*ret = lesser(*ret, least_quota(mount, folder, place->controllers[0] ? quota_v1 : quota_v2));
	return false;
}

uint64_t cgroup_cpu_quota(int proc, const char *root)
{
	static const struct place places[] = {
		{ "", "" }, { "", "/unified" }, { "cpu", "/cpu" }, { "cpu,cpuacct", "/cpu,cpuacct" },
		{ "cpu,cpuacct", "/cpu" }, { "cpuacct,cpu", "/cpu" },
	};
	uint64_t ret = 0;

	each_place(proc, root, places, sizeof(places) / sizeof(*places), find_quota, &ret);
	return ret;
}

uint64_t cgroup_own_cpu_quota(void)
{
	int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t ret = proc < 0 ? 0 : cgroup_cpu_quota(proc, CGROUP_ROOT);

	if (proc >= 0)
		close(proc);
	return ret;
}
