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

static struct error *reserve_part(struct log *l)
{
	struct error *err;
	struct log_entry *part;

	if (l->n / LOG_PART < l->n_parts)
		return NULL;
	/* Two places at the end would be taken for none. */
	if (l->n >= NONE - 2)
		return &err_nomem;
	err = array_reserve(&l->parts, &l->cap_parts, l->n_parts + 1, sizeof(*l->parts));
	part = err ? NULL : malloc(LOG_PART * sizeof(*part));
	if (!part)
		return &err_nomem;
	l->parts[l->n_parts++] = part;
	return NULL;
}

struct error *log_add(struct log *l, const struct log_entry *e, uint32_t *ret)
{
	struct error *err = reserve_part(l);

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

static struct error *shared_of(struct log *l, profile_id look, struct log_shared **ret)
{
	struct error *err = array_reserve(&l->shared, &l->cap_shared, look + 1, sizeof(*l->shared));

	if (err)
		return err;
	for (; l->n_shared <= look; l->n_shared++)
		l->shared[l->n_shared] = (struct log_shared){ NONE, NONE };
	*ret = &l->shared[look];
	return NULL;
}

struct error *log_start(struct log *l, profile_id look, uint64_t t_start, uint32_t *ret)
{
	const struct log_entry e = { .t_start = t_start, .prev = NONE, .look = look };
	struct log_shared *shared;
	struct error *err = shared_of(l, look, &shared);

	if (!err && shared->start == NONE)
		err = log_add(l, &e, &shared->start);
	if (!err)
		*ret = shared->start;
	return err;
}

struct error *log_fresh(struct log *l, profile_id look, uint64_t t_start, uint32_t tick, uint32_t *ret)
{
	const struct log_entry e = { .t_start = t_start, .prev = NONE, .look = look, .first_tick = tick };
	struct log_shared *shared;
	struct error *err = shared_of(l, look, &shared);

	if (err)
		return err;
	if (shared->fresh == NONE || log_at(l, shared->fresh)->t_start != t_start ||
	    log_at(l, shared->fresh)->first_tick != tick)
		err = log_add(l, &e, &shared->fresh);
	if (!err)
		*ret = shared->fresh;
	return err;
}

void log_deinit(struct log *l)
{
	for (uint32_t i = 0; i < l->n_parts; i++)
		free(l->parts[i]);
	free(l->parts);
	free(l->shared);
	*l = (struct log){ 0 };
}
