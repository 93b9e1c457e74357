/*
 * sentry_threads.c: which goroutines a payload tells of, which of them is the active one, and what
 * they are called. Where there are too many, those with least on-CPU time are left out, then those
 * that changed least; they are counted in the transaction, never silently lost.
 */
#include <stdlib.h>
#include <string.h>

#include "export/export_impl.h"

enum { NAME_MOST = 200 };	/* bytes of a thread's name: it is shown in a menu */

bool sentry_interval_told(const struct sentry_view *view, const struct interval *iv)
{
	uint64_t end = iv->t_end < view->limit ? iv->t_end : view->limit;

	if (iv->t_start >= end || iv->stack == PROFILE_STACK_EMPTY)
		return false;
	return view->mode == PROFILE_WALL || iv->flags & INTERVAL_ONCPU;
}

/* ---- choosing ---- */

static int by_key_and_time(const void *va, const void *vb)
{
	const struct window_track *a = *(const struct window_track *const *)va;
	const struct window_track *b = *(const struct window_track *const *)vb;

	if (a->info.key != b->info.key)
		return a->info.key < b->info.key ? -1 : 1;
	return (a->v[0].t_start > b->v[0].t_start) - (a->v[0].t_start < b->v[0].t_start);
}

static int by_weight(const void *va, const void *vb)
{
	const struct sentry_thread *a = va, *b = vb;

	if (a->cpu_ns != b->cpu_ns)
		return a->cpu_ns < b->cpu_ns ? 1 : -1;
	if (a->changes != b->changes)
		return a->changes < b->changes ? 1 : -1;
	return (a->key > b->key) - (a->key < b->key);
}

static bool has_told_interval(const struct sentry_view *view, const struct window_track *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (sentry_interval_told(view, &t->v[i]))
			return true;
	return false;
}

/* Tracks of one key become one thread; those that would have no sample none. */
static void gather(const struct sentry_view *view, struct sentry_threads *t)
{
	uint32_t n_tracks = view->w->n_tracks;

	for (uint32_t i = 0, next; i < n_tracks; i = next) {
		struct sentry_thread th = { .key = t->tracks[i]->info.key, .tracks = t->tracks + i };
		bool told = false;

		for (next = i; next < n_tracks && t->tracks[next]->info.key == th.key; next++) {
			th.n_tracks++;
			th.cpu_ns += t->tracks[next]->cpu_ns;
			th.changes += t->tracks[next]->n;
			told = told || has_told_interval(view, t->tracks[next]);
		}
		t->goroutines += th.key < PROFILE_THREAD_KEY;
		if (told)
			t->v[t->n++] = th;
	}
	qsort(t->v, t->n, sizeof(*t->v), by_weight);
}

static uint32_t find_key(const struct sentry_threads *t, uint64_t key)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (t->v[i].key == key)
			return i;
	return t->n;
}

/* Index of the active thread. The busiest is a goroutine, unless there are none. */
static uint32_t find_active(const struct sentry_threads *t, const struct export_options *o)
{
	uint32_t at = t->n;

	if (!o->active_busiest)
		at = find_key(t, o->active_goid ? o->active_goid : 1);
	for (uint32_t i = 0; at == t->n && i < t->n; i++)
		if (t->v[i].key < PROFILE_THREAD_KEY)
			at = i;
	return at == t->n ? 0 : at;
}

static void limit(struct sentry_threads *t, const struct export_options *o)
{
	uint32_t at = find_active(t, o);

	t->active = t->v[at].key;
	t->told = o->max_threads && t->n > o->max_threads ? o->max_threads : t->n;
	if (at >= t->told) {
		struct sentry_thread active = t->v[at];

		memmove(t->v + t->told, t->v + t->told - 1, (at - t->told + 1) * sizeof(*t->v));
		t->v[t->told - 1] = active;
	}
}

struct error *sentry_threads_choose(const struct sentry_view *view, const struct export_options *o,
				    struct sentry_threads *ret)
{
	uint32_t n = view->w->n_tracks;
	struct sentry_threads t = { 0 };

	t.tracks = calloc((size_t)n + 1, sizeof(*t.tracks));
	t.v = calloc((size_t)n + 1, sizeof(*t.v));
	if (!t.tracks || !t.v) {
		sentry_threads_deinit(&t);
		return &err_nomem;
	}
	for (uint32_t i = 0; i < n; i++)
		t.tracks[i] = &view->w->tracks[i];
	qsort(t.tracks, n, sizeof(*t.tracks), by_key_and_time);
	gather(view, &t);
	if (!t.n) {
		sentry_threads_deinit(&t);
		return error_new(ERROR_NOT_FOUND, "no goroutine of this window has two samples");
	}
	limit(&t, o);
	*ret = t;
	return NULL;
}

void sentry_threads_deinit(struct sentry_threads *t)
{
	free(t->tracks);
	free(t->v);
	*t = (struct sentry_threads){ 0 };
}

/* ---- names ---- */

/* The label set that stayed longest: a worker that sets labels for each request has many. */
static profile_id labels_of(const struct sentry_thread *th)
{
	profile_id best = PROFILE_LABELS_NONE, at = PROFILE_LABELS_NONE;
	uint64_t best_ns = 0, ns = 0;

	for (uint32_t k = 0; k < th->n_tracks; k++) {
		for (uint32_t i = 0; i < th->tracks[k]->n; i++) {
			const struct interval *iv = &th->tracks[k]->v[i];

			ns = iv->labels == at ? ns : 0;
			at = iv->labels;
			ns += iv->t_end - iv->t_start;
			if (at > PROFILE_LABELS_UNKNOWN && ns > best_ns) {
				best = at;
				best_ns = ns;
			}
		}
	}
	return best;
}

static void add_labels(struct buf *b, const struct profile *p, profile_id id)
{
	struct profile_labels l = profile_labels_get(p, id);

	if (!l.n)
		return;
	buf_adds(b, " {");
	for (uint32_t i = 0; i < l.n; i++)
		buf_addf(b, "%s%s: %s", i ? ", " : "", profile_string_get(p, l.v[i].key),
			 profile_string_get(p, l.v[i].value));
	buf_addc(b, '}');
}

/* Cuts a long name, not within a character. */
static size_t name_length(const struct buf *b)
{
	size_t len = b->len;

	if (len <= NAME_MOST)
		return len;
	len = NAME_MOST - strlen("...");
	while (len && ((unsigned char)b->data[len] & 0xc0) == 0x80)
		len--;
	return len;
}

static void add_name(struct buf *out, const struct sentry_thread *th, const struct profile *p)
{
	const struct window_track *latest = th->tracks[th->n_tracks - 1];
	const char *entry = profile_string_get(p, latest->info.entry);
	bool goroutine = th->key < PROFILE_THREAD_KEY;
	struct buf name;
	size_t len;

	buf_init(&name);
	buf_addf(&name, "%s %llu", goroutine ? "goroutine" : "thread",
		 (unsigned long long)(goroutine ? th->key : th->key - PROFILE_THREAD_KEY));
	if (*entry)
		buf_addf(&name, ": %s", entry);
	add_labels(&name, p, labels_of(th));
	len = name_length(&name);
	if (len < name.len) {
		name.len = len;
		buf_adds(&name, "...");
	}
	if (buf_error(&name))
		out->failed = true;
	else
		buf_add_json(out, name.data, name.len);
	buf_deinit(&name);
}

void sentry_threads_json(const struct sentry_threads *t, const struct profile *p, struct buf *b)
{
	buf_addc(b, '{');
	for (uint32_t i = 0; i < t->told; i++) {
		buf_addf(b, "%s\"%llu\":{\"name\":", i ? "," : "", (unsigned long long)t->v[i].key);
		add_name(b, &t->v[i], p);
		buf_addc(b, '}');
	}
	buf_addc(b, '}');
}
