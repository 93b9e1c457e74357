/*
 * go_check.c: does a layout fit a process? Processes are made by hand in the layout of every
 * version; the check must believe the right row and refuse every row that would misread something,
 * whatever state the process is in: just starting, its main goroutine gone, gs being made, threads
 * ending, memory that lies.
 *
 * The function table is replaced here: the linker takes the functions below in place of the
 * archive's.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "fake/target_fake.h"
#include "go/go_impl.h"

enum {
	MAIN = 0x401000, WORKER = 0x402000, FUNCTION_SIZE = 0x100,
	VARS = 0x500000, ALLGS = 0xc00000, G = 0xd00000, G_STEP = 0x400, M = 0xe00000, M_STEP = 0x1000,
	G0 = 0xf00000, P = 0x1000000, ALLP = 0x1100000, STACK = 0x2000000, STACK_STEP = 0x4000,
	N_G = 32, N_M = 6, TID = 500,
};

bool go_func_find(struct go_runtime *rt, gaddr_t pc, struct go_func *ret)
{
	gaddr_t entry = pc >= WORKER ? WORKER : MAIN;

	(void)rt;
	if (pc < MAIN || pc >= entry + FUNCTION_SIZE)
		return false;
	*ret = (struct go_func){ .entry = entry, .end = entry + FUNCTION_SIZE };
	return true;
}

const char *go_func_name(struct go_runtime *rt, const struct go_func *f)
{
	(void)rt;
	return f->entry == MAIN ? "runtime.main" : "main.worker";
}

/* Nothing of what calibration needs: the verdict on a row must come from the row. */
int32_t go_func_spdelta(struct go_runtime *rt, const struct go_func *f, gaddr_t pc)
{
	(void)rt;
	(void)f;
	(void)pc;
	return -1;
}

bool go_func_by_name(struct go_runtime *rt, const char *name, uint32_t *pos, struct go_func *ret)
{
	(void)rt;
	(void)name;
	(void)pos;
	(void)ret;
	return false;
}

size_t go_code_read(struct go_runtime *rt, gaddr_t pc, void *buf, size_t len)
{
	(void)rt;
	(void)pc;
	(void)buf;
	(void)len;
	return 0;
}

const char *go_wait_reason(struct go_runtime *rt, uint8_t reason)
{
	(void)rt;
	return reason < 10 ? "select" : NULL;
}

const char *go_global_name(enum go_global g)
{
	static const char *const names[] = { [GO_ALLGLEN] = "allglen", [GO_ALLGPTR] = "allgptr",
					     [GO_ALLM] = "allm" };

	return names[g];
}

/* ---- a process ---- */

struct world {
	struct target *t;
	struct go_process process;
	struct go_runtime *rt;
	struct go_layout real;	/* what its memory is written in */
};

static void poke(struct world *w, gaddr_t at, enum go_field f, uint64_t value)
{
	if (go_has(&w->real, f))
		target_fake_poke(w->t, at + (gaddr_t)w->real.f[f].offset, &value, w->real.f[f].size);
}

static void poke_global(struct world *w, enum go_global g, uint64_t value)
{
	target_fake_poke_u64(w->t, w->rt->globals[g].addr, value);
}

static gaddr_t g_at(int i)
{
	return G + (gaddr_t)i * G_STEP;
}

static gaddr_t m_at(int i)
{
	return M + (gaddr_t)i * M_STEP;
}

static void write_g(struct world *w, int i)
{
	gaddr_t lo = STACK + (gaddr_t)i * STACK_STEP;

	poke(w, g_at(i), GO_G_STACK_LO, lo);
	poke(w, g_at(i), GO_G_STACK_HI, lo + 0x2000);
	poke(w, g_at(i), GO_G_SCHED_SP, lo + 0x1f00);
	poke(w, g_at(i), GO_G_SCHED_PC, WORKER + 0x40);
	poke(w, g_at(i), GO_G_SCHED_G, g_at(i));
	poke(w, g_at(i), GO_G_ATOMICSTATUS, i % 3 ? G_WAITING : G_RUNNABLE);
	poke(w, g_at(i), GO_G_GOID, 1 + 5 * (uint64_t)i);
	poke(w, g_at(i), GO_G_WAITREASON, 5);
	poke(w, g_at(i), GO_G_PARENTGOID, i ? 1 : 0);
	poke(w, g_at(i), GO_G_GOPC, MAIN + 0x33);
	poke(w, g_at(i), GO_G_STARTPC, i ? WORKER : MAIN);
	target_fake_poke_u64(w->t, ALLGS + (gaddr_t)i * 8, g_at(i));
}

/* Ms as the list has them: the newest first, m0 last. */
static void write_m(struct world *w, int i)
{
	gaddr_t g0 = G0 + (gaddr_t)i * G_STEP;

	poke(w, m_at(i), GO_M_G0, g0);
	poke(w, g0, GO_G_M, m_at(i));
	poke(w, m_at(i), GO_M_PROCID, TID + (uint64_t)(N_M - 1 - i));
	poke(w, m_at(i), GO_M_ID, (uint64_t)(N_M - 1 - i));
	poke(w, m_at(i), GO_M_P, i % 2 ? P + (gaddr_t)i * 64 : 0);
	poke(w, m_at(i), GO_M_CURG, i % 2 ? g_at(N_G - 1 - i) : 0);
	target_fake_poke(w->t, P + (gaddr_t)i * 64, &i, 4);
	target_fake_poke_u64(w->t, ALLP + (gaddr_t)i * 8, P + (gaddr_t)i * 64);
	poke(w, m_at(i), GO_M_ALLLINK, i + 1 < N_M ? m_at(i + 1) : 0);
}

static void write_process(struct world *w)
{
	gaddr_t sched = w->rt->globals[GO_SCHED].addr;

	target_fake_add(w->t, VARS, NULL, 0x10000);
	target_fake_add(w->t, ALLGS, NULL, N_G * 8);
	target_fake_add(w->t, G, NULL, N_G * G_STEP);
	target_fake_add(w->t, M, NULL, N_M * M_STEP);
	target_fake_add(w->t, G0, NULL, N_M * G_STEP);
	target_fake_add(w->t, P, NULL, N_M * 64);
	target_fake_add(w->t, ALLP, NULL, N_M * 8);
	for (int i = 0; i < N_G; i++)
		write_g(w, i);
	for (int i = 0; i < N_M; i++)
		write_m(w, i);
	for (int i = 0; i < N_M; i++)
		target_fake_add_tid(w->t, 9000 + i, TID + i);
	/* A thread that is not the first waits in Go code: the runtime is up. */
	target_fake_set_pid(w->t, 9000, 1);
	target_fake_task(w->t, 9002, "1 2 3\n", "202 0x0 0x80 0x0 0x0 0x0 0x0 0x7000 0x402010\n");
	poke_global(w, GO_ALLGLEN, N_G);
	poke_global(w, GO_ALLGPTR, ALLGS);
	poke_global(w, GO_ALLM, M);
	poke_global(w, GO_ALLP, ALLP);
	poke(w, sched, GO_SCHED_GOIDGEN, 1000);
	poke(w, sched, GO_SCHED_MNEXT, N_M + 2);
	poke(w, sched, GO_SCHED_NMFREED, 2);
}

/* A process whose memory is of one version, looked at with the row of another. */
static void setup(struct world *w, int memory_minor, int row_minor)
{
	assert_null(target_fake_create(&w->t));
	w->process = (struct go_process){ .target = w->t, .options = { .strict = true } };
	w->rt = calloc(1, sizeof(*w->rt));
	assert_non_null(w->rt);
	w->rt->process = &w->process;
	assert_true(go_layout_row(memory_minor, &w->real));
	assert_true(go_layout_row(row_minor, &w->rt->layout));
	w->rt->has_layout = true;
	w->rt->build.minor = row_minor;
	strcpy(w->rt->build.version, "go1.x");
	for (int g = 0; g < GO_GLOBAL_COUNT; g++)
		w->rt->globals[g] = (struct go_global_at){ VARS + (gaddr_t)g * 0x1000, GO_SOURCE_CODE };
	write_process(w);
}

static void teardown(struct world *w)
{
	free(w->rt);
	target_close(w->t);
}

static void expect_refused(struct world *w, const char *why)
{
	_cleanup_error_ struct error *err = go_runtime_check(w->rt);

	if (!err)
		fail_msg("memory is believed to fit the row of go1.%d", w->rt->build.minor);
	assert_int_equal(err->kind, ERROR_UNSUPPORTED);
	assert_non_null(err->why);
	if (!strstr(err->why, why))
		fail_msg("\"%s\" does not say \"%s\"", err->why, why);
	assert_false(w->rt->checked);
	assert_int_equal(w->rt->caps, 0);
}

static void expect_believed(struct world *w)
{
	struct error *err = go_runtime_check(w->rt);

	if (err)
		fail_msg("%s: %s", err->what, err->why ? err->why : "");
	assert_true(w->rt->checked);
	assert_true(w->rt->caps & GO_CAP_G_LAYOUT);
	assert_true(w->rt->caps & GO_CAP_ALLGS);
	assert_true(w->rt->caps & GO_CAP_ALLM);
}

static void expect_not_up(struct world *w)
{
	assert_ptr_equal(go_runtime_check(w->rt), &err_end);
	assert_false(w->rt->checked);
}

/* ---- the right row, and all wrong ones ---- */

/* Rows that differ in one of these misread what the check looks at. */
static bool rows_differ(int a, int b)
{
	static const enum go_field f[] = {
		GO_G_ATOMICSTATUS, GO_G_GOID, GO_G_STARTPC, GO_M_PROCID, GO_M_ALLLINK, GO_M_ID, GO_M_CURG,
		GO_M_P,
	};
	struct go_layout x, y;

	assert_true(go_layout_row(a, &x));
	assert_true(go_layout_row(b, &y));
	for (size_t i = 0; i < sizeof(f) / sizeof(f[0]); i++)
		if (x.f[f[i]].offset != y.f[f[i]].offset)
			return true;
	return false;
}

static void test_every_row_against_every_memory(void **state)
{
	int n, refused = 0;
	const int *minors = go_layout_minors(&n);

	(void)state;
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++) {
			struct world w;

			setup(&w, minors[i], minors[j]);
			if (rows_differ(minors[i], minors[j])) {
				expect_refused(&w, "");
				refused++;
			} else {
				expect_believed(&w);
			}
			teardown(&w);
		}
	assert_true(refused > n);
}

static void test_caps_of_versions(void **state)
{
	enum {
		ALL = GO_CAP_PCLNTAB | GO_CAP_G_LAYOUT | GO_CAP_ALLGS | GO_CAP_ALLM | GO_CAP_LABELS |
		      GO_CAP_WAITREASON_NAMES | GO_CAP_SCHED,
		SEQ = GO_CAP_TRACKINGSEQ, PARENT = GO_CAP_PARENT_GOID,
	};
	static const struct {
		int minor;
		uint32_t caps;
	} v[] = {
		{ 15, ALL }, { 19, ALL | SEQ }, { 21, ALL | SEQ | PARENT },
		{ 25, ALL | SEQ | PARENT }, { 26, ALL | SEQ | PARENT }, { 27, ALL | SEQ | PARENT },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct world w;

		setup(&w, v[i].minor, v[i].minor);
		expect_believed(&w);
		assert_int_equal(w.rt->caps, v[i].caps);
		teardown(&w);
	}
}

/* ---- the life of a process ---- */

static void test_not_up_yet(void **state)
{
	struct world w;

	(void)state;
	setup(&w, 26, 26);
	poke_global(&w, GO_ALLGLEN, 0);
	expect_not_up(&w);			/* at exec */
	poke_global(&w, GO_ALLGLEN, 2);
	poke_global(&w, GO_ALLM, 0);
	expect_not_up(&w);
	poke_global(&w, GO_ALLM, M);
	poke(&w, g_at(0), GO_G_ATOMICSTATUS, G_DEAD);
	poke(&w, g_at(0), GO_G_GOID, 0);
	poke(&w, g_at(0), GO_G_STARTPC, 0);
	poke(&w, g_at(0), GO_G_SCHED_G, 0);
	expect_not_up(&w);			/* newproc of runtime.main is at work */
	write_g(&w, 0);
	poke(&w, m_at(N_M - 1), GO_M_PROCID, 0);
	expect_not_up(&w);			/* m0 has not begun to schedule */
	write_m(&w, N_M - 1);
	poke_global(&w, GO_ALLM, m_at(N_M - 1));
	expect_not_up(&w);			/* sysmon has no m yet */
	poke_global(&w, GO_ALLGLEN, 4);
	expect_refused(&w, "alone");		/* but before it has one there are no other goroutines */
	poke_global(&w, GO_ALLM, M);
	expect_believed(&w);
	teardown(&w);
}

/* runtime.Goexit in main.main: its g lies dead, then serves another goroutine. */
static void test_main_goroutine_has_ended(void **state)
{
	struct world w;

	(void)state;
	setup(&w, 25, 25);
	poke(&w, g_at(0), GO_G_ATOMICSTATUS, G_DEAD);
	poke(&w, g_at(0), GO_G_STACK_LO, 0);
	poke(&w, g_at(0), GO_G_STACK_HI, 0);
	expect_believed(&w);
	poke(&w, g_at(0), GO_G_STARTPC, WORKER);
	w.rt->checked = false;
	w.rt->caps = 0;
	expect_refused(&w, "goroutine 1 does not start in runtime.main");
	write_g(&w, 0);
	poke(&w, g_at(0), GO_G_GOID, 777);
	poke(&w, g_at(0), GO_G_STARTPC, WORKER);
	expect_believed(&w);
	teardown(&w);
}

/* A g is in allgs before anything else of it is set. A few such at a time are life. */
static void test_goroutines_being_made(void **state)
{
	struct world w;

	(void)state;
	setup(&w, 19, 19);
	for (int i = 10; i < 25; i++) {
		poke(&w, g_at(i), GO_G_ATOMICSTATUS, G_DEAD);
		poke(&w, g_at(i), GO_G_GOID, 0);
		poke(&w, g_at(i), GO_G_SCHED_G, 0);
		poke(&w, g_at(i), GO_G_STACK_HI, 0);
	}
	poke(&w, g_at(5), GO_G_GOID, 0);	/* up to 1.20 runnable a moment before it has a number */
	expect_believed(&w);
	teardown(&w);
}

static void test_threads_come_and_go(void **state)
{
	struct world w;

	(void)state;
	setup(&w, 26, 26);
	target_fake_remove_tid(w.t, 9000);	/* m0: a raw exit of the first thread */
	target_fake_remove_tid(w.t, 9001);	/* an m without a P */
	poke(&w, m_at(0), GO_M_PROCID, 0);	/* being made */
	poke(&w, m_at(0), GO_M_G0, 0);
	poke(&w, m_at(1), GO_M_P, 0);
	expect_believed(&w);
	teardown(&w);
}

/* ---- memory that is something else ---- */

static void test_odd_goroutines(void **state)
{
	static const struct {
		enum go_field f;
		uint64_t value;
		const char *why;
	} v[] = {
		{ GO_G_ATOMICSTATUS, 5, "status" }, { GO_G_ATOMICSTATUS, 0x7fffffff, "status" },
		{ GO_G_GOID, 6, "goid" }, { GO_G_GOID, 1ull << 60, "goid" }, { GO_G_STACK_HI, 5, "stack" },
		{ GO_G_STACK_LO, UINT64_MAX, "stack" }, { GO_G_STARTPC, WORKER + 1, "start" },
		{ GO_G_STARTPC, 0x123, "start" }, { GO_G_SCHED_G, 0xdead, "itself" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct world w;

		setup(&w, 24, 24);
		for (int g = 2; g < 2 + N_G / 8; g++)
			poke(&w, g_at(g), v[i].f, v[i].value);
		expect_believed(&w);		/* one in eight may be odd */
		teardown(&w);
		setup(&w, 24, 24);
		for (int g = 2; g < 10; g++)
			poke(&w, g_at(g), v[i].f, v[i].value);
		expect_refused(&w, v[i].why);
		teardown(&w);
	}
}

static void test_lists_that_lie(void **state)
{
	struct world w;

	(void)state;
	setup(&w, 23, 23);
	poke_global(&w, GO_ALLGLEN, 1ull << 40);
	expect_refused(&w, "allglen");
	poke_global(&w, GO_ALLGLEN, N_G);
	poke_global(&w, GO_ALLGPTR, 0x99990000);
	expect_refused(&w, "allgs");
	poke_global(&w, GO_ALLGPTR, ALLGS);
	target_fake_poke_u64(w.t, ALLGS + 8, 0x99990000);
	expect_refused(&w, "allgs[1]");
	write_g(&w, 1);
	poke_global(&w, GO_ALLM, 0x99990000);
	expect_refused(&w, "allm");
	poke_global(&w, GO_ALLM, M);
	poke(&w, m_at(3), GO_M_ALLLINK, m_at(1));
	expect_refused(&w, "allm");		/* a circle ends */
	write_m(&w, 3);
	poke(&w, G0, GO_G_M, m_at(1));
	expect_refused(&w, "g0");
	write_m(&w, 0);
	poke(&w, m_at(1), GO_M_CURG, G + 8);
	expect_refused(&w, "no g");
	write_m(&w, 1);
	poke(&w, m_at(1), GO_M_P, P + 8);
	expect_refused(&w, "no p");
	write_m(&w, 1);
	poke(&w, m_at(3), GO_M_ALLLINK, 0);
	expect_refused(&w, "not at m 0");	/* a list that ends too early */
	write_m(&w, 3);
	expect_believed(&w);
	teardown(&w);
}

static void test_procids_that_are_no_threads(void **state)
{
	struct world w;

	(void)state;
	setup(&w, 22, 22);
	for (int i = 0; i < N_M; i++)
		poke(&w, m_at(i), GO_M_PROCID, 100000 + (uint64_t)i);
	expect_refused(&w, "procid");
	for (int i = 0; i < N_M; i++)
		poke(&w, m_at(i), GO_M_PROCID, (1ull << 32) + TID + (uint64_t)i);
	expect_refused(&w, "procid");		/* not by its lower half */
	for (int i = 0; i < N_M; i++) {
		write_m(&w, i);
		if (i % 2)			/* those that hold a P */
			poke(&w, m_at(i), GO_M_PROCID, 100000 + (uint64_t)i);
	}
	expect_refused(&w, "procid");
	write_m(&w, 1);
	write_m(&w, 3);
	expect_believed(&w);			/* one thread may just have ended */
	teardown(&w);
}

static void test_sched_that_does_not_agree(void **state)
{
	static const struct {
		enum go_field f;
		uint64_t value;
	} v[] = {
		{ GO_SCHED_GOIDGEN, 3 }, { GO_SCHED_GOIDGEN, UINT64_MAX }, { GO_SCHED_MNEXT, 5000 },
		{ GO_SCHED_MNEXT, 0 }, { GO_SCHED_NMFREED, UINT64_MAX },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct world w;

		setup(&w, 27, 27);
		poke(&w, w.rt->globals[GO_SCHED].addr, v[i].f, v[i].value);
		expect_believed(&w);
		assert_false(w.rt->caps & GO_CAP_SCHED);
		teardown(&w);
	}
}

/* At its first reading the length is torn, at the next it is right. */
struct tear {
	gaddr_t at;
	int times;
};

static void tear(void *ctx, struct target *t, const struct span *s)
{
	struct tear *x = ctx;

	if (s->addr == x->at)
		target_fake_poke_u64(t, x->at, x->times-- > 0 ? UINT64_MAX : N_G);
}

static void test_a_torn_look_is_repeated(void **state)
{
	struct world w;

	(void)state;
	setup(&w, 26, 26);
	struct tear x = { w.rt->globals[GO_ALLGLEN].addr, 2 };
	target_fake_on_read(w.t, tear, &x);
	expect_believed(&w);
	x.times = 1000;
	w.rt->checked = false;
	w.rt->caps = 0;
	expect_refused(&w, "allglen");
	teardown(&w);
}

static void test_what_cannot_be_checked(void **state)
{
	static const enum go_global needed[] = { GO_ALLGLEN, GO_ALLGPTR, GO_ALLM };
	struct error *err;
	struct world w;

	(void)state;
	setup(&w, 26, 26);
	for (size_t i = 0; i < 3; i++) {
		gaddr_t addr = w.rt->globals[needed[i]].addr;

		w.rt->globals[needed[i]].addr = 0;
		err = go_runtime_check(w.rt);
		assert_int_equal(err->kind, ERROR_UNSUPPORTED);
		assert_non_null(strstr(err->why, go_global_name(needed[i])));
		error_free(err);
		w.rt->globals[needed[i]].addr = addr;
	}
	w.rt->layout.f[GO_G_GOID].offset = -1;
	err = go_runtime_check(w.rt);
	assert_int_equal(err->kind, ERROR_UNSUPPORTED);
	error_free(err);
	w.process.target = NULL;
	err = go_runtime_check(w.rt);
	assert_int_equal(err->kind, ERROR_NO_PROCESS);
	error_free(err);
	teardown(&w);
}

static void test_process_that_ends(void **state)
{
	struct world w;

	(void)state;
	setup(&w, 26, 26);
	target_fake_set_life(w.t, TARGET_ENDED);
	assert_ptr_equal(go_runtime_check(w.rt), &err_gone);
	target_fake_set_life(w.t, TARGET_EXECED);
	assert_ptr_equal(go_runtime_check(w.rt), &err_gone);
	teardown(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_row_against_every_memory),
		cmocka_unit_test(test_caps_of_versions),
		cmocka_unit_test(test_not_up_yet),
		cmocka_unit_test(test_main_goroutine_has_ended),
		cmocka_unit_test(test_goroutines_being_made),
		cmocka_unit_test(test_threads_come_and_go),
		cmocka_unit_test(test_odd_goroutines),
		cmocka_unit_test(test_lists_that_lie),
		cmocka_unit_test(test_procids_that_are_no_threads),
		cmocka_unit_test(test_sched_that_does_not_agree),
		cmocka_unit_test(test_a_torn_look_is_repeated),
		cmocka_unit_test(test_what_cannot_be_checked),
		cmocka_unit_test(test_process_that_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
