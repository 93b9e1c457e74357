/*
 * go_labels_world.h: label sets in handmade memory, as the runtime lays them out. For the tests of
 * go_labels_read and go_labels_mark.
 */
#ifndef GOPROF_TEST_GO_LABELS_WORLD_H
#define GOPROF_TEST_GO_LABELS_WORLD_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "fake/target_fake.h"
#include "go/go_impl.h"

enum {
	LABELS = 0x1000, HMAP = 0x2000, ITEMS = 0x10000, TABLE = 0x100000, OLD = 0x200000,
	OVERFLOW = 0x300000, TEXT = 0x400000, TEXT_SIZE = 0x40000, BUCKET = 272,
};

/* A target, a runtime with a row's layout, and a place where strings are put. */
struct world {
	struct target *t;
	struct go_runtime *rt;
	uint64_t text_end;
};

static inline void setup_minor(struct world *w, int minor)
{
	assert_null(target_fake_create(&w->t));
	w->rt = calloc(1, sizeof(*w->rt));
	assert_non_null(w->rt);
	assert_true(go_layout_row(minor, &w->rt->layout));
	w->rt->has_layout = true;
	target_fake_add(w->t, TEXT, NULL, TEXT_SIZE);
	w->text_end = TEXT;
}

static inline void teardown(struct world *w)
{
	target_close(w->t);
	free(w->rt);
}

static inline void put_string(struct world *w, uint64_t ret[2], const char *s)
{
	ret[0] = w->text_end;
	ret[1] = strlen(s);
	assert_true(w->text_end + ret[1] < TEXT + TEXT_SIZE);
	if (ret[1])
		target_fake_poke(w->t, w->text_end, s, ret[1]);
	w->text_end += ret[1];
}

static inline struct go_labels *read_labels(struct world *w)
{
	struct go_labels *l = calloc(1, sizeof(*l));
	struct error *err = go_labels_read(w->rt, w->t, LABELS, l);

	assert_null(err);
	return l;
}

static inline void expect_error(struct world *w, struct error *want)
{
	_cleanup_free_ struct go_labels *l = calloc(1, sizeof(*l));

	assert_ptr_equal(go_labels_read(w->rt, w->t, LABELS, l), want);
	assert_int_equal(l->n, 0);
}

static inline void expect_label(const struct go_labels *l, uint32_t i, const char *key, const char *value)
{
	assert_true(i < l->n);
	assert_int_equal(l->v[i].key_len, strlen(key));
	assert_memory_equal(l->v[i].key, key, strlen(key));
	assert_int_equal(l->v[i].value_len, strlen(value));
	assert_memory_equal(l->v[i].value, value, strlen(value));
}

/* ---- the list ---- */

static inline void put_slice(struct world *w, uint64_t ptr, uint64_t len, uint64_t cap)
{
	target_fake_add(w->t, LABELS, (uint64_t[]){ ptr, len, cap }, 24);
}

static inline void put_list(struct world *w, const char *const (*kv)[2], size_t n)
{
	uint64_t (*items)[4] = calloc(n + 1, sizeof(*items));

	assert_non_null(items);
	for (size_t i = 0; i < n; i++) {
		put_string(w, items[i], kv[i][0]);
		put_string(w, items[i] + 2, kv[i][1]);
	}
	target_fake_add(w->t, ITEMS, items, n * 32);
	put_slice(w, ITEMS, n, n);
	free(items);
}

static inline void put_hmap(struct world *w, uint64_t count, uint8_t b, uint64_t buckets, uint64_t old)
{
	uint8_t h[48] = { 0 };

	memcpy(h, &count, 8);
	h[9] = b;
	memcpy(h + 16, &buckets, 8);
	memcpy(h + 24, &old, 8);
	target_fake_add(w->t, HMAP, h, sizeof(h));
	target_fake_add(w->t, LABELS, (uint64_t[]){ HMAP }, 8);
}

static inline void put_slot(struct world *w, gaddr_t bucket, int slot, uint8_t tophash, const char *key,
		     const char *value)
{
	uint64_t s[2];

	target_fake_poke(w->t, bucket + slot, &tophash, 1);
	put_string(w, s, key);
	target_fake_poke(w->t, bucket + 8 + slot * 16, s, 16);
	put_string(w, s, value);
	target_fake_poke(w->t, bucket + 136 + slot * 16, s, 16);
}

#endif
