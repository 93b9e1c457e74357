/*
 * refused.h: errors as they suit the one who typed this command: lib/ does not know which command
 * asked it, so the words that depend on it are put in here, and words that name a process are read
 * in one place.
 */
#ifndef GOPROF_CMD_REFUSED_H
#define GOPROF_CMD_REFUSED_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

struct command;

/* The id of a process; the error of any other word names what to type. */
struct error *pid_read(const struct command *c, const char *word, pid_t *ret);

/*
 * Fits what was refused to the command; argv are its words behind the name, `pid` the one
 * that names the process. Takes and returns err.
 */
struct error *refused_by(const struct command *c, char *const *argv, const char *pid,
			 struct error *err);

/* Puts other words in the place of `old` in `what`; false, and nothing changed, where it has none. */
bool error_reword(struct error *err, const char *old, const char *words);

/* The words to be typed again, each preceded by a space; a DSN holds a key and is not repeated. */
void command_line_add(struct buf *b, char *const *argv);
/* One word as a shell takes it, quoted where it must be. */
void shell_word_add(struct buf *b, const char *word);

#endif
