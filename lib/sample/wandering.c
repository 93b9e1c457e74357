/*
 * wandering.c: ms that go from thread to thread. Nearly all stay with one for life. Up to Go 1.20 a
 * thread that C made borrows one of a few extra ms for each call into Go, and gives it back: what a
 * walk over runtime.allm says of those is out of date before a thread is held. So they are remembered,
 * and asked in the hold whose they are then.
 *
 * The sampler's thread notes them, hooks in the tracer's thread ask: each entry is one word, and
 * whoever takes it asks the m itself (its procid). Up to Go 1.21 an m that was given back keeps the id
 * of its last thread, so several may name one thread: hold.c tells which of them it still has.
 *
 * Upstream: src/runtime/proc.go (needm, dropm, getExtraM), os_linux.go (minit).
 */
#include "sample/sample_impl.h"

void wandering_init(struct wandering *w)
{
	*w = (struct wandering){ .n = 0 };
	map64_init(&w->procids);
}

void wandering_deinit(struct wandering *w)
{
	map64_deinit(&w->procids);
}

static bool is_noted(const struct wandering *w, gaddr_t m)
{
	for (size_t i = 0; i < WANDERING_MAX; i++)
		if (atomic_load_explicit(&w->v[i], memory_order_relaxed) == m)
			return true;
	return false;
}

void wandering_add(struct wandering *w, gaddr_t m)
{
	/* With more of them than there is room for, the newest are as good as any. */
	if (!is_noted(w, m))
		atomic_store_explicit(&w->v[w->n++ % WANDERING_MAX], m, memory_order_relaxed);
}

bool wandering_any(const struct wandering *w)
{
	return atomic_load_explicit(&w->v[0], memory_order_relaxed) != 0;
}

struct error *wandering_note(struct wandering *w, gaddr_t m, uint64_t procid)
{
	uint32_t before = map64_get(&w->procids, m);

	if (before == procid)
		return NULL;
	if (before != MAP_NONE)
		wandering_add(w, m);
	return map64_put(&w->procids, m, (uint32_t)procid);
}

size_t wandering_find(const struct wandering *w, const struct target *t, const struct go_layout *l,
		      uint64_t procid, gaddr_t ret[WANDERING_MAX])
{
	const struct go_field_at *at = &l->f[GO_M_PROCID];
	struct span v[WANDERING_MAX];
	gaddr_t m[WANDERING_MAX];
	uint64_t id[WANDERING_MAX];
	size_t n = 0, found = 0;

	for (size_t i = 0; i < WANDERING_MAX; i++) {
		m[n] = atomic_load_explicit(&w->v[i], memory_order_relaxed);
		if (!m[n])
			continue;
		v[n] = (struct span){ .addr = m[n] + (gaddr_t)at->offset, .buf = &id[n], .len = sizeof(id[n]) };
		n++;
	}
	if (!n || at->size != sizeof(id[0]) || target_read_v(t, v, n))
		return 0;
	for (size_t i = 0; i < n; i++)
		if (v[i].done == v[i].len && id[i] == procid)
			ret[found++] = m[i];
	return found;
}
