/*
 * sample_stand_in.c: whole ticks of a sampler whose program does not count parks. The headers of its goroutines
 * never change here, unless a test says so: who has run is told by what its stack holds.
 */
#include "fake/go_fake.h"
#include "fake/target_fake.h"
#include "go/go_impl.h"
#include "profile_world.h"
#include "sampler_parts.h"

enum {
	MINOR = 26, TID = 1000, DEPTH = 16,
	N = 150, MOST = 300, ONE = 70,		/* the goroutine that a test is about */
	LEN = 0x10000, PTR = 0x11000, ALLM = 0x12000, ARRAY = 0x40000,
	GS = 0x1000000, G_STEP = 0x4000,
	STACKS = 0x4000000, STACK_SIZE = 4096, USED = 3072,
	NEAR = 32, FAR = 32 + 8 + 48 + 8 + 2048,	/* of sp: where its first and its third return address are */
};

enum { CALL = 30, CALL_TWIN = 40 };	/* where calls end */

#define CALLS(f) .calls = { { .end = CALL, .to = (f) } }

/* leaf <- near or its twin <- large <- far or its twin <- goexit. */
static const struct go_fake_func functions[] = {
	{ .name = "main.leaf", .size = 64, .sp = { { 64, 32 } } },
	{ .name = "main.near", .size = 64, .sp = { { 64, 48 } }, CALLS("main.leaf") },
	{ .name = "main.nearTwin", .size = 64, .sp = { { 64, 48 } }, CALLS("main.leaf") },
	{ .name = "main.large", .size = 64, .sp = { { 64, 2048 } },
	  .calls = { { .end = CALL, .to = "main.near" }, { .end = CALL_TWIN, .to = "main.nearTwin" } } },
	{ .name = "main.far", .size = 64, .sp = { { 64, 48 } }, CALLS("main.large") },
	{ .name = "main.farTwin", .size = 64, .sp = { { 64, 48 } }, CALLS("main.large") },
	{ .name = "runtime.goexit", .size = 64, .flags = GO_FUNC_TOPFRAME, .sp = { { 64, 0 } } },
};

struct scene {
	struct look_source looks;	/* first: it is this scene's */
	struct world world;
	struct go_fake *go;
	struct target *target;
	struct go_layout layout;
	struct tracer *tracer;
	struct sampler s;
	struct budget budget;		/* of each tick */
	uint32_t stack_spans;		/* read of stacks */
	uint32_t counted_tick;		/* at which counts were last asked for */
	int runs_meanwhile;		/* this one runs after its header was read; -1: none */
};

/* Each is a range of its own; odd ones, which come later, stand between the even ones. */
static gaddr_t g_at(int i)
{
	return GS + (gaddr_t)(i < N ? 2 * i : 2 * (i - N) + 1) * G_STEP;
}

static gaddr_t stack_at(int i)
{
	return STACKS + (gaddr_t)i * STACK_SIZE;
}

static gaddr_t sp_of(int i)
{
	return stack_at(i) + STACK_SIZE - USED;
}

static void put(struct scene *x, gaddr_t at, enum go_field f, uint64_t value)
{
	target_fake_poke(x->target, at + x->layout.f[f].offset, &value, x->layout.f[f].size);
}

static void put_return(struct scene *x, int i, uint32_t at, const char *function, uint32_t offset)
{
	target_fake_poke_u64(x->target, sp_of(i) + at, go_fake_pc(x->go, function, offset));
}

/* It is in leaf, which was called by this one of the twins. */
static void call_near(struct scene *x, int i, bool twin)
{
	put_return(x, i, NEAR, twin ? "main.nearTwin" : "main.near", CALL);
	put_return(x, i, NEAR + 8 + 48, "main.large", twin ? CALL_TWIN : CALL);
}

static void call_far(struct scene *x, int i, bool twin)
{
	put_return(x, i, FAR, twin ? "main.farTwin" : "main.far", CALL);
}

static void make(struct scene *x, int i)
{
	gaddr_t g = g_at(i);

	target_fake_add(x->target, g, NULL, 1024);
	target_fake_add(x->target, stack_at(i), NULL, STACK_SIZE);
	put(x, g, GO_G_GOID, 100 + (uint64_t)i);
	put(x, g, GO_G_STACK_LO, stack_at(i));
	put(x, g, GO_G_STACK_HI, stack_at(i) + STACK_SIZE);
	put(x, g, GO_G_STARTPC, go_fake_pc(x->go, "main.far", 0));
	put(x, g, GO_G_SCHED_PC, go_fake_pc(x->go, "main.leaf", 20));
	put(x, g, GO_G_SCHED_SP, sp_of(i));
	put(x, g, GO_G_ATOMICSTATUS, G_WAITING);
	call_near(x, i, false);
	call_far(x, i, false);
	put_return(x, i, FAR + 8 + 48, "runtime.goexit", 1);
	target_fake_poke_u64(x->target, ARRAY + 8 * (gaddr_t)i, g);
}

/* ---- a source of no looks ---- */

static void looks_begin(struct look_source *ls, uint32_t tick, bool late)
{
	(void)ls;
	(void)tick;
	(void)late;
}

static struct error *looks_late(struct look_source *ls, look_done *done, void *ctx)
{
	(void)ls;
	(void)done;
	(void)ctx;
	return NULL;
}

static struct error *looks_collect(struct look_source *ls, uint64_t deadline, look_done *done, void *ctx)
{
	(void)deadline;
	return looks_late(ls, done, ctx);
}

static bool looks_ran(const struct look_source *ls)
{
	(void)ls;
	return true;
}

static void looks_destroy(struct look_source *ls)
{
	(void)ls;
}

/* ---- */

static _Bool sleep_until(const struct clock *c, uint64_t deadline)
{
	struct world *w = c->ctx;

	world_pass(w, deadline - w->mono);
	return true;
}

static void on_read(void *ctx, struct target *t, const struct span *s)
{
	struct scene *x = ctx;

	(void)t;
	if (s->addr < STACKS)
		return;
	x->stack_spans++;
	if (x->runs_meanwhile >= 0 && s->addr == sp_of(x->runs_meanwhile)) {
		call_near(x, x->runs_meanwhile, true);
		x->runs_meanwhile = -1;
	}
}

static int begin(void **state, bool counter)
{
	struct scene *x = test_calloc(1, sizeof(*x));
	struct sampler *s = &x->s;

	world_init(&x->world);
	x->world.clock.sleep_until = sleep_until;
	x->go = go_fake_create(functions, sizeof(functions) / sizeof(functions[0]), MINOR);
	assert_null(target_fake_create(&x->target));
	assert_null(tracer_create(&x->tracer));
	assert_true(go_layout_row(MINOR, &x->layout));
	target_fake_add(x->target, LEN, NULL, 8);
	target_fake_add(x->target, PTR, NULL, 8);
	target_fake_add(x->target, ALLM, NULL, 8);
	target_fake_add(x->target, ARRAY, NULL, MOST * 8);
	target_fake_add_tid(x->target, TID, TID);
	target_fake_task(x->target, TID, "1000 0 1\n", "running\n");
	target_fake_poke_u64(x->target, PTR, ARRAY);
	for (int i = 0; i < N; i++)
		make(x, i);
	target_fake_poke_u64(x->target, LEN, N);
	s->reader = (struct reader){
		.target = x->target, .rt = go_fake_runtime(x->go), .layout = &x->layout, .clock = &x->world.clock,
		.g_span = g_span(&x->layout), .m_span = m_span(&x->layout), .goroutines = true,
	};
	s->reader.rt->caps &= ~(uint32_t)GO_CAP_TRACKINGSEQ;
	if (counter)
		s->reader.rt->caps |= GO_CAP_TRACKINGSEQ;
	s->reader.rt->globals[GO_ALLGLEN].addr = LEN;
	s->reader.rt->globals[GO_ALLGPTR].addr = PTR;
	s->reader.rt->globals[GO_ALLM].addr = ALLM;
	sampler_parts_init(s, x->tracer, x->world.p, DEPTH);
	s->random = 1;
	s->period = TICK;
	s->start = x->world.mono;
	s->slot = UINT64_MAX;
	s->timely = timely_given();
	x->looks = (struct look_source){ .name = "test", .begin = looks_begin, .collect_late = looks_late,
					 .collect = looks_collect, .ran = looks_ran, .destroy = looks_destroy };
	s->looks = &x->looks;
	assert_null(stack_reader_create(DEPTH, false, &s->stacks));
	assert_null(intern_pseudo(&s->intern, "[moved]", &s->moved));
	assert_null(intern_pseudo(&s->intern, "[running]", &s->unseen_running));
	assert_null(intern_pseudo(&s->intern, "[not yet]", &s->unread));
	x->budget = budget_full();
	x->runs_meanwhile = -1;
	target_fake_on_read(x->target, on_read, x);
	*state = x;
	return 0;
}

static int setup(void **state)
{
	return begin(state, false);
}

static int setup_with_counter(void **state)
{
	return begin(state, true);
}

static int teardown(void **state)
{
	struct scene *x = *state;

	sampler_parts_deinit(&x->s);
	tracer_destroy(x->tracer);
	target_close(x->target);
	go_fake_destroy(x->go);
	world_deinit(&x->world);
	test_free(x);
	return 0;
}

static void sample(struct scene *x, int ticks)
{
	enum sampler_event event;

	for (int i = 0; i < ticks; i++) {
		x->s.budget = x->budget;
		assert_null(sampler_tick(&x->s, &event));
		assert_int_equal(event, SAMPLER_TICKED);
	}
}

static struct g_slot *slot_of(struct scene *x, int i)
{
	return gs_slot(&x->s.gs, g_at(i));
}

/* Was its stack asked for at the last tick? */
static bool was_read(struct scene *x, int i)
{
	return slot_of(x, i)->turn == tick_mark(x->s.tick);
}

/* What was counted since the last call; there was a tick. */
static struct window *counted(struct scene *x)
{
	struct window *w;

	assert_null(profile_close_window(x->s.profile, x->world.mono + 1, &w));
	x->counted_tick = x->s.tick;
	return w;
}

/* Of these ticks: all that was read are audits and so many changed ones. */
static void assert_read(struct scene *x, int ticks, uint64_t changed)
{
	struct window *w;
	uint64_t looks;

	if (x->counted_tick != x->s.tick)
		window_free(counted(x));
	sample(x, ticks);
	w = counted(x);
	looks = (uint64_t)ticks * x->s.gs.n;
	assert_int_equal(w->health[HEALTH_STACKS] + w->health[HEALTH_G_MOVING], w->health[HEALTH_AUDITED] + changed);
	assert_int_equal(w->health[HEALTH_G_UNCHANGED] + w->health[HEALTH_AUDITED] + changed, looks);
	assert_in_range(w->health[HEALTH_AUDITED], 0, looks / 512 * 2 + 4);
	assert_int_equal(w->health[HEALTH_AUDIT_MISMATCH], 0);
	window_free(w);
}

/* All are found, each was read once, and each is believed. */
static void settle(struct scene *x)
{
	sample(x, 3);
	for (int i = 0; i < N; i++)
		assert_true(slot_of(x, i)->known && slot_of(x, i)->still && !slot_of(x, i)->hot);
}

static void those_that_wait_are_read_once(void **state)
{
	struct scene *x = *state;
	uint32_t before;

	settle(x);
	before = x->stack_spans;
	assert_read(x, 20, 0);
	assert_true(x->stack_spans - before >= 20 * N);	/* the first bytes of each */
}

/* Its header is as it was: it waits for the same, in the same place, but others have called it. */
static void others_that_call_it_are_seen(void **state)
{
	struct scene *x = *state;
	profile_id before;

	settle(x);
	before = slot_of(x, ONE)->stack;
	call_near(x, ONE, true);
	assert_read(x, 1, 1);
	assert_true(was_read(x, ONE));
	assert_int_not_equal(slot_of(x, ONE)->stack, before);
	assert_int_equal(slot_of(x, ONE)->hot, 2);
	assert_read(x, 10, 2);		/* while it is hot */
	call_near(x, ONE, false);
	assert_read(x, 1, 1);
	assert_int_equal(slot_of(x, ONE)->stack, before);
}

static void one_that_runs_between_header_and_stack_is_read(void **state)
{
	struct scene *x = *state;
	profile_id before;

	settle(x);
	before = slot_of(x, ONE)->stack;
	x->runs_meanwhile = ONE;
	assert_read(x, 1, 1);
	assert_int_equal(x->runs_meanwhile, -1);
	assert_int_not_equal(slot_of(x, ONE)->stack, before);
}

/* What is not there any more is no reason to believe anything. */
static void one_whose_stack_cannot_be_read_is_not_believed(void **state)
{
	struct scene *x = *state;

	settle(x);
	target_fake_remove(x->target, stack_at(ONE));
	for (int i = 0; i < 10; i++) {
		assert_read(x, 1, 1);
		assert_true(was_read(x, ONE));
		assert_false(slot_of(x, ONE)->still);
	}
}

/* Behind the first bytes only an audit sees it; that one is never believed again. */
static void what_lies_far_behind_is_seen_by_audits(void **state)
{
	struct scene *x = *state;
	struct window *w;
	profile_id before;

	settle(x);
	before = slot_of(x, ONE)->stack;
	window_free(counted(x));
	call_far(x, ONE, true);
	for (int i = 0; i < 5000 && slot_of(x, ONE)->stack == before; i++)
		sample(x, 1);
	assert_int_not_equal(slot_of(x, ONE)->stack, before);
	w = counted(x);
	assert_int_equal(w->health[HEALTH_AUDIT_MISMATCH], 1);
	window_free(w);
	sample(x, 300);
	call_far(x, ONE, false);
	sample(x, 1);
	assert_int_equal(slot_of(x, ONE)->stack, before);
}

static void table_that_grows_forgets_nothing(void **state)
{
	struct scene *x = *state;

	settle(x);
	for (int n = N; n < MOST; n += 50) {
		for (int i = n; i < n + 50; i++)
			make(x, i);
		target_fake_poke_u64(x->target, LEN, (uint64_t)n + 50);
		call_near(x, n - N, true);
		assert_read(x, 1, 50 + 1);
		assert_true(was_read(x, n - N) && was_read(x, n));
		assert_read(x, 3, 2 * (50 + 1));	/* new ones and changed ones are hot */
		assert_read(x, 3, 0);
	}
	assert_int_equal(x->s.gs.n, MOST);
	assert_int_equal(x->s.gs.n_old, MOST);	/* its parts were merged */
}

/* Where each tick looks at some, too. */
static void each_is_believed_in_its_turn(void **state)
{
	struct scene *x = *state;
	struct window *w;

	x->budget.headers = N / 3;
	sample(x, 3 * 3);
	window_free(counted(x));
	call_near(x, ONE, true);
	sample(x, 3);
	w = counted(x);
	assert_int_equal(w->health[HEALTH_STACKS], w->health[HEALTH_AUDITED] + 1);
	assert_int_equal(w->health[HEALTH_G_UNCHANGED] + w->health[HEALTH_STACKS], N);
	assert_int_equal(x->s.alive, N);
	window_free(w);
}

static void enter_call(struct scene *x, int i)
{
	put(x, g_at(i), GO_G_ATOMICSTATUS, G_SYSCALL);
	put(x, g_at(i), GO_G_SYSCALLPC, go_fake_pc(x->go, "main.leaf", 20));
	put(x, g_at(i), GO_G_SYSCALLSP, sp_of(i));
}

static void system_calls_are_believed_too(void **state)
{
	struct scene *x = *state;
	profile_id before;

	enter_call(x, ONE);
	settle(x);
	assert_read(x, 20, 0);
	before = slot_of(x, ONE)->stack;
	call_near(x, ONE, true);
	assert_read(x, 1, 1);
	assert_int_not_equal(slot_of(x, ONE)->stack, before);
}

/* Whose stack is put off is not believed later, though it looks as it did before; an audit that is put off is none. */
static void one_that_is_put_off_is_read_later(void **state)
{
	struct scene *x = *state;
	uint32_t still = 0;

	settle(x);
	x->budget.stacks = 0;
	call_near(x, ONE, true);
	sample(x, 10);			/* with some audits */
	assert_true(x->s.put_off);
	for (int i = 0; i < N; i++)
		still += slot_of(x, i)->still;
	assert_int_equal(still, N - 1);
	assert_false(slot_of(x, ONE)->still);
	call_near(x, ONE, false);
	x->budget = budget_full();
	assert_read(x, 1, 1);
	assert_true(was_read(x, ONE));
}

static void one_that_ends_is_gone(void **state)
{
	struct scene *x = *state;

	settle(x);
	put(x, g_at(ONE), GO_G_ATOMICSTATUS, G_DEAD);
	put(x, g_at(ONE + 1), GO_G_GOID, 7000);		/* ended, and its struct is another's */
	put(x, g_at(ONE + 2), GO_G_ATOMICSTATUS, G_RUNNING);
	sample(x, 1);
	assert_int_equal(slot_of(x, ONE)->goid, 0);
	assert_int_equal(slot_of(x, ONE + 1)->goid, 7000);
	assert_true(slot_of(x, ONE + 1)->known);
	assert_false(slot_of(x, ONE + 2)->known);
	assert_int_equal(x->s.alive, N - 1);
	sample(x, 1);
	assert_int_equal(x->s.alive, N - 1);
}

/* There equal headers are enough, and nothing is read but these. */
static void programs_that_count_parks_need_none(void **state)
{
	struct scene *x = *state;
	uint32_t before;
	struct window *w;

	assert_null(x->s.stand_in);
	settle(x);
	window_free(counted(x));
	before = x->stack_spans;
	call_near(x, ONE, true);
	sample(x, 20);
	w = counted(x);
	assert_int_equal(x->stack_spans - before, w->health[HEALTH_AUDITED]);
	window_free(w);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(those_that_wait_are_read_once),
		T(others_that_call_it_are_seen),
		T(one_that_runs_between_header_and_stack_is_read),
		T(one_whose_stack_cannot_be_read_is_not_believed),
		T(what_lies_far_behind_is_seen_by_audits),
		T(table_that_grows_forgets_nothing),
		T(each_is_believed_in_its_turn),
		T(system_calls_are_believed_too),
		T(one_that_is_put_off_is_read_later),
		T(one_that_ends_is_gone),
		cmocka_unit_test_setup_teardown(programs_that_count_parks_need_none, setup_with_counter, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
