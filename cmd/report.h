/*
 * report.h: the words around the tables: what ran and how it ended, what was not profiled, how
 * long somebody's process was watched. Plain values in, text out.
 */
#ifndef GOPROF_CMD_REPORT_H
#define GOPROF_CMD_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct child_program;

/* How a child of run ended. */
struct report_run {
	const char *name;	/* as it was called */
	char *const *argv;
	int pid;
	const char *go_version;	/* "" none */
	uint64_t ns;		/* how long it ran */
	uint64_t recorded_ns;	/* how long of it was recorded */
	bool limited;		/* by --duration */
	int wait_status;
	uint32_t rate_hz;
	uint32_t ticks;
	bool has_profile;
	bool execed;		/* it became another program */
	unsigned int parts;	/* how many of its programs were recorded */
	const char *exe;	/* the file that was recorded */
	const char *last_exe;	/* the file that it ended as */
	bool failed;		/* an error, told apart from this text, ended the recording */
	const char *refusal;	/* why there is no profile; NULL: it was too short, or failed */
	const char *refusal_why;
	const struct child_program *child;	/* a Go program it started; NULL none */
};

/* The block's first line with its notes. */
void report_run_text(const struct report_run *r, struct buf *b);
/* What stands over the tables of one of several programs that were one process (exec). */
void report_part_text(const char *exe, const char *go_version, uint64_t recorded_ns, struct buf *b);
/* Exit status of `run`: the child's, 128 + n for a signal. */
int report_run_status(int wait_status);

/* "5 s or Ctrl-C", "Ctrl-C ends it" */
void report_limit_text(uint64_t duration_ns, struct buf *b);

#endif
