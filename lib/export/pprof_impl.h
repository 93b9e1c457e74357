/*
 * pprof_impl.h: what pprof.c (adding up) and pprof_write.c (the file) share. Nobody else includes it.
 */
#ifndef GOPROF_EXPORT_PPROF_IMPL_H
#define GOPROF_EXPORT_PPROF_IMPL_H

#include "export/export_impl.h"

enum pprof_value { PPROF_SAMPLES, PPROF_CPU, PPROF_WALL, PPROF_VALUES };

struct pprof_key {
	profile_id stack, labels, state;
};

struct pprof {
	struct export_options o;
	const struct profile *profile;	/* of the windows; borrowed until pprof_finish */
	struct keyset keys;		/* struct pprof_key */
	uint64_t (*values)[PPROF_VALUES];	/* one row for each key */
	uint32_t cap_values;
	uint32_t windows;
	struct clock_anchor start;
	uint64_t duration_ns, unseen_ns, ended_ns;
	uint64_t health[HEALTH_COUNT];
};

/* Everything as a gzipped profile. */
struct error *pprof_write(const struct pprof *x, struct sink *out);

#endif
