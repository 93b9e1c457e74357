/*
 * aggregate.c: what people ask of a profile: where the CPU time went, function by function, and what
 * the goroutines were doing, on average. Windows are added up as they come; the tables are made when
 * they are asked for.
 *
 * A function counts once per stack however often it recurs; its line is the one that was met most.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "export/export_impl.h"

struct group_key {
	profile_id state, entry;
};

struct group_sum {
	profile_id file;
	uint32_t line;
	uint64_t wall_ns;
};

/* One function in the making. */
struct function_sum {
	uint64_t self_ns, total_ns;
	uint64_t line_ns;		/* of the line that leads so far */
	profile_id best;		/* its frame */
	uint32_t counted;		/* the last stack that was counted in total_ns, plus one */
};

struct aggregate {
	const struct profile *profile;	/* of the windows; borrowed */
	uint64_t *stack_cpu;		/* by stack id */
	uint32_t n_stacks, cap_stacks;
	struct keyset groups;		/* struct group_key */
	struct group_sum *sums;		/* one for each group */
	uint32_t cap_sums;
	struct map64 seen;		/* goroutines, by key */
	uint64_t cpu_ns, unseen_ns, ended_ns, wall_ns, goroutine_ns;
	uint64_t health[HEALTH_COUNT];
	struct top_function *functions;	/* the last answers */
	struct top_group *top_groups;
};

struct error *aggregate_create(struct aggregate **ret)
{
	struct aggregate *a = calloc(1, sizeof(*a));

	if (!a)
		return &err_nomem;
	keyset_init(&a->groups);
	map64_init(&a->seen);
	*ret = a;
	return NULL;
}

void aggregate_destroy(struct aggregate *a)
{
	if (!a)
		return;
	keyset_deinit(&a->groups);
	map64_deinit(&a->seen);
	free(a->stack_cpu);
	free(a->sums);
	free(a->functions);
	free(a->top_groups);
	free(a);
}

/* ---- adding up ---- */

static struct error *reserve_stacks(struct aggregate *a, const struct profile *p)
{
	uint32_t n = profile_stack_count(p);
	struct error *err = array_reserve(&a->stack_cpu, &a->cap_stacks, n, sizeof(*a->stack_cpu));

	if (err)
		return err;
	if (n > a->n_stacks) {
		memset(a->stack_cpu + a->n_stacks, 0, (n - a->n_stacks) * sizeof(*a->stack_cpu));
		a->n_stacks = n;
	}
	return NULL;
}

static struct error *add_to_group(struct aggregate *a, const struct profile_track_info *info,
				  const struct interval *iv)
{
	struct group_key key = { iv->state, info->entry };
	uint32_t i;
	bool fresh;
	struct error *err = array_reserve(&a->sums, &a->cap_sums, a->groups.n + 1, sizeof(*a->sums));

	if (!err)
		err = keyset_add(&a->groups, &key, sizeof(key), &i, &fresh);
	if (err)
		return err;
	if (fresh)
		a->sums[i] = (struct group_sum){ info->entry_file, info->entry_line, 0 };
	a->sums[i].wall_ns += iv->t_end - iv->t_start;
	a->goroutine_ns += iv->t_end - iv->t_start;
	return NULL;
}

static struct error *add_track(struct aggregate *a, const struct window_track *t)
{
	bool goroutine = t->info.key < PROFILE_THREAD_KEY;
	struct error *err = goroutine ? map64_put(&a->seen, t->info.key, 0) : NULL;

	for (uint32_t i = 0; i < t->n && !err; i++) {
		if (t->v[i].stack < a->n_stacks)
			a->stack_cpu[t->v[i].stack] += t->v[i].cpu_ns;
		a->cpu_ns += t->v[i].cpu_ns;
		if (goroutine)
			err = add_to_group(a, &t->info, &t->v[i]);
	}
	return err;
}

struct error *aggregate_window(struct aggregate *a, const struct window *w)
{
	struct error *err;

	if (a->profile && a->profile != w->profile)
		return error_new(ERROR_INTERNAL, "windows of two profiles in one summary");
	a->profile = w->profile;
	err = reserve_stacks(a, w->profile);
	for (uint32_t i = 0; i < w->n_tracks && !err; i++)
		err = add_track(a, &w->tracks[i]);
	if (err)
		return err;
	a->unseen_ns += w->cpu_unseen_ns;
	a->ended_ns += w->cpu_ended_ns;
	a->wall_ns += w->end.mono - w->start.mono;
	for (uint32_t i = 0; i < HEALTH_COUNT; i++)
		a->health[i] = health_merge(i, a->health[i], w->health[i]);
	return NULL;
}

/* ---- functions ---- */

/* Sums per function (by string id) and per frame, over all stacks that were on a CPU. */
static struct error *sum_functions(const struct aggregate *a, struct function_sum *functions,
				   uint64_t *frame_ns)
{
	_cleanup_(shown_deinit) struct shown s = { 0 };

	for (uint32_t id = 0; id < a->n_stacks; id++) {
		uint64_t ns = a->stack_cpu[id];
		struct error *err = ns ? shown_of(&s, a->profile, id) : NULL;

		if (err)
			return err;
		for (uint32_t i = 0; ns && i < s.n; i++) {
			const struct profile_frame *f = profile_frame_get(a->profile, s.v[i].id);
			struct function_sum *sum = &functions[f->function];

			if (!i)
				sum->self_ns += ns;
			if (sum->counted != id + 1)
				sum->total_ns += ns;
			sum->counted = id + 1;
			frame_ns[s.v[i].id] += ns;
		}
	}
	return NULL;
}

static void choose_lines(const struct aggregate *a, struct function_sum *functions,
			 const uint64_t *frame_ns)
{
	for (uint32_t i = 0; i < profile_frame_count(a->profile); i++) {
		struct function_sum *sum = &functions[profile_frame_get(a->profile, i)->function];

		if (frame_ns[i] <= sum->line_ns)
			continue;
		sum->line_ns = frame_ns[i];
		sum->best = i;
	}
}

static int by_self(const void *va, const void *vb)
{
	const struct top_function *a = va, *b = vb;

	if (a->self_ns != b->self_ns)
		return a->self_ns < b->self_ns ? 1 : -1;
	if (a->total_ns != b->total_ns)
		return a->total_ns < b->total_ns ? 1 : -1;
	return (a->function > b->function) - (a->function < b->function);
}

static size_t collect_functions(const struct aggregate *a, const struct function_sum *sums,
				struct top_function *out)
{
	size_t n = 0;

	for (uint32_t id = 0; id < profile_string_count(a->profile); id++) {
		const struct profile_frame *f = profile_frame_get(a->profile, sums[id].best);

		if (sums[id].total_ns)
			out[n++] = (struct top_function){ id, f->file, f->line, sums[id].self_ns,
							  sums[id].total_ns };
	}
	qsort(out, n, sizeof(*out), by_self);
	return n;
}

struct error *aggregate_functions(struct aggregate *a, const struct top_function **ret, size_t *n)
{
	size_t strings = a->profile ? profile_string_count(a->profile) : 0;
	size_t frames = a->profile ? profile_frame_count(a->profile) : 0;
	_cleanup_free_ struct function_sum *sums = calloc(strings + 1, sizeof(*sums));
	_cleanup_free_ uint64_t *frame_ns = calloc(frames + 1, sizeof(*frame_ns));
	_cleanup_free_ struct top_function *out = calloc(strings + 1, sizeof(*out));
	struct error *err;

	if (!sums || !frame_ns || !out)
		return &err_nomem;
	*n = 0;
	if (a->profile) {
		err = sum_functions(a, sums, frame_ns);
		if (err)
			return err;
		choose_lines(a, sums, frame_ns);
		*n = collect_functions(a, sums, out);
	}
	free(a->functions);
	*ret = a->functions = take(out);
	return NULL;
}

/* ---- groups ---- */

static int by_average(const void *va, const void *vb)
{
	const struct top_group *a = va, *b = vb;

	if (a->average > b->average || a->average < b->average)
		return a->average < b->average ? 1 : -1;
	if (a->state != b->state)
		return a->state < b->state ? -1 : 1;
	return (a->entry > b->entry) - (a->entry < b->entry);
}

static double per_wall(const struct aggregate *a, uint64_t ns)
{
	return a->wall_ns ? (double)ns / (double)a->wall_ns : 0;
}

struct error *aggregate_groups(struct aggregate *a, const struct top_group **ret, size_t *n)
{
	struct top_group *out = calloc((size_t)a->groups.n + 1, sizeof(*out));

	if (!out)
		return &err_nomem;
	for (uint32_t i = 0; i < a->groups.n; i++) {
		size_t len;
		const struct group_key *key = keyset_get(&a->groups, i, &len);

		out[i] = (struct top_group){ key->state, key->entry, a->sums[i].file,
					     a->sums[i].line, per_wall(a, a->sums[i].wall_ns) };
	}
	qsort(out, a->groups.n, sizeof(*out), by_average);
	free(a->top_groups);
	*ret = a->top_groups = out;
	*n = a->groups.n;
	return NULL;
}

/* ---- figures ---- */

uint32_t aggregate_goroutines_seen(const struct aggregate *a)
{
	return a->seen.n;
}

double aggregate_goroutines_average(const struct aggregate *a)
{
	return per_wall(a, a->goroutine_ns);
}

uint64_t aggregate_cpu_ns(const struct aggregate *a)
{
	return a->cpu_ns;
}

uint64_t aggregate_unseen_ns(const struct aggregate *a)
{
	return a->unseen_ns;
}

uint64_t aggregate_ended_ns(const struct aggregate *a)
{
	return a->ended_ns;
}

uint64_t aggregate_wall_ns(const struct aggregate *a)
{
	return a->wall_ns;
}

const uint64_t *aggregate_health(const struct aggregate *a)
{
	return a->health;
}
