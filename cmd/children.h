/*
 * children.h: which other programs a command of `run` started, so that a profile of a wrapper
 * does not pass for the profile of the program behind it.
 */
#ifndef GOPROF_CMD_CHILDREN_H
#define GOPROF_CMD_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct children;

struct children_setup {
	const char *proc;	/* "/proc"; tests bring their own */
	pid_t pid;		/* whose descendants */
};

struct error *children_create(const struct children_setup *setup, struct children **ret);
void children_destroy(struct children *c);	/* NULL is fine */

/*
 * Looks when it is time (often at first, then once a second; `idle`: nothing else is going on, so
 * look more often). Costs some microseconds per thread.
 */
void children_look(struct children *c, uint64_t now, bool idle);

struct child_program {
	const char *path;	/* as /proc named it */
	pid_t pid;
	uint32_t others;	/* more Go programs than this one */
	bool alive;		/* it still runs, now */
};

/*
 * The Go program among them that was seen longest; tools of the Go toolchain are left out.
 * False: none. Borrowed, valid as long as `c`.
 */
bool children_go(struct children *c, struct child_program *ret);

#endif
