/*
 * unwind_walk.c: walks along one stack: sizes of frames by the exact pc, kinds of pcs, and every
 * way in which a walk can end short. A stack is written word by word; what lies beyond what the
 * walk may look at would give another answer.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fake/walk_fake.h"

/* leaf <- mid (16 bytes) <- big (32 bytes) <- goexit */
static void build_plain(struct walk_fake *w)
{
	walk_start_g(w, WALK_LEAF, 8, 10, PC_EXACT);
	walk_put_g(w, 10, WALK_MID, 20);
	walk_put_g(w, 13, WALK_BIG, 20);
	walk_put_g(w, 18, "runtime.goexit", 1);
}

static void test_plain(void **state)
{
	struct walk_fake w;

	(void)state;
	walk_setup(&w);
	build_plain(&w);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 4);
	walk_frame(&w, 0, WALK_LEAF, 8, PC_EXACT);
	walk_frame(&w, 1, WALK_MID, 20, PC_RETURN);
	walk_frame(&w, 2, WALK_BIG, 20, PC_RETURN);
	walk_frame(&w, 3, "runtime.goexit", 1, PC_RETURN);
	walk_teardown(&w);
}

/* Stopped in the prologue, at the first byte with a frame, and at the last one without it again. */
static void test_exact_pc_decides(void **state)
{
	static const struct { uint32_t pc, word; } at[] = { { 0, 13 }, { 3, 13 }, { 4, 11 }, { 59, 11 }, { 60, 13 } };
	struct walk_fake w;

	(void)state;
	walk_setup(&w);
	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++) {
		memset(w.g, 0, sizeof(w.g));
		walk_start_g(&w, WALK_MID, at[i].pc, at[i].word, PC_EXACT);
		walk_put_g(&w, 13, "runtime.goexit", 1);
		walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 2);
	}
	/* A return address that is the last byte of a range: one less would give the other depth. */
	memset(w.g, 0, sizeof(w.g));
	walk_start_g(&w, WALK_LEAF, 0, 10, PC_EXACT);
	walk_put_g(&w, 10, WALK_MID, 60);
	walk_put_g(&w, 11, "runtime.goexit", 1);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 3);
	walk_teardown(&w);
}

static void test_injected(void **state)
{
	static const char *const injected[] = { "runtime.sigpanic", "runtime.asyncPreempt", "runtime.debugCallV2" };
	static const uint32_t words[] = { 2, 4, 2 };
	struct walk_fake w;

	(void)state;
	walk_setup(&w);
	for (size_t i = 0; i < 3; i++) {
		memset(w.g, 0, sizeof(w.g));
		walk_start_g(&w, injected[i], 20, 10, PC_RETURN);
		walk_put_g(&w, 10 + words[i], WALK_MID, 4);
		walk_put_g(&w, 10 + words[i] + 3, WALK_LEAF, 9);
		walk_put_g(&w, 10 + words[i] + 4, "runtime.goexit", 1);
		walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 4);
		walk_frame(&w, 1, WALK_MID, 4, PC_INJECTED);
		walk_frame(&w, 2, WALK_LEAF, 9, PC_RETURN);
	}
	walk_teardown(&w);
}

/* A goroutine that has not run: its pc is the entry, its caller goexit. */
static void test_never_ran(void **state)
{
	const struct pc_frame f = { .pc = 100, .kind = PC_RETURN };
	struct walk_fake w;

	(void)state;
	walk_setup(&w);
	walk_start_g(&w, WALK_BIG, 0, 62, PC_RETURN);
	walk_put_g(&w, 62, "runtime.goexit", 1);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 2);
	assert_int_equal(pc_frame_lookup(&w.out[0], walk_pc(&w, WALK_BIG, 0)), walk_pc(&w, WALK_BIG, 0));
	assert_int_equal(pc_frame_lookup(&f, 99), 99);
	assert_int_equal(pc_frame_lookup(&(struct pc_frame){ 100, PC_EXACT }, 50), 100);
	assert_int_equal(pc_frame_lookup(&(struct pc_frame){ 100, PC_INJECTED }, 50), 100);
	walk_teardown(&w);
}

static void test_depth(void **state)
{
	struct walk_fake w;

	(void)state;
	walk_setup(&w);
	build_plain(&w);
	walk_expect(&w, 4, UNWIND_COMPLETE, 4);
	/* Both ends, and between them how many are missing. */
	walk_expect(&w, 3, UNWIND_GAP, 3);
	walk_frame(&w, 0, WALK_LEAF, 8, PC_EXACT);
	assert_int_equal(w.out[1].kind, PC_GAP);
	assert_int_equal(pc_gap_frames(&w.out[1]), 2);
	walk_frame(&w, 2, "runtime.goexit", 1, PC_RETURN);
	/* No room for two ends. */
	walk_expect(&w, 2, UNWIND_DEPTH, 2);
	walk_frame(&w, 1, WALK_MID, 20, PC_RETURN);
	walk_expect(&w, 1, UNWIND_DEPTH, 1);
	walk_expect(&w, 0, UNWIND_DEPTH, 0);
	/* The far end was not copied. */
	w.views[0].len = 8 * 18;
	walk_expect(&w, 3, UNWIND_NO_MEMORY, 3);
	walk_teardown(&w);
}

/* Frames that are left out to make room change nothing about how the walk goes on. */
static void test_depth_of_switches(void **state)
{
	struct walk_fake w;

	(void)state;
	walk_setup(&w);
	walk_start_m(&w, WALK_BIG, 20, 10, PC_EXACT);
	for (uint32_t i = 0; i < 4; i++)
		walk_put_m(&w, 14 + 3 * i, WALK_MID, 20);
	walk_put_m(&w, 26, "runtime.schedule", 20);
	walk_put_m(&w, 29, "runtime.park_m", 20);
	walk_put_m(&w, 32, "runtime.mcall", 8);
	walk_left_at(&w, WALK_LEAF, 12, 30);
	walk_put_g(&w, 30, "runtime.goexit", 1);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 8);
	walk_expect(&w, 3, UNWIND_GAP, 3);
	walk_frame(&w, 2, "runtime.mcall", 8, PC_RETURN);
	walk_teardown(&w);
}

/* Bytes that come only when the walk asks for them. */
struct source {
	struct walk_fake *w;
	gaddr_t last, end;
	uint32_t words, calls;
};

static bool next_words(void *ctx, gaddr_t addr, struct mem_view *ret)
{
	struct source *s = ctx;
	uint32_t at = (uint32_t)((addr - WALK_G_LO) / 8);

	s->calls++;
	assert_true(addr >= s->last);
	s->last = addr;
	if (addr >= s->end)
		return false;
	*ret = (struct mem_view){ .low = addr, .len = 8 * s->words, .bytes = (const uint8_t *)&s->w->g[at] };
	return true;
}

static void test_more_bytes(void **state)
{
	for (uint32_t words = 1; words < 12; words++) {
		struct walk_fake w;
		struct source s = { .w = &w, .words = words, .end = walk_g(WALK_WORDS) };
		const struct unwind_memory mem = { .more = next_words, .ctx = &s };
		size_t n;

		(void)state;
		walk_setup(&w);
		build_plain(&w);
		n = unwind(go_fake_runtime(w.go), &w.start, &mem, w.out, WALK_OUT, &w.end);
		assert_int_equal(n, 4);
		assert_int_equal(w.end, UNWIND_COMPLETE);
		assert_in_range(s.calls, words > 8 ? 1 : 2, 3);
		s = (struct source){ .w = &w, .words = words, .end = walk_g(18) };
		n = unwind(go_fake_runtime(w.go), &w.start, &mem, w.out, WALK_OUT, &w.end);
		if (words < 6) {
			assert_int_equal(n, 3);
			assert_int_equal(w.end, UNWIND_NO_MEMORY);
		}
		/* Nothing is asked for of a stack whose end is not known. */
		s.calls = 0;
		w.start.at.lo = w.start.at.hi = 0;
		unwind(go_fake_runtime(w.go), &w.start, &mem, w.out, WALK_OUT, &w.end);
		assert_int_equal(w.end, UNWIND_NO_MEMORY);
		assert_int_equal(s.calls, 0);
		walk_teardown(&w);
	}
}

static void test_memory_ends(void **state)
{
	struct walk_fake w;

	(void)state;
	walk_setup(&w);
	build_plain(&w);
	w.views[0].len = 8 * 19 - 1;		/* one byte of the last return address is missing */
	walk_expect(&w, WALK_OUT, UNWIND_NO_MEMORY, 3);
	w.views[0].len = 8 * 19;
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 4);
	/* The same bytes as two views that meet between words. */
	w.views[0].len = 8 * 12;
	w.views[1] = (struct mem_view){ walk_g(12), 8 * 20, (const uint8_t *)&w.g[12] };
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 4);
	w.n_views = 0;
	walk_expect(&w, WALK_OUT, UNWIND_NO_MEMORY, 1);
	walk_teardown(&w);
}

static void test_bad_return(void **state)
{
	static const struct { uint64_t pc; enum unwind_end end; size_t n; } bad[] = {
		{ 0, UNWIND_NO_FUNCTION, 1 },
		{ 0xfff, UNWIND_NO_FUNCTION, 1 },
		{ UINT64_C(0x0000800000000000), UNWIND_NO_FUNCTION, 1 },
		{ UINT64_MAX, UNWIND_NO_FUNCTION, 1 },
		{ WALK_G_LO + 64, UNWIND_NO_FUNCTION, 1 },	/* a pointer into the stack is no code */
		{ UINT64_C(0x7f1234567890), UNWIND_NATIVE, 2 },
	};
	struct walk_fake w;

	(void)state;
	walk_setup(&w);
	walk_start_g(&w, WALK_LEAF, 8, 10, PC_EXACT);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		w.g[10] = bad[i].pc;
		walk_expect(&w, WALK_OUT, bad[i].end, bad[i].n);
	}
	assert_int_equal(w.out[1].pc, UINT64_C(0x7f1234567890) - 1);	/* a return address: the call is before it */
	assert_int_equal(w.out[1].kind, PC_NATIVE);
	walk_teardown(&w);
}

static void test_no_delta(void **state)
{
	struct walk_fake w;

	(void)state;
	walk_setup(&w);
	build_plain(&w);
	walk_put_g(&w, 13, "app.external", 4);
	walk_expect(&w, WALK_OUT, UNWIND_NO_DELTA, 3);
	walk_frame(&w, 2, "app.external", 4, PC_RETURN);
	walk_put_g(&w, 13, "app.hole", 30);
	walk_expect(&w, WALK_OUT, UNWIND_NO_DELTA, 3);
	walk_teardown(&w);
}

static void test_bad_sp(void **state)
{
	struct walk_fake w;

	(void)state;
	walk_setup(&w);
	build_plain(&w);
	w.start.at.sp += 4;
	walk_expect(&w, WALK_OUT, UNWIND_BAD_SP, 1);
	build_plain(&w);
	w.start.at.sp = WALK_G_LO - 8;
	walk_expect(&w, WALK_OUT, UNWIND_BAD_SP, 1);
	w.start.at.sp = w.start.at.hi;
	walk_expect(&w, WALK_OUT, UNWIND_BAD_SP, 1);
	w.start.at.sp = UINT64_MAX - 7;
	walk_expect(&w, WALK_OUT, UNWIND_BAD_SP, 1);
	/* The last frame ends above the stack. */
	build_plain(&w);
	w.start.at.hi = walk_g(18);
	walk_expect(&w, WALK_OUT, UNWIND_BAD_SP, 3);
	w.start.at.hi = walk_g(19);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 4);
	walk_teardown(&w);
}

static void test_spwrite(void **state)
{
	struct walk_fake w;

	(void)state;
	walk_setup(&w);
	walk_put_g(&w, 10, "runtime.goexit", 1);
	walk_start_g(&w, "app.freesp", 8, 10, PC_EXACT);
	walk_expect(&w, WALK_OUT, UNWIND_SPWRITE, 1);
	/* It saved this place itself: then it has not moved sp yet. */
	walk_start_g(&w, "app.freesp", 8, 10, PC_RETURN);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 2);
	/* In the middle of a stack nobody knows. */
	walk_start_g(&w, WALK_LEAF, 8, 9, PC_RETURN);
	walk_put_g(&w, 9, "app.freesp", 8);
	walk_expect(&w, WALK_OUT, UNWIND_SPWRITE, 2);
	/* cgocallback's frame holds although it moves sp. */
	walk_put_g(&w, 9, "runtime.cgocallback", 20);
	walk_put_g(&w, 12, "runtime.goexit", 1);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 3);
	walk_teardown(&w);
}

static void test_nowhere(void **state)
{
	struct walk_fake w;

	(void)state;
	walk_setup(&w);
	walk_expect(&w, WALK_OUT, UNWIND_NOWHERE, 0);
	w.start.native_first = true;
	w.start.native_pc = 0x1234;
	walk_expect(&w, WALK_OUT, UNWIND_NATIVE, 1);
	assert_int_equal(w.out[0].pc, 0x1234);
	assert_int_equal(w.out[0].kind, PC_NATIVE);
	walk_teardown(&w);
}

static uint64_t next_random(uint64_t *seed)
{
	*seed += UINT64_C(0x9e3779b97f4a7c15);
	return (*seed ^ *seed >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 7;
}

/* Whatever stands on the stack, a walk ends in bounds and every frame but natives is a function. */
static void test_garbage(void **state)
{
	static const char *const names[] = { WALK_LEAF, WALK_MID, WALK_BIG, "runtime.systemstack", "runtime.sigtramp",
					     "runtime.morestack", "runtime.sigpanic", "app.freesp", "app.hole" };
	uint64_t seed = 1;
	struct walk_fake w;
	struct go_func f;

	(void)state;
	walk_setup(&w);
	for (int round = 0; round < 20000; round++) {
		const struct unwind_memory mem = { .views = w.views, .n = w.n_views };
		size_t cap = next_random(&seed) % WALK_OUT;

		for (uint32_t i = 0; i < WALK_WORDS; i++) {
			uint64_t r = next_random(&seed);

			walk_put_g(&w, i, names[r % 9], (uint32_t)(r >> 8) % 64);
			walk_put_m(&w, i, names[(r >> 16) % 9], (uint32_t)(r >> 24) % 64);
			if (r >> 32 & 1)
				w.g[i] = walk_g((uint32_t)(r >> 33) % WALK_WORDS);
		}
		walk_start_m(&w, names[next_random(&seed) % 9], 8, (uint32_t)next_random(&seed) % WALK_WORDS, PC_EXACT);
		walk_left_at(&w, names[next_random(&seed) % 9], 8, (uint32_t)next_random(&seed) % WALK_WORDS);
		w.n = unwind(go_fake_runtime(w.go), &w.start, &mem, w.out, cap, &w.end);
		assert_true(w.n <= cap && w.end < UNWIND_END_COUNT);
		for (size_t i = 0; i < w.n; i++)
			assert_true(w.out[i].kind == PC_NATIVE || w.out[i].kind == PC_GAP || go_func_find(go_fake_runtime(w.go), w.out[i].pc, &f));
	}
	walk_teardown(&w);
}

static void test_end_names(void **state)
{
	(void)state;
	for (int i = 0; i < UNWIND_END_COUNT; i++)
		assert_true(strlen(unwind_end_name((enum unwind_end)i)) > 0);
	assert_string_equal(unwind_end_name(UNWIND_END_COUNT), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_exact_pc_decides),
		cmocka_unit_test(test_injected),
		cmocka_unit_test(test_never_ran),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_depth_of_switches),
		cmocka_unit_test(test_more_bytes),
		cmocka_unit_test(test_memory_ends),
		cmocka_unit_test(test_bad_return),
		cmocka_unit_test(test_no_delta),
		cmocka_unit_test(test_bad_sp),
		cmocka_unit_test(test_spwrite),
		cmocka_unit_test(test_nowhere),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_end_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
