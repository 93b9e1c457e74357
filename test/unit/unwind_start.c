/*
 * unwind_start.c: where walks begin: every status of a goroutine, and the order in which a
 * thread's registers, its C call and its vDSO call are believed.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "fake/walk_fake.h"

enum {
	SCHED_PC = 0x1000, SYSCALL_PC = 0x2000, M = 0x5000, NATIVE_PC = 0x7f001000,
	SCHED_SP = WALK_G_LO + 80, SYSCALL_SP = WALK_G_LO + 160,
};

static struct g_look goroutine(uint32_t status)
{
	return (struct g_look){
		.status = status, .m = M, .stack_lo = WALK_G_LO, .stack_hi = walk_g(WALK_WORDS),
		.sched_pc = SCHED_PC, .sched_sp = SCHED_SP,
	};
}

static void test_parked_by_status(void **state)
{
	static const struct { uint32_t status; bool saved, in_syscall; } rows[] = {
		{ G_IDLE, false, false }, { G_RUNNABLE, true, true }, { G_RUNNING, false, false },
		{ G_SYSCALL, false, true }, { G_WAITING, true, true }, { 5, false, false },
		{ G_DEAD, false, false }, { 7, false, false }, { G_COPYSTACK, false, false },
		{ G_PREEMPTED, true, true }, { G_LEAKED, true, true }, { G_DEADEXTRA, false, false },
		{ 12, false, false }, { UINT32_MAX, false, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct g_look g = goroutine(rows[i].status);
		struct unwind_start s;

		assert_int_equal(unwind_start_parked(&g, &s), rows[i].saved);
		if (rows[i].saved) {
			assert_int_equal(s.at.pc, SCHED_PC);
			assert_int_equal(s.at.sp, SCHED_SP);
			assert_int_equal(s.at.kind, PC_RETURN);
			assert_int_equal(s.at.lo, g.stack_lo);
			assert_int_equal(s.at.hi, g.stack_hi);
			assert_int_equal(s.goroutine.pc, 0);
		}
		g.syscall_pc = SYSCALL_PC;
		g.syscall_sp = SYSCALL_SP;
		assert_int_equal(unwind_start_parked(&g, &s), rows[i].in_syscall);
		if (rows[i].in_syscall) {
			assert_int_equal(s.at.pc, SYSCALL_PC);
			assert_int_equal(s.at.sp, SYSCALL_SP);
		}
	}
}

static void test_parked_needs_a_place(void **state)
{
	struct g_look g = goroutine(G_WAITING);
	struct unwind_start s;

	(void)state;
	g.sched_pc = 0;
	assert_false(unwind_start_parked(&g, &s));
	g = goroutine(G_WAITING);
	g.sched_sp = g.stack_hi;
	assert_false(unwind_start_parked(&g, &s));
	g.sched_sp = g.stack_lo - 8;
	assert_false(unwind_start_parked(&g, &s));
	g.sched_sp = g.stack_lo;
	assert_true(unwind_start_parked(&g, &s));
}

struct thread {
	struct walk_fake w;
	struct regs r;
	struct m_look m;
	struct g_look g;
	struct unwind_start s;
};

static void setup(struct thread *t)
{
	*t = (struct thread){ .m = { .m = M, .vdso_known = true } };
	walk_setup(&t->w);
	t->g = goroutine(G_RUNNING);
	t->r.pc = walk_pc(&t->w, WALK_MID, 20);
	t->r.sp = walk_g(5);
}

static bool start(struct thread *t)
{
	return unwind_start_thread(go_fake_runtime(t->w.go), &t->r, &t->m, &t->g, &t->s);
}

static void test_registers(void **state)
{
	struct thread t;

	(void)state;
	setup(&t);
	assert_true(start(&t));
	assert_int_equal(t.s.at.pc, t.r.pc);
	assert_int_equal(t.s.at.sp, t.r.sp);
	assert_int_equal(t.s.at.kind, PC_EXACT);
	assert_int_equal(t.s.at.hi, t.g.stack_hi);
	assert_false(t.s.native_first);
	assert_false(t.s.in_c);
	/* On the thread's stack: no bounds, and the goroutine waits where it left. */
	t.r.sp = walk_m(5);
	assert_true(start(&t));
	assert_int_equal(t.s.at.lo, 0);
	assert_int_equal(t.s.at.hi, 0);
	assert_int_equal(t.s.goroutine.pc, SCHED_PC);
	assert_int_equal(t.s.goroutine.sp, SCHED_SP);
	assert_int_equal(t.s.goroutine.kind, PC_RETURN);
	assert_int_equal(t.s.goroutine.lo, t.g.stack_lo);
	assert_true(t.s.no_vdso);
	assert_false(t.s.between);
	/* A layout without the member says nothing of the vDSO. */
	t.m.vdso_known = false;
	assert_true(start(&t));
	assert_false(t.s.no_vdso);
	t.m.vdso_known = true;
	/* sched.sp is cleared when it comes back: what is left of the rest is stale. */
	t.g.sched_sp = 0;
	assert_true(start(&t));
	assert_int_equal(t.s.resume_pc, SCHED_PC);	/* but while gogo runs it goes there */
	assert_int_equal(t.s.goroutine.pc, 0);
	assert_int_equal(t.s.goroutine.lo, t.g.stack_lo);
	/* Another thread's goroutine by now. */
	t.g = goroutine(G_RUNNING);
	t.g.m = M + 8;
	assert_true(start(&t));
	assert_int_equal(t.s.goroutine.pc, 0);
	assert_int_equal(t.s.resume_pc, 0);
	/* It runs none. */
	assert_true(unwind_start_thread(go_fake_runtime(t.w.go), &t.r, &t.m, NULL, &t.s));
	assert_true(t.s.between);
	t.r.pc = 0;
	assert_false(start(&t));
	walk_teardown(&t.w);
}

/* The stack is being moved, and only one of its bounds is new: what lies between them is not its own. */
static void test_torn_bounds(void **state)
{
	struct thread t;

	(void)state;
	setup(&t);
	t.r.pc = walk_pc(&t.w, WALK_LEAF, 12);
	t.r.sp = t.g.stack_hi + 4096;
	t.g.stack_hi += 3 * 4096;
	assert_true(start(&t));
	assert_int_equal(t.s.at.pc, t.r.pc);
	assert_int_equal(t.s.at.hi, 0);
	assert_int_equal(t.s.goroutine.pc, 0);
	assert_int_equal(t.s.goroutine.hi, 0);
	t.g.stack_hi = t.g.stack_lo;
	assert_true(start(&t));
	assert_int_equal(t.s.at.hi, 0);
	walk_teardown(&t.w);
}

static void test_c_code(void **state)
{
	struct thread t;

	(void)state;
	setup(&t);
	t.r.pc = NATIVE_PC;
	t.r.sp = walk_m(5);
	t.m.ncgo = 1;
	t.g.syscall_pc = SYSCALL_PC;
	t.g.syscall_sp = SYSCALL_SP;
	assert_true(start(&t));
	assert_true(t.s.native_first);
	assert_true(t.s.in_c);
	assert_int_equal(t.s.native_pc, NATIVE_PC);
	assert_int_equal(t.s.at.pc, SYSCALL_PC);
	assert_int_equal(t.s.at.sp, SYSCALL_SP);
	assert_int_equal(t.s.at.kind, PC_RETURN);
	/* C before vDSO. */
	t.m.vdso_pc = 0x3000;
	t.m.vdso_sp = walk_g(7);
	assert_true(start(&t));
	assert_int_equal(t.s.at.pc, SYSCALL_PC);
	/* In Go text between the two worlds: registers, and the goroutine where it called C. */
	t.m.vdso_sp = 0;
	t.r.pc = walk_pc(&t.w, "runtime.asmcgocall", 8);
	assert_true(start(&t));
	assert_false(t.s.native_first);
	assert_int_equal(t.s.at.pc, t.r.pc);
	assert_int_equal(t.s.at.kind, PC_EXACT);
	assert_int_equal(t.s.goroutine.pc, SYSCALL_PC);
	/* A callback into Go has no system call place: C code is not where it stands. */
	t.r.pc = walk_pc(&t.w, WALK_MID, 20);
	t.r.sp = walk_g(5);
	t.g.syscall_sp = 0;
	assert_true(start(&t));
	assert_false(t.s.in_c);
	assert_int_equal(t.s.at.pc, t.r.pc);
	walk_teardown(&t.w);
}

static void test_vdso(void **state)
{
	struct thread t;

	(void)state;
	setup(&t);
	t.m.vdso_pc = walk_pc(&t.w, WALK_BIG, 20);
	t.m.vdso_sp = walk_g(7);
	/* Registers in Go text are not believed: sp may be on the thread's stack already. */
	assert_true(start(&t));
	assert_int_equal(t.s.at.pc, t.m.vdso_pc);
	assert_int_equal(t.s.at.sp, walk_g(7));
	assert_int_equal(t.s.at.kind, PC_RETURN);
	assert_int_equal(t.s.at.hi, t.g.stack_hi);
	assert_false(t.s.native_first);
	assert_false(t.s.no_vdso);
	t.r.pc = NATIVE_PC;
	assert_true(start(&t));
	assert_true(t.s.native_first);
	assert_int_equal(t.s.native_pc, NATIVE_PC);
	assert_int_equal(t.s.at.pc, t.m.vdso_pc);
	/* Called on the thread's own stack. */
	t.m.vdso_sp = walk_m(7);
	assert_true(start(&t));
	assert_int_equal(t.s.at.hi, 0);
	walk_teardown(&t.w);
}

static void test_unknown(void **state)
{
	struct thread t;

	(void)state;
	setup(&t);
	t.r.pc = NATIVE_PC;
	assert_true(start(&t));
	assert_int_equal(t.s.at.kind, PC_NATIVE);
	assert_int_equal(t.s.at.pc, NATIVE_PC);
	assert_false(t.s.native_first);
	assert_true(unwind_start_thread(go_fake_runtime(t.w.go), &t.r, NULL, NULL, &t.s));
	assert_int_equal(t.s.at.kind, PC_NATIVE);
	/* A thread that the runtime does not know yet. */
	t.r.pc = walk_pc(&t.w, WALK_MID, 20);
	assert_true(unwind_start_thread(go_fake_runtime(t.w.go), &t.r, NULL, NULL, &t.s));
	assert_int_equal(t.s.at.kind, PC_EXACT);
	assert_int_equal(t.s.goroutine.pc, 0);
	assert_false(t.s.between);
	assert_false(t.s.no_vdso);
	walk_teardown(&t.w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parked_by_status),
		cmocka_unit_test(test_parked_needs_a_place),
		cmocka_unit_test(test_registers),
		cmocka_unit_test(test_torn_bounds),
		cmocka_unit_test(test_c_code),
		cmocka_unit_test(test_vdso),
		cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
