/*
 * aggregate.c: what people ask of a profile: where the CPU time went, function by function, and what
 * the goroutines were doing, on average. Windows are added up as they come; the tables are made when
 * they are asked for.
 *
 * A function counts once per stack however often it recurs; its line is the one that was met most.
 *
 * The names of a window go with its epoch. What is kept here by name are functions, lines, states and entry
 * functions: as many as the program has, however long it runs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "export/export_impl.h"

/* Names that live as long as the aggregate, by number. */
struct names {
	struct mapb map;
	struct arena arena;
	const char **v;
	uint32_t n, cap;
};

struct group_key {
	uint32_t state, entry;		/* names */
};

struct group_sum {
	uint32_t file;
	uint32_t line;
	uint64_t wall_ns;
};

struct line_key {
	uint32_t function, file;	/* names */
	uint32_t line;
};

struct function_sum {
	uint64_t self_ns, total_ns;
	uint32_t counted;		/* the last stack of this window that was counted in total_ns, plus one */
};

struct aggregate {
	struct names names;
	struct function_sum *functions;	/* by name: most names are functions */
	uint32_t n_functions, cap_functions;
	struct keyset lines;		/* struct line_key */
	uint64_t *line_ns;		/* of each of them */
	uint32_t cap_lines;
	struct keyset groups;		/* struct group_key */
	struct group_sum *sums;		/* one for each group */
	uint32_t cap_sums;
	uint64_t goroutines;		/* seen */
	uint64_t cpu_ns, unseen_ns, ended_ns, wall_ns, goroutine_ns;
	uint64_t health[HEALTH_COUNT];
	struct top_function *top_functions;	/* the last answers */
	struct top_group *top_groups;
};

/* ---- names ---- */

static const void *name_key(const void *ctx, uint32_t value, size_t *len)
{
	const struct names *names = ctx;

	*len = strlen(names->v[value]);
	return names->v[value];
}

static void names_init(struct names *names)
{
	arena_init(&names->arena);
	mapb_init(&names->map, name_key, names);
}

static void names_deinit(struct names *names)
{
	mapb_deinit(&names->map);
	arena_deinit(&names->arena);
	free(names->v);
}

static struct error *name_of(struct names *names, const char *text, uint32_t *ret)
{
	size_t len = strlen(text);
	uint32_t at = mapb_get(&names->map, text, len);
	struct error *err;
	char *copy;

	if (at != MAP_NONE) {
		*ret = at;
		return NULL;
	}
	err = array_reserve(&names->v, &names->cap, names->n + 1, sizeof(*names->v));
	copy = err ? NULL : arena_strndup(&names->arena, text, len);
	if (!copy)
		return &err_nomem;
	names->v[names->n] = copy;
	err = mapb_put(&names->map, copy, len, names->n);
	if (!err)
		*ret = names->n++;
	return err;
}

/* ---- life ---- */

struct error *aggregate_create(struct aggregate **ret)
{
	struct aggregate *a = calloc(1, sizeof(*a));

	if (!a)
		return &err_nomem;
	names_init(&a->names);
	keyset_init(&a->lines);
	keyset_init(&a->groups);
	*ret = a;
	return NULL;
}

void aggregate_destroy(struct aggregate *a)
{
	if (!a)
		return;
	names_deinit(&a->names);
	keyset_deinit(&a->lines);
	keyset_deinit(&a->groups);
	free(a->functions);
	free(a->line_ns);
	free(a->sums);
	free(a->top_functions);
	free(a->top_groups);
	free(a);
}

/* ---- adding up: stacks ---- */

/* What the ids of one window stand for here. */
struct window_sums {
	const struct window *w;
	uint64_t *stack_ns;		/* on-CPU time by stack id */
	uint32_t *lines;		/* by frame id: its line, plus one; 0: not asked yet */
	struct map64 groups;		/* state and entry -> group */
	struct shown shown;
	struct window_room room;
};

static void window_sums_deinit(struct window_sums *s)
{
	free(s->stack_ns);
	free(s->lines);
	map64_deinit(&s->groups);
	shown_deinit(&s->shown);
	window_room_deinit(&s->room);
}

static struct error *reserve_functions(struct aggregate *a)
{
	struct error *err = array_reserve(&a->functions, &a->cap_functions, a->names.n, sizeof(*a->functions));

	if (err)
		return err;
	for (; a->n_functions < a->names.n; a->n_functions++)
		a->functions[a->n_functions] = (struct function_sum){ 0 };
	return NULL;
}

static struct error *line_of(struct aggregate *a, struct window_sums *s, profile_id frame, uint32_t *ret)
{
	const struct profile *p = s->w->profile;
	const struct profile_frame *f = profile_frame_get(p, frame);
	struct line_key key = { .line = f->line };
	bool fresh = false;
	struct error *err;

	if (s->lines[frame]) {
		*ret = s->lines[frame] - 1;
		return NULL;
	}
	err = name_of(&a->names, profile_string_get(p, f->function), &key.function);
	if (!err)
		err = name_of(&a->names, profile_string_get(p, f->file), &key.file);
	if (!err)
		err = reserve_functions(a);
	if (!err)
		err = array_reserve(&a->line_ns, &a->cap_lines, a->lines.n + 1, sizeof(*a->line_ns));
	if (!err)
		err = keyset_add(&a->lines, &key, sizeof(key), ret, &fresh);
	if (err)
		return err;
	if (fresh)
		a->line_ns[*ret] = 0;
	s->lines[frame] = *ret + 1;
	return NULL;
}

static struct error *add_stack(struct aggregate *a, struct window_sums *s, profile_id stack)
{
	uint64_t ns = s->stack_ns[stack];
	struct error *err = shown_of(&s->shown, s->w->profile, stack);

	for (uint32_t i = 0; i < s->shown.n && !err; i++) {
		struct function_sum *sum;
		uint32_t line;
		size_t len;

		err = line_of(a, s, s->shown.v[i].id, &line);
		if (err)
			break;
		sum = &a->functions[((const struct line_key *)keyset_get(&a->lines, line, &len))->function];
		if (!i)
			sum->self_ns += ns;
		if (sum->counted != stack + 1)
			sum->total_ns += ns;
		sum->counted = stack + 1;
		a->line_ns[line] += ns;
	}
	return err;
}

static struct error *add_stacks(struct aggregate *a, struct window_sums *s)
{
	uint32_t n = profile_stack_count(s->w->profile);
	struct error *err = NULL;

	for (uint32_t i = 0; i < a->n_functions; i++)
		a->functions[i].counted = 0;
	for (uint32_t id = 0; id < n && !err; id++)
		if (s->stack_ns[id])
			err = add_stack(a, s, id);
	return err;
}

/* ---- adding up: groups ---- */

static struct error *group_new(struct aggregate *a, const struct profile *p, const struct profile_track_info *info,
			       profile_id state, uint32_t *ret)
{
	struct group_key key;
	uint32_t file;
	bool fresh;
	struct error *err = name_of(&a->names, profile_string_get(p, state), &key.state);

	if (!err)
		err = name_of(&a->names, profile_string_get(p, info->entry), &key.entry);
	if (!err)
		err = name_of(&a->names, profile_string_get(p, info->entry_file), &file);
	if (!err)
		err = array_reserve(&a->sums, &a->cap_sums, a->groups.n + 1, sizeof(*a->sums));
	if (!err)
		err = keyset_add(&a->groups, &key, sizeof(key), ret, &fresh);
	if (!err && fresh)
		a->sums[*ret] = (struct group_sum){ file, info->entry_line, 0 };
	return err;
}

static struct error *add_to_group(struct aggregate *a, struct window_sums *s, const struct profile_track_info *info,
				  const struct interval *iv)
{
	uint64_t key = (uint64_t)iv->state << 32 | info->entry;
	uint32_t i = map64_get(&s->groups, key);
	struct error *err = NULL;

	if (i == MAP_NONE) {
		err = group_new(a, s->w->profile, info, iv->state, &i);
		if (!err)
			err = map64_put(&s->groups, key, i);
	}
	if (err)
		return err;
	a->sums[i].wall_ns += iv->t_end - iv->t_start;
	a->goroutine_ns += iv->t_end - iv->t_start;
	return NULL;
}

static struct error *add_track(struct aggregate *a, struct window_sums *s, const struct window_track *t)
{
	bool goroutine = t->info.key < PROFILE_THREAD_KEY;
	struct error *err = NULL;

	for (uint32_t i = 0; i < t->n && !err; i++) {
		if (t->v[i].stack < profile_stack_count(s->w->profile))
			s->stack_ns[t->v[i].stack] += t->v[i].cpu_ns;
		a->cpu_ns += t->v[i].cpu_ns;
		if (goroutine)
			err = add_to_group(a, s, &t->info, &t->v[i]);
	}
	return err;
}

struct error *aggregate_window(struct aggregate *a, const struct window *w)
{
	_cleanup_(window_sums_deinit) struct window_sums s = { .w = w };
	struct window_track track;
	struct error *err = NULL;

	map64_init(&s.groups);
	s.stack_ns = calloc((size_t)profile_stack_count(w->profile) + 1, sizeof(*s.stack_ns));
	s.lines = calloc((size_t)profile_frame_count(w->profile) + 1, sizeof(*s.lines));
	if (!s.stack_ns || !s.lines)
		return &err_nomem;
	for (uint32_t i = 0; i < w->n_places && !err; i++) {
		err = window_track(w, i, &s.room, &track);
		if (!err)
			err = add_track(a, &s, &track);
	}
	if (!err)
		err = add_stacks(a, &s);
	if (err)
		return err;
	a->goroutines = w->goroutines;
	a->unseen_ns += w->cpu_unseen_ns;
	a->ended_ns += w->cpu_ended_ns;
	a->wall_ns += w->end.mono - w->start.mono;
	for (uint32_t i = 0; i < HEALTH_COUNT; i++)
		a->health[i] = health_merge(i, a->health[i], w->health[i]);
	return NULL;
}

/* ---- functions ---- */

/* Of lines that were met equally long the first one of the file: the same answer whatever the windows were. */
static bool leads(const struct aggregate *a, uint32_t line, uint64_t ns, const struct top_function *f)
{
	const struct line_key *key;
	size_t len;
	int order;

	if (ns != f->total_ns)
		return ns > f->total_ns;
	key = keyset_get(&a->lines, line, &len);
	order = f->file ? strcmp(a->names.v[key->file], f->file) : -1;
	return order ? order < 0 : key->line < f->line;
}

/* Fills in file and line; total_ns serves as the time of the line that leads so far. */
static void choose_lines(const struct aggregate *a, struct top_function *by_name)
{
	for (uint32_t i = 0; i < a->lines.n; i++) {
		size_t len;
		const struct line_key *key = keyset_get(&a->lines, i, &len);
		struct top_function *f = &by_name[key->function];

		if (!leads(a, i, a->line_ns[i], f))
			continue;
		f->total_ns = a->line_ns[i];
		f->file = a->names.v[key->file];
		f->line = key->line;
	}
}

static int by_self(const void *va, const void *vb)
{
	const struct top_function *a = va, *b = vb;

	if (a->self_ns != b->self_ns)
		return a->self_ns < b->self_ns ? 1 : -1;
	if (a->total_ns != b->total_ns)
		return a->total_ns < b->total_ns ? 1 : -1;
	return strcmp(a->function, b->function);
}

static size_t collect_functions(const struct aggregate *a, struct top_function *out)
{
	size_t n = 0;

	for (uint32_t i = 0; i < a->n_functions; i++) {
		if (!a->functions[i].total_ns)
			continue;
		out[n] = out[i];
		out[n].function = a->names.v[i];
		out[n].self_ns = a->functions[i].self_ns;
		out[n++].total_ns = a->functions[i].total_ns;
	}
	qsort(out, n, sizeof(*out), by_self);
	return n;
}

struct error *aggregate_functions(struct aggregate *a, const struct top_function **ret, size_t *n)
{
	struct top_function *out = calloc((size_t)a->n_functions + 1, sizeof(*out));

	if (!out)
		return &err_nomem;
	choose_lines(a, out);
	*n = collect_functions(a, out);
	free(a->top_functions);
	*ret = a->top_functions = out;
	return NULL;
}

/* ---- groups ---- */

static int by_average(const void *va, const void *vb)
{
	const struct top_group *a = va, *b = vb;
	int order;

	if (a->average > b->average || a->average < b->average)
		return a->average < b->average ? 1 : -1;
	order = strcmp(a->state, b->state);
	return order ? order : strcmp(a->entry, b->entry);
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

		out[i] = (struct top_group){ a->names.v[key->state], a->names.v[key->entry],
					     a->names.v[a->sums[i].file], a->sums[i].line,
					     per_wall(a, a->sums[i].wall_ns) };
	}
	qsort(out, a->groups.n, sizeof(*out), by_average);
	free(a->top_groups);
	*ret = a->top_groups = out;
	*n = a->groups.n;
	return NULL;
}

/* ---- figures ---- */

uint64_t aggregate_goroutines_seen(const struct aggregate *a)
{
	return a->goroutines;
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
