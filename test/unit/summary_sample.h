/*
 * summary_sample.h: a summary as a good run leaves it, for tests of what is said about it.
 */
#ifndef GOPROF_TEST_SUMMARY_SAMPLE_H
#define GOPROF_TEST_SUMMARY_SAMPLE_H

#include "cmd/summary.h"

#define MS UINT64_C(1000000)

static const struct summary_function functions[] = {
	{ "crypto/sha256.block", "", 0, 2641 * MS, 2641 * MS },
	{ "main.(*store).put", "example.com/app/store.go", 88, 1056 * MS, 5018 * MS },
	{ "runtime.mallocgc", "", 0, 826 * MS, 826 * MS },
	{ "main.(*server).handleOrder", "example.com/app/server.go", 142, 605 * MS, 5623 * MS },
	{ "main.small", "example.com/app/small.go", 1, 80 * MS, 80 * MS },
};

static const struct summary_group groups[] = {
	{ "IO wait", "net/http.(*Server).Serve", "net/http/server.go", 3285, 201 },
	{ "chan receive", "main.startWorkers", "example.com/app/worker.go", 31, 8 },
	{ "select", "main.rare", "example.com/app/worker.go", 99, 0.01 },
};

static inline struct summary sample(void)
{
	struct summary s = {
		.cpu_ns = 8520 * MS, .wall_ns = 12400 * MS,
		.functions = functions, .n_functions = 65, .groups = groups, .n_groups = 7,
		.seen = 231, .average = 214.2, .rate_hz = 101,
	};

	s.n_functions = 5;
	s.n_groups = 3;
	s.health[HEALTH_TICKS_DUE] = s.health[HEALTH_TICKS_DONE] = 1253;
	s.health[HEALTH_STACKS] = 100000;
	s.health[HEALTH_STACKS_COMPLETE] = 99800;
	s.health[HEALTH_CPU_PROCESS] = 8520 * MS;
	s.health[HEALTH_CPU_ACCOUNTED] = 8426 * MS;
	s.health[HEALTH_OWN_CPU] = 236 * MS;
	s.health[HEALTH_HELD_MEDIAN] = 9100;
	s.health[HEALTH_HELD_P99] = 180000;
	s.health[HEALTH_RANK] = 2;
	return s;
}

/* The text so far; the next one begins. */
static inline void expect(struct buf *b, const char *want)
{
	assert_null(buf_error(b));
	assert_string_equal(b->data, want);
	buf_deinit(b);
	buf_init(b);
}

#endif
