/*
 * births.c: how many goroutines were made and never seen, because they ended before a tick came by. The
 * runtime hands out numbers to its Ps in batches, so what it has counted may be a batch per P more than
 * there are; and where not all are looked at in one tick, each struct may hold one whose turn has not
 * come. That much is taken off, and what is told is "at least".
 *
 * Upstream: src/runtime/proc.go (newproc1), runtime2.go (schedt.goidgen, p.goidcache).
 */
#include "sample/sampler_impl.h"

enum { BATCH = 16 };	/* _GoidCacheBatch, since Go 1.1 */

static bool read_counter(const struct sampler *s, uint64_t *ret)
{
	const struct reader *r = &s->reader;
	gaddr_t sched = go_runtime_globals(r->rt)[GO_SCHED].addr;
	struct error *err;

	if (!(go_runtime_caps(r->rt) & GO_CAP_SCHED))
		return false;
	err = target_read_u64(r->target, sched + (gaddr_t)r->layout->f[GO_SCHED_GOIDGEN].offset, ret);
	error_free(err);
	return !err;
}

/* 0: not known. A P that is taken away keeps its batch. */
static uint64_t ps(const struct reader *r)
{
	gaddr_t at = go_runtime_globals(r->rt)[GO_GOMAXPROCS].addr;
	uint32_t n = 0;
	struct error *err = at ? target_read_u32(r->target, at, &n) : &err_notfound;

	error_free(err);
	return !err && n <= UINT16_MAX ? n : 0;
}

void births_begin(struct sampler *s)
{
	struct births *b = &s->births;

	*b = (struct births){ .seen = 0 };
	b->ps = ps(&s->reader);
	b->known = b->ps && read_counter(s, &b->from);
	b->now = b->from;
}

void births_update(struct sampler *s)
{
	struct births *b = &s->births;
	uint64_t now, n;

	if (!b->known || !read_counter(s, &now))
		return;
	if (now > b->now)
		b->now = now;
	n = ps(&s->reader);
	if (n > b->ps)
		b->ps = n;
}

void births_seen(struct sampler *s, uint64_t goid)
{
	s->births.seen += s->births.known && goid > s->births.from;
}

void births_settle(struct sampler *s)
{
	struct births *b = &s->births;
	uint64_t made = b->now - b->from, least = b->seen + BATCH * b->ps + (s->rotates ? s->gs.n : 0);
	uint64_t never = b->known && made > least ? made - least : 0;

	if (never <= b->told)
		return;
	profile_health_add(s->profile, HEALTH_G_NEVER_SEEN, never - b->told);
	b->told = never;
}
