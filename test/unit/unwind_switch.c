/*
 * unwind_switch.c: walks that change stacks: from the thread's own to the goroutine's where
 * systemstack, mcall, morestack and asmcgocall were called, over the kernel's signal frames, and
 * around C code.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "fake/walk_fake.h"

/* On the thread: big <- `on_top`. On the goroutine: left in `left` (depth 0), called by mid <- goexit. */
static void build(struct walk_fake *w, const char *on_top, const char *left, uint32_t offset)
{
	walk_setup(w);
	walk_start_m(w, WALK_BIG, 20, 10, PC_EXACT);
	walk_put_m(w, 14, on_top, 8);
	walk_put_m(w, 15, "runtime.mstart", 4);		/* what lies above is of an older call */
	walk_left_at(w, left, offset, 30);
	walk_put_g(w, 30, WALK_MID, 20);
	walk_put_g(w, 33, "runtime.goexit", 1);
}

/* systemstack and systemstack_switch stand for one call: it shows once. */
static void test_systemstack(void **state)
{
	struct walk_fake w;

	(void)state;
	build(&w, "runtime.systemstack", "runtime.systemstack_switch", 0);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 4);
	walk_frame(&w, 0, WALK_BIG, 20, PC_EXACT);
	walk_frame(&w, 1, "runtime.systemstack", 8, PC_RETURN);
	walk_frame(&w, 2, WALK_MID, 20, PC_RETURN);
	walk_frame(&w, 3, "runtime.goexit", 1, PC_RETURN);
	/* The place it left cannot be read. */
	w.views[0].len = 8 * 30;
	walk_expect(&w, WALK_OUT, UNWIND_NO_MEMORY, 2);
	walk_teardown(&w);
}

static void test_others(void **state)
{
	static const char *const switches[] = { "runtime.mcall", "runtime.morestack", "runtime.asmcgocall" };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct walk_fake w;

		build(&w, switches[i], WALK_LEAF, 12);
		walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 5);
		walk_frame(&w, 1, switches[i], 8, PC_RETURN);
		walk_frame(&w, 2, WALK_LEAF, 12, PC_RETURN);
		walk_frame(&w, 3, WALK_MID, 20, PC_RETURN);
		/* Stopped inside the switch itself, already on the thread's stack. */
		walk_start_m(&w, switches[i], 16, 14, PC_EXACT);
		walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 4);
		walk_teardown(&w);
	}
}

/* Still on the goroutine's stack: the switch is an ordinary frame, whatever was saved before. */
static void test_not_switched_yet(void **state)
{
	static const char *const switches[] = { "runtime.systemstack", "runtime.mcall", "runtime.morestack",
						"runtime.asmcgocall" };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct walk_fake w;

		build(&w, "runtime.systemstack", WALK_LEAF, 12);
		walk_start_g(&w, switches[i], 4, 20, PC_EXACT);
		walk_put_g(&w, 20, WALK_BIG, 30);
		walk_put_g(&w, 25, "runtime.goexit", 1);
		walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 3);
		walk_frame(&w, 1, WALK_BIG, 30, PC_RETURN);
		walk_teardown(&w);
	}
}

static void test_no_goroutine(void **state)
{
	struct walk_fake w;

	(void)state;
	build(&w, "runtime.systemstack", WALK_LEAF, 12);
	w.start.goroutine.pc = 0;
	walk_expect(&w, WALK_OUT, UNWIND_SPWRITE, 2);
	walk_teardown(&w);
	/* Nothing stands below mcall and morestack once their goroutine was put aside. */
	build(&w, "runtime.mcall", WALK_LEAF, 12);
	w.start.goroutine = (struct unwind_place){ .pc = 0 };
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 2);
	walk_put_m(&w, 14, "runtime.morestack", 8);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 2);
	walk_put_m(&w, 14, "runtime.systemstack", 8);
	walk_expect(&w, WALK_OUT, UNWIND_SPWRITE, 2);
	/* There is one, but where it left is not known. */
	w.start.goroutine.lo = WALK_G_LO;
	w.start.goroutine.hi = walk_g(WALK_WORDS);
	walk_put_m(&w, 14, "runtime.mcall", 8);
	walk_expect(&w, WALK_OUT, UNWIND_SPWRITE, 2);
	walk_teardown(&w);
}

/* nanotime leaves for the vDSO: its frame holds on the goroutine's stack only. */
static void test_vdso_caller(void **state)
{
	struct walk_fake w;

	(void)state;
	build(&w, "runtime.nanotime1", WALK_LEAF, 12);
	walk_expect(&w, WALK_OUT, UNWIND_SPWRITE, 2);
	walk_start_g(&w, "runtime.nanotime1", 20, 20, PC_EXACT);
	walk_put_g(&w, 22, WALK_BIG, 30);
	walk_put_g(&w, 27, "runtime.goexit", 1);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 3);
	walk_frame(&w, 1, WALK_BIG, 30, PC_RETURN);
	walk_teardown(&w);
}

/* The scheduler has chosen another goroutine since: it did not call this mcall. */
static void test_scheduler_ran(void **state)
{
	struct walk_fake w;

	(void)state;
	build(&w, "runtime.park_m", WALK_LEAF, 12);
	walk_start_m(&w, "runtime.schedule", 20, 11, PC_EXACT);
	walk_put_m(&w, 13, "runtime.park_m", 20);
	walk_put_m(&w, 16, "runtime.mcall", 8);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 3);
	walk_frame(&w, 2, "runtime.mcall", 8, PC_RETURN);
	/* Without it the goroutine is the one that called. */
	walk_start_m(&w, "runtime.park_m", 20, 14, PC_EXACT);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 5);
	walk_teardown(&w);
}

/* ---- signals ---- */

enum { CONTEXT_SP = 160 / 8, CONTEXT_PC = 168 / 8 };

/* big <- sigtramp <- sigreturn on the thread's stack; the ucontext begins at word 18. */
static void build_signal(struct walk_fake *w, gaddr_t pc, gaddr_t sp)
{
	walk_start_m(w, WALK_BIG, 20, 10, PC_EXACT);
	walk_put_m(w, 14, "runtime.sigtramp", 20);
	walk_put_m(w, 17, "runtime.sigreturn__sigaction", 0);
	w->m[18 + CONTEXT_SP] = sp;
	w->m[18 + CONTEXT_PC] = pc;
}

static void test_signal(void **state)
{
	struct walk_fake w;

	(void)state;
	walk_setup(&w);
	build_signal(&w, walk_pc(&w, WALK_MID, 2), walk_g(30));
	walk_put_g(&w, 30, "runtime.goexit", 1);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 4);
	walk_frame(&w, 1, "runtime.sigtramp", 20, PC_RETURN);
	/* The interrupted instruction, in the prologue: looked up as it is. */
	walk_frame(&w, 2, WALK_MID, 2, PC_EXACT);
	w.views[1].len = 8 * (18 + CONTEXT_PC);
	walk_expect(&w, WALK_OUT, UNWIND_NO_MEMORY, 2);
	/* Stopped behind the handler, on the way back. */
	w.views[1].len = sizeof(w.m);
	walk_start_m(&w, "runtime.sigreturn__sigaction", 7, 18, PC_EXACT);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 3);
	walk_frame(&w, 1, WALK_MID, 2, PC_EXACT);
	walk_start_m(&w, WALK_BIG, 20, 10, PC_EXACT);
	/* It interrupted a switch on the goroutine's stack: known by the bounds. */
	w.views[1].len = sizeof(w.m);
	w.m[18 + CONTEXT_PC] = walk_pc(&w, "runtime.systemstack", 8);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 4);
	walk_teardown(&w);
}

static void test_signal_in_c(void **state)
{
	struct walk_fake w;

	(void)state;
	walk_setup(&w);
	build_signal(&w, 0x7f0000001000, 0x7f0000002000);
	walk_expect(&w, WALK_OUT, UNWIND_NATIVE, 3);
	assert_int_equal(w.out[2].kind, PC_NATIVE);
	/* C code that the goroutine called: it goes on where it did so. */
	w.start.in_c = true;
	walk_left_at(&w, WALK_LEAF, 12, 30);
	walk_put_g(&w, 30, "runtime.goexit", 1);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 5);
	walk_frame(&w, 3, WALK_LEAF, 12, PC_RETURN);
	walk_teardown(&w);
}

static void test_signal_in_signal_ends(void **state)
{
	struct walk_fake w;

	(void)state;
	walk_setup(&w);
	/* A context that points back at its own handler. */
	build_signal(&w, walk_pc(&w, "runtime.sigtramp", 20), walk_m(15));
	walk_expect(&w, WALK_OUT, UNWIND_BAD_SP, 4);
	walk_teardown(&w);
}

/* No walk goes over to the goroutine twice, whatever a signal frame on its stack says. */
static void test_once(void **state)
{
	struct walk_fake w;

	(void)state;
	build(&w, "runtime.systemstack", WALK_LEAF, 12);
	walk_put_g(&w, 30, "runtime.sigtramp", 20);
	w.g[34 + CONTEXT_PC] = walk_pc(&w, "runtime.systemstack", 8);
	w.g[34 + CONTEXT_SP] = walk_m(14);
	walk_expect(&w, WALK_OUT, UNWIND_SPWRITE, 5);
	walk_frame(&w, 4, "runtime.systemstack", 8, PC_EXACT);
	walk_teardown(&w);
}

static void test_native_first(void **state)
{
	struct walk_fake w;

	(void)state;
	walk_setup(&w);
	walk_start_g(&w, WALK_LEAF, 12, 30, PC_RETURN);
	walk_put_g(&w, 30, "runtime.goexit", 1);
	w.start.native_first = true;
	w.start.native_pc = 0x7f0000001000;
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 3);
	assert_int_equal(w.out[0].kind, PC_NATIVE);
	assert_int_equal(w.out[0].pc, 0x7f0000001000);
	walk_frame(&w, 1, WALK_LEAF, 12, PC_RETURN);
	/* Nothing but native code. */
	w.start = (struct unwind_start){ .at = { .pc = 0x7f0000001000, .sp = walk_m(2), .kind = PC_NATIVE } };
	walk_expect(&w, WALK_OUT, UNWIND_NATIVE, 1);
	walk_teardown(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_systemstack),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_not_switched_yet),
		cmocka_unit_test(test_no_goroutine),
		cmocka_unit_test(test_vdso_caller),
		cmocka_unit_test(test_scheduler_ran),
		cmocka_unit_test(test_once),
		cmocka_unit_test(test_signal),
		cmocka_unit_test(test_signal_in_c),
		cmocka_unit_test(test_signal_in_signal_ends),
		cmocka_unit_test(test_native_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
