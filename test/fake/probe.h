/*
 * probe.h: a tracer, a target and all its threads in one hand, for tests of captures.
 */
#ifndef GOPROF_TEST_PROBE_H
#define GOPROF_TEST_PROBE_H

#include "target/tracer_impl.h"

enum { PROBE_THREADS = 64 };

struct probe {
	struct target *target;
	struct tracer *tracer;
	pid_t tids[PROBE_THREADS];
	struct task *tasks[PROBE_THREADS];
	size_t n;
};

/* The process's threads at this moment; ends the test when it cannot be opened. */
void probe_open(struct probe *p, pid_t pid);
void probe_close(struct probe *p);

/* Copies 16 KB above the stack pointer into one view. */
void probe_hook(void *ctx, const struct target *t, const struct capture_request *rq, struct capture *c);

/* Asks for all threads; how many were accepted. */
size_t probe_ask_all(struct probe *p, uint64_t cookie);
bool probe_owes(struct probe *p);
/* Asks for one and waits for it, 10 s at most: then the test ends. To be recycled. */
struct capture *probe_take(struct probe *p, pid_t tid, uint64_t cookie);

#endif
