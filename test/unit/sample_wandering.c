/*
 * sample_wandering.c: a held thread's m, when ms go from thread to thread: it is asked in the hold whose
 * each is then, and an m that is another's is none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "fake/target_fake.h"
#include "sample/sample_impl.h"

enum {
	MINOR = 19,
	MS = 0x100000, M_STEP = 4096, G = 0x200000, STACK = 0x300000, STACK_SIZE = 8192,
	N_MS = WANDERING_MAX + 8,
	TID = 1000, OTHER = 2000,
};

struct world {
	struct target *target;
	struct go_layout layout;
	struct wandering wandering;
	struct hold_plan plan;
	struct capture c;
};

static gaddr_t m_at(int i)
{
	return MS + (gaddr_t)i * M_STEP;
}

static gaddr_t g_of(int m)
{
	return G + (gaddr_t)m * M_STEP;
}

static void put(struct world *w, gaddr_t at, enum go_field f, uint64_t value)
{
	target_fake_poke(w->target, at + w->layout.f[f].offset, &value, w->layout.f[f].size);
}

/* The runtime gives an m to a thread, and with it the goroutine that runs there. */
static void give(struct world *w, int m, uint64_t procid)
{
	put(w, m_at(m), GO_M_PROCID, procid);
	put(w, m_at(m), GO_M_CURG, g_of(m));
	put(w, g_of(m), GO_G_M, m_at(m));
	put(w, g_of(m), GO_G_ATOMICSTATUS, G_RUNNING);
}

/* It takes it back: the goroutine, which stays with the m, is dead. Up to Go 1.20 so does the thread's id. */
static void take_back(struct world *w, int m)
{
	put(w, g_of(m), GO_G_ATOMICSTATUS, G_DEAD);
}

/* A walk over all ms that saw it there. */
static void give_and_note(struct world *w, int m, uint64_t procid)
{
	give(w, m, procid);
	assert_null(wandering_note(&w->wandering, m_at(m), procid));
}

static int setup(void **state)
{
	struct world *w = test_calloc(1, sizeof(*w));
	struct reader r;

	assert_null(target_fake_create(&w->target));
	assert_true(go_layout_row(MINOR, &w->layout));
	target_fake_add(w->target, MS, NULL, N_MS * M_STEP);
	target_fake_add(w->target, G, NULL, N_MS * M_STEP);
	target_fake_add(w->target, STACK, NULL, STACK_SIZE);
	for (int i = 0; i < N_MS; i++) {
		put(w, g_of(i), GO_G_STACK_LO, STACK);
		put(w, g_of(i), GO_G_STACK_HI, STACK + STACK_SIZE);
		put(w, g_of(i), GO_G_GOID, 18 + (uint64_t)i);
	}
	r = (struct reader){ .layout = &w->layout, .g_span = g_span(&w->layout), .m_span = m_span(&w->layout),
			     .goroutines = true };
	w->plan = hold_plan_make(&r, false);
	w->plan.wandering = &w->wandering;
	wandering_init(&w->wandering);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	wandering_deinit(&w->wandering);
	target_close(w->target);
	test_free(w);
	return 0;
}

static gaddr_t find(const struct world *w, uint64_t procid)
{
	gaddr_t v[WANDERING_MAX];
	size_t n = wandering_find(&w->wandering, w->target, &w->layout, procid, v);

	assert_true(n <= 1);
	return n ? v[0] : 0;
}

static void one_that_stays_is_not_asked(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 3; i++)
		give_and_note(w, 0, TID);
	assert_int_equal(find(w, TID), 0);
	assert_int_equal(w->wandering.n, 0);
}

static void one_that_has_moved_is_asked_whose_it_is(void **state)
{
	struct world *w = *state;

	give_and_note(w, 0, TID);
	give_and_note(w, 0, OTHER);
	assert_int_equal(find(w, OTHER), m_at(0));
	assert_int_equal(find(w, TID), 0);
	give(w, 0, TID);	/* no walk has seen it */
	assert_int_equal(find(w, TID), m_at(0));
	give(w, 0, 0);		/* it is nobody's */
	assert_int_equal(find(w, TID), 0);
}

static void of_too_many_the_newest_are_asked(void **state)
{
	struct world *w = *state;

	for (int turn = 0; turn < 3; turn++)
		for (int i = 0; i < N_MS; i++)
			give_and_note(w, i, TID + (uint64_t)(turn * N_MS + i));
	for (int i = 0; i < N_MS; i++)
		assert_int_equal(find(w, TID + (uint64_t)(2 * N_MS + i)), i < N_MS - WANDERING_MAX ? 0 : m_at(i));
}

/* m 0 is what the thread had at the tick. */
static bool hold(struct world *w, struct m_look *m, struct g_look *g, bool *has_g)
{
	const struct thread th = { .tid = TID, .m = m_at(0), .procid = TID };
	const struct capture_request rq = { .hint = { [HINT_M] = th.m, [HINT_PROCID] = th.procid } };

	memset(&w->c, 0, sizeof(w->c));
	w->c.regs.sp = STACK + STACK_SIZE - 256;
	hold_hook(&w->plan, w->target, &rq, &w->c);
	assert_int_equal(w->c.n_views, 1);
	return hold_read(&w->plan, &w->c, &th, m, g, has_g);
}

static void held_thread_has_the_m_of_now(void **state)
{
	struct world *w = *state;
	struct m_look m;
	struct g_look g;
	bool has_g;

	give_and_note(w, 0, TID);
	assert_true(hold(w, &m, &g, &has_g));
	assert_int_equal(m.m, m_at(0));
	give_and_note(w, 1, TID);
	give_and_note(w, 1, OTHER);
	give(w, 0, OTHER);
	give(w, 1, TID);
	assert_true(hold(w, &m, &g, &has_g));
	assert_int_equal(m.m, m_at(1));
	assert_true(has_g);
	assert_int_equal(g.goid, 19);
}

/* Another thread takes m 0 between the readings of the m and of its goroutine. */
static void take_meanwhile(void *ctx, struct target *t, const struct span *s)
{
	struct world *w = ctx;

	if (s->addr != g_of(0))
		return;
	target_fake_on_read(t, NULL, NULL);
	give(w, 0, OTHER);
}

static void held_thread_has_no_m_that_another_takes_meanwhile(void **state)
{
	struct world *w = *state;
	struct m_look m;
	struct g_look g;
	bool has_g;

	give_and_note(w, 0, OTHER);
	give_and_note(w, 0, TID);
	assert_true(hold(w, &m, &g, &has_g));
	take_back(w, 0);
	target_fake_on_read(w->target, take_meanwhile, w);
	assert_false(hold(w, &m, &g, &has_g));
	assert_false(has_g);
}

/* A goroutine of Go's own that has just ended is still there; its thread keeps its m in any case. */
static void held_thread_has_its_m_while_its_goroutine_ends(void **state)
{
	struct world *w = *state;
	struct m_look m;
	struct g_look g;
	bool has_g;

	give_and_note(w, 0, TID);
	put(w, g_of(0), GO_G_STARTPC, 0x401000);
	take_back(w, 0);
	assert_true(hold(w, &m, &g, &has_g));
	assert_int_equal(m.m, m_at(0));
	assert_true(has_g);
}

/* Of those that name the thread only one is still its own, if any: the one whose goroutine is alive. */
static void held_thread_has_no_m_that_was_given_back(void **state)
{
	struct world *w = *state;
	struct m_look m;
	struct g_look g;
	bool has_g;

	for (int i = 0; i < 3; i++) {
		give_and_note(w, i, OTHER);
		give_and_note(w, i, TID);
	}
	for (int own = 0; own < 3; own++) {
		for (int i = 0; i < 3; i++)
			if (i == own)
				give(w, i, TID);
			else
				take_back(w, i);
		assert_true(hold(w, &m, &g, &has_g));
		assert_int_equal(m.m, m_at(own));
		assert_true(has_g);
		assert_int_equal(g.goid, 18 + own);
		take_back(w, own);
		assert_false(hold(w, &m, &g, &has_g));
		assert_false(has_g);
	}
	/* It has no other, and runs no goroutine: a scheduler. */
	put(w, m_at(2), GO_M_CURG, 0);
	assert_true(hold(w, &m, &g, &has_g));
	assert_int_equal(m.m, m_at(2));
	assert_false(has_g);
}

static void held_thread_whose_m_is_anothers_has_none(void **state)
{
	struct world *w = *state;
	struct m_look m;
	struct g_look g;
	bool has_g;

	give_and_note(w, 0, TID);
	give_and_note(w, 0, OTHER);
	assert_false(hold(w, &m, &g, &has_g));
	assert_false(has_g);
	w->plan.wandering = NULL;
	assert_false(hold(w, &m, &g, &has_g));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(one_that_stays_is_not_asked),
		T(one_that_has_moved_is_asked_whose_it_is),
		T(of_too_many_the_newest_are_asked),
		T(held_thread_has_the_m_of_now),
		T(held_thread_has_no_m_that_another_takes_meanwhile),
		T(held_thread_has_its_m_while_its_goroutine_ends),
		T(held_thread_has_no_m_that_was_given_back),
		T(held_thread_whose_m_is_anothers_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
