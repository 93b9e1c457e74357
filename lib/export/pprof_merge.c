/*
 * pprof_merge.c: keeps the rows of a long run bounded. Rows are put into new tables in the order of their
 * share of the time: the first ones as they are; when they have taken a quarter of the room the others lose
 * their label set, as it is mostly label sets that there are too many of, and the same stacks come together;
 * after half of it what is left goes under one name. No time is lost, and it is told how many were merged.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "export/pprof_impl.h"

#define OTHER_STACKS "[other stacks]"
#define OTHER_LABELS "[other labels]"

struct ranked {
	double share;		/* of on-CPU or of wall time, whichever is more */
	uint32_t row;
};

struct merge {
	struct pprof *x;
	struct pprof_rows *to;
	struct profile_carry *carry;
	profile_id stacks, labels;	/* what stands for the others, in `to` */
	uint64_t labels_merged, stacks_merged;
};

static void merge_deinit(struct merge *m)
{
	profile_carry_free(m->carry);
	pprof_rows_destroy(m->to);
}

static struct error *string_of(struct profile *p, const char *s, profile_id *ret)
{
	return profile_string(p, s, strlen(s), ret);
}

static struct error *name_others(struct merge *m)
{
	struct profile *p = m->to->names;
	struct profile_frame f = { .flags = PROFILE_FRAME_PSEUDO };
	struct profile_label l;
	profile_id frame;
	struct error *err = string_of(p, OTHER_STACKS, &f.function);

	f.name = f.function;
	if (!err)
		err = profile_frame(p, &f, &frame);
	if (!err)
		err = profile_stack(p, &frame, 1, PROFILE_STACK_COMPLETE, &m->stacks);
	if (!err)
		err = string_of(p, "labels", &l.key);
	if (!err)
		err = string_of(p, OTHER_LABELS, &l.value);
	return err ? err : profile_labels(p, &l, 1, &m->labels);
}

/* What the row becomes, by how much room is taken already. */
static struct error *row_key(struct merge *m, struct pprof_key *key)
{
	size_t used = pprof_rows_bytes(m->to), most = m->x->most_bytes;
	struct error *err = profile_carry_string(m->carry, &key->state);

	if (err)
		return err;
	if (used >= most / 2) {
		m->stacks_merged++;
		key->stack = m->stacks;
		key->labels = PROFILE_LABELS_NONE;
		return NULL;
	}
	if (used >= most / 4 && key->labels > PROFILE_LABELS_UNKNOWN) {
		m->labels_merged++;
		key->labels = m->labels;
	} else {
		err = profile_carry_labels(m->carry, &key->labels);
	}
	return err ? err : profile_carry_stack(m->carry, &key->stack);
}

static int by_share(const void *va, const void *vb)
{
	const struct ranked *a = va, *b = vb;

	if (a->share > b->share || a->share < b->share)
		return a->share > b->share ? -1 : 1;
	return (a->row > b->row) - (a->row < b->row);
}

static double part(uint64_t v, uint64_t all)
{
	return all ? (double)v / (double)all : 0;
}

static void rank(const struct pprof_rows *r, struct ranked *v)
{
	uint64_t all[PPROF_VALUES] = { 0 };

	for (uint32_t i = 0; i < r->keys.n; i++)
		for (int k = 0; k < PPROF_VALUES; k++)
			all[k] += r->values[i][k];
	for (uint32_t i = 0; i < r->keys.n; i++) {
		double cpu = part(r->values[i][PPROF_CPU], all[PPROF_CPU]);
		double wall = part(r->values[i][PPROF_WALL], all[PPROF_WALL]);

		v[i] = (struct ranked){ cpu > wall ? cpu : wall, i };
	}
	qsort(v, r->keys.n, sizeof(*v), by_share);
}

static struct error *move_rows(struct merge *m, const struct ranked *v)
{
	const struct pprof_rows *from = m->x->rows;
	struct error *err = NULL;

	for (uint32_t i = 0; i < from->keys.n && !err; i++) {
		struct pprof_key key;
		size_t len;

		memcpy(&key, keyset_get(&from->keys, v[i].row, &len), sizeof(key));
		err = row_key(m, &key);
		if (!err)
			err = pprof_rows_add(m->to, &key, from->values[v[i].row]);
	}
	return err;
}

struct error *pprof_merge(struct pprof *x)
{
	_cleanup_(merge_deinit) struct merge m = { .x = x };
	_cleanup_free_ struct ranked *v = calloc((size_t)x->rows->keys.n + 1, sizeof(*v));
	struct error *err = v ? pprof_rows_create(profile_meta(x->rows->names), &m.to) : &err_nomem;

	if (!err)
		err = profile_carry_create(x->rows->names, m.to->names, &m.carry);
	if (!err)
		err = profile_carry_images(m.carry);
	if (!err)
		err = name_others(&m);
	if (err)
		return err;
	rank(x->rows, v);
	err = move_rows(&m, v);
	if (err)
		return err;
	pprof_rows_destroy(x->rows);
	x->rows = take(m.to);
	x->labels_merged += m.labels_merged;
	x->stacks_merged += m.stacks_merged;
	return NULL;
}
