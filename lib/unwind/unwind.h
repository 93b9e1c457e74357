/*
 * unwind.h: from a place to start to a list of pcs, over copied memory only.
 *
 * Nothing here touches a process: the bytes come in views (captured or read before), so walks are
 * repeatable and testable. Upstream: src/runtime/traceback.go (unwinder), proc.go (sigprof).
 */
#ifndef GOPROF_UNWIND_UNWIND_H
#define GOPROF_UNWIND_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "go/callsite.h"
#include "go/go.h"
#include "go/goroutine.h"
#include "target/tracer.h"

struct native;		/* native.h */

/*
 * What kind of pc it is decides how it may be looked up: a return address may already belong to
 * the next line, or to the next function when the call does not come back, while a pc that was
 * interrupted stands for itself. Use pc_frame_lookup, never arithmetic of your own.
 */
enum pc_kind {
	PC_EXACT,	/* an instruction that was about to run: look up pc itself */
	PC_RETURN,	/* a return address: the call is at pc - 1 */
	PC_INJECTED,	/* the frame under an injected call (sigpanic, asyncPreempt): as EXACT */
	/*
	 * In code that is no Go code: look up pc itself (of a caller it is the last byte of its
	 * call). 0: C code and no more is known, be it one frame or some.
	 */
	PC_NATIVE,
	PC_GAP,		/* frames are missing here; pc is no address, see pc_gap_frames */
};

struct pc_frame {
	gaddr_t pc;
	enum pc_kind kind;
};

/*
 * How much is missing at a PC_GAP: the number of frames where all of the stack was walked, else 0;
 * the bytes of stack that were not read where it was not, else 0.
 */
uint64_t pc_gap_frames(const struct pc_frame *f);
uint64_t pc_gap_bytes(const struct pc_frame *f);

/* The address whose line and inlining describe the frame. `entry` of its function. */
gaddr_t pc_frame_lookup(const struct pc_frame *f, gaddr_t entry);

/* A stack and where to enter it. */
struct unwind_place {
	gaddr_t pc, sp;		/* pc == 0: no such place */
	enum pc_kind kind;
	gaddr_t lo, hi;		/* bounds, of goroutines' stacks only; 0, 0: a thread's own stack */
	gaddr_t racecall;	/* what stands there in the register that racecall keeps sp in; 0 unknown */
};

struct unwind_start {
	struct unwind_place at;
	/*
	 * Where the goroutine itself goes on when the walk on the system stack comes to systemstack,
	 * mcall or morestack (or ends in C code called through asmcgocall).
	 */
	struct unwind_place goroutine;
	bool native_first;	/* the thread stands outside Go code: a PC_NATIVE frame comes first */
	gaddr_t native_pc;	/* where that is; 0 unknown */
	/*
	 * `goroutine` is the place from which it called into C: whatever native code the walk meets
	 * off the goroutine's stack (a signal that interrupted C), the goroutine goes on there.
	 */
	bool in_c;
	bool between;		/* the m is known, and it runs no goroutine */
	/* Where the scheduler sends the goroutine while it loads the stack pointer (gogo); 0 unknown. */
	gaddr_t resume_pc;
	/* The m is known and no call of the vDSO has begun: the callers of it have not moved sp. */
	bool no_vdso;
	/*
	 * For the caller to set after unwind_start_thread; all may stay zero. With `native` C code is
	 * walked frame by frame, else one PC_NATIVE frame stands for it (borrowed, as `regs`).
	 */
	struct native *native;
	const struct regs *regs;	/* of the thread */
	gaddr_t callbacks;		/* its g0's sched.sp: where the last Go function called from C left C */
};

/*
 * More bytes of a goroutine's stack, from `addr` on: at least a word, or false. They stay valid
 * until the next call. For stacks that nothing changes meanwhile; addresses only rise.
 */
typedef bool unwind_more(void *ctx, gaddr_t addr, struct mem_view *ret);

struct unwind_memory {
	const struct mem_view *views;
	size_t n;
	unwind_more *more;		/* NULL: the views are all there is */
	void *ctx;
};

enum unwind_end {
	UNWIND_COMPLETE,	/* reached the goroutine's or thread's first function */
	UNWIND_GAP,		/* reached it too, but frames between the two ends are missing: one PC_GAP */
	UNWIND_DEPTH,		/* deeper than `cap` frames or the bytes at hand; the first function is missing */
	UNWIND_NO_MEMORY,	/* the copied bytes ended before the stack did */
	UNWIND_NO_FUNCTION,	/* a return address in no function */
	UNWIND_NO_DELTA,	/* the table does not say how big the frame is */
	UNWIND_NATIVE,		/* stopped at C code */
	UNWIND_BAD_SP,		/* sp left the stack or did not grow */
	UNWIND_SPWRITE,		/* function that sets sp freely */
	UNWIND_NOWHERE,		/* nothing to start from */
	UNWIND_END_COUNT,
};

const char *unwind_end_name(enum unwind_end end);

/*
 * Leaf first. Returns the number of frames (at most cap) and why it ended. Only `native` allocates.
 *
 * A stack of more than `cap` frames keeps both its ends, with one PC_GAP between them. So does one
 * whose middle was not copied, when a view holds the end of the goroutine's stack and the frames
 * there can be told from whatever else lies in it (far.c).
 */
size_t unwind(struct go_runtime *rt, const struct unwind_start *start,
	      const struct unwind_memory *mem, struct pc_frame *out, size_t cap, enum unwind_end *end);

/* Did one call the other, as far as their kinds tell? Not frames that were interrupted, C code, gaps. */
bool pc_frames_call(const struct pc_frame *callee, const struct pc_frame *caller);
/* Does the code say so, too? CALL_SITE_FREE for pairs that pc_frames_call excludes. */
enum call_site unwind_call_site(struct go_runtime *rt, const struct pc_frame *callee,
				const struct pc_frame *caller);

/* ---- where to start ---- */

/* A goroutine that is not on a thread: by its status. False: skip it. */
bool unwind_start_parked(const struct g_look *g, struct unwind_start *ret);
/*
 * A thread: registers with its m and current goroutine, in the runtime's own order of decision
 * (C code, vDSO, Go text, else unknown). `curg` NULL: no goroutine. False: nothing to start from.
 */
bool unwind_start_thread(struct go_runtime *rt, const struct regs *r, const struct m_look *m,
			 const struct g_look *curg, struct unwind_start *ret);

#endif
