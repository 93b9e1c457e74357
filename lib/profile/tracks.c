/*
 * tracks.c: the slots of tracks. They stand in blocks, which a closed window shares with the store: its
 * consumer reads how they were while sampling goes on, and a block that is still being read is copied
 * before it is written to. So closing a window of a million goroutines copies 8,000 pointers.
 *
 * A slot whose track ended in the open window keeps it until that window is closed. Nothing is touched
 * then: the slot only changes from one list to the other, and what is left of the old track goes when the
 * slot is used again.
 */
#include <stdlib.h>
#include <string.h>

#include "profile/profile_impl.h"

void track_block_unref(struct track_block *b)
{
	if (b && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1)
		free(b);
}

void track_info(const struct tables *tables, const struct track *t, struct profile_track_info *ret)
{
	const struct origin *o = origin_get(tables, look_get(tables, t->look)->origin);

	*ret = (struct profile_track_info){
		.key = t->key, .entry = o->entry, .entry_file = o->entry_file, .entry_line = o->entry_line,
		.created_by = o->created_by, .system = o->system,
	};
}

static uint64_t key_of(const void *ctx, uint32_t slot)
{
	return track_at(ctx, slot)->key;
}

void tracks_init(struct tracks *ts)
{
	*ts = (struct tracks){ 0 };
	mapi_init(&ts->by_key, key_of, ts);
}

void tracks_deinit(struct tracks *ts)
{
	for (uint32_t i = 0; i < ts->n_blocks; i++)
		track_block_unref(ts->blocks[i]);
	free(ts->blocks);
	free(ts->shared);
	mapi_deinit(&ts->by_key);
	free(ts->gone.v);
	free(ts->free.v);
	tracks_init(ts);
}

static struct track_block *block_new(void)
{
	struct track_block *b = malloc(sizeof(*b));

	if (b)
		atomic_init(&b->refs, 1);
	return b;
}

/* A block that a window may have: a copy of it, if it still has. */
static struct error *own_block(struct tracks *ts, uint32_t i)
{
	struct track_block *copy;

	/* Nobody but the store gives out references: one that is alone stays alone. */
	if (atomic_load_explicit(&ts->blocks[i]->refs, memory_order_acquire) > 1) {
		copy = block_new();
		if (!copy)
			return &err_nomem;
		memcpy(copy->v, ts->blocks[i]->v, sizeof(copy->v));
		track_block_unref(ts->blocks[i]);
		ts->blocks[i] = copy;
	}
	ts->shared[i] = false;
	return NULL;
}

struct track *track_change(struct tracks *ts, uint32_t slot)
{
	uint32_t i = slot / BLOCK_TRACKS;

	if (ts->shared[i] && own_block(ts, i))
		return NULL;
	return &ts->blocks[i]->v[slot % BLOCK_TRACKS];
}

static struct error *slots_add(struct slots *s, uint32_t slot)
{
	struct error *err = array_reserve(&s->v, &s->cap, s->n + 1, sizeof(*s->v));

	if (!err)
		s->v[s->n++] = slot;
	return err;
}

void track_list_gone(struct tracks *ts, uint32_t slot, struct track *t)
{
	/* Where memory is short the slot is not used again, that is all. */
	if (t->flags & TRACK_LISTED || slots_add(&ts->gone, slot))
		return;
	t->flags |= TRACK_LISTED;
}

/* One that is free, or NONE. Those that have come back to life meanwhile leave the list. */
static struct error *take_free(struct tracks *ts, uint64_t base, uint32_t *ret)
{
	*ret = NONE;
	while (ts->free.n && *ret == NONE) {
		uint32_t slot = ts->free.v[ts->free.n - 1];
		const struct track *t = track_at(ts, slot);
		struct error *err = NULL;
		struct track *alive;

		if (t->flags & TRACK_GONE && track_last(t) < base) {
			*ret = slot;
		} else if (t->flags & TRACK_GONE) {
			err = slots_add(&ts->gone, slot);	/* and ended again, in this window */
		} else {
			alive = track_change(ts, slot);
			err = alive ? NULL : &err_nomem;
			if (alive)
				alive->flags &= ~(unsigned int)TRACK_LISTED;
		}
		if (err)
			return err;
		ts->free.n--;
	}
	return NULL;
}

static struct error *take_fresh(struct tracks *ts, uint32_t *ret)
{
	struct error *err;

	if (ts->n == ts->n_blocks * BLOCK_TRACKS) {
		err = array_reserve(&ts->blocks, &ts->cap_blocks, ts->n_blocks + 1, sizeof(struct track_block *));
		if (!err)
			err = array_reserve(&ts->shared, &ts->cap_shared, ts->n_blocks + 1, sizeof(*ts->shared));
		if (err)
			return err;
		ts->blocks[ts->n_blocks] = block_new();
		if (!ts->blocks[ts->n_blocks])
			return &err_nomem;
		ts->shared[ts->n_blocks] = false;
		ts->n_blocks++;
	}
	*ret = ts->n;
	return NULL;
}

struct error *track_new(struct tracks *ts, uint64_t key, uint64_t base, uint32_t *ret)
{
	uint32_t slot;
	struct error *err = take_free(ts, base, &slot);
	bool fresh = slot == NONE;
	struct track *t;

	if (!err && fresh)
		err = take_fresh(ts, &slot);
	if (err)
		return err;
	t = track_change(ts, slot);
	/* The old key may belong to a newer track by now. */
	if (t && !fresh && mapi_get(&ts->by_key, t->key) == slot)
		mapi_del(&ts->by_key, t->key);
	if (t) {
		*t = (struct track){ .key = key & TRACK_KEY_MOST, .flags = TRACK_GONE | TRACK_LISTED };
		ts->repeated |= mapi_get(&ts->by_key, t->key) != MAP_NONE;
		err = mapi_put(&ts->by_key, t->key, slot);
	} else {
		err = &err_nomem;
	}
	if (err) {
		ts->free.n += !fresh;	/* where it still stands */
		return err;
	}
	t->flags = 0;
	ts->n += fresh;
	*ret = slot;
	return NULL;
}

struct error *tracks_free_gone(struct tracks *ts)
{
	struct error *err;

	if (!ts->free.n) {
		struct slots empty = ts->free;

		ts->free = ts->gone;
		ts->gone = empty;
		return NULL;
	}
	err = array_reserve(&ts->free.v, &ts->free.cap, ts->free.n + ts->gone.n, sizeof(*ts->free.v));
	if (err)
		return err;
	if (ts->gone.n)
		memcpy(ts->free.v + ts->free.n, ts->gone.v, ts->gone.n * sizeof(*ts->gone.v));
	ts->free.n += ts->gone.n;
	ts->gone.n = 0;
	return NULL;
}

struct error *tracks_share(struct tracks *ts, struct track_block ***ret)
{
	struct track_block **v = calloc((size_t)ts->n_blocks + 1, sizeof(struct track_block *));

	if (!v)
		return &err_nomem;
	for (uint32_t i = 0; i < ts->n_blocks; i++) {
		v[i] = ts->blocks[i];
		atomic_fetch_add_explicit(&v[i]->refs, 1, memory_order_relaxed);
		ts->shared[i] = true;
	}
	*ret = v;
	return NULL;
}
