/*
 * export_sentry_scale.c: windows with very many goroutines: the bounds of size, and what an export costs.
 * With GOPROF_FIGURES set it says what it measured, and does so for a million goroutines too.
 */
#include "sentry_scale.h"

#include <malloc.h>
#include <time.h>

struct cost {
	double cpu_ms;
	uint64_t peak;	/* bytes, beyond what there was */
};

static uint64_t status_kb(const char *name)
{
	char line[256];
	uint64_t kb = 0;
	FILE *f = fopen("/proc/self/status", "r");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			kb = strtoull(line + strlen(name), NULL, 10);
	fclose(f);
	return kb;
}

/* False: the peak is that of all times. */
static bool forget_peak(void)
{
	FILE *f = fopen("/proc/self/clear_refs", "w");

	if (!f)
		return false;
	fputs("5", f);
	return fclose(f) == 0;
}

static double cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

struct counting_sink {
	struct sink sink;
	uint64_t bytes;
	size_t largest;
};

static struct error *count(struct sink *s, const void *data, size_t len)
{
	struct counting_sink *c = (struct counting_sink *)s;

	(void)data;
	c->bytes += len;
	c->largest = c->largest < len ? len : c->largest;
	return NULL;
}

/* Can a peak be told? */
static bool peaks(void)
{
#ifdef __SANITIZE_ADDRESS__
	return false;	/* sanitizers have memory of their own */
#else
	return forget_peak();
#endif
}

/* A whole export, of which nothing is kept. */
static struct cost export(const struct window *w, const struct export_options *o, const char *what)
{
	struct counting_sink to = { .sink.write = count };
	struct cost c;
	struct sentry_v1 v;
	uint64_t before;
	double start;

	malloc_trim(0);
	forget_peak();
	before = status_kb("VmRSS:");
	start = cpu_ms();
	must(sentry_v1_build(w, o, &v));
	must(sentry_v1_profile(&v, &to.sink));
	c.cpu_ms = cpu_ms() - start;
	c.peak = status_kb("VmHWM:") > before ? (status_kb("VmHWM:") - before) * 1024 : 0;
	assert_int_equal(to.bytes, v.profile_len);
	assert_true(to.bytes <= SERVICE_MOST);
	assert_true(to.largest < MIB);	/* piece by piece */
	if (getenv("GOPROF_FIGURES"))
		printf("%s: %.1f MB, %u threads, %u grouped, %u left out, %u samples, step %u: %.0f ms CPU, "
		       "%.1f MB of memory\n", what, (double)to.bytes / MB, v.threads, counts_sum(&v.grouped),
		       counts_sum(&v.left_out), v.plan->samples.n, v.plan->step, c.cpu_ms, (double)c.peak / MB);
	sentry_v1_deinit(&v);
	return c;
}

static const struct export_options all = { .max_threads = 0 };

static void ten_thousand_are_at_most_ten_megabytes(void **state)
{
	struct scale s;
	struct sentry_v1 v;

	(void)state;
	make_mix(&s, 10000, 8, 4, STACKS);
	must(sentry_v1_build(s.window, &all, &v));
	assert_int_equal(v.threads, 10000);
	assert_int_equal(counts_sum(&v.left_out), 0);
	assert_false(v.thinned);
	assert_true(v.profile_len <= 10 * MB);	/* as it is, not compressed */
	compare(&s, &v, true);
	sentry_v1_deinit(&v);
	export(s.window, &all, "10,000");
	scale_deinit(&s);
}

/* 4, 12 and 36 % change each second, with some stacks each: not thinned, thinned a little, and more. */
static void nor_when_more_of_them_change(void **state)
{
	static const struct { uint32_t percent, cores; bool thinned; } mixes[] = {
		{ 4, 8, false }, { 12, 20, true }, { 36, 8, true },
	};
	struct scale s;
	struct sentry_v1 v;

	(void)state;
	for (size_t i = 0; i < sizeof(mixes) / sizeof(mixes[0]); i++) {
		char what[64];

		make_mix(&s, 10000, mixes[i].cores, mixes[i].percent, 8);
		must(sentry_v1_build(s.window, &all, &v));
		assert_int_equal(v.thinned, mixes[i].thinned);
		assert_true(!v.too_big && !v.cut);
		assert_true(v.profile_len + v.transaction.len <= 10 * MB);
		assert_int_equal(counts_sum(&v.left_out), 0);
		compare(&s, &v, true);
		sentry_v1_deinit(&v);
		snprintf(what, sizeof(what), "10,000, of which %u %% change", mixes[i].percent);
		export(s.window, &all, what);
		scale_deinit(&s);
	}
}

/* Where what is harmless is not enough, it stays larger than 10 MB: nothing else is lost for that. */
static void only_what_is_harmless_goes(void **state)
{
	struct scale s;
	struct sentry_v1 v;

	(void)state;
	make_storm(&s, 2000, 400, 100);
	must(sentry_v1_build(s.window, &all, &v));
	assert_true(v.profile_len > 10 * MB && v.profile_len < 40 * MB);
	assert_true(v.thinned && !v.too_big);
	assert_true(!v.plan->level.pushed_ns && v.plan->level.tick_step == 1);
	compare(&s, &v, true);
	sentry_v1_deinit(&v);
	export(s.window, &all, "2,000 that change at each tick, 4 s");
	scale_deinit(&s);
}

static void a_hundred_thousand_pass(void **state)
{
	struct scale s;
	struct sentry_v1 v;

	(void)state;
	make_mix(&s, 100000, 64, 4, STACKS);
	must(sentry_v1_build(s.window, &all, &v));
	assert_int_equal(counts_sum(&v.left_out), 0);
	assert_true(v.profile_len <= SERVICE_MOST);
	compare(&s, &v, true);
	sentry_v1_deinit(&v);
	export(s.window, &all, "100,000");
	scale_deinit(&s);
}

/* A million intervals, which are 100 MB in full. */
static void all_change_at_each_tick(void **state)
{
	struct scale s;
	struct sentry_v1 v;

	(void)state;
	make_storm(&s, 3000, 500, 100);
	must(sentry_v1_build(s.window, &all, &v));
	assert_int_equal(counts_sum(&v.left_out), 0);
	assert_true(v.thinned);
	assert_true(v.profile_len <= SERVICE_MOST);
	compare(&s, &v, true);
	sentry_v1_deinit(&v);
	export(s.window, &all, "3,000 that change at each tick, 5 s");
	scale_deinit(&s);
}

/* What it costs of memory. */
static void costs(void **state)
{
	static const struct export_options usual = { .max_threads = 1000 };
	static const struct export_options by_entry = { .threads = EXPORT_BY_ENTRY, .max_threads = 1000 };
	uint32_t most = getenv("GOPROF_FIGURES") ? 1000000 : 100000;
	struct scale s;

	(void)state;
	if (!peaks())
		skip();
	for (uint32_t n = 100000; n <= most; n *= 10) {
		scale_init(&s);
		make_goroutines(&s, n);
		for (uint32_t t = 0; t < 100; t++) {
			tick(&s.w);
			for (uint32_t k = 1; !t && k <= n; k++)
				see(&s, k, k * 7 % STACKS, false);
			see(&s, 1, 5, true);
			world_pass(&s.w, TICK);
		}
		s.window = close_now(&s.w);
		assert_true(export(s.window, &usual, "parked, 1,000 told").peak < n * (uint64_t)16);
		assert_true(export(s.window, &all, "parked, all told").peak < 24 * MB);
		export(s.window, &by_entry, "parked, by entry");
		scale_deinit(&s);
	}
}

/* Nothing but figures: what takes longest. */
static void slow_ones(void **state)
{
	static const struct export_options by_entry = { .threads = EXPORT_BY_ENTRY };
	static const struct export_options cpu = { .mode = PROFILE_CPU };
	static const struct export_options cpu_by_entry = { .mode = PROFILE_CPU, .threads = EXPORT_BY_ENTRY };
	struct scale s;

	(void)state;
	if (!getenv("GOPROF_FIGURES"))
		skip();
	make_storm(&s, 10000, 300, 100);
	export(s.window, &all, "10,000 that change at each tick, 3 s");
	export(s.window, &by_entry, "the same by entry");
	scale_deinit(&s);
	make_mix(&s, 100000, 600, 4, STACKS);
	export(s.window, &all, "100,000, 600 of them on CPUs");
	export(s.window, &cpu, "the same in cpu mode");
	export(s.window, &cpu_by_entry, "and by entry");
	scale_deinit(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_thousand_are_at_most_ten_megabytes),
		cmocka_unit_test(nor_when_more_of_them_change),
		cmocka_unit_test(only_what_is_harmless_goes),
		cmocka_unit_test(a_hundred_thousand_pass),
		cmocka_unit_test(all_change_at_each_tick),
		cmocka_unit_test(costs),
		cmocka_unit_test(slow_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
