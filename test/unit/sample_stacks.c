/*
 * sample_stacks.c: a stack counts only when nothing moved while it was read. A handmade runtime
 * and handmade memory that changes under the reader's hands, as a running program would.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "fake/go_fake.h"
#include "fake/target_fake.h"
#include "go/go_impl.h"
#include "sample/sample_impl.h"

enum {
	MINOR = 26,
	G_ADDR = 0x100000, STACK_LO = 0x200000, STACK_HI = 0x202000, SP = STACK_HI - 0x100,
	DEPTH = 64,
	LONG_HI = STACK_HI + 2 * STACK_BATCH_MAX,	/* of a stack that is read by itself */
};

#define CALLS_LEAF .calls = { { .end = 30, .to = "main.leaf" } }

/* leaf (32 bytes of frame) <- middle (48) <- goexit; "other" may stand in middle's place; "stranger" does not call it. */
static const struct go_fake_func functions[] = {
	{ .name = "main.leaf", .size = 64, .sp = { { 64, 32 } } },
	{ .name = "main.middle", .size = 64, .sp = { { 64, 48 } }, CALLS_LEAF },
	{ .name = "main.other", .size = 64, .sp = { { 64, 48 } }, CALLS_LEAF },
	{ .name = "main.stranger", .size = 64, .sp = { { 64, 48 } } },
	{ .name = "runtime.goexit", .size = 64, .flags = GO_FUNC_TOPFRAME, .sp = { { 64, 0 } } },
};

struct world {
	struct go_fake *go;
	struct target *target;
	struct go_layout layout;
	struct reader reader;
	struct stack_reader *stacks;
	/* what the callback saw */
	unsigned int results, n_retried;
	enum stack_outcome outcome;
	bool retried;
	size_t n;
	struct pc_frame frames[DEPTH];
	enum unwind_end end;
	/* what changes under the reader's hands */
	unsigned int changes;		/* how often still */
	bool change_stack, change_header;
	uint8_t seq;
	uint64_t lost_ns;		/* the reader was off its CPU for so long meanwhile */
	unsigned int lost_at_header;	/* or for a millisecond when it read the header for the nth time */
	unsigned int runs_through;	/* it runs now, and until its stack has been read so often; then it waits again */
	gaddr_t hi;
};

/* The time that this file's tests see. */
static uint64_t now;

static uint64_t test_time(const struct clock *c)
{
	(void)c;
	return now;
}

static const struct clock test_clock = { .mono = test_time };

static void put(const struct world *w, uint8_t *g, enum go_field field, uint64_t value)
{
	memcpy(g + w->layout.f[field].offset, &value, w->layout.f[field].size);
}

static void put_g(struct world *w, uint32_t status)
{
	uint8_t g[1024] = { 0 };
	bool call = status == G_SYSCALL;

	put(w, g, GO_G_STACK_LO, STACK_LO);
	put(w, g, GO_G_STACK_HI, w->hi);
	put(w, g, GO_G_GOID, 17);
	put(w, g, GO_G_ATOMICSTATUS, status);
	put(w, g, GO_G_TRACKINGSEQ, w->seq);
	put(w, g, call ? GO_G_SYSCALLSP : GO_G_SCHED_SP, SP);
	put(w, g, call ? GO_G_SYSCALLPC : GO_G_SCHED_PC, go_fake_pc(w->go, "main.leaf", 20));
	target_fake_poke(w->target, G_ADDR, g, sizeof(g));
}

static void put_stack(struct world *w, const char *middle)
{
	target_fake_poke_u64(w->target, SP + 32, go_fake_pc(w->go, middle, 30));
	target_fake_poke_u64(w->target, SP + 32 + 8 + 48, go_fake_pc(w->go, "runtime.goexit", 1));
}

static int setup(void **state)
{
	struct world *w = test_calloc(1, sizeof(*w));

	w->go = go_fake_create(functions, sizeof(functions) / sizeof(functions[0]), MINOR);
	assert_null(target_fake_create(&w->target));
	target_fake_add(w->target, G_ADDR, NULL, 1024);
	target_fake_add(w->target, STACK_LO, NULL, LONG_HI - STACK_LO);
	w->hi = STACK_HI;
	assert_true(go_layout_row(MINOR, &w->layout));
	w->reader = (struct reader){
		.target = w->target, .rt = go_fake_runtime(w->go), .layout = &w->layout,
		.clock = &test_clock, .g_span = g_span(&w->layout),
	};
	w->reader.rt->caps |= GO_CAP_TRACKINGSEQ;
	assert_null(stack_reader_create(DEPTH, false, &w->stacks));
	put_g(w, G_WAITING);
	put_stack(w, "main.middle");
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	stack_reader_destroy(w->stacks);
	target_close(w->target);
	go_fake_destroy(w->go);
	test_free(w);
	return 0;
}

static struct error *keep(void *ctx, const struct stack_result *res)
{
	struct world *w = ctx;

	w->results++;
	w->outcome = res->outcome;
	w->retried = res->retried;
	w->n = res->outcome == STACK_READ ? res->n : 0;
	w->end = res->end;
	if (w->n)
		memcpy(w->frames, res->frames, w->n * sizeof(*w->frames));
	assert_true(res->t_before <= res->t_after);
	return NULL;
}

/* The goroutine runs between the stack's reading and the header's. */
static void run_meanwhile(void *ctx, struct target *t, const struct span *s)
{
	struct world *w = ctx;

	(void)t;
	if (s->addr == G_ADDR && w->lost_at_header && !--w->lost_at_header)
		now += NSEC_PER_MSEC;
	if (s->addr < SP || s->addr >= STACK_HI)
		return;
	if (w->runs_through && !--w->runs_through)
		put_g(w, G_SYSCALL);
	if (!w->changes)
		return;
	w->changes--;
	now += w->lost_ns;
	if (w->change_stack)
		put_stack(w, w->changes % 2 ? "main.other" : "main.middle");
	if (w->change_header) {
		w->seq++;
		put_g(w, G_WAITING);
	}
}

static struct error *count_retries(void *ctx, const struct stack_result *res)
{
	struct world *w = ctx;

	w->results++;
	w->n_retried += res->retried;
	assert_int_equal(res->outcome, STACK_READ);
	return NULL;
}

static void read_one(struct world *w)
{
	struct stack_job job = { .owner = 3 };
	uint8_t bytes[1024];

	target_fake_on_read(w->target, NULL, NULL);
	assert_null(target_read(w->target, G_ADDR, bytes, w->reader.g_span));
	g_parse(w->reader.layout, G_ADDR, bytes, &job.look);
	job.look.t_before = reader_now(&w->reader);
	job.look.t_after = job.look.t_before;
	if (w->runs_through)
		put_g(w, G_RUNNING);
	target_fake_on_read(w->target, run_meanwhile, w);
	assert_null(stack_reader_run(w->stacks, &w->reader, &job, 1, NULL, keep, w));
	assert_int_equal(w->results, 1);
}

static void assert_stack(const struct world *w, const char *middle)
{
	assert_int_equal(w->outcome, STACK_READ);
	assert_int_equal(w->end, UNWIND_COMPLETE);
	assert_int_equal(w->n, 3);
	assert_int_equal(w->frames[0].pc, go_fake_pc(w->go, "main.leaf", 20));
	assert_int_equal(w->frames[1].pc, go_fake_pc(w->go, middle, 30));
	assert_int_equal(w->frames[1].kind, PC_RETURN);
}

static void still_goroutine_is_read(void **state)
{
	struct world *w = *state;

	read_one(w);
	assert_stack(w, "main.middle");
	assert_false(w->retried);
}

static void one_that_ran_is_read_again(void **state)
{
	struct world *w = *state;

	w->changes = 1;
	w->change_header = w->change_stack = true;
	read_one(w);
	assert_stack(w, "main.middle");
	assert_true(w->retried);
}

static void one_that_keeps_running_has_no_stack(void **state)
{
	struct world *w = *state;

	w->changes = 100;
	w->change_header = true;
	read_one(w);
	assert_int_equal(w->outcome, STACK_MOVED);
	assert_true(w->retried);
}

static void system_call_with_equal_readings_counts(void **state)
{
	struct world *w = *state;

	put_g(w, G_SYSCALL);
	read_one(w);
	assert_stack(w, "main.middle");
}

/* Before 1.17 there is no counter of parks: an equal header proves nothing of any goroutine. */
static void without_counter_only_equal_readings_count(void **state)
{
	struct world *w = *state;

	w->reader.rt->caps &= ~(uint32_t)GO_CAP_TRACKINGSEQ;
	read_one(w);
	assert_stack(w, "main.middle");
	w->results = 0;
	put_stack(w, "main.other");
	w->changes = 100;
	w->change_stack = true;
	read_one(w);
	assert_int_equal(w->outcome, STACK_MOVED);
}

/* The header of a goroutine in a system call proves nothing: only two equal readings do. */
static void system_call_that_moved_is_caught(void **state)
{
	struct world *w = *state;

	put_g(w, G_SYSCALL);
	put_stack(w, "main.other");
	w->changes = 100;
	w->change_stack = true;
	read_one(w);
	assert_int_equal(w->outcome, STACK_MOVED);
}

/* Both readings find the same while it runs, half of its stack old; then it waits again, its header as it was. */
static void one_that_runs_through_both_readings_is_caught(void **state)
{
	struct world *w = *state;

	put_g(w, G_SYSCALL);
	w->runs_through = 2;
	read_one(w);
	assert_stack(w, "main.middle");
	assert_true(w->retried);
	w->reader.rt->caps &= ~(uint32_t)GO_CAP_TRACKINGSEQ;
	w->results = 0;
	w->runs_through = 2;
	read_one(w);
	assert_true(w->retried);
}

/* Stopped at one place whenever its header is read, and at another whenever its stack is. */
static void system_call_twice_equal_but_impossible(void **state)
{
	struct world *w = *state;

	put_g(w, G_SYSCALL);
	put_stack(w, "main.stranger");
	read_one(w);
	assert_int_equal(w->outcome, STACK_MOVED);
}

/* The counter of parks has come round while the reader was off its CPU: the header is what it was. */
static void counter_that_came_round_proves_nothing(void **state)
{
	struct world *w = *state;

	put_stack(w, "main.other");
	w->changes = 100;
	w->change_stack = true;
	w->lost_ns = NSEC_PER_MSEC;
	read_one(w);
	assert_int_equal(w->outcome, STACK_MOVED);
	assert_true(w->retried);
}

static void one_that_stands_still_is_read_by_a_slow_reader(void **state)
{
	struct world *w = *state;

	w->changes = 100;
	w->lost_ns = NSEC_PER_MSEC;
	read_one(w);
	assert_stack(w, "main.middle");
	w->results = 0;
	put_stack(w, "main.stranger");
	read_one(w);
	assert_int_equal(w->outcome, STACK_MOVED);
}

/* One that goes on at once (Gosched) comes round sooner than one that waits for something. */
static void counter_of_a_runnable_one_comes_round_sooner(void **state)
{
	struct world *w = *state;

	w->lost_ns = 5000;
	w->changes = 1;
	read_one(w);
	assert_stack(w, "main.middle");
	assert_false(w->retried);
	w->results = 0;
	put_g(w, G_RUNNABLE);
	w->changes = 2;
	w->change_stack = true;		/* differs from reading to reading */
	read_one(w);
	assert_stack(w, "main.middle");
	assert_true(w->retried);
}

/* As many goroutines as are read at once, and their stacks cost so much that a batch of them proves nothing. */
static void batches_shrink_until_they_prove_something(void **state)
{
	enum { JOBS = 64 };
	struct world *w = *state;
	struct stack_job jobs[JOBS] = { { .owner = 0 } };
	uint8_t bytes[1024];

	assert_null(target_read(w->target, G_ADDR, bytes, w->reader.g_span));
	for (int i = 0; i < JOBS; i++)
		g_parse(w->reader.layout, G_ADDR, bytes, &jobs[i].look);
	w->lost_ns = 6000;	/* per stack: two of them take longer than the counter takes to come round */
	w->changes = UINT_MAX;
	target_fake_on_read(w->target, run_meanwhile, w);
	assert_null(stack_reader_run(w->stacks, &w->reader, jobs, JOBS, NULL, count_retries, w));
	assert_int_equal(w->results, JOBS);
	assert_in_range(w->n_retried, 1, 6);	/* a batch of four and one of two */
	/* And grow again. */
	w->results = w->n_retried = 0;
	w->lost_ns = 100;
	assert_null(stack_reader_run(w->stacks, &w->reader, jobs, JOBS, NULL, count_retries, w));
	w->lost_ns = 3000;	/* four of them are too many */
	assert_null(stack_reader_run(w->stacks, &w->reader, jobs, JOBS, NULL, count_retries, w));
	assert_int_equal(w->n_retried, 4);
}

/* The same of a long stack; the time is lost at whichever of the headers around it. */
static void counter_of_a_long_stack_that_came_round_proves_nothing(void **state)
{
	struct world *w = *state;

	w->hi = LONG_HI;
	put_g(w, G_WAITING);
	read_one(w);
	assert_stack(w, "main.middle");
	for (unsigned int header = 1; header <= 2; header++) {
		w->results = 0;
		w->changes = 2;
		w->change_stack = true;
		w->lost_at_header = header;
		read_one(w);
		assert_stack(w, "main.middle");
		assert_true(w->retried);
	}
}

static void running_one_has_no_stack(void **state)
{
	struct world *w = *state;

	put_g(w, G_RUNNING);
	read_one(w);
	assert_int_equal(w->outcome, STACK_MOVED);
}

static void torn_bounds_have_no_stack(void **state)
{
	struct world *w = *state;

	target_fake_poke_u64(w->target, G_ADDR + w->layout.f[GO_G_STACK_HI].offset, SP - 8);
	read_one(w);
	assert_int_equal(w->outcome, STACK_MOVED);
}

/* exec: equal bytes at equal addresses of another program are no answer. */
static void nothing_counts_after_exec(void **state)
{
	struct world *w = *state;
	struct stack_job job = { .owner = 0 };
	uint8_t bytes[1024];

	assert_null(target_read(w->target, G_ADDR, bytes, w->reader.g_span));
	g_parse(w->reader.layout, G_ADDR, bytes, &job.look);
	target_fake_set_life(w->target, TARGET_EXECED);
	assert_ptr_equal(stack_reader_run(w->stacks, &w->reader, &job, 1, NULL, keep, w), &err_gone);
	assert_int_equal(w->results, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(still_goroutine_is_read, setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_ran_is_read_again, setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_keeps_running_has_no_stack, setup, teardown),
		cmocka_unit_test_setup_teardown(system_call_with_equal_readings_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(system_call_that_moved_is_caught, setup, teardown),
		cmocka_unit_test_setup_teardown(without_counter_only_equal_readings_count, setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_runs_through_both_readings_is_caught, setup, teardown),
		cmocka_unit_test_setup_teardown(system_call_twice_equal_but_impossible, setup, teardown),
		cmocka_unit_test_setup_teardown(counter_that_came_round_proves_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_stands_still_is_read_by_a_slow_reader, setup, teardown),
		cmocka_unit_test_setup_teardown(counter_of_a_runnable_one_comes_round_sooner, setup, teardown),
		cmocka_unit_test_setup_teardown(batches_shrink_until_they_prove_something, setup, teardown),
		cmocka_unit_test_setup_teardown(counter_of_a_long_stack_that_came_round_proves_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(running_one_has_no_stack, setup, teardown),
		cmocka_unit_test_setup_teardown(torn_bounds_have_no_stack, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_counts_after_exec, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
