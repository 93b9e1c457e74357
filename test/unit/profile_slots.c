/*
 * profile_slots.c: a long random history of tracks that begin, end, come back as themselves or as others, and
 * whose places are used again, against a simple model that keeps everything. What each window says must be
 * what the model says, and places must not be lost.
 */
#include "profile_world.h"

#include <stdlib.h>

#include "profile/profile_impl.h"

enum { KEYS = 40, ENTRIES = 2, STATES = 3, TRACKS_MOST = 4096, INTERVALS_MOST = 256, WINDOWS = 400 };

struct model_interval {
	uint32_t state;
	uint64_t start, end;
};

struct model_track {
	uint64_t key;
	uint32_t entry, state;
	bool open, gone, looked;	/* looked: it has an interval in this window */
	struct model_interval v[INTERVALS_MOST];
	uint32_t n;
	bool met;			/* in the window that is compared */
};

struct model {
	struct model_track *v;		/* all that the window may tell of */
	uint32_t n;
	uint64_t start;			/* of the window */
};

static const char *const entries[] = { "main.a", "main.b" };
static const char *const states[] = { "running", "IO wait", "select" };

/* The track that a key stands for, if any. */
static struct model_track *model_find(struct model *m, uint64_t key)
{
	for (uint32_t i = m->n; i-- > 0;)
		if (m->v[i].key == key)
			return m->v[i].gone && !m->v[i].looked ? NULL : &m->v[i];
	return NULL;
}

static void model_interval(struct model_track *t, uint32_t state, uint64_t at)
{
	assert_true(t->n < INTERVALS_MOST);
	t->v[t->n++] = (struct model_interval){ state, at, at };
	t->looked = true;
}

static void model_end(struct model *m, struct model_track *t, uint64_t at)
{
	if (t->open && !t->looked)
		model_interval(t, t->state, m->start);
	if (t->open)
		t->v[t->n - 1].end = at;
	t->open = false;
}

static void model_track(struct model *m, uint64_t key, uint32_t entry)
{
	struct model_track *t = model_find(m, key);

	if (t && !t->gone)
		return;
	if (t && t->entry == entry) {
		t->gone = false;
		return;
	}
	assert_true(m->n < TRACKS_MOST);
	m->v[m->n++] = (struct model_track){ .key = key, .entry = entry };
}

static bool model_look(struct model *m, uint64_t key, uint32_t state, uint64_t at)
{
	struct model_track *t = model_find(m, key);

	if (!t)
		return false;
	if (!t->open || t->state != state) {
		model_end(m, t, at);
		model_interval(t, state, at);
	} else if (!t->looked) {
		model_interval(t, state, m->start);
	}
	t->open = true;
	t->gone = false;
	t->state = state;
	return true;
}

static void model_gone(struct model *m, uint64_t key, uint64_t at)
{
	struct model_track *t = model_find(m, key);

	if (!t || t->gone)
		return;
	model_end(m, t, at);
	t->gone = true;
}

static void model_close(struct model *m, uint64_t at)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < m->n; i++) {
		struct model_track *t = &m->v[i];

		if (t->gone)
			continue;
		t->n = 0;
		t->looked = t->met = false;
		m->v[kept++] = *t;
	}
	m->n = kept;
	m->start = at;
}

/* What goes on to the window's end gets its interval. */
static uint32_t model_finish(struct model *m, uint64_t at)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n; i++) {
		struct model_track *t = &m->v[i];

		if (t->open && !t->looked)
			model_interval(t, t->state, m->start);
		if (t->open)
			t->v[t->n - 1].end = at;
		n += t->n > 0;
	}
	return n;
}

static bool same_track(const struct window *w, const struct window_track *a, const struct model_track *b)
{
	if (b->met || a->info.key != b->key || a->n != b->n ||
	    strcmp(profile_string_get(w->profile, a->info.entry), entries[b->entry]) != 0)
		return false;
	for (uint32_t i = 0; i < a->n; i++)
		if (a->v[i].t_start != b->v[i].start || a->v[i].t_end != b->v[i].end ||
		    strcmp(profile_string_get(w->profile, a->v[i].state), states[b->v[i].state]) != 0)
			return false;
	return true;
}

/* Who does not hear that keys repeat takes each place for a goroutine of its own. */
static void check_keys(const struct window *w)
{
	for (uint32_t i = 0; i < w->n_tracks && !w->keys_repeat; i++)
		for (uint32_t k = 0; k < i; k++)
			assert_true(w->tracks[i].info.key != w->tracks[k].info.key);
}

static void compare(const struct window *w, struct model *m)
{
	check_keys(w);
	assert_int_equal(w->n_tracks, model_finish(m, w->end.mono));
	for (uint32_t i = 0; i < w->n_tracks; i++) {
		uint32_t k = 0;

		while (k < m->n && !same_track(w, &w->tracks[i], &m->v[k]))
			k++;
		if (k == m->n)
			fail_msg("window %u: no such track, key %u", w->number, (unsigned)w->tracks[i].info.key);
		m->v[k].met = true;
	}
}

/* Marked in the store's lists, and each place in one of them at most once. */
static void check_places(const struct profile *p)
{
	const struct slots *lists[] = { &p->tracks.gone, &p->tracks.free };
	uint8_t *met = calloc(p->tracks.n + 1, 1);

	for (size_t i = 0; i < 2; i++) {
		for (uint32_t k = 0; k < lists[i]->n; k++) {
			assert_false(met[lists[i]->v[k]]++);
			assert_true(track_at(&p->tracks, lists[i]->v[k])->flags & TRACK_LISTED);
		}
	}
	/* Every goroutine that is gone has its place in a list, so that it is used again. */
	for (uint32_t slot = 0; slot < p->tracks.n; slot++)
		assert_true(met[slot] || !(track_at(&p->tracks, slot)->flags & TRACK_GONE));
	free(met);
}

static void step(struct world *w, struct model *m, uint64_t *seed, bool in_tick)
{
	uint64_t key = 1 + draw(seed, KEYS);
	uint32_t what = draw(seed, 8), entry = draw(seed, ENTRIES), state = draw(seed, STATES);

	world_pass(w, 10);
	if (what < 2) {
		profile_gone(w->p, key, w->mono);
		model_gone(m, key, w->mono);
	} else if (what < 5 || !in_tick) {
		track(w, key, entries[entry]);
		model_track(m, key, entry);
	} else {
		struct profile_observation o = {
			.key = key, .state = text(w, states[state]), .t_before = w->mono, .t_after = w->mono, .weight = 1,
		};
		struct profile_ref ref;
		struct error *err = profile_observe(w->p, &o, &ref);

		assert_int_equal(!err, model_look(m, key, state, w->mono));
		assert_true(!err || err == &err_notfound);
	}
}

static void against_a_model(void **state)
{
	struct model m = { .v = calloc(TRACKS_MOST, sizeof(*m.v)) };
	struct world w;
	uint64_t seed = 17;

	(void)state;
	world_init(&w);
	for (uint32_t window = 0; window < WINDOWS; window++) {
		struct closed_window *c;
		struct window *win;

		tick(&w);
		if (!window)
			m.start = w.mono;
		for (uint32_t i = 0, n = draw(&seed, 200); i < n; i++)
			step(&w, &m, &seed, true);
		must(profile_detach_window(w.p, w.mono, &c));
		/* Before it is laid out the next one begins, with another history. */
		if (window % 3 == 0) {
			struct model next = { .v = calloc(TRACKS_MOST, sizeof(*next.v)), .n = m.n };

			memcpy(next.v, m.v, m.n * sizeof(*m.v));
			model_close(&next, w.mono);
			tick(&w);
			for (int i = 0; i < 30; i++)
				step(&w, &next, &seed, true);
			must(closed_window_lay_out(c, &win));
			compare(win, &m);
			window_free(win);
			free(m.v);
			m = next;
			must(profile_detach_window(w.p, w.mono, &c));
		}
		must(closed_window_lay_out(c, &win));
		compare(win, &m);
		window_free(win);
		model_close(&m, w.mono);
		check_places(w.p);
	}
	/* At most each key twice at a time, as two tracks. */
	assert_true(w.p->tracks.n <= 4 * KEYS);
	free(m.v);
	world_deinit(&w);
}

/* Threads of the collector come and go at every tick, under the same key. */
static void coming_and_going(void **state)
{
	struct world w;

	(void)state;
	world_init(&w);
	for (int window = 0; window < 50; window++) {
		for (int i = 0; i < 100; i++) {
			tick(&w);
			track(&w, PROFILE_THREAD_KEY + 1, "[gc]");
			look(&w, PROFILE_THREAD_KEY + 1, stack1(&w, "f"), "gc", 0, true);
			profile_gone(w.p, PROFILE_THREAD_KEY + 1, w.mono);
			world_pass(&w, TICK);
		}
		window_free(close_now(&w));
		check_places(w.p);
	}
	assert_true(w.p->tracks.n <= 2);
	assert_true(w.p->tracks.free.n + w.p->tracks.gone.n <= 2);
	world_deinit(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(against_a_model),
		cmocka_unit_test(coming_and_going),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
