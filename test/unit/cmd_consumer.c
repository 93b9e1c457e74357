/*
 * cmd_consumer.c: the thread between sampling and exporting. Windows are told in their order, a slow
 * consumer never makes the sampling thread wait longer than it says, failures come back, and at the end
 * everything has been told.
 */
#include "profile_world.h"

#include <pthread.h>
#include <stdlib.h>

#include "cmd/consumer.h"
#include "export/export.h"

/* Who is told, as slow as the test wants. */
struct listener {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool held;			/* until the test lets it go on */
	bool listens;			/* a window is being told */
	uint32_t fails_at;		/* number of a window; 0: none */
	uint32_t told, last, wrong;
};

static struct error *hear(void *ctx, const struct window *w)
{
	struct listener *l = ctx;

	pthread_mutex_lock(&l->lock);
	l->listens = true;
	pthread_cond_broadcast(&l->changed);
	while (l->held)
		pthread_cond_wait(&l->changed, &l->lock);
	l->listens = false;
	l->told++;
	l->wrong += w->number <= l->last || w->n_tracks != 1;
	l->last = w->number;
	pthread_mutex_unlock(&l->lock);
	return w->number == l->fails_at ? error_new(ERROR_OUTPUT, "window %u", w->number) : NULL;
}

static void hold(struct listener *l, bool held)
{
	pthread_mutex_lock(&l->lock);
	l->held = held;
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
}

static void wait_until_it_listens(struct listener *l)
{
	pthread_mutex_lock(&l->lock);
	while (!l->listens)
		pthread_cond_wait(&l->changed, &l->lock);
	pthread_mutex_unlock(&l->lock);
}

struct bench {
	struct world w;
	struct listener l;
	struct consumer *c;
};

static void bench_init(struct bench *b)
{
	*b = (struct bench){ .l = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER } };
	world_init(&b->w);
	track(&b->w, 1, "main.main");
	must(consumer_create(hear, &b->l, &b->c));
}

static void bench_deinit(struct bench *b)
{
	consumer_destroy(b->c);
	world_deinit(&b->w);
}

static struct closed_window *next_window(struct bench *b)
{
	struct closed_window *c;

	tick(&b->w);
	profile_credit(b->w.p, look(&b->w, 1, stack1(&b->w, "f"), "running", 0, true), 100);
	world_pass(&b->w, TICK);
	must(profile_detach_window(b->w.p, b->w.mono, &c));
	return c;
}

static void all_in_order(void **state)
{
	enum { MANY = 200 };
	struct bench b;

	(void)state;
	bench_init(&b);
	for (int i = 0; i < MANY; i++) {
		assert_true(consumer_has_room(b.c, UINT64_MAX));
		consumer_put(b.c, next_window(&b));
	}
	consumer_join(b.c);
	assert_null(consumer_take_error(b.c));
	assert_int_equal(b.l.told, MANY);
	assert_int_equal(b.l.last, MANY);
	assert_int_equal(b.l.wrong, 0);
	assert_true(aggregate_cpu_ns(consumer_aggregate(b.c)) == MANY * 100);
	assert_true(aggregate_wall_ns(consumer_aggregate(b.c)) == (uint64_t)MANY * TICK);
	bench_deinit(&b);
}

static void a_slow_one_is_not_waited_for(void **state)
{
	struct bench b;
	uint64_t begin;

	(void)state;
	bench_init(&b);
	hold(&b.l, true);
	consumer_put(b.c, next_window(&b));
	wait_until_it_listens(&b.l);
	for (int i = 0; i < 2; i++) {		/* so many may wait */
		assert_true(consumer_has_room(b.c, 0));
		consumer_put(b.c, next_window(&b));
	}
	assert_false(consumer_has_room(b.c, 0));
	begin = system_clock.mono(&system_clock);
	assert_false(consumer_has_room(b.c, 20 * NSEC_PER_MSEC));
	assert_true(system_clock.mono(&system_clock) - begin >= 20 * NSEC_PER_MSEC);
	hold(&b.l, false);
	assert_true(consumer_has_room(b.c, 60 * (uint64_t)NSEC_PER_SEC));
	consumer_join(b.c);
	assert_int_equal(b.l.told, 3);
	assert_int_equal(b.l.wrong, 0);
	bench_deinit(&b);
}

/* Dropped in the middle: what waits is forgotten, and freed. */
static void forgotten_when_it_is_destroyed(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b);
	for (int i = 0; i < 2; i++) {
		assert_true(consumer_has_room(b.c, UINT64_MAX));
		consumer_put(b.c, next_window(&b));
	}
	consumer_destroy(b.c);
	consumer_destroy(NULL);
	assert_true(b.l.told <= 2);
	world_deinit(&b.w);
}

static void failures_come_back(void **state)
{
	struct bench b;
	struct error *err;

	(void)state;
	bench_init(&b);
	b.l.fails_at = 2;
	for (int i = 0; i < 4; i++) {
		assert_true(consumer_has_room(b.c, UINT64_MAX));
		consumer_put(b.c, next_window(&b));
	}
	consumer_join(b.c);
	err = consumer_take_error(b.c);
	assert_non_null(err);
	assert_int_equal(err->kind, ERROR_OUTPUT);
	assert_string_equal(err->what, "window 2");
	error_free(err);
	assert_null(consumer_take_error(b.c));
	assert_int_equal(b.l.told, 4);		/* the others are told all the same */
	bench_deinit(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_in_order),
		cmocka_unit_test(a_slow_one_is_not_waited_for),
		cmocka_unit_test(forgotten_when_it_is_destroyed),
		cmocka_unit_test(failures_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
