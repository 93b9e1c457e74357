/*
 * sample_threads.c: which threads a tick asks for: those that may be on a CPU, all of them in turn
 * when there are more than a tick takes, and none twice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "fake/go_fake.h"
#include "fake/target_fake.h"
#include "go/go_impl.h"
#include "sample/sample_impl.h"

enum { THREADS = 100, FIRST_TID = 1000, CAP = 64, PATIENT_M = 0x110000 };

struct scene {
	struct target *target;
	struct tracer *tracer;
	struct go_layout layout;
	struct reader reader;
	struct threads threads;
};

static void setup_threads(struct scene *s, int n, const char *call)
{
	memset(s, 0, sizeof(*s));
	assert_null(target_fake_create(&s->target));
	for (int i = 0; i < n; i++) {
		target_fake_add_tid(s->target, FIRST_TID + i, FIRST_TID + i);
		target_fake_task(s->target, FIRST_TID + i, "1000 0 1\n", call);
	}
	assert_true(go_layout_row(26, &s->layout));
	assert_null(tracer_create(&s->tracer));
	s->reader = (struct reader){ .target = s->target, .layout = &s->layout, .clock = &system_clock };
	assert_null(threads_init(&s->threads, &s->reader));
}

static void teardown_threads(struct scene *s)
{
	threads_deinit(&s->threads);
	tracer_destroy(s->tracer);
	target_close(s->target);
}

/* One tick's requests; marks whom it asked for. */
static size_t ask(struct scene *s, bool *asked)
{
	struct capture_request rq[CAP];
	size_t n = threads_running(&s->threads, &s->reader, s->tracer, rq, CAP);
	bool now[THREADS] = { false };

	for (size_t i = 0; i < n; i++) {
		int at = (int)rq[i].cookie - FIRST_TID;

		assert_in_range(at, 0, THREADS - 1);
		assert_false(now[at]);	/* nobody twice in a tick */
		now[at] = asked[at] = true;
		assert_int_equal(rq[i].before.cpu_ns, 1000);
		assert_int_equal(task_tid(rq[i].task), FIRST_TID + at);
	}
	return n;
}

static size_t count(const bool *asked)
{
	size_t n = 0;

	for (int i = 0; i < THREADS; i++)
		n += asked[i];
	return n;
}

static void more_than_fit_get_their_turn(void **state)
{
	bool asked[THREADS] = { false };
	struct scene s;

	(void)state;
	setup_threads(&s, THREADS, "running\n");
	assert_int_equal(ask(&s, asked), CAP);
	assert_int_equal(ask(&s, asked), CAP);
	assert_int_equal(count(asked), THREADS);
	teardown_threads(&s);
}

static void blocked_threads_are_left_alone(void **state)
{
	bool asked[THREADS] = { false };
	struct scene s;

	(void)state;
	setup_threads(&s, 10, "202 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffd0000 0x401000\n");
	target_fake_task(s.target, FIRST_TID + 7, "1000 0 1\n", "running\n");
	assert_int_equal(ask(&s, asked), 1);
	assert_true(asked[7]);
	teardown_threads(&s);
}

/* A thread whose clock has stood still for long is looked at in turn only, but it is looked at. */
static void cold_threads_are_looked_at_in_turn(void **state)
{
	bool asked[THREADS] = { false };
	struct scene s;

	(void)state;
	setup_threads(&s, THREADS, "running\n");
	for (uint32_t i = 0; i < s.threads.n; i++)
		s.threads.v[i]->moved_at = 0;
	assert_in_range(ask(&s, asked), 1, THREADS / 16);
	for (int tick = 0; tick < 40; tick++)
		ask(&s, asked);
	assert_int_equal(count(asked), THREADS);
	teardown_threads(&s);
}

static void ended_threads_are_noticed(void **state)
{
	bool asked[THREADS] = { false };
	struct scene s;

	(void)state;
	setup_threads(&s, 2, "running\n");
	target_fake_remove_tid(s.target, FIRST_TID);
	assert_int_equal(ask(&s, asked), 1);
	assert_true(threads_find(&s.threads, FIRST_TID)->gone);
	teardown_threads(&s);
}

/* One of two ms that name a thread was given back: which of them is asked when the thread is held. */
static void ms_that_name_one_thread_are_remembered(void **state)
{
	static const struct go_fake_func functions[] = { { .name = "main.main", .size = 64, .sp = { { 64, 0 } } } };
	const gaddr_t allm = 0x100000, first = 0x110000, second = 0x120000, third = 0x130000;
	const struct { gaddr_t m, next; uint64_t procid; } ms[] = {
		{ first, second, FIRST_TID }, { second, third, FIRST_TID + 1 }, { third, 0, FIRST_TID },
	};
	struct go_fake *go = go_fake_create(functions, 1, 26);
	gaddr_t found[WANDERING_MAX];
	struct scene s;

	(void)state;
	setup_threads(&s, 2, "running\n");
	target_fake_add(s.target, allm, &first, sizeof(first));
	for (size_t i = 0; i < 3; i++) {
		target_fake_add(s.target, ms[i].m, NULL, 4096);
		target_fake_poke_u64(s.target, ms[i].m + (gaddr_t)s.layout.f[GO_M_ALLLINK].offset, ms[i].next);
		target_fake_poke_u64(s.target, ms[i].m + (gaddr_t)s.layout.f[GO_M_PROCID].offset, ms[i].procid);
	}
	s.reader.rt = go_fake_runtime(go);
	s.reader.rt->globals[GO_ALLM].addr = allm;
	s.reader.goroutines = true;
	s.reader.m_span = m_span(&s.layout);
	assert_null(threads_update(&s.threads, &s.reader, s.tracer));
	assert_int_equal(wandering_find(&s.threads.wandering, s.target, &s.layout, FIRST_TID, found), 2);
	assert_true((found[0] == first && found[1] == third) || (found[0] == third && found[1] == first));
	assert_int_equal(wandering_find(&s.threads.wandering, s.target, &s.layout, FIRST_TID + 1, found), 0);
	teardown_threads(&s);
	go_fake_destroy(go);
}

/* How often the m's struct was read. */
static void count_m(void *ctx, struct target *t, const struct span *s)
{
	(void)t;
	*(int *)ctx += s->addr == PATIENT_M && s->len > 8;
}

static uint64_t now;

static uint64_t test_time(const struct clock *c)
{
	(void)c;
	return now;
}

/* An m without a thread is asked again soon, but not at every tick for ever; a thread without one calls for it. */
static void m_without_a_thread_is_not_waited_for(void **state)
{
	static const struct go_fake_func functions[] = { { .name = "main.main", .size = 64, .sp = { { 64, 0 } } } };
	const struct clock clock = { .mono = test_time };
	const gaddr_t allm = 0x100000, m = PATIENT_M;
	struct go_fake *go = go_fake_create(functions, 1, 26);
	int reads = 0;
	struct scene s;

	(void)state;
	setup_threads(&s, 2, "running\n");
	target_fake_add(s.target, allm, &m, sizeof(m));
	target_fake_add(s.target, m, NULL, 4096);
	now = NSEC_PER_SEC;
	s.reader.clock = &clock;
	s.reader.rt = go_fake_runtime(go);
	s.reader.rt->globals[GO_ALLM].addr = allm;
	s.reader.goroutines = true;
	s.reader.m_span = m_span(&s.layout);
	target_fake_on_read(s.target, count_m, &reads);
	for (int tick = 0; tick < 100; tick++, now += 10 * NSEC_PER_MSEC)
		assert_null(threads_update(&s.threads, &s.reader, s.tracer));
	assert_in_range(reads, 6, 20);
	/* A new thread has it by now: found when one of them is seen without an m. */
	target_fake_poke_u64(s.target, m + (gaddr_t)s.layout.f[GO_M_PROCID].offset, FIRST_TID + 1);
	reads = 0;
	threads_miss_m(&s.threads, threads_find(&s.threads, FIRST_TID + 1));
	assert_null(threads_update(&s.threads, &s.reader, s.tracer));
	assert_int_equal(reads, 1);
	assert_int_equal(threads_find(&s.threads, FIRST_TID + 1)->m, m);
	/* A thread of C code never has one: it does not bring back a walk at every tick. */
	for (int tick = 0; tick < 100; tick++, now += 10 * NSEC_PER_MSEC) {
		threads_miss_m(&s.threads, threads_find(&s.threads, FIRST_TID));
		assert_null(threads_update(&s.threads, &s.reader, s.tracer));
	}
	assert_in_range(reads, 6, 20);
	teardown_threads(&s);
	go_fake_destroy(go);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_than_fit_get_their_turn),
		cmocka_unit_test(blocked_threads_are_left_alone),
		cmocka_unit_test(cold_threads_are_looked_at_in_turn),
		cmocka_unit_test(ended_threads_are_noticed),
		cmocka_unit_test(ms_that_name_one_thread_are_remembered),
		cmocka_unit_test(m_without_a_thread_is_not_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
