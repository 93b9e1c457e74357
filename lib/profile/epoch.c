/*
 * epoch.c: a server that sets a request's number as a label makes millions of label sets, and each is
 * of use for a moment. When the tables have grown too large, new ones begin, with what the open tracks
 * look like now; the old ones are freed when the last window that points into them is.
 *
 * A hundred thousand goroutines with labels of their own take longer to carry than a tick may be late. So
 * the next tables are filled beforehand, a few tracks at each tick, while what tracks change to is put into
 * both; in the end each id only has to be replaced by another. That begins as late as it can, as what comes
 * into the next tables meanwhile and is of the past in the end stays there for an epoch.
 *
 * Ids are carried from one set of tables to another in the same way wherever that is needed: exporters
 * that tell of the whole run have tables of their own.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "profile/profile_impl.h"

/* Rows of one table: their ids over there, plus one; 0: not carried yet. */
struct carried {
	uint32_t *ids;
	uint32_t n, cap;
};

struct profile_carry {
	struct profile from;		/* its tables, which may go on, or be the store's no more */
	struct profile *to;
	struct carried v[TABLE_COUNT];
	profile_id *frames;		/* of the stack at hand */
	struct profile_label *labels;	/* of the label set at hand */
	uint32_t cap_frames, cap_labels;
};

struct error *profile_carry_create(const struct profile *from, struct profile *to, struct profile_carry **ret)
{
	struct profile_carry *c = calloc(1, sizeof(*c));

	if (!c)
		return &err_nomem;
	c->from = (struct profile){ .tables = from->tables, .epoch = epoch_ref(from->epoch) };
	c->to = to;
	*ret = c;
	return NULL;
}

void profile_carry_free(struct profile_carry *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < TABLE_COUNT; i++)
		free(c->v[i].ids);
	free(c->frames);
	free(c->labels);
	epoch_unref(c->from.epoch);
	free(c);
}

/* Carries one row that was not carried before; *id is that of its source, then its own. */
typedef struct error *carry_row(struct profile_carry *c, profile_id *id);

static struct error *reserve_carried(struct carried *done, uint32_t n)
{
	struct error *err = array_reserve(&done->ids, &done->cap, n, sizeof(*done->ids));

	if (err)
		return err;
	memset(done->ids + done->n, 0, (n - done->n) * sizeof(*done->ids));
	done->n = n;
	return NULL;
}

static struct error *carry(struct profile_carry *c, enum table_id table, carry_row *row, profile_id *id)
{
	struct carried *done = &c->v[table];
	uint32_t n = c->from.tables->v[table].n;
	profile_id to = *id;
	struct error *err;

	if (*id >= n)
		return error_new(ERROR_INTERNAL, "an id of another epoch");
	err = *id < done->n ? NULL : reserve_carried(done, n);
	if (err)
		return err;
	if (!done->ids[*id]) {
		err = row(c, &to);
		if (err)
			return err;
		done->ids[*id] = to + 1;
	}
	*id = done->ids[*id] - 1;
	return NULL;
}

static struct error *string_row(struct profile_carry *c, profile_id *id)
{
	const struct table_row *row = table_row(&c->from.tables->v[TABLE_STRINGS], *id);

	return profile_string(c->to, row->data, row->len, id);
}

struct error *profile_carry_string(struct profile_carry *c, profile_id *id)
{
	return carry(c, TABLE_STRINGS, string_row, id);
}

static struct error *carry_strings(struct profile_carry *c, profile_id *const *ids, size_t n)
{
	struct error *err = NULL;

	for (size_t i = 0; i < n && !err; i++)
		err = profile_carry_string(c, ids[i]);
	return err;
}

static struct error *frame_row(struct profile_carry *c, profile_id *id)
{
	struct profile_frame f = *profile_frame_get(&c->from, *id);
	profile_id *const ids[] = { &f.function, &f.module, &f.name, &f.file, &f.abs_path };
	struct error *err = carry_strings(c, ids, sizeof(ids) / sizeof(ids[0]));

	return err ? err : profile_frame(c->to, &f, id);
}

static struct error *stack_row(struct profile_carry *c, profile_id *id)
{
	struct profile_stack s = profile_stack_get(&c->from, *id);
	struct error *err = array_reserve(&c->frames, &c->cap_frames, s.n, sizeof(*c->frames));

	for (uint32_t i = 0; i < s.n && !err; i++) {
		c->frames[i] = s.frames[i];
		err = carry(c, TABLE_FRAMES, frame_row, &c->frames[i]);
	}
	return err ? err : profile_stack(c->to, c->frames, s.n, s.flags, id);
}

struct error *profile_carry_stack(struct profile_carry *c, profile_id *id)
{
	return *id == PROFILE_STACK_EMPTY ? NULL : carry(c, TABLE_STACKS, stack_row, id);
}

static struct error *labels_row(struct profile_carry *c, profile_id *id)
{
	struct profile_labels l = profile_labels_get(&c->from, *id);
	struct error *err = array_reserve(&c->labels, &c->cap_labels, l.n, sizeof(*c->labels));

	for (uint32_t i = 0; i < l.n && !err; i++) {
		profile_id *const ids[] = { &c->labels[i].key, &c->labels[i].value };

		c->labels[i] = l.v[i];
		err = carry_strings(c, ids, 2);
	}
	return err ? err : profile_labels(c->to, c->labels, l.n, id);
}

struct error *profile_carry_labels(struct profile_carry *c, profile_id *id)
{
	return *id <= PROFILE_LABELS_UNKNOWN ? NULL : carry(c, TABLE_LABELS, labels_row, id);
}

static struct error *origin_row(struct profile_carry *c, profile_id *id)
{
	const struct origin *o = origin_get(c->from.tables, *id);
	struct profile_track_info info = {
		.entry = o->entry, .entry_file = o->entry_file, .created_by = o->created_by,
		.entry_line = o->entry_line, .system = o->system,
	};
	profile_id *const ids[] = { &info.entry, &info.entry_file, &info.created_by };
	struct error *err = carry_strings(c, ids, sizeof(ids) / sizeof(ids[0]));

	return err ? err : origin_intern(c->to, &info, id);
}

struct error *profile_carry_images(struct profile_carry *c)
{
	struct error *err = NULL;

	for (uint32_t i = 0; i < c->from.tables->n_images && !err; i++) {
		struct profile_image image = c->from.tables->images[i];
		profile_id *const ids[] = { &image.name, &image.path, &image.build_id };

		err = carry_strings(c, ids, sizeof(ids) / sizeof(ids[0]));
		if (!err)
			err = profile_image(c->to, &image);
	}
	return err;
}

/* ---- a new epoch of a store ---- */

bool profile_epoch_over(const struct profile *p)
{
	return epoch_bytes(p->epoch) > p->tables_most;
}

static struct error *look_row(struct profile_carry *c, profile_id *id)
{
	struct look look = *look_get(c->from.tables, *id);
	struct error *err = carry(c, TABLE_ORIGINS, origin_row, &look.origin);

	if (!err)
		err = profile_carry_stack(c, &look.stack);
	if (!err)
		err = profile_carry_labels(c, &look.labels);
	if (!err)
		err = profile_carry_string(c, &look.state);
	return err ? err : look_intern(c->to, &look, id);
}

static struct error *carry_track(struct profile_carry *c, struct track *t)
{
	profile_id look = t->look;
	struct error *err = carry(c, TABLE_LOOKS, look_row, &look);

	if (!err)
		t->look = look;
	return err;
}

/* Of one that ended nobody asks any more. */
static struct error *carry_tracks(struct profile *p, struct profile_carry *c)
{
	for (uint32_t slot = 0; slot < p->tracks.n; slot++) {
		struct track *t;
		struct error *err;

		if (track_at(&p->tracks, slot)->flags & TRACK_GONE)
			continue;
		t = track_change(&p->tracks, slot);
		err = t ? carry_track(c, t) : &err_nomem;
		if (err)
			return err;
	}
	return NULL;
}

/* ---- before it begins ---- */

void next_epoch_free(struct next_epoch *next)
{
	if (!next)
		return;
	profile_carry_free(next->carry);
	epoch_unref(next->names.epoch);
	free(next);
}

static struct error *next_epoch_create(const struct profile *p, struct next_epoch **ret)
{
	struct next_epoch *next = calloc(1, sizeof(*next));
	struct error *err;

	if (!next)
		return &err_nomem;
	err = epoch_create(p->epoch->number + 1, &next->names.epoch);
	if (!err) {
		next->names.tables = &next->names.epoch->tables;
		err = profile_carry_create(p, &next->names, &next->carry);
	}
	if (err) {
		next_epoch_free(next);
		return err;
	}
	*ret = next;
	return NULL;
}

struct error *next_epoch_note(struct next_epoch *next, const struct track *t)
{
	struct track copy = *t;

	return carry_track(next->carry, &copy);
}

struct error *profile_prepare_epoch(struct profile *p, uint32_t tracks)
{
	struct error *err = p->next ? NULL : next_epoch_create(p, &p->next);

	for (; !err && tracks && p->next->slot < p->tracks.n; p->next->slot++, tracks--)
		if (!(track_at(&p->tracks, p->next->slot)->flags & TRACK_GONE))
			err = next_epoch_note(p->next, track_at(&p->tracks, p->next->slot));
	return err;
}

/* ---- its beginning ---- */

/* The store goes over to the new tables; those who carry ids do so from the old ones to its own. */
static void go_over(struct profile *p, struct next_epoch *next)
{
	epoch_unref(p->epoch);
	p->epoch = take(next->names.epoch);
	p->tables = &p->epoch->tables;
	p->meta = next->names.meta;
	next->carry->to = p;
}

struct error *profile_begin_epoch(struct profile *p, struct profile_carry **ret)
{
	struct next_epoch *next;
	struct error *err;

	if (p->win.open || p->win.log.n)
		return error_new(ERROR_INTERNAL, "a new epoch within a window");
	err = profile_prepare_epoch(p, 0);
	if (err)
		return err;
	next = take(p->next);
	err = profile_set_meta(&next->names, profile_meta(p));
	if (!err)
		err = profile_carry_images(next->carry);
	if (!err)
		err = carry_tracks(p, next->carry);
	if (!err) {
		go_over(p, next);
		/* What is in use takes room that no new epoch would win back. */
		p->tables_most = 2 * epoch_bytes(p->epoch);
		if (p->tables_most < p->limits.table_bytes)
			p->tables_most = p->limits.table_bytes;
		*ret = take(next->carry);
	}
	next_epoch_free(next);
	return err;
}
