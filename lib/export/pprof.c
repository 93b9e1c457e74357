/*
 * pprof.c: adds windows up for the pprof format: one row for each stack, label set and state, with
 * the looks that met it, its on-CPU time and its wall time. A profile of an hour is as small as one
 * of a minute. How the rows become bytes is the business of pprof_write.c.
 */
#include <stdlib.h>
#include <string.h>

#include "export/pprof_impl.h"

struct error *pprof_create(const struct export_options *o, struct pprof **ret)
{
	struct pprof *x = calloc(1, sizeof(*x));

	if (!x)
		return &err_nomem;
	x->o = *o;
	keyset_init(&x->keys);
	*ret = x;
	return NULL;
}

void pprof_destroy(struct pprof *x)
{
	if (!x)
		return;
	keyset_deinit(&x->keys);
	free(x->values);
	free(x);
}

static struct error *row_of(struct pprof *x, const struct interval *iv, uint64_t **ret)
{
	struct pprof_key key = { iv->stack, iv->labels, iv->state };
	uint32_t i;
	bool fresh;
	struct error *err = array_reserve(&x->values, &x->cap_values, x->keys.n + 1, sizeof(*x->values));

	if (!err)
		err = keyset_add(&x->keys, &key, sizeof(key), &i, &fresh);
	if (err)
		return err;
	if (fresh)
		memset(x->values[i], 0, sizeof(x->values[i]));
	*ret = x->values[i];
	return NULL;
}

static struct error *add_interval(struct pprof *x, const struct interval *iv)
{
	uint64_t *row;
	struct error *err;

	if (iv->end_tick == iv->first_tick && iv->t_end == iv->t_start && !iv->cpu_ns)
		return NULL;
	err = row_of(x, iv, &row);
	if (err)
		return err;
	row[PPROF_SAMPLES] += iv->end_tick - iv->first_tick;
	row[PPROF_CPU] += iv->cpu_ns;
	row[PPROF_WALL] += iv->t_end - iv->t_start;
	return NULL;
}

struct error *pprof_window(struct pprof *x, const struct window *w)
{
	if (x->windows && x->profile != w->profile)
		return error_new(ERROR_INTERNAL, "windows of two profiles in one pprof file");
	for (uint32_t i = 0; i < w->n_tracks; i++) {
		for (uint32_t k = 0; k < w->tracks[i].n; k++) {
			struct error *err = add_interval(x, &w->tracks[i].v[k]);

			if (err)
				return err;
		}
	}
	if (!x->windows++) {
		x->profile = w->profile;
		x->start = w->start;
	}
	x->duration_ns += w->end.mono - w->start.mono;
	x->unseen_ns += w->cpu_unseen_ns;
	x->ended_ns += w->cpu_ended_ns;
	for (uint32_t i = 0; i < HEALTH_COUNT; i++)
		x->health[i] = health_merge(i, x->health[i], w->health[i]);
	return NULL;
}

struct error *pprof_finish(struct pprof *x, struct sink *out)
{
	if (!x->windows)
		return error_new(ERROR_NOT_FOUND, "there is no window to write");
	return pprof_write(x, out);
}
