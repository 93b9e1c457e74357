/*
 * command.c: from argv to a command and its options. What a command does is its own file's; how
 * it is called stands in the table.
 *
 * The very first act is to save what a child of `run` must inherit unchanged, before goprof
 * alters anything for itself.
 */
#include "cmd/command.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "cmd/options.h"
#include "cmd/program.h"
#include "cmd/words.h"
#include "target/tracer.h"

#ifndef GOPROF_VERSION
#error "GOPROF_VERSION comes from the Makefile"
#endif

static const char run_more[] =
	"The exit status is CMD's (128 + n when signal n killed it), whatever became of\n"
	"the profile; 125, 126 and 127 only when CMD was not started.\n";
static const char attach_more[] =
	"Ends after --duration, at Ctrl-C or when the process ends; the process runs on.\n"
	"SIGUSR1 closes the current window and writes it.\n";

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
		.name = "dump", .bit = COMMAND_DUMP, .words = "PID", .min = 1, .max = 1,
		.missing = "the id of a process", .usage = ERROR_USAGE,
		.help = "print every goroutine once", .execute = dump_command,
	},
	{
		.name = "info", .bit = COMMAND_INFO, .words = "PID|FILE", .min = 1, .max = 1,
		.missing = "the id of a process or a file", .usage = ERROR_USAGE,
		.help = "tell what goprof can find in a program", .execute = info_command,
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

void error_text(const struct error *err, struct buf *b)
{
	buf_addf(b, "goprof: %s\n", err->what);
	if (err->why)
		buf_addf(b, "  why   %s\n", err->why);
	if (err->todo)
		buf_addf(b, "  do    %s\n", err->todo);
}

void say(const char *fmt, ...)
{
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
	fprintf(stderr, "goprof: %s\n", text);
}

/* An executable file that was meant to be run, or a mistyped command. */
static struct error *unknown_command(const char *word)
{
	struct error *err = error_new(ERROR_USAGE, "unknown command '%s'", word);
	const char *near = NULL;
	unsigned int least = UINT32_MAX;

	if (program_is_executable(word))
		return error_todo(err, strchr(word, '/') ?
				  "goprof run %s      (goprof --help lists the commands)" :
				  "goprof run ./%s      (goprof --help lists the commands)", word);
	if (word[0] && word[strspn(word, "0123456789")] == 0)
		return error_todo(err, "goprof attach %s      (goprof --help lists the commands)", word);
	for (const struct command *c = command_table; c->name; c++) {
		unsigned int d = words_distance(word, c->name);

		if (!words_near(word, c->name) || d >= least)
			continue;
		near = c->name;
		least = d;
	}
	if (near)
		return error_todo(err, "goprof %s      (goprof --help lists the commands)", near);
	if (strchr(word, '/'))
		return error_todo(err, "goprof run %s      (goprof --help lists the commands)", word);
	return error_todo(err, "goprof --help lists the commands");
}

static struct error *print_help(const struct command *c)
{
	_cleanup_(buf_deinit) struct buf b = { 0 };
	struct error *err;

	buf_init(&b);
	help_text(c, &b);
	err = buf_error(&b);
	if (!err && (fwrite(b.data, 1, b.len, stdout) != b.len || fflush(stdout) != 0))
		err = error_new(ERROR_OUTPUT, "cannot write to stdout");
	return err;
}

static struct error *print_version(void)
{
	printf("goprof %s\n", goprof_version());
	return fflush(stdout) == 0 ? NULL : error_new(ERROR_OUTPUT, "cannot write to stdout");
}

/* "goprof help run" is "goprof run --help". */
static struct error *without_command(char *const *argv)
{
	_cleanup_(options_deinit) struct options o = { 0 };
	struct error *err;

	if (strcmp(argv[0], "help") == 0)
		return argv[1] && !command_find(argv[1]) ? unknown_command(argv[1]) :
			print_help(argv[1] ? command_find(argv[1]) : NULL);
	if (argv[0][0] != '-')
		return unknown_command(argv[0]);
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
	return c->execute(&o, status);
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

struct error *command_main(int argc, char **argv, int *status)
{
	_cleanup_(inherited_cleanup) struct inherited *inherited = NULL;
	const struct command *c;
	struct error *err = inherited_save(&inherited);

	if (err)
		return err;
	fill_standard_descriptors();
	signal(SIGPIPE, SIG_IGN);
	if (argc < 2)
		return error_todo(error_new(ERROR_USAGE, "the command is missing"),
				  "goprof run ./app      (goprof --help lists the commands)");
	c = command_find(argv[1]);
	return c ? with_command(c, argv + 2, inherited, status) : without_command(argv + 1);
}
