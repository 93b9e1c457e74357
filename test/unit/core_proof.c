/*
 * core_proof.c: which of the files that a core names are believed to be those that were mapped, and
 * that nothing else is touched.
 */
#include <sys/inotify.h>

#include "unit/core_world.h"

static void assert_refused(const struct world *w, const uint8_t *program, size_t len, const char *why)
{
	char path[32];
	int core = core_fake_write(&w->core, NULL), exe = write_file(program, len);
	struct target *t = NULL;
	struct error *err = open_fd(core, core_fake_path(exe, path), &t);

	assert_non_null(err);
	assert_int_equal(err->kind, ERROR_USAGE);
	assert_non_null(strstr(err->why, why));
	assert_null(t);
	error_free(err);
	close(core);
	close(exe);
}

static void assert_taken(const struct world *w, const uint8_t *program)
{
	char path[32];
	int core = core_fake_write(&w->core, NULL), exe = write_file(program, PROGRAM_SIZE), fd;
	struct stat given, used;
	struct target *t = NULL;

	assert_null(open_fd(core, core_fake_path(exe, path), &t));
	assert_null(target_exe_fd(t, &fd));
	assert_true(fstat(exe, &given) == 0 && fstat(fd, &used) == 0);
	assert_int_equal(given.st_ino, used.st_ino);
	target_close(t);
	close(core);
	close(exe);
}

static void test_given_program(void **state)
{
	struct world *w = *state;
	uint8_t other[PROGRAM_SIZE];

	as_kernel(w);
	assert_taken(w, w->program);
	program_fake(other, "one", 0x5000);		/* with the section headers that strip takes away */
	assert_taken(w, other);
	program_fake(other, "two", 0);
	assert_refused(w, other, sizeof(other), "another file");
	assert_refused(w, (const uint8_t *)"text", 4, "not a program");
	assert_refused(w, w->program, 70, "not a program");
}

/* Without the notes in the core the headers must do. */
static void test_given_program_by_headers(void **state)
{
	struct world *w = *state;
	uint8_t other[PROGRAM_SIZE];

	as_kernel(w);
	w->core.pieces[0].filesz = 0x200;
	program_fake(other, "two", 0x5000);
	assert_taken(w, other);
	other[0x18] ^= 1;				/* e_entry */
	assert_refused(w, other, sizeof(other), "another file");
	other[0x18] ^= 1;
	other[64 + 56 + 8] ^= 1;			/* an offset in a program header */
	assert_refused(w, other, sizeof(other), "another file");
	w->core.pieces[0].filesz = 0;
	assert_refused(w, w->program, sizeof(w->program), "first bytes");
}

enum { OTHER_PROPERTY = 5 };

/* Notes that all programs of a distribution have in common prove nothing; a build id of Go does. */
static void test_notes_in_common(void **state)
{
	static const struct {
		const char *owner;
		uint32_t type;
		bool proves;
	} notes[] = {
		{ "GNU", NT_GNU_ABI_TAG, false }, { "GNU", OTHER_PROPERTY, false }, { "GNU", 4, false },
		{ "Go", 4, true }, { "Go", NT_GNU_BUILD_ID, false }, { "GNU", NT_GNU_BUILD_ID, true },
	};
	struct world *w = *state;
	uint8_t other[PROGRAM_SIZE];

	as_kernel(w);
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
		Elf64_Nhdr *h = (Elf64_Nhdr *)(w->program + 0x200);

		h->n_type = notes[i].type;
		memset(h + 1, 0, 4);
		memcpy(h + 1, notes[i].owner, strlen(notes[i].owner));
		memcpy(other, w->program, sizeof(other));
		assert_taken(w, other);
		other[0x18] ^= 1;			/* e_entry */
		if (notes[i].proves)
			assert_taken(w, other);
		else
			assert_refused(w, other, sizeof(other), "another file");
	}
	/* Nor does the header, where the core does not hold it. */
	w->core.pieces[0].addr += 0x200;
	w->core.pieces[0].bytes = w->program + 0x200;
	w->core.pieces[0].filesz = 0x200;
	w->core.pieces[0].memsz -= 0x200;
	assert_taken(w, other);
	((Elf64_Nhdr *)(w->program + 0x200))->n_type = NT_GNU_ABI_TAG;
	assert_refused(w, w->program, sizeof(w->program), "first bytes");
}

static void assert_no_program(const struct world *w, const char *why)
{
	struct target *t = open_core(w);
	int fd;

	assert_ptr_equal(target_exe_fd(t, &fd), &err_notfound);
	assert_non_null(facts_of(t).exe_why);
	assert_non_null(strstr(facts_of(t).exe_why, why));
	target_close(t);
}

/* To open a device can have effects of its own: what is no file is not opened, not even for a moment. */
static void assert_not_opened(const struct world *w, const char *why)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	struct inotify_event event;

	assert_true(fd >= 0);
	assert_true(inotify_add_watch(fd, w->name, IN_OPEN) >= 0);
	assert_no_program(w, why);
	assert_int_equal(read(fd, &event, sizeof(event)), -1);
	close(fd);
}

static void test_named_program(void **state)
{
	struct world *w = *state;
	uint8_t other[PROGRAM_SIZE];
	int fd;

	as_kernel(w);
	program_fake(other, "another build", 0);
	fd = open(w->name, O_WRONLY | O_TRUNC);
	assert_int_equal(write(fd, other, sizeof(other)), sizeof(other));
	close(fd);
	assert_no_program(w, "another file");
	unlink(w->name);
	assert_no_program(w, "no such file");
	assert_int_equal(mkfifo(w->name, 0600), 0);
	assert_not_opened(w, "not a program");
	w->core.auxv[1] = 0x123;
	assert_no_program(w, "which file");
	w->core.n_files = 0;
	assert_no_program(w, "which files");
}

static bool has_file(const struct target *t, gaddr_t start)
{
	struct mappings maps;
	bool found = false;
	int fd;

	assert_null(target_mappings(t, &maps));
	for (size_t i = 0; i < maps.n; i++)
		if (maps.v[i].start == start && !target_mapping_fd(t, &maps.v[i], &fd)) {
			found = true;
			close(fd);
		}
	mappings_deinit(&maps);
	return found;
}

/* Spellings of one path are as many files, and a core may name a million of them. */
static void test_many_files(void **state)
{
	enum { FILES = 5000, EARLY = 10, LATE = FILES - 1, SLASHES = 100 };
	const gaddr_t at = 0x10000000;
	struct world *w = *state;
	char slashes[SLASHES];
	struct target *t;
	struct buf b;

	memset(slashes, '/', sizeof(slashes));
	buf_init(&b);
	buf_add(&b, (uint64_t[]){ FILES, 1 }, 16);
	for (uint64_t i = 0; i < FILES; i++)
		buf_add(&b, (uint64_t[]){ at + i * PAGE, at + (i + 1) * PAGE, 0 }, 24);
	for (uint64_t i = 0; i < FILES; i++) {
		buf_addf(&b, "%.*stmp%.*s%s%s", (int)(1 + i % SLASHES), slashes, (int)(1 + i / SLASHES), slashes,
			 w->name + strlen("/tmp/"), i == EARLY || i == LATE ? "" : "-none");
		buf_addc(&b, 0);
	}
	core_fake_thread(&w->core, PID, 1, 1);
	core_fake_note(&w->core, "CORE", NT_FILE, b.data, b.len);
	core_fake_piece(&w->core, at + EARLY * PAGE, w->program, PAGE, PAGE, PF_R);
	core_fake_piece(&w->core, at + LATE * PAGE, w->program, PAGE, PAGE, PF_R);
	buf_deinit(&b);
	t = open_core(w);
	assert_int_equal(facts_of(t).skipped, 0);
	assert_true(has_file(t, at + EARLY * PAGE));
	assert_false(has_file(t, at + LATE * PAGE));
	target_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_given_program, setup, teardown),
		cmocka_unit_test_setup_teardown(test_given_program_by_headers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_notes_in_common, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_named_program, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
