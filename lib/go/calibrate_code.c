/*
 * calibrate_code.c: what the instructions of a few runtime functions say about members of g and m.
 *
 * Members that are 0 nearly always cannot be proved by what they hold. But some functions, most of
 * them assembly, use them in a fixed way in every version. A claim is only that: calibrate_*.c
 * believe it where the same function also uses members that are proved, or nothing that is in
 * memory speaks against it. A function that does not look as it must claims nothing.
 *
 * Upstream: src/runtime/asm_amd64.s (systemstack), sys_linux_amd64.s (nanotime1), cgocall.go
 * (cgocall), proc.go (reentersyscall), runtime/proflabel.go (runtime_setProfLabel).
 */
#include "go/calibrate_impl.h"
#include "insn/insn.h"

enum {
	CODE_MAX = 2048,
	USES_MAX = 96,
	OWN_MEMBERS = 48,	/* below it stand only the stack's bounds, in a g as long as there was one */
};

/* One access to [register + offset], the stack pointer left out. */
struct use {
	uint8_t base, size, access;
	int32_t offset;
};

struct uses {
	size_t n;
	struct use v[USES_MAX];
};

static void uses_read(struct go_runtime *rt, const struct go_func *f, struct uses *ret)
{
	uint8_t code[CODE_MAX];
	size_t want = f->end - f->entry, at = 0, len;
	struct insn in;

	ret->n = 0;
	len = go_code_read(rt, f->entry, code, want < sizeof(code) ? want : sizeof(code));
	while (at < len && ret->n < USES_MAX) {
		if (!insn_decode(code + at, len - at, f->entry + at, &in) || in.length == 0)
			return;
		at += in.length;
		if (in.base && in.base != INSN_BASE_SP && in.access)
			ret->v[ret->n++] = (struct use){ in.base, in.access_size, in.access, in.displacement };
	}
}

/* Each gives its claims, or false. */
typedef bool claim_fn(const struct uses *u, struct code_claims *c);

/* g.m is loaded; then m.gsignal, m.g0 and m.curg are compared with g, in this order. */
static bool claim_systemstack(const struct uses *u, struct code_claims *c)
{
	const struct use *v = u->v;

	if (u->n < 4)
		return false;
	for (size_t i = 0; i < 4; i++)
		if (v[i].size != 8 || v[i].access != INSN_READS || v[i].offset < 0)
			return false;
	if (v[0].base == v[1].base || v[1].base != v[2].base || v[2].base != v[3].base)
		return false;
	c->g_m = v[0].offset;
	c->m_gsignal = v[1].offset;
	c->m_g0 = v[2].offset;
	c->m_curg = v[3].offset;
	return true;
}

/* m.vdsoPC and then m.vdsoSP, just before it, are set; then m.curg is looked at. */
static bool claim_nanotime(const struct uses *u, struct code_claims *c)
{
	size_t i = 0;

	while (i < u->n && !(u->v[i].access & INSN_WRITES))
		i++;
	if (u->n < 3 || i > u->n - 3)
		return false;
	const struct use *pc = &u->v[i], *sp = pc + 1, *curg = pc + 2;
	if (pc->size != 8 || sp->size != 8 || curg->size != 8 || !(sp->access & INSN_WRITES) ||
	    curg->access != INSN_READS || pc->base != sp->base || pc->base != curg->base ||
	    sp->offset < 0 || pc->offset != sp->offset + 8)
		return false;
	c->m_vdso_pc = pc->offset;
	c->m_vdso_sp = sp->offset;
	c->vdso_curg = curg->offset;
	return true;
}

/* The only member that is set; with the write barrier in more than one place. */
static bool claim_labels(const struct uses *u, struct code_claims *c)
{
	int32_t found = CAL_NONE;

	for (size_t i = 0; i < u->n; i++) {
		const struct use *x = &u->v[i];

		if (!(x->access & INSN_WRITES) || x->offset < OWN_MEMBERS || x->offset == found)
			continue;
		if (found != CAL_NONE || x->size != 8)
			return false;
		found = x->offset;
	}
	c->g_labels = found;
	return found != CAL_NONE;
}

/* The only number of four bytes that is counted up and down. */
static bool claim_cgocall(const struct uses *u, struct code_claims *c)
{
	enum { COUNTS = INSN_READS | INSN_WRITES };
	int32_t found = CAL_NONE;
	int times = 0;

	for (size_t i = 0; i < u->n; i++) {
		const struct use *x = &u->v[i];

		if (x->size != 4 || x->access != COUNTS)
			continue;
		if (found != CAL_NONE && x->offset != found)
			return false;
		found = x->offset;
		times++;
	}
	c->m_ncgo = found;
	return times == 2;
}

/* syscallsp and syscallpc behind it are set one after the other; so may be the saved pc and sp. */
static bool claim_entersyscall(const struct uses *u, struct code_claims *c)
{
	for (size_t i = 0; i < u->n && c->n_pairs < CAL_PAIRS; i++) {
		const struct use *a = &u->v[i], *b = a + 1;

		if (i + 1 < u->n && a->size == 8 && b->size == 8 && a->access == INSN_WRITES &&
		    b->access == INSN_WRITES && a->base == b->base && a->offset >= OWN_MEMBERS &&
		    b->offset == a->offset + 8)
			c->pairs[c->n_pairs++] = a->offset;
	}
	return c->n_pairs > 0;
}

static const struct {
	const char *function;
	claim_fn *claim;
} rules[] = {
	{ "runtime.systemstack", claim_systemstack },
	{ "runtime.nanotime1", claim_nanotime },
	{ "runtime/pprof.runtime_setProfLabel", claim_labels },
	{ "runtime.cgocall", claim_cgocall },
	{ "runtime.reentersyscall", claim_entersyscall },
};

/* A name may stand for the function and for wrappers of it: the first body that looks right counts. */
static void apply(struct go_runtime *rt, const char *function, claim_fn *claim, struct code_claims *ret)
{
	struct go_func f;
	uint32_t pos = 0;
	struct uses u;

	while (go_func_by_name(rt, function, &pos, &f)) {
		struct code_claims c = *ret;

		uses_read(rt, &f, &u);
		if (claim(&u, &c)) {
			*ret = c;
			return;
		}
	}
}

void cal_code(struct go_runtime *rt, struct code_claims *ret)
{
	struct code_claims c = {
		CAL_NONE, CAL_NONE, CAL_NONE, CAL_NONE, CAL_NONE, CAL_NONE, CAL_NONE, CAL_NONE, CAL_NONE,
		.n_pairs = 0,
	};

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		apply(rt, rules[i].function, rules[i].claim, &c);
	*ret = c;
}
