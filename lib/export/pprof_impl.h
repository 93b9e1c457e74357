/*
 * pprof_impl.h: what pprof.c (adding up), pprof_merge.c (keeping it bounded) and pprof_write.c (the file)
 * share. Nobody else includes it.
 */
#ifndef GOPROF_EXPORT_PPROF_IMPL_H
#define GOPROF_EXPORT_PPROF_IMPL_H

#include "export/export_impl.h"

enum pprof_value { PPROF_SAMPLES, PPROF_CPU, PPROF_WALL, PPROF_VALUES };

struct pprof_key {
	profile_id stack, labels, state;
};

/* What the run is made of so far, and the names of that. */
struct pprof_rows {
	struct profile *names;		/* tables of its own: those of windows go with their epochs */
	struct keyset keys;		/* struct pprof_key */
	uint64_t (*values)[PPROF_VALUES];	/* one row for each key */
	uint32_t cap_values;
};

struct pprof {
	struct export_options o;
	size_t most_bytes;		/* of the rows and their names */
	struct pprof_rows *rows;	/* NULL before the first window */
	uint64_t labels_merged, stacks_merged;
	struct profile_meta meta;	/* of the latest window, as told there */
	uint32_t windows;
	struct clock_anchor start;
	uint64_t duration_ns, unseen_ns, ended_ns;
	uint64_t health[HEALTH_COUNT];
};

/* With another bound; tests use a small one. */
void pprof_limit(struct pprof *x, size_t most_bytes);

struct error *pprof_rows_create(const struct profile_meta *meta, struct pprof_rows **ret);
void pprof_rows_destroy(struct pprof_rows *r);
size_t pprof_rows_bytes(const struct pprof_rows *r);
struct error *pprof_rows_add(struct pprof_rows *r, const struct pprof_key *key, const uint64_t v[PPROF_VALUES]);

/*
 * Makes the rows at most half as large as they may be: those with least time lose their label set first, then
 * their stack.
 */
struct error *pprof_merge(struct pprof *x);

/* Everything as a gzipped profile. */
struct error *pprof_write(const struct pprof *x, struct sink *out);

#endif
