/*
 * target_cgroup.c: what control groups say, in folders as both versions of them have.
 */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "target/cgroup.h"

struct place {
	char dir[32];
	int fd;		/* stands for /proc/PID */
};

static int setup(void **state)
{
	struct place *p = test_calloc(1, sizeof(*p));

	strcpy(p->dir, "/tmp/goprof-cgroup-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	p->fd = open(p->dir, O_RDONLY | O_DIRECTORY);
	assert_true(p->fd >= 0);
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct place *p = *state;
	char command[64];

	close(p->fd);
	snprintf(command, sizeof(command), "rm -r %s", p->dir);
	assert_int_equal(system(command), 0);
	test_free(p);
	return 0;
}

/* A file below the place, and the folders that lead to it. */
static void put(const struct place *p, const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	for (char *at = path + strlen(p->dir) + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		mkdir(path, 0700);
		*at = '/';
	}
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void least_quota_on_the_way_up_counts(void **state)
{
	struct place *p = *state;

	put(p, "cgroup", "0::/a/b/c\n");
	assert_int_equal(cgroup_cpu_quota(p->fd, p->dir), 0);
	put(p, "a/b/c/cpu.max", "max 100000\n");
	assert_int_equal(cgroup_cpu_quota(p->fd, p->dir), 0);
	put(p, "a/cpu.max", "50000 100000\n");
	assert_int_equal(cgroup_cpu_quota(p->fd, p->dir), NSEC_PER_SEC / 2);
	put(p, "a/b/cpu.max", "150000 100000\n");
	assert_int_equal(cgroup_cpu_quota(p->fd, p->dir), NSEC_PER_SEC / 2);
	put(p, "a/b/c/cpu.max", "2000 10000\n");
	assert_int_equal(cgroup_cpu_quota(p->fd, p->dir), NSEC_PER_SEC / 5);
	/* In a container its own group is the root of all that it sees. */
	put(p, "cgroup", "0::/\n");
	put(p, "cpu.max", "300000 100000\n");
	assert_int_equal(cgroup_cpu_quota(p->fd, p->dir), 3ll * NSEC_PER_SEC);
}

static void old_groups_have_two_files(void **state)
{
	struct place *p = *state;

	put(p, "cgroup", "9:name=systemd:/x\n4:cpu,cpuacct:/a\n3:cpuset:/b\n0::/\n");
	put(p, "cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
	put(p, "cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
	assert_int_equal(cgroup_cpu_quota(p->fd, p->dir), 0);
	put(p, "cpu,cpuacct/a/cpu.cfs_quota_us", "25000\n");
	assert_int_equal(cgroup_cpu_quota(p->fd, p->dir), NSEC_PER_SEC / 4);
}

static void nonsense_is_no_limit(void **state)
{
	static const char *const lists[] = {
		"", "\n", "0\n", "0:\n", "0::\n", "0::a\n", "0::/../a\n", "0::/a/../../a\n", ":::/a\n", "x",
	};
	static const char *const limits[] = {
		"", "\n", "max\n", "0 0\n", "50000 0\n", "-1 100000\n", "99999999999999999999999 1\n", "18446744073709551615 1\n",
	};
	struct place *p = *state;

	put(p, "a/cpu.max", "50000 100000\n");
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		put(p, "cgroup", lists[i]);
		assert_int_equal(cgroup_cpu_quota(p->fd, p->dir), 0);
	}
	put(p, "cgroup", "0::/a\n");
	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		put(p, "a/cpu.max", limits[i]);
		assert_int_equal(cgroup_cpu_quota(p->fd, p->dir), 0);
	}
}

static void frozen_is_told_by_either_version(void **state)
{
	struct place *p = *state;

	put(p, "cgroup", "6:freezer:/f\n0::/u\n");
	assert_false(cgroup_is_frozen(p->fd, p->dir));
	put(p, "freezer/f/freezer.state", "THAWED\n");
	put(p, "u/cgroup.events", "populated 1\nfrozen 0\n");
	assert_false(cgroup_is_frozen(p->fd, p->dir));
	put(p, "u/cgroup.events", "populated 1\nfrozen 1\n");
	assert_true(cgroup_is_frozen(p->fd, p->dir));
	put(p, "u/cgroup.events", "populated 1\nfrozen 0\n");
	put(p, "freezer/f/freezer.state", "FROZEN\n");
	assert_true(cgroup_is_frozen(p->fd, p->dir));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(least_quota_on_the_way_up_counts),
		T(old_groups_have_two_files),
		T(nonsense_is_no_limit),
		T(frozen_is_told_by_either_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
