/*
 * tracer_impl.h: what the files of the tracer share. Private to lib/target.
 *
 * Two sides meet here. The *tracer thread* runs tracer.c's loop and everything in
 * tracer_capture.c, tracer_launch.c and tracer_child.c that is marked so; it alone calls ptrace and
 * wait. The *requesters* run tracer_round.c. What both touch stands under `lock`, which is held for
 * some tens of nanoseconds and inherits priority, so that neither side waits for the other's work.
 *
 * A slot of the pool is in exactly one place: one bit in one of the words free, asked, owed, done,
 * or in none of them while a requester has it.
 */
#ifndef GOPROF_TARGET_TRACER_IMPL_H
#define GOPROF_TARGET_TRACER_IMPL_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "target/target_impl.h"
#include "target/tracer.h"

enum { TRACER_POOL = 64 };	/* the bits of the words below */

struct slot {
	struct capture capture;	/* first: a requester hands back a pointer to it */
	struct capture_request rq;
	const struct target *target;
	capture_hook *hook;
	void *ctx;
	uint64_t deadline;	/* and when that ends */
	pid_t pid;		/* of its process; good also when the target is closed */
	pid_t wait_tid;		/* whom to wait for: its tid, or the process's after an exec */
	bool void_;		/* stopped for nothing (a stranger, an exec): detach only */
};

struct child {
	struct child *next;
	pid_t pid;
	int pidfd;		/* -1 on old kernels, and once it has said what wait does not */
	bool pidfd_ready;
	int event_fd;		/* readable: the state has changed since the last look */
	struct child_status status;
};

/* Something to be done in the tracer thread while the requester waits. */
struct tracer_call {
	struct tracer_call *next;
	void (*run)(struct tracer *tr, void *arg);
	void *arg;
	bool done;
};

/* How a thread stands with the scheduler. */
struct rank {
	int policy, priority, nice;
	unsigned long timer_slack;
};

struct tracer {
	pthread_t thread, undertaker;
	int wake_fd;
	int stop_fd;			/* SIGCHLD: some thread has come to its stop, some child has changed */
	struct slot *pool;

	/* the tracer thread's own */
	pid_t tid;
	struct rank given;		/* as it was started, and as the child of run is forked */
	sigset_t given_mask;		/* its creator's */
	uint64_t t_children;		/* last look at all children */
	_Atomic uint64_t seizing_since;	/* 0: not inside PTRACE_SEIZE */

	pthread_mutex_t lock;		/* all below */
	pthread_cond_t answers, work;	/* for requesters, for the undertaker */
	enum tracer_rank rank;
	uint64_t free, asked, owed, done;
	uint64_t dropped;		/* of asked and owed: nobody wants it any more */
	uint64_t round;			/* of asked and owed: still within its polling */
	uint64_t t_begin;		/* when captures were last taken up */
	bool undertaker_rests;
	struct tracer_call *calls;
	struct child *children;
	bool stop;
};

uint64_t tracer_now(void);
void tracer_wake(struct tracer *tr);
/* Runs f(tr, arg) in the tracer thread and waits for it. */
void tracer_call(struct tracer *tr, void (*f)(struct tracer *tr, void *arg), void *arg);

/* ---- tracer_rank.c, in the tracer thread ---- */
void rank_read(struct rank *ret);
/* As high as we are let; what that was. */
enum tracer_rank rank_raise(void);
void rank_set(const struct rank *r);

/* ---- tracer_capture.c, in the tracer thread ---- */
/* Takes up what is asked. */
void tracer_begin_asked(struct tracer *tr);
/* One look at all that are owed. How long to sleep before the next; UINT64_MAX: nothing is owed. */
uint64_t tracer_poll_owed(struct tracer *tr);

/* ---- tracer_undertaker.c ---- */
int undertaker_start(struct tracer *tr);
/* By a requester, who comes often: wakes it if it is wanted. Costs nothing otherwise. */
void undertaker_call(struct tracer *tr);

/* ---- tracer_child.c, in the tracer thread ---- */
/* wait4 without waiting; notes what becomes of a child. 0, the tid, or -1 (ECHILD). */
pid_t tracer_wait(struct tracer *tr, pid_t tid, int *status);
/* Looks after the children; how long to sleep at most before the next look. */
uint64_t tracer_poll_children(struct tracer *tr);
struct child *child_create(void);
void child_free(struct child *c);
/* Registers a running child. */
void tracer_add_child(struct tracer *tr, struct child *c);

/* ---- inherited.c ---- */
/* In a forked child: async-signal-safe. */
void inherited_restore(const struct inherited *in);

#endif
