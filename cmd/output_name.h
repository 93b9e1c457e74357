/*
 * output_name.h: from what the user wrote behind -o to the name of a file. Pure text.
 */
#ifndef GOPROF_CMD_OUTPUT_NAME_H
#define GOPROF_CMD_OUTPUT_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/* What the marks of a pattern stand for. */
struct output_names {
	const char *program;	/* %e */
	int pid;		/* %p */
	uint64_t start_real;	/* %t, ns since 1970; written as local time 20261129-141503 */
};

/* Only known marks? ERROR_OUTPUT otherwise. */
struct error *output_pattern_check(const char *pattern);
/* The pattern with its marks replaced; *numbered tells whether %n was among them. */
struct error *output_pattern_expand(const char *pattern, const struct output_names *names,
				    uint32_t window, char **ret, bool *numbered);
/* "x.envelope" and 2 give "x.2.envelope"; NULL when memory is short. */
char *output_numbered(const char *path, const char *suffix, uint32_t number);

#endif
