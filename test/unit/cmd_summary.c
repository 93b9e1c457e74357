/*
 * The text after a profile, letter by letter: tables, verdict, files, first lines and notes; long
 * and hostile names; nothing wider than 80 columns but file names.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cmd/children.h"
#include "cmd/report.h"
#include "cmd/summary.h"
#include "cmd/words.h"
#include "summary_sample.h"

static void test_good_run(void **state)
{
	_cleanup_(buf_deinit) struct buf b;
	struct summary s = sample();

	(void)state;
	buf_init(&b);
	summary_text(&s, &b);
	expect(&b,
	       "  on CPU  8.52 s = 69 % of one core     (parked goroutines are not listed here)\n"
	       "     self    total  function\n"
	       "   31.0 %   31.0 %  crypto/sha256.block\n"
	       "   12.4 %   58.9 %  main.(*store).put             store.go:88\n"
	       "    9.7 %    9.7 %  runtime.mallocgc\n"
	       "    7.1 %   66.0 %  main.(*server).handleOrder    server.go:142\n"
	       "                    ... 1 more\n"
	       "\n"
	       "  goroutines  231 seen, 214 on average (mode wall)\n"
	       "   average  state            started at\n"
	       "     201.0  IO wait          net/http.(*Server).Serve        server.go:3285\n"
	       "       8.0  chan receive     main.startWorkers               worker.go:31\n"
	       "                             ... 1 more\n"
	       "\n"
	       "  health  good: 1,253 of 1,253 ticks at 101 Hz, 99.8 % of stacks complete,\n"
	       "          98.9 % of CPU time accounted for, own CPU 1.9 % of a core\n");
}

/* Nothing is claimed about goroutines, not even that there were none. */
static void test_restricted(void **state)
{
	_cleanup_(buf_deinit) struct buf b;
	struct summary s = sample();

	(void)state;
	s.restricted = "the members of its g structs could not be found";
	s.n_functions = 1;
	buf_init(&b);
	summary_text(&s, &b);
	expect(&b,
	       "  on CPU  8.52 s = 69 % of one core     (parked goroutines are not listed here)\n"
	       "     self    total  function\n"
	       "   31.0 %   31.0 %  crypto/sha256.block\n"
	       "\n"
	       "  RESTRICTED  goroutines cannot be told: the members of its g structs could not\n"
	       "              be found. On-CPU stacks are those of threads.\n"
	       "\n"
	       "  health  good: 1,253 of 1,253 ticks at 101 Hz, 99.8 % of stacks complete,\n"
	       "          98.9 % of CPU time accounted for, own CPU 1.9 % of a core\n");
}

static void test_attached_health(void **state)
{
	_cleanup_(buf_deinit) struct buf b, line;
	struct summary s = sample();

	(void)state;
	s.attached = true;
	buf_init(&b);
	buf_init(&line);
	assert_true(verdict_text(&s, &line));
	summary_paragraph(&b, "health", line.data);
	expect(&b,
	       "  health  good: 1,253 of 1,253 ticks at 101 Hz, threads held 9 us (p99 180 us),\n"
	       "          99.8 % of stacks complete, 98.9 % of CPU time accounted, own CPU 1.9 %\n");
}

static void test_every_figure(void **state)
{
	_cleanup_(buf_deinit) struct buf b;
	struct summary s = sample();

	(void)state;
	s.every_figure = true;
	buf_init(&b);
	summary_text(&s, &b);
	for (int i = 0; i < HEALTH_COUNT; i++)
		assert_non_null(strstr(b.data, health_table[i].name));
	assert_non_null(strstr(b.data, "          held p99                             180 us\n"));
}

static void test_nothing_seen(void **state)
{
	_cleanup_(buf_deinit) struct buf b;
	struct summary s = { .rate_hz = 101, .mode = PROFILE_CPU };

	(void)state;
	buf_init(&b);
	summary_text(&s, &b);
	expect(&b,
	       "  on CPU  0 ms = 0 % of one core\n"
	       "\n"
	       "  goroutines  0 seen, 0.0 on average (mode cpu)\n"
	       "\n"
	       "  health  good: 0 of 0 ticks at 101 Hz\n");
}

static void assert_80_columns(const struct buf *b)
{
	const char *line = b->data;

	while (*line) {
		size_t len = strcspn(line, "\n");
		_cleanup_free_ char *copy = strndup(line, len);

		if (text_columns(copy) > SUMMARY_WIDTH)
			fail_msg("%zu columns: %s", text_columns(copy), copy);
		for (size_t i = 0; i < len; i++)
			assert_true((unsigned char)line[i] >= ' ' && line[i] != 0x7f);
		line += len + (line[len] == '\n');
	}
}

static void test_names_that_do_not_fit(void **state)
{
	static const struct summary_function f[] = {
		{ "github.com/somebody/with/a/very/long/import/path/of/a/package.(*Type).Method",
		  "github.com/x/a_file_with_a_rather_long_name_indeed.go", 12345, MS, MS },
		{ "x.ThisFunctionHasANameThatIsLongerThanTheWholeLineAndHasNoSlashesAtAllInItToBeCutAt",
		  "a.go", 1, MS, MS },
		{ "x.Map[github.com/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o.Thing,github.com/q/r/s/t/u/v/w.Other]",
		  "", 0, MS, MS },
		{ "evil\033[2J\nname\x7f", "b\tc.go", 2, MS, MS },
		{ "ünïcödé.Funktiön", "ünï.go", 3, MS, MS },
	};
	static const struct summary_group g[] = {
		{ "chan receive (nil chan) and more text", "github.com/a/b/c/d/e/f/g/h/i.worker", "x.go", 1, 4 },
		{ "select", "net/http.(*persistConn).writeLoop", "transport.go", 1995, 3 },
		{ "sleep", "m.f", "a_file_with_a_rather_long_name_indeed.go", 123, 2 },
	};
	_cleanup_(buf_deinit) struct buf b;
	struct summary s = sample();

	(void)state;
	s.functions = f;
	s.n_functions = sizeof(f) / sizeof(f[0]);
	s.groups = g;
	s.n_groups = sizeof(g) / sizeof(g[0]);
	s.cpu_ns = 5 * MS;
	buf_init(&b);
	summary_text(&s, &b);
	assert_80_columns(&b);
	assert_non_null(strstr(b.data, "…/a/package.(*Type).Method"));
	/* What would be cut inside an element pushes its file aside while the line has room. */
	assert_non_null(strstr(b.data, "…/http.(*persistConn).writeLoop  transport.go:1995\n"));
	assert_non_null(strstr(b.data, "evil?[2J?name?"));
	assert_non_null(strstr(b.data, "ünïcödé.Funktiön              ünï.go:3\n"));
}

static void test_fit(void **state)
{
	_cleanup_(buf_deinit) struct buf b;

	(void)state;
	buf_init(&b);
	summary_fit(&b, "/tmp/go-build123/b001/exe/app", 36);
	expect(&b, "/tmp/go-build123/b001/exe/app");
	summary_fit(&b, "/tmp/go-build123/b001/exe/app", 16);
	expect(&b, "…/b001/exe/app");
	summary_fit(&b, "abcdef", 4);
	expect(&b, "abc…");
	/* Never so that an element looks cut at both ends. */
	summary_fit(&b, "net/http.(*persistConn).writeLoop", 30);
	expect(&b, "net/http.(*persistConn).write…");
}

static void test_files(void **state)
{
	static const struct summary_file v[] = {
		{ "app-20261129-141503.pb.gz", "go tool pprof -http=: app-20261129-141503.pb.gz" },
		{ "app-20261129-141503.envelope", "for Sentry: goprof run --dsn DSN ./app" },
	};
	_cleanup_(buf_deinit) struct buf b;

	(void)state;
	buf_init(&b);
	summary_files_text(v, 2, &b);
	expect(&b,
	       "\n"
	       "  app-20261129-141503.pb.gz      go tool pprof -http=: app-20261129-141503.pb.gz\n"
	       "  app-20261129-141503.envelope   for Sentry: goprof run --dsn DSN ./app\n");
	summary_files_text(v, 0, &b);
	assert_int_equal(b.len, 0);
}

/* ---- first lines ---- */

static char *const app[] = { (char *)"./app", NULL };

static struct report_run ran(void)
{
	return (struct report_run){
		.name = "./app", .argv = app, .pid = 4711, .go_version = "go1.26.10", .ns = 12400 * MS,
		.recorded_ns = 12400 * MS, .rate_hz = 101, .has_profile = true, .exe = "/srv/app",
	};
}

static void test_run_lines(void **state)
{
	_cleanup_(buf_deinit) struct buf b;
	struct report_run r = ran();

	(void)state;
	buf_init(&b);
	report_run_text(&r, &b);
	expect(&b, "goprof: ./app (pid 4711, go1.26.10) ran 12.4 s and exited with status 0\n");
	r.wait_status = SIGSEGV;
	r.ns = 3100 * MS;
	report_run_text(&r, &b);
	expect(&b, "goprof: ./app (pid 4711, go1.26.10) ran 3.1 s and was killed by SIGSEGV\n");
	r = ran();
	r.limited = true;
	r.recorded_ns = 5000 * MS;
	r.wait_status = 3 << 8;
	report_run_text(&r, &b);
	expect(&b, "goprof: ./app (pid 4711, go1.26.10) ran 12.4 s and exited with status 3; "
	       "profiled for 5.0 s\n");
	r = ran();
	r.has_profile = false;
	r.ns = 5 * MS;
	report_run_text(&r, &b);
	expect(&b, "goprof: ./app (pid 4711, go1.26.10) ran 5 ms and exited with status 0: too short "
	       "for a profile (needs 2 ticks, 20 ms); no file written\n");
	r = ran();
	r.execed = true;
	report_run_text(&r, &b);
	expect(&b, "goprof: ./app (pid 4711, go1.26.10) ran 12.4 s and exited with status 0\n"
	       "  note  it called exec: this is the profile of /srv/app\n");
	r.refusal = "4711 (/bin/sleep) is not a Go program";
	r.last_exe = "/bin/sleep";
	report_run_text(&r, &b);
	expect(&b, "goprof: ./app (pid 4711, go1.26.10) ran 12.4 s and exited with status 0\n"
	       "  note  it called exec: this is the profile of /srv/app; then it was /bin/sleep,\n"
	       "        which was not profiled\n");
	r.refusal = NULL;
	r.parts = 2;
	report_run_text(&r, &b);
	expect(&b, "goprof: ./app (pid 4711, go1.26.10) ran 12.4 s and exited with status 0\n"
	       "  note  it called exec: these are the profiles of the programs it became\n");
	report_part_text("/srv/app", "go1.26.10", 1500 * MS, &b);
	expect(&b, "  /srv/app (go1.26.10), for 1.5 s\n");
}

static void test_not_go(void **state)
{
	_cleanup_(buf_deinit) struct buf b;
	struct report_run r = ran();

	(void)state;
	buf_init(&b);
	r.has_profile = false;
	r.go_version = "";
	r.refusal = "4711 (/usr/bin/node) is not a Go program";
	r.refusal_why = "no Go function table (pclntab) in its file or its memory";
	report_run_text(&r, &b);
	expect(&b, "goprof: ./app (pid 4711) ran 12.4 s and exited with status 0: no profile\n"
	       "  why   4711 (/usr/bin/node) is not a Go program: no Go function table (pclntab)\n"
	       "        in its file or its memory\n");
}

static void test_children(void **state)
{
	char *const go_run[] = { (char *)"go", (char *)"run", (char *)".", NULL };
	char *const go_test[] = { (char *)"/usr/bin/go", (char *)"test", NULL };
	char *const make[] = { (char *)"make", NULL };
	struct child_program child = { "/tmp/go-build8412345678/go-build1/b001/exe/app", 4755, 0, false };
	_cleanup_(buf_deinit) struct buf b;
	struct report_run r = ran();

	(void)state;
	buf_init(&b);
	r.name = "go";
	r.argv = go_run;
	r.pid = 4720;
	r.ns = 4000 * MS;
	r.child = &child;
	report_run_text(&r, &b);
	expect(&b,
	       "goprof: go (pid 4720, go1.26.10) ran 4.0 s and exited with status 0\n"
	       "  note  this is the profile of the go command; it started another Go program\n"
	       "        (…/go-build1/b001/exe/app, pid 4755), which was not profiled\n"
	       "  do    go build -o app . && goprof run ./app\n");
	r.argv = go_test;
	report_run_text(&r, &b);
	assert_non_null(strstr(b.data, "  do    go test -c && goprof run ./pkg.test\n"));
	buf_clear(&b);
	r.argv = make;
	r.name = "make";
	r.has_profile = false;
	r.go_version = "";
	r.refusal = "4720 (/usr/bin/make) is not a Go program";
	child = (struct child_program){ "/srv/app", 4755, 2, false };
	report_run_text(&r, &b);
	expect(&b,
	       "goprof: make (pid 4720) ran 4.0 s and exited with status 0: no profile\n"
	       "  why   4720 (/usr/bin/make) is not a Go program\n"
	       "  note  it started a Go program (/srv/app, pid 4755), which was not profiled,\n"
	       "        and 2 more\n"
	       "  do    goprof run /srv/app\n");
	child.alive = true;
	report_run_text(&r, &b);
	assert_non_null(strstr(b.data, "  do    goprof attach 4755      (while it runs)\n"));
}

static void test_exit_status(void **state)
{
	(void)state;
	assert_int_equal(report_run_status(0), 0);
	assert_int_equal(report_run_status(7 << 8), 7);
	assert_int_equal(report_run_status(SIGSEGV | 0x80), 139);
	assert_int_equal(report_run_status(SIGKILL), 137);
}

static void test_limits(void **state)
{
	_cleanup_(buf_deinit) struct buf b;

	(void)state;
	buf_init(&b);
	report_limit_text(0, &b);
	expect(&b, "Ctrl-C ends it");
	report_limit_text(5000 * MS, &b);
	expect(&b, "5 s or Ctrl-C");
	report_limit_text(90000 * MS, &b);
	expect(&b, "1m30s or Ctrl-C");
	report_limit_text(500 * MS, &b);
	expect(&b, "500 ms or Ctrl-C");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_run),
		cmocka_unit_test(test_restricted),
		cmocka_unit_test(test_attached_health),
		cmocka_unit_test(test_every_figure),
		cmocka_unit_test(test_nothing_seen),
		cmocka_unit_test(test_names_that_do_not_fit),
		cmocka_unit_test(test_fit),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_run_lines),
		cmocka_unit_test(test_not_go),
		cmocka_unit_test(test_children),
		cmocka_unit_test(test_exit_status),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
