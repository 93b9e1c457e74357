/*
 * tracer.h: the one thread that owns ptrace and wait. Others hand it requests and get answers
 * later; it never waits for them.
 *
 * A capture is: SEIZE, INTERRUPT, and when the thread arrives: registers, its clock, the caller's
 * hook (which copies stacks), DETACH. goprof is never attached between captures, so signals reach
 * the target without passing through us; one that is met on the way is handed on. A thread that
 * does not arrive within the tick (throttled, frozen) keeps its one outstanding request and is
 * captured when it comes. Threads that are blocked should not be asked for: a stop makes
 * epoll_wait and a few others return EINTR; where it happens it is healed and counted.
 *
 * It is also the parent of the child of `run`. Nothing here ever kills; should goprof die at any
 * instant, the kernel detaches and the target runs on.
 */
#ifndef GOPROF_TARGET_TRACER_H
#define GOPROF_TARGET_TRACER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/error.h"
#include "target/target.h"

struct tracer;

/*
 * Blocks SIGCHLD in the calling thread, for good: threads made before, with it unblocked, would
 * take the news of stops away. (A child of tracer_launch gets the mask that inherited_save saw.)
 */
struct error *tracer_create(struct tracer **ret);
/* Waits for outstanding captures at most 100 ms, then leaves them to the kernel. NULL is fine. */
void tracer_destroy(struct tracer *tr);

/* How the tracer thread is scheduled, by what was allowed; for the health figures. */
enum tracer_rank { TRACER_ORDINARY, TRACER_NICE, TRACER_REAL_TIME, TRACER_RANK_COUNT };
enum tracer_rank tracer_rank(const struct tracer *tr);
const char *tracer_rank_name(enum tracer_rank rank);	/* "ordinary", "nice -20", "SCHED_FIFO" */

/* ---- launching ---- */

/* What a process inherits and goprof may have changed for itself; saved first thing in main. */
struct inherited;
struct error *inherited_save(struct inherited **ret);
void inherited_free(struct inherited *in);

struct launch {
	const char *path;		/* already resolved; no shell fallback on ENOEXEC */
	char *const *argv;
	char *const *envp;
	const struct inherited *inherited;	/* put back in the child before exec; NULL: as goprof is */
};

/*
 * Starts the command and returns when it stands at its exec, before its first instruction.
 * ERROR_START_EXEC (errno in the text), ERROR_START_SELF, ERROR_START_MISSING.
 */
struct error *tracer_launch(struct tracer *tr, const struct launch *l, pid_t *ret);
/* Lets the launched child run, detached. */
struct error *tracer_let_run(struct tracer *tr, pid_t pid);

struct child_status {
	bool ended;
	int wait_status;	/* as wait(2) gives it; valid when ended */
	int stop_signal;	/* != 0: the child is stopped by job control now */
	struct rusage usage;	/* valid when ended */
};

/* The launched child's state, without waiting. */
void tracer_child_status(struct tracer *tr, pid_t pid, struct child_status *ret);
/* Blocks until the child's state changes, `timeout_ns` is over or a signal handler ran. */
void tracer_wait_child(struct tracer *tr, pid_t pid, uint64_t timeout_ns, struct child_status *ret);

/* ---- captures ---- */

enum {
	CAPTURE_BYTES = 64 * 1024,	/* stack bytes of one capture, all views together */
	CAPTURE_VIEWS = 4,
	CAPTURE_NOTE = 2064,		/* for the hook's own findings */
};

/* A piece of target memory that was copied: `bytes` stands for [low, low + len). */
struct mem_view {
	gaddr_t low;
	uint32_t len;
	const uint8_t *bytes;
};

enum capture_status {
	CAPTURE_OK,
	CAPTURE_GONE,		/* the thread ended first */
	CAPTURE_BUSY,		/* somebody else traces it (EPERM) */
	CAPTURE_DENIED,		/* we may not (any more), or a tracer outside of our pid namespace has it: EPERM as well */
};

struct capture {
	enum capture_status status;
	pid_t tid;
	uint64_t cookie;		/* the request's */
	struct regs regs;
	uint64_t t_tick;		/* the request's */
	uint64_t t_arrived;		/* first seen stopped, CLOCK_MONOTONIC */
	uint64_t t_resumed;		/* after DETACH: t_resumed - t_arrived is the time we held it */
	struct task_times before;	/* the request's: as read at the tick */
	struct task_times held;		/* read in the hold: exact */
	bool in_time;			/* arrived within the polling of its own tick */
	bool late_blocked;		/* it was just entering a wait: rax -EINTR/-ERESTART* */
	bool healed;			/* and the wait was made to restart */
	int signal;			/* a signal met on the way and handed on; 0 none */
	/* Filled by the hook from `bytes`: */
	uint32_t n_views;
	struct mem_view views[CAPTURE_VIEWS];
	struct mem_view extra;		/* more of the hook's own; len 0: none */
	uint32_t note_len;
	uint8_t note[CAPTURE_NOTE];
	uint8_t bytes[CAPTURE_BYTES];
};

/* The first of its views may stand elsewhere while a hook is at work (perf.h): into its own bytes with it. */
static inline void capture_own(struct capture *c, struct mem_view *first)
{
	if (first->bytes != c->bytes)
		memcpy(c->bytes, first->bytes, first->len);
	first->bytes = c->bytes;
}

struct capture_request {
	const struct task *task;	/* borrowed until the capture comes back */
	uint64_t cookie;
	uint64_t t_tick;
	struct task_times before;
	gaddr_t hint[4];		/* for the hook: what the caller knew at the tick */
	/*
	 * What the hook will read, as far as that is known: read once before the stop, and thrown away, so that
	 * nothing on the way there has to be fetched while the thread is held. len 0: none.
	 */
	struct {
		gaddr_t addr;
		uint32_t len;		/* both together no longer than a note */
	} soon[2];
};

/*
 * Runs in the tracer thread while the thread is held: copies what it needs into c->bytes and
 * c->note, nothing else. No allocation, no lock, no log, no system call but target_read_v.
 */
typedef void capture_hook(void *ctx, const struct target *t, const struct capture_request *rq,
			  struct capture *c);

/*
 * Asks for captures; threads that still owe one are skipped. Returns how many were accepted (the
 * pool bounds them). Polling for arrivals goes on for at most `budget_ns`, then later arrivals
 * are looked for at the next request. Never blocks.
 */
size_t tracer_capture(struct tracer *tr, const struct target *t, const struct capture_request *v,
		      size_t n, uint64_t budget_ns, capture_hook *hook, void *ctx);

/*
 * Takes finished captures out, up to cap; waits for the outstanding ones of this round until
 * `deadline` (CLOCK_MONOTONIC; 0 = do not wait). Each must go back by tracer_recycle.
 */
size_t tracer_collect(struct tracer *tr, uint64_t deadline, struct capture **out, size_t cap);
void tracer_recycle(struct tracer *tr, struct capture *c);

/* Does this thread still owe a capture? Its task must not be closed before. */
bool tracer_owes(struct tracer *tr, pid_t tid);
/*
 * Drops what is outstanding for a target: waits up to timeout_ns for arrivals and detaches them
 * without a capture. True when nothing is outstanding any more.
 */
bool tracer_drain(struct tracer *tr, const struct target *t, uint64_t timeout_ns);

#endif
