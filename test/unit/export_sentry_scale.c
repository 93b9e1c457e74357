/*
 * export_sentry_scale.c: windows with very many goroutines. The bounds of size; that every tick on a CPU
 * is there as long as anything else can be taken away, and the time of each stack always; that what was
 * taken away is said; and what an export costs. With GOPROF_FIGURES set it says what it measured, and does
 * so for a million goroutines too.
 */
#include "sentry_server.h"

#include <malloc.h>
#include <time.h>

#include "export/export_impl.h"

enum {
	MB = 1000 * 1000,
	MIB = 1024 * 1024,
	SERVICE_MOST = 50 * MIB,
	TICKS = 2979,		/* 29.5 s */
	STACKS = 300,
	DEPTH = 25,
};

struct scale {
	struct world w;
	uint64_t seed;
	profile_id stacks[STACKS];
	profile_id parked, running;
	struct window *window;
};

/* Stacks of which each has a leaf of its own and shares the rest with others. */
static void scale_init(struct scale *s)
{
	*s = (struct scale){ .seed = 1 };
	world_init(&s->w);
	for (uint32_t i = 0; i < STACKS; i++) {
		profile_id f[DEPTH];

		for (uint32_t k = 0; k < DEPTH; k++) {
			char name[32];

			snprintf(name, sizeof(name), k ? "parent%u_%u" : "s%u", k ? i % (DEPTH + 1 - k) : i, k);
			f[k] = frame(&s->w, "example.org/some/package", name, k, 0);
		}
		s->stacks[i] = stack_of(&s->w, f, DEPTH, PROFILE_STACK_COMPLETE);
	}
	s->parked = text(&s->w, "chan receive");
	s->running = text(&s->w, "running");
}

static void scale_deinit(struct scale *s)
{
	window_free(s->window);
	world_deinit(&s->w);
}

static void see(struct scale *s, uint64_t key, uint32_t stack, bool oncpu)
{
	const struct profile_observation o = {
		.key = key, .stack = s->stacks[stack], .state = oncpu ? s->running : s->parked,
		.t_before = s->w.mono, .t_after = s->w.mono + 100, .weight = 1, .oncpu = oncpu,
	};
	struct profile_ref ref;

	world_pass(&s->w, 7);
	must(profile_observe(s->w.p, &o, &ref));
	if (oncpu)
		profile_credit(s->w.p, ref, TICK);
}

static void make_goroutines(struct scale *s, uint64_t n)
{
	static const char *const entries[] = { "net/http.(*conn).serve", "main.(*pool).worker.func1",
					       "example.org/some/package.(*subscriber).run" };

	for (uint64_t k = 1; k <= n; k++)
		track(&s->w, k, k == 1 ? "main.main" : entries[k % 3]);
}

/*
 * 95 % are parked all the time, 4 % change about once a second, and 1 % run: `cores` of them at each tick,
 * drawn anew every third tick.
 */
static void make_mix(struct scale *s, uint32_t n, uint32_t cores)
{
	uint32_t running = n / 100, changing = n / 25, on[1000] = { 0 };

	scale_init(s);
	make_goroutines(s, n);
	for (uint32_t t = 0; t < TICKS; t++) {
		uint64_t start = s->w.mono;

		tick(&s->w);
		for (uint32_t k = 1; !t && k <= n; k++)
			see(s, k, k * 7 % STACKS, false);
		for (uint32_t i = 0; i < changing / 101; i++)
			see(s, 2 + running + draw(&s->seed, changing), draw(&s->seed, STACKS), false);
		for (uint32_t i = 0; i < cores; i++) {
			if (t % 3 == 0 && on[i])
				see(s, on[i], draw(&s->seed, STACKS), false);
			if (t % 3 == 0)
				on[i] = 2 + draw(&s->seed, running);
		}
		for (uint32_t i = 0; i < cores; i++)
			see(s, on[i], draw(&s->seed, STACKS), true);
		if (s->w.mono < start + TICK)
			world_pass(&s->w, start + TICK - s->w.mono);
	}
	s->window = close_now(&s->w);
}

/* ---- what is told against what was ---- */

struct sums {
	uint64_t ns[STACKS];
	uint64_t oncpu_ticks[STACKS], samples[STACKS];
};

static void expect(const struct scale *s, enum profile_mode mode, struct sums *want)
{
	memset(want, 0, sizeof(*want));
	for (uint32_t i = 0; i < s->window->n_tracks; i++) {
		for (uint32_t k = 0; k < s->window->tracks[i].n; k++) {
			const struct interval *iv = &s->window->tracks[i].v[k];
			uint64_t limit = s->window->start.mono + 29500000000;
			int stack = 0;

			while (s->stacks[stack] != iv->stack)
				stack++;
			if (iv->t_start >= limit || (mode == PROFILE_CPU && !(iv->flags & INTERVAL_ONCPU)))
				continue;
			want->ns[stack] += (iv->t_end < limit ? iv->t_end : limit) - iv->t_start;
			for (uint32_t t = iv->first_tick; iv->flags & INTERVAL_ONCPU && t < iv->end_tick; t++)
				want->oncpu_ticks[stack] += s->window->ticks[t] < limit;
		}
	}
}

static void judge(const struct sentry_v1 *v, struct sums *got)
{
	struct server s;

	memset(got, 0, sizeof(*got));
	server_read(v, &s);
	assert_int_equal(s.n_threads, v->threads);
	for (size_t i = 0; i < s.n; i++) {
		if (s.v[i].stack < 0)
			continue;
		got->ns[s.v[i].stack] += s.v[i].ns * server_thread(&s, s.v[i].thread)->members;
		got->samples[s.v[i].stack]++;
	}
	server_free(&s);
}

/* An average is cut to nanoseconds at both ends of each stack. */
static void compare(const struct scale *s, const struct sentry_v1 *v, bool dense)
{
	static struct sums got, want;

	expect(s, v->plan->view.mode, &want);
	judge(v, &got);
	for (int i = 0; i < STACKS; i++) {
		uint64_t more = got.ns[i] > want.ns[i] ? got.ns[i] - want.ns[i] : want.ns[i] - got.ns[i];

		assert_true(more <= v->grouped);
		assert_true(!dense || got.samples[i] >= want.oncpu_ticks[i]);
	}
}

/* ---- figures ---- */

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

static void forget_peak(void)
{
	FILE *f = fopen("/proc/self/clear_refs", "w");

	if (!f)
		return;
	fputs("5", f);
	fclose(f);
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
		       "%.1f MB of memory\n", what, (double)to.bytes / MB, v.threads, v.grouped, v.left_out,
		       v.plan->samples.n, v.plan->step, c.cpu_ms, (double)c.peak / MB);
	sentry_v1_deinit(&v);
	return c;
}

/* ---- tests ---- */

static const struct export_options all = { .max_threads = 0 };

static void ten_thousand_are_at_most_ten_megabytes(void **state)
{
	struct scale s;
	struct sentry_v1 v;

	(void)state;
	make_mix(&s, 10000, 8);
	must(sentry_v1_build(s.window, &all, &v));
	assert_int_equal(v.threads, 10000);
	assert_int_equal(v.left_out, 0);
	assert_false(v.thinned);
	assert_true(v.profile_len <= 10 * MB);	/* as it is, not compressed */
	compare(&s, &v, true);
	sentry_v1_deinit(&v);
	export(s.window, &all, "10,000");
	scale_deinit(&s);
}

static void a_hundred_thousand_pass(void **state)
{
	struct scale s;
	struct sentry_v1 v;

	(void)state;
	make_mix(&s, 100000, 64);
	must(sentry_v1_build(s.window, &all, &v));
	assert_int_equal(v.left_out, 0);
	assert_true(v.profile_len <= SERVICE_MOST);
	compare(&s, &v, true);
	sentry_v1_deinit(&v);
	export(s.window, &all, "100,000");
	scale_deinit(&s);
}

/*
 * n goroutines of which most have another stack at each of so many ticks. Of eight one is on a CPU all the
 * time with one stack, and one half of the time.
 */
static void make_storm(struct scale *s, uint32_t n, uint32_t ticks, uint32_t stacks)
{
	scale_init(s);
	make_goroutines(s, n);
	for (uint32_t t = 0; t < ticks; t++) {
		uint64_t start = s->w.mono;

		tick(&s->w);
		for (uint32_t k = 1; k <= n; k++)
			see(s, k, (k * 7 + (k % 8 ? t : 0) * (1 + k % 5)) % stacks,
			    k % 8 == 0 || (k % 8 == 4 && draw(&s->seed, 2)));
		world_pass(&s->w, start + TICK - s->w.mono);
	}
	s->window = close_now(&s->w);
}

/*
 * Smaller and smaller limits: each is kept, the time of each stack is, and each tick on a CPU as long as
 * there is anything else.
 */
static void less_and_less(struct scale *s, const struct export_options *o)
{
	uint32_t steps[2] = { 0 }, told = UINT32_MAX, before = UINT32_MAX;
	bool all_else;

	for (uint64_t room = 4 * MB; room > 12000; room = room * 4 / 5) {
		struct sentry_v1 v;

		must(sentry_v1_build_limited(s->window, o, room, &v));
		assert_true(v.profile_len - v.plan->head.len <= room);
		/* Never more of what was too much. */
		assert_true(before == UINT32_MAX || v.plan->step >= before);
		if (v.left_out) {
			sentry_v1_deinit(&v);
			break;
		}
		all_else = v.plan->view.level->all_mixed ||
			   (v.plan->view.level->grouping >= SENTRY_GROUP_PARKED &&
			    v.plan->view.level->mixed_ns > s->window->end.mono - s->window->start.mono);
		compare(s, &v, !all_else || v.plan->view.level->tick_step == 1);
		steps[all_else] += v.plan->step != before;
		before = v.plan->step;
		told = v.threads;
		sentry_v1_deinit(&v);
	}
	/* In cpu mode there are no parked ones. */
	assert_true(steps[false] >= (o->mode == PROFILE_CPU ? 1 : 3) && steps[true] >= 3);
	assert_in_range(told, 2, 6);	/* at last main and the three others as groups */
}

static void less_and_less_room(void **state)
{
	static const struct export_options cpu = { .mode = PROFILE_CPU };
	struct scale s;

	(void)state;
	make_storm(&s, 200, 150, 12);
	less_and_less(&s, &all);
	less_and_less(&s, &cpu);
	scale_deinit(&s);
}

static void the_active_one_is_never_grouped(void **state)
{
	static const struct export_options o = { .active_goid = 5 };
	struct scale s;
	struct sentry_v1 v;
	struct server server;
	uint32_t samples = 0;

	(void)state;
	make_storm(&s, 200, 150, 12);
	for (uint64_t room = 200000; ; room -= 2000) {
		must(sentry_v1_build_limited(s.window, &o, room, &v));
		if (v.plan->view.level->grouping == SENTRY_GROUP_ALL)
			break;
		sentry_v1_deinit(&v);
	}
	server_read(&v, &server);
	assert_int_equal(server.active, 5);
	for (size_t i = 0; i < server.n; i++)
		samples += server.v[i].thread == 5;
	assert_true(samples >= 150);
	server_free(&server);
	sentry_v1_deinit(&v);
	scale_deinit(&s);
}

static const cJSON *thinned_of(cJSON *transaction)
{
	const cJSON *o = cJSON_GetObjectItem(transaction, "contexts");

	return cJSON_GetObjectItem(cJSON_GetObjectItem(o, "goprof"), "thinned");
}

static void what_was_taken_away_is_said(void **state)
{
	struct scale s;
	struct sentry_v1 v;
	cJSON *doc;
	const cJSON *o;

	(void)state;
	make_storm(&s, 200, 150, 12);
	must(sentry_v1_build(s.window, &all, &v));
	doc = cJSON_ParseWithLength(v.transaction.data, v.transaction.len);
	assert_null(thinned_of(doc));
	assert_null(cJSON_GetObjectItem(cJSON_GetObjectItem(doc, "tags"), "goprof.thinned"));
	cJSON_Delete(doc);
	sentry_v1_deinit(&v);
	must(sentry_v1_build_limited(s.window, &all, 100000, &v));
	doc = cJSON_ParseWithLength(v.transaction.data, v.transaction.len);
	o = thinned_of(doc);
	assert_non_null(o);
	assert_string_equal(cJSON_GetObjectItem(cJSON_GetObjectItem(doc, "tags"), "goprof.thinned")->valuestring,
			    "yes");
	assert_int_equal(cJSON_GetObjectItem(o, "goroutines_grouped")->valueint, v.grouped);
	assert_true(v.grouped > 100);
	assert_true(v.plan->view.level->all_mixed);
	assert_true(cJSON_GetObjectItem(o, "order_of_stacks_lost_within_ns")->valuedouble ==
		    (double)v.plan->view.level->mixed_ns);
	assert_non_null(cJSON_GetObjectItem(o, "on_cpu"));
	assert_int_equal(cJSON_GetObjectItem(o, "groups")->valueint, v.threads - 51);	/* 1, and those that ran */
	cJSON_Delete(doc);
	sentry_v1_deinit(&v);
	scale_deinit(&s);
}

/* 3,000 of three entry functions and ten stacks, and five that run. */
static void make_parked(struct scale *s)
{
	make_goroutines(s, 3000);
	for (uint32_t t = 0; t < 20; t++) {
		tick(&s->w);
		for (uint32_t k = 1; !t && k <= 3000; k++)
			see(s, k, k * 7 % 10, false);
		for (uint32_t k = 10; k < 15; k++)
			see(s, k, t % STACKS, true);
		world_pass(&s->w, TICK);
	}
	s->window = close_now(&s->w);
}

/* More goroutines than names fit: those that are parked with one stack are one thread. */
static void parked_ones_are_grouped(void **state)
{
	struct scale s;
	struct sentry_v1 v;
	struct server server;
	uint64_t members = 0, groups = 0;

	(void)state;
	scale_init(&s);
	make_parked(&s);
	must(sentry_v1_build_limited(s.window, &all, 200000, &v));
	server_read(&v, &server);
	for (size_t i = 0; i < server.n_threads; i++) {
		const struct server_thread *t = &server.threads[i];

		members += t->members;
		if (t->members < 2)
			continue;
		groups++;
		assert_non_null(strstr(t->name, " [chan receive]"));
		assert_true(t->id >= (uint64_t)1 << 41);
	}
	assert_int_equal(members, 3000);	/* everybody is told, once */
	assert_int_equal(groups, 30);		/* three entry functions, ten stacks */
	assert_int_equal(v.threads, 30 + 6);	/* main and those that ran */
	assert_int_equal(v.grouped, 3000 - 6);
	server_free(&server);
	compare(&s, &v, true);
	sentry_v1_deinit(&v);
	scale_deinit(&s);
}

/* Where threads are shared, parked goroutines that need too many of them are grouped, and not left out. */
static void parked_ones_share_few_threads(void **state)
{
	static const struct export_options few = { .threads = EXPORT_BY_ENTRY, .max_threads = 100 };
	static const struct export_options fewer = { .threads = EXPORT_BY_ENTRY, .max_threads = 9 };
	static const struct export_options too_few = { .threads = EXPORT_BY_ENTRY, .max_threads = 8 };
	struct scale s;
	struct sentry_v1 v;

	(void)state;
	scale_init(&s);
	make_parked(&s);
	must(sentry_v1_build(s.window, &few, &v));
	assert_int_equal(v.threads, 36);	/* as above: by entry function and stack */
	assert_int_equal(v.left_out, 0);
	assert_int_equal(v.grouped, 3000 - 6);
	assert_false(v.thinned);		/* nothing else was taken away */
	assert_true(v.plan->thinned);		/* and it is said */
	compare(&s, &v, true);
	sentry_v1_deinit(&v);
	must(sentry_v1_build(s.window, &fewer, &v));
	assert_int_equal(v.threads, 9);		/* by entry function */
	assert_int_equal(v.left_out, 0);
	compare(&s, &v, true);
	sentry_v1_deinit(&v);
	must(sentry_v1_build(s.window, &too_few, &v));
	assert_int_equal(v.threads, 8);
	assert_true(v.left_out > 0);
	sentry_v1_deinit(&v);
	scale_deinit(&s);
}

/* Groups have the ids that they had, whatever numbers strings and stacks have. */
static void groups_keep_their_ids(void **state)
{
	struct scale s[2];
	struct sentry_v1 v[2];
	struct server server[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		scale_init(&s[i]);
		if (i) {
			text(&s[i].w, "something before");
			for (int k = 0; k < 5; k++) {
				profile_id stack = s[i].stacks[k];

				s[i].stacks[k] = s[i].stacks[9 - k];
				s[i].stacks[9 - k] = stack;
			}
		}
		make_parked(&s[i]);
		must(sentry_v1_build_limited(s[i].window, &all, 200000, &v[i]));
		server_read(&v[i], &server[i]);
	}
	assert_int_equal(server[0].n_threads, server[1].n_threads);
	for (size_t i = 0; i < server[0].n_threads; i++)
		assert_true(server[0].threads[i].id == server[1].threads[i].id);
	for (int i = 0; i < 2; i++) {
		server_free(&server[i]);
		sentry_v1_deinit(&v[i]);
		scale_deinit(&s[i]);
	}
}

/* What it costs. Sanitizers have memory of their own. */
static void costs(void **state)
{
#ifdef __SANITIZE_ADDRESS__
	const bool bounds = false;
#else
	const bool bounds = true;
#endif
	static const struct export_options usual = { .max_threads = 1000 };
	static const struct export_options by_entry = { .threads = EXPORT_BY_ENTRY, .max_threads = 1000 };
	uint32_t most = getenv("GOPROF_FIGURES") ? 1000000 : 100000;
	struct scale s;

	(void)state;
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
		if (bounds)
			assert_true(export(s.window, &usual, "parked, 1,000 told").peak < n * (uint64_t)16);
		assert_true(export(s.window, &all, "parked, all told").peak < 24 * MB || !bounds);
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
	make_mix(&s, 100000, 600);
	export(s.window, &all, "100,000, 600 of them on CPUs");
	export(s.window, &cpu, "the same in cpu mode");
	export(s.window, &cpu_by_entry, "and by entry");
	scale_deinit(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_thousand_are_at_most_ten_megabytes),
		cmocka_unit_test(a_hundred_thousand_pass),
		cmocka_unit_test(less_and_less_room),
		cmocka_unit_test(the_active_one_is_never_grouped),
		cmocka_unit_test(what_was_taken_away_is_said),
		cmocka_unit_test(parked_ones_are_grouped),
		cmocka_unit_test(parked_ones_share_few_threads),
		cmocka_unit_test(groups_keep_their_ids),
		cmocka_unit_test(costs),
		cmocka_unit_test(slow_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
