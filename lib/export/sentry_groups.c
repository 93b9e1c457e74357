/*
 * sentry_groups.c: many goroutines told as one thread, where telling each would be more than the service
 * takes. The thread is their average: each stack lasts as long as it lasted in all of them together,
 * divided by their number, which the thread's name says. A thread of the format cannot hold more time
 * than the window has, so this is as true as it can be; in which order stacks followed each other is lost.
 */
#include <stdlib.h>

#include "export/export_impl.h"

/* No padding: its bytes are compared. */
struct group_key {
	profile_id name, stack;		/* stack 0: of any stacks */
	uint32_t by_label, native;
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

static bool may_join(const struct sentry_view *view, const struct sentry_facts *f)
{
	enum sentry_grouping grouping = view->level->grouping;

	if (!f->told || f->alone)
		return false;
	return grouping == SENTRY_GROUP_ALL ||
	       (!f->oncpu && (grouping == SENTRY_GROUP_PARKED || f->one_stack));
}

static struct error *group_of(struct sentry_groups *g, const struct sentry_view *view,
			      const struct export_options *o, const struct sentry_facts *f, uint32_t *ret)
{
	bool same = view->level->grouping == SENTRY_GROUP_SAME, fresh;
	struct group_key key = { .name = f->entry, .stack = same ? f->stack : 0,
				 .native = f->key >= PROFILE_THREAD_KEY };
	struct error *err;

	key.by_label = sentry_label_value(view->w->profile, o, f->labels, &key.name);
	err = keyset_add(&g->keys, &key, sizeof(key), ret, &fresh);
	if (!err)
		err = array_reserve(&g->v, &g->cap, g->keys.n, sizeof(*g->v));
	if (!err && fresh)
		g->v[*ret] = (struct sentry_group){ .start = UINT64_MAX, .name = key.name, .state = f->state,
						    .by_label = key.by_label, .native = key.native,
						    .one_stack = same };
	return err;
}

struct error *sentry_groups_count(struct sentry_groups *g, const struct sentry_view *view,
				  const struct export_options *o, const struct sentry_facts *f)
{
	uint32_t i;
	struct error *err;

	if (!may_join(view, f))
		return NULL;
	err = group_of(g, view, o, f, &i);
	if (!err)
		g->v[i].members++;
	return err;
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

struct error *sentry_groups_add(struct sentry_groups *g, const struct sentry_view *view,
				const struct export_options *o, const struct sentry_facts *f,
				const uint32_t *tracks, uint32_t n, bool *ret)
{
	struct error *err;
	uint32_t i;

	if (!may_join(view, f))
		return NULL;
	err = group_of(g, view, o, f, &i);
	if (err || g->v[i].members < 2)
		return err;
	if (g->v[i].start > f->start)
		g->v[i].start = f->start;
	g->v[i].cpu_ns += f->cpu_ns;
	for (uint32_t k = 0; k < n; k++) {
		const struct window_track *track = &view->w->tracks[tracks[k]];

		for (uint32_t m = 0; m < track->n && !err; m++) {
			const struct interval *iv = &track->v[m];

			if (sentry_interval_told(view, iv))
				err = add_time(g, i, iv->stack, sentry_interval_end(view, iv) - iv->t_start);
		}
	}
	*ret = true;
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
		struct sentry_thread th = {
			.cpu_ns = group->cpu_ns, .changes = group->members, .first = i,
			.name = group->name, .state = group->one_stack ? group->state : 0,
			.lane = g->sums[i].group, .kind = SENTRY_GROUP, .by_label = group->by_label,
			.native = group->native,
		};

		for (next = i; next < n_sums && g->sums[next].group == g->sums[i].group; next++)
			th.n++;
		err = sentry_threads_add(t, &th);
	}
	return err;
}
