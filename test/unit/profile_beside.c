/*
 * profile_beside.c: windows are laid out, read and freed in another thread while the store goes on. What a
 * window says must be what was so when it was closed, however the store has changed since. Meant to be run
 * under the thread sanitizer, too: make SAN=thread O=... check-unit TEST=profile_beside
 */
#include "profile_world.h"

#include <pthread.h>
#include <stdlib.h>

enum { WINDOWS = 150, TRACKS = 700, ENDED = 40, QUEUE = 3 };

/* A few windows on their way, and who waits for them. */
struct line {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct closed_window *v[QUEUE];
	uint32_t n;
	bool over;
	/* found by the reader */
	uint32_t windows, wrong;
	char what[128];
};

static struct closed_window *line_take(struct line *l)
{
	struct closed_window *c = NULL;

	pthread_mutex_lock(&l->lock);
	while (!l->n && !l->over)
		pthread_cond_wait(&l->changed, &l->lock);
	if (l->n) {
		c = l->v[0];
		memmove(l->v, l->v + 1, --l->n * sizeof(c));
		pthread_cond_broadcast(&l->changed);
	}
	pthread_mutex_unlock(&l->lock);
	return c;
}

static void line_put(struct line *l, struct closed_window *c)
{
	pthread_mutex_lock(&l->lock);
	while (l->n == QUEUE)
		pthread_cond_wait(&l->changed, &l->lock);
	l->v[l->n++] = c;
	l->over = l->over || !c;
	l->n -= !c;
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
}

/* In window n a goroutine stands at f<key % 13>_<n>, if it was looked at then, with a label that says both. */
static void check_track(struct line *l, const struct window *w, const struct window_track *t)
{
	const struct interval *last = &t->v[t->n - 1];
	struct profile_stack s = profile_stack_get(w->profile, last->stack);
	struct profile_labels labels = profile_labels_get(w->profile, last->labels);
	const char *leaf = s.n ? profile_string_get(w->profile, profile_frame_get(w->profile, s.frames[0])->function) : "";
	char want[64];
	uint32_t n = 0;

	if (labels.n)
		sscanf(profile_string_get(w->profile, labels.v[0].value), "%*u at %u", &n);
	snprintf(want, sizeof(want), "main.f%llu_%u", (unsigned long long)(t->info.key % 13), n);
	if (n && n <= w->number && !strcmp(want, leaf) && last->t_end <= w->end.mono &&
	    !strcmp(profile_string_get(w->profile, t->info.entry), "main.work"))
		return;
	if (!l->wrong++)
		snprintf(l->what, sizeof(l->what), "window %u, key %llu: %s, not %s", w->number,
			 (unsigned long long)t->info.key, leaf, want);
}

static void *reader(void *arg)
{
	struct line *l = arg;
	struct closed_window *c;

	while ((c = line_take(l))) {
		struct window *w;
		struct error *err = closed_window_lay_out(c, &w);

		if (err) {
			l->wrong++;
			continue;
		}
		for (uint32_t i = 0; i < w->n_tracks; i++)
			check_track(l, w, &w->tracks[i]);
		l->wrong += w->n_tracks != TRACKS + (w->number > 1 ? ENDED : 0);
		l->windows++;
		window_free(w);
	}
	return NULL;
}

static void look_at(struct world *w, uint64_t key, uint32_t window)
{
	struct profile_label l = { .key = text(w, "where") };
	char leaf[32], value[32];
	profile_id labels;

	snprintf(leaf, sizeof(leaf), "f%llu_%u", (unsigned long long)(key % 13), window);
	snprintf(value, sizeof(value), "%llu at %u", (unsigned long long)key, window);
	l.value = text(w, value);
	must(profile_labels(w->p, &l, 1, &labels));
	look(w, key, stack1(w, leaf), "running", labels, false);
}

static void sampling_goes_on(struct world *w, struct line *l)
{
	uint64_t first = 1, next = 1, seed = 5;

	for (uint32_t window = 1; window <= WINDOWS; window++) {
		struct closed_window *c;

		tick(w);
		/* Some end, as many begin, some change, most stay where they were. */
		for (int i = 0; window > 1 && i < ENDED; i++)
			profile_gone(w->p, first++, w->mono);
		for (; next < first + TRACKS; next++) {
			track(w, next, "main.work");
			look_at(w, next, window);
		}
		for (int i = 0; i < 100; i++)
			look_at(w, first + draw(&seed, TRACKS), window);
		world_pass(w, TICK);
		must(profile_detach_window(w->p, w->mono, &c));
		line_put(l, c);
		if (window % 7 == 0) {
			struct profile_carry *carry;

			must(profile_begin_epoch(w->p, &carry));
			profile_carry_free(carry);
		}
	}
	line_put(l, NULL);
}

static void windows_stay_as_they_were(void **state)
{
	struct line l = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
	struct world w;
	pthread_t thread;

	(void)state;
	world_init(&w);
	assert_int_equal(pthread_create(&thread, NULL, reader, &l), 0);
	sampling_goes_on(&w, &l);
	pthread_join(thread, NULL);
	assert_int_equal(l.windows, WINDOWS);
	if (l.wrong)
		fail_msg("%u wrong, the first: %s", l.wrong, l.what);
	world_deinit(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_stay_as_they_were),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
