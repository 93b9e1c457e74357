/*
 * perf.h: looks at threads on a CPU by perf events: no thread is stopped, none is traced.
 *
 * Each watched thread has an event for each CPU that counts its own time there. After a period of it the
 * kernel notes the thread's user registers and the top of its stack in that CPU's ring. That is all a sample
 * says; which goroutine it was must be read from the process.
 *
 * So a reader is bound to each CPU, in real-time class where that is allowed. A sample wakes the reader of
 * its own CPU, which takes that very CPU: the thread waits for it, off its core, before its next
 * instruction, while the reader copies what is needed. It is then *held*, like one that was stopped, but by
 * the scheduler's choice alone; nothing in its calls is interrupted. That it did not move is proved: events
 * count its time exactly, and must say at the end what they said at the begin; up to then no more may have
 * passed than an interrupt takes. How much that is, and whether it holds on this machine at all, is tried
 * first on a child of goprof's own, which counts: its memory must be what the sample says.
 *
 * Of a sample that fails this (the thread was given another CPU, the reader came late) only the copy in the
 * sample itself is of that instant: it goes to another hook, which must not believe what it reads.
 *
 * Upstream text: perf_event_open(2); kernel/events/core.c (cpu_clock, perf_swevent_hrtimer, perf_output_*).
 */
#ifndef GOPROF_TARGET_PERF_H
#define GOPROF_TARGET_PERF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "target/tracer.h"

struct perf;
struct perf_watch;		/* one thread */

/* What this machine allows, found out by trying it on a child. */
struct perf_ability {
	/* A thread whose sample is no older than this, in its own CPU time, has not moved. 0: none can be held. */
	uint64_t held_ns;
	bool user_only;		/* time inside of the kernel cannot be sampled */
};

/* Takes some 20 ms, a quarter of a second at most. ERROR_DENIED, ERROR_FACILITY with cause and remedy. */
struct error *perf_try(struct perf_ability *ret);

/* May goprof run on all CPUs that this process may run on? Elsewhere its threads cannot be held. */
bool perf_reaches(pid_t pid);
/* Are there descriptors for so many watched threads, and some to spare? */
bool perf_has_room(uint32_t threads);

struct perf_options {
	const struct target *target;	/* borrowed; handed to the hooks */
	pid_t pid;			/* its process: samples of others are not taken */
	uint64_t period_ns;		/* CPU time between two samples of a thread, on average */
	struct perf_ability ability;
	/*
	 * Both run in the readers, of which there are several, with c->regs filled and under the rules of
	 * capture_hook. c->views[0], if there is one, is its stack as the sample has it, from SP on: cut where a
	 * page is not there. Its bytes are the sample's; c->bytes has room for all of them, at its begin. `held`:
	 * the thread stands still, as in a stop. `late`: it may have gone on. rq->t_tick is the sample's time.
	 */
	capture_hook *held, *late;
	void *ctx;
	bool exact_ages;		/* perf_look.ran_ns is by the thread's count, always */
};

struct error *perf_create(const struct perf_options *o, struct perf **ret);
/* Ends all events. NULL is fine. */
void perf_destroy(struct perf *p);
/* How the readers are scheduled. */
enum tracer_rank perf_rank(const struct perf *p);

/* What the hooks may want to know of a thread: as capture_request.hint. */
struct perf_hints {
	gaddr_t v[4];
};

/*
 * Begins to sample this thread. &err_gone: it has ended. ERROR_FACILITY: no more events can be had
 * (descriptors, locked memory), what there are go on; ERROR_DENIED.
 */
struct error *perf_watch_thread(struct perf *p, pid_t tid, const struct perf_hints *h, struct perf_watch **ret);
void perf_set_hints(struct perf *p, struct perf_watch *w, const struct perf_hints *h);
void perf_unwatch(struct perf *p, struct perf_watch *w);

/* A sample with what the hook made of it. */
struct perf_look {
	struct capture capture;	/* first; t_arrived and t_resumed bracket the hook */
	uint64_t t_sample;	/* CLOCK_MONOTONIC */
	/*
	 * CPU time that the thread may have had from the sample to the reader's first look at it: at most that,
	 * unless exact ages were asked for. UINT64_MAX: not known, or not asked because it cannot be held.
	 */
	uint64_t ran_ns;
	bool bound;		/* the reader was on the sample's CPU */
	bool held;		/* the thread stood still since the sample, and until the hook was done */
};

/* Takes out what has come, oldest first, up to cap. Never waits. Each must go back by perf_recycle. */
size_t perf_collect(struct perf *p, struct perf_look **out, size_t cap);
void perf_recycle(struct perf *p, struct perf_look *l);

/* Since the last call. */
struct perf_counts {
	uint64_t lost;		/* samples that were taken but could not be kept: no room, or too old when read */
	uint64_t throttled;	/* times the kernel held samples back */
};

struct perf_counts perf_counts(struct perf *p);

#endif
