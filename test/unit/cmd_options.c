/*
 * The command line: every type and every spelling of an option, every way to get one wrong, the
 * words of each command, durations, distances and the help that is made from the same table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cmd/command.h"
#include "cmd/options.h"
#include "cmd/words.h"
#include "export/export.h"

static char *no_env(const char *name)
{
	(void)name;
	return NULL;
}

static char *some_env(const char *name)
{
	static const struct { const char *name; char *value; } v[] = {
		{ "SENTRY_DSN", (char *)"https://k@h/1" }, { "SENTRY_RELEASE", (char *)"r1" },
		{ "SENTRY_ENVIRONMENT", (char *)"" },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		if (strcmp(v[i].name, name) == 0)
			return v[i].value;
	return NULL;
}

/* Splits "a b c" in place and parses it for a command. */
static struct error *parse(const char *command, char *line, char *(*env)(const char *),
			   struct options *ret)
{
	static char *argv[32];
	size_t n = 0;

	for (char *w = strtok(line, " "); w && n < 31; w = strtok(NULL, " "))
		argv[n++] = w;
	argv[n] = NULL;
	return options_parse(command_find(command), argv, env, ret);
}

static void good(const char *command, const char *text, struct options *o)
{
	static char line[512];
	struct error *err;

	snprintf(line, sizeof(line), "%s", text);
	err = parse(command, line, no_env, o);
	if (err)
		fail_msg("%s %s: %s", command, text, err->what);
}

static void bad(const char *command, const char *text, enum error_kind kind, const char *what,
		const char *todo)
{
	static char line[512];
	_cleanup_error_ struct error *err = NULL;
	struct options o = { .rate = 77 };

	snprintf(line, sizeof(line), "%s", text);
	err = parse(command, line, no_env, &o);
	assert_non_null(err);
	assert_string_equal(err->what, what);
	if (todo)
		assert_string_equal(err->todo, todo);
	else
		assert_null(err->todo);
	assert_int_equal(err->kind, kind);
	assert_int_equal(o.rate, 77);	/* untouched */
}

static void test_defaults(void **state)
{
	_cleanup_(options_deinit) struct options o = { 0 };

	(void)state;
	good("attach", "4711", &o);
	assert_int_equal(o.rate, 101);
	assert_int_equal(o.mode, PROFILE_WALL);
	assert_int_equal(o.depth, 512);
	assert_int_equal(o.max_threads, 1000);
	assert_int_equal(o.threads.choice, EXPORT_BY_GOROUTINE);
	assert_null(o.threads.key);
	assert_int_equal(o.duration, 0);
	assert_int_equal(o.active, 0);
	assert_null(o.dsn);
	assert_int_equal(o.outputs.n, 0);
	assert_false(o.system || o.quiet || o.verbose || o.progress || o.no_dsn);
	assert_int_equal(o.source[OPTION_RATE], OPTION_DEFAULT);
	assert_int_equal(o.n_words, 1);
	assert_string_equal(o.words[0], "4711");
	assert_null(o.words[1]);
}

/* An option's default and help may differ by command, and --help says the one that holds. */
static void test_variants(void **state)
{
	static const struct {
		const char *command, *has, *lacks;
	} v[] = {
		{ "attach", "(default: 512)", "(default: 4096)" },
		{ "dump", "(default: 4096)", "(default: 512)" },
		{ "attach", "(the program runs on)", "then waits" },
		{ "run", "then waits for the program)", "(the program runs on)" },
		{ "run", "all health figures", "runtime member" },
		{ "info", "also the offset of every runtime member", "health" },
		{ "dump", "what goprof does meanwhile", "health" },
		{ "dump", "Example: goprof dump 4711 >", "Example: goprof info" },
		{ "info", "64 not Go", "125" },
		{ "run", "125, 126, 127", "64 not Go" },
	};
	_cleanup_(options_deinit) struct options o = { 0 };

	(void)state;
	good("dump", "4711", &o);
	assert_int_equal(o.depth, 4096);
	assert_int_equal(o.source[OPTION_DEPTH], OPTION_DEFAULT);
	assert_null(o.exe);
	options_deinit(&o);
	good("dump", "core --exe ./app", &o);
	assert_string_equal(o.exe, "./app");
	assert_string_equal(o.words[0], "core");
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		_cleanup_(buf_deinit) struct buf b, flat;

		buf_init(&b);
		buf_init(&flat);
		help_text(command_find(v[i].command), &b);
		for (size_t k = 0; k < b.len; k++)	/* a text may be broken anywhere */
			if (b.data[k] != '\n' && !(b.data[k] == ' ' && flat.len && flat.data[flat.len - 1] == ' '))
				buf_addc(&flat, b.data[k]);
		if (!strstr(flat.data, v[i].has) || strstr(flat.data, v[i].lacks))
			fail_msg("%s --help: '%s', not '%s':\n%s", v[i].command, v[i].has, v[i].lacks, b.data);
	}
}

static void test_spellings(void **state)
{
	_cleanup_(options_deinit) struct options o = { 0 };

	(void)state;
	good("attach", "--rate 7 -d1m30s --mode=cpu 12 -qv -o a.pb.gz -ob.envelope --output=c.pb.gz "
	     "--active busiest --system --threads label:a:b", &o);
	assert_int_equal(o.rate, 7);
	assert_int_equal(o.source[OPTION_RATE], OPTION_FROM_LINE);
	assert_int_equal(o.duration, 90 * UINT64_C(1000000000));
	assert_int_equal(o.mode, PROFILE_CPU);
	assert_true(o.quiet && o.verbose && o.system);
	assert_int_equal(o.outputs.n, 3);
	assert_string_equal(o.outputs.v[0], "a.pb.gz");
	assert_string_equal(o.outputs.v[1], "b.envelope");
	assert_string_equal(o.outputs.v[2], "c.pb.gz");
	assert_true(o.active == ACTIVE_BUSIEST);
	assert_int_equal(o.threads.choice, EXPORT_BY_LABEL);
	assert_string_equal(o.threads.key, "a:b");
	assert_int_equal(o.n_words, 1);
	assert_string_equal(o.words[0], "12");
}

static void test_run_stops_at_first_word(void **state)
{
	_cleanup_(options_deinit) struct options o = { 0 };

	(void)state;
	good("run", "-q ./app -v --rate 9 -- x", &o);
	assert_true(o.quiet);
	assert_false(o.verbose);
	assert_int_equal(o.rate, 101);
	assert_int_equal(o.n_words, 6);
	assert_string_equal(o.words[0], "./app");
	assert_string_equal(o.words[1], "-v");
	assert_string_equal(o.words[4], "--");
	options_deinit(&o);

	good("run", "-q -- -strange -v", &o);
	assert_int_equal(o.n_words, 2);
	assert_string_equal(o.words[0], "-strange");
	assert_string_equal(o.words[1], "-v");
	assert_false(o.verbose);
	options_deinit(&o);

	/* A lone dash is a word. */
	good("run", "-", &o);
	assert_string_equal(o.words[0], "-");
}

static void test_environment(void **state)
{
	_cleanup_(options_deinit) struct options o = { 0 };
	char line[] = "12", given[] = "--release r2 12", other[] = "12";

	(void)state;
	assert_null(parse("attach", line, some_env, &o));
	assert_string_equal(o.dsn, "https://k@h/1");
	assert_int_equal(o.source[OPTION_DSN], OPTION_FROM_ENV);
	assert_string_equal(o.release, "r1");
	assert_null(o.environment);	/* empty is unset */
	options_deinit(&o);
	assert_null(parse("attach", given, some_env, &o));
	assert_string_equal(o.release, "r2");
	assert_int_equal(o.source[OPTION_RELEASE], OPTION_FROM_LINE);
	options_deinit(&o);
	/* A command that has no such option does not read its variable. */
	assert_null(parse("info", other, some_env, &o));
	assert_null(o.dsn);
}

static void test_mistakes(void **state)
{
	static const struct {
		const char *line, *what, *todo;
	} v[] = {
		{ "--durration 5s 1", "attach has no option --durration; did you mean --duration?", NULL },
		{ "--durration=5s 1", "attach has no option --durration; did you mean --duration?", NULL },
		{ "--out 1", "attach has no option --out; did you mean --output?", NULL },
		{ "--xyzzy 1", "attach has no option --xyzzy", "goprof attach --help lists them" },
		{ "-x 1", "attach has no option -x", "goprof attach --help lists them" },
		{ "-qx 1", "attach has no option -x", "goprof attach --help lists them" },
		{ "--labels 1", "attach has no option --labels", "goprof attach --help lists them" },
		{ "1 --rate", "--rate needs a value: HZ", NULL },
		{ "1 -o", "-o needs a value: FILE", NULL },
		{ "--quiet=yes 1", "--quiet takes no value", NULL },
		{ "--rate 0 1", "--rate: '0' is not a number from 1 to 1000", NULL },
		{ "--rate 1001 1", "--rate: '1001' is not a number from 1 to 1000", NULL },
		{ "--rate 1e2 1", "--rate: '1e2' is not a number from 1 to 1000", NULL },
		{ "--rate -5 1", "--rate: '-5' is not a number from 1 to 1000", NULL },
		{ "--rate=99999999999999999999999 1",
		  "--rate: '99999999999999999999999' is not a number from 1 to 1000", NULL },
		{ "--depth 5000 1", "--depth: '5000' is not a number from 1 to 4096", NULL },
		{ "--mode gpu 1", "--mode: 'gpu' is not wall or cpu", NULL },
		{ "--duration 5 1", "--duration: '5' is not a duration: its unit is missing",
		  "--duration 5s" },
		{ "-d5 1", "-d: '5' is not a duration: its unit is missing", "-d 5s" },
		{ "--duration soon 1", "--duration: 'soon' is not a duration like 30s, 1m30s or 500ms", NULL },
		{ "--duration 1ms 1", "--duration 1ms: too short: at least 20ms", NULL },
		{ "--duration 0 1", "--duration 0: too short: at least 20ms", NULL },
		{ "--output= 1", "--output needs a value: FILE", NULL },
		{ "--active idle 1", "--active: 'idle' is not a goroutine id or busiest", NULL },
		{ "--threads label 1", "--threads: 'label' is not goroutine, entry or label:KEY", NULL },
		{ "--threads label: 1", "--threads: 'label:' is not goroutine, entry or label:KEY", NULL },
		{ "--threads entry:x 1", "--threads: 'entry:x' is not goroutine, entry or label:KEY", NULL },
		{ "--threads= 1", "--threads: '' is not goroutine, entry or label:KEY", NULL },
		{ "--active 0 1", "--active: '0' is not a goroutine id or busiest", NULL },
		{ "--dsn= 1", "--dsn needs a value: DSN", NULL },
		{ "-q", "attach needs the id of a process", "goprof attach PID" },
		{ "1 2", "attach takes one PID, but there is also '2'", "goprof attach PID" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		bad("attach", v[i].line, ERROR_USAGE, v[i].what, v[i].todo);
	/* Go's panic status is 2: mistakes of run must be told apart. */
	bad("run", "--rate x ./app", ERROR_START_SELF, "--rate: 'x' is not a number from 1 to 1000", NULL);
	bad("run", "-q", ERROR_START_SELF, "run needs a command to start", "goprof run CMD [ARGS...]");
	assert_int_equal(error_exit_status(ERROR_USAGE), 2);
	assert_int_equal(error_exit_status(ERROR_START_SELF), 125);
}

static void test_help_needs_no_words(void **state)
{
	_cleanup_(options_deinit) struct options o = { 0 };

	(void)state;
	good("attach", "--help", &o);
	assert_true(o.help);
}

static void test_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const struct option_row *row = &option_table[i];

		assert_non_null(row->name);
		assert_non_null(row->help);
		assert_non_null(row->group);
		assert_true((row->type == OPTION_TYPE_FLAG) == !row->argument);
		for (size_t j = 0; j < i; j++) {
			assert_string_not_equal(row->name, option_table[j].name);
			if (row->letter)
				assert_int_not_equal(row->letter, option_table[j].letter);
		}
	}
}

static void test_help_text(void **state)
{
	_cleanup_(buf_deinit) struct buf b;

	(void)state;
	for (const struct command *c = command_table;; c++) {
		size_t line = 0;

		buf_init(&b);
		help_text(c->name ? c : NULL, &b);
		assert_null(buf_error(&b));
		for (size_t i = 0; i < b.len; i++) {
			line = b.data[i] == '\n' ? 0 : line + 1;
			assert_true(line <= 80);
			assert_false(b.data[i] == '\n' && i && b.data[i - 1] == ' ');
		}
		for (size_t i = 0; c->name && i < OPTION_COUNT; i++) {
			char name[40];

			snprintf(name, sizeof(name), " --%s", option_table[i].name);
			assert_int_equal(!!strstr(b.data, name), !!(option_table[i].commands & c->bit));
		}
		if (!c->name)
			break;
		buf_deinit(&b);
	}
}

static void test_durations(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} yes[] = {
		{ "30s", UINT64_C(30000000000) }, { "1m30s", UINT64_C(90000000000) }, { "1.5s", 1500000000 },
		{ "500ms", 500000000 }, { "2h", UINT64_C(7200000000000) }, { "10us", 10000 },
		{ "10µs", 10000 }, { "7ns", 7 }, { "0", 0 }, { "+1s", 1000000000 }, { ".5s", 500000000 },
		{ "1h1m1s1ms", UINT64_C(3661001000000) },
	};
	static const char *const no[] = {
		"", "s", "1", "1x", "-1s", "1s2", "1 s", "1.s.", ".s", "+", "1d", "99999999h99999999h9e9s",
		"10000000h",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		uint64_t ns = 1;

		assert_true(duration_parse(yes[i].text, &ns));
		assert_int_equal(ns, yes[i].ns);
	}
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		uint64_t ns = 42;

		assert_false(duration_parse(no[i], &ns));
		assert_int_equal(ns, 42);
	}
}

static void test_texts(void **state)
{
	char b[WORD_MAX];

	(void)state;
	assert_string_equal(duration_text(5999999, b), "5 ms");
	assert_string_equal(duration_text(UINT64_C(12449000000), b), "12.4 s");
	assert_string_equal(duration_text(UINT64_C(59990000000), b), "59.9 s");
	assert_string_equal(duration_text(UINT64_C(125000000000), b), "2m05s");
	assert_string_equal(duration_text(UINT64_C(3725000000000), b), "1h02m05s");
	assert_string_equal(instant_text(9400, b), "9 us");
	assert_string_equal(instant_text(180, b), "180 ns");
	assert_string_equal(instant_text(1800000, b), "1.8 ms");
	assert_string_equal(count_text(0, b), "0");
	assert_string_equal(count_text(999, b), "999");
	assert_string_equal(count_text(1253, b), "1,253");
	assert_string_equal(count_text(UINT64_MAX, b), "18,446,744,073,709,551,615");
	assert_string_equal(percent_text(989, 1000, 1, b), "98.9 %");
	assert_string_equal(percent_text(99999, 100000, 1, b), "99.9 %");
	assert_string_equal(percent_text(5, 5, 1, b), "100.0 %");
	assert_string_equal(percent_text(1, 0, 1, b), "-");
	assert_string_equal(signal_text(11, b), "SIGSEGV");
	assert_string_equal(signal_text(50, b), "signal 50");
	assert_string_equal(path_base("/a/b"), "b");
	assert_string_equal(path_base("b"), "b");
}

static void test_distance(void **state)
{
	(void)state;
	assert_int_equal(words_distance("duration", "duration"), 0);
	assert_int_equal(words_distance("durration", "duration"), 1);
	assert_int_equal(words_distance("druation", "duration"), 1);
	assert_int_equal(words_distance("", "abc"), 3);
	assert_int_equal(words_distance("kitten", "sitting"), 3);
	assert_true(words_near("atach", "attach"));
	assert_true(words_near("dur", "duration"));
	assert_false(words_near("xyzzy", "quiet"));
	assert_false(words_near("ps", "run"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_variants),
		cmocka_unit_test(test_spellings),
		cmocka_unit_test(test_run_stops_at_first_word),
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_mistakes),
		cmocka_unit_test(test_help_needs_no_words),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_help_text),
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_distance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
