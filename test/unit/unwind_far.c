/*
 * unwind_far.c: a stack whose middle was not copied. What is told of its far end must be the end of
 * the true stack, whatever else lies in the bytes: random words, pointers, and frames of calls that
 * are over.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "fake/go_fake.h"
#include "unwind/unwind.h"

enum {
	LO = 0x7000000, WORDS = 8192, HI = LO + 8 * WORDS,
	NEAR = 4096, FAR = 8192,		/* bytes copied of both ends */
	FRAMES = 4096, OUT = 512,
	SMALL = 16, BIG = 256, HUGE = 7680,	/* bytes of frame, the saved frame pointer included */
	CALL_SMALL = 20, CALL_BIG = 30, CALL_ANY = 40, CALL_HUGE = 50,
};

#define CALLS .calls = {						\
	{ .end = CALL_SMALL, .to = "app.small" },			\
	{ .end = CALL_BIG, .to = "app.big" },				\
	{ .end = CALL_ANY, .kind = GO_FAKE_BY_REGISTER },		\
	{ .end = CALL_HUGE, .to = "app.huge" },				\
}
#define FRAME(bytes) .size = 64, .sp = { { 4, 0 }, { 60, bytes }, { 64, 0 } }

static const struct go_fake_func functions[] = {
	{ .name = "app.small", FRAME(SMALL), CALLS },
	{ .name = "app.big", FRAME(BIG), CALLS },
	{ .name = "app.huge", FRAME(HUGE), CALLS },
	{ .name = "runtime.goexit", .flags = GO_FUNC_TOPFRAME | GO_FUNC_ASM, .size = 32, .sp = { { 32, 0 } } },
};

static const struct shape {
	const char *name;
	uint32_t frame, called_at;	/* where its direct callers go on */
} shapes[] = { { "app.small", SMALL, CALL_SMALL }, { "app.big", BIG, CALL_BIG }, { "app.huge", HUGE, CALL_HUGE } };

struct world {
	struct go_fake *go;
	uint64_t stack[WORDS];
	gaddr_t sp, fp;			/* of the frame that was pushed last */
	const char *last;		/* its function */
	gaddr_t pcs[FRAMES];		/* root first: where each goes on */
	size_t n;
	struct pc_frame out[OUT];
	size_t got;
	enum unwind_end end;
	uint64_t seed;
};

static uint64_t next_random(struct world *w)
{
	w->seed += UINT64_C(0x9e3779b97f4a7c15);
	return (w->seed ^ w->seed >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 7;
}

static void put(struct world *w, gaddr_t at, uint64_t value)
{
	assert_true(at >= LO && at < HI && at % 8 == 0);
	w->stack[(at - LO) / 8] = value;
}

static int setup(void **state)
{
	struct world *w = test_calloc(1, sizeof(*w));

	w->go = go_fake_create(functions, sizeof(functions) / sizeof(functions[0]), 26);
	w->seed = 1;
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	go_fake_destroy(w->go);
	test_free(w);
	return 0;
}

/* An empty stack: nothing but goexit at its end. */
static void begin(struct world *w)
{
	w->sp = HI - 32;
	w->fp = 0;
	w->last = NULL;
	w->n = 0;
	memset(w->stack, 0, sizeof(w->stack));
}

/* The last frame calls this function, by its name or through a register. */
static void call(struct world *w, const struct shape *s, bool by_register)
{
	gaddr_t pc = go_fake_pc(w->go, "runtime.goexit", 1);

	if (w->last)
		pc = go_fake_pc(w->go, w->last, by_register ? (uint32_t)CALL_ANY : s->called_at);
	put(w, w->sp - 8, pc);
	put(w, w->sp - 16, w->fp);
	w->fp = w->sp - 16;
	w->sp -= 8 + s->frame;
	w->last = s->name;
	w->pcs[w->n++] = pc;
}

static void walk(struct world *w)
{
	const struct mem_view views[] = {
		{ .low = w->sp, .len = NEAR, .bytes = (const uint8_t *)&w->stack[(w->sp - LO) / 8] },
		{ .low = HI - FAR, .len = FAR, .bytes = (const uint8_t *)&w->stack[WORDS - FAR / 8] },
	};
	const struct unwind_memory mem = { .views = views, .n = 2 };
	const struct unwind_start start = {
		.at = { .pc = go_fake_pc(w->go, w->last, 10), .sp = w->sp, .kind = PC_EXACT, .lo = LO, .hi = HI },
	};

	assert_true(w->sp + NEAR < HI - FAR);
	w->pcs[w->n++] = start.at.pc;
	w->got = unwind(go_fake_runtime(w->go), &start, &mem, w->out, OUT, &w->end);
}

static size_t gap_at(const struct world *w)
{
	size_t at = 0;

	while (at < w->got && w->out[at].kind != PC_GAP)
		at++;
	return at;
}

/* Both ends are those of the true stack; returns how many frames there are behind the gap. */
static size_t assert_two_ends(const struct world *w)
{
	size_t gap = gap_at(w), far = w->got - gap - 1;

	assert_int_equal(w->end, UNWIND_GAP);
	assert_true(gap > 0 && gap < w->got && far <= w->n);
	for (size_t i = 0; i < gap; i++)
		assert_int_equal(w->out[i].pc, w->pcs[w->n - 1 - i]);
	for (size_t i = 0; i < far; i++) {
		assert_int_equal(w->out[w->got - 1 - i].kind, PC_RETURN);
		assert_int_equal(w->out[w->got - 1 - i].pc, w->pcs[i]);
	}
	assert_true(pc_gap_bytes(&w->out[gap]) > 0 && pc_gap_bytes(&w->out[gap]) < HI - LO);
	return far;
}

/* Recursion by direct calls: all that was copied of the far end but its first frame. */
static void far_end_of_a_recursion(void **state)
{
	struct world *w = *state;
	size_t far;

	begin(w);
	while (w->sp > LO + 512)
		call(w, &shapes[0], false);
	walk(w);
	far = assert_two_ends(w);
	assert_in_range(far, (FAR - 32) / (SMALL + 8) - 2, (FAR - 32) / (SMALL + 8) + 1);
	begin(w);
	while (w->sp > LO + 512)
		call(w, &shapes[1], false);
	walk(w);
	far = assert_two_ends(w);
	assert_in_range(far, (FAR - 32) / (BIG + 8) - 2, (FAR - 32) / (BIG + 8) + 1);
}

/* What may lie in words that a frame has not written: anything that was there before. */
static void fill_with_garbage(struct world *w)
{
	for (size_t i = 0; i < WORDS; i++) {
		uint64_t r = next_random(w), kind = r % 4;
		const struct shape *s = &shapes[r >> 8 & 1];

		if (kind == 0)
			w->stack[i] = LO + r % (8 * WORDS) / 8 * 8;
		else if (kind == 1)
			w->stack[i] = LO + 8 * i + 8 + (r >> 16) % 64 * 8;	/* a near place further up */
		else if (kind == 2)
			w->stack[i] = go_fake_pc(w->go, s->name, (uint32_t)(20 + (r >> 16) % 4 * 10));
		else
			w->stack[i] = r;
	}
}

static void random_stacks(void **state)
{
	struct world *w = *state;
	size_t told = 0;

	for (int round = 0; round < 3000; round++) {
		begin(w);
		fill_with_garbage(w);
		while (w->sp > LO + 1024)
			call(w, &shapes[next_random(w) % 8 == 0], next_random(w) % 8 == 0);
		walk(w);
		if (w->end == UNWIND_GAP)
			told += assert_two_ends(w) > 0;
	}
	assert_true(told > 2900);
}

/* Frames of a call that is over, in a frame large enough to hide where the true ones begin. */
static void build_stale(struct world *w, bool by_register, uint32_t before)
{
	gaddr_t root_sp, root_fp, hole;

	begin(w);
	/* What comes first on the stack puts the large frame where it is wanted. */
	for (uint32_t i = 0; i <= before; i++)
		call(w, &shapes[0], false);
	root_sp = w->sp;
	root_fp = w->fp;
	/* The call that is over; its frames stay where they are. */
	call(w, &shapes[0], by_register);
	for (int i = 0; i < 50; i++)
		call(w, &shapes[0], false);
	w->n -= 51;
	w->sp = root_sp;
	w->fp = root_fp;
	w->last = "app.small";
	call(w, &shapes[2], by_register);
	hole = w->sp;
	assert_true(hole < HI - FAR);
	while (w->sp > LO + 512)
		call(w, &shapes[0], false);
	walk(w);
}

/* The large frame reaches below the copied end; the frames below it lie in either half of that. */
static void frames_of_a_call_that_is_over(void **state)
{
	static const uint32_t before[] = { (FAR - 7400) / (SMALL + 8), (FAR - 1600) / (SMALL + 8) };
	struct world *w = *state;

	for (size_t i = 0; i < 2; i++) {
		build_stale(w, false, before[i]);
		assert_in_range(assert_two_ends(w), before[i] - 3, before[i] + 2);
	}
	/* Through a pointer nothing tells the two calls apart: not further than to that place. */
	build_stale(w, true, before[1]);
	assert_in_range(assert_two_ends(w), before[1] - 3, before[1] + 2);
}

/* A chain of frame pointers with a hole in it, as C code leaves one, is followed from above it only. */
static void broken_chain(void **state)
{
	struct world *w = *state;
	size_t far;

	begin(w);
	for (int i = 0; i < 100; i++)
		call(w, &shapes[0], false);
	w->fp = 0x7f0012345678;
	while (w->sp > LO + 512)
		call(w, &shapes[0], false);
	walk(w);
	far = assert_two_ends(w);
	assert_in_range(far, 90, 101);
}

static void nothing_to_go_by(void **state)
{
	struct world *w = *state;

	/* Frames, but no chain. */
	begin(w);
	while (w->sp > LO + 512) {
		w->fp = 0;
		call(w, &shapes[0], false);
	}
	walk(w);
	assert_int_equal(w->end, UNWIND_NO_MEMORY);
	assert_int_equal(gap_at(w), w->got);
	/* A chain that ends in no goexit. */
	begin(w);
	while (w->sp > LO + 512)
		call(w, &shapes[0], false);
	put(w, HI - 32 - 8, go_fake_pc(w->go, "app.small", CALL_SMALL));
	walk(w);
	assert_int_equal(w->end, UNWIND_NO_MEMORY);
	assert_int_equal(gap_at(w), w->got);
}

/* The first function of a goroutine has saved no frame pointer. */
static void chain_without_an_end(void **state)
{
	struct world *w = *state;

	begin(w);
	w->fp = LO + 64;
	while (w->sp > LO + 512)
		call(w, &shapes[0], false);
	walk(w);
	assert_int_equal(w->end, UNWIND_NO_MEMORY);
	assert_int_equal(gap_at(w), w->got);
}

/* A chain that leads in a circle, or through every word: the search ends. */
static void hostile_chains(void **state)
{
	struct world *w = *state;

	begin(w);
	while (w->sp > LO + 512)
		call(w, &shapes[0], false);
	for (gaddr_t at = HI - FAR; at < HI - 16; at += 16) {
		put(w, at, at + 16);
		put(w, at + 8, go_fake_pc(w->go, "app.small", CALL_ANY));
	}
	walk(w);
	assert_int_equal(w->end, UNWIND_NO_MEMORY);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(far_end_of_a_recursion),
		T(random_stacks),
		T(frames_of_a_call_that_is_over),
		T(broken_chain),
		T(nothing_to_go_by),
		T(chain_without_an_end),
		T(hostile_chains),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
