/*
 * unwind_c.c: how walks go on where they come to C code: stacks written by hand for the Go part, and
 * for C the frames of this very program, or registers that lead nowhere. The Go part must be there
 * whatever becomes of C.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake/walk_fake.h"
#include "unwind/native.h"

/* A function without a frame, for places in the middle of one. */
void c_place(void);
__asm__(".text\n.type c_place, @function\nc_place: .cfi_startproc\nnop\nnop\nnop\nret\n.cfi_endproc\n"
	".size c_place, . - c_place");

struct world {
	struct walk_fake w;
	pid_t pid;
	struct target *target;
	struct images *images;
	struct native *native;
	struct regs regs;
};

static void setup(struct world *x)
{
	walk_setup(&x->w);
	x->pid = fork();
	assert_true(x->pid >= 0);
	if (!x->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_null(target_open_live(x->pid, &x->target));
	assert_null(images_create(x->target, &x->images));
	assert_null(native_create(x->images, &x->native));
	x->w.start.native = x->native;
	x->regs = (struct regs){ .raw_len = REGS_RAW_MAX };
	x->w.start.regs = &x->regs;
}

static void teardown(struct world *x)
{
	native_destroy(x->native);
	images_destroy(x->images);
	target_close(x->target);
	kill(x->pid, SIGKILL);
	waitpid(x->pid, NULL, 0);
	walk_teardown(&x->w);
}

static void set_reg(struct world *x, uint8_t dwarf, uint64_t v)
{
	memcpy(x->regs.raw + arch_host()->dwarf_raw[dwarf], &v, sizeof(v));
}

/* In this program's own code, with this stack pointer. */
static void stand_in_c(struct world *x, gaddr_t sp)
{
	set_reg(x, arch_host()->dwarf_pc, (uintptr_t)setup);
	set_reg(x, arch_host()->dwarf_sp, sp);
}

static void expect_mark(const struct world *x, size_t i)
{
	assert_true(i < x->w.n);
	assert_int_equal(x->w.out[i].kind, PC_NATIVE);
	assert_int_equal(x->w.out[i].pc, 0);
}

static void expect_c(const struct world *x, size_t i)
{
	assert_true(i < x->w.n);
	assert_int_equal(x->w.out[i].kind, PC_NATIVE);
	assert_int_equal(x->w.out[i].pc, (uintptr_t)setup);
}

static void in_call(struct world *x)
{
	walk_left_at(&x->w, WALK_LEAF, 12, 30);
	walk_put_g(&x->w, 30, "runtime.goexit", 1);
	x->w.start.in_c = true;
	x->w.start.native_first = true;
	x->w.start.native_pc = (uintptr_t)setup;
	x->w.start.at = x->w.start.goroutine;
	x->w.start.at.lo = WALK_G_LO;
	x->w.start.at.hi = walk_g(WALK_WORDS);
}

static void test_c_called_from_go(void **state)
{
	struct world x;

	(void)state;
	setup(&x);
	in_call(&x);
	/* At its entry a function's caller is at [sp]: asmcgocall. */
	stand_in_c(&x, walk_m(5));
	walk_put_m(&x.w, 5, "runtime.asmcgocall", 20);
	walk_expect(&x.w, WALK_OUT, UNWIND_COMPLETE, 3);
	expect_c(&x, 0);
	walk_frame(&x.w, 1, WALK_LEAF, 12, PC_RETURN);
	walk_frame(&x.w, 2, "runtime.goexit", 1, PC_RETURN);
	assert_int_equal(native_counts(x.native)->ends[NATIVE_REACHED_GO], 1);
	/* The frames kept are bounded as everywhere. */
	walk_expect(&x.w, 1, UNWIND_DEPTH, 1);
	teardown(&x);
}

static void test_lost_in_c(void **state)
{
	struct world x;

	(void)state;
	setup(&x);
	in_call(&x);
	/* The stack is not there. */
	stand_in_c(&x, 0x1234560);
	walk_expect(&x.w, WALK_OUT, UNWIND_COMPLETE, 4);
	expect_c(&x, 0);
	expect_mark(&x, 1);
	walk_frame(&x.w, 2, WALK_LEAF, 12, PC_RETURN);
	assert_int_equal(native_counts(x.native)->ends[NATIVE_NO_MEMORY], 1);
	/* A return address that is no code. */
	stand_in_c(&x, walk_m(5));
	x.w.m[5] = 0x12345;
	walk_expect(&x.w, WALK_OUT, UNWIND_COMPLETE, 4);
	expect_mark(&x, 1);
	walk_frame(&x.w, 2, WALK_LEAF, 12, PC_RETURN);
	/* A first function of the thread, though Go called: not believed to be the end. */
	x.w.m[5] = 0;
	walk_expect(&x.w, WALK_OUT, UNWIND_COMPLETE, 4);
	expect_mark(&x, 1);
	teardown(&x);
}

static void test_c_alone(void **state)
{
	struct world x;

	(void)state;
	setup(&x);
	x.w.start.at = (struct unwind_place){ .pc = (uintptr_t)setup, .sp = walk_m(5), .kind = PC_NATIVE };
	stand_in_c(&x, walk_m(5));
	x.w.m[5] = 0;
	walk_expect(&x.w, WALK_OUT, UNWIND_COMPLETE, 1);
	expect_c(&x, 0);
	stand_in_c(&x, 0x1234560);
	walk_expect(&x.w, WALK_OUT, UNWIND_NATIVE, 2);
	expect_mark(&x, 1);
	/* Not asked for: one frame, as known. */
	x.w.start.native = NULL;
	walk_expect(&x.w, WALK_OUT, UNWIND_NATIVE, 1);
	expect_c(&x, 0);
	teardown(&x);
}

/* leaf, cgocallback, and above it what the goroutine did before: mid and goexit. */
static void called_from_c(struct world *x, const char *caller)
{
	walk_start_g(&x->w, WALK_LEAF, 12, 10, PC_EXACT);
	walk_put_g(&x->w, 10, "runtime.cgocallback", 20);	/* frame of 16 bytes: caller at 13 */
	walk_put_g(&x->w, 13, caller, 12);
	walk_put_g(&x->w, 14, "runtime.goexit", 1);
}

static void test_callers_unknown(void **state)
{
	struct world x;

	(void)state;
	setup(&x);
	called_from_c(&x, WALK_LEAF);
	/* Nobody knows where g0 stands. */
	walk_expect(&x.w, WALK_OUT, UNWIND_COMPLETE, 5);
	walk_frame(&x.w, 1, "runtime.cgocallback", 20, PC_RETURN);
	expect_mark(&x, 2);
	walk_frame(&x.w, 3, WALK_LEAF, 12, PC_RETURN);
	/* It stands where nothing was copied; where no crosscall2 is; where none of its frames are. */
	x.w.start.callbacks = 0x1234560;
	walk_expect(&x.w, WALK_OUT, UNWIND_COMPLETE, 5);
	expect_mark(&x, 2);
	x.w.start.callbacks = walk_m(8);
	walk_expect(&x.w, WALK_OUT, UNWIND_COMPLETE, 5);
	expect_mark(&x, 2);
	walk_put_m(&x.w, 10, WALK_MID, 20);
	walk_expect(&x.w, WALK_OUT, UNWIND_COMPLETE, 5);
	expect_mark(&x, 2);
	walk_frame(&x.w, 3, WALK_LEAF, 12, PC_RETURN);
	/* No C frames asked for: no mark either. */
	x.w.start.native = NULL;
	walk_expect(&x.w, WALK_OUT, UNWIND_COMPLETE, 4);
	teardown(&x);
}

/* The frames of crosscall2 below C code that returns to `above`. */
static void crosscall(struct world *x, gaddr_t above)
{
	x->w.start.callbacks = walk_m(8);
	walk_put_m(&x->w, 10, "crosscall2", 20);	/* cgocallback's frame: 16 bytes */
	x->w.m[20] = (uintptr_t)c_place + 2;		/* crosscall2's: 0x48 bytes from word 11 on */
	x->w.m[21] = above;
}

static void test_callers(void **state)
{
	struct world x;

	(void)state;
	setup(&x);
	called_from_c(&x, WALK_LEAF);
	crosscall(&x, walk_pc(&x.w, "runtime.asmcgocall", 20));
	walk_expect(&x.w, WALK_OUT, UNWIND_COMPLETE, 5);
	walk_frame(&x.w, 1, "runtime.cgocallback", 20, PC_RETURN);
	assert_int_equal(x.w.out[2].kind, PC_NATIVE);
	assert_int_equal(x.w.out[2].pc, (uintptr_t)c_place + 1);
	walk_frame(&x.w, 3, WALK_LEAF, 12, PC_RETURN);
	/* The C code came from somewhere else than the goroutine says: a mark in its place. */
	crosscall(&x, walk_pc(&x.w, WALK_MID, 20));
	walk_expect(&x.w, WALK_OUT, UNWIND_COMPLETE, 5);
	expect_mark(&x, 2);
	crosscall(&x, 0);
	walk_expect(&x.w, WALK_OUT, UNWIND_COMPLETE, 5);
	expect_mark(&x, 2);
	/* A thread that C made: its goroutine begins here, and so does the thread. */
	walk_put_g(&x.w, 13, "runtime.goexit", 1);
	walk_expect(&x.w, WALK_OUT, UNWIND_COMPLETE, 3);
	assert_int_equal(x.w.out[2].pc, (uintptr_t)c_place + 1);
	crosscall(&x, walk_pc(&x.w, "runtime.asmcgocall", 20));
	walk_expect(&x.w, WALK_OUT, UNWIND_COMPLETE, 4);
	expect_mark(&x, 2);
	walk_frame(&x.w, 3, "runtime.goexit", 1, PC_RETURN);
	teardown(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_c_called_from_go),
		cmocka_unit_test(test_lost_in_c),
		cmocka_unit_test(test_c_alone),
		cmocka_unit_test(test_callers_unknown),
		cmocka_unit_test(test_callers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
