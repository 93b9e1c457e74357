/*
 * sample_hold_late.c: whose stack it was, of a thread that has gone on since: what the stack pointer proves,
 * and nothing where it proves nothing. Handmade memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "fake/target_fake.h"
#include "sample/sample_impl.h"

enum {
	MINOR = 26, PROCID = 4711,
	M = 0x100000, OTHER_M = 0x140000, G = 0x110000, OTHER = 0x120000, UNMAPPED = 0x900000,
	STACK = 0x1000000, OTHER_STACK = 0x2000000, SYSTEM = 0x3000000, SIZE = 8192,
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

static void put_g(struct world *w, gaddr_t g, uint64_t goid, gaddr_t stack, gaddr_t m)
{
	put(w, g, GO_G_GOID, goid);
	put(w, g, GO_G_STACK_LO, stack);
	put(w, g, GO_G_STACK_HI, stack + SIZE);
	put(w, g, GO_G_M, m);
	put(w, g, GO_G_ATOMICSTATUS, m ? G_RUNNING : G_WAITING);
	put(w, g, GO_G_SCHED_SP, stack + SIZE - 64);
	put(w, g, GO_G_SCHED_PC, 0x401000);
	put(w, g, GO_G_SYSCALLSP, stack + SIZE - 64);
	put(w, g, GO_G_SYSCALLPC, 0x401000);
}

static int setup(void **state)
{
	struct world *w = test_calloc(1, sizeof(*w));
	static const gaddr_t structs[] = { M, OTHER_M, G, OTHER };
	struct reader r;

	assert_null(target_fake_create(&w->target));
	assert_true(go_layout_row(MINOR, &w->layout));
	for (size_t i = 0; i < 4; i++)
		target_fake_add(w->target, structs[i], NULL, 4096);
	put(w, M, GO_M_PROCID, PROCID);
	put(w, M, GO_M_CURG, G);
	put(w, M, GO_M_VDSOSP, STACK + 64);
	put(w, M, GO_M_VDSOPC, 0x401000);
	put_g(w, G, 17, STACK, M);
	put_g(w, OTHER, 18, OTHER_STACK, 0);
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

struct found {
	bool m, g;
	struct m_look m_look;
	struct g_look g_look;
	uint64_t mark;
	bool labels;
};

/* `in_register`: what stands where Go code holds its goroutine. */
static struct found hold(struct world *w, gaddr_t sp, gaddr_t in_register)
{
	const struct capture_request rq = { .hint = { [HINT_M] = M, [HINT_PROCID] = PROCID } };
	const struct arch *arch = arch_host();
	const struct thread th = { .m = M, .procid = PROCID };
	struct found ret = { 0 };

	memset(&w->c, 0, sizeof(w->c));
	w->c.regs.sp = sp;
	memcpy(w->c.regs.raw + arch->dwarf_raw[arch->dwarf_g], &in_register, sizeof(in_register));
	w->c.n_views = 1;
	w->c.views[0] = (struct mem_view){ .low = sp, .len = 64, .bytes = w->c.bytes };
	hold_late_hook(&w->plan, w->target, &rq, &w->c);
	assert_int_equal(w->c.n_views, 1);
	assert_int_equal(w->c.views[0].low, sp);
	ret.m = hold_read(&w->plan, &w->c, &th, &ret.m_look, &ret.g_look, &ret.g);
	ret.labels = hold_read_mark(&w->plan, &w->c, &ret.mark);
	return ret;
}

static void is(const struct found *f, uint64_t goid)
{
	assert_true(f->m && f->g);
	assert_int_equal(f->g_look.goid, goid);
	assert_int_equal(f->m_look.m, M);
	assert_int_equal(f->g_look.status, G_RUNNING);
	/* Where it left its stack is of now. */
	assert_true(!f->g_look.sched_sp && !f->g_look.sched_pc && !f->g_look.syscall_sp && !f->g_look.syscall_pc);
	assert_true(!f->m_look.vdso_sp && !f->m_look.vdso_pc);
	assert_int_equal(hold_read_callbacks(&(struct capture){ 0 }), 0);
	assert_false(f->labels);	/* of now, not of then */
}

static void nobody(const struct found *f)
{
	assert_false(f->m || f->g || f->labels);
}

static void the_same_goroutine(void **state)
{
	static const gaddr_t sps[] = { STACK, STACK + 8, STACK + SIZE - 8 };
	struct world *w = *state;

	for (size_t i = 0; i < 3; i++) {
		struct found f = hold(w, sps[i], 0);

		is(&f, 17);
	}
	/* In assembly the register holds anything. */
	struct found f = hold(w, STACK + 64, OTHER);
	is(&f, 17);
}

/* It has parked since, or moved on to another thread; the register knew it. */
static void another_by_now(void **state)
{
	struct world *w = *state;
	struct found f = hold(w, OTHER_STACK + 64, OTHER);

	is(&f, 18);
	put(w, OTHER, GO_G_M, OTHER_M);
	f = hold(w, OTHER_STACK + 64, OTHER);
	is(&f, 18);
	/* Nothing knows it: not the one that runs now. */
	f = hold(w, OTHER_STACK + 64, 0);
	nobody(&f);
}

/* On the system stack, in C code: which goroutine it was then, nothing tells. */
static void off_all_stacks(void **state)
{
	static const gaddr_t sps[] = { SYSTEM + 64, STACK - 8, STACK + SIZE, OTHER_STACK + SIZE, 0, UINT64_MAX };
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(sps) / sizeof(*sps); i++) {
		struct found f = hold(w, sps[i], G);

		nobody(&f);
		f = hold(w, sps[i], OTHER);
		nobody(&f);
	}
}

/* What stands in the register need not be a goroutine. */
static void any_register(void **state)
{
	static const gaddr_t values[] = { 0, 1, UNMAPPED, OTHER + 1, OTHER + 8, M, UINT64_MAX, STACK };
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		struct found f = hold(w, OTHER_STACK + 64, values[i]);

		nobody(&f);
	}
}

/* Bounds of an instant in which a stack is moved, and a struct that is nobody's. */
static void no_goroutine_of_its_own(void **state)
{
	struct world *w = *state;
	struct found f;

	put(w, OTHER, GO_G_STACK_LO, OTHER_STACK - 4096);
	f = hold(w, OTHER_STACK + 64, OTHER);
	nobody(&f);
	put_g(w, OTHER, 0, OTHER_STACK, 0);
	f = hold(w, OTHER_STACK + 64, OTHER);
	nobody(&f);
	/* m.curg of an instant in which it goes: it has another m. */
	put(w, G, GO_G_M, OTHER_M);
	f = hold(w, STACK + 64, 0);
	nobody(&f);
}

/* The m is another thread's by now. */
static void not_its_m(void **state)
{
	struct world *w = *state;
	struct found f;

	put(w, M, GO_M_PROCID, PROCID + 1);
	f = hold(w, STACK + 64, G);
	nobody(&f);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_same_goroutine),
		T(another_by_now),
		T(off_all_stacks),
		T(any_register),
		T(no_goroutine_of_its_own),
		T(not_its_m),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
