/*
 * native.h: frames of C code, by libunwind over copied memory.
 *
 * libunwind's remote interface with accessors of our own: stack memory comes from the capture,
 * unwind records (eh_frame.h) from the images' files. Nothing is read from the process by word,
 * nothing while a thread is held. A table is read through before libunwind sees it; code without
 * one ends the walk. Not thread safe: one walk at a time.
 */
#ifndef GOPROF_UNWIND_NATIVE_H
#define GOPROF_UNWIND_NATIVE_H

#include "image/images.h"
#include "unwind/unwind.h"

/* `images` is borrowed and outlives it. */
struct error *native_create(struct images *images, struct native **ret);
void native_destroy(struct native *nv);		/* NULL is fine */

/*
 * Lets the next walk read the mappings anew before it begins: libraries come and go (dlopen,
 * dlclose). For once a second: that costs some 100 microseconds.
 */
void native_allow_refresh(struct native *nv);

/* Is this pc Go code (then the Go walk takes over from here)? */
typedef bool native_is_go(void *ctx, gaddr_t pc);

enum native_end {
	NATIVE_REACHED_GO,	/* `at` is the first place in Go code */
	NATIVE_BOTTOM,		/* the thread's first function: nothing above it */
	NATIVE_DEPTH,		/* no room in `out` */
	NATIVE_NO_TABLE,	/* code without unwind information that can be used */
	NATIVE_NO_MEMORY,	/* beyond what was copied */
	NATIVE_LOST,		/* libunwind gave up, or it did not make progress */
	NATIVE_END_COUNT,
};

/* Where a walk begins. */
struct native_start {
	struct dwarf_regs regs;
	bool returned;		/* pc is a return address: the call is before it */
	bool cloned;		/* in, or just behind, the system call that makes a thread */
};

/* A thread that was held: all its registers are known. */
struct native_start native_start_held(const struct regs *r);

/*
 * Walks from `start` (in C code) upwards: the frames so far into out, all PC_NATIVE, leaf first; *n
 * is how many, counted from 0. On NATIVE_REACHED_GO *at has pc, sp and kind of the Go frame (a
 * return address, or PC_EXACT where a signal interrupted Go code). Allocates for its caches only.
 */
enum native_end native_walk(struct native *nv, const struct native_start *start, const struct unwind_memory *mem,
			    native_is_go *is_go, void *ctx, struct pc_frame *out, size_t cap, size_t *n,
			    struct unwind_place *at);

/* Since native_create. */
struct native_counts {
	uint64_t frames;
	uint64_t ends[NATIVE_END_COUNT];	/* walks, by how they ended */
};

const struct native_counts *native_counts(const struct native *nv);

#endif
