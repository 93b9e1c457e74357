/*
 * labels.c: the pprof labels behind g.labels.
 *
 * Up to Go 1.23 they are a map[string]string (a table of buckets of eight, with overflow chains,
 * perhaps still growing), from 1.24 a sorted list of pairs. Both are built once and never written
 * again, but the collector may have freed them: everything read is checked against what the header
 * says, every loop has a bound, and what contradicts itself is &err_corrupt. Must not know what
 * labels mean.
 *
 * Upstream: src/runtime/pprof/label.go, src/runtime/map.go (to 1.23).
 */
#include <string.h>

#include "base/map.h"
#include "go/go_impl.h"

enum {
	COUNT_MAX = 1 << 16,		/* no program has that many labels on a goroutine */
	STRING_MAX = 1 << 30,		/* longer is garbage and not a string */
	BUCKETS_MAX = 1 << 12,		/* looked at, overflow ones included */
	BUCKETS_MARKED = 16,		/* the same for a mark, which is made while a thread is held */
	BATCH = 64,			/* strings fetched by one system call */

	/* A bucket of map[string]string; the same in every version that has them. */
	SLOTS = 8,
	BUCKET_KEYS = SLOTS,
	BUCKET_VALUES = BUCKET_KEYS + SLOTS * 16,
	BUCKET_OVERFLOW = BUCKET_VALUES + SLOTS * 16,
	BUCKET_SIZE = BUCKET_OVERFLOW + 8,
	TOPHASH_EVACUATED = 2, TOPHASH_EVACUATED_LAST = 4, TOPHASH_LIVE = 5,
	HMAP_SAME_SIZE_GROW = 8,
};

struct go_string {
	uint64_t ptr, len;
};

/* A pair as the list keeps it, and as we collect it from the map. */
struct pair {
	struct go_string key, value;
};

_Static_assert(sizeof(struct pair) == 32, "read as it stands in memory");

struct pairs {
	uint64_t seen;			/* also those that did not fit */
	uint32_t n;
	struct pair v[GO_LABELS_MAX];
};

/* ---- the list, 1.24+ ---- */

static struct error *read_list(const struct target *t, gaddr_t labels, struct pairs *ret)
{
	struct { uint64_t ptr, len, cap; } slice;
	struct error *err = target_read(t, labels, &slice, sizeof(slice));

	if (err)
		return err;
	if (slice.len > slice.cap || slice.len > COUNT_MAX || (slice.len && !slice.ptr))
		return &err_corrupt;
	ret->seen = slice.len;
	ret->n = slice.len < GO_LABELS_MAX ? (uint32_t)slice.len : GO_LABELS_MAX;
	return ret->n ? target_read(t, slice.ptr, ret->v, ret->n * sizeof(ret->v[0])) : NULL;
}

/* ---- the map, to 1.23 ---- */

struct hmap {
	uint64_t count, buckets, oldbuckets;
	uint32_t flags, log2_buckets;
};

struct map_walk {
	const struct target *t;
	uint32_t budget;		/* buckets that may still be read */
	struct pairs *out;
};

static struct error *read_hmap(const struct go_layout *l, const struct target *t, gaddr_t at,
			       struct hmap *ret)
{
	static const enum go_field ids[] = {
		GO_HMAP_COUNT, GO_HMAP_BUCKETS, GO_HMAP_OLDBUCKETS, GO_HMAP_FLAGS, GO_HMAP_B,
	};
	enum { N = sizeof(ids) / sizeof(ids[0]) };
	uint64_t v[N] = { 0 };
	struct span spans[N];
	struct error *err;

	for (int i = 0; i < N; i++)
		spans[i] = (struct span){ at + (uint64_t)l->f[ids[i]].offset, &v[i],
					  l->f[ids[i]].size < 8 ? l->f[ids[i]].size : 8, 0 };
	err = target_read_v(t, spans, N);
	if (err)
		return err;
	for (int i = 0; i < N; i++)
		if (spans[i].done < spans[i].len)
			return &err_fault;
	*ret = (struct hmap){ v[0], v[1], v[2], (uint32_t)v[3], (uint32_t)v[4] };
	return NULL;
}

static void collect_slots(const uint8_t *bucket, struct pairs *out)
{
	for (int i = 0; i < SLOTS; i++) {
		struct pair p;

		if (bucket[i] < TOPHASH_LIVE)
			continue;
		memcpy(&p.key, bucket + BUCKET_KEYS + i * 16, 16);
		memcpy(&p.value, bucket + BUCKET_VALUES + i * 16, 16);
		if (out->n < GO_LABELS_MAX)
			out->v[out->n++] = p;
		out->seen++;
	}
}

/* One bucket and its overflow chain. The budget ends a chain that bites its own tail. */
static struct error *walk_chain(struct map_walk *w, gaddr_t at, bool old)
{
	uint8_t bucket[BUCKET_SIZE];

	while (at) {
		struct error *err;

		if (w->budget == 0)
			return &err_corrupt;
		w->budget--;
		err = target_read(w->t, at, bucket, sizeof(bucket));
		if (err)
			return err;
		/* Evacuated: the new table has the whole chain. */
		if (old && bucket[0] >= TOPHASH_EVACUATED && bucket[0] <= TOPHASH_EVACUATED_LAST)
			return NULL;
		collect_slots(bucket, w->out);
		memcpy(&at, bucket + BUCKET_OVERFLOW, 8);
	}
	return NULL;
}

static struct error *walk_table(struct map_walk *w, gaddr_t table, uint64_t n, bool old)
{
	for (uint64_t i = 0; i < n; i++) {
		struct error *err = walk_chain(w, table + i * BUCKET_SIZE, old);

		if (err)
			return err;
	}
	return NULL;
}

static struct error *read_map(const struct go_layout *l, const struct target *t, gaddr_t labels,
			      uint32_t budget, struct pairs *ret)
{
	struct map_walk w = { t, budget, ret };
	struct error *err;
	uint64_t map;
	struct hmap h;

	err = target_read_u64(t, labels, &map);
	if (err || !map)
		return err;	/* a nil map is an empty one */
	err = read_hmap(l, t, map, &h);
	if (err)
		return err;
	if (h.count > COUNT_MAX || h.log2_buckets > 12 || (h.count && !h.buckets))
		return &err_corrupt;
	if (h.count == 0)
		return NULL;
	err = walk_table(&w, h.buckets, 1u << h.log2_buckets, false);
	if (err)
		return err;
	if (h.oldbuckets) {
		bool same = h.flags & HMAP_SAME_SIZE_GROW;

		if (!same && h.log2_buckets == 0)
			return &err_corrupt;
		err = walk_table(&w, h.oldbuckets, 1u << (h.log2_buckets - !same), true);
		if (err)
			return err;
	}
	return ret->seen == h.count ? NULL : &err_corrupt;
}

/* ---- strings ---- */

/* Gives pair i its place in the text, or leaves it out. False: no string at all. */
static bool place(const struct pair *p, size_t *used, struct go_labels *ret)
{
	const struct go_string *key = &p->key, *val = &p->value;
	struct go_label *l;

	if (key->len > STRING_MAX || val->len > STRING_MAX || (key->len && !key->ptr) ||
	    (val->len && !val->ptr))
		return false;
	if (key->len > GO_LABEL_BYTES_MAX || val->len > GO_LABEL_BYTES_MAX ||
	    key->len + val->len > sizeof(ret->text) - *used) {
		ret->truncated = true;
		return true;
	}
	l = &ret->v[ret->n++];
	*l = (struct go_label){
		.key = ret->text + *used, .key_len = (uint32_t)key->len,
		.value = ret->text + *used + key->len, .value_len = (uint32_t)val->len,
	};
	*used += key->len + val->len;
	return true;
}

static struct error *fetch(const struct target *t, struct span *v, size_t n)
{
	struct error *err = n ? target_read_v(t, v, n) : NULL;

	if (err)
		return err;
	for (size_t i = 0; i < n; i++)
		if (v[i].done < v[i].len)
			return &err_fault;
	return NULL;
}

static struct error *read_strings(const struct target *t, const struct pairs *pairs,
				  struct go_labels *ret)
{
	struct span spans[BATCH];
	size_t n = 0, used = 0;

	for (uint32_t i = 0; i < pairs->n; i++) {
		const struct pair *p = &pairs->v[i];
		uint32_t had = ret->n;
		struct error *err;

		if (!place(p, &used, ret))
			return &err_corrupt;
		if (ret->n == had)
			continue;
		spans[n++] = (struct span){ p->key.ptr, ret->text + (ret->v[had].key - ret->text),
					    p->key.len, 0 };
		spans[n++] = (struct span){ p->value.ptr, ret->text + (ret->v[had].value - ret->text),
					    p->value.len, 0 };
		if (n < BATCH)
			continue;
		err = fetch(t, spans, n);
		if (err)
			return err;
		n = 0;
	}
	return fetch(t, spans, n);
}

/* ---- order ---- */

static int compare(const struct go_label *a, const struct go_label *b)
{
	int c = memcmp(a->key, b->key, a->key_len < b->key_len ? a->key_len : b->key_len);

	return c ? c : (a->key_len > b->key_len) - (a->key_len < b->key_len);
}

/* Insertion: nearly always sorted already, few, and the order of equal keys counts: the last wins. */
static void sort_unique(struct go_labels *l)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		struct go_label x = l->v[i];
		uint32_t at = n;

		while (at > 0 && compare(&l->v[at - 1], &x) > 0)
			at--;
		if (at > 0 && compare(&l->v[at - 1], &x) == 0) {
			l->v[at - 1] = x;
			continue;
		}
		memmove(&l->v[at + 1], &l->v[at], (n - at) * sizeof(x));
		l->v[at] = x;
		n++;
	}
	l->n = n;
}

/* ---- what is asked ---- */

static struct error *read_pairs(const struct go_layout *l, const struct target *t, gaddr_t labels,
				uint32_t budget, struct pairs *ret)
{
	if (go_has(l, GO_HMAP_BUCKETS))
		return read_map(l, t, labels, budget, ret);
	return read_list(t, labels, ret);
}

struct error *go_labels_mark(const struct go_layout *l, const struct target *t, gaddr_t labels,
			     uint64_t *ret)
{
	struct pairs pairs = { .seen = 0 };
	struct error *err = read_pairs(l, t, labels, BUCKETS_MARKED, &pairs);

	if (!err)
		*ret = hash_bytes(pairs.v, pairs.n * sizeof(pairs.v[0])) ^ pairs.seen;
	return err;
}

struct error *go_labels_read(struct go_runtime *rt, const struct target *t, gaddr_t labels,
			     struct go_labels *ret)
{
	struct pairs pairs = { .seen = 0 };
	struct error *err;

	if (!labels) {
		ret->n = 0;
		ret->truncated = false;
		return NULL;
	}
	err = read_pairs(&rt->layout, t, labels, BUCKETS_MAX, &pairs);
	if (err)
		return err;
	ret->n = 0;
	ret->truncated = pairs.seen > pairs.n;
	err = read_strings(t, &pairs, ret);
	if (err) {
		ret->n = 0;
		return err;
	}
	sort_unique(ret);
	return NULL;
}
