/*
 * pprof.c: adds windows up for the pprof format: one row for each stack, label set and state, with
 * the looks that met it, its on-CPU time and its wall time. A profile of an hour is as small as one
 * of a minute. How the rows become bytes is the business of pprof_write.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "export/pprof_impl.h"

/*
 * Some 50,000 rows: more than anybody looks at, and ten times what a program has that does not make
 * labels of its requests.
 */
enum { MOST_BYTES = 8 << 20 };

/* ---- rows ---- */

void pprof_rows_destroy(struct pprof_rows *r)
{
	if (!r)
		return;
	profile_destroy(r->names);
	keyset_deinit(&r->keys);
	free(r->values);
	free(r);
}

struct error *pprof_rows_create(const struct profile_meta *meta, struct pprof_rows **ret)
{
	struct pprof_rows *r = calloc(1, sizeof(*r));
	struct error *err;

	if (!r)
		return &err_nomem;
	keyset_init(&r->keys);
	err = profile_create(NULL, meta, &r->names);
	if (err) {
		pprof_rows_destroy(r);
		return err;
	}
	*ret = r;
	return NULL;
}

size_t pprof_rows_bytes(const struct pprof_rows *r)
{
	return profile_table_bytes(r->names) + keyset_bytes(&r->keys) + r->cap_values * sizeof(*r->values);
}

struct error *pprof_rows_add(struct pprof_rows *r, const struct pprof_key *key, const uint64_t v[PPROF_VALUES])
{
	uint32_t i;
	bool fresh;
	struct error *err = array_reserve(&r->values, &r->cap_values, r->keys.n + 1, sizeof(*r->values));

	if (!err)
		err = keyset_add(&r->keys, key, sizeof(*key), &i, &fresh);
	if (err)
		return err;
	if (fresh)
		memset(r->values[i], 0, sizeof(r->values[i]));
	for (int k = 0; k < PPROF_VALUES; k++)
		r->values[i][k] += v[k];
	return NULL;
}

/* ---- life ---- */

struct error *pprof_create(const struct export_options *o, struct pprof **ret)
{
	struct pprof *x = calloc(1, sizeof(*x));

	if (!x)
		return &err_nomem;
	x->o = *o;
	x->most_bytes = MOST_BYTES;
	*ret = x;
	return NULL;
}

void pprof_limit(struct pprof *x, size_t most_bytes)
{
	x->most_bytes = most_bytes;
}

void pprof_destroy(struct pprof *x)
{
	if (!x)
		return;
	pprof_rows_destroy(x->rows);
	free(x);
}

/* ---- adding up ---- */

/* From a window's names to those of the run; ends when the rows do. */
static struct error *carry_names(struct pprof *x, const struct window *w, struct profile_carry **ret)
{
	struct error *err = profile_carry_create(w->profile, x->rows->names, ret);

	return err ? err : profile_carry_images(*ret);
}

static struct error *add_interval(struct pprof *x, struct profile_carry *c, const struct interval *iv)
{
	struct pprof_key key = { iv->stack, iv->labels, iv->state };
	const uint64_t values[PPROF_VALUES] = {
		[PPROF_SAMPLES] = iv->end_tick - iv->first_tick,
		[PPROF_CPU] = iv->cpu_ns,
		[PPROF_WALL] = iv->t_end - iv->t_start,
	};
	struct error *err;

	if (!values[PPROF_SAMPLES] && !values[PPROF_CPU] && !values[PPROF_WALL])
		return NULL;
	err = profile_carry_stack(c, &key.stack);
	if (!err)
		err = profile_carry_labels(c, &key.labels);
	if (!err)
		err = profile_carry_string(c, &key.state);
	return err ? err : pprof_rows_add(x->rows, &key, values);
}

static void carry_cleanup(struct profile_carry **c)
{
	profile_carry_free(*c);
}

static struct error *add_tracks(struct pprof *x, const struct window *w)
{
	_cleanup_(carry_cleanup) struct profile_carry *c = NULL;
	_cleanup_(window_room_deinit) struct window_room room = { 0 };
	struct window_track track;
	struct error *err = carry_names(x, w, &c);

	for (uint32_t i = 0; i < w->n_places && !err; i++) {
		err = window_track(w, i, &room, &track);
		for (uint32_t k = 0; !err && k < track.n; k++)
			err = add_interval(x, c, &track.v[k]);
		if (err || pprof_rows_bytes(x->rows) <= x->most_bytes)
			continue;
		err = pprof_merge(x);
		profile_carry_free(take(c));
		if (!err)
			err = carry_names(x, w, &c);
	}
	return err;
}

/* Once told, a fact about the program seldom changes. */
static struct error *note_meta(struct pprof *x, const struct profile_meta *meta)
{
	struct error *err = NULL;

	if (!x->rows)
		err = pprof_rows_create(meta, &x->rows);
	else if (memcmp(&x->meta, meta, sizeof(*meta)) != 0)
		err = profile_set_meta(x->rows->names, meta);
	x->meta = *meta;
	return err;
}

struct error *pprof_window(struct pprof *x, const struct window *w)
{
	struct error *err = note_meta(x, profile_meta(w->profile));

	if (!err)
		err = add_tracks(x, w);
	if (err)
		return err;
	if (!x->windows++)
		x->start = w->start;
	x->duration_ns += w->end.mono - w->start.mono;
	x->unseen_ns += w->cpu_unseen_ns;
	x->ended_ns += w->cpu_ended_ns;
	for (uint32_t i = 0; i < HEALTH_COUNT; i++)
		x->health[i] = health_merge(i, x->health[i], w->health[i]);
	return NULL;
}

void pprof_health(const struct pprof *x, uint64_t health[HEALTH_COUNT])
{
	health[HEALTH_LABELS_MERGED] = x->labels_merged;
	health[HEALTH_STACKS_MERGED] = x->stacks_merged;
}

struct error *pprof_finish(struct pprof *x, struct sink *out)
{
	if (!x->windows)
		return error_new(ERROR_NOT_FOUND, "there is no window to write");
	pprof_health(x, x->health);
	return pprof_write(x, out);
}
