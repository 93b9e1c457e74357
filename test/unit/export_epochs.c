/*
 * export_epochs.c: what is told of a whole run does not depend on where its epochs begin. One random
 * history goes into two stores, one of which begins anew all the time: the summary's tables and the rows of
 * the pprof file must be the same to the nanosecond. Then the bound of the pprof rows: rare label sets, then
 * rare stacks come together, and no time is lost.
 */
#include "profile_world.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "export/pprof_impl.h"

/* What is told of one store. */
struct told {
	struct world w;
	struct aggregate *a;
	struct pprof *x;
};

static void told_init(struct told *t)
{
	static const struct export_options o = { 0 };

	world_init(&t->w);
	must(aggregate_create(&t->a));
	must(pprof_create(&o, &t->x));
}

static void told_deinit(struct told *t)
{
	aggregate_destroy(t->a);
	pprof_destroy(t->x);
	world_deinit(&t->w);
}

static profile_id labels(struct world *w, uint32_t n)
{
	char value[16];
	struct profile_label l[] = { { text(w, "request"), 0 }, { text(w, "kind"), text(w, n % 2 ? "odd" : "even") } };
	profile_id id;

	snprintf(value, sizeof(value), "r%u", n);
	l[0].value = text(w, value);
	must(profile_labels(w->p, l, 2, &id));
	return id;
}

static void tell(struct told *t)
{
	struct window *win = close_now(&t->w);

	must(aggregate_window(t->a, win));
	must(pprof_window(t->x, win));
	window_free(win);
}

static void begin_epoch(struct world *w)
{
	struct profile_carry *c;

	must(profile_begin_epoch(w->p, &c));
	profile_carry_free(c);
}

/* One step of the history; the draws do not depend on the store. */
static void step(struct told *t, uint64_t *seed)
{
	static const char *const states[] = { "running", "IO wait", "select" };
	struct world *w = &t->w;
	uint64_t key = 1 + draw(seed, 30);
	uint32_t what = draw(seed, 10), f = draw(seed, 400), of = draw(seed, 60);
	const char *state = states[draw(seed, 3)];
	char entry[32], leaf[32];

	snprintf(entry, sizeof(entry), "main.entry%llu", (unsigned long long)(key % 5));
	snprintf(leaf, sizeof(leaf), "f%u", f);
	if (!what) {
		profile_gone(w->p, key, w->mono);
		return;
	}
	if (!profile_has_track(w->p, key))
		track(w, key, entry);
	profile_credit(w->p, look(w, key, stack1(w, leaf), state, what < 3 ? PROFILE_LABELS_UNKNOWN : labels(w, of),
				  what < 6), what < 6 ? 1000 * what + f : 0);
}

/* `prepare`: tracks at each tick that are carried before their epoch begins. */
static void history(struct told *t, uint32_t epoch_every, uint32_t prepare)
{
	uint64_t seed = 11;

	for (uint32_t window = 1; window <= 60; window++) {
		for (int i = 0; i < 7; i++) {
			tick(&t->w);
			for (int k = 0; k < 20; k++)
				step(t, &seed);
			world_pass(&t->w, TICK);
			if (prepare)
				must(profile_prepare_epoch(t->w.p, prepare));
		}
		tell(t);
		if (epoch_every && window % epoch_every == 0)
			begin_epoch(&t->w);
	}
}

static void same_functions(struct told *a, struct told *b)
{
	const struct top_function *va, *vb;
	size_t na, nb;

	must(aggregate_functions(a->a, &va, &na));
	must(aggregate_functions(b->a, &vb, &nb));
	assert_true(na > 100);
	assert_int_equal(na, nb);
	for (size_t i = 0; i < na; i++) {
		assert_string_equal(va[i].function, vb[i].function);
		assert_string_equal(va[i].file, vb[i].file);
		assert_int_equal(va[i].line, vb[i].line);
		assert_int_equal(va[i].self_ns, vb[i].self_ns);
		assert_int_equal(va[i].total_ns, vb[i].total_ns);
	}
}

static void same_groups(struct told *a, struct told *b)
{
	const struct top_group *va, *vb;
	size_t na, nb;

	must(aggregate_groups(a->a, &va, &na));
	must(aggregate_groups(b->a, &vb, &nb));
	assert_int_equal(na, 15);
	assert_int_equal(na, nb);
	for (size_t i = 0; i < na; i++) {
		assert_string_equal(va[i].state, vb[i].state);
		assert_string_equal(va[i].entry, vb[i].entry);
		assert_string_equal(va[i].file, vb[i].file);
		assert_float_equal(va[i].average, vb[i].average, 1e-12);
	}
	assert_int_equal(aggregate_goroutines_seen(a->a), aggregate_goroutines_seen(b->a));
	assert_true(aggregate_cpu_ns(a->a) == aggregate_cpu_ns(b->a));
}

/* "leaf|state|request|": what a row is about, in words. */
static void row_text(const struct pprof_rows *r, uint32_t i, char buf[static 256])
{
	struct pprof_key key;
	struct profile_labels l;
	struct profile_stack s;
	size_t len;

	memcpy(&key, keyset_get(&r->keys, i, &len), sizeof(key));
	s = profile_stack_get(r->names, key.stack);
	snprintf(buf, 256, "%s|%s|%u|", s.n ? profile_string_get(r->names, profile_frame_get(r->names, s.frames[0])->function)
					  : "", profile_string_get(r->names, key.state), key.labels == 1);
	l = profile_labels_get(r->names, key.labels);
	for (uint32_t k = 0; k < l.n; k++)
		snprintf(buf + strlen(buf), 256 - strlen(buf), "%s=%s|", profile_string_get(r->names, l.v[k].key),
			 profile_string_get(r->names, l.v[k].value));
}

static bool find_row(const struct pprof_rows *r, const char *text, uint32_t *ret)
{
	char buf[256];

	for (*ret = 0; *ret < r->keys.n; ++*ret) {
		row_text(r, *ret, buf);
		if (!strcmp(buf, text))
			return true;
	}
	return false;
}

static void same_rows(const struct told *a, const struct told *b)
{
	const struct pprof_rows *ra = a->x->rows, *rb = b->x->rows;

	assert_true(ra->keys.n > 1000);
	assert_int_equal(ra->keys.n, rb->keys.n);
	for (uint32_t i = 0; i < ra->keys.n; i++) {
		char buf[256];
		uint32_t k;

		row_text(ra, i, buf);
		assert_true(find_row(rb, buf, &k));
		assert_memory_equal(ra->values[i], rb->values[k], sizeof(ra->values[i]));
	}
}

static void epochs_do_not_show(void **state)
{
	struct told whole, often, seldom, prepared;

	(void)state;
	told_init(&whole);
	told_init(&often);
	told_init(&seldom);
	told_init(&prepared);
	history(&whole, 0, 0);
	history(&often, 1, 0);
	history(&seldom, 13, 0);
	history(&prepared, 2, 3);
	assert_int_equal(profile_epoch(often.w.p), 60);
	same_functions(&whole, &often);
	same_functions(&whole, &seldom);
	same_functions(&whole, &prepared);
	same_groups(&whole, &often);
	same_groups(&whole, &seldom);
	same_groups(&whole, &prepared);
	same_rows(&whole, &often);
	same_rows(&whole, &seldom);
	same_rows(&whole, &prepared);
	told_deinit(&whole);
	told_deinit(&often);
	told_deinit(&seldom);
	told_deinit(&prepared);
}

/* ---- the bound ---- */

static void sum(const struct pprof_rows *r, uint64_t all[PPROF_VALUES])
{
	memset(all, 0, PPROF_VALUES * sizeof(*all));
	for (uint32_t i = 0; i < r->keys.n; i++)
		for (int k = 0; k < PPROF_VALUES; k++)
			all[k] += r->values[i][k];
}

/* One goroutine that does something else at each look, but for every second one. */
static void requests(struct told *t, uint32_t windows, bool new_stacks)
{
	uint32_t n = 0;

	track(&t->w, 1, "main.main");
	for (uint32_t i = 0; i < windows; i++) {
		for (int k = 0; k < 50; k++, n++) {
			char leaf[32];

			snprintf(leaf, sizeof(leaf), "f%u", new_stacks ? n : n % 10);
			tick(&t->w);
			profile_credit(t->w.p, look(&t->w, 1, stack1(&t->w, leaf), "running", labels(&t->w, n), true), 1000);
			world_pass(&t->w, TICK);
			tick(&t->w);
			profile_credit(t->w.p, look(&t->w, 1, stack1(&t->w, "hot"), "running", 0, true), 5000);
			world_pass(&t->w, TICK);
		}
		tell(t);
		if (i % 5 == 4)
			begin_epoch(&t->w);
	}
}

static void rare_label_sets_come_together(void **state)
{
	const size_t most = 512 * 1024;
	struct told t;
	uint64_t all[PPROF_VALUES], health[HEALTH_COUNT] = { 0 };
	uint32_t at;

	(void)state;
	told_init(&t);
	pprof_limit(t.x, most);
	requests(&t, 200, false);
	assert_true(pprof_rows_bytes(t.x->rows) <= most + most / 4);
	pprof_health(t.x, health);
	assert_true(health[HEALTH_LABELS_MERGED] > 5000);
	assert_int_equal(health[HEALTH_STACKS_MERGED], 0);	/* labels alone were enough */
	for (int f = 0; f < 10; f++) {
		char text[64];

		snprintf(text, sizeof(text), "main.f%d|running|0|labels=[other labels]|", f);
		assert_true(find_row(t.x->rows, text, &at));
		assert_true(t.x->rows->values[at][PPROF_CPU] > 400 * 1000);
	}
	assert_true(find_row(t.x->rows, "main.hot|running|0|", &at));
	assert_int_equal(t.x->rows->values[at][PPROF_CPU], 200 * 50 * 5000);
	sum(t.x->rows, all);
	assert_int_equal(all[PPROF_CPU], 200 * 50 * 6000);
	assert_int_equal(all[PPROF_WALL], 200ull * 100 * TICK);
	told_deinit(&t);
}

static void rare_stacks_come_together(void **state)
{
	const size_t most = 512 * 1024;
	struct told t;
	uint64_t all[PPROF_VALUES], health[HEALTH_COUNT] = { 0 };
	_cleanup_(buf_deinit) struct buf out;
	struct buf_sink sink;
	uint32_t at;

	(void)state;
	told_init(&t);
	pprof_limit(t.x, most);
	requests(&t, 200, true);
	assert_true(pprof_rows_bytes(t.x->rows) <= most + most / 4);
	pprof_health(t.x, health);
	assert_true(health[HEALTH_STACKS_MERGED] > 5000);
	assert_true(find_row(t.x->rows, "[other stacks]|running|0|", &at));
	assert_true(t.x->rows->values[at][PPROF_CPU] > 5000 * 1000);
	assert_true(find_row(t.x->rows, "main.hot|running|0|", &at));
	assert_int_equal(t.x->rows->values[at][PPROF_CPU], 200 * 50 * 5000);
	sum(t.x->rows, all);
	assert_int_equal(all[PPROF_CPU], 200 * 50 * 6000);
	assert_int_equal(all[PPROF_WALL], 200ull * 100 * TICK);
	/* It is told in the file, too. */
	buf_init(&out);
	sink = buf_sink_to(&out);
	must(pprof_finish(t.x, &sink.sink));
	assert_int_equal(t.x->health[HEALTH_STACKS_MERGED], health[HEALTH_STACKS_MERGED]);
	assert_true(out.len > 1000);
	told_deinit(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(epochs_do_not_show),
		cmocka_unit_test(rare_label_sets_come_together),
		cmocka_unit_test(rare_stacks_come_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
