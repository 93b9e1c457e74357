/*
 * The dispatch and typed reads of target.c, over the fake back end; and that the fake cuts, refuses
 * and changes as the live one does, since all other tests lean on it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fake/target_fake.h"

static int make(void **state)
{
	struct target *t;

	assert_null(target_fake_create(&t));
	*state = t;
	return 0;
}

static int unmake(void **state)
{
	target_close(*state);
	return 0;
}

static void reads_are_cut_where_memory_ends(void **state)
{
	struct target *t = *state;
	char a[8], b[8], c[8];
	struct span v[] = { { 0x1006, a, 8, 99 }, { 0x9000, b, 8, 99 }, { 0x1000, c, 8, 99 } };

	target_fake_add(t, 0x1000, "01234567", 8);
	target_fake_add(t, 0x1008, "89", 2);	/* follows without a gap */
	assert_null(target_read_v(t, v, 3));
	assert_int_equal(v[0].done, 4);
	assert_memory_equal(a, "6789", 4);
	assert_int_equal(v[1].done, 0);
	assert_int_equal(v[2].done, 8);
	assert_memory_equal(c, "01234567", 8);
	assert_int_equal(target_fake_reads(t), 3);
}

static void typed_reads_are_all_or_nothing(void **state)
{
	struct target *t = *state;
	uint64_t v64 = 1;
	uint32_t v32 = 1;

	target_fake_add(t, 0x1000, NULL, 16);
	target_fake_poke_u64(t, 0x1008, 0x1122334455667788);
	assert_null(target_read_u64(t, 0x1008, &v64));
	assert_true(v64 == 0x1122334455667788);
	assert_null(target_read_u32(t, 0x100c, &v32));
	assert_int_equal(v32, 0x11223344);
	assert_ptr_equal(target_read_u64(t, 0x100c, &v64), &err_fault);
	assert_ptr_equal(target_read_u32(t, 0x2000, &v32), &err_fault);
	assert_true(v64 == 0x1122334455667788);
	assert_int_equal(v32, 0x11223344);
	target_fake_remove(t, 0x1000);
	assert_ptr_equal(target_read_u64(t, 0x1008, &v64), &err_fault);
}

static void a_dead_process_is_gone(void **state)
{
	struct target *t = *state;
	uint64_t v;
	pid_t tids[4];
	size_t n = 4;

	target_fake_add(t, 0x1000, NULL, 16);
	target_fake_set_life(t, TARGET_EXECED);
	assert_int_equal(target_life(t), TARGET_EXECED);
	assert_ptr_equal(target_read_u64(t, 0x1000, &v), &err_gone);
	target_fake_set_life(t, TARGET_ENDED);
	assert_ptr_equal(target_tids(t, tids, &n), &err_gone);
	assert_false(target_cpu_ns(t, &v));
}

static void threads_have_ids_and_files(void **state)
{
	struct target *t = *state;
	struct task *k;
	struct task_times times;
	struct task_syscall call;
	pid_t tids[1];
	size_t n = 1;

	target_fake_add_tid(t, 100, 1);
	target_fake_add_tid(t, 101, 2);
	assert_null(target_tids(t, tids, &n));
	assert_int_equal(n, 2);
	assert_int_equal(target_tid_from_inner(t, 2), 101);
	assert_int_equal(target_tid_from_inner(t, 3), -1);
	assert_ptr_equal(task_open(t, 102, &k), &err_gone);
	assert_null(task_open(t, 101, &k));
	target_fake_task(t, 101, "101 (go) R 1 1 1 0 -1 64 10 0 0 0 30 12 0 0 20 0 1 0 9 8 7\n", "running\n");
	assert_true(task_read_times(k, &times));
	assert_true(times.cpu_ns == 420000000);
	target_fake_task(t, 101, "7 8 9\n", "-1 0x10 0x20\n");
	assert_true(task_read_times(k, &times));
	assert_int_equal(times.slices, 9);
	assert_int_equal(task_read_syscall(k, &call), TASK_BLOCKED);
	assert_int_equal(call.pc, 0x20);
	target_fake_remove_tid(t, 101);
	assert_false(task_read_times(k, &times));
	assert_int_equal(task_read_syscall(k, &call), TASK_GONE);
	assert_int_equal(task_tid(k), 101);
	task_close(k);
}

static void mappings_are_the_callers(void **state)
{
	struct target *t = *state;
	struct mappings m;

	target_fake_map(t, 0x8000, 0x9000, 0, MAPPING_READ, "");
	target_fake_map(t, 0x1000, 0x2000, 0x1000, MAPPING_READ | MAPPING_EXEC, "/srv/app");
	assert_null(target_mappings(t, &m));
	target_fake_map(t, 0x3000, 0x4000, 0, MAPPING_READ, "later");
	assert_int_equal(m.n, 2);
	assert_string_equal(m.v[0].path, "/srv/app");
	assert_int_equal(m.v[1].start, 0x8000);
	mappings_deinit(&m);
}

static void change_word(void *ctx, struct target *t, const struct span *s)
{
	target_fake_poke_u64(t, s->addr, ++*(uint64_t *)ctx);
}

static void memory_may_change_under_a_read(void **state)
{
	struct target *t = *state;
	uint64_t count = 0, v = 0;

	target_fake_add(t, 0x1000, NULL, 16);
	target_fake_on_read(t, change_word, &count);
	assert_null(target_read_u64(t, 0x1000, &v));
	assert_null(target_read_u64(t, 0x1000, &v));
	assert_int_equal(v, 2);
}

static void the_program_has_a_file(void **state)
{
	struct target *t = *state;
	int fd = -1;

	assert_ptr_equal(target_exe_fd(t, &fd), &err_notfound);
	assert_string_equal(target_exe_path(t), "");
	target_fake_set_exe(t, "/proc/self/exe");
	target_fake_set_pid(t, 42, 4242);
	assert_null(target_exe_fd(t, &fd));
	assert_true(fd >= 0);
	assert_string_equal(target_exe_path(t), "/proc/self/exe");
	assert_int_equal(target_pid(t), 42);
	assert_int_equal(target_start_time(t), 4242);
	assert_string_equal(target_arch(t)->name, "amd64");
	target_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(reads_are_cut_where_memory_ends, make, unmake),
		cmocka_unit_test_setup_teardown(typed_reads_are_all_or_nothing, make, unmake),
		cmocka_unit_test_setup_teardown(a_dead_process_is_gone, make, unmake),
		cmocka_unit_test_setup_teardown(threads_have_ids_and_files, make, unmake),
		cmocka_unit_test_setup_teardown(mappings_are_the_callers, make, unmake),
		cmocka_unit_test_setup_teardown(memory_may_change_under_a_read, make, unmake),
		cmocka_unit_test_setup_teardown(the_program_has_a_file, make, unmake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
