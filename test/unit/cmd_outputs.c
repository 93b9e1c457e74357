/*
 * What leaves goprof and under which name: patterns, formats by name, atomic files, numbering,
 * names that must not be overwritten, refused directories, held stdout, and windows of a real
 * store through the exporters to files on disk.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cmd/output_file.h"
#include "cmd/output_format.h"
#include "cmd/output_name.h"
#include "cmd/output_writer.h"
#include "cmd/outputs.h"
#include "sentry/sentry.h"
#include "unit/cmd_place.h"

static void ok(struct error *err)
{
	if (err)
		fail_msg("%s: %s", err->what, err->why ? err->why : "");
}

static void fails(struct error *err, enum error_kind kind, const char *what)
{
	_cleanup_error_ struct error *owned = err;

	assert_non_null(owned);
	assert_int_equal(owned->kind, kind);
	assert_string_equal(owned->what, what);
}

static size_t content(const char *path, char *buf, size_t cap)
{
	_cleanup_fclose_ FILE *f = fopen(path, "r");
	size_t n;

	assert_non_null(f);
	n = fread(buf, 1, cap - 1, f);
	buf[n] = 0;
	return n;
}

/* Everything in the working directory, sorted, joined by spaces. */
static const char *listing(char *buf, size_t cap)
{
	struct dirent **v;
	int n = scandir(".", &v, NULL, alphasort);

	buf[0] = 0;
	for (int i = 0; i < n; i++) {
		if (strcmp(v[i]->d_name, ".") != 0 && strcmp(v[i]->d_name, "..") != 0) {
			strncat(buf, buf[0] ? " " : "", cap - strlen(buf) - 1);
			strncat(buf, v[i]->d_name, cap - strlen(buf) - 1);
		}
		free(v[i]);
	}
	free(v);
	return buf;
}

/* ---- names ---- */

static const struct output_names names = {
	.program = "app", .pid = 4711, .start_real = UINT64_C(1795961703) * NSEC_PER_SEC,
};

static void test_patterns(void **state)
{
	static const struct {
		const char *pattern, *name;
		bool numbered;
	} v[] = {
		{ "x.pb.gz", "x.pb.gz", false },
		{ "%e-%t.pb.gz", "app-20261129-141503.pb.gz", false },
		{ "%p/%n.envelope", "4711/3.envelope", true },
		{ "100%%-%n", "100%-3", true },
		{ "%%n", "%n", false },
		{ "", "", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		_cleanup_free_ char *name = NULL;
		bool numbered;

		ok(output_pattern_expand(v[i].pattern, &names, 3, &name, &numbered));
		assert_string_equal(name, v[i].name);
		assert_int_equal(numbered, v[i].numbered);
	}
	fails(output_pattern_check("a%z.pb.gz"), ERROR_OUTPUT, "'%z' in 'a%z.pb.gz' is unknown");
	fails(output_pattern_check("a%"), ERROR_OUTPUT, "'%' in 'a%' is unknown");
	fails(output_pattern_check("%%%"), ERROR_OUTPUT, "'%' in '%%%' is unknown");
}

static void test_hostile_program_name(void **state)
{
	struct output_names evil = { .program = "../a\n\033b", .pid = 1 };
	_cleanup_free_ char *name = NULL;
	bool numbered;

	(void)state;
	ok(output_pattern_expand("%e.pb.gz", &evil, 1, &name, &numbered));
	assert_string_equal(name, ".._a__b.pb.gz");
}

static void test_numbers(void **state)
{
	_cleanup_free_ char *a = output_numbered("x.envelope", ".envelope", 2);
	_cleanup_free_ char *b = output_numbered("d.e/x", ".envelope", 12);
	_cleanup_free_ char *c = output_numbered(".envelope", ".envelope", 2);

	(void)state;
	assert_string_equal(a, "x.2.envelope");
	assert_string_equal(b, "d.e/x.12");
	assert_string_equal(c, ".envelope.2");
}

static void test_formats(void **state)
{
	static const struct {
		const char *spec;
		const struct output_format *format;
		const char *path;
	} v[] = {
		{ "a.pb.gz", &output_pprof, "a.pb.gz" }, { "a.pprof", &output_pprof, "a.pprof" },
		{ "d/a.envelope", &output_envelope, "d/a.envelope" },
		{ "pprof:a.txt", &output_pprof, "a.txt" }, { "envelope:-", &output_envelope, "-" },
		{ "envelope:a.pb.gz", &output_envelope, "a.pb.gz" }, { "-", &output_pprof, "-" },
	};
	const struct output_format *f = NULL;
	const char *path = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		ok(output_format_of(v[i].spec, &f, &path));
		assert_ptr_equal(f, v[i].format);
		assert_string_equal(path, v[i].path);
	}
	f = NULL;
	fails(output_format_of("a.json", &f, &path), ERROR_OUTPUT,
	      "-o a.json: the name does not tell the format");
	fails(output_format_of("pprof:", &f, &path), ERROR_OUTPUT,
	      "-o pprof:: the name does not tell the format");
	assert_null(f);
}

/* ---- files ---- */

static void test_atomic_file(void **state)
{
	char text[64];
	struct stat st;

	(void)state;
	umask(022);
	ok(output_file_write("a", "one", 3, false));
	content("a", text, sizeof(text));
	assert_string_equal(text, "one");
	assert_int_equal(stat("a", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	assert_true(output_file_write("a", "two", 3, false) == &err_notfound);
	content("a", text, sizeof(text));
	assert_string_equal(text, "one");
	ok(output_file_write("a", "three", 5, true));
	content("a", text, sizeof(text));
	assert_string_equal(text, "three");
	assert_string_equal(listing(text, sizeof(text)), "a");	/* nothing is left behind */
}

/* A reader that has the old file open keeps it whole. */
static void test_reader_of_the_old_file(void **state)
{
	_cleanup_close_ int fd = -1;
	char text[8] = "";

	(void)state;
	ok(output_file_write("a", "old", 3, true));
	fd = open("a", O_RDONLY | O_CLOEXEC);
	ok(output_file_write("a", "newer", 5, true));
	assert_int_equal(read(fd, text, sizeof(text)), 3);
	assert_string_equal(text, "old");
}

static void causes(struct error *got, const char *why, const char *todo)
{
	_cleanup_error_ struct error *err = got;

	assert_non_null(err);
	assert_string_equal(err->why, why);
	if (todo)
		assert_string_equal(err->todo, todo);
	else
		assert_null(err->todo);
}

static void test_special_files(void **state)
{
	(void)state;
	ok(output_file_check("/dev/null"));
	ok(output_file_write("/dev/null", "x", 1, true));
	assert_int_equal(mkdir("d", 0700), 0);
	fails(output_file_check("d"), ERROR_OUTPUT, "cannot write d");
	fails(output_file_check("nowhere/a"), ERROR_OUTPUT, "cannot write nowhere/a");
	fails(output_file_check("d/../nowhere/a"), ERROR_OUTPUT, "cannot write d/../nowhere/a");
	causes(output_file_check("no where/a"), "there is no directory no where", "mkdir -p 'no where'");
	assert_int_equal(close(open("f", O_CREAT | O_WRONLY, 0600)), 0);
	causes(output_file_check("f/a"), "f is not a directory", NULL);
	assert_int_equal(unlink("f"), 0);
	causes(output_file_write("/dev/full", "x", 1, true), strerror(ENOSPC), NULL);
	if (geteuid() != 0) {	/* root may write everywhere */
		assert_int_equal(chmod("d", 0500), 0);
		causes(output_file_check("d/a"), "you may not write to d", NULL);
		assert_int_equal(chmod("d", 0700), 0);
	}
	ok(output_file_check("d/a"));
	assert_int_equal(access("d/a", F_OK), -1);
	assert_int_equal(rmdir("d"), 0);	/* the trial left nothing */
}

static void test_full_disk(void **state)
{
	(void)state;
	fails(output_file_write("/dev/full", "x", 1, true), ERROR_OUTPUT, "cannot write /dev/full");
}

/* ---- a store to export from ---- */

static uint64_t fake_now = 1000 * UINT64_C(1000000000);

static uint64_t fake_mono(const struct clock *c)
{
	(void)c;
	return fake_now;
}

static uint64_t fake_real(const struct clock *c)
{
	(void)c;
	return names.start_real + fake_now;
}

static const struct clock fake_clock = { .mono = fake_mono, .real = fake_real, .boot = fake_mono };

static struct profile *store(void)
{
	struct profile_meta meta = {
		.program = "app", .exe = "/srv/app", .command = "run", .pid = 4711, .go_version = "go1.26.10",
		.main_module = "example.com/app", .main_path = "example.com/app", .server_name = "host",
		.os_name = "Linux", .os_version = "6.1", .arch = "amd64", .goprof_version = "0", .rate_hz = 101,
	};
	struct profile *p;

	ok(profile_create(&fake_clock, &meta, &p));
	return p;
}

static profile_id string(struct profile *p, const char *s)
{
	profile_id id;

	ok(profile_string(p, s, strlen(s), &id));
	return id;
}

/* A window in which goroutine 1 stood in one function at each of n ticks. */
static struct window *window(struct profile *p, unsigned int n)
{
	struct profile_frame f = {
		.function = string(p, "main.work"), .module = string(p, "main"), .name = string(p, "work"),
		.file = string(p, "example.com/app/main.go"), .abs_path = string(p, "/src/main.go"), .line = 7,
	};
	struct profile_track_info info = { .key = 1, .entry = string(p, "runtime.main") };
	struct profile_ref ref;
	struct window *w;
	profile_id frame, stack;

	ok(profile_frame(p, &f, &frame));
	ok(profile_stack(p, &frame, 1, PROFILE_STACK_COMPLETE, &stack));
	for (unsigned int i = 0; i < n; i++, fake_now += 9900000) {
		struct profile_observation o = {
			.key = 1, .stack = stack, .state = string(p, "running"), .t_before = fake_now,
			.t_after = fake_now + 1000, .weight = 1, .oncpu = true,
		};

		ok(profile_tick(p, fake_now));
		if (!profile_has_track(p, 1))
			ok(profile_track(p, &info));
		ok(profile_observe(p, &o, &ref));
		assert_true(profile_credit(p, ref, 9000000));
	}
	ok(profile_close_window(p, fake_now, &w));
	return w;
}

static bool wait_on(void *ctx)
{
	(void)ctx;
	return false;
}

static void record(struct outputs *os, unsigned int windows, bool keep)
{
	struct profile *p = store();

	ok(outputs_begin(os, &names));
	for (unsigned int i = 0; i < windows; i++) {
		struct window *w = window(p, 5);

		ok(outputs_window(os, w));
		window_free(w);
	}
	ok(outputs_end(os, keep));
	profile_destroy(p);
}

static struct outputs *make(const char **files, size_t n)
{
	struct outputs_options o = { .files = { files, n } };
	struct outputs *os;

	ok(outputs_create(&o, &os));
	ok(outputs_check(os, &names));
	return os;
}

static struct error *finish(struct outputs *os)
{
	bool dropped = true;
	struct error *err = outputs_finish(os, wait_on, NULL, &dropped);

	assert_false(dropped);
	return err;
}

static void test_default_names(void **state)
{
	struct outputs *os = make(NULL, 0);
	char text[1024];

	(void)state;
	record(os, 3, true);
	ok(finish(os));
	assert_int_equal(outputs_windows(os), 3);
	assert_true(outputs_have(os, &output_pprof) && outputs_have(os, &output_envelope));
	outputs_destroy(os);
	assert_string_equal(listing(text, sizeof(text)),
			    "app-20261129-141503.2.envelope app-20261129-141503.3.envelope "
			    "app-20261129-141503.envelope app-20261129-141503.pb.gz");
	content("app-20261129-141503.envelope", text, sizeof(text));
	assert_int_equal(text[0], '{');
	assert_true(content("app-20261129-141503.pb.gz", text, sizeof(text)) > 2);
	assert_int_equal((unsigned char)text[0], 0x1f);	/* gzip */
	assert_int_equal((unsigned char)text[1], 0x8b);
}

/* A default name never replaces what is there; an explicit one does. */
static void test_existing_files(void **state)
{
	const char *files[] = { "mine.pb.gz" };
	struct outputs *os = make(NULL, 0);
	char text[512];

	(void)state;
	ok(output_file_write("app-20261129-141503.pb.gz", "keep", 4, true));
	ok(output_file_write("mine.pb.gz", "old", 3, true));
	record(os, 1, true);
	ok(finish(os));
	outputs_destroy(os);
	content("app-20261129-141503.pb.gz", text, sizeof(text));
	assert_string_equal(text, "keep");
	assert_int_equal(access("app-20261129-141503.2.pb.gz", F_OK), 0);
	os = make(files, 1);
	assert_true(outputs_have(os, &output_pprof) && !outputs_have(os, &output_envelope));
	record(os, 1, true);
	ok(finish(os));
	outputs_destroy(os);
	content("mine.pb.gz", text, sizeof(text));
	assert_int_equal((unsigned char)text[0], 0x1f);
}

static void test_given_names(void **state)
{
	const char *files[] = { "a.envelope", "w%n.envelope", "b.pb.gz" };
	struct outputs *os = make(files, 3);
	char text[512], other[1 << 16], first[1 << 16];

	(void)state;
	record(os, 2, true);
	record(os, 1, true);	/* another program, by exec: nothing of the first is lost */
	ok(finish(os));
	outputs_destroy(os);
	assert_string_equal(listing(text, sizeof(text)),
			    "a.2.envelope a.3.envelope a.envelope b.2.pb.gz b.pb.gz w1.2.envelope "
			    "w1.envelope w2.envelope");
	/* One window is one event, however many files it goes to. */
	assert_int_equal(content("a.envelope", first, sizeof(first)),
			 content("w1.envelope", other, sizeof(other)));
	assert_string_equal(first, other);
}

static void test_too_short(void **state)
{
	struct outputs *os = make(NULL, 0);
	char text[64];

	(void)state;
	record(os, 0, false);
	ok(finish(os));
	assert_null(outputs_deliveries(os));
	outputs_destroy(os);
	assert_string_equal(listing(text, sizeof(text)), "");
}

static void test_refused_names(void **state)
{
	const char *bad[] = { "x.json" }, *away[] = { "nowhere/x.pb.gz" }, *late[] = { "%e/x.pb.gz" };
	struct outputs_options o = { .files = { bad, 1 } };
	struct outputs *os = NULL;

	(void)state;
	fails(outputs_create(&o, &os), ERROR_OUTPUT, "-o x.json: the name does not tell the format");
	assert_null(os);
	o.files.v = away;
	ok(outputs_create(&o, &os));
	fails(outputs_check(os, &names), ERROR_OUTPUT, "cannot write nowhere/x.pb.gz");
	outputs_destroy(os);
	/* This directory gets its name at the end: a failure then is told, not silent. */
	os = make(late, 1);
	record(os, 1, true);
	fails(finish(os), ERROR_OUTPUT, "cannot write app/x.pb.gz");
	assert_int_equal(outputs_deliveries(os)->state, DELIVERY_LOST);
	outputs_destroy(os);
}

/* stdout belongs to the child of run until it has ended. */
static void test_held_stdout(void **state)
{
	const char *files[] = { "envelope:-" };
	struct outputs_options o = { .files = { files, 1 }, .hold_stdout = true };
	struct outputs *os;
	int saved = dup(1), fd = open("out", O_CREAT | O_RDWR, 0600);
	struct stat st;
	char text[4];

	(void)state;
	dup2(fd, 1);
	ok(outputs_create(&o, &os));
	record(os, 2, true);
	usleep(50000);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 0);
	ok(finish(os));
	dup2(saved, 1);
	close(saved);
	outputs_destroy(os);
	assert_true(content("out", text, sizeof(text)) == 3);
	assert_int_equal(text[0], '{');
	close(fd);
}

/* A service that does not answer: the window becomes a file, and the error says so. */
static void test_refused_by_the_service(void **state)
{
	struct dsn dsn;
	struct outputs_options o = { .dsn = &dsn };
	_cleanup_error_ struct error *err = NULL;
	struct outputs *os;
	char text[256];

	(void)state;
	/* Nobody listens on port 1. */
	ok(dsn_parse("http://0123456789abcdef0123456789abcdef@127.0.0.1:1/42", &dsn));
	ok(outputs_create(&o, &os));
	record(os, 2, true);
	err = finish(os);
	assert_non_null(err);
	assert_int_equal(err->kind, ERROR_NETWORK);
	assert_string_equal(err->what, "2 of 2 windows could not be sent to 127.0.0.1:1: kept as files");
	assert_null(strstr(err->why, "0123456789abcdef"));	/* the key is never shown */
	assert_string_equal(listing(text, sizeof(text)),
			    "app-20261129-141503.2.envelope app-20261129-141503.envelope");
	assert_int_equal(outputs_deliveries(os)->state, DELIVERY_KEPT);
	outputs_destroy(os);
	dsn_deinit(&dsn);
}

static bool go_now(void *ctx)
{
	(void)ctx;
	return true;
}

/* The user does not wait for a writer that hangs (a pipe that nobody reads). */
static void test_dropped(void **state)
{
	const char *files[] = { "pprof:pipe" };
	struct outputs *os;
	bool dropped = false;
	int fd;

	(void)state;
	assert_int_equal(mkfifo("pipe", 0600), 0);
	os = make(files, 1);
	record(os, 1, true);
	ok(outputs_finish(os, go_now, NULL, &dropped));
	assert_true(dropped);
	/* Only the end of the process may follow; here the pipe is read so that the rest can be freed. */
	fd = open("pipe", O_RDONLY);
	assert_true(fd >= 0);
	outputs_destroy(os);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_place(test_patterns),
		cmocka_unit_test(test_hostile_program_name),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_formats),
		in_place(test_atomic_file),
		in_place(test_reader_of_the_old_file),
		in_place(test_special_files),
		in_place(test_full_disk),
		in_place(test_default_names),
		in_place(test_existing_files),
		in_place(test_given_names),
		in_place(test_too_short),
		in_place(test_refused_names),
		in_place(test_held_stdout),
		in_place(test_refused_by_the_service),
		in_place(test_dropped),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
