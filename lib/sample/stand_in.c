/*
 * stand_in.c: for runtimes that do not count parks (before Go 1.17). There two equal headers may have a run
 * between them: the goroutine waits where it waited, but was called by others. So the first bytes of its stack
 * stand in for the counter. They hold the return addresses next to where it waits, nobody writes to
 * them while it does not run, and of most that wait they are all there is: then equal bytes are an equal stack.
 *
 * They are folded into the fingerprint, so that nothing more is kept of a goroutine than in other programs. Those
 * whose stack has to tell are gathered while headers are read; many are read by one call. That is later than
 * their headers, and one may have run meanwhile. If its bytes are as they were it is where it was; if not, it
 * is read as any that has changed.
 *
 * What lies behind these bytes alone may change unseen: audits find that, as they find what a counter of eight
 * bits misses.
 */
#include <stdlib.h>

#include "sample/sampler_impl.h"

enum {
	FIRST_BYTES = 1024,	/* of a stack: most that wait use less, and it costs hardly more than 64 */
	BATCH = 64,
};

struct asked {
	struct g_slot *slot;
	struct g_look look;
	gaddr_t sp;
	size_t len;
};

struct stand_in {
	uint32_t n;
	struct asked asked[BATCH];
	uint8_t bytes[BATCH][FIRST_BYTES];
};

struct error *stand_in_create(const struct reader *r, struct stand_in **ret)
{
	*ret = NULL;
	if (!r->goroutines || parks_have_counter(r))
		return NULL;
	*ret = calloc(1, sizeof(**ret));
	return *ret ? NULL : &err_nomem;
}

void stand_in_destroy(struct stand_in *si)
{
	free(si);
}

uint64_t stand_in_print(const struct g_look *look, const uint8_t *stack, size_t len)
{
	return look->fingerprint ^ hash_bytes(stack, len < FIRST_BYTES ? len : FIRST_BYTES);
}

struct error *stand_in_settle(struct sampler *s)
{
	struct stand_in *si = s->stand_in;
	struct span v[BATCH];
	struct error *err;

	if (!si || !si->n)
		return NULL;
	for (uint32_t i = 0; i < si->n; i++)
		v[i] = (struct span){ .addr = si->asked[i].sp, .buf = si->bytes[i], .len = si->asked[i].len };
	err = target_read_v(s->reader.target, v, si->n);
	for (uint32_t i = 0; i < si->n && !err; i++) {
		const struct asked *a = &si->asked[i];
		bool whole = v[i].done == a->len;

		err = see_print(s, a->slot, &a->look, whole ? stand_in_print(&a->look, si->bytes[i], a->len) : 0);
	}
	si->n = 0;
	return err;
}

struct error *stand_in_ask(struct sampler *s, struct g_slot *slot, const struct g_look *look)
{
	struct stand_in *si = s->stand_in;
	struct unwind_start start;
	uint64_t used;

	if (!is_parked(look, &start))
		return see_print(s, slot, look, 0);
	used = start.at.hi - start.at.sp;
	si->asked[si->n++] = (struct asked){ .slot = slot, .look = *look, .sp = start.at.sp,
					     .len = used < FIRST_BYTES ? used : FIRST_BYTES };
	return si->n == BATCH ? stand_in_settle(s) : NULL;
}

void stand_in_forget(struct sampler *s)
{
	if (s->stand_in)
		s->stand_in->n = 0;
}
