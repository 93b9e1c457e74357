/*
 * naming.h: from the pcs of a walk to named frames: what the sampler and dump do alike.
 */
#ifndef GOPROF_SAMPLE_NAMING_H
#define GOPROF_SAMPLE_NAMING_H

#include "symbol/symbol.h"
#include "target/target.h"
#include "unwind/unwind.h"

/*
 * Symbols of a runtime that also know where the target's vDSO stands, and with `images` (borrowed;
 * may be NULL) the names of C code. Free with symbols_destroy.
 */
struct error *naming_open(const struct target *t, struct go_runtime *rt, struct images *images,
			  struct symbols **ret);

/* How the symbols look up a pc of this kind; part of the key of whoever caches frames by pc. */
enum symbol_pc naming_how(enum pc_kind kind);

/* symbol_expand for one frame of a walk, at the place that its pc stands for. */
struct error *naming_expand(struct symbols *s, const struct go_runtime *rt, const struct pc_frame *f,
			    const struct symbol_frame **ret, size_t *n);

#endif
