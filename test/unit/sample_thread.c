/*
 * sample_thread.c: what becomes of a thread that is on a CPU at each tick, but now as itself (scheduler,
 * collector, C code) and now for a goroutine: each tick's look has its place under one key only.
 */
#include "fake/go_fake.h"
#include "fake/target_fake.h"
#include "go/go_impl.h"
#include "profile_world.h"
#include "sampler_parts.h"

enum {
	MINOR = 26, TID = 1000, DEPTH = 16,
	M = 0x100000, G = 0x110000, G0 = 0x120000, STACK = 0x200000, STACK_SIZE = 8192, SP = STACK + STACK_SIZE - 256,
	GOID = 18,
};

static const struct go_fake_func functions[] = {
	{ .name = "main.work", .size = 64, .sp = { { 64, 32 } } },
	{ .name = "runtime.goexit", .size = 64, .flags = GO_FUNC_TOPFRAME, .sp = { { 64, 0 } } },
};

struct scene {
	struct world world;
	struct go_fake *go;
	struct target *target;
	struct go_layout layout;
	struct tracer *tracer;
	struct sampler s;
	struct thread *thread;
	struct capture c;
	bool sampled;		/* looks are of some time since the last tick */
};

static void put(struct scene *x, gaddr_t at, enum go_field f, uint64_t value)
{
	target_fake_poke(x->target, at + x->layout.f[f].offset, &value, x->layout.f[f].size);
}

static int setup(void **state)
{
	struct scene *x = test_calloc(1, sizeof(*x));
	struct sampler *s = &x->s;

	world_init(&x->world);
	x->go = go_fake_create(functions, sizeof(functions) / sizeof(functions[0]), MINOR);
	assert_null(target_fake_create(&x->target));
	assert_null(tracer_create(&x->tracer));
	assert_true(go_layout_row(MINOR, &x->layout));
	target_fake_add(x->target, M, NULL, 4096);
	target_fake_add(x->target, G, NULL, 4096);
	target_fake_add(x->target, G0, NULL, 4096);
	target_fake_add(x->target, STACK, NULL, STACK_SIZE);
	target_fake_add_tid(x->target, TID, TID);
	target_fake_task(x->target, TID, "1000 0 1\n", "running\n");
	put(x, M, GO_M_PROCID, TID);
	put(x, M, GO_M_G0, G0);
	put(x, G, GO_G_M, M);
	put(x, G, GO_G_GOID, GOID);
	put(x, G, GO_G_ATOMICSTATUS, G_RUNNING);
	put(x, G, GO_G_STACK_LO, STACK);
	put(x, G, GO_G_STACK_HI, STACK + STACK_SIZE);
	put(x, G, GO_G_STARTPC, go_fake_pc(x->go, "main.work", 0));
	target_fake_poke_u64(x->target, SP + 32, go_fake_pc(x->go, "runtime.goexit", 1));
	s->reader = (struct reader){
		.target = x->target, .rt = go_fake_runtime(x->go), .layout = &x->layout, .clock = &x->world.clock,
		.g_span = g_span(&x->layout), .m_span = m_span(&x->layout), .goroutines = true,
	};
	sampler_parts_init(s, x->tracer, x->world.p, DEPTH);
	x->thread = threads_find(&s->threads, TID);
	assert_non_null(x->thread);
	x->thread->m = M;
	x->thread->procid = TID;
	*state = x;
	return 0;
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

static void next_tick(struct scene *x)
{
	struct sampler *s = &x->s;

	s->tick++;
	world_pass(&x->world, TICK);
	s->t_tick = x->world.mono;
	assert_null(profile_tick(s->profile, s->t_tick));
}

/* One tick at which the thread was held, running this goroutine (0: none); `known`: its m is. */
static void look_at(struct scene *x, gaddr_t curg, bool known)
{
	const struct capture_request rq = { .hint = { [HINT_M] = known ? M : 0, [HINT_PROCID] = TID } };
	struct sampler *s = &x->s;
	struct look look = { .thread = x->thread, .capture = &x->c, .oncpu = true, .sampled = x->sampled };

	next_tick(x);
	put(x, M, GO_M_CURG, curg);
	memset(&x->c, 0, sizeof(x->c));
	x->c.tid = TID;
	x->c.t_arrived = x->c.t_resumed = s->t_tick + 1000;
	x->c.regs.sp = SP;
	x->c.regs.pc = go_fake_pc(x->go, "main.work", 20);
	hold_hook(&s->plan, x->target, &rq, &x->c);
	assert_null(see_thread(s, &look));
	end_thread_tracks(s);
}

/* One tick without a look at the thread, which is on a CPU and seems to run this goroutine. */
static void go_on(struct scene *x, gaddr_t curg)
{
	struct look look = { .thread = x->thread, .g = curg };

	next_tick(x);
	assert_null(see_thread(&x->s, &look));
	end_thread_tracks(&x->s);
}

/* One tick whose look came from a sample of a thread that had gone on: registers, and a stack that is nobody's. */
static void look_late(struct scene *x)
{
	struct look look = { .thread = x->thread, .capture = &x->c, .oncpu = true, .moved = true };

	next_tick(x);
	memset(&x->c, 0, sizeof(x->c));
	x->c.tid = TID;
	x->c.t_arrived = x->c.t_resumed = x->s.t_tick + 1000;
	x->c.regs.sp = SP;
	x->c.regs.pc = go_fake_pc(x->go, "main.work", 20);
	assert_null(see_thread(&x->s, &look));
	end_thread_tracks(&x->s);
}

/* The pass over all goroutines knows this one. */
static struct g_slot *list_goroutine(struct scene *x)
{
	struct gs *gs = &x->s.gs;

	gs->slots = calloc(1, sizeof(*gs->slots));
	assert_non_null(gs->slots);
	gs->n = gs->n_old = gs->cap = 1;
	gs->slots[0].addr = G;
	assert_ptr_equal(gs_slot(gs, G), gs->slots);
	return gs->slots;
}

/* Ticks that a key's intervals hold. */
static uint32_t ticks_of(const struct window *w, uint64_t key)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->n_tracks; i++)
		for (uint32_t k = 0; w->tracks[i].info.key == key && k < w->tracks[i].n; k++)
			n += w->tracks[i].v[k].end_tick - w->tracks[i].v[k].first_tick;
	return n;
}

static void assert_ticks(struct scene *x, uint32_t own, uint32_t goroutine)
{
	struct window *w;

	assert_null(profile_close_window(x->s.profile, x->world.mono + TICK, &w));
	assert_int_equal(ticks_of(w, PROFILE_THREAD_KEY + TID), own);
	assert_int_equal(ticks_of(w, GOID), goroutine);
	window_free(w);
}

static void thread_that_takes_up_a_goroutine_is_not_itself(void **state)
{
	struct scene *x = *state;

	look_at(x, 0, true);
	for (int i = 0; i < 5; i++)
		look_at(x, G, true);
	assert_ticks(x, 1, 5);
}

/* Its m was not known at the first look. */
static void thread_that_becomes_known_is_not_itself(void **state)
{
	struct scene *x = *state;

	look_at(x, 0, false);
	for (int i = 0; i < 5; i++)
		look_at(x, G, true);
	assert_ticks(x, 1, 5);
}

static void thread_that_stays_itself_goes_on(void **state)
{
	struct scene *x = *state;

	for (int i = 0; i < 5; i++)
		look_at(x, 0, true);
	assert_ticks(x, 5, 0);
}

/* Sampled by its own CPU time a thread has a look in most ticks, not in all. */
static void thread_without_a_look_goes_on(void **state)
{
	struct scene *x = *state;

	look_at(x, 0, true);
	for (int i = 0; i < 4; i++)
		go_on(x, 0);
	assert_ticks(x, 5, 0);
}

static void thread_that_runs_something_else_does_not(void **state)
{
	struct scene *x = *state;

	look_at(x, 0, true);
	for (int i = 0; i < 4; i++)
		go_on(x, G);
	assert_ticks(x, 1, 0);
}

/* Its goroutine needs no other reading in this tick; whoever runs there now is not taken for it. */
static void goroutine_without_a_look_goes_on(void **state)
{
	struct scene *x = *state;
	struct g_slot *slot = list_goroutine(x);

	look_at(x, G, true);
	assert_true(slot->captured && slot->captured_tick == x->s.tick);
	go_on(x, G);
	assert_int_equal(slot->captured_tick, x->s.tick);
	assert_int_equal(x->s.running.n, 2);
	go_on(x, 0);
	assert_int_not_equal(slot->captured_tick, x->s.tick);
	go_on(x, G);
	assert_int_equal(slot->captured_tick, x->s.tick);
	/* Seen off the CPU since: what it did there is over. */
	slot->captured = false;
	go_on(x, G);
	assert_int_not_equal(slot->captured_tick, x->s.tick);
	/* The struct is another's. */
	slot->captured = true;
	slot->goid = GOID + 1;
	go_on(x, G);
	assert_int_not_equal(slot->captured_tick, x->s.tick);
}

/* Known as Go's, but whose goroutine it ran is not: under its own key, and the next look takes it up again. */
static void thread_that_had_gone_on_is_itself(void **state)
{
	struct scene *x = *state;
	struct profile_track_info info;

	look_at(x, G, true);
	look_late(x);
	assert_true(profile_track_get(x->s.profile, PROFILE_THREAD_KEY + TID, &info));
	assert_string_equal(profile_string_get(x->s.profile, info.entry), "[thread]");
	assert_false(x->s.threads.m_pending);
	go_on(x, G);
	look_at(x, G, true);
	assert_ticks(x, 1, 4);
}

/* The pass of this tick wants the stack of a goroutine that a look has spoken for. */
static void drop_job(struct scene *x, uint32_t status)
{
	struct sampler *s = &x->s;

	if (!s->jobs)
		s->jobs = calloc(1, sizeof(*s->jobs));
	assert_non_null(s->jobs);
	s->jobs[0] = (struct stack_job){ .look = { .g = G, .goid = GOID, .status = status } };
	s->n_jobs = 1;
	drop_captured_jobs(s);
	assert_int_equal(s->n_jobs, 0);
}

/* It runs at this tick, and no look has told where. The stack that is told of it then. */
static profile_id run_unseen(struct scene *x)
{
	const struct stack_job job = { .look = { .g = G, .goid = GOID, .status = G_RUNNING } };
	const struct stack_result res = { .job = &job, .outcome = STACK_MOVED };
	struct window *w;
	profile_id ret = UINT32_MAX;

	next_tick(x);
	assert_null(see_stack(&x->s, &res));
	assert_null(profile_close_window(x->s.profile, x->world.mono + TICK, &w));
	for (uint32_t i = 0; i < w->n_tracks; i++)
		if (w->tracks[i].info.key == GOID)
			ret = w->tracks[i].v[w->tracks[i].n - 1].stack;
	window_free(w);
	return ret;
}

/*
 * A sample shown at a tick at which its goroutine waits takes that tick from where it waits; a tick at which
 * it runs without a sample gives it back. What was not taken is not given.
 */
static void a_tick_that_was_taken_is_given_back(void **state)
{
	struct scene *x = *state;
	struct g_slot *slot = list_goroutine(x);
	struct sampler *s = &x->s;

	must(intern_pseudo(&s->intern, "[running, not seen on a CPU]", &s->unseen_running));
	must(intern_pseudo(&s->intern, "waits", &slot->stack));
	x->sampled = true;
	look_at(x, G, true);
	drop_job(x, G_RUNNING);
	assert_int_equal(slot->swapped, 0);
	look_at(x, G, true);
	drop_job(x, G_WAITING);
	assert_int_equal(slot->swapped, 1);
	slot->known = true;
	go_on(x, G);
	assert_int_not_equal(slot->captured_tick, s->tick);	/* not before it is given back */
	assert_int_equal(run_unseen(x), slot->stack);
	assert_int_equal(slot->swapped, 0);
	assert_int_equal(run_unseen(x), s->unseen_running);
	/* A stop is of its tick: it takes nothing. */
	x->sampled = false;
	look_at(x, G, true);
	drop_job(x, G_WAITING);
	assert_int_equal(slot->swapped, 0);
	x->sampled = true;
	for (int i = 0; i < 100; i++) {
		look_at(x, G, true);
		drop_job(x, G_WAITING);
	}
	assert_true(slot->swapped > 1 && slot->swapped < 20);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(thread_that_takes_up_a_goroutine_is_not_itself),
		T(thread_that_becomes_known_is_not_itself),
		T(thread_that_stays_itself_goes_on),
		T(thread_without_a_look_goes_on),
		T(thread_that_runs_something_else_does_not),
		T(goroutine_without_a_look_goes_on),
		T(thread_that_had_gone_on_is_itself),
		T(a_tick_that_was_taken_is_given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
