/*
 * options.h: the command line, read by one table. A row is an option: its names, its argument,
 * its limits, its default, the environment variable that stands in for it, the commands it
 * belongs to and its help. Parsing, --help and (later) man page and completions walk the rows;
 * no option has code of its own, only types have.
 */
#ifndef GOPROF_CMD_OPTIONS_H
#define GOPROF_CMD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "profile/profile.h"

struct command;
struct inherited;

enum option_id {
	OPTION_RATE,
	OPTION_MODE,
	OPTION_LOOKS,
	OPTION_DEPTH,
	OPTION_SYSTEM,
	OPTION_NO_NATIVE,
	OPTION_RUNTIME,
	OPTION_STRICT,
	OPTION_DURATION,
	OPTION_MAX_THREADS,
	OPTION_THREADS,
	OPTION_ACTIVE,
	OPTION_OUTPUT,
	OPTION_DSN,
	OPTION_NO_DSN,
	OPTION_RELEASE,
	OPTION_ENVIRONMENT,
	OPTION_LABELS,
	OPTION_EXE,
	OPTION_PROGRESS,
	OPTION_QUIET,
	OPTION_VERBOSE,
	OPTION_HELP,
	OPTION_VERSION,
	OPTION_COUNT,
};

/* Where a value came from. */
enum option_source { OPTION_DEFAULT, OPTION_FROM_ENV, OPTION_FROM_LINE };

/* The words of a repeatable option, in order. */
struct option_list {
	const char **v;
	size_t n;
};

/* One of some words, of which the last may have a text behind it. */
struct option_keyed {
	uint64_t choice;		/* position in `choices` */
	const char *key;		/* of "label:KEY"; else NULL */
};

/* Strings are borrowed from argv and the environment. */
struct options {
	const struct command *command;	/* NULL: none was named (--help, --version) */
	uint8_t source[OPTION_COUNT];	/* enum option_source */
	uint64_t rate;			/* Hz */
	uint64_t mode;			/* enum profile_mode */
	uint64_t looks;			/* enum sampler_looks */
	uint64_t depth;			/* frames */
	bool system;
	bool no_native;
	const char *runtime;		/* of several runtimes this one; NULL: there is only one */
	bool strict;			/* refuse instead of restricted mode */
	uint64_t duration;		/* ns; 0 = no limit */
	uint64_t max_threads;		/* 0 = all */
	struct option_keyed threads;	/* enum export_threads */
	uint64_t active;		/* goid; 0 = goroutine 1, ACTIVE_BUSIEST */
	struct option_list outputs;
	const char *dsn;		/* NULL none */
	bool no_dsn;
	const char *release, *environment;	/* NULL none */
	bool labels;
	const char *exe;		/* the program of a core file; NULL: as the core says */
	bool progress, quiet, verbose, help, version;
	char **words;			/* what is no option; NULL-terminated, borrowed pointers */
	size_t n_words;
	const struct inherited *inherited;	/* for the child of run; borrowed */
};

#define ACTIVE_BUSIEST UINT64_MAX

enum option_type {
	OPTION_TYPE_FLAG,
	OPTION_TYPE_NUMBER,
	OPTION_TYPE_DURATION,
	OPTION_TYPE_CHOICE,	/* position in `choices` */
	OPTION_TYPE_KEYED,	/* the same, and "word:KEY" stands for the word with any text */
	OPTION_TYPE_GOID,	/* a number, or one of `choices` */
	OPTION_TYPE_STRING,
	OPTION_TYPE_LIST,	/* repeatable */
	OPTION_TYPE_COUNT,
};

/* What differs for some commands; NULL: as in the row. */
struct option_variant {
	uint32_t commands;	/* 0 ends the list */
	const char *value, *help;
};

struct option_row {
	const char *name;	/* long, without the dashes */
	char letter;		/* 0 none */
	const char *argument;	/* as --help names it; NULL for flags */
	enum option_type type;
	uint64_t min, max;	/* of numbers and durations */
	const char *const *choices;	/* NULL-terminated */
	const char *value;	/* default, as it would be typed; NULL none */
	const char *env;	/* NULL none */
	uint32_t commands;	/* enum command_bit */
	const char *group;	/* heading in --help */
	const char *help;
	const struct option_variant *variants;	/* NULL none */
	size_t offset;		/* of its member in struct options */
};

extern const struct option_row option_table[OPTION_COUNT];

/* Default (NULL none) and help of an option for one command. */
const char *option_value(const struct option_row *row, const struct command *c);
const char *option_help(const struct option_row *row, const struct command *c);

/*
 * Reads argv[1..] for a command; `ret` is filled completely or not at all. `env` looks up the
 * environment (getenv; tests bring their own). The error's kind is the command's.
 */
struct error *options_parse(const struct command *c, char *const *argv, char *(*env)(const char *),
			    struct options *ret);
void options_deinit(struct options *o);

/* Does the line ask for colour on this descriptor? Terminal, and no NO_COLOR. */
bool options_colour(int fd);

#endif
