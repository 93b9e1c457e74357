/*
 * perf_impl.h: what the files of perf events share. Private to lib/target.
 *
 *	perf_ring.c	records (pure)		perf_event.c	one event: open, why not
 *	perf_try.c	the trial on a child	perf.c		life, the table of threads, what has come
 *	perf_reader.c	the readers, one bound to each CPU
 *
 * `lock` guards the table of watches and the pool of looks; it is held for some tens of nanoseconds. A
 * watch that a reader is busy with is not freed before it is done.
 */
#ifndef GOPROF_TARGET_PERF_IMPL_H
#define GOPROF_TARGET_PERF_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "target/perf.h"
#include "target/perf_ring.h"

enum {
	PERF_STACK_BYTES = 8192,	/* of a stack in a sample: for those that are not held */
	PERF_RING_BYTES = 32 * 1024,	/* three samples: the reader comes at once, or it is too late anyway */
	PERF_WATCHES_MAX = 4096,
	PERF_READERS_MAX = 256,		/* threads on CPUs beyond are read by the first one */
	PERF_CPUS_MAX = 4096,
};

/* ---- perf_event.c ---- */

struct perf_event {
	int fd;
	void *map;		/* header page and ring */
};

/* An errno; 0: it is open and counts. */
int perf_event_begin(pid_t tid, uint64_t period_ns, bool user_only, struct perf_event *ret);
void perf_event_end(struct perf_event *e);
/* What it has counted: ns of the thread on a CPU. False: cannot be told any more. */
bool perf_event_count(const struct perf_event *e, uint64_t *ret);
void perf_event_set_period(const struct perf_event *e, uint64_t ns);
struct perf_ring perf_event_ring(const struct perf_event *e);
/* The reader is done with everything before `tail`. */
void perf_event_advance(const struct perf_event *e, uint64_t tail);
/* Why one could not be had: cause and remedy. */
struct error *perf_event_error(int errnum);

/* ---- perf.c ---- */

struct perf_watch {
	struct perf_event event;
	pid_t tid;
	uint32_t slot, generation;	/* of the table: what the readers know it by */
	uint32_t reader;		/* whose set of descriptors has it */
	struct perf_hints hints;	/* under the lock */
	bool busy, closing;		/* under the lock */
	bool ended;			/* its thread has: nothing more comes */
};

struct perf_reader {
	struct perf *perf;
	pthread_t thread;
	bool started;
	int cpu;			/* it is bound to; -1: to none */
	int poll_fd;			/* epoll: the watches of this CPU, and the wake-up for the end */
	uint64_t random;
	_Atomic(const char *) priority;
};

struct perf {
	struct perf_options options;
	struct perf_reader *readers;
	uint32_t n_readers;
	uint16_t reader_of[PERF_CPUS_MAX];
	int stop_fd;
	_Atomic uint64_t lost, throttled;

	pthread_mutex_t lock;		/* all below */
	pthread_cond_t idle;		/* a watch is not busy any more */
	struct perf_watch **watches;	/* PERF_WATCHES_MAX places */
	uint32_t *generations, *free_slots, n_free_slots;
	struct perf_look *pool, **free, **done;	/* done: oldest first, from done_at on, wrapping */
	uint32_t n_pool, n_free, done_at, n_done;
};

uint64_t perf_key(const struct perf_watch *w);
/* The watch with that key, busy from now on; NULL: it is no more. With its hints. */
struct perf_watch *perf_take(struct perf *p, uint64_t key, struct perf_hints *hints);
void perf_give(struct perf *p, struct perf_watch *w);
struct perf_look *perf_look_take(struct perf *p);	/* NULL: none is free */
void perf_look_done(struct perf *p, struct perf_look *l);

/* ---- perf_reader.c ---- */

/* A reader for each CPU that goprof may use; then, with all else in place, their threads. */
struct error *perf_readers_init(struct perf *p);
struct error *perf_readers_start(struct perf *p);
void perf_readers_stop(struct perf *p);
/* Which reader looks after this watch from now on; 0 or an errno. */
int perf_reader_add(struct perf *p, uint32_t reader, struct perf_watch *w);
void perf_reader_remove(struct perf *p, struct perf_watch *w);

#endif
