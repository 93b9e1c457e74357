/*
 * The parsers of /proc texts: what the kernel writes, and what it never should.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "target/procfs.h"

static bool stat_of(const char *s, struct procfs_stat *st)
{
	return procfs_parse_stat(s, strlen(s), st);
}

static void stat_is_read_behind_any_name(void **state)
{
	struct procfs_stat st;

	(void)state;
	assert_true(stat_of("77 (a) Z 1 (b)) R 1 77 77 0 -1 4194304 10 0 0 0 5 6 0 0 20 0 13 0 987654 "
			    "1234567890 55 18446744073709551615 1 1 0\n", &st));
	assert_int_equal(st.state, 'R');
	assert_int_equal(st.flags, 4194304);
	assert_int_equal(st.threads, 13);
	assert_int_equal(st.start_time, 987654);
	assert_int_equal(st.vsize, 1234567890);
	assert_int_equal(st.cpu_ticks, 11);
}

static void broken_stat_is_refused(void **state)
{
	static const char *const texts[] = {
		"", "77", "77 (a", "77 (a)", "77 (a) R", "77 (a)R 1 2 3",
		"77 (a) R 1 77 77 0 -1 4194304 10 0 0 0 5 6 0 0 20 0 13 0",
		"77 (a) R 1 77 77 0 -1 x 10 0 0 0 5 6 0 0 20 0 13 0 987654 1",
		"77 (a) R 1 77 77 0 -1 99999999999999999999999 10 0 0 0 5 6 0 0 20 0 13 0 987654 1",
	};
	struct procfs_stat st = { .state = '?' };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_false(stat_of(texts[i], &st));
	assert_int_equal(st.state, '?');
}

static void status_fields_are_found(void **state)
{
	static const char text[] =
		"Name:\tweb server\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t4711\nNgid:\t0\n"
		"Pid:\t4712\nTracerPid:\t99\nUid:\t33\t34\t35\t36\nGid:\t1\t2\t3\t4\n"
		"Seccomp:\t2\nNSpid:\t4712\t29\t7\nCapPrm:\t000001ffffffffff\nCapEff:\t0000000000080000\n";
	struct procfs_status st;

	(void)state;
	assert_true(procfs_parse_status(text, sizeof(text) - 1, &st));
	assert_string_equal(st.name, "web server");
	assert_int_equal(st.seccomp, 2);
	assert_int_equal(st.tgid, 4711);
	assert_int_equal(st.tracer, 99);
	assert_int_equal(st.uid[0], 33);
	assert_int_equal(st.uid[3], 36);
	assert_int_equal(st.gid[2], 3);
	assert_int_equal(st.ns_depth, 3);
	assert_int_equal(st.ns_inner, 7);
	assert_int_equal(st.cap_permitted, 0x1ffffffffffull);
	assert_int_equal(st.cap_effective, 1 << 19);
}

static void broken_status_is_refused(void **state)
{
	static const char *const texts[] = {
		"", "Name:\tx\n", "Tgid:\t\n", "Tgid:\t4294967296\n", "Tgid:\t1\nUid:\t1\t2\t3\n",
		"Tgid:\t1\nNSpid:\t\n", "Tgid:\t1\nNSpid:\t99999999999\n", "Tgid:\t1\nCapPrm:\tzz\n",
	};
	struct procfs_status st;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_false(procfs_parse_status(texts[i], strlen(texts[i]), &st));
}

static void long_names_are_cut(void **state)
{
	struct procfs_status st;
	static const char text[] = "Name:\t01234567890123456789012345678901234567890\nTgid:\t1\n";

	(void)state;
	assert_true(procfs_parse_status(text, sizeof(text) - 1, &st));
	assert_int_equal(strlen(st.name), sizeof(st.name) - 1);
}

static void times_need_three_numbers(void **state)
{
	struct task_times t = { 1, 1, 1 };

	(void)state;
	assert_true(procfs_parse_times("18446744073709551615 22 333\n", 28, &t));
	assert_true(t.cpu_ns == UINT64_MAX);
	assert_int_equal(t.wait_ns, 22);
	assert_int_equal(t.slices, 333);
	assert_false(procfs_parse_times("1 2\n", 4, &t));
	assert_false(procfs_parse_times("18446744073709551616 2 3\n", 25, &t));
	assert_false(procfs_parse_times("", 0, &t));
	assert_int_equal(t.slices, 333);
}

/* A kernel without scheduler statistics: the thread's stat, whatever its name is. */
static void times_come_from_stat_as_well(void **state)
{
	static const char text[] = "77 (1 2 3) R 1 77 77 0 -1 4194304 10 0 0 0 5 6 0 0 20 0 13 0 987654 1234567890 55\n";
	struct task_times t = { 1, 1, 1 };

	(void)state;
	assert_true(procfs_parse_times(text, sizeof(text) - 1, &t));
	assert_int_equal(t.cpu_ns, 11 * PROCFS_TICK_NS);
	assert_int_equal(t.wait_ns, 0);
	assert_int_equal(t.slices, 0);
	assert_false(procfs_parse_times("77 (a) R 1\n", 11, &t));
}

static enum task_state call_of(const char *s, struct task_syscall *c)
{
	return procfs_parse_syscall(s, strlen(s), c);
}

static void syscall_file_has_three_forms(void **state)
{
	struct task_syscall c = { 0 };

	(void)state;
	assert_int_equal(call_of("running\n", &c), TASK_RUNNING);
	assert_int_equal(call_of("202 0x55d 0x80 0x0 0x0 0x0 0x0 0x7ffd1000 0x46e263\n", &c), TASK_BLOCKED);
	assert_int_equal(c.nr, 202);
	assert_int_equal(c.sp, 0x7ffd1000);
	assert_int_equal(c.pc, 0x46e263);
	assert_int_equal(call_of("-1 0x7ffd2000 0x401000\n", &c), TASK_BLOCKED);
	assert_int_equal(c.nr, -1);
	assert_int_equal(c.pc, 0x401000);
}

static void broken_syscall_file_is_no_thread(void **state)
{
	static const char *const texts[] = {
		"", "runn", "202", "202 0x1 0x2 0x3 0x4 0x5 0x6 0x7", "-1 0x5", "-1 0x0 0x0\n",
		"x 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8", "202 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x10000000000000000",
	};
	struct task_syscall c = { .nr = 5 };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_int_equal(call_of(texts[i], &c), TASK_GONE);
	assert_int_equal(c.nr, 5);
}

static struct error *maps_of(const char *s, struct mappings *ret)
{
	return procfs_parse_maps(strdup(s), strlen(s), ret);
}

static void maps_are_listed_and_searched(void **state)
{
	struct mappings m;

	(void)state;
	assert_null(maps_of(
		"00400000-00487000 r-xp 00001000 fd:01 1234                       /srv/my app (deleted)\n"
		"00487000-00500000 rw-p 00000000 00:00 0 \n"
		"7ffff7fc1000-7ffff7fc5000 r--s 00000000 00:00 0                          [vvar]\n"
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]", &m));
	assert_int_equal(m.n, 4);
	assert_string_equal(m.v[0].path, "/srv/my app (deleted)");
	assert_int_equal(m.v[0].flags, MAPPING_READ | MAPPING_EXEC);
	assert_int_equal(m.v[0].offset, 0x1000);
	assert_int_equal(m.v[0].inode, 1234);
	assert_true(m.v[0].dev != 0);
	assert_string_equal(m.v[1].path, "");
	assert_int_equal(m.v[1].dev, 0);
	assert_string_equal(m.v[3].path, "[vsyscall]");
	assert_null(mappings_find(&m, 0x3fffff));
	assert_ptr_equal(mappings_find(&m, 0x400000), &m.v[0]);
	assert_ptr_equal(mappings_find(&m, 0x486fff), &m.v[0]);
	assert_ptr_equal(mappings_find(&m, 0x487000), &m.v[1]);
	assert_null(mappings_find(&m, 0x500000));
	assert_ptr_equal(mappings_find(&m, 0xffffffffff600fff), &m.v[3]);
	assert_null(mappings_find(&m, UINT64_MAX));
	mappings_deinit(&m);
	assert_null(mappings_find(&m, 0x400000));
}

static void maps_stay_sorted(void **state)
{
	struct mappings m;

	(void)state;
	assert_null(maps_of("1000-3000 r--p 0 0:0 0\n" "2000-4000 r--p 0 0:0 0\n"
			    "1000-2000 r--p 0 0:0 0\n" "4000-5000 r--p 0 0:0 0\n", &m));
	assert_int_equal(m.n, 2);
	assert_int_equal(m.v[1].start, 0x4000);
	mappings_deinit(&m);
}

static void broken_maps_are_refused(void **state)
{
	static const char *const texts[] = {
		"\n", "1000", "1000-", "2000-1000 r--p 0 0:0 0\n", "1000-1000 r--p 0 0:0 0\n",
		"1000-2000 r-\n", "1000-2000 rrrp 0 0:0 0\n", "1000-2000 r--p 0 00 0\n",
		"1000-2000 r--p 0 0:0\n", "10000000000000000-2 r--p 0 0:0 0\n",
		"1000-2000 r--p 0 0:0 0\nx",
	};
	struct mappings m = { .n = 7 };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_ptr_equal(maps_of(texts[i], &m), &err_corrupt);
	assert_int_equal(m.n, 7);
	assert_null(maps_of("", &m));
	assert_int_equal(m.n, 0);
	mappings_deinit(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stat_is_read_behind_any_name),
		cmocka_unit_test(broken_stat_is_refused),
		cmocka_unit_test(status_fields_are_found),
		cmocka_unit_test(broken_status_is_refused),
		cmocka_unit_test(long_names_are_cut),
		cmocka_unit_test(times_need_three_numbers),
		cmocka_unit_test(times_come_from_stat_as_well),
		cmocka_unit_test(syscall_file_has_three_forms),
		cmocka_unit_test(broken_syscall_file_is_no_thread),
		cmocka_unit_test(maps_are_listed_and_searched),
		cmocka_unit_test(maps_stay_sorted),
		cmocka_unit_test(broken_maps_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
