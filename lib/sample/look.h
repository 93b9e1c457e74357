/*
 * look.h: where on-CPU looks come from. A look is one thread with registers and stack bytes, and
 * the verdict whether it was on a CPU at the tick. Sources differ in how they get at it (ptrace
 * stops, or the kernel's perf samples); what becomes of a look does not differ.
 */
#ifndef GOPROF_SAMPLE_LOOK_H
#define GOPROF_SAMPLE_LOOK_H

#include "sample/sample_impl.h"

struct look {
	struct thread *thread;
	const struct capture *capture;	/* valid during the callback; NULL: it goes on as it was last seen */
	bool oncpu;			/* carries CPU time */
	bool late;			/* came before this tick began: older than all that it reads */
	bool sampled;			/* of some time since the last tick: says nothing of this one */
	bool moved;			/* it ran on before it could be read: only what was proved is in the capture */
	gaddr_t g;			/* without a capture: the goroutine that it seems to run; 0 none */
};

struct look_figures {
	uint64_t held_median, held_p99;	/* how long threads were held, over the run, ns */
	enum tracer_rank rank;		/* of the thread that holds them */
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
	/* The list of threads is up to date, this tick is over; NULL: it does not mind. */
	struct error *(*follow)(struct look_source *ls);
	/* Was any thread on a CPU at this tick, or is one still owed? Valid after begin. */
	bool (*ran)(const struct look_source *ls);
	void (*figures)(const struct look_source *ls, struct look_figures *ret);
	void (*destroy)(struct look_source *ls);
};

/* Everything is borrowed. Counts into the profile's health. */
struct look_source_parts {
	const struct reader *reader;
	struct threads *threads;
	struct tracer *tracer;
	struct profile *profile;
	const struct hold_plan *plan;
};

struct error *look_ptrace_create(const struct look_source_parts *parts, struct look_source **ret);
/*
 * By perf events, `period_ns` of a thread's CPU time apart. ERROR_DENIED or ERROR_FACILITY with the cause
 * that was found. `at_all_costs`: also where it is not as good as stops are (no time inside of the kernel, or
 * no thread can be held).
 */
struct error *look_perf_create(const struct look_source_parts *parts, uint64_t period_ns, bool at_all_costs,
			       struct look_source **ret);

/* ---- held.c ---- */

enum { HELD_BUCKETS = 512 };

struct held {
	uint64_t buckets[HELD_BUCKETS], n;
};

void held_add(struct held *h, uint64_t ns);
uint64_t held_quantile(const struct held *h, uint32_t percent);

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
void timely_enter(struct timely *t);	/* nothing when it has entered */
void timely_leave(struct timely *t);	/* nothing when it has left */

#endif
