/*
 * tables.c: strings, frames, stacks, label sets, origins and looks of one epoch, each held once. Equal content
 * has the equal id, so everything later compares and counts by number. Nothing is ever removed within an
 * epoch, and nothing moves: windows that are still being written look things up here, in another thread.
 * What was in use when an epoch ended is carried into the next one (epoch.c); the rest goes with it.
 *
 * All six are one kind of table over byte strings; a frame is its eight numbers, a stack its flags
 * and frame ids, a label set its pairs ordered by the text of the key.
 */
#include <stdlib.h>
#include <string.h>

#include "profile/profile_impl.h"

/* ---- one table ---- */

/* Part 0 holds rows [0, 64), part k rows [64 << (k - 1), 64 << k). */
static uint32_t part_of(uint32_t i, uint32_t *first)
{
	uint32_t k = i < TABLE_PART_FIRST ? 0 : 32 - (uint32_t)__builtin_clz(i / TABLE_PART_FIRST);

	*first = k ? (uint32_t)TABLE_PART_FIRST << (k - 1) : 0;
	return k;
}

const struct table_row *table_row(const struct table *t, uint32_t i)
{
	uint32_t first, k = part_of(i, &first);

	return &t->parts[k][i - first];
}

static const void *key_of(const void *ctx, uint32_t value, size_t *len)
{
	const struct table_row *row = table_row(ctx, value);

	*len = row->len;
	return row->data;
}

static struct error *reserve_row(struct epoch *e, struct table *t)
{
	uint32_t first, k = part_of(t->n, &first);
	size_t bytes = (k ? (size_t)first : TABLE_PART_FIRST) * sizeof(**t->parts);

	if (t->n == UINT32_MAX)
		return &err_nomem;
	if (t->parts[k])
		return NULL;
	t->parts[k] = malloc(bytes);
	if (!t->parts[k])
		return &err_nomem;
	e->part_bytes += bytes;
	return NULL;
}

static struct error *append(struct epoch *e, enum table_id table, const void *data, size_t len)
{
	struct table *t = &e->tables.v[table];
	struct error *err = reserve_row(e, t);
	uint32_t first, k = part_of(t->n, &first);
	char *copy;

	if (err)
		return err;
	copy = arena_alloc(&e->arena, len + 1);
	if (!copy)
		return &err_nomem;
	if (len)
		memcpy(copy, data, len);
	copy[len] = '\0';
	t->parts[k][t->n - first] = (struct table_row){ copy, (uint32_t)len };
	t->n++;
	return NULL;
}

struct error *epoch_intern(struct epoch *e, enum table_id table, const void *data, size_t len, profile_id *ret)
{
	struct table *t = &e->tables.v[table];
	uint32_t id;
	struct error *err;

	if (len >= UINT32_MAX)
		return &err_corrupt;
	id = mapb_get(&e->maps[table], data, len);
	if (id == MAP_NONE) {
		id = t->n;
		err = append(e, table, data, len);
		if (err)
			return err;
		err = mapb_put(&e->maps[table], table_row(t, id)->data, len, id);
		if (err) {
			t->n--;
			return err;
		}
	}
	*ret = id;
	return NULL;
}

/* ---- all of them ---- */

static struct error *reserve_ids(struct epoch *e)
{
	const uint32_t no_flags = 0;
	profile_id id;
	struct error *err = epoch_intern(e, TABLE_STRINGS, "", 0, &id);

	if (!err)
		err = epoch_intern(e, TABLE_STACKS, &no_flags, sizeof(no_flags), &id);
	if (!err)
		err = epoch_intern(e, TABLE_LABELS, "", 0, &id);
	/* Unknown labels have no content either, but must never be found as "none". */
	if (!err)
		err = append(e, TABLE_LABELS, "", 0);
	return err;
}

static void epoch_free(struct epoch *e)
{
	for (uint32_t i = 0; i < TABLE_COUNT; i++) {
		mapb_deinit(&e->maps[i]);
		for (uint32_t k = 0; k < TABLE_PARTS; k++)
			free(e->tables.v[i].parts[k]);
	}
	arena_deinit(&e->arena);
	free(e->scratch);
	free(e);
}

struct error *epoch_create(uint32_t number, struct epoch **ret)
{
	struct epoch *e = calloc(1, sizeof(*e));
	struct error *err;

	if (!e)
		return &err_nomem;
	atomic_init(&e->refs, 1);
	e->number = number;
	arena_init(&e->arena);
	for (uint32_t i = 0; i < TABLE_COUNT; i++)
		mapb_init(&e->maps[i], key_of, &e->tables.v[i]);
	err = reserve_ids(e);
	if (err) {
		epoch_free(e);
		return err;
	}
	*ret = e;
	return NULL;
}

struct epoch *epoch_ref(struct epoch *e)
{
	atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
	return e;
}

void epoch_unref(struct epoch *e)
{
	if (e && atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) == 1)
		epoch_free(e);
}

size_t epoch_bytes(const struct epoch *e)
{
	size_t sum = sizeof(*e) + e->arena.used + e->part_bytes;

	for (uint32_t i = 0; i < TABLE_COUNT; i++)
		sum += mapb_bytes(&e->maps[i]);
	return sum;
}

/* ---- meta ---- */

struct meta_string {
	size_t offset;
};

#define META(field) { offsetof(struct profile_meta, field) }
static const struct meta_string meta_strings[] = {
	META(program), META(exe), META(command), META(go_version), META(main_module),
	META(main_path), META(release), META(environment), META(server_name), META(os_name),
	META(os_version), META(arch), META(goprof_version), META(looks), META(restricted),
};
#undef META

struct error *epoch_copy_meta(struct epoch *e, const struct profile_meta *meta, struct profile_meta *ret)
{
	struct profile_meta copy = *meta;

	for (size_t i = 0; i < sizeof(meta_strings) / sizeof(meta_strings[0]); i++) {
		const char **field = (const char **)((char *)&copy + meta_strings[i].offset);

		if (!*field)
			continue;
		/* The old ones stay: a window that is being written may still read them. */
		*field = arena_strndup(&e->arena, *field, strlen(*field));
		if (!*field)
			return &err_nomem;
	}
	*ret = copy;
	return NULL;
}
