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
#include "go/go_impl.h"

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

/*
 * Called on the thread's own stack asmcgocall stays there: the sp from before it moved stands `at`
 * words above the return from C, a zero behind it.
 */
static void test_c_on_the_thread(void **state)
{
	static const struct { int minor; uint32_t at, old; } rows[] = {
		{ 22, 0, 2 }, { 27, 0, 3 }, { 21, 5, 8 }, { 15, 5, 9 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct walk_fake w;
		uint32_t sp = 15, old = sp + rows[i].old;

		build(&w, "runtime.asmcgocall", WALK_LEAF, 12);
		go_fake_runtime(w.go)->build.minor = rows[i].minor;
		w.m[sp] = 7;
		w.m[sp + 1] = 7;
		w.m[sp + rows[i].at] = walk_m(old);
		w.m[sp + rows[i].at + 1] = 0;
		walk_put_m(&w, old, WALK_MID, 20);
		walk_put_m(&w, old + 3, "runtime.mstart", 4);
		walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 4);
		walk_frame(&w, 1, "runtime.asmcgocall", 8, PC_RETURN);
		walk_frame(&w, 2, WALK_MID, 20, PC_RETURN);
		walk_frame(&w, 3, "runtime.mstart", 4, PC_RETURN);
		/* What stands there is no such sp, or a g: it came from the goroutine's stack. */
		w.m[sp + rows[i].at] = walk_m(old) + 16;
		walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 5);
		walk_frame(&w, 2, WALK_LEAF, 12, PC_RETURN);
		w.m[sp + rows[i].at] = walk_m(old) - 16;
		walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 5);
		w.m[sp + rows[i].at] = walk_m(old);
		w.m[sp + rows[i].at + 1] = WALK_G_LO;
		walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 5);
		walk_frame(&w, 2, WALK_LEAF, 12, PC_RETURN);
		/* Nothing that calls stands there. */
		walk_put_m(&w, old, WALK_BIG, 20);
		walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 5);
		walk_frame(&w, 2, WALK_LEAF, 12, PC_RETURN);
		walk_put_m(&w, old, WALK_MID, 20);
		/* So it was in other versions. */
		go_fake_runtime(w.go)->build.minor = 43 - rows[i].minor;
		walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 5);
		go_fake_runtime(w.go)->build.minor = rows[i].minor;
		/* It was not copied. */
		w.m[sp + rows[i].at + 1] = 0;
		w.views[1].len = 8 * (sp + rows[i].at + 1);
		walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 5);
		walk_teardown(&w);
	}
}

/* -race: sp waits in a register while the detector works on the thread's own stack. */
static void test_racecall(void **state)
{
	struct walk_fake w;

	(void)state;
	build(&w, "runtime.systemstack", WALK_LEAF, 12);
	walk_start_m(&w, "racecall", 20, 10, PC_EXACT);
	w.start.at.racecall = walk_g(20);
	walk_put_g(&w, 20, WALK_MID, 20);
	walk_put_g(&w, 23, "runtime.goexit", 1);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 3);
	walk_frame(&w, 0, "racecall", 20, PC_EXACT);
	walk_frame(&w, 1, WALK_MID, 20, PC_RETURN);
	walk_frame(&w, 2, "runtime.goexit", 1, PC_RETURN);
	/* It was there before, and has been aligned. */
	w.start.at.racecall = walk_m(11);
	walk_put_m(&w, 11, WALK_MID, 20);
	walk_put_m(&w, 14, "runtime.mstart", 4);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 3);
	walk_frame(&w, 1, WALK_MID, 20, PC_RETURN);
	/* What is in the register is no such thing, or not known. */
	w.start.at.racecall = walk_m(12);
	walk_expect(&w, WALK_OUT, UNWIND_SPWRITE, 1);
	w.start.at.racecall = walk_g(WALK_WORDS);
	walk_expect(&w, WALK_OUT, UNWIND_SPWRITE, 1);
	w.start.at.racecall = 0;
	walk_expect(&w, WALK_OUT, UNWIND_SPWRITE, 1);
	/* Not there yet: an ordinary frame, whatever is in the register, on either stack. */
	walk_start_g(&w, "racecall", 4, 20, PC_EXACT);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 3);
	walk_start_m(&w, "racecall", 8, 11, PC_EXACT);
	w.start.at.racecall = walk_g(20);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 3);
	walk_frame(&w, 2, "runtime.mstart", 4, PC_RETURN);
	walk_teardown(&w);
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
	walk_expect(&w, WALK_OUT, UNWIND_SPWRITE, 2);		/* nobody knows: the m was not read */
	w.start.between = true;
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 2);
	walk_put_m(&w, 14, "runtime.morestack", 8);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 2);
	walk_put_m(&w, 14, "runtime.systemstack", 8);
	walk_expect(&w, WALK_OUT, UNWIND_SPWRITE, 2);
	/* There is one, but where it left is not known. */
	w.start.between = false;
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
	/* Nor has it left while the m says nothing of the vDSO: it was called on the thread's stack. */
	walk_start_m(&w, "runtime.nanotime1", 20, 12, PC_EXACT);
	walk_put_m(&w, 14, "runtime.systemstack", 8);
	walk_expect(&w, WALK_OUT, UNWIND_SPWRITE, 1);
	w.start.no_vdso = true;
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 5);
	walk_frame(&w, 1, "runtime.systemstack", 8, PC_RETURN);
	w.start.no_vdso = false;
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

/* ---- the scheduler ---- */

/* gogo on the thread's stack, called by `by`, which mcall or morestack called. */
static void build_gogo(struct walk_fake *w, const char *by, const char *at_bottom)
{
	build(w, "runtime.park_m", WALK_LEAF, 12);
	walk_start_m(w, "gogo", 8, 10, PC_EXACT);
	walk_put_m(w, 10, by, 20);
	walk_put_m(w, 13, at_bottom, 8);
}

/* The stack pointer is still the thread's: the goroutine that is chosen has called nothing of this. */
static void test_gogo_on_the_thread(void **state)
{
	static const char *const names[] = { "runtime.execute", "runtime.coroswitch_m" };
	struct walk_fake w;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		build_gogo(&w, names[i], "runtime.mcall");
		w.start.resume_pc = walk_pc(&w, WALK_LEAF, 12);
		walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 3);
		walk_frame(&w, 1, names[i], 20, PC_RETURN);
		walk_frame(&w, 2, "runtime.mcall", 8, PC_RETURN);
		/* Before it has chosen, it is the goroutine that left. */
		if (i == 1) {
			walk_start_m(&w, names[i], 20, 10, PC_EXACT);
			walk_put_m(&w, 12, "runtime.mcall", 8);
			walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 5);
		}
		walk_teardown(&w);
	}
	/* newstack sends on the goroutine whose stack it was called for. */
	build_gogo(&w, "runtime.newstack", "runtime.morestack");
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 6);
	walk_frame(&w, 2, "runtime.morestack", 8, PC_RETURN);
	walk_frame(&w, 3, WALK_LEAF, 12, PC_RETURN);
	walk_teardown(&w);
}

/* The stack pointer is the goroutine's already: on to where it left. */
static void test_gogo_on_the_goroutine(void **state)
{
	struct walk_fake w;

	(void)state;
	build(&w, "runtime.mcall", WALK_LEAF, 12);
	walk_start_g(&w, "gogo", 20, 30, PC_EXACT);
	w.start.resume_pc = walk_pc(&w, WALK_LEAF, 12);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 4);
	walk_frame(&w, 0, "gogo", 20, PC_EXACT);
	walk_frame(&w, 1, WALK_LEAF, 12, PC_RETURN);
	walk_frame(&w, 2, WALK_MID, 20, PC_RETURN);
	/* The saved stack pointer has been cleared meanwhile. */
	w.start.goroutine.pc = w.start.goroutine.sp = 0;
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 4);
	/* One that has never run. */
	w.start.resume_pc = walk_pc(&w, WALK_BIG, 0);
	walk_put_g(&w, 30, "runtime.goexit", 1);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 3);
	/* Another place than the one that is saved, or none. */
	walk_left_at(&w, WALK_LEAF, 12, 31);
	walk_expect(&w, WALK_OUT, UNWIND_SPWRITE, 1);
	walk_left_at(&w, WALK_LEAF, 12, 30);
	w.start.resume_pc = 0;
	walk_expect(&w, WALK_OUT, UNWIND_SPWRITE, 1);
	walk_teardown(&w);
}

/* Of a thread that begins it is the first function; in the thread that makes it, it was called. */
static void test_clone(void **state)
{
	struct walk_fake w;

	(void)state;
	walk_setup(&w);
	walk_start_m(&w, "runtime.clone", 20, 10, PC_EXACT);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 1);
	w.m[10] = 0x1234567;
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 1);
	walk_put_m(&w, 10, "runtime.newosproc", 30);		/* no call stands there */
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 1);
	walk_put_m(&w, 10, "runtime.newosproc", 20);
	walk_put_m(&w, 13, "runtime.mstart", 8);
	walk_expect(&w, WALK_OUT, UNWIND_COMPLETE, 3);
	walk_frame(&w, 1, "runtime.newosproc", 20, PC_RETURN);
	w.views[1].len = 8 * 10;
	walk_expect(&w, WALK_OUT, UNWIND_NO_MEMORY, 1);
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
		cmocka_unit_test(test_c_on_the_thread),
		cmocka_unit_test(test_racecall),
		cmocka_unit_test(test_no_goroutine),
		cmocka_unit_test(test_vdso_caller),
		cmocka_unit_test(test_scheduler_ran),
		cmocka_unit_test(test_gogo_on_the_thread),
		cmocka_unit_test(test_gogo_on_the_goroutine),
		cmocka_unit_test(test_clone),
		cmocka_unit_test(test_once),
		cmocka_unit_test(test_signal),
		cmocka_unit_test(test_signal_in_c),
		cmocka_unit_test(test_signal_in_signal_ends),
		cmocka_unit_test(test_native_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
