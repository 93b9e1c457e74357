/*
 * program.h: from the word behind `goprof run` to a file that can be executed, or to an error
 * that says what stands in the way and the next command to type.
 */
#ifndef GOPROF_CMD_PROGRAM_H
#define GOPROF_CMD_PROGRAM_H

#include <stdbool.h>

#include "base/error.h"

/*
 * As execvp would find it; `path` is the value of PATH, NULL when unset. ERROR_START_MISSING,
 * ERROR_START_EXEC.
 */
struct error *program_find(const char *word, const char *path, char **ret);
/* A regular file that may be executed? */
bool program_is_executable(const char *path);

#endif
