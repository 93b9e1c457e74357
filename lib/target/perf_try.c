/*
 * perf_try.c: may perf events be used here, and does a thread stand still while its reader is at work?
 *
 * A child counts in a word on its stack. The sample holds that word as it was; if the reader finds the
 * same in the child's memory, the child has not come to its next addition. The time from the sample to the
 * reader, as the event counts it, is then nothing but the interrupt's: it says how old a sample may be
 * whose thread has not moved. Where the reader is not let to the CPU at once (no real-time class and
 * a busy machine; a kernel that wakes later) the counts differ, and nobody counts as held.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "target/live.h"
#include "target/perf_impl.h"

enum {
	TRY_NS = 250 * NSEC_PER_MSEC, STEP_NS = NSEC_PER_MSEC,
	PERIOD_NS = NSEC_PER_MSEC,
	LOOKS_WANTED = 12, LOOKS_LEAST = 4,
	OLDER_BY = 3,			/* a busy machine's interrupts take longer than those of the trial */
	HELD_LEAST_NS = 20 * NSEC_PER_USEC, HELD_MOST_NS = 500 * NSEC_PER_USEC,
	WORDS = 64,			/* the last of them stand above the stack pointer, not in the red zone */
};

static const uint64_t mark = 0x636f756e74657273;

static void count(void)
{
	volatile uint64_t v[WORDS];

	v[WORDS - 2] = mark;
	v[WORDS - 1] = 0;
	for (;;)
		v[WORDS - 1]++;
}

struct trial {
	pid_t pid;
	int mem;		/* its memory; -1 */
};

/* capture_hook: note_len 1: it has not moved, 2: it has, 0: cannot be told. */
static void compare(void *ctx, const struct target *none, const struct capture_request *rq, struct capture *c)
{
	const struct trial *t = ctx;
	const struct mem_view *v = &c->views[0];
	uint64_t then[2], now[2];

	(void)none;
	(void)rq;
	for (uint32_t at = 0; c->n_views && at + sizeof(then) <= v->len; at += sizeof(mark)) {
		memcpy(then, v->bytes + at, sizeof(then));
		if (then[0] != mark)
			continue;
		if (pread(t->mem, now, sizeof(now), (off_t)(v->low + at)) == sizeof(now) && now[0] == mark)
			c->note_len = now[1] == then[1] ? 1 : 2;
		return;
	}
}

struct tally {
	uint64_t age[LOOKS_WANTED];	/* of those that stood still */
	uint32_t stood, moved;
	uint64_t youngest_moved;
};

static void tally(struct tally *y, const struct perf_look *l)
{
	/* Of others the counts say it already. */
	if (!l->held || !l->capture.note_len || y->stood == LOOKS_WANTED)
		return;
	if (l->capture.note_len == 1) {
		y->age[y->stood++] = l->ran_ns;
		return;
	}
	y->moved++;
	if (l->ran_ns < y->youngest_moved)
		y->youngest_moved = l->ran_ns;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* How old a sample may be; 0: it cannot be told from its age. */
static uint64_t judge(struct tally *y)
{
	uint64_t ns;

	if (y->stood < LOOKS_LEAST || y->moved > y->stood)
		return 0;
	qsort(y->age, y->stood, sizeof(*y->age), by_size);
	ns = OLDER_BY * y->age[y->stood / 2];
	ns = ns < HELD_LEAST_NS ? HELD_LEAST_NS : ns > HELD_MOST_NS ? HELD_MOST_NS : ns;
	return ns < y->youngest_moved ? ns : y->youngest_moved - 1;
}

static void watch_child(struct perf *p, struct tally *y)
{
	uint64_t end = system_clock.mono(&system_clock) + TRY_NS;
	const struct timespec step = { 0, STEP_NS };
	struct perf_look *l;

	*y = (struct tally){ .youngest_moved = UINT64_MAX };
	do {
		nanosleep(&step, NULL);
		while (perf_collect(p, &l, 1)) {
			tally(y, l);
			perf_recycle(p, l);
		}
	} while (y->stood < LOOKS_WANTED && system_clock.mono(&system_clock) < end);
}

static struct error *try_on(struct trial *t, struct perf_ability *ret)
{
	struct perf_options o = {
		.pid = t->pid, .period_ns = PERIOD_NS, .ability = { HELD_MOST_NS, ret->user_only }, .held = compare,
		.late = compare, .ctx = t, .exact_ages = true,
	};
	const struct perf_hints none = { { 0 } };
	struct perf_watch *w;
	struct perf *p;
	struct tally y;
	struct error *err = perf_create(&o, &p);

	if (err)
		return err;
	err = perf_watch_thread(p, t->pid, &none, &w);
	if (!err) {
		watch_child(p, &y);
		ret->held_ns = judge(&y);
		log_info("perf", "of a child's samples %u stood still, %u moved; readers are %s; held up to %llu us",
			 y.stood, y.moved, tracer_rank_name(perf_rank(p)), (unsigned long long)(ret->held_ns / NSEC_PER_USEC));
	}
	perf_destroy(p);
	return err;
}

/* Can its time inside of the kernel be sampled? 0, or the errno with which not even its own can. */
static int try_scope(pid_t pid, bool *user_only)
{
	int errnum, fd;

	*user_only = false;
	errnum = perf_event_open_sampling(pid, -1, PERIOD_NS, false, -1, &fd);
	if (errnum == EACCES || errnum == EPERM) {
		*user_only = true;
		errnum = perf_event_open_sampling(pid, -1, PERIOD_NS, true, -1, &fd);
	}
	if (!errnum)
		close(fd);
	return errnum;
}

static void trial_end(struct trial *t)
{
	if (t->mem >= 0)
		close(t->mem);
	if (t->pid > 0)
		facility_child_end(t->pid);
}

static int open_memory(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

struct error *perf_try(struct perf_ability *ret)
{
	_cleanup_(trial_end) struct trial t = { .pid = facility_child(count), .mem = -1 };
	int errnum;

	if (t.pid < 0)
		return error_new(ERROR_FACILITY, "cannot start a process to try perf events on: %s", strerror(errno));
	t.mem = open_memory(t.pid);
	*ret = (struct perf_ability){ 0 };
	errnum = try_scope(t.pid, &ret->user_only);
	return errnum ? perf_event_error(errnum) : try_on(&t, ret);
}
