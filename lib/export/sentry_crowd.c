/*
 * sentry_crowd.c: whoever asks for threads that are shared wants few. Parked goroutines that need more of them
 * than may be are grouped, and not left out; but only those of owners that need many, those with most first,
 * and no more of them than it takes. First those with one stack all the time, of which a group loses least;
 * if that is not enough, those with several.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "export/export_impl.h"

void sentry_crowd_init(struct sentry_crowd *c)
{
	*c = (struct sentry_crowd){ 0 };
	keyset_init(&c->same);
	keyset_init(&c->parked);
}

void sentry_crowd_deinit(struct sentry_crowd *c)
{
	keyset_deinit(&c->same);
	keyset_deinit(&c->parked);
}

enum sentry_grouping sentry_crowd_grouping(const struct sentry_crowd *c, const struct sentry_owner *owner)
{
	if (c->n_parked && keyset_find(&c->parked, owner, sizeof(*owner)) < c->n_parked)
		return SENTRY_GROUP_PARKED;
	if (c->n_same && keyset_find(&c->same, owner, sizeof(*owner)) < c->n_same)
		return SENTRY_GROUP_SAME;
	return SENTRY_GROUP_NONE;
}

struct need {
	uint32_t owner, threads;
};

static int by_threads(const void *va, const void *vb)
{
	const struct need *a = va, *b = vb;

	if (a->threads != b->threads)
		return a->threads < b->threads ? 1 : -1;
	return (a->owner > b->owner) - (a->owner < b->owner);
}

/* Owners with several threads on which nobody ever was on a CPU, those with most first. */
static struct error *rank(const struct sentry_threads *t, struct keyset *ranked)
{
	_cleanup_free_ struct need *needs = calloc((size_t)t->owners.n + 1, sizeof(*needs));
	uint32_t n = t->owners.n;
	struct error *err = NULL;

	if (!needs)
		return &err_nomem;
	for (uint32_t i = 0; i < n; i++)
		needs[i] = (struct need){ i, t->parked[i] };
	qsort(needs, n, sizeof(*needs), by_threads);
	for (uint32_t i = 0, at; i < n && needs[i].threads > 1 && !err; i++) {
		size_t len;
		const void *owner = keyset_get(&t->owners, needs[i].owner, &len);
		bool fresh;

		err = keyset_add(ranked, owner, len, &at, &fresh);
	}
	return err;
}

struct settling {
	const struct sentry_view *view;
	const struct export_options *o;
	struct sentry_threads *t;
};

static struct error *try(struct settling *s, bool *fits)
{
	struct error *err;

	sentry_threads_deinit(s->t);
	err = sentry_threads_choose(s->view, s->o, s->t);
	*fits = !err && !s->t->left_threads;
	return err;
}

/* The least *n from `low` up to what it is now, with which there are few enough threads: with that many there are. */
static struct error *least(struct settling *s, uint32_t *n, uint32_t low)
{
	uint32_t high = *n;
	struct error *err = NULL;

	while (low < high && !err) {
		bool fits;

		*n = low + (high - low) / 2;
		err = try(s, &fits);
		if (fits)
			high = *n;
		else
			low = *n + 1;
	}
	*n = high;
	return err;
}

/* All threads, told or not. */
static uint64_t threads_of(const struct sentry_threads *t)
{
	return (uint64_t)t->told + t->left_threads;
}

/* What the owners' parked goroutines need now, in the order of `ranked`. */
static void needs_of(const struct sentry_threads *t, const struct keyset *ranked, uint32_t *ret)
{
	for (uint32_t i = 0; i < ranked->n; i++) {
		size_t len;
		const void *owner = keyset_get(ranked, i, &len);
		uint32_t number = keyset_find(&t->owners, owner, len);

		ret[i] = number < t->owners.n ? t->parked[number] : 0;
	}
}

/*
 * How many owners it takes, as far as numbers tell, with what they need alone and in groups. Each try goes
 * through the whole window, and there may be a million goroutines.
 */
static uint32_t guess(uint64_t threads, uint64_t most, const uint32_t *alone, const uint32_t *grouped, uint32_t n)
{
	uint32_t i = 0;

	for (; i < n && threads > most; i++)
		if (alone[i] > grouped[i])
			threads -= alone[i] - grouped[i];
	return i;
}

/* With all owners' goroutines of one stack in groups there are few enough threads: with those of fewer owners? */
static struct error *fewer(struct sentry_crowd *c, struct settling *s, uint64_t threads, const uint32_t *alone)
{
	_cleanup_free_ uint32_t *grouped = calloc((size_t)c->same.n + 1, sizeof(*grouped));
	bool fits;
	struct error *err;

	if (!grouped)
		return &err_nomem;
	needs_of(s->t, &c->same, grouped);
	c->n_same = guess(threads, s->o->max_threads, alone, grouped, c->same.n);
	err = try(s, &fits);
	if (err || fits)
		return err;
	/* Lanes are shared by those who were on a CPU, too: what is saved is not quite what is needed. */
	c->n_same = c->same.n;
	err = least(s, &c->n_same, 0);
	return err ? err : try(s, &fits);
}

/* Not even then: those with several stacks, too. */
static struct error *more(struct sentry_crowd *c, struct settling *s)
{
	bool fits;
	struct error *err = rank(s->t, &c->parked);

	c->n_parked = c->parked.n;
	if (!err)
		err = try(s, &fits);
	if (err || !fits)
		return err;
	err = least(s, &c->n_parked, 1);
	if (!err)
		err = least(s, &c->n_same, 0);
	return err ? err : try(s, &fits);
}

static struct error *settle(struct sentry_crowd *c, struct settling *s)
{
	_cleanup_free_ uint32_t *alone = NULL;
	uint64_t threads = threads_of(s->t);
	bool fits;
	struct error *err = rank(s->t, &c->same);

	if (err)
		return err;
	alone = calloc((size_t)c->same.n + 1, sizeof(*alone));
	if (!alone)
		return &err_nomem;
	needs_of(s->t, &c->same, alone);
	c->n_same = c->same.n;
	err = try(s, &fits);
	if (err)
		return err;
	return fits ? fewer(c, s, threads, alone) : more(c, s);
}

struct error *sentry_crowd_settle(struct sentry_crowd *c, const struct sentry_view *view,
				  const struct export_options *o, struct sentry_threads *t)
{
	struct settling s = { view, o, t };

	if (o->threads == EXPORT_BY_GOROUTINE || !t->left_threads)
		return NULL;
	return settle(c, &s);
}
