/*
 * command.h: the subcommands, as a table. One row says how a command is called, how its words
 * are read and what carries it out; dispatch, help and the check of the number of words follow
 * from it. A new command is a row here and a file of its own.
 *
 * A command returns an error for main to print, and may set *status: then that is the exit
 * status whatever the error is (`run` hands on its child's). Otherwise the status follows from
 * the error's kind, 0 without one.
 */
#ifndef GOPROF_CMD_COMMAND_H
#define GOPROF_CMD_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct buf;
struct options;

enum command_bit {
	COMMAND_RUN = 1 << 0,
	COMMAND_ATTACH = 1 << 1,
	COMMAND_DUMP = 1 << 2,
	COMMAND_INFO = 1 << 3,
	COMMAND_RECORDING = COMMAND_RUN | COMMAND_ATTACH,
	COMMAND_NONE = 1 << 7,		/* goprof itself, before a command is named */
	COMMAND_ANY = 0x7f,
	COMMAND_ALL = COMMAND_ANY | COMMAND_NONE,
};

enum { STATUS_UNSET = -1 };

struct command {
	const char *name;
	uint32_t bit;		/* enum command_bit */
	const char *words;	/* what stands behind the options: "PID" */
	bool stops;		/* options end at the first word that is none (`run CMD -x`) */
	unsigned int min, max;	/* number of words */
	const char *missing;	/* what is asked for when words are missing */
	const char *help;	/* one line */
	const char *more;	/* what else --help of this command says; NULL nothing */
	enum error_kind usage;	/* kind of its usage errors: `run` must not end with 2 */
	struct error *(*execute)(const struct options *o, int *status);
};

/* All of them; ends with a row without a name. */
extern const struct command command_table[];
/* NULL when there is none of that name. */
const struct command *command_find(const char *name);

/* The whole of goprof. `*status` comes as STATUS_UNSET. */
struct error *command_main(int argc, char **argv, int *status);

/* Text of --help: of one command, or of goprof itself for NULL. */
void help_text(const struct command *c, struct buf *b);

/* "0.1.0" */
const char *goprof_version(void);

/* To stdout. A reader that has seen enough (EPIPE) is no error. */
struct error *print(const struct buf *b);

/*
 * An error as people see it: what happened, why, what to do (with the prefix "goprof: "). A line to
 * paste is never broken, the others are before column 80.
 */
void error_text(const struct error *err, struct buf *b);

/* A sentence on stderr with the prefix, broken before column 80. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* run.c, attach.c, dump.c, info.c */
struct error *run_command(const struct options *o, int *status);
struct error *attach_command(const struct options *o, int *status);
struct error *dump_command(const struct options *o, int *status);
struct error *info_command(const struct options *o, int *status);

#endif
