/*
 * turns_world.h: a sampler over a handmade program with forty goroutines, tick by tick, for tests of whose turn it is.
 */
#ifndef GOPROF_TEST_TURNS_WORLD_H
#define GOPROF_TEST_TURNS_WORLD_H

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
	int dies, reborn;		/* goroutines that do so before the captures come; 0: none */
	uint32_t stacks_read[MOST];
};

static inline gaddr_t g_at(int i)
{
	return GS + (gaddr_t)i * G_STEP;
}

static inline gaddr_t sp_of(int i)
{
	return STACKS + (gaddr_t)(i + 1) * STACK_SIZE - 256;
}

static inline void put(struct scene *x, gaddr_t at, enum go_field f, uint64_t value)
{
	target_fake_poke(x->target, at + x->layout.f[f].offset, &value, x->layout.f[f].size);
}

/* It has left its thread once more, and waits. */
static inline void park(struct scene *x, int i)
{
	static uint8_t parks;

	put(x, g_at(i), GO_G_TRACKINGSEQ, ++parks);
	put(x, g_at(i), GO_G_ATOMICSTATUS, G_WAITING);
	put(x, g_at(i), GO_G_M, 0);
	put(x, M, GO_M_CURG, 0);
}

static inline void run(struct scene *x, int i)
{
	put(x, g_at(i), GO_G_ATOMICSTATUS, G_RUNNING);
	put(x, g_at(i), GO_G_M, M);
	put(x, M, GO_M_CURG, g_at(i));
}

static inline void make(struct scene *x, int i)
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

static inline void count(struct scene *x, uint32_t n)
{
	target_fake_poke_u64(x->target, LEN, n);
}

/* ---- a source of looks ---- */

static inline void looks_begin(struct look_source *ls, uint32_t tick, bool late)
{
	(void)ls;
	(void)tick;
	(void)late;
}

static inline struct error *give(struct scene *x, int i, bool late, look_done *done, void *ctx)
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

static inline struct error *looks_late(struct look_source *ls, look_done *done, void *ctx)
{
	struct scene *x = (struct scene *)ls;

	return give(x, x->late, true, done, ctx);
}

static inline struct error *looks_collect(struct look_source *ls, uint64_t deadline, look_done *done, void *ctx)
{
	struct scene *x = (struct scene *)ls;

	(void)deadline;
	if (x->dies)
		put(x, g_at(x->dies), GO_G_ATOMICSTATUS, G_DEAD);
	if (x->reborn)
		put(x, g_at(x->reborn), GO_G_GOID, 10000 + x->s.tick);
	x->dies = x->reborn = 0;
	return give(x, x->on_cpu, false, done, ctx);
}

static inline bool looks_ran(const struct look_source *ls)
{
	(void)ls;
	return true;
}

static inline void looks_destroy(struct look_source *ls)
{
	(void)ls;
}

/* ---- */

static inline _Bool sleep_until(const struct clock *c, uint64_t deadline)
{
	struct world *w = c->ctx;

	world_pass(w, deadline - w->mono);
	return true;
}

static inline void count_stack_reads(void *ctx, struct target *t, const struct span *s)
{
	struct scene *x = ctx;
	gaddr_t i = (s->addr - STACKS) / STACK_SIZE;

	(void)t;
	if (s->addr >= STACKS && i < MOST && s->addr == sp_of((int)i))
		x->stacks_read[i]++;
}

static inline int begin(void **state, uint32_t caps)
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

static inline int setup(void **state)
{
	return begin(state, GO_CAP_TRACKINGSEQ);
}

/* Of a runtime that does not count parks: who is where it was is told by stacks (stand_in.c). */
static inline int setup_without_counter(void **state)
{
	return begin(state, 0);
}

static inline int teardown(void **state)
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

static inline void sample(struct scene *x, int on_cpu)
{
	enum sampler_event event;

	x->s.budget = x->budget;
	x->on_cpu = on_cpu;
	assert_null(sampler_tick(&x->s, &event));
	assert_int_equal(event, SAMPLER_TICKED);
	x->late = -1;
}

static inline struct g_slot *slot_of(struct scene *x, int i)
{
	return gs_slot(&x->s.gs, g_at(i));
}

static inline bool has_turn(struct scene *x, int i)
{
	return slot_of(x, i)->turn == tick_mark(x->s.tick);
}

static inline struct window *close_window(struct scene *x)
{
	struct window *w;

	assert_null(profile_close_window(x->s.profile, x->world.mono + 1, &w));
	return w;
}

/* Ticks at which the goroutine was seen at the place where it waits, and elsewhere. */
static inline void ticks_of(struct scene *x, const struct window *w, int i, uint32_t *waits, uint32_t *elsewhere)
{
	profile_id stack = slot_of(x, i)->stack;

	*waits = *elsewhere = 0;
	for (uint32_t k = 0; k < w->n_tracks; k++)
		for (uint32_t at = 0; w->tracks[k].info.key == 100 + (uint64_t)i && at < w->tracks[k].n; at++) {
			uint32_t n = w->tracks[k].v[at].end_tick - w->tracks[k].v[at].first_tick;

			*(w->tracks[k].v[at].stack == stack ? waits : elsewhere) += n;
		}
}

static inline void assert_elsewhere(struct scene *x, int i, uint32_t want)
{
	struct window *w = close_window(x);
	uint32_t waits, elsewhere;

	ticks_of(x, w, i, &waits, &elsewhere);
	assert_int_equal(elsewhere, want);
	assert_true(waits > 0);
	window_free(w);
}

/* A round over all, so that each has been seen at its place. */
static inline void see_all(struct scene *x)
{
	for (int i = 0; i < N / 8; i++)
		sample(x, -1);
	assert_int_equal(x->s.alive, N);
	x->budget.headers = 0;	/* from now on it is nobody's turn */
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define WITHOUT_COUNTER(f) { #f " without counter", f, setup_without_counter, teardown, NULL }

#endif
