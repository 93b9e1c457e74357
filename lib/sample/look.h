/*
 * look.h: where on-CPU looks come from. A look is one thread with registers and stack bytes, and
 * the verdict whether it was on a CPU at the tick. Sources differ in how they get at it (ptrace
 * stops; later the kernel's perf samples); what becomes of a look does not differ.
 */
#ifndef GOPROF_SAMPLE_LOOK_H
#define GOPROF_SAMPLE_LOOK_H

#include "sample/sample_impl.h"

struct look {
	struct thread *thread;
	const struct capture *capture;	/* valid during the callback */
	bool oncpu;			/* carries CPU time */
	bool late;			/* came before this tick began: older than all that it reads */
};

typedef struct error *look_done(void *ctx, const struct look *look);

struct look_source {
	const char *name;
	/* At the tick: finds the threads on a CPU and asks for them. Quick; never waits. */
	void (*begin)(struct look_source *ls, uint32_t tick, bool tick_late);
	/* Hands out what came after the last tick was over; valid after begin. */
	struct error *(*collect_late)(struct look_source *ls, look_done *done, void *ctx);
	/* Hands out what has come since, waiting for this tick's own until `deadline`. */
	struct error *(*collect)(struct look_source *ls, uint64_t deadline, look_done *done, void *ctx);
	/* Was any thread on a CPU at this tick, or is one still owed? Valid after begin. */
	bool (*ran)(const struct look_source *ls);
	void (*destroy)(struct look_source *ls);
};

/* By ptrace: everything is borrowed. Counts into the profile's health. */
struct look_source_parts {
	const struct reader *reader;
	struct threads *threads;
	struct tracer *tracer;
	struct profile *profile;
	const struct hold_plan *plan;
};

struct error *look_ptrace_create(const struct look_source_parts *parts, struct look_source **ret);
/* How long threads were held, over the run: median and p99 in ns. */
void look_ptrace_held(const struct look_source *ls, uint64_t *median, uint64_t *p99);

/* ---- timely.c: the scheduling class of the tick's first, urgent part ---- */

/* The class that the thread was given, to go back to. */
struct timely {
	int policy, priority;
	bool raised;		/* it is in the other one now */
};

struct timely timely_given(void);
/*
 * Between these two the calling thread is SCHED_FIFO where that is allowed: the tick must come on
 * time, as a late one comes where the target lets go of its core. The rest of the tick (reading,
 * naming) runs in the class it was given: it must not take a core from the target by force.
 */
void timely_enter(struct timely *t);
void timely_leave(struct timely *t);	/* nothing when it has left */

#endif
