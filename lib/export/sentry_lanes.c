/*
 * sentry_lanes.c: goroutines of one entry function, or with one value of a label, share threads.
 *
 * To a server a sample lasts until the next one of its thread. If goroutines that are there at the same
 * time were simply given one thread id, each sample would cut short the one before it and the sum of all
 * would be the window's length, whatever ran. So they are laid out on lanes, each of which holds at most
 * one goroutine at any instant: what is laid is a stretch of adjoining intervals that are told (in wall
 * mode mostly a goroutine's life, in cpu mode a time on a CPU), in order of time, each on the lowest lane
 * that is free. There it lasts exactly as long as it did, so the time of each stack, summed over the lanes
 * of one owner, is the sum over its goroutines; as many lanes are made as goroutines were there at once,
 * and goroutines that live shortly fill the first few densely.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "export/export_impl.h"

/* ---- stretches ---- */

static bool known(const struct sentry_view *view, const struct interval *iv)
{
	return sentry_interval_told(view, iv) && iv->labels != PROFILE_LABELS_UNKNOWN;
}

/*
 * The labels with which interval i counts. Those that could not be read are taken for the ones before, or at
 * the beginning for the first ones that could.
 */
static profile_id labels_at(const struct sentry_view *view, const struct window_track *track, uint32_t i,
			    profile_id before)
{
	if (track->v[i].labels != PROFILE_LABELS_UNKNOWN)
		return track->v[i].labels;
	if (before != PROFILE_LABELS_UNKNOWN)
		return before;
	while (i < track->n && !known(view, &track->v[i]))
		i++;
	return i < track->n ? track->v[i].labels : PROFILE_LABELS_NONE;
}

static bool goes_on(const struct sentry_piece *piece, const struct sentry_piece *next)
{
	return piece->end == next->first && piece->owner == next->owner && piece->end_ns == next->start;
}

static struct error *add_interval(struct sentry_threads *t, uint32_t begin, const struct sentry_piece *piece)
{
	struct sentry_piece *latest = t->n_pieces > begin ? &t->pieces[t->n_pieces - 1] : NULL;
	struct error *err;

	if (latest && goes_on(latest, piece)) {
		latest->end = piece->end;
		latest->end_ns = piece->end_ns;
		latest->after = piece->after;
		return NULL;
	}
	err = array_reserve(&t->pieces, &t->cap_pieces, t->n_pieces + 1, sizeof(*t->pieces));
	if (!err)
		t->pieces[t->n_pieces++] = *piece;
	return err;
}

struct error *sentry_lanes_track(const struct sentry_view *view, const struct export_options *o,
				 const struct window_track *track, uint32_t place, bool parked,
				 struct sentry_threads *t)
{
	struct sentry_piece piece = { .track = place, .parked = parked };
	profile_id labels = PROFILE_LABELS_UNKNOWN, last = PROFILE_LABELS_UNKNOWN;
	uint32_t begin = t->n_pieces;
	struct error *err = NULL;

	for (uint32_t i = 0; i < track->n && !err; i++) {
		if (!sentry_interval_told(view, &track->v[i]))
			continue;
		labels = labels_at(view, track, i, labels);
		if (labels != last || last == PROFILE_LABELS_UNKNOWN)
			err = sentry_threads_owner(t, view, o, &track->info, labels, &piece.owner);
		last = labels;
		piece.first = i;
		piece.end = i + 1;
		piece.start = track->v[i].t_start;
		piece.end_ns = track->v[i].t_end;
		piece.after = track->v[i].after;
		if (!err)
			err = add_interval(t, begin, &piece);
	}
	return err;
}

/* ---- laying out ---- */

struct layout {
	const struct sentry_view *view;
	struct sentry_threads *t;
	uint32_t *ends;		/* pieces of the owner at hand, by their end */
	uint64_t *free;		/* its lanes: one bit each */
	uint32_t lanes;		/* made so far */
	uint32_t lowest;	/* no lane below it is free */
	bool pinned;		/* some lane is */
	struct window_room room;
};

static int compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int by_owner_and_start(const void *va, const void *vb, void *ctx)
{
	const struct sentry_piece *a = va, *b = vb;
	const struct window *w = ctx;
	int order = compare(a->owner, b->owner);

	order = order ? order : compare(a->lane, b->lane);
	order = order ? order : compare(a->start, b->start);
	order = order ? order : compare(window_track_key(w, a->track), window_track_key(w, b->track));
	return order ? order : compare(a->first, b->first);
}

static int by_end(const void *va, const void *vb, void *ctx)
{
	const struct layout *l = ctx;
	uint32_t a = *(const uint32_t *)va, b = *(const uint32_t *)vb;
	int order = compare(l->t->pieces[a].end_ns, l->t->pieces[b].end_ns);

	return order ? order : compare(a, b);
}

static void release(struct layout *l, uint32_t lane)
{
	l->free[lane / 64] |= (uint64_t)1 << lane % 64;
	if (lane < l->lowest)
		l->lowest = lane;
}

static uint32_t lowest_free(struct layout *l)
{
	uint32_t word = l->lowest / 64, lane;

	while (word * 64 < l->lanes && !l->free[word])
		word++;
	lane = word * 64 < l->lanes ? word * 64 + (uint32_t)__builtin_ctzll(l->free[word]) : l->lanes++;
	l->free[lane / 64] &= ~((uint64_t)1 << lane % 64);
	l->lowest = lane + 1;
	return lane;
}

/* Pieces [begin, end) of one owner, which are in order of their starts. */
static void lay_out(struct layout *l, uint32_t begin, uint32_t end)
{
	struct sentry_piece *p = l->t->pieces;
	uint32_t ended = 0;

	l->lanes = l->lowest = 0;
	memset(l->free, 0, ((size_t)(end - begin) / 64 + 1) * sizeof(*l->free));
	for (uint32_t i = begin; i < end; i++)
		l->ends[i - begin] = i;
	qsort_r(l->ends, end - begin, sizeof(*l->ends), by_end, l);
	for (uint32_t i = begin; i < end; i++) {
		/* What has ended has begun: its lane is known. */
		while (p[l->ends[ended]].end_ns <= p[i].start)
			release(l, p[l->ends[ended++]].lane);
		p[i].lane = lowest_free(l);
	}
}

/* ---- threads ---- */

static struct error *add_cpu(struct layout *l, const struct sentry_piece *p, uint64_t *sum)
{
	const struct interval *v;
	uint32_t n = p->end - p->first;
	struct error *err = window_intervals(l->view->w, p->track, p->after, n, &l->room, &v);

	for (uint32_t i = 0; !err && i < n; i++)
		*sum += v[i].cpu_ns;
	return err;
}

static struct error *add_lane(struct layout *l, uint32_t begin, uint32_t end, uint64_t wanted)
{
	const struct sentry_piece *p = l->t->pieces;
	size_t len;
	const struct sentry_owner *key = keyset_get(&l->t->owners, p[begin].owner, &len);
	bool parked = true;
	struct error *err = NULL;
	struct sentry_thread th = {
		.first = begin, .n = end - begin, .name = key->name, .lane = p[begin].lane,
		.kind = SENTRY_LANE, .by_label = key->by_label, .native = key->native,
	};

	for (uint32_t i = begin; i < end && !err; i++) {
		err = p[i].parked ? NULL : add_cpu(l, &p[i], &th.cpu_ns);
		th.changes += p[i].end - p[i].first;
		th.pinned = th.pinned || (wanted && window_track_key(l->view->w, p[i].track) == wanted);
		parked = parked && p[i].parked;
	}
	if (err)
		return err;
	l->t->parked[p[begin].owner] += parked;
	/* Of several lanes that a goroutine has been on, the first. */
	if (th.pinned && l->pinned)
		th.pinned = false;
	l->pinned = l->pinned || th.pinned;
	return sentry_threads_add(l->t, &th);
}

static struct error *add_lanes(struct layout *l, uint64_t wanted)
{
	const struct sentry_piece *p = l->t->pieces;
	uint32_t n = l->t->n_pieces;
	struct error *err = NULL;

	for (uint32_t i = 0, next; i < n && !err; i = next) {
		for (next = i + 1; next < n && p[next].owner == p[i].owner && p[next].lane == p[i].lane; )
			next++;
		err = add_lane(l, i, next, wanted);
	}
	return err;
}

static void sort_pieces(const struct sentry_view *view, struct sentry_threads *t)
{
	qsort_r(t->pieces, t->n_pieces, sizeof(*t->pieces), by_owner_and_start, (void *)(uintptr_t)view->w);
}

struct error *sentry_lanes(const struct sentry_view *view, uint64_t wanted, struct sentry_threads *t)
{
	_cleanup_free_ uint32_t *ends = calloc((size_t)t->n_pieces + 1, sizeof(*ends));
	_cleanup_free_ uint64_t *free_lanes = calloc((size_t)t->n_pieces / 64 + 1, sizeof(*free_lanes));
	struct layout l = { .view = view, .t = t, .ends = ends, .free = free_lanes };
	struct error *err;

	if (!ends || !free_lanes)
		return &err_nomem;
	if (!t->n_pieces)
		return NULL;
	sort_pieces(view, t);
	for (uint32_t i = 0, next; i < t->n_pieces; i = next) {
		for (next = i + 1; next < t->n_pieces && t->pieces[next].owner == t->pieces[i].owner; )
			next++;
		lay_out(&l, i, next);
	}
	sort_pieces(view, t);
	err = add_lanes(&l, wanted);
	window_room_deinit(&l.room);
	return err;
}
