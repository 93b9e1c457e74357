/*
 * sample_rotation.c: a tick reads no more than there is time for, and chance alone decides who has to wait.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "sample/sampler_impl.h"

enum { JOBS = 3000, ROUNDS = 400 };

static const uint64_t ms = 1000 * 1000;

static void budget_follows_the_time_ticks_take(void **state)
{
	struct budget full = budget_full(), b = full, before;
	const uint32_t h = full.headers, k = full.stacks;

	(void)state;
	budget_adapt(&b, &(struct tick_cost){ h, k, ms, ms });
	assert_int_equal(b.headers, h);		/* never more */
	assert_int_equal(b.stacks, k);
	budget_adapt(&b, &(struct tick_cost){ h, k, 24 * ms / 10, 24 * ms / 10 });
	assert_int_equal(b.headers, h);
	/* Each part answers for itself. */
	budget_adapt(&b, &(struct tick_cost){ h, k, ms, 3 * ms });
	assert_int_equal(b.headers, h);
	assert_int_equal(b.stacks, k / 2);
	budget_adapt(&b, &(struct tick_cost){ h, k / 2, 3 * ms, 24 * ms / 10 });
	assert_int_equal(b.headers, h / 2);
	assert_int_equal(b.stacks, k / 2);
	for (int i = 0; i < 100; i++)
		budget_adapt(&b, &(struct tick_cost){ b.headers, b.stacks, 1000 * ms, 1000 * ms });
	assert_in_range(b.headers, 1, h / 10);	/* something is read at every tick */
	assert_in_range(b.stacks, 1, k / 10);
	/* A tick that had nothing to do says nothing. */
	before = b;
	budget_adapt(&b, &(struct tick_cost){ b.headers, 0, ms * b.headers / h, 0 });
	assert_int_equal(b.stacks, before.stacks);
	for (int i = 0; i < 40; i++) {
		before = b;
		budget_adapt(&b, &(struct tick_cost){ b.headers, b.stacks, ms * b.headers / h, ms * b.stacks / k });
		assert_true(b.headers > before.headers || b.headers == h);
		assert_true(b.headers <= before.headers * 9 / 8 + 1);
	}
	assert_int_equal(b.headers, h);
	assert_int_equal(b.stacks, k);
}

/* All at once would take a little too long, half of them take half: it stays at that. */
static void budget_does_not_swing(void **state)
{
	struct budget b = budget_full();
	uint32_t n = b.headers, at_once = 0;

	(void)state;
	for (int i = 0; i < 200; i++) {
		uint32_t read = b.headers < n ? n / 2 : n;

		at_once += read == n;
		budget_adapt(&b, &(struct tick_cost){ .headers = read, .headers_ns = 26 * ms / 10 * read / n });
	}
	assert_int_equal(at_once, 1);
}

/* Each that asks has the same chance, wherever it stands in the pass. */
static void chance_decides_whose_stack_is_put_off(void **state)
{
	const struct profile_meta meta = { .pid = 1 };
	struct sampler s = { .random = 1, .budget = { .stacks = JOBS / 3 }, .tick = 7 };
	uint32_t *taken = test_calloc(JOBS, sizeof(*taken)), least = UINT32_MAX, most = 0;
	struct g_look look = { .goid = 1, .fingerprint = 5 };

	(void)state;
	s.gs.slots = test_calloc(JOBS, sizeof(*s.gs.slots));
	assert_null(profile_create(&system_clock, &meta, &s.profile));
	for (int round = 0; round < ROUNDS; round++) {
		s.n_jobs = s.n_wanted = 0;
		s.put_off = false;
		for (uint32_t i = 0; i < JOBS; i++) {
			s.gs.slots[i] = (struct g_slot){ .known = true, .still = true, .told = true };
			assert_null(rotation_want(&s, &s.gs.slots[i], &look, rotation_place(&s)));
		}
		assert_int_equal(s.n_jobs, JOBS / 3);
		assert_true(s.put_off);
		for (uint32_t i = 0; i < s.n_jobs; i++) {
			assert_in_range(s.jobs[i].owner, 0, JOBS - 1);
			taken[s.jobs[i].owner]++;
			assert_int_equal(s.gs.slots[s.jobs[i].owner].turn, 7);
			s.gs.slots[s.jobs[i].owner].turn = 0;
		}
		for (uint32_t i = 0; i < JOBS; i++)
			assert_int_not_equal(s.gs.slots[i].turn, 7);	/* nor is the turn of the others */
	}
	for (uint32_t i = 0; i < JOBS; i++) {
		assert_in_range(taken[i], 1, ROUNDS);
		least = taken[i] < least ? taken[i] : least;
		most = taken[i] > most ? taken[i] : most;
	}
	/* ROUNDS / 3 = 133, sigma 9.4: five of them either way. */
	assert_in_range(least, 86, 133);
	assert_in_range(most, 133, 180);
	profile_destroy(s.profile);
	free(s.jobs);
	test_free(s.gs.slots);
	test_free(taken);
}

/* One that was only to be audited has not changed: it is believed on. */
static void audit_that_is_put_off_is_none(void **state)
{
	const struct profile_meta meta = { .pid = 1 };
	struct g_look look = { .goid = 1, .fingerprint = 5 };
	struct g_slot slots[] = {
		{ .known = true, .still = true, .told = true, .print = 5 },
		{ .known = true, .still = true, .told = true, .print = 6 },
		{ .known = true, .still = true, .told = true, .print = 5, .hot = 1 },
	};
	struct sampler s = { .random = 1, .gs.slots = slots };
	struct window *w;

	(void)state;
	assert_null(profile_create(&system_clock, &meta, &s.profile));
	assert_null(profile_tick(s.profile, system_clock.mono(&system_clock)));
	for (int i = 0; i < 3; i++)
		assert_null(rotation_want(&s, &slots[i], &look, ROTATION_NO_PLACE));
	assert_true(slots[0].still);
	assert_false(slots[1].still || slots[2].still);
	assert_null(profile_close_window(s.profile, system_clock.mono(&system_clock), &w));
	assert_int_equal(w->health[HEALTH_G_PUT_OFF], 2);
	window_free(w);
	profile_destroy(s.profile);
}

static void as_many_as_fit_all_have_a_place(void **state)
{
	struct sampler s = { .random = 1, .budget = { .stacks = 3 } };

	(void)state;
	for (uint32_t i = 0; i < 3; i++, s.n_jobs++)
		assert_int_equal(rotation_place(&s), i);
	assert_false(s.put_off);
	for (int i = 0; i < 100; i++) {
		uint32_t at = rotation_place(&s);

		assert_true(at < 3 || at == ROTATION_NO_PLACE);
		assert_true(s.put_off);
	}
	/* One of them was captured meanwhile: there is a place again, but none is taken from another. */
	s.places_stand = true;
	s.n_jobs = 2;
	assert_int_equal(rotation_place(&s), 2);
	s.n_jobs = 3;
	for (int i = 0; i < 100; i++)
		assert_int_equal(rotation_place(&s), ROTATION_NO_PLACE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(budget_follows_the_time_ticks_take),
		cmocka_unit_test(budget_does_not_swing),
		cmocka_unit_test(audit_that_is_put_off_is_none),
		cmocka_unit_test(as_many_as_fit_all_have_a_place),
		cmocka_unit_test(chance_decides_whose_stack_is_put_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
