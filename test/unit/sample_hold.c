/*
 * sample_hold.c: what is copied of a held thread's stacks: all of the goroutine's own, or its two
 * ends; the one that it left, when SP stands elsewhere; and on the signal stack the one that was
 * interrupted, from there on. Handmade memory, each word of which is its own address.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fake/target_fake.h"
#include "sample/sample_impl.h"

enum {
	MINOR = 26,
	M = 0x100000, G = 0x110000, G0 = 0x120000, GSIGNAL = 0x130000,
	STACK = 0x1000000, STACK_SIZE = 128 * 1024, STACK_HI = STACK + STACK_SIZE,
	SYSTEM = 0x2000000, SYSTEM_SIZE = 16 * 1024, SYSTEM_HI = SYSTEM + SYSTEM_SIZE,
	SIGNAL = 0x3000000, SIGNAL_SIZE = 32 * 1024, SIGNAL_HI = SIGNAL + SIGNAL_SIZE,
	CONTEXT = SIGNAL_HI - 3000 / 8 * 8,	/* where the kernel has put the interrupted registers */
	CONTEXT_STACK = 16, CONTEXT_SP = 160,
};

struct world {
	struct target *target;
	struct go_layout layout;
	struct hold_plan plan;
	struct capture c;
};

static void put(struct world *w, gaddr_t at, enum go_field f, uint64_t value)
{
	target_fake_poke(w->target, at + w->layout.f[f].offset, &value, w->layout.f[f].size);
}

static void put_bounds(struct world *w, gaddr_t g, gaddr_t lo, gaddr_t hi)
{
	put(w, g, GO_G_STACK_LO, lo);
	put(w, g, GO_G_STACK_HI, hi);
}

static void add_words(struct world *w, gaddr_t at, size_t len)
{
	uint64_t *words = test_malloc(len);

	for (size_t i = 0; i < len / 8; i++)
		words[i] = at + 8 * i;
	target_fake_add(w->target, at, words, len);
	test_free(words);
}

static int setup(void **state)
{
	struct world *w = test_calloc(1, sizeof(*w));
	static const gaddr_t structs[] = { M, G, G0, GSIGNAL };
	struct reader r;

	assert_null(target_fake_create(&w->target));
	assert_true(go_layout_row(MINOR, &w->layout));
	for (size_t i = 0; i < 4; i++)
		target_fake_add(w->target, structs[i], NULL, 4096);
	add_words(w, STACK, STACK_SIZE);
	add_words(w, SYSTEM, SYSTEM_SIZE);
	add_words(w, SIGNAL, SIGNAL_SIZE);
	put_bounds(w, G, STACK, STACK_HI);
	put_bounds(w, G0, SYSTEM, SYSTEM_HI - 256);	/* known roughly */
	put_bounds(w, GSIGNAL, SIGNAL, SIGNAL_HI);
	put(w, M, GO_M_G0, G0);
	put(w, M, GO_M_GSIGNAL, GSIGNAL);
	put(w, M, GO_M_CURG, G);
	put(w, G, GO_G_M, M);
	r = (struct reader){ .layout = &w->layout, .g_span = g_span(&w->layout), .m_span = m_span(&w->layout) };
	w->plan = hold_plan_make(&r, false);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	target_close(w->target);
	test_free(w);
	return 0;
}

/* `sampled`: so many bytes of the stack have come with the registers. */
static void hold_sampled(struct world *w, gaddr_t sp, uint32_t sampled)
{
	const struct capture_request rq = { .hint = { [HINT_M] = M, [HINT_G] = G } };
	uint8_t *sample = malloc(sampled + 1);	/* not of its own, as in a ring */

	assert_non_null(sample);
	memset(&w->c, 0, sizeof(w->c));
	w->c.regs.sp = sp;
	for (uint32_t i = 0; i < sampled; i += 8)
		memcpy(sample + i, &(uint64_t){ sp + i }, 8);
	if (sampled)
		w->c.views[w->c.n_views++] = (struct mem_view){ .low = sp, .len = sampled, .bytes = sample };
	hold_hook(&w->plan, w->target, &rq, &w->c);
	if (w->c.n_views)
		capture_own(&w->c, &w->c.views[0]);
	free(sample);
	for (uint32_t i = 0; i < w->c.n_views; i++) {
		const struct mem_view *v = &w->c.views[i];

		assert_true(v->bytes >= w->c.bytes && v->bytes + v->len <= w->c.bytes + CAPTURE_BYTES);
	}
}

static void hold(struct world *w, gaddr_t sp)
{
	hold_sampled(w, sp, 0);
}

/* The word at this address was copied; it is its own address unless a test has written to it. */
static bool has(const struct world *w, gaddr_t addr)
{
	for (uint32_t i = 0; i < w->c.n_views; i++) {
		const struct mem_view *v = &w->c.views[i];
		uint64_t word;

		if (addr < v->low || v->len < 8 || addr - v->low > v->len - 8)
			continue;
		memcpy(&word, v->bytes + (addr - v->low), sizeof(word));
		assert_int_equal(word, addr);
		return true;
	}
	return false;
}

static bool has_all(const struct world *w, gaddr_t from, gaddr_t to)
{
	for (gaddr_t at = from; at < to; at += 8)
		if (!has(w, at))
			return false;
	return true;
}

static void own_stack_is_whole(void **state)
{
	static const uint32_t used[] = { 8, 4088, 4096, 4104, 20000, HOLD_STACK_BYTES };
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++) {
		hold(w, STACK_HI - used[i]);
		assert_true(has_all(w, STACK_HI - used[i], STACK_HI));
		assert_false(has(w, STACK_HI));
	}
}

static void long_stack_has_two_ends(void **state)
{
	static const uint32_t used[] = { HOLD_STACK_BYTES + 8, 60000, STACK_SIZE };
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++) {
		gaddr_t sp = STACK_HI - used[i];

		hold(w, sp);
		assert_true(has_all(w, sp, sp + 24 * 1024));
		assert_true(has_all(w, STACK_HI - 8192, STACK_HI));
		assert_false(has(w, sp + 24 * 1024));
	}
}

static void left_stack_has_two_ends(void **state)
{
	struct world *w = *state;

	put(w, G, GO_G_SCHED_SP, STACK_HI - 1000 / 8 * 8);
	hold(w, SYSTEM_HI - 4096);
	assert_true(has_all(w, SYSTEM_HI - 4096, SYSTEM_HI));
	assert_true(has_all(w, STACK_HI - 1000, STACK_HI));
	assert_false(has(w, STACK_HI - 1008));
	put(w, G, GO_G_SCHED_SP, STACK_HI - 100000);
	hold(w, SYSTEM_HI - 4096);
	assert_true(has_all(w, SYSTEM_HI - 4096, SYSTEM_HI));
	assert_true(has_all(w, STACK_HI - 100000, STACK_HI - 100000 + 8192));
	assert_true(has_all(w, STACK_HI - 8192, STACK_HI));
}

/* The kernel's frame: the bounds of the signal stack, and where SP stood. */
static void interrupt(struct world *w, gaddr_t sp)
{
	target_fake_poke_u64(w->target, CONTEXT + CONTEXT_STACK, SIGNAL);
	target_fake_poke_u64(w->target, CONTEXT + CONTEXT_STACK + 16, SIGNAL_SIZE);
	target_fake_poke_u64(w->target, CONTEXT + CONTEXT_SP, sp);
}

/* An old place where it left its stack says nothing: SP stood further down. */
static void interrupted_goroutine(void **state)
{
	struct world *w = *state;

	put(w, G, GO_G_SCHED_SP, STACK_HI - 512);
	interrupt(w, STACK_HI - 6000);
	hold(w, SIGNAL_HI - 4096);
	assert_true(has_all(w, STACK_HI - 6000, STACK_HI));
	assert_true(has(w, SIGNAL_HI - 4096));
	interrupt(w, STACK_HI - 90000);
	hold(w, SIGNAL_HI - 4096);
	assert_true(has_all(w, STACK_HI - 90000, STACK_HI - 90000 + 4096));
	assert_true(has_all(w, STACK_HI - 8192, STACK_HI));
}

/* In the scheduler, or in C code: that stack from there on, and the goroutine's where it was left. */
static void interrupted_off_the_goroutine(void **state)
{
	struct world *w = *state;

	put(w, G, GO_G_SCHED_SP, STACK_HI - 512);
	interrupt(w, SYSTEM + 4096);
	hold(w, SIGNAL_HI - 4096);
	assert_true(has_all(w, SYSTEM + 4096, SYSTEM + 4096 + 8192));
	assert_true(has_all(w, STACK_HI - 512, STACK_HI));
	interrupt(w, SYSTEM_HI - 1024);
	hold(w, SIGNAL_HI - 4096);
	assert_true(has_all(w, SYSTEM_HI - 1024, SYSTEM_HI));	/* beyond what the runtime takes for its end */
}

/* No frame of the kernel's: the ends of both, by guess. */
static void interrupted_nobody_knows_where(void **state)
{
	struct world *w = *state;

	hold(w, SIGNAL_HI - 4096);
	assert_true(has_all(w, SYSTEM_HI - 4096, SYSTEM_HI));
	assert_true(has_all(w, STACK_HI - 8192, STACK_HI));
}

/* Memory that must not be copied: each word of it says so. */
static void spoil(struct world *w, gaddr_t from, gaddr_t to)
{
	for (; from < to; from += 8)
		target_fake_poke_u64(w->target, from, 1);
}

/* What has come with the registers is not read once more; what lies beyond is. */
static void sampled_stack_is_kept(void **state)
{
	static const struct {
		uint32_t used, sampled;
		size_t reads;	/* m, g, and what is missing of the stack: its begin, its far end */
	} cases[] = {
		{ 8, 8192, 2 }, { 4096, 8192, 2 }, { 8192, 8192, 2 }, { 8200, 8192, 3 }, { 20000, 8192, 3 },
		{ HOLD_STACK_BYTES, 8192, 3 }, { HOLD_STACK_BYTES + 8, 8192, 4 }, { 6000, 4096, 3 },
	};
	struct world *w = *state;

	w->plan.native = false;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		gaddr_t sp = STACK_HI - cases[i].used, end = sp + cases[i].sampled;
		size_t before = target_fake_reads(w->target);

		spoil(w, sp, end < STACK_HI ? end : STACK_HI);
		hold_sampled(w, sp, cases[i].sampled);
		assert_int_equal(target_fake_reads(w->target) - before, cases[i].reads);
		assert_int_equal(w->c.views[0].low, sp);
		assert_true(has_all(w, sp, cases[i].used > HOLD_STACK_BYTES ? sp + 24 * 1024 : STACK_HI));
		assert_true(has(w, STACK_HI - 8));
		assert_false(has(w, STACK_HI));
		/* As it was, for the next one. */
		for (; sp < STACK_HI; sp += 8)
			target_fake_poke_u64(w->target, sp, sp);
	}
}

/* A page was not there when the sample was taken, and the stack goes on behind it. */
static void short_sample_is_left(void **state)
{
	struct world *w = *state;

	hold_sampled(w, STACK_HI - 5000, 4088);
	assert_int_equal(w->c.views[0].len, 4096);
	assert_true(has_all(w, STACK_HI - 5000, STACK_HI));
}

/* Of a system stack no more is read than before: two structs, and where the goroutine left its own. */
static void sampled_system_stack(void **state)
{
	struct world *w = *state;
	size_t before = target_fake_reads(w->target);

	w->plan.native = false;
	put(w, G, GO_G_SCHED_SP, STACK_HI - 1000 / 8 * 8);
	spoil(w, SYSTEM_HI - 9000, SYSTEM_HI - 808);
	hold_sampled(w, SYSTEM_HI - 9000, 8192);
	assert_true(has_all(w, SYSTEM_HI - 9000, SYSTEM_HI - 808));
	assert_true(has_all(w, STACK_HI - 1000, STACK_HI));
	/* And the bounds of the signal stack, to see that it is not that. */
	assert_int_equal(target_fake_reads(w->target) - before, 2 + 2 + 1);
}

/* Nobody knows its m: what there is of its stack stays; where C frames may be on it, more is read. */
static void sampled_stranger(void **state)
{
	const struct capture_request none = { 0 };
	struct world *w = *state;
	static const uint8_t sample[8192] = { 1, 2, 3 };

	for (int native = 0; native < 2; native++) {
		size_t before = target_fake_reads(w->target);

		memset(&w->c, 0, sizeof(w->c));
		w->plan.native = native;
		w->c.regs.sp = SYSTEM;
		w->c.views[w->c.n_views++] = (struct mem_view){ .low = SYSTEM, .len = 8192, .bytes = sample };
		hold_hook(&w->plan, w->target, &none, &w->c);
		capture_own(&w->c, &w->c.views[0]);
		assert_memory_equal(w->c.bytes, sample, sizeof(sample));
		assert_int_equal(w->c.n_views, 1);
		assert_int_equal(w->c.views[0].len, native ? SYSTEM_SIZE : 8192);
		assert_int_equal(w->c.note_len, 0);
		assert_int_equal(target_fake_reads(w->target) - before, native);
	}
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(own_stack_is_whole),
		T(long_stack_has_two_ends),
		T(left_stack_has_two_ends),
		T(interrupted_goroutine),
		T(interrupted_off_the_goroutine),
		T(interrupted_nobody_knows_where),
		T(sampled_stack_is_kept),
		T(short_sample_is_left),
		T(sampled_system_stack),
		T(sampled_stranger),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
