/*
 * sentry_threads.c: which threads a payload tells of, and which of them is the active one. A thread is
 * a goroutine, a lane that goroutines of one kind share (sentry_lanes.c), or a group that is told as an
 * average (sentry_groups.c). Where there are too many, those with least on-CPU time are left out, then
 * those that changed least; they are counted in the transaction, never silently lost.
 *
 * A window may hold a million goroutines of which a thousand are told: whatever is kept for each of them
 * is four bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "export/export_impl.h"

uint64_t sentry_interval_end(const struct sentry_view *view, const struct interval *iv)
{
	return iv->t_end < view->limit ? iv->t_end : view->limit;
}

bool sentry_interval_told(const struct sentry_view *view, const struct interval *iv)
{
	if (iv->t_start >= sentry_interval_end(view, iv) || iv->stack == PROFILE_STACK_EMPTY)
		return false;
	return view->mode == PROFILE_WALL || iv->flags & INTERVAL_ONCPU;
}

bool sentry_label_value(const struct profile *p, const struct export_options *o, profile_id labels,
			profile_id *ret)
{
	struct profile_labels l;

	if (o->threads != EXPORT_BY_LABEL || labels == PROFILE_LABELS_NONE ||
	    labels == PROFILE_LABELS_UNKNOWN)
		return false;
	l = profile_labels_get(p, labels);
	for (uint32_t i = 0; i < l.n; i++) {
		if (strcmp(profile_string_get(p, l.v[i].key), o->label) != 0)
			continue;
		*ret = l.v[i].value;
		return true;
	}
	return false;
}

/* ---- keeping the most important ---- */

static int by_weight(const void *va, const void *vb)
{
	const struct sentry_thread *a = va, *b = vb;

	if (a->pinned != b->pinned)
		return a->pinned ? -1 : 1;
	if (a->cpu_ns != b->cpu_ns)
		return a->cpu_ns < b->cpu_ns ? 1 : -1;
	if (a->changes != b->changes)
		return a->changes < b->changes ? 1 : -1;
	if (a->id != b->id)
		return a->id < b->id ? -1 : 1;
	if (a->name != b->name)
		return a->name < b->name ? -1 : 1;
	if (a->lane != b->lane)
		return a->lane < b->lane ? -1 : 1;
	return (a->first > b->first) - (a->first < b->first);
}

static struct error *leave_out(struct sentry_threads *t, const struct sentry_thread *th)
{
	uint32_t at, n = th->kind == SENTRY_GROUP ? th->changes : 1;
	bool fresh;
	struct error *err = keyset_add(&t->left_names, &th->name, sizeof(th->name), &at, &fresh);

	if (!err)
		err = array_reserve(&t->left_counts, &t->cap_left, t->left_names.n,
				    sizeof(*t->left_counts));
	if (err)
		return err;
	t->left_counts[at] = (fresh ? 0 : t->left_counts[at]) + n;
	t->left_out += n;
	return NULL;
}

/*
 * The most important ones first, the rest left out. The busiest goroutine is kept as well: threads
 * without one may all be busier, and it is shown first where the one asked for is not there.
 */
static struct error *cut(struct sentry_threads *t, bool last)
{
	uint32_t keep = t->most, best = 0, n = t->told;
	struct error *err = NULL;

	if (t->told)
		qsort(t->v, t->told, sizeof(*t->v), by_weight);
	if (!t->most || t->told <= t->most)
		return NULL;
	while (best < t->told && t->v[best].native)
		best++;
	if (best < t->told && best >= keep && !t->v[0].pinned) {
		struct sentry_thread th = t->v[best];

		/* Whether its place is needed is only known when all have come. */
		keep += !last;
		memmove(t->v + keep, t->v + keep - 1, (best - keep + 1) * sizeof(*t->v));
		t->v[keep - 1] = th;
	}
	t->told = keep;
	for (uint32_t i = keep; i < n && !err; i++)
		err = leave_out(t, &t->v[i]);
	return err;
}

struct error *sentry_threads_add(struct sentry_threads *t, const struct sentry_thread *th)
{
	struct error *err = NULL;

	/* Twice as many as are wanted: seldom enough to sort them. */
	if (t->most && t->told / 2 >= t->most + 32)
		err = cut(t, false);
	if (!err)
		err = array_reserve(&t->v, &t->cap, t->told + 1, sizeof(*t->v));
	if (!err)
		t->v[t->told++] = *th;
	return err;
}

/* ---- goroutine by goroutine ---- */

/* What all steps need. */
struct choice {
	const struct sentry_view *view;
	const struct export_options *o;
	struct sentry_threads *t;
	uint32_t *order;	/* tracks by key and time */
	uint64_t pinned;	/* key; 0: none */
	struct keyset owners;	/* of lanes */
};

static int by_key_and_time(const void *va, const void *vb, void *ctx)
{
	const struct window *w = ctx;
	const struct window_track *a = &w->tracks[*(const uint32_t *)va];
	const struct window_track *b = &w->tracks[*(const uint32_t *)vb];

	if (a->info.key != b->info.key)
		return a->info.key < b->info.key ? -1 : 1;
	return (a->v[0].t_start > b->v[0].t_start) - (a->v[0].t_start < b->v[0].t_start);
}

static uint32_t *ordered_tracks(const struct window *w)
{
	uint32_t *order = calloc((size_t)w->n_tracks + 1, sizeof(*order));
	bool sorted = true;

	for (uint32_t i = 0; order && i < w->n_tracks; i++) {
		order[i] = i;
		sorted = sorted && (!i || w->tracks[i - 1].info.key < w->tracks[i].info.key);
	}
	/* As it is where goroutines are found in the order in which they were made and none is gone. */
	if (order && !sorted)
		qsort_r(order, w->n_tracks, sizeof(*order), by_key_and_time, (void *)(uintptr_t)w);
	return order;
}

static void add_facts(const struct sentry_view *view, const struct window_track *track,
		      struct sentry_facts *f)
{
	f->entry = track->info.entry;
	f->cpu_ns += track->cpu_ns;
	f->changes += track->n;
	for (uint32_t i = 0; i < track->n; i++) {
		const struct interval *iv = &track->v[i];

		if (!sentry_interval_told(view, iv))
			continue;
		if (!f->told) {
			f->start = iv->t_start;
			f->stack = iv->stack;
		}
		f->one_stack = (!f->told || f->one_stack) && iv->stack == f->stack;
		f->told = true;
		f->oncpu = f->oncpu || iv->flags & INTERVAL_ONCPU || iv->cpu_ns;
		f->state = iv->state;
		f->labels = iv->labels;
	}
}

/* The tracks of one key, from order[i]; returns where the next key's begin. */
static uint32_t facts_of(const struct choice *c, uint32_t i, struct sentry_facts *f)
{
	const struct window *w = c->view->w;
	uint32_t next = i;

	*f = (struct sentry_facts){ .key = w->tracks[c->order[i]].info.key };
	for (; next < w->n_tracks && w->tracks[c->order[next]].info.key == f->key; next++)
		add_facts(c->view, &w->tracks[c->order[next]], f);
	f->alone = f->key == c->pinned;
	return next;
}

static struct error *add_piece(struct sentry_threads *t, const struct window *w, uint32_t track)
{
	struct error *err = array_reserve(&t->pieces, &t->cap_pieces, t->n_pieces + 1, sizeof(*t->pieces));

	if (!err)
		t->pieces[t->n_pieces++] = (struct sentry_piece){ .track = track, .end = w->tracks[track].n };
	return err;
}

/* A goroutine of its own: all its tracks, from order[i] to order[next]. */
static struct error *add_goroutine(struct choice *c, const struct sentry_facts *f, uint32_t i, uint32_t next)
{
	struct sentry_thread th = {
		.id = f->key, .cpu_ns = f->cpu_ns, .changes = f->changes, .first = i, .n = next - i,
		.name = f->entry, .kind = SENTRY_GOROUTINE, .native = f->key >= PROFILE_THREAD_KEY,
		.pinned = f->key == c->pinned,
	};

	return sentry_threads_add(c->t, &th);
}

static struct error *add_one(struct choice *c, const struct sentry_facts *f, uint32_t i, uint32_t next)
{
	bool grouped = false;
	struct error *err = NULL;

	if (c->view->level->grouping)
		err = sentry_groups_add(&c->t->groups, c->view, c->o, f, c->order + i, next - i, &grouped);
	if (err || grouped)
		return err;
	if (c->o->threads == EXPORT_BY_GOROUTINE)
		return add_goroutine(c, f, i, next);
	for (; i < next && !err; i++)
		err = sentry_lanes_track(c->view, c->o, &c->owners, c->order[i], c->t);
	return err;
}

static struct error *count_groups(struct choice *c)
{
	const struct window *w = c->view->w;
	struct error *err = NULL;
	struct sentry_facts f;

	for (uint32_t i = 0; i < w->n_tracks && !err; ) {
		i = facts_of(c, i, &f);
		err = sentry_groups_count(&c->t->groups, c->view, c->o, &f);
	}
	return err;
}

static struct error *add_all(struct choice *c)
{
	const struct window *w = c->view->w;
	struct error *err = c->view->level->grouping ? count_groups(c) : NULL;
	struct sentry_facts f;

	for (uint32_t i = 0, next; i < w->n_tracks && !err; i = next) {
		next = facts_of(c, i, &f);
		c->t->goroutines += f.key < PROFILE_THREAD_KEY;
		if (f.told)
			err = add_one(c, &f, i, next);
	}
	if (!err && c->view->level->grouping)
		err = sentry_groups_threads(c->t);
	if (!err && c->o->threads != EXPORT_BY_GOROUTINE)
		err = sentry_lanes(c->view, &c->owners, c->pinned, c->t);
	return err ? err : cut(c->t, true);
}

/* Until here the pieces of a goroutine were places in the order of tracks. */
static struct error *pieces_of_goroutines(struct choice *c)
{
	struct error *err = NULL;

	for (uint32_t i = 0; i < c->t->told; i++) {
		struct sentry_thread *th = &c->t->v[i];
		uint32_t first = c->t->n_pieces;

		if (th->kind != SENTRY_GOROUTINE)
			continue;
		for (uint32_t k = 0; k < th->n && !err; k++)
			err = add_piece(c->t, c->view->w, c->order[th->first + k]);
		th->first = first;
	}
	return err;
}

/* The busiest is a goroutine, unless there are none. */
static uint32_t find_active(const struct sentry_threads *t)
{
	uint32_t at = 0;

	while (at < t->told && t->v[at].native && !t->v[at].pinned)
		at++;
	return at < t->told ? at : 0;
}

/* Goroutine 1 is main's; but where goroutines share threads its thread says little. */
static uint64_t pinned_key(const struct export_options *o)
{
	if (o->active_busiest)
		return 0;
	return o->active_goid || o->threads != EXPORT_BY_GOROUTINE ? o->active_goid : 1;
}

struct error *sentry_threads_choose(const struct sentry_view *view, const struct export_options *o,
				    struct sentry_threads *ret)
{
	_cleanup_free_ uint32_t *order = ordered_tracks(view->w);
	struct choice c = { .view = view, .o = o, .t = ret, .order = order, .pinned = pinned_key(o) };
	struct error *err;

	*ret = (struct sentry_threads){ .most = o->max_threads };
	keyset_init(&ret->left_names);
	sentry_groups_init(&ret->groups);
	keyset_init(&c.owners);
	err = order ? add_all(&c) : &err_nomem;
	keyset_deinit(&c.owners);
	if (!err && !ret->told)
		err = error_new(ERROR_NOT_FOUND, "no goroutine of this window has two samples");
	if (!err)
		err = pieces_of_goroutines(&c);
	if (!err)
		err = sentry_threads_name(ret, view);
	if (err)
		return err;
	for (uint32_t i = 0; i < ret->told; i++)
		if (ret->v[i].kind == SENTRY_GROUP) {
			ret->grouped += ret->v[i].changes;
			ret->n_groups++;
		}
	ret->active = ret->v[find_active(ret)].id;
	return NULL;
}

void sentry_threads_deinit(struct sentry_threads *t)
{
	free(t->v);
	free(t->pieces);
	sentry_groups_deinit(&t->groups);
	keyset_deinit(&t->left_names);
	free(t->left_counts);
	*t = (struct sentry_threads){ 0 };
}
