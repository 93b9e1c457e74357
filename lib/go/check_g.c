/*
 * check_g.c: do the things that allgs points to look like goroutines?
 *
 * allgs[0] was made for the main goroutine; every g points to itself, has a status that exists, a
 * goid of its own and a stack, and starts at the first byte of a Go function. The process runs on
 * meanwhile: a g that is just being made breaks rules for a moment, so few may be odd.
 *
 * Upstream: src/runtime/proc.go (newproc1, allgadd, gdestroy, oneNewExtraM).
 */
#include <string.h>

#include "go/check_impl.h"

enum verdict check_read_gs(struct look *k)
{
	const struct go_layout *l = &k->rt->layout;
	size_t at_self = (size_t)l->f[GO_G_SCHED_G].offset, len = g_span(l);
	uint8_t bytes[GO_G_SPAN_MAX];

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
		return k->allglen <= CHECK_STARTING_GS ? NOT_UP : misfit(k, "the first goroutine has no goid");
	if (!go_func_find(k->rt, g->startpc, &f) || f.entry != g->startpc)
		return misfit(k, "the first goroutine does not start at a Go function");
	if (g->goid == 1 && strcmp(go_func_name(k->rt, &f), "runtime.main") != 0)
		return misfit(k, "goroutine 1 does not start in runtime.main");
	return FITS;
}

enum verdict check_gs(struct look *k)
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
