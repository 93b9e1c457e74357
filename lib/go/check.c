/*
 * check.c: does a layout, and do the addresses of the globals, fit this very process?
 *
 * A patch release may move a member, a rule may have found another variable. So before anything is
 * believed the process is asked for what must be so in every Go program, whatever it does
 * (check_g.c, check_m.c). It runs on while it is asked, so a look that fails is repeated before it
 * counts. What the process cannot confirm gets no bit in caps, and nobody uses it.
 *
 * Upstream: src/runtime/proc.go (allgadd, schedinit, main).
 */
#include <string.h>

#include "go/settle_impl.h"

enum {
	ATTEMPTS = 4,
	GS_MAX = 1 << 28,	/* more is no length */
};

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
	k->n_gs = k->allglen < CHECK_GS ? k->allglen : CHECK_GS;
	err = target_read(k->t, k->allgptr, k->gs, k->n_gs * 8);
	if (err) {
		error_free(err);
		return misfit(k, "runtime.allgs does not point to readable memory");
	}
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

uint32_t check_caps(const struct look *k)
{
	struct go_runtime *rt = k->rt;
	uint32_t caps = GO_CAP_PCLNTAB | GO_CAP_G_LAYOUT | GO_CAP_ALLGS | GO_CAP_ALLM;

	if (has_labels(rt))
		caps |= GO_CAP_LABELS;
	if (go_has(&rt->layout, GO_G_WAITREASON) && go_wait_reason(rt, 1))
		caps |= GO_CAP_WAITREASON_NAMES;
	if (go_has(&rt->layout, GO_G_TRACKINGSEQ))
		caps |= GO_CAP_TRACKINGSEQ;
	if (go_has(&rt->layout, GO_G_PARENTGOID))
		caps |= GO_CAP_PARENT_GOID;
	if (sched_fits(k))
		caps |= GO_CAP_SCHED;
	return caps;
}

static enum verdict look(struct look *k)
{
	static enum verdict (*const steps[])(struct look *k) = { read_lists, check_read_gs, check_gs,
								 check_ms };

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		enum verdict v = steps[i](k);

		if (v != FITS)
			return v;
	}
	return FITS;
}

enum verdict check_runtime(struct go_runtime *rt, struct look *k)
{
	static const enum go_global needed[] = { GO_ALLGLEN, GO_ALLGPTR, GO_ALLM };
	enum verdict v = MISFIT;

	*k = (struct look){ .rt = rt, .t = rt->process->target };
	if (!go_layout_has_core(&rt->layout))
		return misfit(k, "no layout is known for %s",
			      rt->build.version[0] ? rt->build.version : "this Go version");
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (!rt->globals[needed[i]].addr)
			return misfit(k, "%s was not found in the program", go_global_name(needed[i]));
	for (int i = 0; i < ATTEMPTS && v == MISFIT; i++) {
		*k = (struct look){ .rt = rt, .t = rt->process->target };
		v = look(k);
	}
	return v;
}
