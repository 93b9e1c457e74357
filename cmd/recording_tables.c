/*
 * recording_tables.c: from an aggregate, which is about to go, to rows of text for the summary. Files are shown for code that is not the standard library: there
 * the line helps, elsewhere the name is enough.
 */
#include <string.h>

#include "cmd/recording.h"
#include "export/export.h"
#include "symbol/symbol.h"

enum {
	ROWS_MAX = 16,		/* more are never shown; the numbers of rows stay true */
	PSEUDO_SHARE = 100,	/* a pseudo row is worth showing from one part in so many */
};

static const char *copy(struct recording_result *v, const char *s)
{
	return arena_strndup(&v->arena, s, strlen(s));
}

static uint64_t all_cpu_ns(const struct aggregate *a)
{
	return aggregate_cpu_ns(a) + aggregate_unseen_ns(a) + aggregate_ended_ns(a);
}

static bool is_std(const char *function)
{
	char module[256];
	const char *name;
	size_t len;

	name_split(function, &len, &name);
	if (len >= sizeof(module))
		return false;
	memcpy(module, function, len);
	module[len] = 0;
	return name_is_std(module);
}

/* CPU time that belongs to no stack is a row like any other, else the shares would not add up. */
static void add_pseudo_row(struct summary_function *rows, size_t *n, const char *name, uint64_t ns,
			   uint64_t all_ns)
{
	size_t at = *n;

	if (ns * PSEUDO_SHARE < all_ns || !ns)
		return;
	for (; at > 0 && rows[at - 1].self_ns < ns; at--)
		rows[at] = rows[at - 1];
	rows[at] = (struct summary_function){ .name = name, .file = "", .self_ns = ns, .total_ns = ns };
	++*n;
}

static struct error *function_rows(struct aggregate *a, struct recording_result *v)
{
	const struct top_function *top;
	struct summary_function *rows;
	size_t n, shown;
	struct error *err = aggregate_functions(a, &top, &n);

	if (err)
		return err;
	shown = n < ROWS_MAX ? n : ROWS_MAX;
	rows = arena_alloc(&v->arena, (shown + 2) * sizeof(*rows));
	if (!rows)
		return &err_nomem;
	for (size_t i = 0; i < shown; i++) {
		rows[i] = (struct summary_function){
			.name = copy(v, top[i].function), .file = copy(v, top[i].file),
			.line = top[i].line, .self_ns = top[i].self_ns, .total_ns = top[i].total_ns,
		};
		if (!rows[i].name || !rows[i].file)
			return &err_nomem;
		if (is_std(rows[i].name))
			rows[i].file = "";
	}
	n -= shown;
	add_pseudo_row(rows, &shown, "[unseen]", aggregate_unseen_ns(a), all_cpu_ns(a));
	add_pseudo_row(rows, &shown, "[ended threads]", aggregate_ended_ns(a), all_cpu_ns(a));
	v->summary.functions = rows;
	v->summary.n_functions = n + shown;
	return NULL;
}

static struct error *group_rows(struct aggregate *a, struct recording_result *v)
{
	const struct top_group *top;
	struct summary_group *rows;
	size_t n, shown;
	struct error *err = aggregate_groups(a, &top, &n);

	if (err)
		return err;
	shown = n < ROWS_MAX ? n : ROWS_MAX;
	rows = arena_alloc(&v->arena, (shown + 1) * sizeof(*rows));
	if (!rows)
		return &err_nomem;
	for (size_t i = 0; i < shown; i++) {
		rows[i] = (struct summary_group){
			.state = copy(v, top[i].state), .entry = copy(v, top[i].entry),
			.file = copy(v, top[i].file), .line = top[i].line, .average = top[i].average,
		};
		if (!rows[i].state || !rows[i].entry || !rows[i].file)
			return &err_nomem;
	}
	v->summary.groups = rows;
	v->summary.n_groups = n;
	return NULL;
}

struct error *recording_tables(struct aggregate *a, struct recording_result *v)
{
	struct summary *s = &v->summary;
	struct error *err = function_rows(a, v);

	if (!err)
		err = group_rows(a, v);
	if (err)
		return err;
	s->cpu_ns = all_cpu_ns(a);
	s->wall_ns = aggregate_wall_ns(a);
	s->seen = aggregate_goroutines_seen(a);
	s->average = aggregate_goroutines_average(a);
	memcpy(s->health, aggregate_health(a), sizeof(s->health));
	return NULL;
}
