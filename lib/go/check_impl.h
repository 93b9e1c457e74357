/*
 * check_impl.h: one look at a process, as the parts of the check share it: check.c asks, check_g.c
 * judges goroutines, check_m.c threads. Nobody else includes this.
 */
#ifndef GOPROF_GO_CHECK_IMPL_H
#define GOPROF_GO_CHECK_IMPL_H

#include <stdio.h>

#include "go/go_impl.h"

enum {
	CHECK_GS = 64,		/* looked at, from the front of allgs */
	/*
	 * m0 gets its thread's number when it begins to schedule, then runtime.main makes sysmon's m
	 * before anything else. Until then there are the main goroutine and, with cgo, an extra one.
	 */
	CHECK_STARTING_GS = 2,
};

/* What one look found. A look that fails leaves its reason in `why`. */
struct look {
	struct go_runtime *rt;
	const struct target *t;
	uint64_t allglen, allgptr, allm;
	size_t n_gs;
	uint64_t gs[CHECK_GS];
	struct g_look v[CHECK_GS];
	uint64_t self[CHECK_GS];	/* g.sched.g */
	uint64_t max_goid, n_ms;
	char why[160];
};

enum verdict { FITS, NOT_UP, MISFIT };

#define misfit(k, ...) (snprintf((k)->why, sizeof((k)->why), __VA_ARGS__), MISFIT)

/* Each fills its part of the look. */
enum verdict check_read_gs(struct look *k);
enum verdict check_gs(struct look *k);
enum verdict check_ms(struct look *k);

#endif
