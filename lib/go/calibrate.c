/*
 * calibrate.c: members of runtime structs found in the running process, for versions without a row
 * and for rows that do not fit.
 *
 * The order: gs are read twice and only those that did not change in between count; then goroutines
 * that stand in runtime.gopark prove what a stack has to do with its g; then the rest. Each part
 * says what is missing for good; what only happens not to be visible (no goroutine is in a system
 * call) is left unknown. Nothing is taken from a row.
 *
 * Upstream: src/runtime/runtime2.go (type g, m), proc.go (gopark, newproc1, allgadd).
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "go/calibrate_impl.h"
#include "go/settle_impl.h"
#include "insn/insn.h"

enum {
	FIRST_GS = 4,		/* main, forcegc, bgsweep, bgscavenge: every program has them before main.main */
	FEW_GS = 16,		/* with so few, nobody may have parked yet */
};

/* ---- the process's memory ---- */

size_t cal_read_some(struct cal_reads *r, gaddr_t at, void *bytes, size_t len)
{
	struct span v = { .addr = at, .buf = bytes, .len = len };
	struct error *err;

	if (!at || !r->left)
		return 0;
	r->left--;
	err = target_read_v(r->t, &v, 1);
	error_free(err);
	return err ? 0 : v.done & ~(size_t)7;
}

bool cal_read_word(struct cal_reads *r, gaddr_t at, uint64_t *ret)
{
	uint64_t w;

	if (cal_read_some(r, at, &w, sizeof(w)) != sizeof(w))
		return false;
	*ret = w;
	return true;
}

size_t cal_list_length(struct cal_reads *r, const struct go_module *m, gaddr_t head, uint32_t offset,
		       gaddr_t *last)
{
	gaddr_t at = head;
	size_t n = 0;

	for (; at && n < CAL_LIST_MAX; n++) {
		*last = at;
		if (!cal_is_place(at) || !cal_read_word(r, at + offset, &at))
			return 0;
	}
	return n && !at && cal_is_variable(m, *last) ? n : 0;
}

/* ---- offsets ---- */

int32_t cal_only(struct sight *s, uint32_t limit, uint32_t step, offset_test *test)
{
	int32_t found = CAL_NONE;

	for (uint32_t o = 0; o < limit; o += step) {
		if (!test(s, o))
			continue;
		if (found != CAL_NONE)
			return CAL_NONE;
		found = (int32_t)o;
	}
	return found;
}

bool cal_set(struct sight *s, enum go_field f, int32_t offset, uint32_t size)
{
	if (offset < 0)
		return false;
	s->found->f[f] = (struct go_field_at){ offset, size, GO_SOURCE_CALIBRATED };
	return true;
}

bool cal_g_taken(const struct sight *s, uint32_t offset)
{
	for (int f = GO_G_STACK_LO; f <= GO_G_BUBBLE; f++)
		if (s->found->f[f].offset == (int32_t)offset)
			return true;
	return false;
}

bool cal_gs_agree(struct sight *s, uint32_t offset, uint32_t size, size_t least, g_opinion *opinion)
{
	size_t agree = 0;

	if (cal_g_taken(s, offset))
		return false;
	for (size_t i = 0; i < s->n_gs; i++) {
		const struct seen_g *g = &s->gs[i];

		if (!g->stable || !g->self)
			continue;
		if (offset + size > g->len)
			return false;
		switch (opinion(s, g, offset)) {
		case CONTRADICTS:
			return false;
		case AGREES:
			agree++;
			break;
		case NEUTRAL:
			break;
		}
	}
	return agree >= least;
}

/* ---- names ---- */

const char *cal_function(struct sight *s, gaddr_t pc)
{
	struct go_func f;

	return pc && go_func_find(s->rt, pc, &f) ? go_func_name(s->rt, &f) : NULL;
}

bool cal_is_entry(struct sight *s, gaddr_t pc)
{
	struct go_func f;

	return pc && go_func_find(s->rt, pc, &f) && f.entry == pc;
}

bool cal_called(struct sight *s, gaddr_t pc, const char *name)
{
	uint8_t before[INSN_MAX];
	struct go_func f;
	struct insn call;
	const char *callee;
	size_t n;

	if (!pc || !go_func_find(s->rt, pc - 1, &f))
		return false;
	n = pc - f.entry < sizeof(before) ? pc - f.entry : sizeof(before);
	if (!n || go_code_read(s->rt, pc - n, before, n) != n ||
	    !insn_call_before(before, n, pc, &call) || !call.target)
		return false;
	callee = cal_function(s, call.target);
	return callee && strcmp(callee, name) == 0;
}

/* ---- looking ---- */

static enum verdict read_lists(struct sight *s)
{
	const struct go_global_at *at = s->rt->globals;

	if (!cal_read_word(&s->reads, at[GO_ALLGLEN].addr, &s->allglen) ||
	    !cal_read_word(&s->reads, at[GO_ALLGPTR].addr, &s->allgptr)) {
		s->missing = "runtime.allgs";
		return MISFIT;
	}
	/* Where allm is not known gs can be, and then it is searched for. */
	if (at[GO_ALLM].addr && !cal_read_word(&s->reads, at[GO_ALLM].addr, &s->allm)) {
		s->missing = "runtime.allm";
		return MISFIT;
	}
	if (s->allglen < FIRST_GS || !s->allgptr || (at[GO_ALLM].addr && !s->allm))
		return NOT_UP;
	s->n_gs = s->allglen < CAL_GS ? s->allglen : CAL_GS;
	return FITS;
}

static bool read_g(struct sight *s, gaddr_t at, uint8_t *bytes, uint32_t *len)
{
	*len = (uint32_t)cal_read_some(&s->reads, at, bytes, CAL_G_BYTES);
	return *len >= CAL_G_BYTES / 2;
}

static enum verdict read_gs(struct sight *s)
{
	gaddr_t at[CAL_GS];
	struct error *err = target_read(s->t, s->allgptr, at, s->n_gs * sizeof(at[0]));

	error_free(err);
	for (size_t i = 0; !err && i < s->n_gs; i++) {
		s->gs[i].at = at[i];
		if (!read_g(s, at[i], s->gs[i].bytes, &s->gs[i].len))
			err = &err_fault;
	}
	if (!err)
		return FITS;
	s->missing = "runtime.allgs";
	return MISFIT;
}

/* Gs do not overlap, so none is longer than the way from one to the next. */
static void bound_gs(struct sight *s)
{
	uint64_t least = CAL_G_BYTES;

	for (size_t i = 0; i < s->n_gs; i++)
		for (size_t k = 0; k < s->n_gs; k++)
			if (s->gs[k].at > s->gs[i].at && s->gs[k].at - s->gs[i].at < least)
				least = s->gs[k].at - s->gs[i].at;
	for (size_t i = 0; i < s->n_gs; i++)
		if (s->gs[i].len > least)
			s->gs[i].len = (uint32_t)least & ~7u;
}

bool cal_g_is_as_it_was(struct sight *s, const struct seen_g *g)
{
	uint8_t again[CAL_G_BYTES];
	uint32_t len;

	return read_g(s, g->at, again, &len) && len >= g->len && memcmp(again, g->bytes, g->len) == 0;
}

/* One that ran in between may be torn, and tells nothing. */
static void find_stable(struct sight *s)
{
	for (size_t i = 0; i < s->n_gs; i++)
		s->gs[i].stable = cal_g_is_as_it_was(s, &s->gs[i]);
}

/* ---- all ---- */

/* Goroutines come first, so nobody has parked: the runtime is just coming up, if it is one we can read. */
static enum verdict few_goroutines(const struct sight *s)
{
	struct go_func f;
	uint32_t pos = 0;

	if (s->allglen >= FEW_GS || !go_func_by_name(s->rt, "runtime.gopark", &pos, &f))
		return MISFIT;
	return NOT_UP;
}

static enum verdict look(struct sight *s)
{
	enum verdict v = read_lists(s);

	if (v == FITS)
		v = read_gs(s);
	if (v != FITS)
		return v;
	bound_gs(s);
	find_stable(s);
	cal_code(s->rt, &s->claims);
	v = cal_gs(s);
	if (v == NOT_UP)
		return few_goroutines(s);
	if (v == FITS)
		v = cal_ms(s);
	if (v != FITS)
		return v;
	cal_waitreason(s);
	cal_labels(s);
	return FITS;
}

enum verdict go_calibrate(struct go_runtime *rt, struct go_layout *ret, char *why, size_t why_len)
{
	_cleanup_free_ struct seen_g *gs = calloc(CAL_GS, sizeof(*gs));
	_cleanup_free_ struct seen_parked *parked = calloc(CAL_PARKED, sizeof(*parked));
	_cleanup_free_ struct seen_m *ms = calloc(CAL_MS, sizeof(*ms));
	struct sight s = {
		.rt = rt, .t = rt->process->target, .found = ret, .gs = gs, .parked = parked, .ms = ms,
		.reads = { .t = rt->process->target, .left = CAL_READS },
	};
	enum verdict v;

	go_layout_forget(ret);
	if (!gs || !parked || !ms) {
		snprintf(why, why_len, "memory is short");
		return MISFIT;
	}
	v = look(&s);
	if (!s.reads.left) {	/* what is the only one may be so because no other was read */
		s.missing = "its end";
		v = MISFIT;
	}
	if (v == MISFIT)
		snprintf(why, why_len, "%s cannot be found in it", s.missing ? s.missing : "something");
	return v;
}
