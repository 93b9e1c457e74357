/*
 * go_calibrate.c: members found in a process without any row. Processes are made by hand in the
 * layouts of all versions, and in layouts that never were, with members in any order. What is found
 * must be right, always; what cannot be known must stay unknown; and in the layouts of real versions
 * everything that a process shows must be found.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "go_calibrate_world.h"

const char *go_global_name(enum go_global g)
{
	(void)g;
	return "a variable";
}

/* A file without debug information. */
struct error *go_layout_dwarf(struct image *img, struct go_layout *ret)
{
	(void)img;
	(void)ret;
	return &err_notfound;
}

uint8_t go_wrapper_id_shown(struct go_runtime *rt)
{
	(void)rt;
	return UINT8_MAX;
}

void go_layout_forget(struct go_layout *l)
{
	for (int f = 0; f < GO_FIELD_COUNT; f++)
		if (f < GO_MD_SIZE || f > GO_MD_NEXT)
			l->f[f] = (struct go_field_at){ .offset = -1 };
}

/* ---- judging ---- */

static const enum go_field core[] = {
	GO_G_STACK_LO, GO_G_STACK_HI, GO_G_M, GO_G_SCHED_SP, GO_G_SCHED_PC, GO_G_SCHED_G, GO_G_ATOMICSTATUS,
	GO_G_GOID, GO_G_STARTPC, GO_M_G0, GO_M_PROCID, GO_M_CURG, GO_M_ALLLINK,
};
static const enum go_field more[] = { GO_G_SCHED_BP, GO_G_GOPC, GO_G_WAITREASON, GO_G_LABELS, GO_G_SYSCALLSP,
				      GO_G_SYSCALLPC, GO_M_GSIGNAL, GO_M_ID };

enum { N_CORE = sizeof(core) / sizeof(core[0]), N_MORE = sizeof(more) / sizeof(more[0]) };

static bool is_judged(int f)
{
	return f < GO_MD_SIZE && f != GO_G_SIZE && f != GO_M_SIZE;
}

/* Nothing wrong, whatever was found. */
static void expect_truth(const struct world *w, const struct go_layout *found)
{
	for (int f = 0; f < GO_FIELD_COUNT; f++)
		if (is_judged(f) && go_has(found, f) && found->f[f].offset != w->real.f[f].offset)
			fail_msg("member %d is said to stand at %d, and stands at %d", f, found->f[f].offset,
				 w->real.f[f].offset);
}

static void expect_found(const struct go_layout *found, const enum go_field *v, size_t n, int minor)
{
	for (size_t i = 0; i < n; i++)
		if (!go_has(found, v[i]))
			fail_msg("go1.%d: member %d was not found", minor, v[i]);
}

static char last_why[160];

static bool calibrate(struct world *w, struct go_layout *ret)
{
	char why[160] = "";

	*ret = w->rt->layout;
	if (go_calibrate(w->rt, ret, why, sizeof(why)) == FITS)
		return true;
	strcpy(last_why, why);
	return false;
}

static struct go_layout row(int minor)
{
	struct go_layout l;

	assert_true(go_layout_row(minor, &l));
	return l;
}

/* What the code of a program of this layout says. */
static void true_claims(const struct go_layout *l)
{
	no_claims();
	claims.g_m = l->f[GO_G_M].offset;
	claims.m_g0 = l->f[GO_M_G0].offset;
	claims.m_gsignal = l->f[GO_M_GSIGNAL].offset;
	claims.m_curg = claims.vdso_curg = l->f[GO_M_CURG].offset;
	claims.m_vdso_sp = l->f[GO_M_VDSOSP].offset;
	claims.m_vdso_pc = l->f[GO_M_VDSOPC].offset;
	claims.g_labels = l->f[GO_G_LABELS].offset;
	claims.pairs[0] = l->f[GO_G_SCHED_SP].offset;
	claims.pairs[1] = l->f[GO_G_SYSCALLSP].offset;
	claims.n_pairs = 2;
}

/* ---- real layouts ---- */

static void test_every_version(void **state)
{
	int n;
	const int *minors = go_layout_minors(&n);

	(void)state;
	for (int i = 0; i < n; i++)
		for (uint64_t seed = 1; seed <= 20; seed++) {
			struct go_layout real = row(minors[i]), found;
			struct world w;

			no_claims();
			world_open(&w, &real, seed, false);
			if (!calibrate(&w, &found))
				fail_msg("go1.%d: %s", minors[i], last_why);
			expect_truth(&w, &found);
			expect_found(&found, core, N_CORE, minors[i]);
			expect_found(&found, more, N_MORE, minors[i]);
			for (int f = 0; f < GO_FIELD_COUNT; f++)
				if (is_judged(f) && go_has(&found, f))
					assert_int_equal(found.f[f].source, GO_SOURCE_CALIBRATED);
			world_close(&w);
		}
}

/* Nothing runs, nothing is in a system call: memory shows too little. The code shows the rest. */
static void test_idle_process(void **state)
{
	static const enum go_field by_code[] = { GO_M_CURG, GO_M_VDSOSP, GO_M_VDSOPC, GO_G_LABELS,
						 GO_G_SYSCALLSP, GO_G_SYSCALLPC };
	int n;
	const int *minors = go_layout_minors(&n);

	(void)state;
	for (int i = 0; i < n; i++) {
		struct go_layout real = row(minors[i]), found;
		struct world w;

		no_claims();
		world_open(&w, &real, 7, true);
		assert_false(calibrate(&w, &found));	/* m.curg */
		expect_truth(&w, &found);
		true_claims(&real);
		assert_true(calibrate(&w, &found));
		expect_truth(&w, &found);
		expect_found(&found, by_code, sizeof(by_code) / sizeof(by_code[0]), minors[i]);
		world_close(&w);
	}
}

/* A claim that memory contradicts is not believed; the other members are found all the same. */
static void test_claims_that_are_wrong(void **state)
{
	struct go_layout real = row(26), found;
	struct world w;

	(void)state;
	true_claims(&real);
	claims.m_curg = real.f[GO_M_PROCID].offset;
	world_open(&w, &real, 3, true);
	assert_false(calibrate(&w, &found));
	true_claims(&real);
	claims.g_labels = real.f[GO_G_STARTPC].offset;
	claims.pairs[1] = real.f[GO_G_GOPC].offset;
	claims.vdso_curg += 8;
	assert_true(calibrate(&w, &found));
	expect_truth(&w, &found);
	assert_false(go_has(&found, GO_G_LABELS));
	assert_false(go_has(&found, GO_G_SYSCALLSP));
	assert_false(go_has(&found, GO_M_VDSOSP));
	world_close(&w);
}

/* ---- layouts that never were ---- */

struct slots {
	bool taken[M_SIZE];
};

/* A free place of this size, aligned to it. */
static int32_t place(struct world *w, struct slots *s, uint32_t size, uint32_t align, uint32_t limit)
{
	for (;;) {
		uint32_t o = (uint32_t)(world_random(w) % (limit / align)) * align, i = 0;

		while (i < size && o + size <= limit && !s->taken[o + i])
			i++;
		if (i < size)
			continue;
		memset(s->taken + o, true, size);
		return (int32_t)o;
	}
}

/* Members of [first, last] anywhere below the limit; stack.lo and hi together, as they are one member. */
static void shuffle(struct world *w, struct go_layout *l, int first, int last, uint32_t limit)
{
	struct slots s = { 0 };

	for (int f = first; f <= last; f++) {
		struct go_field_at *at = &l->f[f];

		if (at->offset < 0 || f == GO_G_STACK_HI)
			continue;
		if (f == GO_G_STACK_LO) {
			at->offset = place(w, &s, 16, 8, limit);
			l->f[GO_G_STACK_HI].offset = at->offset + 8;
		} else {
			at->offset = place(w, &s, at->size, at->size, limit);
		}
	}
}

static void test_any_order(void **state)
{
	enum { WORLDS = 1500 };
	int n, whole = 0;
	const int *minors = go_layout_minors(&n);

	(void)state;
	for (uint64_t seed = 1; seed <= WORLDS; seed++) {
		struct world dice = { .random = seed * 77 + 1 }, w;
		struct go_layout real = row(minors[seed % (uint64_t)n]), found;

		shuffle(&dice, &real, GO_G_STACK_LO, GO_G_BUBBLE, G_SIZE);
		shuffle(&dice, &real, GO_M_G0, GO_M_ISEXTRA, 504);
		no_claims();
		world_open(&w, &real, seed, seed % 3 == 0);
		whole += calibrate(&w, &found);
		expect_truth(&w, &found);
		world_close(&w);
	}
	/* Two thirds of them show something that runs; nearly all of those must be found. */
	assert_in_range(whole, WORLDS * 6 / 10, WORLDS);
}

/* One member moved on by a word, and all behind it, as a patch release would do it. */
static void test_one_member_more(void **state)
{
	int n;
	const int *minors = go_layout_minors(&n);

	(void)state;
	no_claims();
	for (int i = 0; i < n; i++)
		for (int f = GO_G_M; f <= GO_M_ISEXTRA; f++) {
			struct go_layout real = row(minors[i]), found;
			int last = f < GO_M_SIZE ? GO_G_BUBBLE : GO_M_ISEXTRA;
			int32_t at = real.f[f].offset;
			struct world w;

			if (at < 0 || f == GO_G_SIZE || f == GO_M_SIZE)
				continue;
			for (int k = f < GO_M_SIZE ? GO_G_STACK_LO : GO_M_G0; k <= last; k++)
				if (real.f[k].offset >= at)
					real.f[k].offset += 8;
			world_open(&w, &real, (uint64_t)f, false);
			if (!calibrate(&w, &found))
				fail_msg("go1.%d: %s", minors[i], last_why);
			expect_truth(&w, &found);
			expect_found(&found, core, N_CORE, minors[i]);
			world_close(&w);
		}
}

/* ---- the whole way: the row of another version, then this ---- */

static void test_rows_of_other_versions(void **state)
{
	int n, settled = 0;
	const int *minors = go_layout_minors(&n);

	(void)state;
	for (int i = 0; i < n; i++)
		for (int k = 0; k < n; k++) {
			struct go_layout real = row(minors[i]);
			struct world w;

			true_claims(&real);
			world_open(&w, &real, 5, false);
			assert_true(go_layout_row(minors[k], &w.rt->layout));
			w.rt->has_layout = true;
			w.rt->build.minor = minors[k];
			assert_null(go_runtime_check(w.rt));
			assert_null(w.rt->restricted);
			if (!w.rt->has_layout) {	/* the row did not fit */
				expect_truth(&w, &w.rt->layout);
				assert_true(w.rt->caps & GO_CAP_LABELS);
				assert_true(w.rt->caps & GO_CAP_WAITREASON_NAMES);
				assert_false(w.rt->caps & GO_CAP_TRACKINGSEQ);
				assert_int_equal(w.rt->globals[GO_SCHED].addr, 0);
				settled++;
			}
			world_close(&w);
		}
	assert_true(settled > n * n / 2);
}

/* Claims of the code that lead far out of an m cost what they claim, and nothing else. */
static void test_far_claims(void **state)
{
	static const int32_t far[] = { 1 << 20, 4000, GO_SPANS_MAX - 8, INT32_MAX - 7, 12 };
	struct go_layout real = row(26);

	(void)state;
	for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
		struct world w;

		true_claims(&real);
		claims.m_vdso_sp = claims.m_vdso_pc = far[i];
		world_open(&w, &real, 5, false);
		for (int k = 0; k < N_M; k++)
			target_fake_poke_u64(w.t, m_at(k) + GO_SPANS_MAX - 8, 0);
		assert_null(go_runtime_check(w.rt));
		if (w.rt->restricted)
			fail_msg("%s", w.rt->restricted);
		assert_true(w.rt->caps & GO_CAP_ALLM);
		assert_false(go_has(&w.rt->layout, GO_M_VDSOSP));
		assert_false(go_has(&w.rt->layout, GO_M_VDSOPC));
		expect_found(&w.rt->layout, core, N_CORE, 26);
		world_close(&w);
	}
}

/* ---- lists that must be searched for ---- */

static void test_lists_in_data(void **state)
{
	struct go_layout real = row(26);
	const uint64_t slice[] = { ALLGS, N_G, 64 }, decoy[] = { HEAP, 4, 4 };
	struct world w;

	(void)state;
	true_claims(&real);
	world_open(&w, &real, 9, false);
	target_fake_poke(w.t, VARS + 0x3000, slice, sizeof(slice));
	target_fake_poke(w.t, VARS + 0x4000, decoy, sizeof(decoy));
	poke_global(&w, GO_ALLM, 0);
	target_fake_poke_u64(w.t, VARS + 0x5008, m_at(0));
	target_fake_poke_u64(w.t, VARS + 0x5010, m_at(2));	/* a list of some */
	target_fake_poke_u64(w.t, m_at(N_M - 1) + 0x158, m_at(0));	/* m0 is idle, and the newest one behind it */
	w.rt->globals[GO_ALLGLEN].addr = w.rt->globals[GO_ALLGPTR].addr = w.rt->globals[GO_ALLM].addr = 0;
	assert_null(go_runtime_check(w.rt));
	if (w.rt->restricted)
		fail_msg("%s", w.rt->restricted);
	expect_truth(&w, &w.rt->layout);
	assert_int_equal(w.rt->globals[GO_ALLGPTR].addr, VARS + 0x3000);
	assert_int_equal(w.rt->globals[GO_ALLGLEN].addr, VARS + 0x3008);
	assert_int_equal(w.rt->globals[GO_ALLGPTR].source, GO_SOURCE_DATA);
	assert_int_equal(w.rt->globals[GO_ALLM].addr, VARS + 0x5008);
	world_close(&w);
	/* Two that could be it are none. */
	world_open(&w, &real, 9, false);
	target_fake_poke_u64(w.t, VARS + 0x5008, m_at(0));
	target_fake_poke_u64(w.t, VARS + 0x5010, m_at(0));
	poke_global(&w, GO_ALLM, 0);
	w.rt->globals[GO_ALLM].addr = 0;
	assert_null(go_runtime_check(w.rt));
	assert_non_null(strstr(w.rt->restricted, "allm"));
	world_close(&w);
	world_open(&w, &real, 9, false);
	target_fake_poke(w.t, VARS + 0x3000, slice, sizeof(slice));
	target_fake_poke(w.t, VARS + 0x4000, slice, sizeof(slice));
	w.rt->globals[GO_ALLGLEN].addr = w.rt->globals[GO_ALLGPTR].addr = 0;
	assert_null(go_runtime_check(w.rt));
	assert_non_null(w.rt->restricted);
	assert_int_equal(w.rt->caps, GO_CAP_PCLNTAB);
	world_close(&w);
}

/* Data that is full of pointers to one thing that looks like an m, and never ends: nothing, and soon. */
static void test_search_in_hostile_data(void **state)
{
	enum { POINTERS = 4096, READS = 3 << 20 };
	struct go_layout real = row(26);
	gaddr_t fake = HEAP + 0x800, g0 = HEAP + 0x1800;
	struct world w;

	(void)state;
	no_claims();
	world_open(&w, &real, 9, false);
	for (gaddr_t o = 0; o < 0x1000; o += 8)
		target_fake_poke_u64(w.t, fake + o, fake);
	target_fake_poke_u64(w.t, fake, g0);
	poke(&w, g0, GO_G_SCHED_G, g0);
	poke(&w, g0, GO_G_GOID, 0);
	for (gaddr_t i = 0; i < POINTERS; i++)
		target_fake_poke_u64(w.t, VARS + i * 8, fake);
	w.rt->globals[GO_ALLM].addr = 0;
	target_fake_poke_u64(w.t, VARS + 0x80, m_at(0));	/* what a longer search might take */
	assert_false(go_allm_in_data(w.rt, &real));
	assert_int_equal(w.rt->globals[GO_ALLM].addr, 0);
	assert_true(target_fake_reads(w.t) < READS);
	world_close(&w);
}

/* ---- too early, and never ---- */

static void test_starting(void **state)
{
	struct go_layout real = row(27);
	struct world w;

	(void)state;
	true_claims(&real);
	world_open(&w, &real, 4, false);
	poke_global(&w, GO_ALLGLEN, 0);
	assert_ptr_equal(go_runtime_check(w.rt), &err_end);
	poke_global(&w, GO_ALLGLEN, 3);
	assert_ptr_equal(go_runtime_check(w.rt), &err_end);
	poke_global(&w, GO_ALLGLEN, 5);		/* made, but none has parked */
	for (int i = 0; i < 5; i++)
		poke(&w, g_at(i), GO_G_SCHED_PC, entry_of(role_of(i)->start));
	assert_ptr_equal(go_runtime_check(w.rt), &err_end);
	assert_false(w.rt->checked);
	world_write(&w);
	assert_null(go_runtime_check(w.rt));
	assert_null(w.rt->restricted);
	expect_truth(&w, &w.rt->layout);
	world_close(&w);
}

static void test_nothing_can_be_proved(void **state)
{
	static const enum function vital[] = { F_GOPARK, F_MAIN };
	struct go_layout real = row(26);

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct world w;
		struct error *err;

		true_claims(&real);
		world_open(&w, &real, 4, false);
		nameless[vital[i]] = true;
		if (vital[i] == F_GOPARK) {
			assert_null(go_runtime_check(w.rt));
			assert_non_null(strstr(w.rt->restricted, "g.sched.pc"));
			assert_int_equal(w.rt->caps, GO_CAP_PCLNTAB);
			for (int f = 0; f < GO_MD_SIZE; f++)
				assert_false(go_has(&w.rt->layout, f));
		}
		w.rt->checked = false;
		w.process.options.strict = true;
		err = go_runtime_check(w.rt);
		assert_non_null(err);
		assert_int_equal(err->kind, ERROR_UNSUPPORTED);
		assert_non_null(err->why);
		error_free(err);
		nameless[vital[i]] = false;
		world_close(&w);
	}
}

/* Threads only, and the reason is what first did not fit. */
static void test_restricted_with_a_row(void **state)
{
	struct go_layout real = row(26);
	struct world w;

	(void)state;
	no_claims();
	world_open(&w, &real, 4, false);
	w.rt->layout = real;
	w.rt->has_layout = true;
	w.rt->build.minor = 26;
	for (int i = 0; i < N_M; i++)
		poke(&w, m_at(i), GO_M_PROCID, 100000 + (uint64_t)i);
	assert_null(go_runtime_check(w.rt));
	assert_non_null(strstr(w.rt->restricted, "procid"));
	assert_int_equal(w.rt->caps, GO_CAP_PCLNTAB);
	assert_true(w.rt->checked);
	world_close(&w);
}

/* The same before the runtime has made a thread: it is asked again, with the row, and then believed. */
static void test_nothing_is_final_at_the_start(void **state)
{
	static const char in_c[] = "35 0x0 0x0 0x0 0x0 0x0 0x0 0x7000 0x7f0000401010\n";
	static const char in_go[] = "35 0x0 0x0 0x0 0x0 0x0 0x0 0x7000 0x401010\n";
	struct go_layout real = row(26);
	struct world w;

	(void)state;
	no_claims();
	world_open(&w, &real, 4, false);
	w.rt->layout = real;
	w.rt->has_layout = true;
	w.rt->build.minor = 26;
	w.rt->wrapper_id = 23;
	for (int i = 0; i < N_M; i++)
		poke(&w, m_at(i), GO_M_PROCID, 100000 + (uint64_t)i);
	target_fake_task(w.t, FIRST_TID + 1, "1 2 3\n", "running\n");
	assert_ptr_equal(go_runtime_check(w.rt), &err_end);
	target_fake_task(w.t, FIRST_TID + 1, "1 2 3\n", in_c);
	assert_ptr_equal(go_runtime_check(w.rt), &err_end);
	target_fake_task(w.t, FIRST_TID, "1 2 3\n", in_go);	/* the first one may be in schedinit */
	assert_ptr_equal(go_runtime_check(w.rt), &err_end);
	assert_null(w.rt->restricted);
	assert_int_equal(w.rt->wrapper_id, 23);
	world_write(&w);
	assert_null(go_runtime_check(w.rt));
	assert_true(w.rt->has_layout);
	assert_null(w.rt->restricted);
	world_close(&w);
}

/* Memory that lies in every way: no crash, no loop, no claim that the bytes do not bear out. */
static void test_noise(void **state)
{
	struct go_layout real = row(25);

	(void)state;
	no_claims();
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct go_layout found;
		struct world w;

		world_open(&w, &real, seed, false);
		for (int i = 0; i < 200; i++) {
			static const gaddr_t from[] = { G, M, G0, ALLGS, STACK, HEAP };
			static const gaddr_t pointers[] = { G, M, G0, M0, STACK, TEXT, ALLGS, 0, UINT64_MAX };
			gaddr_t at = from[world_random(&w) % 6] + world_random(&w) % (N_G * 8) / 8 * 8;

			target_fake_poke_u64(w.t, at, pointers[world_random(&w) % 9] +
							      world_random(&w) % 64 * 8);
		}
		if (seed % 2)
			target_fake_remove(w.t, seed % 4 == 1 ? STACK : G0);
		(void)calibrate(&w, &found);
		world_close(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_version),
		cmocka_unit_test(test_idle_process),
		cmocka_unit_test(test_claims_that_are_wrong),
		cmocka_unit_test(test_any_order),
		cmocka_unit_test(test_one_member_more),
		cmocka_unit_test(test_rows_of_other_versions),
		cmocka_unit_test(test_far_claims),
		cmocka_unit_test(test_lists_in_data),
		cmocka_unit_test(test_search_in_hostile_data),
		cmocka_unit_test(test_starting),
		cmocka_unit_test(test_nothing_can_be_proved),
		cmocka_unit_test(test_restricted_with_a_row),
		cmocka_unit_test(test_nothing_is_final_at_the_start),
		cmocka_unit_test(test_noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
