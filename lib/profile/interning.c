/*
 * interning.c: what is told becomes ids, and ids become what was told. Putting in is the store's alone;
 * looking up works on a store and on what a window knows of one.
 */
#include <stdlib.h>
#include <string.h>

#include "profile/profile_impl.h"

_Static_assert(sizeof(struct profile_frame) == 8 * sizeof(uint32_t), "frames are keys: no padding");
_Static_assert(sizeof(struct profile_label) == 2 * sizeof(uint32_t), "labels are keys: no padding");
_Static_assert(sizeof(struct origin) == 5 * sizeof(uint32_t), "origins are keys: no padding");
_Static_assert(sizeof(struct look) == 5 * sizeof(uint32_t), "looks are keys: no padding");

/* ---- putting in ---- */

struct error *profile_string(struct profile *p, const char *s, size_t len, profile_id *ret)
{
	return epoch_intern(p->epoch, TABLE_STRINGS, s, len, ret);
}

static bool frame_is_sound(const struct tables *t, const struct profile_frame *f)
{
	uint32_t n = t->v[TABLE_STRINGS].n;

	return f->function < n && f->module < n && f->name < n && f->file < n && f->abs_path < n;
}

struct error *profile_frame(struct profile *p, const struct profile_frame *f, profile_id *ret)
{
	if (!frame_is_sound(p->tables, f))
		return error_new(ERROR_INTERNAL, "a frame names a string that does not exist");
	return epoch_intern(p->epoch, TABLE_FRAMES, f, sizeof(*f), ret);
}

static struct error *scratch_reserve(struct epoch *e, size_t words)
{
	uint32_t *grown;

	if (words <= e->scratch_cap)
		return NULL;
	grown = reallocarray(e->scratch, words, sizeof(*grown));
	if (!grown)
		return &err_nomem;
	e->scratch = grown;
	e->scratch_cap = words;
	return NULL;
}

struct error *profile_stack(struct profile *p, const profile_id *frames, uint32_t n, uint32_t flags,
			    profile_id *ret)
{
	struct epoch *e = p->epoch;
	struct error *err;

	if (!n) {
		*ret = PROFILE_STACK_EMPTY;
		return NULL;
	}
	for (uint32_t i = 0; i < n; i++)
		if (frames[i] >= e->tables.v[TABLE_FRAMES].n)
			return error_new(ERROR_INTERNAL, "a stack names a frame that does not exist");
	err = scratch_reserve(e, (size_t)n + 1);
	if (err)
		return err;
	e->scratch[0] = flags;
	memcpy(e->scratch + 1, frames, n * sizeof(*frames));
	return epoch_intern(e, TABLE_STACKS, e->scratch, ((size_t)n + 1) * sizeof(*e->scratch), ret);
}

/* Inserts `l` into v, ordered by the text of the key; the first one of a key stays. */
static uint32_t label_insert(const struct profile *p, struct profile_label *v, uint32_t n,
			     struct profile_label l)
{
	uint32_t at = n;

	for (uint32_t i = 0; i < n; i++)
		if (v[i].key == l.key)
			return n;
	while (at && strcmp(profile_string_get(p, v[at - 1].key), profile_string_get(p, l.key)) > 0)
		at--;
	memmove(v + at + 1, v + at, (n - at) * sizeof(*v));
	v[at] = l;
	return n + 1;
}

struct error *profile_labels(struct profile *p, const struct profile_label *v, uint32_t n,
			     profile_id *ret)
{
	struct epoch *e = p->epoch;
	uint32_t strings = e->tables.v[TABLE_STRINGS].n, kept = 0;
	struct error *err = scratch_reserve(e, (size_t)n * 2);
	struct profile_label *sorted;

	if (err)
		return err;
	if (!n) {
		*ret = PROFILE_LABELS_NONE;
		return NULL;
	}
	sorted = (struct profile_label *)e->scratch;
	for (uint32_t i = 0; i < n; i++) {
		if (v[i].key >= strings || v[i].value >= strings)
			return error_new(ERROR_INTERNAL, "a label names a string that does not exist");
		kept = label_insert(p, sorted, kept, v[i]);
	}
	return epoch_intern(e, TABLE_LABELS, sorted, kept * sizeof(*sorted), ret);
}

struct error *origin_intern(struct profile *p, const struct profile_track_info *info, profile_id *ret)
{
	const struct origin o = {
		.entry = info->entry, .entry_file = info->entry_file, .created_by = info->created_by,
		.entry_line = info->entry_line, .system = info->system,
	};
	uint32_t strings = p->tables->v[TABLE_STRINGS].n;

	if (o.entry >= strings || o.entry_file >= strings || o.created_by >= strings)
		return error_new(ERROR_INTERNAL, "a track names a string that does not exist");
	return epoch_intern(p->epoch, TABLE_ORIGINS, &o, sizeof(o), ret);
}

struct error *look_intern(struct profile *p, const struct look *look, profile_id *ret)
{
	return epoch_intern(p->epoch, TABLE_LOOKS, look, sizeof(*look), ret);
}

/* ---- looking up ---- */

static const struct table_row *row_of(const struct tables *t, enum table_id table, profile_id id)
{
	return id < t->v[table].n ? table_row(&t->v[table], id) : NULL;
}

const char *profile_string_get(const struct profile *p, profile_id id)
{
	const struct table_row *row = row_of(p->tables, TABLE_STRINGS, id);

	return row ? row->data : "";
}

const struct profile_frame *profile_frame_get(const struct profile *p, profile_id id)
{
	static const struct profile_frame none;
	const struct table_row *row = row_of(p->tables, TABLE_FRAMES, id);

	return row ? row->data : &none;
}

struct profile_stack profile_stack_get(const struct profile *p, profile_id id)
{
	const struct table_row *row = row_of(p->tables, TABLE_STACKS, id);
	const uint32_t *words;

	if (!row)
		return (struct profile_stack){ 0 };
	words = row->data;
	return (struct profile_stack){ words + 1, row->len / (uint32_t)sizeof(*words) - 1, words[0] };
}

struct profile_labels profile_labels_get(const struct profile *p, profile_id id)
{
	const struct table_row *row = row_of(p->tables, TABLE_LABELS, id);

	if (!row)
		return (struct profile_labels){ 0 };
	return (struct profile_labels){ row->data, row->len / (uint32_t)sizeof(struct profile_label) };
}

const struct origin *origin_get(const struct tables *t, profile_id id)
{
	static const struct origin none;
	const struct table_row *row = row_of(t, TABLE_ORIGINS, id);

	return row ? row->data : &none;
}

const struct look *look_get(const struct tables *t, profile_id id)
{
	static const struct look none;
	const struct table_row *row = row_of(t, TABLE_LOOKS, id);

	return row ? row->data : &none;
}

uint32_t profile_string_count(const struct profile *p)
{
	return p->tables->v[TABLE_STRINGS].n;
}

uint32_t profile_frame_count(const struct profile *p)
{
	return p->tables->v[TABLE_FRAMES].n;
}

uint32_t profile_stack_count(const struct profile *p)
{
	return p->tables->v[TABLE_STACKS].n;
}

uint32_t profile_labels_count(const struct profile *p)
{
	return p->tables->v[TABLE_LABELS].n;
}

uint32_t profile_epoch(const struct profile *p)
{
	return p->epoch->number;
}

size_t profile_table_bytes(const struct profile *p)
{
	return epoch_bytes(p->epoch);
}
