/*
 * core.h: what was found wanting in a core file, beyond what struct target can say.
 */
#ifndef GOPROF_TARGET_CORE_H
#define GOPROF_TARGET_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/target.h"

struct core_facts {
	uint64_t bytes;			/* memory that the core says it holds */
	uint64_t missing_bytes;		/* of these, cut off at the end of the file */
	uint64_t skipped;		/* headers, notes and threads that contradict themselves */
	size_t threads;
	/* Ids were asked for, and none was a thread of the core: it was made in another pid namespace. */
	bool foreign_tids;
	const char *exe_why;		/* why there is no program file; NULL when there is one. Borrowed */
};

/* False for a target that does not come from a core file. */
bool target_core_facts(const struct target *t, struct core_facts *ret);

#endif
