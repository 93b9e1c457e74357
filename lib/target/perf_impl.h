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
#include <semaphore.h>
#include <stdatomic.h>

#include "base/map.h"
#include "target/perf.h"
#include "target/perf_ring.h"

enum {
	PERF_STACK_BYTES = 8192,	/* of a stack in a sample */
	/* Fifteen samples; with its header page within what any user may lock per CPU (516 KB). */
	PERF_RING_BYTES = 128 * 1024,
	PERF_READERS_MAX = 256,
};

/* ---- perf_event.c ---- */

/* A ring that all events of a CPU write to, and the event that it hangs on, which can be polled. */
struct perf_ring_map {
	int fd;
	void *map;		/* header page and ring */
};

/* These return 0 or an errno. ENODEV: no such CPU. The calling thread must outlive the ring. */
int perf_event_open_ring(int cpu, struct perf_ring_map *ret);
void perf_event_close_ring(struct perf_ring_map *m);
/* Samples the thread while it is on this CPU. `ring_fd` -1: into no ring. */
int perf_event_open_sampling(pid_t tid, int cpu, uint64_t period_ns, bool user_only, int ring_fd, int *ret);
/* Counts the thread's time on all CPUs. */
int perf_event_open_counting(pid_t tid, bool user_only, int *ret);
/* What it has counted, ns. False: cannot be told any more. */
bool perf_event_count(int fd, uint64_t *ret);
void perf_event_set_period(int fd, uint64_t ns);
struct perf_ring perf_event_ring(const struct perf_ring_map *m);
/* The reader is done with everything before `tail`. */
void perf_event_advance(const struct perf_ring_map *m, uint64_t tail);
/* Why one could not be had: cause and remedy. */
struct error *perf_event_error(int errnum);

/* ---- perf.c ---- */

struct perf_watch {
	pid_t tid;
	int counting;			/* its time on all CPUs */
	int *sampling;			/* for each reader: its time on that CPU */
	struct perf_hints hints;	/* under the lock */
	uint32_t busy;			/* readers that have it now; under the lock */
};

struct perf_reader {
	struct perf *perf;
	uint32_t index;
	pthread_t thread;
	bool started;
	int cpu;			/* whose samples it reads */
	bool bound;			/* and runs on */
	struct perf_ring_map ring;	/* map NULL: none yet */
	uint64_t random;
	_Atomic enum tracer_rank rank;
};

struct perf {
	struct perf_options options;
	struct perf_reader *readers;
	uint32_t n_readers;
	uint64_t random;		/* of who watches threads */
	int stop_fd;
	sem_t ready;			/* a reader is where it belongs */
	_Atomic uint64_t lost, throttled;

	pthread_mutex_t lock;		/* all below */
	pthread_cond_t idle;		/* a watch is less busy */
	struct map64 by_tid;		/* -> index in watches */
	struct perf_watch **watches;
	uint32_t n_watches, cap_watches;
	struct perf_look *pool, **free, **done;	/* done: oldest first, from done_at on, wrapping */
	uint32_t n_pool, n_free, done_at, n_done;
};

static inline uint64_t perf_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* This thread's watch, busy until it is given back, and its hints; NULL: it has none. */
struct perf_watch *perf_take(struct perf *p, pid_t tid, struct perf_hints *hints);
void perf_give(struct perf *p, struct perf_watch *w);
struct perf_look *perf_look_take(struct perf *p);	/* NULL: none is free */
void perf_look_done(struct perf *p, struct perf_look *l);

/* ---- perf_reader.c ---- */

/* A reader with its ring for each CPU; then, with all else in place, their threads. */
struct error *perf_readers_init(struct perf *p);
struct error *perf_readers_start(struct perf *p);
void perf_readers_stop(struct perf *p);

#endif
