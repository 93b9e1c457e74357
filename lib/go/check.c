/*
 * check.c: does the layout row, and do the addresses of the globals, fit this very process?
 *
 * A patch release may move a member, a rule may have found another variable. So before anything is
 * believed the process is asked for what must be so in every Go program, whatever it does:
 *	- allgs[0] is the g that was made for the main goroutine: goid 1, starting in runtime.main;
 *	- a g says that it is itself (g.sched.g), its status exists, its stack is one, its goid is its
 *	  own, and it starts at the first byte of a Go function;
 *	- an m and its g0 point to each other, its curg is a g and its p is one of allp, the list of
 *	  ms ends at m 0, and ms name threads of the process.
 * The process runs on meanwhile: a g that is just being made breaks rules for a moment. Therefore
 * few gs may be odd, and a look that fails is repeated before it counts.
 *
 * Upstream: src/runtime/proc.go (newproc1, allgadd, gdestroy, mcommoninit, mexit, oneNewExtraM).
 */
#include <stdio.h>
#include <string.h>

#include "go/go_impl.h"

enum {
	ATTEMPTS = 4,
	GS = 64,		/* looked at, from the front of allgs */
	GS_MAX = 1 << 28,	/* more is no length */
	/*
	 * m0 gets its thread's number when it begins to schedule, then runtime.main makes sysmon's m
	 * before anything else. Until then there are the main goroutine and, with cgo, an extra one.
	 */
	STARTING_GS = 2,
	MS_MAX = 1 << 16,
	G_BYTES = 1024, M_BYTES = 4096,
};

/* What one look found. A look that fails leaves its reason in `why`. */
struct look {
	struct go_runtime *rt;
	const struct target *t;
	uint64_t allglen, allgptr, allm;
	size_t n_gs;
	uint64_t gs[GS];
	struct g_look v[GS];
	uint64_t self[GS];	/* g.sched.g */
	uint64_t max_goid, n_ms;
	char why[160];
};

enum verdict { FITS, NOT_UP, MISFIT };

#define misfit(k, ...) (snprintf((k)->why, sizeof((k)->why), __VA_ARGS__), MISFIT)

/* ---- goroutines ---- */

/* The length before the array: the runtime writes them the other way round. */
static enum verdict read_lists(struct look *k)
{
	const struct go_global_at *at = k->rt->globals;
	struct span v[] = {
		{ at[GO_ALLGLEN].addr, &k->allglen, 8, 0 },
		{ at[GO_ALLGPTR].addr, &k->allgptr, 8, 0 },
		{ at[GO_ALLM].addr, &k->allm, 8, 0 },
	};
	struct error *err = target_read_v(k->t, v, 3);

	if (err || v[0].done < 8 || v[1].done < 8 || v[2].done < 8) {
		error_free(err);
		return misfit(k, "the runtime's variables cannot be read");
	}
	if (!k->allglen || !k->allm || !k->allgptr)
		return NOT_UP;
	if (k->allglen > GS_MAX)
		return misfit(k, "runtime.allglen is %llu", (unsigned long long)k->allglen);
	k->n_gs = k->allglen < GS ? k->allglen : GS;
	err = target_read(k->t, k->allgptr, k->gs, k->n_gs * 8);
	if (err) {
		error_free(err);
		return misfit(k, "runtime.allgs does not point to readable memory");
	}
	return FITS;
}

static enum verdict read_gs(struct look *k)
{
	const struct go_layout *l = &k->rt->layout;
	size_t at_self = (size_t)l->f[GO_G_SCHED_G].offset, len = g_span(l);
	uint8_t bytes[G_BYTES];

	if (len < at_self + 8)
		len = at_self + 8;
	if (len > sizeof(bytes))
		return misfit(k, "a g is longer than any known one");
	for (size_t i = 0; i < k->n_gs; i++) {
		struct error *err = target_read(k->t, k->gs[i], bytes, len);

		if (err) {
			error_free(err);
			return misfit(k, "runtime.allgs[%zu] does not point to a readable g", i);
		}
		g_parse(l, k->gs[i], bytes, &k->v[i]);
		memcpy(&k->self[i], bytes + at_self, 8);
	}
	return FITS;
}

static bool is_dead(const struct g_look *g)
{
	return g->status == G_DEAD || g->status == G_IDLE || g->status == G_DEADEXTRA;
}

static bool starts_function(struct go_runtime *rt, gaddr_t pc)
{
	struct go_func f;

	return go_func_find(rt, pc, &f) && f.entry == pc;
}

static bool is_parked_outside_stack(const struct g_look *g)
{
	bool parked = (g->status == G_WAITING || g->status == G_PREEMPTED) && !g->scan;

	/* A g that waits while its m works for it on g0 has no sp of its own: sched.sp is 0. */
	return parked && g->sched_sp && (g->sched_sp < g->stack_lo || g->sched_sp > g->stack_hi);
}

static bool goid_is_taken(const struct look *k, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (k->v[j].goid == k->v[i].goid)
			return true;
	return false;
}

/* What is odd about a g, or NULL. Dead ones keep old values, so little can be asked of them. */
static const char *odd(const struct look *k, size_t i)
{
	const struct g_look *g = &k->v[i];

	if (strcmp(g_status_name(g->status), "???") == 0)
		return "has a status that does not exist";
	if (is_dead(g) && g->goid == 0)
		return NULL;	/* being made: nothing else is set yet */
	if (k->self[i] != k->gs[i])
		return "does not point to itself (g.sched.g)";
	if (g->goid == 0 || g->goid >> 56 || goid_is_taken(k, i))
		return "has no goid of its own";
	if (is_dead(g))
		return NULL;
	if (g->stack_lo >= g->stack_hi || g->stack_hi - g->stack_lo > 1ull << 32)
		return "has no stack";
	if (is_parked_outside_stack(g))
		return "is parked outside its stack";
	/* Goroutines of threads that C made (extra ms) have none. */
	if (g->startpc && !starts_function(k->rt, g->startpc))
		return "does not start at a Go function";
	return NULL;
}

/*
 * goid 1 proves a layout all by itself. It may be gone though: when the main goroutine has called
 * Goexit its g is dead (and still says goid 1 and runtime.main), until another goroutine gets that
 * g. Then the g must at least start somewhere in Go, as all others must.
 */
static enum verdict check_main(struct look *k)
{
	const struct g_look *g = &k->v[0];
	struct go_func f;

	if (g->goid == 0 && is_dead(g))
		return k->allglen <= STARTING_GS ? NOT_UP : misfit(k, "the first goroutine has no goid");
	if (!go_func_find(k->rt, g->startpc, &f) || f.entry != g->startpc)
		return misfit(k, "the first goroutine does not start at a Go function");
	if (g->goid == 1 && strcmp(go_func_name(k->rt, &f), "runtime.main") != 0)
		return misfit(k, "goroutine 1 does not start in runtime.main");
	return FITS;
}

static enum verdict check_gs(struct look *k)
{
	enum verdict v = check_main(k);
	size_t n_odd = 0;

	if (v != FITS)
		return v;
	for (size_t i = 0; i < k->n_gs; i++) {
		const char *what = odd(k, i);

		if (k->v[i].goid > k->max_goid)
			k->max_goid = k->v[i].goid;
		if (!what)
			continue;
		n_odd++;
		(void)misfit(k, "goroutine %llu %s", (unsigned long long)k->v[i].goid, what);
	}
	return n_odd * 8 > k->n_gs ? MISFIT : FITS;
}

/* ---- threads ---- */

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
	uint8_t bytes[M_BYTES];
	struct m_look m;

	if (len > sizeof(bytes))
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

static enum verdict check_ms(struct look *k)
{
	struct census c = { 0 };
	enum verdict v = walk_ms(k, &c);

	if (v != FITS)
		return v;
	if (c.last.id != 0)
		return misfit(k, "the list of ms ends at m %lld and not at m 0", (long long)c.last.id);
	if (c.last.procid == 0 || k->n_ms < 2)
		return k->allglen <= STARTING_GS ? NOT_UP
						 : misfit(k, "m 0 has no thread or is alone");
	if (!c.any || c.strange * 2 > c.with_p)
		return misfit(k, "m.procid is not a thread of the process (m0: %llu)",
			      (unsigned long long)c.last.procid);
	return FITS;
}

/* ---- what is known now ---- */

static bool sched_u64(const struct look *k, enum go_field f, uint64_t *ret)
{
	gaddr_t sched = k->rt->globals[GO_SCHED].addr;
	struct error *err;

	if (!sched || !go_has(&k->rt->layout, f))
		return false;
	err = target_read_u64(k->t, sched + (uint64_t)k->rt->layout.f[f].offset, ret);
	error_free(err);
	return !err;
}

/* The counters of schedt must agree with what was counted; a few may have come or gone since. */
static bool sched_fits(const struct look *k)
{
	enum { SLACK = 32 };
	uint64_t goidgen, mnext, freed;

	if (!sched_u64(k, GO_SCHED_GOIDGEN, &goidgen) || !sched_u64(k, GO_SCHED_MNEXT, &mnext) ||
	    !sched_u64(k, GO_SCHED_NMFREED, &freed))
		return false;
	return goidgen >= k->max_goid && goidgen >> 56 == 0 && freed <= mnext &&
	       mnext - freed + SLACK >= k->n_ms && mnext - freed <= k->n_ms + SLACK;
}

static bool has_labels(const struct go_runtime *rt)
{
	static const enum go_field map[] = { GO_HMAP_COUNT, GO_HMAP_FLAGS, GO_HMAP_B, GO_HMAP_BUCKETS,
					     GO_HMAP_OLDBUCKETS };
	size_t n = 0;

	for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++)
		n += go_has(&rt->layout, map[i]);
	return go_has(&rt->layout, GO_G_LABELS) && (n == 0 || n == sizeof(map) / sizeof(map[0]));
}

/* From 1.26 entersyscall changes the status without casgstatus, which counts. */
enum { FIRST_WITH_UNCOUNTED_SYSCALLS = 26 };

static uint32_t caps_of(const struct look *k)
{
	struct go_runtime *rt = k->rt;
	bool counts = go_has(&rt->layout, GO_G_TRACKINGSEQ);
	uint32_t caps = GO_CAP_PCLNTAB | GO_CAP_G_LAYOUT | GO_CAP_ALLGS | GO_CAP_ALLM;

	if (has_labels(rt))
		caps |= GO_CAP_LABELS;
	if (go_wait_reason(rt, 1))
		caps |= GO_CAP_WAITREASON_NAMES;
	if (counts)
		caps |= GO_CAP_TRACKINGSEQ;
	if (counts && rt->build.minor < FIRST_WITH_UNCOUNTED_SYSCALLS)
		caps |= GO_CAP_SEQ_COUNTS_SYSCALLS;
	if (go_has(&rt->layout, GO_G_PARENTGOID))
		caps |= GO_CAP_PARENT_GOID;
	if (sched_fits(k))
		caps |= GO_CAP_SCHED;
	return caps;
}

static enum verdict look(struct look *k)
{
	static enum verdict (*const steps[])(struct look *k) = { read_lists, read_gs, check_gs, check_ms };

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		enum verdict v = steps[i](k);

		if (v != FITS)
			return v;
	}
	return FITS;
}

/* Members without which there is nothing to check or to do. */
static bool has_core(const struct go_layout *l)
{
	static const enum go_field core[] = {
		GO_G_STACK_LO, GO_G_STACK_HI, GO_G_M, GO_G_SCHED_SP, GO_G_SCHED_PC, GO_G_SCHED_G,
		GO_G_ATOMICSTATUS, GO_G_GOID, GO_G_STARTPC, GO_M_G0, GO_M_PROCID, GO_M_CURG, GO_M_P,
		GO_M_ID, GO_M_ALLLINK,
	};

	for (size_t i = 0; i < sizeof(core) / sizeof(core[0]); i++)
		if (!go_has(l, core[i]))
			return false;
	return true;
}

static struct error *refuse(const struct go_runtime *rt, const char *why)
{
	return error_why(error_new(ERROR_UNSUPPORTED, "the layout known for %s does not fit this process",
				   rt->build.version[0] ? rt->build.version : "this Go version"),
			 "%s", why);
}

static struct error *check_asked(const struct go_runtime *rt)
{
	static const enum go_global needed[] = { GO_ALLGLEN, GO_ALLGPTR, GO_ALLM };

	if (!rt->process->target)
		return error_new(ERROR_NO_PROCESS, "there is no process to check, only a file");
	if (!rt->has_layout || !has_core(&rt->layout))
		return error_new(ERROR_UNSUPPORTED, "no layout is known for %s", rt->build.version);
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (!rt->globals[needed[i]].addr)
			return error_new(ERROR_UNSUPPORTED, "%s was not found in the program",
					 go_global_name(needed[i]));
	return NULL;
}

struct error *go_runtime_check(struct go_runtime *rt)
{
	struct error *err = check_asked(rt);
	struct look k;

	if (err)
		return err;
	for (int i = 0; i < ATTEMPTS; i++) {
		k = (struct look){ .rt = rt, .t = rt->process->target };
		enum verdict v = look(&k);

		if (v == NOT_UP)
			return &err_end;
		if (v == FITS) {
			rt->caps |= caps_of(&k);
			rt->checked = true;
			return NULL;
		}
	}
	if (target_life(rt->process->target) != TARGET_ALIVE)
		return &err_gone;
	return refuse(rt, k.why);
}
