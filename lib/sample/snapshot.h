/*
 * snapshot.h: every goroutine once, for dump: the same readers as the tick uses, with a retry for
 * what moved.
 */
#ifndef GOPROF_SAMPLE_SNAPSHOT_H
#define GOPROF_SAMPLE_SNAPSHOT_H

#include "go/goroutine.h"
#include "sample/sample.h"
#include "unwind/unwind.h"

struct snapshot_goroutine {
	struct g_look look;
	bool moved;			/* it ran while it was read: header only, no stack */
	bool labels_known;
	const struct go_label *labels;	/* sorted by key; n_labels of them */
	uint32_t n_labels;
	const struct pc_frame *frames;	/* leaf first */
	uint32_t n_frames;
	enum unwind_end end;
};

struct snapshot {
	struct snapshot_goroutine *v;	/* in the order of allgs */
	uint32_t n;
	uint32_t threads_held;		/* of a core: read */
	uint64_t held_ns;		/* longest of them */
	uint64_t took_ns;
};

/* parts->profile is not used, nor the tracer (NULL) for a core file. System goroutines are included; the caller leaves them out. */
struct error *snapshot_take(const struct sampler_parts *parts, uint32_t depth, struct snapshot **ret);
void snapshot_free(struct snapshot *s);

#endif
