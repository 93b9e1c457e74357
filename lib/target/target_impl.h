/*
 * target_impl.h: what a back end of struct target fills in. Back ends: live.c, core.c (a later
 * issue), test/fake/target_fake.c. Nobody else includes this.
 */
#ifndef GOPROF_TARGET_TARGET_IMPL_H
#define GOPROF_TARGET_TARGET_IMPL_H

#include "target/target.h"

struct target_ops {
	void (*close)(struct target *t);
	struct error *(*read_v)(const struct target *t, struct span *v, size_t n);
	struct error *(*mappings)(const struct target *t, struct mappings *ret);
	struct error *(*tids)(const struct target *t, pid_t *tids, size_t *n);
	pid_t (*tid_from_inner)(struct target *t, pid_t inner);
	enum target_life (*life)(const struct target *t);
	bool (*cpu_ns)(const struct target *t, uint64_t *ret);
};

/* Back ends embed this as their first member. */
struct target {
	const struct target_ops *ops;
	const struct arch *arch;
	pid_t pid;
	uint64_t start_time;
	char *exe_path;		/* owned */
	int exe_fd;		/* owned; -1 when there is none */
};

#endif
