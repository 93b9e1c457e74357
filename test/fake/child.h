/*
 * child.h: processes for tests to look at: forked from the test, no program of their own needed.
 * The most part of a test's life with them is bounded by an alarm in the child, so that a failed
 * test leaves nothing behind.
 */
#ifndef GOPROF_TEST_CHILD_H
#define GOPROF_TEST_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What parent and child both see: shared memory, zeroed. */
struct child_shared {
	_Atomic int ready;		/* the child says that it has come to its work */
	_Atomic int stop;		/* the parent asks it to end */
	_Atomic uint64_t count;		/* of whatever the child does */
	_Atomic uint64_t errors;
	_Atomic uint64_t value[8];
};

struct test_child {
	pid_t pid;
	struct child_shared *shared;
};

/* Forks; the child runs f(shared, arg) and exits with its result. Returns once it is ready. */
void child_start(struct test_child *c, int (*f)(struct child_shared *s, void *arg), void *arg);
/* Asks it to end and waits; its status as wait(2) gives it. */
int child_stop(struct test_child *c);
/* Kills and waits. */
void child_kill(struct test_child *c);

/* A body: counts as fast as it can. */
int child_spin(struct child_shared *s, void *arg);

/* The letter of /proc/PID/stat; 0 when there is none. */
char child_state(pid_t pid);
/* A number of /proc/PID/status, such as "TracerPid:"; -1 when it is not there. */
long child_status_field(pid_t pid, const char *key);
/* Waits until f(arg) is true, 10 s at most. */
bool child_until(bool (*f)(void *arg), void *arg);
/* Waits until the counter of the child has moved. */
bool child_counts(struct test_child *c);
void test_sleep_us(unsigned us);

#endif
