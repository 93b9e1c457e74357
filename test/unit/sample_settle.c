/*
 * sample_settle.c: where CPU time goes: to a thread's own valid looks, to its next second, to
 * [unseen], to [ended threads]. Nothing is lost and nothing is told twice.
 */
#include "profile_world.h"

#include "fake/target_fake.h"
#include "sample/sample_impl.h"

enum { TID = 4711, OTHER = 4712, MS = NSEC_PER_MSEC };

struct bench {
	struct world w;
	struct target *target;
	struct reader reader;
	struct threads threads;
	profile_id stack[2];
};

static void set_task(struct bench *b, pid_t tid, uint64_t cpu_ms)
{
	char text[64];

	snprintf(text, sizeof(text), "%llu 0 1\n", (unsigned long long)cpu_ms * MS);
	target_fake_task(b->target, tid, text, "running\n");
}

static int setup(void **state)
{
	struct bench *b = test_calloc(1, sizeof(*b));

	world_init(&b->w);
	must(target_fake_create(&b->target));
	target_fake_add_tid(b->target, TID, TID);
	target_fake_add_tid(b->target, OTHER, OTHER);
	set_task(b, TID, 100);		/* before we came: not ours to tell */
	set_task(b, OTHER, 50);
	target_fake_set_cpu_ns(b->target, 150 * MS);
	b->reader = (struct reader){ .target = b->target, .clock = &b->w.clock };
	must(threads_init(&b->threads, &b->reader));
	b->stack[0] = stack1(&b->w, "alpha");
	b->stack[1] = stack1(&b->w, "beta");
	track(&b->w, 7, "main.work");
	tick(&b->w);
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	struct bench *b = *state;

	threads_deinit(&b->threads);
	target_close(b->target);
	world_deinit(&b->w);
	test_free(b);
	return 0;
}

/* A valid look at thread `tid`, standing in one of the two stacks. */
static void thread_look(struct bench *b, pid_t tid, int stack)
{
	struct profile_ref ref;

	world_pass(&b->w, TICK);
	tick(&b->w);
	ref = look(&b->w, 7, b->stack[stack], "running", PROFILE_LABELS_NONE, true);
	must(thread_add_look(threads_find(&b->threads, tid), ref));
}

static void second(struct bench *b, bool final)
{
	world_pass(&b->w, NSEC_PER_SEC);
	threads_settle(&b->threads, &b->reader, b->w.p, final);
}

static struct window *close_window(struct bench *b)
{
	struct window *w;

	must(profile_close_window(b->w.p, b->w.mono, &w));
	return w;
}

static uint64_t cpu_of(const struct window *w, profile_id stack)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < w->n_tracks; i++)
		for (uint32_t k = 0; k < w->tracks[i].n; k++)
			if (w->tracks[i].v[k].stack == stack)
				sum += w->tracks[i].v[k].cpu_ns;
	return sum;
}

static void gain_is_spread_over_own_looks(void **state)
{
	struct bench *b = *state;
	struct window *w;

	thread_look(b, TID, 0);
	thread_look(b, TID, 0);
	thread_look(b, TID, 1);
	set_task(b, TID, 100 + 90);
	target_fake_set_cpu_ns(b->target, (150 + 90) * (uint64_t)MS);
	second(b, true);
	w = close_window(b);
	assert_int_equal(cpu_of(w, b->stack[0]), 60 * MS);
	assert_int_equal(cpu_of(w, b->stack[1]), 30 * MS);
	assert_int_equal(w->cpu_unseen_ns, 0);
	assert_int_equal(w->cpu_ended_ns, 0);
	assert_int_equal(w->health[HEALTH_CPU_PROCESS], 90 * MS);
	assert_int_equal(w->health[HEALTH_CPU_ACCOUNTED], 90 * MS);
	window_free(w);
}

/* What was used while goprof was stopped is nobody's, that of new threads too. */
static void a_pause_is_nobodys(void **state)
{
	struct bench *b = *state;
	struct window *w;

	thread_look(b, TID, 0);
	set_task(b, TID, 100 + 30);
	set_task(b, OTHER, 50 + 10);
	target_fake_set_cpu_ns(b->target, (150 + 40) * (uint64_t)MS);
	second(b, true);
	thread_look(b, TID, 1);
	set_task(b, TID, 100 + 30 + 5000);
	set_task(b, OTHER, 50 + 10 + 700);
	target_fake_add_tid(b->target, OTHER + 1, OTHER + 1);
	set_task(b, OTHER + 1, 300);
	target_fake_set_cpu_ns(b->target, (150 + 40 + 6000) * (uint64_t)MS);
	must(threads_skip(&b->threads, &b->reader));
	set_task(b, TID, 100 + 30 + 5000 + 20);
	set_task(b, OTHER + 1, 300 + 7);
	target_fake_set_cpu_ns(b->target, (150 + 40 + 6000 + 27) * (uint64_t)MS);
	second(b, true);
	w = close_window(b);
	assert_int_equal(cpu_of(w, b->stack[0]), 30 * MS);
	assert_int_equal(cpu_of(w, b->stack[1]), 20 * MS);
	assert_int_equal(w->cpu_unseen_ns, 17 * MS);
	assert_int_equal(w->cpu_ended_ns, 0);
	assert_int_equal(w->health[HEALTH_CPU_PROCESS], 67 * MS);
	assert_int_equal(w->health[HEALTH_CPU_ACCOUNTED], 67 * MS);
	window_free(w);
}

/* Another thread called exec: the main thread's number has its time now, which was told already. */
static void time_taken_over_is_not_told_twice(void **state)
{
	struct bench *b = *state;
	pid_t leader = target_pid(b->target);
	struct window *w;

	target_fake_add_tid(b->target, leader, leader);
	set_task(b, leader, 5);
	must(threads_skip(&b->threads, &b->reader));	/* it has seen the main thread */
	assert_non_null(threads_find(&b->threads, leader));
	thread_look(b, TID, 0);
	set_task(b, TID, 100 + 400);
	target_fake_set_cpu_ns(b->target, (150 + 400) * (uint64_t)MS);
	second(b, false);
	set_task(b, leader, 100 + 430);
	target_fake_set_cpu_ns(b->target, (150 + 430) * (uint64_t)MS);
	target_fake_remove_tid(b->target, TID);
	target_fake_remove_tid(b->target, OTHER);
	second(b, true);
	w = close_window(b);
	assert_int_equal(cpu_of(w, b->stack[0]), 400 * MS);
	assert_int_equal(w->cpu_ended_ns, 30 * MS);
	assert_int_equal(w->health[HEALTH_CPU_PROCESS], 430 * MS);
	assert_int_equal(w->health[HEALTH_CPU_ACCOUNTED], 430 * MS);
	window_free(w);
}

/* A thread without a look owes its gain to its next second, not to another thread's looks. */
static void gain_without_a_look_waits_for_one(void **state)
{
	struct bench *b = *state;
	struct window *w;

	thread_look(b, TID, 0);
	set_task(b, TID, 110);
	set_task(b, OTHER, 50 + 40);
	second(b, false);
	assert_int_equal(threads_find(&b->threads, OTHER)->owed_ns, 40 * MS);
	thread_look(b, OTHER, 1);
	set_task(b, OTHER, 50 + 45);
	target_fake_set_cpu_ns(b->target, (150 + 55) * (uint64_t)MS);
	second(b, true);
	w = close_window(b);
	assert_int_equal(cpu_of(w, b->stack[0]), 10 * MS);
	assert_int_equal(cpu_of(w, b->stack[1]), 45 * MS);
	assert_int_equal(w->cpu_unseen_ns, 0);
	window_free(w);
}

static void what_is_owed_at_the_end_is_unseen(void **state)
{
	struct bench *b = *state;
	struct window *w;

	set_task(b, OTHER, 50 + 25);
	target_fake_set_cpu_ns(b->target, (150 + 25) * (uint64_t)MS);
	second(b, false);
	second(b, true);
	w = close_window(b);
	assert_int_equal(w->cpu_unseen_ns, 25 * MS);
	assert_int_equal(w->health[HEALTH_CPU_UNSEEN], 25 * MS);
	assert_int_equal(w->health[HEALTH_CPU_ACCOUNTED], 25 * MS);
	window_free(w);
}

/* The process clock knows of threads that nobody saw. */
static void rest_of_the_process_clock_is_ended_threads(void **state)
{
	struct bench *b = *state;
	struct window *w;

	thread_look(b, TID, 0);
	set_task(b, TID, 120);
	target_fake_set_cpu_ns(b->target, (150 + 20 + 33) * (uint64_t)MS);
	second(b, true);
	w = close_window(b);
	assert_int_equal(cpu_of(w, b->stack[0]), 20 * MS);
	assert_int_equal(w->cpu_ended_ns, 33 * MS);
	assert_int_equal(w->health[HEALTH_CPU_ACCOUNTED], 53 * MS);
	window_free(w);
	/* And is told once. */
	tick(&b->w);
	second(b, true);
	w = close_window(b);
	assert_int_equal(w->cpu_ended_ns, 0);
	assert_int_equal(w->health[HEALTH_CPU_PROCESS], 0);
	window_free(w);
}

/* A thread that ends between two seconds keeps what is known of it. */
static void ended_thread_is_settled_by_its_last_reading(void **state)
{
	struct bench *b = *state;
	const struct task_times seen = { .cpu_ns = 100 * (uint64_t)MS + 7 * MS };
	struct window *w;

	thread_look(b, TID, 1);
	thread_clock(threads_find(&b->threads, TID), &seen, b->w.mono);
	target_fake_remove_tid(b->target, TID);
	target_fake_set_cpu_ns(b->target, (150 + 9) * (uint64_t)MS);
	second(b, true);
	w = close_window(b);
	assert_int_equal(cpu_of(w, b->stack[1]), 7 * MS);
	assert_int_equal(w->cpu_ended_ns, 2 * MS);
	window_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(gain_is_spread_over_own_looks, setup, teardown),
		cmocka_unit_test_setup_teardown(a_pause_is_nobodys, setup, teardown),
		cmocka_unit_test_setup_teardown(time_taken_over_is_not_told_twice, setup, teardown),
		cmocka_unit_test_setup_teardown(gain_without_a_look_waits_for_one, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_owed_at_the_end_is_unseen, setup, teardown),
		cmocka_unit_test_setup_teardown(rest_of_the_process_clock_is_ended_threads, setup, teardown),
		cmocka_unit_test_setup_teardown(ended_thread_is_settled_by_its_last_reading, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
