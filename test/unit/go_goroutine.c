/*
 * go_goroutine.c: gs and ms out of handmade bytes, in the layouts of all versions; what the
 * fingerprint must and must not react to; whose goroutine it is; the target's own wait reasons.
 *
 * The function table and the file are replaced by small ones here: the linker takes the functions
 * below in place of the archive's.
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

/* ---- the function table and the file ---- */

static const struct {
	gaddr_t entry;
	const char *name;
} functions[] = {
	{ 0x1000, "runtime.main" },
	{ 0x1100, "main.main.func1" },
	{ 0x1200, "runtime.bgsweep" },
	{ 0x1300, "runtime.gcenable.gowrap1" },
	{ 0x1400, "runtime.runfinq" },
	{ 0x1500, "runtime.runFinalizers" },
	{ 0x1600, "runtime.runCleanups" },
	{ 0x1700, "runtime.corostart" },
	{ 0x1800, "runtime.handleAsyncEvent" },
	{ 0x1900, "runtime/pprof.profileWriter" },
	{ 0x1a00, "runtimes.Start" },
	{ 0x1b00, "runtime.unique_runtime_registerUniqueMapCleanup.func2" },
};

enum { N_FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

static gaddr_t entry_of(const char *name)
{
	for (size_t i = 0; i < N_FUNCTIONS; i++)
		if (strcmp(functions[i].name, name) == 0)
			return functions[i].entry;
	fail_msg("no function %s", name);
	return 0;
}

bool go_func_find(struct go_runtime *rt, gaddr_t pc, struct go_func *ret)
{
	(void)rt;
	for (size_t i = 0; i < N_FUNCTIONS; i++)
		if (pc >= functions[i].entry && pc < functions[i].entry + 0x100) {
			*ret = (struct go_func){ .entry = functions[i].entry, .name_off = (uint32_t)i };
			return true;
		}
	return false;
}

const char *go_func_name(struct go_runtime *rt, const struct go_func *f)
{
	(void)rt;
	return functions[f->name_off].name;
}

/* The "file": what link-time addresses hold. */
static struct target *file;

struct error *image_read(struct image *img, gaddr_t addr, void *buf, size_t len)
{
	(void)img;
	return file ? target_read(file, addr, buf, len) : &err_fault;
}

struct error *image_read_relocated(struct image *img, gaddr_t addr, void *buf, size_t len)
{
	return image_read(img, addr, buf, len);
}

/* ---- parsing ---- */

static void put(uint8_t *bytes, const struct go_layout *l, enum go_field f, uint64_t value)
{
	if (go_has(l, f))
		memcpy(bytes + l->f[f].offset, &value, l->f[f].size);
}

static const struct {
	enum go_field f;
	uint64_t value;
} g_values[] = {
	{ GO_G_STACK_LO, 0xc000010000 }, { GO_G_STACK_HI, 0xc000012000 }, { GO_G_M, 0x55550000 },
	{ GO_G_SCHED_SP, 0xc000011e00 }, { GO_G_SCHED_PC, 0x47a1b2 }, { GO_G_SCHED_BP, 0xc000011e40 },
	{ GO_G_SYSCALLSP, 0xc000011a00 }, { GO_G_SYSCALLPC, 0x47b1b2 },
	{ GO_G_SYSCALLBP, 0xc000011a40 }, { GO_G_ATOMICSTATUS, 4 }, { GO_G_GOID, 0x123456789a },
	{ GO_G_WAITSINCE, 0x1122334455667788 }, { GO_G_WAITREASON, 14 }, { GO_G_TRACKINGSEQ, 250 },
	{ GO_G_RUNNINGCLEANUPS, 1 }, { GO_G_LOCKEDM, 0x55550040 }, { GO_G_PARENTGOID, 77 },
	{ GO_G_GOPC, 0x4a0001 }, { GO_G_STARTPC, 0x4a1000 }, { GO_G_LABELS, 0xc000100000 },
};

/* Exactly as many bytes as g_span asks for: reading one more is an error the sanitizer sees. */
static uint8_t *make_g(const struct go_layout *l)
{
	uint8_t *bytes = malloc(g_span(l));

	assert_non_null(bytes);
	memset(bytes, 0xa5, g_span(l));
	for (size_t i = 0; i < sizeof(g_values) / sizeof(g_values[0]); i++)
		put(bytes, l, g_values[i].f, g_values[i].value);
	return bytes;
}

static uint64_t want(const struct go_layout *l, enum go_field f)
{
	for (size_t i = 0; i < sizeof(g_values) / sizeof(g_values[0]); i++)
		if (g_values[i].f == f && go_has(l, f))
			return g_values[i].value;
	return 0;
}

static void check_g(const struct go_layout *l)
{
	_cleanup_free_ uint8_t *bytes = make_g(l);
	struct g_look g;

	g_parse(l, 0xabc0, bytes, &g);
	assert_int_equal(g.g, 0xabc0);
	assert_int_equal(g.stack_lo, want(l, GO_G_STACK_LO));
	assert_int_equal(g.stack_hi, want(l, GO_G_STACK_HI));
	assert_int_equal(g.m, want(l, GO_G_M));
	assert_int_equal(g.sched_sp, want(l, GO_G_SCHED_SP));
	assert_int_equal(g.sched_pc, want(l, GO_G_SCHED_PC));
	assert_int_equal(g.sched_bp, want(l, GO_G_SCHED_BP));
	assert_int_equal(g.syscall_sp, want(l, GO_G_SYSCALLSP));
	assert_int_equal(g.syscall_pc, want(l, GO_G_SYSCALLPC));
	assert_int_equal(g.syscall_bp, want(l, GO_G_SYSCALLBP));
	assert_int_equal(g.status, G_WAITING);
	assert_false(g.scan);
	assert_int_equal(g.goid, want(l, GO_G_GOID));
	assert_int_equal(g.waitsince, want(l, GO_G_WAITSINCE));
	assert_int_equal(g.waitreason, want(l, GO_G_WAITREASON));
	assert_int_equal(g.trackingseq, want(l, GO_G_TRACKINGSEQ));
	assert_int_equal(g.running_cleanups, want(l, GO_G_RUNNINGCLEANUPS));
	assert_int_equal(g.lockedm, want(l, GO_G_LOCKEDM));
	assert_int_equal(g.parent_goid, want(l, GO_G_PARENTGOID));
	assert_int_equal(g.gopc, want(l, GO_G_GOPC));
	assert_int_equal(g.startpc, want(l, GO_G_STARTPC));
	assert_int_equal(g.labels, want(l, GO_G_LABELS));
	assert_int_equal(g.fingerprint, g_fingerprint(l, bytes));
}

static void test_g_in_every_layout(void **state)
{
	int n;
	const int *minors = go_layout_minors(&n);
	struct go_layout l;

	(void)state;
	for (int i = 0; i < n; i++) {
		assert_true(go_layout_row(minors[i], &l));
		assert_true(g_span(&l) <= l.f[GO_G_SIZE].size);
		assert_int_equal(g_span(&l), l.f[GO_G_LABELS].offset + 8);
		check_g(&l);
	}
}

static void test_statuses(void **state)
{
	static const struct {
		uint32_t raw, status;
		bool scan;
		const char *name;
	} v[] = {
		{ 0, G_IDLE, false, "idle" }, { 1, G_RUNNABLE, false, "runnable" },
		{ 2, G_RUNNING, false, "running" }, { 3, G_SYSCALL, false, "syscall" },
		{ 4, G_WAITING, false, "waiting" }, { 5, 5, false, "???" }, { 6, G_DEAD, false, "dead" },
		{ 7, 7, false, "???" }, { 8, G_COPYSTACK, false, "copystack" },
		{ 9, G_PREEMPTED, false, "preempted" }, { 10, G_LEAKED, false, "leaked" },
		{ 11, G_DEADEXTRA, false, "waiting for cgo callback" }, { 12, 12, false, "???" },
		{ 0x1001, G_RUNNABLE, true, "runnable" }, { 0x1002, G_RUNNING, true, "running" },
		{ 0x1004, G_WAITING, true, "waiting" }, { 0x1009, G_PREEMPTED, true, "preempted" },
		{ 0xffffffff, 0xffffefff, true, "???" }, { 0x2004, 0x2004, false, "???" },
	};
	struct go_layout l;

	(void)state;
	assert_true(go_layout_row(26, &l));
	_cleanup_free_ uint8_t *bytes = make_g(&l);

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct g_look g;

		put(bytes, &l, GO_G_ATOMICSTATUS, v[i].raw);
		g_parse(&l, 1, bytes, &g);
		assert_int_equal(g.status, v[i].status);
		assert_int_equal(g.scan, v[i].scan);
		assert_string_equal(g_status_name(g.status), v[i].name);
		assert_string_equal(g_status_name(v[i].raw), v[i].name);
	}
}

static void test_m_in_every_layout(void **state)
{
	int n;
	const int *minors = go_layout_minors(&n);

	(void)state;
	for (int i = 0; i < n; i++) {
		struct go_layout l;
		struct m_look m;

		assert_true(go_layout_row(minors[i], &l));
		_cleanup_free_ uint8_t *bytes = malloc(m_span(&l));
		assert_non_null(bytes);
		memset(bytes, 0xa5, m_span(&l));
		put(bytes, &l, GO_M_G0, 1);
		put(bytes, &l, GO_M_PROCID, 2);
		put(bytes, &l, GO_M_GSIGNAL, 3);
		put(bytes, &l, GO_M_CURG, 4);
		put(bytes, &l, GO_M_P, 5);
		put(bytes, &l, GO_M_ID, (uint64_t)-6);
		put(bytes, &l, GO_M_NCGO, (uint32_t)-7);
		put(bytes, &l, GO_M_ALLLINK, 8);
		put(bytes, &l, GO_M_LOCKEDG, 9);
		put(bytes, &l, GO_M_VDSOSP, 10);
		put(bytes, &l, GO_M_VDSOPC, 11);
		m_parse(&l, 99, bytes, &m);
		assert_true(m.m == 99 && m.g0 == 1 && m.procid == 2 && m.gsignal == 3 && m.curg == 4);
		assert_true(m.p == 5 && m.id == -6 && m.ncgo == -7 && m.alllink == 8 && m.lockedg == 9);
		assert_true(m.vdso_sp == 10 && m.vdso_pc == 11);
	}
}

/* ---- fingerprint ---- */

/* Flips each bit of a member in turn: does the fingerprint always, or never, change? */
static void check_reaction(const struct go_layout *l, uint8_t *bytes, enum go_field f, bool reacts)
{
	uint64_t before = g_fingerprint(l, bytes);

	if (!go_has(l, f))
		return;
	for (uint32_t bit = 0; bit < l->f[f].size * 8; bit++) {
		uint8_t *at = bytes + l->f[f].offset + bit / 8;

		*at ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(g_fingerprint(l, bytes) != before, reacts);
		*at ^= (uint8_t)(1u << bit % 8);
	}
}

static const struct {
	enum go_field f;
	bool parked, in_syscall;	/* does it count then? */
} reactions[] = {
	{ GO_G_GOID, true, true }, { GO_G_STACK_HI, true, true }, { GO_G_WAITREASON, true, true },
	{ GO_G_TRACKINGSEQ, true, true }, { GO_G_LABELS, true, true },
	{ GO_G_SCHED_SP, true, false }, { GO_G_SCHED_PC, true, false }, { GO_G_SCHED_BP, true, false },
	{ GO_G_SYSCALLPC, false, true }, { GO_G_SYSCALLBP, false, true },
	{ GO_G_WAITSINCE, false, false }, { GO_G_M, false, false }, { GO_G_GOPC, false, false },
};

static void test_fingerprint_reacts_to_what_counts(void **state)
{
	int n;
	const int *minors = go_layout_minors(&n);

	(void)state;
	for (int i = 0; i < n; i++) {
		struct go_layout l;

		assert_true(go_layout_row(minors[i], &l));
		_cleanup_free_ uint8_t *bytes = make_g(&l);
		for (int in_syscall = 0; in_syscall < 2; in_syscall++) {
			put(bytes, &l, GO_G_SYSCALLSP, in_syscall ? 0xc000011a00 : 0);
			put(bytes, &l, GO_G_ATOMICSTATUS, in_syscall ? G_SYSCALL : G_WAITING);
			for (size_t j = 0; j < sizeof(reactions) / sizeof(reactions[0]); j++)
				check_reaction(&l, bytes, reactions[j].f, in_syscall ? reactions[j].in_syscall
										     : reactions[j].parked);
		}
	}
}

static void test_fingerprint_and_status(void **state)
{
	struct go_layout l;
	uint64_t waiting;

	(void)state;
	assert_true(go_layout_row(26, &l));
	_cleanup_free_ uint8_t *bytes = make_g(&l);
	put(bytes, &l, GO_G_SYSCALLSP, 0);
	waiting = g_fingerprint(&l, bytes);
	put(bytes, &l, GO_G_ATOMICSTATUS, G_WAITING | G_SCAN);
	assert_int_equal(g_fingerprint(&l, bytes), waiting);	/* the collector came by */
	put(bytes, &l, GO_G_ATOMICSTATUS, G_RUNNABLE);
	assert_int_not_equal(g_fingerprint(&l, bytes), waiting);
	put(bytes, &l, GO_G_ATOMICSTATUS, G_WAITING);
	put(bytes, &l, GO_G_SYSCALLSP, 8);			/* came back from a call, not yet running */
	assert_int_not_equal(g_fingerprint(&l, bytes), waiting);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Goroutines that differ as little as real ones do: none of the fingerprints may be the same. */
static void test_fingerprints_of_neighbours_differ(void **state)
{
	enum { GOIDS = 64, SEQS = 64, SPS = 16, N = GOIDS * SEQS * SPS };
	_cleanup_free_ uint64_t *v = calloc(N, sizeof(*v));
	struct go_layout l;
	size_t n = 0;

	(void)state;
	assert_true(go_layout_row(25, &l));
	_cleanup_free_ uint8_t *bytes = make_g(&l);
	put(bytes, &l, GO_G_SYSCALLSP, 0);
	for (uint64_t goid = 1; goid <= GOIDS; goid++)
		for (uint64_t seq = 0; seq < SEQS; seq++)
			for (uint64_t sp = 0; sp < SPS; sp++) {
				put(bytes, &l, GO_G_GOID, goid);
				put(bytes, &l, GO_G_TRACKINGSEQ, seq);
				put(bytes, &l, GO_G_SCHED_SP, 0xc000011e00 - sp * 8);
				v[n++] = g_fingerprint(&l, bytes);
			}
	qsort(v, n, sizeof(*v), by_value);
	for (size_t i = 1; i < n; i++)
		assert_true(v[i] != v[i - 1]);
}

/* ---- wait reasons and whose it is ---- */

enum { REASONS = 0x500000, TEXTS = 0x600000, BIAS = 0x7f0000000000 };

static const char *const texts[] = { "", "GC assist marking", "IO wait", "finalizer wait", "sleep" };

/* Writes a table of strings and its texts; pointers are what stands in the table, plus `bias`. */
static void put_reasons(struct target *t, gaddr_t at, gaddr_t text_at, uint64_t bias)
{
	uint64_t v[8][2] = { { 0 } };
	char text[256] = { 0 };
	size_t used = 0;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		v[i][0] = strlen(texts[i]) ? text_at + used + bias : 0;
		v[i][1] = strlen(texts[i]);
		memcpy(text + used, texts[i], v[i][1]);
		used += v[i][1];
	}
	v[5][0] = text_at + bias;	/* behind the table: another variable */
	v[5][1] = 1000;
	target_fake_add(t, at, v, sizeof(v));
	target_fake_add(t, text_at, text, sizeof(text));
}

struct world {
	struct target *live;
	struct go_process process;
	struct go_runtime *rt;
};

static void setup_world(struct world *w, uint64_t bias)
{
	assert_null(target_fake_create(&w->live));
	w->process = (struct go_process){ .target = w->live };
	w->rt = calloc(1, sizeof(*w->rt));
	assert_non_null(w->rt);
	w->rt->process = &w->process;
	w->rt->n_modules = 1;
	w->rt->modules[0].bias = bias;
	w->rt->build.minor = 26;
	w->rt->has_layout = true;
	w->rt->globals[GO_WAITREASON_STRINGS].addr = REASONS + bias;
	arena_init(&w->rt->strings);
}

static void teardown_world(struct world *w)
{
	arena_deinit(&w->rt->strings);
	free(w->rt);
	target_close(w->live);
	if (file)
		target_close(file);
	file = NULL;
}

static void expect_reasons(struct go_runtime *rt)
{
	for (uint8_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_string_equal(go_wait_reason(rt, i), texts[i]);
	assert_null(go_wait_reason(rt, 5));
	assert_null(go_wait_reason(rt, 255));
}

static void test_wait_reasons_of_the_file(void **state)
{
	struct world w;

	(void)state;
	setup_world(&w, BIAS);
	assert_null(target_fake_create(&file));
	put_reasons(file, REASONS, TEXTS, 0);
	expect_reasons(w.rt);
	assert_int_equal(target_fake_reads(w.live), 0);	/* the process was left alone */
	teardown_world(&w);
}

/* A packed program: the file holds something else, the process has the table, biased. */
static void test_wait_reasons_of_the_process(void **state)
{
	struct world w;

	(void)state;
	setup_world(&w, BIAS);
	put_reasons(w.live, REASONS + BIAS, TEXTS + BIAS, 0);
	expect_reasons(w.rt);
	teardown_world(&w);
	setup_world(&w, BIAS);
	assert_null(target_fake_create(&file));
	target_fake_add(file, REASONS, NULL, 4096);
	put_reasons(w.live, REASONS + BIAS, TEXTS + BIAS, 0);
	expect_reasons(w.rt);
	teardown_world(&w);
}

static void test_wait_reasons_that_are_not_there(void **state)
{
	struct world w;

	(void)state;
	setup_world(&w, 0);
	for (int i = 0; i < 256; i++)
		assert_null(go_wait_reason(w.rt, (uint8_t)i));
	teardown_world(&w);
	setup_world(&w, 0);
	w.rt->globals[GO_WAITREASON_STRINGS].addr = 0;
	put_reasons(w.live, 0, TEXTS, 0);
	assert_null(go_wait_reason(w.rt, 1));
	teardown_world(&w);
}

/* Bytes that are no text end the table there. */
static void test_wait_reasons_stop_at_garbage(void **state)
{
	struct world w;

	(void)state;
	setup_world(&w, 0);
	put_reasons(w.live, REASONS, TEXTS, 0);
	target_fake_poke(w.live, TEXTS + strlen("GC assist marking") + 2, "\x01", 1);
	assert_string_equal(go_wait_reason(w.rt, 1), "GC assist marking");
	assert_null(go_wait_reason(w.rt, 2));
	assert_null(go_wait_reason(w.rt, 3));
	teardown_world(&w);
}

/* A version with a known number of reasons gets no more, however plausible the next string is. */
static void test_wait_reasons_end_where_the_version_says(void **state)
{
	enum { N = GO_WAIT_REASONS_MAX };
	uint64_t v[N][2];
	struct world w;
	uint32_t known = go_layout_wait_reasons(26, 0), got = 0;

	(void)state;
	setup_world(&w, 0);
	for (int i = 0; i < N; i++) {
		v[i][0] = TEXTS;
		v[i][1] = i ? 4 : 0;
	}
	target_fake_add(w.live, REASONS, v, sizeof(v));
	target_fake_add(w.live, TEXTS, "text", 4);
	for (int i = 0; i < 256; i++)
		got += go_wait_reason(w.rt, (uint8_t)i) != NULL;
	assert_int_equal(got, known);
	teardown_world(&w);
}

static void test_system_goroutines(void **state)
{
	static const struct {
		const char *start;
		uint32_t status;
		uint8_t reason;
		bool cleanups, system;
	} v[] = {
		{ "runtime.main", G_RUNNING, 0, false, false },
		{ "main.main.func1", G_RUNNABLE, 0, false, false },
		{ "runtime.bgsweep", G_WAITING, 1, false, true },
		{ "runtime.gcenable.gowrap1", G_WAITING, 1, false, true },
		{ "runtime.unique_runtime_registerUniqueMapCleanup.func2", G_WAITING, 1, false, true },
		{ "runtime.corostart", G_WAITING, 1, false, false },
		{ "runtime.handleAsyncEvent", G_WAITING, 1, false, false },
		{ "runtime/pprof.profileWriter", G_WAITING, 4, false, false },
		{ "runtimes.Start", G_WAITING, 1, false, false },
		{ "runtime.runfinq", G_WAITING, 3, false, true },	/* finalizer wait */
		{ "runtime.runfinq", G_WAITING, 4, false, false },	/* a finalizer sleeps */
		{ "runtime.runfinq", G_RUNNING, 0, false, false },
		{ "runtime.runFinalizers", G_SYSCALL, 0, false, false },
		{ "runtime.runFinalizers", G_WAITING, 3, false, true },
		{ "runtime.runFinalizers", G_WAITING, 200, false, true },	/* nobody knows why it waits */
		{ "runtime.runFinalizers", G_WAITING, 0, false, true },		/* nor when reasons are not known */
		{ "runtime.runCleanups", G_WAITING, 4, false, true },
		{ "runtime.runCleanups", G_WAITING, 4, true, false },
	};
	struct world w;

	(void)state;
	setup_world(&w, 0);
	put_reasons(w.live, REASONS, TEXTS, 0);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct g_look g = { .status = v[i].status, .waitreason = v[i].reason,
				    .startpc = entry_of(v[i].start), .sched_pc = 0x1111,
				    .running_cleanups = v[i].cleanups };

		assert_int_equal(g_is_system(w.rt, &g), v[i].system);
	}
	/* Made, but never run: the runtime still counts it as its own. */
	struct g_look fresh = { .status = G_RUNNABLE, .startpc = entry_of("runtime.runfinq"),
				.sched_pc = entry_of("runtime.runfinq") };
	assert_true(g_is_system(w.rt, &fresh));
	struct g_look nowhere = { .status = G_RUNNABLE, .startpc = 0x9999999 };
	assert_false(g_is_system(w.rt, &nowhere));
	teardown_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_g_in_every_layout),
		cmocka_unit_test(test_statuses),
		cmocka_unit_test(test_m_in_every_layout),
		cmocka_unit_test(test_fingerprint_reacts_to_what_counts),
		cmocka_unit_test(test_fingerprint_and_status),
		cmocka_unit_test(test_fingerprints_of_neighbours_differ),
		cmocka_unit_test(test_wait_reasons_of_the_file),
		cmocka_unit_test(test_wait_reasons_of_the_process),
		cmocka_unit_test(test_wait_reasons_that_are_not_there),
		cmocka_unit_test(test_wait_reasons_stop_at_garbage),
		cmocka_unit_test(test_wait_reasons_end_where_the_version_says),
		cmocka_unit_test(test_system_goroutines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
