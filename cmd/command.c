/*
 * command.c: from argv to a command and its options. What a command does is its own file's; how
 * it is called stands in the table.
 *
 * The very first act is to save what a child of `run` must inherit unchanged, before goprof
 * alters anything for itself.
 */
#include "cmd/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "cmd/options.h"
#include "cmd/program.h"
#include "cmd/refused.h"
#include "cmd/summary.h"
#include "cmd/words.h"
#include "target/tracer.h"

#ifndef GOPROF_VERSION
#error "GOPROF_VERSION comes from the Makefile"
#endif

#define EXIT_STATUSES \
	"Exit status: 0 good, 2 usage, 64 not Go, 65 Go but not supported, 66 no such\n" \
	"process or file, 67 not permitted, 68 traced by another, 69 the kernel lacks\n" \
	"something, 70 internal, 73 output, 74 network.\n"

static const char run_more[] =
	"Exit status: CMD's own; 128+n for signal n; 125, 126, 127 as env(1) if it was\n"
	"not started.\n";
static const char attach_more[] =
	"Ends after --duration, at Ctrl-C or when the process ends; the process runs on.\n"
	"SIGUSR1 closes the current window and writes it.\n" EXIT_STATUSES;
static const char dump_more[] =
	"The text is that of a Go traceback and goes to stdout; the process runs on.\n"
	"A core file (by the kernel or gcore) gives what the process would have given.\n"
	"Example: goprof dump 4711 >goroutines.txt\n" EXIT_STATUSES;
static const char info_more[] =
	"A file is only read. Of a process more can be told; it is not stopped. Without\n"
	"either: what this kernel and this sandbox let goprof do, tried on a child.\n"
	"Example: goprof info ./app\n" EXIT_STATUSES;

const struct command command_table[] = {
	{
		.name = "run", .bit = COMMAND_RUN, .words = "CMD [ARGS...]", .stops = true,
		.min = 1, .max = UINT32_MAX, .missing = "a command to start",
		.usage = ERROR_START_SELF, .help = "start a program, profile it to its end",
		.more = run_more, .execute = run_command,
	},
	{
		.name = "attach", .bit = COMMAND_ATTACH, .words = "PID", .min = 1, .max = 1,
		.missing = "the id of a process", .usage = ERROR_USAGE,
		.help = "profile a running process", .more = attach_more, .execute = attach_command,
	},
	{
		.name = "dump", .bit = COMMAND_DUMP, .words = "PID|CORE", .min = 1, .max = 1,
		.missing = "the id of a process or a core file", .usage = ERROR_USAGE,
		.help = "print every goroutine once", .more = dump_more, .execute = dump_command,
	},
	{
		.name = "info", .bit = COMMAND_INFO, .words = "[PID|FILE]", .min = 0, .max = 1,
		.missing = "the id of a process or a file", .usage = ERROR_USAGE,
		.help = "tell what goprof finds and can do here", .more = info_more,
		.execute = info_command,
	},
	{ .name = NULL },
};

/* What stands before a command: --help and --version. */
static const struct command no_command = {
	.bit = COMMAND_NONE, .words = "", .usage = ERROR_USAGE, .max = UINT32_MAX,
};

const struct command *command_find(const char *name)
{
	for (const struct command *c = command_table; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

const char *goprof_version(void)
{
	return GOPROF_VERSION;
}

enum { PREFIX_COLUMNS = sizeof("goprof: ") - 1 };

static void add_said(struct buf *b, const char *text)
{
	buf_adds(b, "goprof: ");
	summary_wrap(b, PREFIX_COLUMNS, PREFIX_COLUMNS, text);
	buf_addc(b, '\n');
}

void error_text(const struct error *err, struct buf *b)
{
	add_said(b, err->what);
	if (err->why)
		summary_paragraph(b, "why ", err->why);
	if (err->todo) {
		/* One line, to be pasted. */
		buf_adds(b, "  do    ");
		summary_fit(b, err->todo, SIZE_MAX);
		buf_addc(b, '\n');
	}
}

void say(const char *fmt, ...)
{
	_cleanup_(buf_deinit) struct buf b = { 0 };
	_cleanup_free_ char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		text = NULL;
		return;
	}
	buf_init(&b);
	add_said(&b, text);
	if (!b.failed)
		fwrite(b.data, 1, b.len, stderr);
}

/* The command that a first word which is none stands for: "" none, else with a space behind. */
static const char *meant(const char *word, bool *replaces)
{
	const char *near = NULL;
	unsigned int least = UINT32_MAX;

	*replaces = false;
	if (program_is_executable(word))
		return strchr(word, '/') ? "run " : "run ./";
	if (word[0] && word[strspn(word, "0123456789")] == 0)
		return "attach ";
	for (const struct command *c = command_table; c->name; c++) {
		unsigned int d = words_distance(word, c->name);

		if (!words_near(word, c->name) || d >= least)
			continue;
		near = c->name;
		least = d;
	}
	*replaces = near != NULL;
	return near ? near : strchr(word, '/') ? "run " : NULL;
}

/* An executable file that was meant to be run, or a mistyped command; what follows it is kept. */
static struct error *unknown_command(char *const *argv)
{
	struct error *err = error_new(ERROR_USAGE, "unknown command '%s'", argv[0]);
	_cleanup_(buf_deinit) struct buf line = { 0 };
	bool replaces;
	const char *command = meant(argv[0], &replaces);

	if (!command)
		return error_todo(err, "goprof --help lists the commands");
	buf_init(&line);
	buf_adds(&line, command);
	if (!replaces)
		shell_word_add(&line, argv[0]);
	command_line_add(&line, argv + 1);
	return error_todo(err, "goprof %s      (goprof --help lists the commands)",
			  line.data ? line.data : "");
}

struct error *print(const struct buf *b)
{
	struct error *err = buf_error(b);
	int number;

	if (err || !b->len)
		return err;
	errno = 0;
	if (fwrite(b->data, 1, b->len, stdout) == b->len && fflush(stdout) == 0)
		return NULL;
	number = errno;
	return number == EPIPE ? NULL : error_why(error_new(ERROR_OUTPUT, "cannot write to stdout"), "%s",
						  strerror(number));
}

static struct error *print_help(const struct command *c)
{
	_cleanup_(buf_deinit) struct buf b = { 0 };

	buf_init(&b);
	help_text(c, &b);
	return print(&b);
}

static struct error *print_version(void)
{
	_cleanup_(buf_deinit) struct buf b = { 0 };

	buf_init(&b);
	buf_addf(&b, "goprof %s\n", goprof_version());
	return print(&b);
}

/* "goprof help run" is "goprof run --help". */
static struct error *without_command(char *const *argv)
{
	_cleanup_(options_deinit) struct options o = { 0 };
	struct error *err;

	if (strcmp(argv[0], "help") == 0)
		return argv[1] && !command_find(argv[1]) ? unknown_command(argv + 1) :
			print_help(argv[1] ? command_find(argv[1]) : NULL);
	if (argv[0][0] != '-')
		return unknown_command(argv);
	err = options_parse(&no_command, argv, getenv, &o);
	if (err)
		return err;
	if (o.version)
		return print_version();
	if (o.help)
		return print_help(NULL);
	return error_todo(error_new(ERROR_USAGE, "the command is missing"),
			  "goprof --help lists the commands");
}

static struct error *with_command(const struct command *c, char *const *argv,
				  const struct inherited *inherited, int *status)
{
	_cleanup_(options_deinit) struct options o = { 0 };
	struct error *err = options_parse(c, argv, getenv, &o);

	if (err)
		return err;
	if (o.help)
		return print_help(c);
	if (o.version)
		return print_version();
	o.inherited = inherited;
	log_set_level(o.verbose ? LOG_INFO : LOG_QUIET);
	return refused_by(c, argv, o.words[0], c->execute(&o, status));
}

static void inherited_cleanup(struct inherited **in)
{
	inherited_free(*in);
}

/* A descriptor opened later must not become 0, 1 or 2; the child still finds them closed. */
static void fill_standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= 2);
	if (fd > 2)
		close(fd);
}

/* Two descriptors for each thread of a target: more than the usual soft limit. Children get theirs back. */
static void use_all_descriptors(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

struct error *command_main(int argc, char **argv, int *status)
{
	_cleanup_(inherited_cleanup) struct inherited *inherited = NULL;
	const struct command *c;
	struct error *err = inherited_save(&inherited);

	if (err)
		return err;
	fill_standard_descriptors();
	signal(SIGPIPE, SIG_IGN);
	/* Inherited as ignored, no child could be waited for and no stop would be told. */
	signal(SIGCHLD, SIG_DFL);
	use_all_descriptors();
	if (argc < 2)
		return error_todo(error_new(ERROR_USAGE, "the command is missing"),
				  "goprof run ./app      (goprof --help lists the commands)");
	c = command_find(argv[1]);
	return c ? with_command(c, argv + 2, inherited, status) : without_command(argv + 1);
}
