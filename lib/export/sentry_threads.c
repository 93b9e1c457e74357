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

/* ---- whose time it is ---- */

/* The value of the label that was asked for; false: there is none, or none was asked for. */
static bool label_value(const struct profile *p, const struct export_options *o, profile_id labels, profile_id *ret)
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

struct sentry_owner sentry_owner_of(const struct sentry_view *view, const struct export_options *o,
				    const struct profile_track_info *info, profile_id labels)
{
	struct sentry_owner owner = { .name = info->entry, .native = info->key >= PROFILE_THREAD_KEY };

	owner.by_label = label_value(view->w->profile, o, labels, &owner.name);
	return owner;
}

static struct error *number_of(struct sentry_threads *t, const struct sentry_owner *owner, uint32_t *ret)
{
	bool fresh;
	struct error *err = keyset_add(&t->owners, owner, sizeof(*owner), ret, &fresh);

	if (!err)
		err = array_reserve(&t->parked, &t->cap_parked, t->owners.n, sizeof(*t->parked));
	if (!err && fresh)
		t->parked[*ret] = 0;
	return err;
}

struct error *sentry_threads_owner(struct sentry_threads *t, const struct sentry_view *view,
				   const struct export_options *o, const struct profile_track_info *info,
				   profile_id labels, uint32_t *ret)
{
	struct sentry_owner owner = sentry_owner_of(view, o, info, labels);

	t->labelled = t->labelled || owner.by_label;
	return number_of(t, &owner, ret);
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

/* What a thread of the envelope stands for. */
static void count(struct export_counts *c, const struct sentry_threads *t, const struct sentry_thread *th)
{
	uint32_t n = th->kind == SENTRY_GROUP ? t->groups.v[th->lane].own : 1;

	if (th->kind == SENTRY_LANE)
		c->shared++;
	else if (th->native)
		c->threads += n;
	else
		c->goroutines += n;
}

static struct error *leave_out(struct sentry_threads *t, const struct sentry_thread *th)
{
	struct sentry_owner owner = { th->name, th->by_label, th->native };
	uint32_t at;
	bool fresh;
	struct error *err = keyset_add(&t->left_owners, &owner, sizeof(owner), &at, &fresh);

	if (!err)
		err = array_reserve(&t->left_counts, &t->cap_left, t->left_owners.n,
				    sizeof(*t->left_counts));
	if (err)
		return err;
	if (fresh)
		t->left_counts[at] = (struct export_counts){ 0 };
	count(&t->left_counts[at], t, th);
	count(&t->left_out, t, th);
	t->left_threads++;
	return NULL;
}

/*
 * The most important ones first, the rest left out. The busiest goroutine is kept as well: threads
 * without one may all be busier, and it is shown first where the one asked for is not there.
 */
static struct error *keep_most(struct sentry_threads *t, bool last)
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
		err = keep_most(t, false);
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
	const uint32_t *order;	/* places of tracks by key and time; NULL: as they stand, no key has two */
	uint32_t n;
	uint64_t pinned;	/* key; 0: none */
	struct window_room room;
};

static int by_key_and_time(const void *va, const void *vb, void *ctx)
{
	const struct window *w = ctx;
	uint32_t pa = *(const uint32_t *)va, pb = *(const uint32_t *)vb;
	uint64_t a = window_track_key(w, pa), b = window_track_key(w, pb);

	if (a == b) {
		a = window_track_start(w, pa);
		b = window_track_start(w, pb);
	}
	return (a > b) - (a < b);
}

/* Of those that have intervals. Seldom wanted: for a million it takes eight megabytes. */
static struct error *order_tracks(const struct window *w, uint32_t **ret, uint32_t *n)
{
	uint32_t *order = calloc((size_t)w->n_tracks + 1, sizeof(*order));

	if (!order)
		return &err_nomem;
	*n = 0;
	for (uint32_t i = 0; i < w->n_places; i++)
		if (window_track_key(w, i))
			order[(*n)++] = i;
	qsort_r(order, *n, sizeof(*order), by_key_and_time, (void *)(uintptr_t)w);
	*ret = order;
	return NULL;
}

static uint32_t place_at(const struct choice *c, uint32_t i)
{
	return c->order ? c->order[i] : i;
}

/* 0: nothing is there. */
static uint64_t key_at(const struct choice *c, uint32_t i)
{
	return window_track_key(c->view->w, place_at(c, i));
}

/* That nobody had looked yet says nothing about what a goroutine did. */
static void add_stack(struct sentry_facts *f, const struct interval *iv, bool looked_at)
{
	if (!f->stack || (looked_at && !f->looked_at)) {
		f->stack = iv->stack;
		f->state = iv->state;
		f->one_stack = true;
		f->looked_at = looked_at;
		return;
	}
	if (looked_at != f->looked_at)
		return;
	f->one_stack = f->one_stack && iv->stack == f->stack;
	if (iv->state != f->state)
		f->state = 0;
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
		f->told = true;
		f->oncpu = f->oncpu || iv->flags & INTERVAL_ONCPU || iv->cpu_ns;
		add_stack(f, iv, iv->stack != view->unread);
	}
}

/* The tracks of one key, from the i-th on; *next is where the next key's begin. Without a key: none. */
static struct error *facts_of(struct choice *c, uint32_t i, struct sentry_facts *f, uint32_t *next)
{
	struct error *err = NULL;
	struct window_track track;

	*f = (struct sentry_facts){ .key = key_at(c, i) };
	do {
		err = f->key ? window_track(c->view->w, place_at(c, i), &c->room, &track) : NULL;
		if (f->key && !err)
			add_facts(c->view, &track, f);
		i++;
	} while (i < c->n && !err && key_at(c, i) == f->key);
	f->alone = f->key && f->key == c->pinned;
	*next = i;
	return err;
}

static struct error *add_piece(struct choice *c, uint32_t place)
{
	struct sentry_threads *t = c->t;
	struct window_track track;
	struct error *err = window_track(c->view->w, place, &c->room, &track);

	if (!err)
		err = array_reserve(&t->pieces, &t->cap_pieces, t->n_pieces + 1, sizeof(*t->pieces));
	if (!err)
		t->pieces[t->n_pieces++] = (struct sentry_piece){ .track = place, .end = track.n,
								  .after = WINDOW_TRACK_END };
	return err;
}

/* A goroutine of its own: all its tracks, from the i-th to before `next`. */
static struct error *add_goroutine(struct choice *c, const struct sentry_facts *f, uint32_t i, uint32_t next)
{
	struct sentry_thread th = {
		.id = f->key, .cpu_ns = f->cpu_ns, .changes = f->changes, .first = i, .n = next - i,
		.name = f->entry, .kind = SENTRY_GOROUTINE, .native = f->key >= PROFILE_THREAD_KEY,
		.pinned = f->key == c->pinned,
	};

	return sentry_threads_add(c->t, &th);
}

/* ---- those that are grouped, or share threads ---- */

/* Those of the goroutine's pieces from `begin` on that stay are the ones that join no group. */
static struct error *group_pieces(struct choice *c, struct sentry_facts *f, uint32_t begin)
{
	struct sentry_threads *t = c->t;
	uint32_t kept = begin;
	struct error *err = NULL;

	for (uint32_t i = begin; i < t->n_pieces && !err; i++) {
		size_t len;
		const struct sentry_owner owner =
			*(const struct sentry_owner *)keyset_get(&t->owners, t->pieces[i].owner, &len);
		bool grouped = false;

		if (sentry_groups_take(c->view, f, &owner))
			err = sentry_groups_add(&t->groups, c->view, f, &owner, &t->pieces[i], &c->room,
						&grouped);
		if (!grouped)
			t->pieces[kept++] = t->pieces[i];
	}
	t->n_pieces = kept;
	return err;
}

static struct error *count_pieces(struct choice *c, const struct sentry_facts *f, uint32_t begin)
{
	struct sentry_threads *t = c->t;
	struct error *err = NULL;

	for (uint32_t i = begin; i < t->n_pieces && !err; i++) {
		uint32_t number = t->pieces[i].owner;
		size_t len;
		const struct sentry_owner *owner = keyset_get(&t->owners, number, &len);

		if (sentry_groups_take(c->view, f, owner))
			err = sentry_groups_count(&t->groups, c->view, f, owner, number);
	}
	t->n_pieces = begin;
	return err;
}

/* A goroutine by itself is in one piece for each track, all of one owner. */
static struct error *cut_goroutine(struct choice *c, const struct sentry_facts *f, uint32_t i, uint32_t next)
{
	struct sentry_owner owner = { .name = f->entry, .native = f->key >= PROFILE_THREAD_KEY };
	uint32_t number;
	struct error *err = number_of(c->t, &owner, &number);

	for (; i < next && !err; i++) {
		err = add_piece(c, place_at(c, i));
		if (!err)
			c->t->pieces[c->t->n_pieces - 1].owner = number;
	}
	return err;
}

static struct error *cut(struct choice *c, const struct sentry_facts *f, uint32_t i, uint32_t next)
{
	struct window_track track;
	struct error *err = NULL;

	if (c->o->threads == EXPORT_BY_GOROUTINE)
		return cut_goroutine(c, f, i, next);
	for (; i < next && !err; i++) {
		err = window_track(c->view->w, place_at(c, i), &c->room, &track);
		if (!err)
			err = sentry_lanes_track(c->view, c->o, &track, place_at(c, i), !f->oncpu, c->t);
	}
	return err;
}

/* Whoever was on a CPU is grouped only where everybody is. */
static bool may_be_grouped(const struct choice *c, const struct sentry_facts *f)
{
	return !f->oncpu || c->view->level->grouping == SENTRY_GROUP_ALL;
}

/* Is anybody grouped? */
static bool groups(const struct choice *c)
{
	const struct sentry_crowd *crowd = c->view->crowd;

	return c->view->level->grouping || crowd->n_same || crowd->n_parked;
}

static struct error *add_one(struct choice *c, struct sentry_facts *f, uint32_t i, uint32_t next)
{
	bool alone = c->o->threads == EXPORT_BY_GOROUTINE;
	uint32_t begin = c->t->n_pieces;
	struct error *err;

	if (alone && (!groups(c) || !may_be_grouped(c, f)))
		return add_goroutine(c, f, i, next);
	err = cut(c, f, i, next);
	if (!err && groups(c))
		err = group_pieces(c, f, begin);
	if (err || !alone)
		return err;
	c->t->n_pieces = begin;
	return f->joined ? NULL : add_goroutine(c, f, i, next);
}

static struct error *count_groups(struct choice *c)
{
	struct error *err = NULL;
	struct sentry_facts f;

	for (uint32_t i = 0, next; i < c->n && !err; i = next) {
		uint32_t begin = c->t->n_pieces;

		err = facts_of(c, i, &f, &next);
		if (err || !f.told || !may_be_grouped(c, &f))
			continue;
		err = cut(c, &f, i, next);
		if (!err)
			err = count_pieces(c, &f, begin);
	}
	return err;
}

static struct error *add_all(struct choice *c)
{
	struct error *err = groups(c) ? count_groups(c) : NULL;
	struct sentry_facts f;

	for (uint32_t i = 0, next; i < c->n && !err; i = next) {
		err = facts_of(c, i, &f, &next);
		c->t->goroutines += f.key && f.key < PROFILE_THREAD_KEY;
		if (!err && f.told)
			err = add_one(c, &f, i, next);
	}
	if (!err && groups(c))
		err = sentry_groups_threads(c->t);
	if (!err && c->o->threads != EXPORT_BY_GOROUTINE)
		err = sentry_lanes(c->view, c->pinned, c->t);
	return err ? err : keep_most(c->t, true);
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
			err = add_piece(c, place_at(c, th->first + k));
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

/*
 * Goroutine 1 is main's; but where goroutines share threads its thread says little, and where only time on
 * CPUs is told mostly nothing: it waits for others.
 */
static uint64_t pinned_key(const struct export_options *o)
{
	if (o->active_busiest)
		return 0;
	if (o->active_goid || o->threads != EXPORT_BY_GOROUTINE || o->mode == PROFILE_CPU)
		return o->active_goid;
	return 1;
}

struct error *sentry_threads_choose(const struct sentry_view *view, const struct export_options *o,
				    struct sentry_threads *ret)
{
	struct choice c = { .view = view, .o = o, .t = ret, .n = view->w->n_places, .pinned = pinned_key(o) };
	_cleanup_free_ uint32_t *order = NULL;
	struct error *err = view->w->keys_repeat ? order_tracks(view->w, &order, &c.n) : NULL;

	c.order = order;
	*ret = (struct sentry_threads){ .most = o->max_threads };
	keyset_init(&ret->left_owners);
	keyset_init(&ret->owners);
	sentry_groups_init(&ret->groups);
	if (!err)
		err = add_all(&c);
	if (!err && !ret->told)
		err = error_new(ERROR_NOT_FOUND, "no goroutine of this window has two samples");
	if (!err)
		err = pieces_of_goroutines(&c);
	window_room_deinit(&c.room);
	if (!err)
		err = sentry_threads_name(ret, view);
	if (err)
		return err;
	for (uint32_t i = 0; i < ret->told; i++)
		if (ret->v[i].kind == SENTRY_GROUP) {
			count(&ret->grouped, ret, &ret->v[i]);
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
	keyset_deinit(&t->owners);
	free(t->parked);
	keyset_deinit(&t->left_owners);
	free(t->left_counts);
	*t = (struct sentry_threads){ 0 };
}
