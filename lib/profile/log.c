/*
 * log.c: what happened in the open window, in order. It stands in parts, so that adding to it never moves
 * what is there: a million entries take longer to move than a tick may be late.
 *
 * A million goroutines that are seen for the first time within a second, with a stack that nobody has read yet,
 * have some thousand entries together; and a parked one that changes has one for that, not also one for what it
 * had looked like since the window began.
 */
#include <stdlib.h>

#include "profile/profile_impl.h"

enum { LOG_LATEST = 64 };	/* entries that are looked through for one to be shared */

static struct error *add_part(struct log *l)
{
	struct error *err = array_reserve(&l->parts, &l->cap_parts, l->n_parts + 1, sizeof(*l->parts));
	struct log_entry *part = err ? NULL : malloc(LOG_PART * sizeof(*part));

	if (!part)
		return &err_nomem;
	l->parts[l->n_parts++] = part;
	return NULL;
}

/* Room for one more, and so many parts behind it. */
static struct error *reserve_part(struct log *l, uint32_t spare)
{
	struct error *err = NULL;

	/* The place NONE would be taken for none. */
	if (l->n == NONE)
		return &err_nomem;
	while (l->n_parts <= l->n / LOG_PART + spare && !err)
		err = add_part(l);
	return err;
}

/* A part is kept for ends: what has ended must not seem to go on because memory is short. */
struct error *log_add(struct log *l, const struct log_entry *e, uint32_t *ret)
{
	struct error *err = reserve_part(l, e->look != LOG_END);

	if (err)
		return err;
	*log_at(l, l->n) = *e;
	*ret = l->n++;
	return NULL;
}

struct error *log_add_oncpu(struct log *l, const struct log_entry *e, uint32_t *ret)
{
	static const struct log_entry cpu = { .prev = NONE, .look = LOG_CPU };
	struct error *err = log_add(l, e, ret);
	uint32_t place;

	if (err)
		return err;
	err = log_add(l, &cpu, &place);
	if (err)
		l->n--;
	return err;
}

struct log_entry *log_cpu(const struct log *l, uint32_t i)
{
	struct log_entry *e = i < l->n && i + 1 < l->n ? log_at(l, i + 1) : NULL;

	return e && e->look == LOG_CPU ? e : NULL;
}

/* ---- entries that are shared ---- */

static struct error *reserve_start(struct log *l, profile_id look)
{
	struct error *err = array_reserve(&l->starts, &l->cap_starts, look + 1, sizeof(*l->starts));

	if (err)
		return err;
	for (; l->n_starts <= look; l->n_starts++)
		l->starts[l->n_starts] = NONE;
	return NULL;
}

struct error *log_start(struct log *l, profile_id look, uint64_t t_start, uint32_t *ret)
{
	const struct log_entry e = { .t_start = t_start, .prev = NONE, .look = look };
	struct error *err = reserve_start(l, look);

	if (!err && l->starts[look] == NONE)
		err = log_add(l, &e, &l->starts[look]);
	if (!err)
		*ret = l->starts[look];
	return err;
}

static bool same(const struct log_entry *a, const struct log_entry *b)
{
	return a->prev == b->prev && a->look == b->look && a->t_start == b->t_start && a->first_tick == b->first_tick;
}

/* Those that are new in one tick were seen at some dozen instants, in any order. What is of an earlier one ends it. */
static uint32_t find_latest(const struct log *l, const struct log_entry *e)
{
	uint32_t end = l->n > LOG_LATEST ? l->n - LOG_LATEST : 0;

	for (uint32_t i = l->n; i > end; i--) {
		const struct log_entry *o = log_at(l, i - 1);

		if (same(o, e))
			return i - 1;
		if (o->first_tick < e->first_tick && o->prev == NONE && o->look != LOG_CPU)
			return NONE;
	}
	return NONE;
}

struct error *log_fresh(struct log *l, profile_id look, uint64_t t_start, uint32_t tick, uint32_t *ret)
{
	const struct log_entry e = { .t_start = t_start, .prev = NONE, .look = look, .first_tick = tick };

	*ret = find_latest(l, &e);
	return *ret == NONE ? log_add(l, &e, ret) : NULL;
}

void log_deinit(struct log *l)
{
	for (uint32_t i = 0; i < l->n_parts; i++)
		free(l->parts[i]);
	free(l->parts);
	free(l->starts);
	*l = (struct log){ 0 };
}
