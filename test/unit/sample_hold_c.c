/*
 * sample_hold_c.c: what is copied while a thread is held, by what the thread is doing: in C, in Go, in
 * Go called from C, in a signal handler above C, without any m. Handmade memory of a Go 1.26 process.
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
	M = 0x100000, G = 0x110000, G0 = 0x120000, GSIGNAL = 0x130000, STRUCT = 2048,
	G_LO = 0x200000, G_HI = 0x202000,		/* the goroutine's stack: 8 KiB */
	OWN_LO = 0x300000, OWN_HI = 0x320000,		/* the thread's own: 128 KiB */
	SIGNAL_LO = 0x400000, SIGNAL_HI = 0x408000,
	BEYOND = 0x10000,				/* readable memory above the thread's own stack */
	TID = 4321,
};

struct world {
	struct target *target;
	struct go_layout layout;
	struct reader reader;
	struct hold_plan plan;
	struct capture c;
	struct capture_request rq;
	uint8_t m[STRUCT], g[STRUCT], g0[STRUCT], gsignal[STRUCT];
};

static void put(const struct world *w, uint8_t *bytes, enum go_field field, uint64_t value)
{
	memcpy(bytes + w->layout.f[field].offset, &value, w->layout.f[field].size);
}

static void put_bounds(const struct world *w, uint8_t *g, gaddr_t lo, gaddr_t hi)
{
	put(w, g, GO_G_STACK_LO, lo);
	put(w, g, GO_G_STACK_HI, hi);
}

static int setup(void **state)
{
	struct world *w = test_calloc(1, sizeof(*w));

	assert_null(target_fake_create(&w->target));
	assert_true(go_layout_row(MINOR, &w->layout));
	w->reader = (struct reader){ .target = w->target, .layout = &w->layout, .goroutines = true,
				     .g_span = g_span(&w->layout), .m_span = m_span(&w->layout) };
	put(w, w->m, GO_M_G0, G0);
	put(w, w->m, GO_M_GSIGNAL, GSIGNAL);
	put(w, w->m, GO_M_CURG, G);
	put(w, w->m, GO_M_PROCID, TID);
	put_bounds(w, w->g, G_LO, G_HI);
	put(w, w->g, GO_G_GOID, 7);
	put(w, w->g, GO_G_M, M);
	put(w, w->g, GO_G_STARTPC, 0x401000);
	put(w, w->g, GO_G_SCHED_SP, G_HI - 0x200);
	put_bounds(w, w->g0, OWN_LO, OWN_HI);
	put(w, w->g0, GO_G_SCHED_SP, OWN_HI - 0x800);
	put_bounds(w, w->gsignal, SIGNAL_LO, SIGNAL_HI);
	target_fake_add(w->target, G_LO, NULL, G_HI - G_LO);
	target_fake_add(w->target, OWN_LO, NULL, OWN_HI - OWN_LO + BEYOND);
	target_fake_add(w->target, SIGNAL_LO, NULL, SIGNAL_HI - SIGNAL_LO);
	w->rq.hint[HINT_M] = M;
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

/* One hold with the thread's sp here; the structs as they are now. */
static void hold(struct world *w, gaddr_t sp, bool native)
{
	w->plan = hold_plan_make(&w->reader, native);
	target_fake_add(w->target, M, w->m, STRUCT);
	target_fake_add(w->target, G, w->g, STRUCT);
	target_fake_add(w->target, G0, w->g0, STRUCT);
	target_fake_add(w->target, GSIGNAL, w->gsignal, STRUCT);
	memset(&w->c, 0xaa, sizeof(w->c));	/* as a capture that was used before */
	w->c.n_views = w->c.note_len = 0;
	w->c.regs.sp = sp;
	hold_hook(&w->plan, w->target, &w->rq, &w->c);
	for (gaddr_t at = M; at <= GSIGNAL; at += G - M)
		target_fake_remove(w->target, at);
}

/* Is all of [low, high) in one view? */
static bool copied(const struct world *w, gaddr_t low, gaddr_t high)
{
	for (uint32_t i = 0; i < w->c.n_views; i++) {
		const struct mem_view *v = &w->c.views[i];

		if (v->low <= low && high <= v->low + v->len)
			return true;
	}
	return false;
}

static void test_go(void **state)
{
	struct world *w = *state;
	size_t reads;

	for (int native = 0; native < 2; native++) {
		reads = target_fake_reads(w->target);
		hold(w, G_HI - 0x300, native);
		assert_true(copied(w, G_HI - 0x300, G_HI));
		assert_false(copied(w, OWN_HI - 0x800, OWN_HI));
		assert_int_equal(w->c.n_views, 1);
		assert_int_equal(hold_read_callbacks(&w->c), 0);
		/* Programs that call no C are read exactly as ever. */
		assert_int_equal(target_fake_reads(w->target) - reads, 3);
	}
}

static void test_c_called_from_go(void **state)
{
	struct world *w = *state;
	gaddr_t sp = OWN_HI - 0x7000;

	put(w, w->m, GO_M_NCGO, 1);
	put(w, w->g, GO_G_SYSCALLSP, G_HI - 0x400);
	hold(w, sp, true);
	assert_true(copied(w, sp, OWN_HI));		/* 28 KiB of C */
	assert_false(copied(w, sp, OWN_HI + 1));	/* and nothing beyond the stack */
	assert_true(copied(w, G_HI - 0x400, G_HI));
	assert_int_equal(hold_read_callbacks(&w->c), OWN_HI - 0x800);
	/* As much as there is room for, and the goroutine's part all the same. */
	sp = OWN_LO + 0x100;
	hold(w, sp, true);
	assert_true(copied(w, sp, sp + HOLD_STACK_BYTES));
	assert_false(copied(w, sp, sp + HOLD_STACK_BYTES + 1));
	assert_true(copied(w, G_HI - 0x400, G_HI));
	/* No C frames asked for. */
	hold(w, sp, false);
	assert_false(copied(w, sp, sp + 0x2001));
	assert_true(copied(w, G_HI - 0x400, G_HI));
	assert_int_equal(hold_read_callbacks(&w->c), 0);
}

static void test_go_called_from_c(void **state)
{
	struct world *w = *state;

	put(w, w->m, GO_M_NCGO, 1);
	hold(w, G_HI - 0x300, true);
	assert_true(copied(w, G_HI - 0x300, G_HI));
	assert_true(copied(w, OWN_HI - 0x800, OWN_HI));
	assert_false(copied(w, OWN_HI - 0x800, OWN_HI + 1));
	assert_int_equal(hold_read_callbacks(&w->c), OWN_HI - 0x800);
	/* A thread that C made (its goroutine has no start function): the end told is not its end. */
	put(w, w->m, GO_M_NCGO, 0);
	put(w, w->g, GO_G_STARTPC, 0);
	hold(w, G_HI - 0x300, true);
	assert_true(copied(w, OWN_HI - 0x800, OWN_HI + 0x1000));
	assert_int_equal(hold_read_callbacks(&w->c), OWN_HI - 0x800);
}

static void test_no_m(void **state)
{
	struct world *w = *state;

	w->rq.hint[HINT_M] = 0;
	hold(w, OWN_LO, true);
	assert_true(copied(w, OWN_LO, OWN_LO + HOLD_STACK_BYTES));
	assert_int_equal(w->c.note_len, 0);
	assert_int_equal(hold_read_callbacks(&w->c), 0);
	hold(w, OWN_LO, false);
	assert_false(copied(w, OWN_LO, OWN_LO + 0x1001));
	/* Restricted mode: no m is known, and all that can be shown of any thread is its own stack. */
	w->reader.goroutines = false;
	for (int native = 0; native < 2; native++) {
		hold(w, OWN_LO, native);
		assert_true(copied(w, OWN_LO, OWN_LO + HOLD_STACK_BYTES));
	}
}

/* The kernel's frame for a handler on the signal stack, at `at`: interrupted at `sp`. */
static void put_context(struct world *w, gaddr_t at, gaddr_t sp)
{
	const struct arch *arch = arch_host();

	target_fake_poke_u64(w->target, at + arch->ucontext_stack, SIGNAL_LO);
	target_fake_poke_u64(w->target, at + arch->ucontext_stack + 16, SIGNAL_HI - SIGNAL_LO);
	target_fake_poke_u64(w->target, at + arch->dwarf_ucontext[arch->dwarf_sp], sp);
}

static void test_signal(void **state)
{
	struct world *w = *state;
	gaddr_t sp = SIGNAL_HI - 0x1800, c = OWN_HI - 0x3000;

	put(w, w->m, GO_M_NCGO, 1);
	put(w, w->g, GO_G_SYSCALLSP, G_HI - 0x400);
	put_context(w, SIGNAL_HI - 0x1000, c);
	hold(w, sp, true);
	assert_true(copied(w, sp, SIGNAL_HI));
	assert_true(copied(w, c, OWN_HI));		/* the C code that was interrupted */
	assert_true(copied(w, G_HI - 0x400, G_HI));
	/* Go code that C called: its callers. */
	put_context(w, SIGNAL_HI - 0x1000, G_HI - 0x300);
	hold(w, sp, true);
	assert_true(copied(w, OWN_HI - 0x800, OWN_HI));
	assert_true(copied(w, G_HI - 0x300, G_HI));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_go, setup, teardown),
		cmocka_unit_test_setup_teardown(test_c_called_from_go, setup, teardown),
		cmocka_unit_test_setup_teardown(test_go_called_from_c, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_m, setup, teardown),
		cmocka_unit_test_setup_teardown(test_signal, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
