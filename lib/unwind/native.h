/*
 * native.h: frames of C code, by libunwind over copied memory.
 *
 * libunwind's remote interface with accessors of our own: memory comes from the capture and from
 * the images' files, registers from the capture, unwind tables (PT_GNU_EH_FRAME) from the images.
 * Nothing is read from the process by word, nothing while a thread is held. Images without such a
 * table end the walk: one frame that says "C code", and it is counted.
 */
#ifndef GOPROF_UNWIND_NATIVE_H
#define GOPROF_UNWIND_NATIVE_H

#include "image/images.h"
#include "unwind/unwind.h"

struct native;

/* `images` is borrowed and outlives it. */
struct error *native_create(struct images *images, struct native **ret);
void native_destroy(struct native *nv);		/* NULL is fine */

/* Is this pc Go code (then the Go walk takes over from here)? */
typedef bool native_is_go(void *ctx, gaddr_t pc);

enum native_end {
	NATIVE_REACHED_GO,	/* `at` is the first place in Go code: pc is a return address */
	NATIVE_BOTTOM,		/* the thread's first function: nothing above it */
	NATIVE_DEPTH,		/* no room in `out` */
	NATIVE_NO_TABLE,	/* code without unwind information */
	NATIVE_NO_MEMORY,	/* beyond what was copied */
	NATIVE_LOST,		/* libunwind gave up, or it did not make progress */
};

/*
 * Walks from `regs` (in C code) upwards: the frames so far into out, all PC_NATIVE, leaf first; *n
 * is how many. On NATIVE_REACHED_GO *at has pc, sp and kind of the Go frame.
 */
enum native_end native_walk(struct native *nv, const struct regs *regs, const struct unwind_memory *mem,
			    native_is_go *is_go, void *ctx, struct pc_frame *out, size_t cap, size_t *n,
			    struct unwind_place *at);

#endif
