/*
 * core_file.c: what a core file says and how it is believed: memory from the core or from the very
 * file that was mapped, threads, mappings, and every way in which a file is no core or a damaged
 * one (core_proof.c: which files are believed). The cores are written by hand (fake/core_fake.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/core_world.h"

static size_t read_some(const struct target *t, gaddr_t addr, void *buf, size_t len)
{
	struct span s = { .addr = addr, .buf = buf, .len = len };

	assert_null(target_read_v(t, &s, 1));
	return s.done;
}

/* ---- memory ---- */

static void test_memory(void **state)
{
	struct world *w = *state;
	uint8_t buf[2 * PAGE];
	struct target *t;

	as_kernel(w);
	core_fake_piece(&w->core, STACK + PAGE, w->stack, 0x10, PAGE, PF_R | PF_W);
	t = open_core(w);
	assert_null(facts_of(t).exe_why);

	/* Held, then from the file; and not beyond the mapping. */
	assert_int_equal(read_some(t, PROGRAM_TEXT + 0x7f0, buf, sizeof(buf)), 0x810);
	assert_memory_equal(buf, w->program + 0x7f0, 0x810);
	/* Data that may have been changed is not taken from the file. */
	assert_int_equal(read_some(t, PROGRAM_DATA, buf, 8), 0);
	/* From one piece into the next, up to what that one holds. */
	assert_int_equal(read_some(t, STACK + PAGE - 8, buf, 64), 8 + 0x10);
	assert_memory_equal(buf, w->stack + PAGE - 8, 8);
	assert_memory_equal(buf + 8, w->stack, 0x10);
	assert_int_equal(read_some(t, STACK - 1, buf, 8), 0);
	assert_int_equal(read_some(t, UINT64_MAX - 4, buf, 8), 0);
	assert_ptr_equal(target_read(t, STACK + 2 * PAGE, buf, 1), &err_fault);
	target_close(t);
}

/* gcore leaves pieces out that stand in files: the file's own headers tell what nobody can have changed. */
static void test_memory_of_files(void **state)
{
	struct world *w = *state;
	uint8_t buf[PAGE];
	struct target *t;

	core_fake_aux(&w->core, AT_ENTRY, PROGRAM_TEXT + 0x900);
	core_fake_file(&w->core, PROGRAM_TEXT, PROGRAM_TEXT + PAGE, 0, w->name);
	core_fake_file(&w->core, PROGRAM_DATA, PROGRAM_DATA + PAGE, 1, w->name);
	core_fake_piece(&w->core, PROGRAM_TEXT, w->program, 0x400, 0x400, PF_R | PF_X);
	core_fake_piece(&w->core, PROGRAM_TEXT + 0xf00, w->stack, 0x10, 0x10, PF_R | PF_X);
	t = open_core(w);
	assert_int_equal(read_some(t, PROGRAM_TEXT + 0x800, buf, PAGE), 0x800);
	assert_memory_equal(buf, w->program + 0x800, 0x700);
	assert_memory_equal(buf + 0x700, w->stack, 0x10);	/* what the core holds goes before the file */
	assert_memory_equal(buf + 0x710, w->program + 0xf10, 0xf0);
	assert_int_equal(read_some(t, PROGRAM_DATA, buf, 8), 0);
	target_close(t);
}

static void test_cut(void **state)
{
	struct world *w = *state;
	struct target *t = NULL;
	uint8_t buf[PAGE];
	uint64_t size;
	int fd;

	as_kernel(w);
	fd = core_fake_write(&w->core, &size);
	assert_int_equal(ftruncate(fd, (off_t)size - 0x400), 0);
	assert_null(open_fd(fd, NULL, &t));
	assert_int_equal(facts_of(t).missing_bytes, 0x400);
	assert_int_equal(facts_of(t).bytes, 0x800 + PAGE);
	assert_int_equal(read_some(t, STACK, buf, PAGE), PAGE - 0x400);
	assert_int_equal(read_some(t, STACK + PAGE - 0x400, buf, 8), 0);
	target_close(t);
	close(fd);
}

static void test_overlap(void **state)
{
	struct world *w = *state;
	struct target *t;
	uint8_t byte;

	as_kernel(w);
	core_fake_piece(&w->core, STACK + 8, w->program, PAGE, PAGE, PF_R);
	core_fake_piece(&w->core, UINT64_MAX - 8, w->program, 16, 16, PF_R);
	t = open_core(w);
	assert_int_equal(facts_of(t).skipped, 2);
	assert_int_equal(read_some(t, STACK + 16, &byte, 1), 1);
	assert_int_equal(byte, w->stack[16]);
	target_close(t);
}

/* ---- threads ---- */

static void test_threads(void **state)
{
	struct world *w = *state;
	pid_t tids[2] = { 0 };
	struct regs r;
	struct task *k;
	size_t n = 1;
	uint64_t ns;
	struct target *t;

	as_kernel(w);
	core_fake_thread(&w->core, PID, 1, 1);		/* twice: the first one counts */
	core_fake_thread(&w->core, -1, 1, 1);
	core_fake_note(&w->core, "CORE", NT_PRSTATUS, "short", 5);
	core_fake_note(&w->core, "LINUX", NT_PRSTATUS, "of another owner", 16);
	t = open_core(w);
	assert_true(target_is_core(t));
	assert_int_equal(target_pid(t), PID);
	assert_null(target_tids(t, tids, &n));
	assert_int_equal(n, 2);
	assert_int_equal(tids[0], PID);
	assert_int_equal(tids[1], 0);			/* there was no room */
	assert_true(target_thread_regs(t, PID + 1, &r));
	assert_true(r.pc == 0x400456 && r.sp == STACK + 0x200 && r.syscall_nr == -1);
	assert_false(target_thread_regs(t, PID + 2, &r));
	assert_int_equal(facts_of(t).threads, 2);
	assert_int_equal(facts_of(t).skipped, 3);
	assert_ptr_equal(task_open(t, PID, &k), &err_gone);
	assert_int_equal(target_life(t), TARGET_ALIVE);
	assert_false(target_cpu_ns(t, &ns));
	target_close(t);
}

/* Ids of another namespace are told apart from a thread that is not there. */
static void test_foreign_threads(void **state)
{
	struct world *w = *state;
	struct target *t;

	as_kernel(w);
	t = open_core(w);
	assert_false(facts_of(t).foreign_tids);		/* nobody has asked */
	assert_int_equal(target_tid_from_inner(t, 7), -1);
	assert_int_equal(target_tid_from_inner(t, -1), -1);
	assert_true(facts_of(t).foreign_tids);
	assert_int_equal(target_tid_from_inner(t, PID + 1), PID + 1);
	assert_false(facts_of(t).foreign_tids);
	target_close(t);
}

/* ---- mappings ---- */

static void test_mappings(void **state)
{
	struct world *w = *state;
	const gaddr_t vdso = 0x7fff00000000;
	struct mappings maps;
	struct stat st, of;
	struct target *t;
	int fd;

	as_kernel(w);
	core_fake_aux(&w->core, AT_SYSINFO_EHDR, vdso);
	core_fake_piece(&w->core, vdso, NULL, 0, PAGE, PF_R | PF_X);
	core_fake_file(&w->core, STACK + 0x800, STACK + PAGE + 0x800, 2, "/no/such/file");
	t = open_core(w);
	assert_null(target_mappings(t, &maps));
	assert_int_equal(maps.n, 5);
	assert_int_equal(stat(w->name, &st), 0);
	assert_true(maps.v[0].start == PROGRAM_TEXT && maps.v[0].end == PROGRAM_TEXT + PAGE);
	assert_int_equal(maps.v[0].flags, MAPPING_READ | MAPPING_EXEC);
	assert_true(maps.v[0].dev == st.st_dev && maps.v[0].inode == st.st_ino && maps.v[0].offset == 0);
	assert_string_equal(maps.v[0].path, w->name);
	assert_int_equal(maps.v[1].offset, PAGE);
	assert_int_equal(maps.v[1].flags, MAPPING_READ | MAPPING_WRITE);
	/* A piece that a file covers from its middle on: the part before is anonymous. */
	assert_true(maps.v[2].start == STACK && maps.v[2].end == STACK + 0x800 && !maps.v[2].inode);
	assert_true(maps.v[3].start == STACK + 0x800 && maps.v[3].offset == 2 * PAGE && maps.v[3].inode);
	assert_string_equal(maps.v[3].path, "/no/such/file");
	assert_string_equal(maps.v[4].path, "[vdso]");
	assert_null(target_mapping_fd(t, &maps.v[0], &fd));
	assert_int_equal(fstat(fd, &of), 0);
	assert_int_equal(of.st_ino, st.st_ino);
	close(fd);
	assert_ptr_equal(target_mapping_fd(t, &maps.v[2], &fd), &err_notfound);
	assert_ptr_equal(target_mapping_fd(t, &maps.v[3], &fd), &err_notfound);
	mappings_deinit(&maps);
	target_close(t);
}

/* ---- no core, or a damaged one ---- */

static void refuse_bytes(const void *bytes, size_t len, enum error_kind kind, const char *why)
{
	int fd = write_file(bytes, len);
	struct target *t = NULL;
	struct error *err = open_fd(fd, NULL, &t);

	assert_non_null(err);
	assert_int_equal(err->kind, kind);
	if (!strstr(err->why ? err->why : err->what, why))
		fail_msg("\"%s\", \"%s\": not about \"%s\"", err->what, err->why, why);
	error_free(err);
	close(fd);
}

static void refuse_core(const struct core_fake *c, enum error_kind kind, const char *why)
{
	int fd = core_fake_write(c, NULL);
	struct target *t = NULL;
	struct error *err = open_fd(fd, NULL, &t);

	assert_non_null(err);
	assert_int_equal(err->kind, kind);
	if (!strstr(err->why ? err->why : err->what, why))
		fail_msg("\"%s\", \"%s\": not about \"%s\"", err->what, err->why, why);
	error_free(err);
	close(fd);
}

static void test_no_core(void **state)
{
	struct world *w = *state;
	struct target *t = NULL;
	struct error *err;

	refuse_bytes("", 0, ERROR_NOT_FOUND, "empty");
	refuse_bytes("hello", 5, ERROR_NOT_FOUND, "not an ELF file");
	refuse_bytes("\x1f\x8b\x08", 3, ERROR_NOT_FOUND, "gzip");
	refuse_bytes("\x28\xb5\x2f\xfd....", 8, ERROR_NOT_FOUND, "zstd");
	refuse_bytes(w->program, sizeof(w->program), ERROR_NOT_FOUND, "a program");
	refuse_bytes("\x7f" "ELF\1\1\1\0........................", 32, ERROR_UNSUPPORTED, "64-bit");
	refuse_bytes("\x7f" "ELF\2\1\1\0........................", 32, ERROR_CORRUPT, "cut off");
	err = target_open_core("/", NULL, &t);
	assert_int_equal(err->kind, ERROR_NOT_FOUND);
	assert_string_equal(err->why, "it is a directory");
	error_free(err);
	err = target_open_core("/no/such/core", NULL, &t);
	assert_int_equal(err->kind, ERROR_NO_PROCESS);
	error_free(err);
}

static void test_damaged_header(void **state)
{
	struct world *w = *state;
	struct core_fake *c = &w->core;

	as_kernel(w);
	c->header.e_machine = EM_AARCH64;
	refuse_core(c, ERROR_UNSUPPORTED, "amd64");
	c->header.e_machine = EM_X86_64;
	c->header.e_phentsize = 1;
	refuse_core(c, ERROR_CORRUPT, "contradicts");
	c->header.e_phentsize = sizeof(Elf64_Phdr);
	c->header.e_phoff = UINT64_MAX - 7;
	refuse_core(c, ERROR_CORRUPT, "cut off or damaged");
}

static void test_many_headers(void **state)
{
	struct world *w = *state;
	struct target *t;
	uint8_t byte;

	as_kernel(w);
	w->core.xnum = true;
	t = open_core(w);
	assert_int_equal(read_some(t, STACK + 5, &byte, 1), 1);
	assert_int_equal(byte, 5);
	target_close(t);
}

/* Sizes in notes that lead outside, and counts of files that are not there. */
static void test_damaged_notes(void **state)
{
	static const uint64_t too_many[] = { 1000, 4096, 0x1000, 0x2000, 0 };
	static const uint64_t wraps[] = { 1, UINT64_MAX, 0x1000, 0x2000, 3, 'x' };
	static const uint64_t no_path[] = { 1, 4096, 0x1000, 0x2000, 0 };
	static const struct {
		const void *bytes;
		size_t len;
	} files[] = { { too_many, sizeof(too_many) }, { wraps, sizeof(wraps) }, { no_path, sizeof(no_path) }, { "", 1 } };
	const Elf64_Nhdr endless = { .n_namesz = UINT32_MAX, .n_descsz = UINT32_MAX, .n_type = NT_PRSTATUS };

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct core_fake c;
		struct target *t = NULL;
		int fd;

		core_fake_init(&c);
		core_fake_thread(&c, PID, 1, 1);
		core_fake_note(&c, "CORE", NT_FILE, files[i].bytes, files[i].len);
		buf_add(&c.notes, &endless, sizeof(endless));
		core_fake_piece(&c, ANON, "x", 1, 1, PF_R);
		fd = core_fake_write(&c, NULL);
		assert_null(open_fd(fd, NULL, &t));
		assert_int_equal(facts_of(t).threads, 1);
		assert_true(facts_of(t).skipped >= 2);
		target_close(t);
		close(fd);
		core_fake_deinit(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_memory_of_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(test_overlap, setup, teardown),
		cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
		cmocka_unit_test_setup_teardown(test_foreign_threads, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mappings, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_core, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged_header, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_headers, setup, teardown),
		cmocka_unit_test(test_damaged_notes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
