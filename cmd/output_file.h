/*
 * output_file.h: files that are there whole or not at all.
 */
#ifndef GOPROF_CMD_OUTPUT_FILE_H
#define GOPROF_CMD_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Can a file of this name be made? Tried, not guessed, and nothing is left behind. ERROR_OUTPUT. */
struct error *output_file_check(const char *path);

/*
 * Writes all of it under a name that nobody sees, then gives it its own. What already stands
 * there is replaced, or with `replace` false kept: &err_notfound then, for another name.
 * Devices and pipes are written to as they are. ERROR_OUTPUT.
 */
struct error *output_file_write(const char *path, const void *data, size_t len, bool replace);

/* All bytes to a descriptor. ERROR_OUTPUT; `name` is for the message. */
struct error *output_fd_write(int fd, const char *name, const void *data, size_t len);

#endif
