/*
 * refused.c: errors of lib/ in the words of the command that met them, see refused.h.
 *
 * Must not decide what is wrong: kinds, causes and exit statuses are those of lib/. Only the verb
 * and the line to paste change, and a line is put in only where it is known to help.
 */
#include "cmd/refused.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cmd/command.h"
#include "cmd/program.h"
#include "cmd/words.h"

/* ---- lines to paste ---- */

void shell_word_add(struct buf *b, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "-_./:=,+@%^";

	if (*word && !word[strspn(word, plain)]) {
		buf_adds(b, word);
		return;
	}
	buf_addc(b, '\'');
	for (; *word; word++)
		if (*word == '\'')
			buf_adds(b, "'\\''");
		else
			buf_addc(b, *word);
	buf_addc(b, '\'');
}

void command_line_add(struct buf *b, char *const *argv)
{
	static const char dsn[] = "--dsn";
	bool secret = false;

	for (; *argv; argv++) {
		buf_addc(b, ' ');
		if (secret)
			buf_adds(b, "DSN");
		else if (strncmp(*argv, "--dsn=", sizeof(dsn)) == 0)
			buf_adds(b, "--dsn=DSN");
		else
			shell_word_add(b, *argv);
		secret = !secret && strcmp(*argv, dsn) == 0;
	}
}

/* ---- fitting ---- */

bool error_reword(struct error *err, const char *old, const char *words)
{
	const char *at = err->is_static ? NULL : strstr(err->what, old);
	char *what;

	if (!at || asprintf(&what, "%.*s%s%s", (int)(at - err->what), err->what, words,
			    at + strlen(old)) < 0)
		return false;
	free(err->what);
	err->what = what;
	return true;
}

/* "sudo goprof attach 4711" is lib's word for: the rights of root would do. */
static void attach_line(const struct command *c, char *const *argv, struct error *err)
{
	static const char attach[] = "goprof attach ";
	const char *at = err->todo ? strstr(err->todo, attach) : NULL;
	_cleanup_(buf_deinit) struct buf b = { 0 };
	const char *rest;

	if (!at)
		return;
	rest = at + sizeof(attach) - 1;
	rest += strspn(rest, "0123456789PID");
	buf_init(&b);
	buf_addf(&b, "%.*sgoprof %s", (int)(at - err->todo), err->todo, c->name);
	command_line_add(&b, argv);
	/* "or start it by: goprof run" gives a profile, not what dump and info are for. */
	if (c->bit & COMMAND_ATTACH)
		buf_adds(&b, rest);
	if (!buf_error(&b))
		error_todo(err, "%s", b.data);
}

struct error *refused_by(const struct command *c, char *const *argv, const char *pid, struct error *err)
{
	if (!err || err->is_static)
		return err;
	if (c->bit & (COMMAND_DUMP | COMMAND_INFO) && strncmp(err->what, "cannot attach to ", 17) == 0)
		error_reword(err, "cannot attach to ", "cannot look into ");
	if ((err->kind == ERROR_DENIED || err->kind == ERROR_FACILITY) && !(c->bit & COMMAND_RUN))
		attach_line(c, argv, err);
	if (err->kind == ERROR_NO_PROCESS && err->todo && c->bit & (COMMAND_DUMP | COMMAND_INFO) &&
	    strncmp(err->todo, "goprof attach ", 14) == 0)
		error_todo(err, "goprof %s %s", c->name, err->todo + 14);
	if (err->kind == ERROR_NOT_GO && !err->todo && c->bit & (COMMAND_ATTACH | COMMAND_DUMP) &&
	    strstr(err->what, "is not a Go program"))
		error_todo(err, "goprof info %s shows what was tried", pid);
	return err;
}

/* ---- which process ---- */

static struct error *no_pid(const struct command *c, const char *word)
{
	struct error *err = error_new(ERROR_USAGE, "'%s' is not the id of a process", word);
	_cleanup_(buf_deinit) struct buf b = { 0 };

	buf_init(&b);
	shell_word_add(&b, c->bit & COMMAND_ATTACH && program_is_executable(word) ? word : path_base(word));
	if (buf_error(&b) || !*word || *word == '-')
		return err;
	if (c->bit & COMMAND_ATTACH && program_is_executable(word))
		return error_todo(err, "to start it: goprof run %s", b.data);
	return error_todo(err, "goprof %s \"$(pgrep -n %s)\"", c->name, b.data);
}

struct error *pid_read(const struct command *c, const char *word, pid_t *ret)
{
	uint64_t n;

	/* A number that is too big for any variable is one nevertheless. */
	if (!number_parse(word, &n) && *word && !word[strspn(word, "0123456789")])
		n = 0;
	else if (!number_parse(word, &n))
		return no_pid(c, word);
	if (n == 0 || n > INT32_MAX)
		return error_new(ERROR_NO_PROCESS, "there is no process %s", word);
	*ret = (pid_t)n;
	return NULL;
}
