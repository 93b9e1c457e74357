/*
 * sample_turns.c: whole ticks of a sampler that cannot read all goroutines at once: each has its turn, and
 * one that was on a CPU does not stay there until its next turn.
 */
#include "fake/go_fake.h"
#include "fake/target_fake.h"
#include "go/go_impl.h"
#include "profile_world.h"
#include "sampler_parts.h"

enum {
	MINOR = 26, TID = 1000, DEPTH = 16,
	N = 40, MOST = 80, ONE = 7,		/* the goroutine that a test is about */
	LEN = 0x10000, PTR = 0x11000, ALLM = 0x12000, M = 0x20000, G0 = 0x30000, ARRAY = 0x40000,
	GS = 0x1000000, G_STEP = 0x4000,	/* each is a range of its own */
	STACKS = 0x4000000, STACK_SIZE = 4096,
};

static const struct go_fake_func functions[] = {
	{ .name = "main.waits", .size = 64, .sp = { { 64, 32 } } },
	{ .name = "main.works", .size = 64, .sp = { { 64, 32 } } },
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
	struct capture c;
	struct budget budget;		/* of each tick */
	int on_cpu, late;		/* goroutines that this tick's captures tell of; -1: none */
	uint32_t stacks_read[MOST];
};

static gaddr_t g_at(int i)
{
	return GS + (gaddr_t)i * G_STEP;
}

static gaddr_t sp_of(int i)
{
	return STACKS + (gaddr_t)(i + 1) * STACK_SIZE - 256;
}

static void put(struct scene *x, gaddr_t at, enum go_field f, uint64_t value)
{
	target_fake_poke(x->target, at + x->layout.f[f].offset, &value, x->layout.f[f].size);
}

/* It has left its thread once more, and waits. */
static void park(struct scene *x, int i)
{
	static uint8_t parks;

	put(x, g_at(i), GO_G_TRACKINGSEQ, ++parks);
	put(x, g_at(i), GO_G_ATOMICSTATUS, G_WAITING);
	put(x, g_at(i), GO_G_M, 0);
	put(x, M, GO_M_CURG, 0);
}

static void run(struct scene *x, int i)
{
	put(x, g_at(i), GO_G_ATOMICSTATUS, G_RUNNING);
	put(x, g_at(i), GO_G_M, M);
	put(x, M, GO_M_CURG, g_at(i));
}

static void make(struct scene *x, int i)
{
	gaddr_t g = g_at(i), stack = STACKS + (gaddr_t)i * STACK_SIZE;

	target_fake_add(x->target, g, NULL, 1024);
	target_fake_add(x->target, stack, NULL, STACK_SIZE);
	put(x, g, GO_G_GOID, 100 + (uint64_t)i);
	put(x, g, GO_G_STACK_LO, stack);
	put(x, g, GO_G_STACK_HI, stack + STACK_SIZE);
	put(x, g, GO_G_STARTPC, go_fake_pc(x->go, "main.waits", 0));
	put(x, g, GO_G_SCHED_PC, go_fake_pc(x->go, "main.waits", 20));
	put(x, g, GO_G_SCHED_SP, sp_of(i));
	target_fake_poke_u64(x->target, sp_of(i) + 32, go_fake_pc(x->go, "runtime.goexit", 1));
	target_fake_poke_u64(x->target, ARRAY + 8 * (gaddr_t)i, g);
	park(x, i);
}

static void count(struct scene *x, uint32_t n)
{
	target_fake_poke_u64(x->target, LEN, n);
}

/* ---- a source of looks ---- */

static void looks_begin(struct look_source *ls, uint32_t tick, bool late)
{
	(void)ls;
	(void)tick;
	(void)late;
}

static struct error *give(struct scene *x, int i, bool late, look_done *done, void *ctx)
{
	const struct capture_request rq = { .hint = { [HINT_M] = M, [HINT_PROCID] = TID } };
	struct look look = { .thread = threads_find(&x->s.threads, TID), .capture = &x->c, .oncpu = true, .late = late };
	struct error *err;

	if (i < 0)
		return NULL;
	run(x, i);
	memset(&x->c, 0, sizeof(x->c));
	x->c.tid = TID;
	x->c.t_arrived = x->c.t_resumed = x->world.mono - (late ? 1000 : 0);
	x->c.regs.sp = sp_of(i);
	x->c.regs.pc = go_fake_pc(x->go, "main.works", 20);
	hold_hook(&x->s.plan, x->target, &rq, &x->c);
	err = done(ctx, &look);
	if (late)
		park(x, i);	/* that was before this tick */
	return err;
}

static struct error *looks_late(struct look_source *ls, look_done *done, void *ctx)
{
	struct scene *x = (struct scene *)ls;

	return give(x, x->late, true, done, ctx);
}

static struct error *looks_collect(struct look_source *ls, uint64_t deadline, look_done *done, void *ctx)
{
	struct scene *x = (struct scene *)ls;

	(void)deadline;
	return give(x, x->on_cpu, false, done, ctx);
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

static void count_stack_reads(void *ctx, struct target *t, const struct span *s)
{
	struct scene *x = ctx;
	gaddr_t i = (s->addr - STACKS) / STACK_SIZE;

	(void)t;
	if (s->addr >= STACKS && i < MOST && s->addr == sp_of((int)i))
		x->stacks_read[i]++;
}

static int begin(void **state, uint32_t caps)
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
	target_fake_add(x->target, M, NULL, 4096);
	target_fake_add(x->target, G0, NULL, 4096);
	target_fake_add(x->target, ARRAY, NULL, MOST * 8);
	target_fake_add_tid(x->target, TID, TID);
	target_fake_task(x->target, TID, "1000 0 1\n", "running\n");
	target_fake_poke_u64(x->target, PTR, ARRAY);
	target_fake_poke_u64(x->target, ALLM, M);
	put(x, M, GO_M_PROCID, TID);
	put(x, M, GO_M_G0, G0);
	for (int i = 0; i < N; i++)
		make(x, i);
	count(x, N);
	s->reader = (struct reader){
		.target = x->target, .rt = go_fake_runtime(x->go), .layout = &x->layout, .clock = &x->world.clock,
		.g_span = g_span(&x->layout), .m_span = m_span(&x->layout), .goroutines = true,
	};
	s->reader.rt->caps = (s->reader.rt->caps & ~(uint32_t)GO_CAP_TRACKINGSEQ) | caps;
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
	x->budget = (struct budget){ .headers = 8, .stacks = MOST };
	x->on_cpu = x->late = -1;
	target_fake_on_read(x->target, count_stack_reads, x);
	*state = x;
	return 0;
}

static int setup(void **state)
{
	return begin(state, GO_CAP_TRACKINGSEQ);
}

/* Of a runtime that does not count parks: who is where it was is told by stacks (stand_in.c). */
static int setup_without_counter(void **state)
{
	return begin(state, 0);
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

static void sample(struct scene *x, int on_cpu)
{
	enum sampler_event event;

	x->s.budget = x->budget;
	x->on_cpu = on_cpu;
	assert_null(sampler_tick(&x->s, &event));
	assert_int_equal(event, SAMPLER_TICKED);
	x->late = -1;
}

static struct g_slot *slot_of(struct scene *x, int i)
{
	return gs_slot(&x->s.gs, g_at(i));
}

static bool has_turn(struct scene *x, int i)
{
	return slot_of(x, i)->turn == tick_mark(x->s.tick);
}

static struct window *close_window(struct scene *x)
{
	struct window *w;

	assert_null(profile_close_window(x->s.profile, x->world.mono + 1, &w));
	return w;
}

/* Ticks at which the goroutine was seen at the place where it waits, and elsewhere. */
static void ticks_of(struct scene *x, const struct window *w, int i, uint32_t *waits, uint32_t *elsewhere)
{
	profile_id stack = slot_of(x, i)->stack;

	*waits = *elsewhere = 0;
	for (uint32_t k = 0; k < w->n_tracks; k++)
		for (uint32_t at = 0; w->tracks[k].info.key == 100 + (uint64_t)i && at < w->tracks[k].n; at++) {
			uint32_t n = w->tracks[k].v[at].end_tick - w->tracks[k].v[at].first_tick;

			*(w->tracks[k].v[at].stack == stack ? waits : elsewhere) += n;
		}
}

static void assert_elsewhere(struct scene *x, int i, uint32_t want)
{
	struct window *w = close_window(x);
	uint32_t waits, elsewhere;

	ticks_of(x, w, i, &waits, &elsewhere);
	assert_int_equal(elsewhere, want);
	assert_true(waits > 0);
	window_free(w);
}

/* A round over all, so that each has been seen at its place. */
static void see_all(struct scene *x)
{
	for (int i = 0; i < N / 8; i++)
		sample(x, -1);
	assert_int_equal(x->s.alive, N);
	x->budget.headers = 0;	/* from now on it is nobody's turn */
}

static void each_has_its_turn(void **state)
{
	struct scene *x = *state;
	struct window *w;

	for (int round = 1; round <= 3; round++) {
		for (int i = 0; i < N / 8; i++) {
			assert_int_equal(x->s.alive, x->s.tick ? N : 0);	/* at first an estimate */
			sample(x, -1);
			assert_true(x->s.rotates);
		}
		for (int i = 0; i < N; i++) {
			park(x, i);
			assert_int_equal(x->stacks_read[i], round);
		}
	}
	w = close_window(x);
	assert_int_equal(w->n_tracks, N);
	assert_int_equal(w->health[HEALTH_G_PASSES], 3);
	assert_int_equal(w->health[HEALTH_G_READ], 3 * N);
	assert_int_equal(w->health[HEALTH_STACKS], 3 * N);
	window_free(w);
}

/* One more than fits into a tick is read in two equal halves, not in a whole tick and one for the last of them. */
static void ticks_of_a_round_are_alike(void **state)
{
	struct scene *x = *state;

	x->budget.headers = N - 1;
	for (int tick = 1; tick <= 4; tick++) {
		sample(x, -1);
		assert_int_equal(x->s.round_ended, tick % 2 == 0);
		if (tick % 2)
			assert_in_range(x->s.round_slots, N / 2 - 1, N / 2 + 1);
	}
}

/* Rounds end although the table grows at each tick, and nobody is counted twice. */
static void rounds_end_while_the_table_grows(void **state)
{
	struct scene *x = *state;
	uint32_t n = N, ended = 0;

	while (n < MOST) {
		make(x, (int)n);
		count(x, ++n);
		sample(x, -1);
		ended += x->s.round_ended;
		assert_true(x->s.alive <= n);
	}
	assert_in_range(ended, 4, 6);	/* 40 ticks read 320 of 60 on average */
	assert_true(x->s.alive > N + 20);
}

static void one_that_was_on_a_cpu_goes_back(void **state)
{
	struct scene *x = *state;

	see_all(x);
	sample(x, ONE);
	assert_true(slot_of(x, ONE)->captured);
	park(x, ONE);
	sample(x, -1);
	assert_false(slot_of(x, ONE)->captured);
	for (int i = 0; i < 3; i++)
		sample(x, -1);
	assert_elsewhere(x, ONE, 1);
}

/* It has its turn while it runs, on no CPU just then: it is asked again. */
static void one_that_runs_at_its_turn_goes_back_later(void **state)
{
	struct scene *x = *state;

	see_all(x);
	sample(x, ONE);
	x->budget.headers = N - 1;
	do {
		sample(x, -1);
		assert_true(slot_of(x, ONE)->captured);
	} while (!has_turn(x, ONE));
	x->budget.headers = 0;
	sample(x, -1);
	assert_true(slot_of(x, ONE)->captured);		/* it runs still */
	park(x, ONE);
	sample(x, -1);
	assert_false(slot_of(x, ONE)->captured);
}

/* What came after its tick belongs to that one: at this one the goroutine waits. */
static void late_look_lasts_no_longer(void **state)
{
	struct scene *x = *state;

	see_all(x);
	sample(x, -1);
	x->late = ONE;
	sample(x, -1);
	assert_false(slot_of(x, ONE)->captured);
	sample(x, -1);
	assert_elsewhere(x, ONE, 0);
}

/* All are looked at, but there is time for one stack: whose was put off goes back, too. */
static void one_that_was_put_off_goes_back(void **state)
{
	struct scene *x = *state;
	int put_off = 0;

	see_all(x);
	x->budget = (struct budget){ .headers = N, .stacks = 1 };
	for (int i = 0; i < 20; i++) {
		sample(x, ONE);
		assert_false(x->s.rotates);
		for (int k = 0; k < N; k++)
			park(x, k);
		sample(x, -1);
		assert_true(x->s.put_off);
		put_off += !has_turn(x, ONE);
		assert_false(slot_of(x, ONE)->captured);
		assert_int_equal(slot_of(x, ONE)->still, has_turn(x, ONE));
	}
	assert_true(put_off > 10);
	assert_elsewhere(x, ONE, 20);
}

/* It parks so many times between two looks; then 150 find it at rest. How many of those read its stack? */
static uint32_t looks_after(struct scene *x, int i, uint8_t parks)
{
	uint32_t before;

	put(x, g_at(i), GO_G_TRACKINGSEQ, (uint8_t)(slot_of(x, i)->parks + parks));
	sample(x, -1);
	before = x->stacks_read[i];
	for (int look = 0; look < 150; look++)
		sample(x, -1);
	return x->stacks_read[i] - before;
}

/* An audit may come in besides. */
static void one_that_parks_often_is_not_soon_believed(void **state)
{
	struct scene *x = *state;

	x->budget.headers = N;
	for (int i = 0; i < 5; i++)
		sample(x, -1);
	assert_in_range(looks_after(x, ONE, 1), 2, 8);
	assert_in_range(looks_after(x, ONE, 63), 2, 8);
	assert_in_range(looks_after(x, ONE, 64), 100, 106);
	assert_in_range(looks_after(x, ONE, 200), 100, 106);
}

/* A held thread tells of it before allgs does: then it has its turn at once, and one stack is read. */
static void one_that_only_a_thread_knew_is_read_once(void **state)
{
	struct scene *x = *state;
	uint32_t before;

	see_all(x);
	for (int i = N; i < N + 20; i++) {
		x->budget.headers = i % 2 ? 8 : 20;	/* its tick is now the last of a round, now another */
		make(x, i);
		sample(x, i);
		assert_null(slot_of(x, i));
		park(x, i);
		before = x->stacks_read[i];
		count(x, (uint32_t)i + 1);
		sample(x, -1);
		assert_non_null(slot_of(x, i));
		assert_true(has_turn(x, i));
		assert_int_equal(x->stacks_read[i], before + 1);
		assert_false(slot_of(x, i)->captured);
		assert_true(x->s.alive <= (uint32_t)i + 1);
	}
	x->budget.headers = 20;
	for (int i = 0; i < 6; i++)
		sample(x, -1);
	assert_int_equal(x->s.alive, N + 20);
}

/* Nor does such a one stay on the CPU where there is no time for its stack. */
static void one_that_only_a_thread_knew_goes_back(void **state)
{
	struct scene *x = *state;

	see_all(x);
	x->budget = (struct budget){ .headers = N + 1, .stacks = 0 };
	make(x, N);
	sample(x, N);
	park(x, N);
	count(x, N + 1);
	sample(x, -1);
	assert_true(x->s.put_off);
	assert_false(slot_of(x, N)->captured);
	assert_false(slot_of(x, N)->known);
}

/* Whose first turn is put off is told without a stack: its time is not lost. */
static void one_that_has_no_turn_yet_is_told(void **state)
{
	struct scene *x = *state;
	struct window *w;

	x->budget = (struct budget){ .headers = N, .stacks = 0 };
	for (int i = 0; i < 3; i++)
		sample(x, -1);
	w = close_window(x);
	assert_int_equal(w->n_tracks, N);
	for (uint32_t i = 0; i < N; i++) {
		assert_int_equal(w->tracks[i].n, 1);
		assert_int_equal(w->tracks[i].v[0].stack, x->s.unread);
		assert_int_equal(w->tracks[i].v[0].end_tick - w->tracks[i].v[0].first_tick, 3);
	}
	window_free(w);
}

/* There is time for few first looks: each goroutine gets its own, and one is enough for those that were there before. */
static void first_looks_come_one_by_one(void **state)
{
	struct scene *x = *state;
	uint32_t known, reads = 0;
	int ticks;

	x->budget = (struct budget){ .headers = N, .stacks = 5 };
	for (ticks = 0, known = 0; known < N && ticks < N / 5 + 2; ticks++) {
		sample(x, -1);
		known = 0;
		for (int i = 0; i < N; i++)
			known += slot_of(x, i)->known;
		assert_in_range(known + 3, 5 * (ticks + 1), 5 * (ticks + 1) + 3);	/* an audit may take a place */
	}
	assert_int_equal(known, N);
	for (int i = 0; i < N; i++)
		reads += (uint32_t)x->stacks_read[i];
	assert_in_range(reads, N, N + 4);	/* an audit may come in */
	sample(x, -1);
	assert_false(x->s.put_off);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define WITHOUT_COUNTER(f) { #f " without counter", f, setup_without_counter, teardown, NULL }

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(each_has_its_turn),
		T(ticks_of_a_round_are_alike),
		T(rounds_end_while_the_table_grows),
		T(one_that_was_on_a_cpu_goes_back),
		T(one_that_runs_at_its_turn_goes_back_later),
		T(late_look_lasts_no_longer),
		T(one_that_was_put_off_goes_back),
		T(one_that_parks_often_is_not_soon_believed),
		T(one_that_only_a_thread_knew_is_read_once),
		T(one_that_only_a_thread_knew_goes_back),
		T(one_that_has_no_turn_yet_is_told),
		T(first_looks_come_one_by_one),
		WITHOUT_COUNTER(ticks_of_a_round_are_alike),
		WITHOUT_COUNTER(rounds_end_while_the_table_grows),
		WITHOUT_COUNTER(one_that_was_on_a_cpu_goes_back),
		WITHOUT_COUNTER(one_that_runs_at_its_turn_goes_back_later),
		WITHOUT_COUNTER(late_look_lasts_no_longer),
		WITHOUT_COUNTER(one_that_was_put_off_goes_back),
		WITHOUT_COUNTER(one_that_only_a_thread_knew_goes_back),
		WITHOUT_COUNTER(one_that_has_no_turn_yet_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
