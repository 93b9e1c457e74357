/*
 * tables.c: strings, frames, stacks and label sets, each held once. Equal content has the equal
 * id, so everything later compares and counts by number. Nothing is ever removed within an epoch:
 * windows that are still being written point in here.
 *
 * All four are one kind of table over byte strings; a frame is its eight numbers, a stack its flags
 * and frame ids, a label set its pairs ordered by the text of the key.
 */
#include <stdlib.h>
#include <string.h>

#include "profile/profile_impl.h"

_Static_assert(sizeof(struct profile_frame) == 8 * sizeof(uint32_t), "frames are keys: no padding");
_Static_assert(sizeof(struct profile_label) == 2 * sizeof(uint32_t), "labels are keys: no padding");

/* ---- one table ---- */

static const void *key_of(const void *ctx, uint32_t value, size_t *len)
{
	const struct intern *t = ctx;

	*len = t->v[value].len;
	return t->v[value].data;
}

static void intern_init(struct intern *t, struct arena *arena)
{
	*t = (struct intern){ .arena = arena };
	mapb_init(&t->map, key_of, t);
}

static void intern_deinit(struct intern *t)
{
	mapb_deinit(&t->map);
	free(t->v);
}

static struct error *intern_append(struct intern *t, const void *data, size_t len)
{
	struct error *err = array_reserve(&t->v, &t->cap, t->n + 1, sizeof(*t->v));
	char *copy;

	if (err)
		return err;
	copy = arena_alloc(t->arena, len + 1);
	if (!copy)
		return &err_nomem;
	if (len)
		memcpy(copy, data, len);
	copy[len] = '\0';
	t->v[t->n++] = (struct intern_key){ copy, (uint32_t)len };
	return NULL;
}

static struct error *intern(struct intern *t, const void *data, size_t len, profile_id *ret)
{
	uint32_t id;
	struct error *err;

	if (len >= UINT32_MAX)
		return &err_corrupt;
	id = mapb_get(&t->map, data, len);
	if (id == MAP_NONE) {
		id = t->n;
		err = intern_append(t, data, len);
		if (err)
			return err;
		err = mapb_put(&t->map, t->v[id].data, len, id);
		if (err) {
			t->n--;
			return err;
		}
	}
	*ret = id;
	return NULL;
}

/* ---- the four together ---- */

static struct error *reserve_ids(struct tables *t)
{
	const uint32_t no_flags = 0;
	profile_id id;
	struct error *err = intern(&t->strings, "", 0, &id);

	if (!err)
		err = intern(&t->stacks, &no_flags, sizeof(no_flags), &id);
	if (!err)
		err = intern(&t->labels, "", 0, &id);
	/* Unknown labels have no content either, but must never be found as "none". */
	if (!err)
		err = intern_append(&t->labels, "", 0);
	return err;
}

struct error *tables_init(struct tables *t)
{
	struct error *err;

	*t = (struct tables){ 0 };
	arena_init(&t->arena);
	intern_init(&t->strings, &t->arena);
	intern_init(&t->frames, &t->arena);
	intern_init(&t->stacks, &t->arena);
	intern_init(&t->labels, &t->arena);
	err = reserve_ids(t);
	if (err)
		tables_deinit(t);
	return err;
}

void tables_deinit(struct tables *t)
{
	intern_deinit(&t->strings);
	intern_deinit(&t->frames);
	intern_deinit(&t->stacks);
	intern_deinit(&t->labels);
	arena_deinit(&t->arena);
	free(t->images);
	free(t->scratch);
}

static struct error *scratch_reserve(struct tables *t, size_t words)
{
	uint32_t *grown;

	if (words <= t->scratch_cap)
		return NULL;
	grown = reallocarray(t->scratch, words, sizeof(*grown));
	if (!grown)
		return &err_nomem;
	t->scratch = grown;
	t->scratch_cap = words;
	return NULL;
}

/* ---- putting in ---- */

struct error *profile_string(struct profile *p, const char *s, size_t len, profile_id *ret)
{
	return intern(&p->tables.strings, s, len, ret);
}

static bool frame_is_sound(const struct tables *t, const struct profile_frame *f)
{
	uint32_t n = t->strings.n;

	return f->function < n && f->module < n && f->name < n && f->file < n && f->abs_path < n;
}

struct error *profile_frame(struct profile *p, const struct profile_frame *f, profile_id *ret)
{
	if (!frame_is_sound(&p->tables, f))
		return error_new(ERROR_INTERNAL, "a frame names a string that does not exist");
	return intern(&p->tables.frames, f, sizeof(*f), ret);
}

struct error *profile_stack(struct profile *p, const profile_id *frames, uint32_t n, uint32_t flags,
			    profile_id *ret)
{
	struct tables *t = &p->tables;
	struct error *err;

	if (!n) {
		*ret = PROFILE_STACK_EMPTY;
		return NULL;
	}
	for (uint32_t i = 0; i < n; i++)
		if (frames[i] >= t->frames.n)
			return error_new(ERROR_INTERNAL, "a stack names a frame that does not exist");
	err = scratch_reserve(t, (size_t)n + 1);
	if (err)
		return err;
	t->scratch[0] = flags;
	memcpy(t->scratch + 1, frames, n * sizeof(*frames));
	return intern(&t->stacks, t->scratch, ((size_t)n + 1) * sizeof(*t->scratch), ret);
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
	struct tables *t = &p->tables;
	struct error *err = scratch_reserve(t, (size_t)n * 2);
	struct profile_label *sorted;
	uint32_t kept = 0;

	if (err)
		return err;
	if (!n) {
		*ret = PROFILE_LABELS_NONE;
		return NULL;
	}
	sorted = (struct profile_label *)t->scratch;
	for (uint32_t i = 0; i < n; i++) {
		if (v[i].key >= t->strings.n || v[i].value >= t->strings.n)
			return error_new(ERROR_INTERNAL, "a label names a string that does not exist");
		kept = label_insert(p, sorted, kept, v[i]);
	}
	return intern(&t->labels, sorted, kept * sizeof(*sorted), ret);
}

/* ---- looking up ---- */

const char *profile_string_get(const struct profile *p, profile_id id)
{
	return id < p->tables.strings.n ? p->tables.strings.v[id].data : "";
}

const struct profile_frame *profile_frame_get(const struct profile *p, profile_id id)
{
	static const struct profile_frame none;

	return id < p->tables.frames.n ? p->tables.frames.v[id].data : &none;
}

struct profile_stack profile_stack_get(const struct profile *p, profile_id id)
{
	const struct intern_key *k;
	const uint32_t *words;

	if (id >= p->tables.stacks.n)
		return (struct profile_stack){ 0 };
	k = &p->tables.stacks.v[id];
	words = k->data;
	return (struct profile_stack){ words + 1, k->len / (uint32_t)sizeof(*words) - 1, words[0] };
}

struct profile_labels profile_labels_get(const struct profile *p, profile_id id)
{
	const struct intern_key *k;

	if (id >= p->tables.labels.n)
		return (struct profile_labels){ 0 };
	k = &p->tables.labels.v[id];
	return (struct profile_labels){ k->data, k->len / (uint32_t)sizeof(struct profile_label) };
}

uint32_t profile_string_count(const struct profile *p)
{
	return p->tables.strings.n;
}

uint32_t profile_frame_count(const struct profile *p)
{
	return p->tables.frames.n;
}

uint32_t profile_stack_count(const struct profile *p)
{
	return p->tables.stacks.n;
}

uint32_t profile_labels_count(const struct profile *p)
{
	return p->tables.labels.n;
}
