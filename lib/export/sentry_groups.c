/*
 * sentry_groups.c: many goroutines told as one thread, where telling each would be more than the service
 * takes. The thread is their average: each stack lasts as long as it lasted in all of them together,
 * divided by their number, which the thread's name says. A thread of the format cannot hold more time
 * than the window has, so this is as true as it can be; in which order stacks followed each other is lost.
 *
 * Where labels tell whose time is whose, it is pieces of goroutines that are grouped: a goroutine whose label
 * changes is a member of several groups, with the time that it had each label.
 */
#include <stdlib.h>

#include "export/export_impl.h"

/* No padding: its bytes are compared. */
struct group_key {
	uint32_t owner;
	profile_id stack, state;	/* 0: of any */
};

struct sum_key {
	uint32_t group;
	profile_id stack;
};

void sentry_groups_init(struct sentry_groups *g)
{
	*g = (struct sentry_groups){ 0 };
	keyset_init(&g->keys);
	keyset_init(&g->sum_keys);
}

void sentry_groups_deinit(struct sentry_groups *g)
{
	keyset_deinit(&g->keys);
	keyset_deinit(&g->sum_keys);
	free(g->v);
	free(g->sums);
}

static enum sentry_grouping grouping_of(const struct sentry_view *view, const struct sentry_owner *owner)
{
	enum sentry_grouping crowd = sentry_crowd_grouping(view->crowd, owner);

	return crowd > view->level->grouping ? crowd : view->level->grouping;
}

bool sentry_groups_take(const struct sentry_view *view, const struct sentry_facts *f,
			const struct sentry_owner *owner)
{
	enum sentry_grouping grouping = f->told && !f->alone ? grouping_of(view, owner) : SENTRY_GROUP_NONE;

	return grouping == SENTRY_GROUP_ALL ||
	       (!f->oncpu && (grouping == SENTRY_GROUP_PARKED || (grouping == SENTRY_GROUP_SAME && f->one_stack)));
}

static struct error *group_of(struct sentry_groups *g, const struct sentry_view *view,
			      const struct sentry_facts *f, const struct sentry_owner *owner, uint32_t number,
			      uint32_t *ret)
{
	bool same = grouping_of(view, owner) == SENTRY_GROUP_SAME, fresh;
	struct group_key key = { number, same ? f->stack : 0, same ? f->state : 0 };
	struct error *err = keyset_add(&g->keys, &key, sizeof(key), ret, &fresh);

	if (!err)
		err = array_reserve(&g->v, &g->cap, g->keys.n, sizeof(*g->v));
	if (!err && fresh)
		g->v[*ret] = (struct sentry_group){ .start = UINT64_MAX, .owner = number, .stack = key.stack,
						    .state = key.state };
	return err;
}

struct error *sentry_groups_count(struct sentry_groups *g, const struct sentry_view *view,
				  const struct sentry_facts *f, const struct sentry_owner *owner, uint32_t number)
{
	uint32_t i;
	struct error *err = group_of(g, view, f, owner, number, &i);

	if (err || (g->v[i].members && g->v[i].latest == f->key))
		return err;
	g->v[i].members++;
	g->v[i].latest = f->key;
	return NULL;
}

static struct error *add_time(struct sentry_groups *g, uint32_t group, profile_id stack, uint64_t ns)
{
	struct sum_key key = { group, stack };
	uint32_t at;
	bool fresh;
	struct error *err = keyset_add(&g->sum_keys, &key, sizeof(key), &at, &fresh);

	if (!err)
		err = array_reserve(&g->sums, &g->cap_sums, g->sum_keys.n, sizeof(*g->sums));
	if (err)
		return err;
	if (fresh)
		g->sums[at] = (struct sentry_sum){ .group = group, .stack = stack };
	g->sums[at].ns += ns;
	return NULL;
}

struct error *sentry_groups_add(struct sentry_groups *g, const struct sentry_view *view, struct sentry_facts *f,
				const struct sentry_owner *owner, const struct sentry_piece *piece,
				struct window_room *room, bool *ret)
{
	const struct interval *v = NULL;
	struct sentry_group *group;
	uint32_t i, n = piece->end - piece->first;
	struct error *err = group_of(g, view, f, owner, piece->owner, &i);

	if (!err)
		err = window_intervals(view->w, piece->track, piece->after, n, room, &v);
	if (err)
		return err;
	group = &g->v[i];
	*ret = group->members > 1;
	for (uint32_t k = 0; k < n && *ret && !err; k++) {
		const struct interval *iv = &v[k];

		if (!sentry_interval_told(view, iv))
			continue;
		if (group->start > iv->t_start)
			group->start = iv->t_start;
		group->cpu_ns += iv->cpu_ns;
		err = add_time(g, i, iv->stack, sentry_interval_end(view, iv) - iv->t_start);
	}
	group->own += *ret && !f->joined;
	f->joined = f->joined || *ret;
	return err;
}

/* What lasted longest first. */
static int by_group_and_time(const void *va, const void *vb)
{
	const struct sentry_sum *a = va, *b = vb;

	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	if (a->ns != b->ns)
		return a->ns < b->ns ? 1 : -1;
	return (a->stack > b->stack) - (a->stack < b->stack);
}

struct error *sentry_groups_threads(struct sentry_threads *t)
{
	struct sentry_groups *g = &t->groups;
	uint32_t n_sums = g->sum_keys.n;
	struct error *err = NULL;

	if (n_sums)
		qsort(g->sums, n_sums, sizeof(*g->sums), by_group_and_time);
	for (uint32_t i = 0, next; i < n_sums && !err; i = next) {
		const struct sentry_group *group = &g->v[g->sums[i].group];
		size_t len;
		const struct sentry_owner *owner = keyset_get(&t->owners, group->owner, &len);
		struct sentry_thread th = {
			.cpu_ns = group->cpu_ns, .changes = group->members, .first = i, .name = owner->name,
			.lane = g->sums[i].group, .kind = SENTRY_GROUP, .by_label = owner->by_label,
			.native = owner->native,
		};

		for (next = i; next < n_sums && g->sums[next].group == g->sums[i].group; next++)
			th.n++;
		t->parked[group->owner]++;
		err = sentry_threads_add(t, &th);
	}
	return err;
}
