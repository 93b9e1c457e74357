/*
 * check_m.c: do the things on the list of ms look like the runtime's threads?
 *
 * An m and its g0 point to each other, what it runs is a g and what it holds one of allp, the list
 * ends at m 0, and ms name threads of the process. Members that are nearly always 0 (vdsoSP) cannot
 * be proved this way: for them the row of the version must do.
 *
 * Upstream: src/runtime/proc.go (mcommoninit, mexit, mstart1, procresize), runtime2.go (type m).
 */
#include "go/check_impl.h"

enum { MS_MAX = 1 << 16 };

static bool is_thread(const struct look *k, uint64_t procid)
{
	return procid && procid <= INT32_MAX &&
	       target_tid_from_inner(k->rt->process->target, (pid_t)procid) > 0;
}

/* Does the word at `at` hold `value`? */
static bool links(const struct look *k, gaddr_t at, gaddr_t value)
{
	uint64_t v;
	struct error *err = target_read_u64(k->t, at, &v);

	error_free(err);
	return !err && v == value;
}

/* What the list of ms said about threads. */
struct census {
	uint64_t with_p, strange;	/* ms that hold a P, and those whose thread is not there */
	bool any;			/* some m is a thread of the process */
	struct m_look last;
};

/*
 * Few claims hold for all ms: extra ones (of C threads) may name threads that are gone, and even
 * m0's thread can end by a raw exit(2). But an m that holds a P is running or about to, and the
 * end of the list is m0, whose thread exists or existed for as long as the process.
 */
static void count_m(struct look *k, const struct m_look *m, struct census *c)
{
	c->last = *m;
	if (!m->procid || (!m->p && c->any))
		return;
	if (is_thread(k, m->procid))
		c->any = true;
	else
		c->strange += m->p != 0;
	c->with_p += m->p != 0;
}

/* Links of an m that hold at any instant: what they lead to never moves and is never freed. */
static bool is_g(const struct look *k, gaddr_t g)
{
	return links(k, g + (uint64_t)k->rt->layout.f[GO_G_SCHED_G].offset, g);
}

static bool is_p(const struct look *k, gaddr_t p)
{
	gaddr_t allp = k->rt->globals[GO_ALLP].addr;
	uint64_t array;
	uint32_t id;
	struct error *err;

	if (!allp || !go_has(&k->rt->layout, GO_P_ID))
		return true;	/* cannot be asked */
	err = target_read_u32(k->t, p + (uint64_t)k->rt->layout.f[GO_P_ID].offset, &id);
	if (!err)
		err = target_read_u64(k->t, allp, &array);
	error_free(err);
	return !err && id <= INT16_MAX && links(k, array + 8 * (uint64_t)id, p);
}

static enum verdict check_m(struct look *k, const struct m_look *m)
{
	const char *what = NULL;

	if (!m->procid)
		return FITS;	/* being made: it is on the list before it has a g0 */
	if (!m->g0 || !links(k, m->g0 + (uint64_t)k->rt->layout.f[GO_G_M].offset, m->m))
		what = "has a g0 that does not point back to it";
	else if (m->curg && !is_g(k, m->curg))
		what = "runs something that is no g";
	else if (m->p && !is_p(k, m->p))
		what = "holds something that is no p";
	return what ? misfit(k, "m %lld %s", (long long)m->id, what) : FITS;
}

static enum verdict walk_ms(struct look *k, struct census *c)
{
	const struct go_layout *l = &k->rt->layout;
	uint64_t at = k->allm;
	size_t len = m_span(l);
	uint8_t bytes[GO_SPANS_MAX];
	struct m_look m;

	if (len + g_span(l) > sizeof(bytes))
		return misfit(k, "an m is longer than any known one");
	for (k->n_ms = 0; at; at = m.alllink, k->n_ms++) {
		struct error *err = k->n_ms < MS_MAX ? target_read(k->t, at, bytes, len) : &err_corrupt;

		if (err) {
			error_free(err);
			return misfit(k, "the list of ms (runtime.allm) breaks off after %llu",
				      (unsigned long long)k->n_ms);
		}
		m_parse(l, at, bytes, &m);
		if (check_m(k, &m) != FITS)
			return MISFIT;
		count_m(k, &m, c);
	}
	return FITS;
}

enum verdict check_ms(struct look *k)
{
	struct census c = { 0 };
	enum verdict v = walk_ms(k, &c);

	if (v != FITS)
		return v;
	if (c.last.id != 0)
		return misfit(k, "the list of ms ends at m %lld and not at m 0", (long long)c.last.id);
	if (c.last.procid == 0 || k->n_ms < 2)
		return k->allglen <= CHECK_STARTING_GS ? NOT_UP
						 : misfit(k, "m 0 has no thread or is alone");
	if (!c.any || c.strange * 2 > c.with_p)
		return misfit(k, "m.procid is not a thread of the process (m0: %llu)",
			      (unsigned long long)c.last.procid);
	return FITS;
}
