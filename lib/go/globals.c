/*
 * globals.c: the addresses of the runtime's variables, in a program with or without symbols.
 *
 * The symbol table is believed first (one pass, cheap). Where it is gone, each variable is found
 * by a rule over the memory operands of one runtime function that cannot do its work without it.
 * A rule gives an address only when exactly one fits: a wrong variable would make every later
 * answer wrong, a missing one only switches a part off. Whatever its source, an address outside
 * the module's writable memory is refused. Contents are not looked at here; that is check.c.
 *
 * Upstream, the functions read by the rules: src/runtime/proc.go (allgadd, forEachGRace,
 * gcount, mcommoninit, mReserveID, retake, procresize), runtime2.go (waitReason.String).
 */
#include <string.h>

#include "go/go_impl.h"
#include "insn/insn.h"

enum {
	CODE_MAX = 16 * 1024,	/* bytes of one function that are decoded; the longest of them has 6 KB */
	OPERANDS_MAX = 512,
};

/* A memory operand with a known address inside writable memory, in the order of the code. */
struct operand {
	gaddr_t addr;		/* biased */
	uint8_t size;		/* 0: LEA */
	uint8_t access;		/* enum insn_access bits */
};

struct operands {
	size_t n;
	struct operand v[OPERANDS_MAX];
};

static const char *const names[GO_GLOBAL_COUNT] = {
	[GO_ALLGS] = "runtime.allgs",
	[GO_ALLGLEN] = "runtime.allglen",
	[GO_ALLGPTR] = "runtime.allgptr",
	[GO_ALLM] = "runtime.allm",
	[GO_ALLP] = "runtime.allp",
	[GO_SCHED] = "runtime.sched",
	[GO_GOMAXPROCS] = "runtime.gomaxprocs",
	[GO_WAITREASON_STRINGS] = "runtime.waitReasonStrings",
};

const char *go_global_name(enum go_global g)
{
	return (size_t)g < GO_GLOBAL_COUNT ? names[g] : "unknown";
}

/* ---- rules: operands in, an address or 0 out ---- */

static bool has(const struct operands *o, gaddr_t addr, uint8_t size, uint8_t access)
{
	for (size_t i = 0; i < o->n; i++)
		if (o->v[i].addr == addr && o->v[i].size == size && (o->v[i].access & access) == access)
			return true;
	return false;
}

typedef bool operand_test(const struct operands *o, const struct operand *x);

/* The one address whose operands pass the test; 0 when there is none or another one. */
static gaddr_t only(const struct operands *o, operand_test *test)
{
	gaddr_t found = 0;

	for (size_t i = 0; i < o->n; i++) {
		if (!test(o, &o->v[i]) || o->v[i].addr == found)
			continue;
		if (found)
			return 0;
		found = o->v[i].addr;
	}
	return found;
}

/* A slice that is appended to: pointer, length and capacity are all used. */
static bool is_slice(const struct operands *o, const struct operand *x)
{
	return has(o, x->addr, 8, 0) && has(o, x->addr + 8, 8, 0) && has(o, x->addr + 16, 8, 0);
}

/* A slice that is ranged over: pointer and length are read. */
static bool is_ranged(const struct operands *o, const struct operand *x)
{
	return has(o, x->addr, 8, INSN_READS) && has(o, x->addr + 8, 8, INSN_READS);
}

/* A list head: read as a value, and its address taken for the atomic store. */
static bool is_list_head(const struct operands *o, const struct operand *x)
{
	return has(o, x->addr, 8, INSN_READS) && has(o, x->addr, 0, 0);
}

/* The same, but for a slice, whose pointer is used so when it grows. */
static bool is_lone_head(const struct operands *o, const struct operand *x)
{
	return is_list_head(o, x) && !is_slice(o, x);
}

/* A counter: read and written. */
static bool is_counter(const struct operands *o, const struct operand *x)
{
	return has(o, x->addr, 8, INSN_READS) && has(o, x->addr, 8, INSN_WRITES);
}

static bool is_lea(const struct operands *o, const struct operand *x)
{
	(void)o;
	return x->size == 0;
}

static gaddr_t pick_slice(const struct operands *o)
{
	return only(o, is_slice);
}

static gaddr_t pick_ranged(const struct operands *o)
{
	return only(o, is_ranged);
}

static gaddr_t pick_list_head(const struct operands *o)
{
	return only(o, is_list_head);
}

static gaddr_t pick_lone_head(const struct operands *o)
{
	return only(o, is_lone_head);
}

static gaddr_t pick_counter(const struct operands *o)
{
	return only(o, is_counter);
}

static gaddr_t pick_lea(const struct operands *o)
{
	return only(o, is_lea);
}

/* The n-th address (from 0) that is loaded with this size. */
static gaddr_t nth_load(const struct operands *o, uint8_t size, unsigned n)
{
	for (size_t i = 0; i < o->n; i++)
		if (o->v[i].size == size && o->v[i].access == INSN_READS && n-- == 0)
			return o->v[i].addr;
	return 0;
}

static gaddr_t pick_first_word(const struct operands *o)
{
	return nth_load(o, 8, 0);
}

static gaddr_t pick_second_word(const struct operands *o)
{
	return nth_load(o, 8, 1);
}

/* procresize begins with the old number of Ps, and at its end stores the new one atomically. */
static gaddr_t pick_first_int_stored(const struct operands *o)
{
	gaddr_t a = nth_load(o, 4, 0);

	return a && (has(o, a, 4, INSN_WRITES) || has(o, a, 0, 0)) ? a : 0;
}

struct rule {
	enum go_global global;
	const char *function;
	gaddr_t (*pick)(const struct operands *o);
	enum go_field member;	/* what was found is this member of the variable ... */
	bool has_member;	/* ... if this is set: its offset is taken off */
};

static const struct rule rules[] = {
	{ GO_ALLGS, "runtime.allgadd", pick_slice, 0, false },
	{ GO_ALLGLEN, "runtime.forEachGRace", pick_first_word, 0, false },
	{ GO_ALLGPTR, "runtime.forEachGRace", pick_second_word, 0, false },
	/* 1.16: no forEachGRace yet. */
	{ GO_ALLGLEN, "runtime.gcount", pick_first_word, 0, false },
	{ GO_ALLGPTR, "runtime.allgadd", pick_lone_head, 0, false },
	{ GO_ALLM, "runtime.mcommoninit", pick_list_head, 0, false },
	{ GO_ALLP, "runtime.retake", pick_ranged, 0, false },
	{ GO_SCHED, "runtime.mReserveID", pick_counter, GO_SCHED_MNEXT, true },
	{ GO_GOMAXPROCS, "runtime.procresize", pick_first_int_stored, 0, false },
	{ GO_WAITREASON_STRINGS, "runtime.waitReason.String", pick_lea, 0, false },
};

/* ---- operands of a function ---- */

/*
 * By segments: the bounds in moduledata are of single sections, whose order is the linker's choice
 * (ld puts .data before .noptrdata, Go's own linker behind). Where a packer has made everything
 * writable, the span of all these sections must do.
 */
static bool is_data(const struct go_module *m, const struct segment *s, gaddr_t a)
{
	if (!(s->flags & SEGMENT_WRITE) || a < s->vaddr || a - s->vaddr >= s->memsz)
		return false;
	return !(s->flags & SEGMENT_EXEC) || (a >= m->noptrdata && a < m->enoptrbss);
}

static bool in_data(const struct go_module *m, gaddr_t addr)
{
	gaddr_t a = addr - m->bias;
	size_t n;
	const struct segment *v = image_segments(m->image, &n);

	for (size_t i = 0; i < n; i++)
		if (is_data(m, &v[i], a))
			return true;
	return false;
}

static void operands_read(struct go_runtime *rt, const struct go_func *f, struct operands *ret)
{
	uint8_t code[CODE_MAX];
	size_t want = f->end - f->entry, at = 0, len;
	struct insn in;

	ret->n = 0;
	len = go_code_read(rt, f->entry, code, want < sizeof(code) ? want : sizeof(code));
	while (at < len && ret->n < OPERANDS_MAX) {
		if (!insn_decode(code + at, len - at, f->entry + at, &in) || in.length == 0)
			return;
		at += in.length;
		if (in.has_address && in_data(f->module, in.address))
			ret->v[ret->n++] = (struct operand){ in.address, in.access_size, in.access };
	}
}

/*
 * A name can occur more than once (the body and a wrapper for the other calling convention): all
 * that give an address must give the same.
 */
static gaddr_t rule_apply(struct go_runtime *rt, const struct rule *r)
{
	struct operands o;
	struct go_func f;
	uint32_t pos = 0;
	gaddr_t found = 0;

	while (go_func_by_name(rt, r->function, &pos, &f)) {
		operands_read(rt, &f, &o);
		gaddr_t a = r->pick(&o);

		if (a && found && a != found)
			return 0;
		found = a ? a : found;
	}
	if (!found || !r->has_member)
		return found;
	if (!rt->has_layout || !go_has(&rt->layout, r->member))
		return 0;
	return found - (uint64_t)rt->layout.f[r->member].offset;
}

/* ---- all of them ---- */

static void set(struct go_runtime *rt, enum go_global g, gaddr_t addr, enum go_source source)
{
	if (rt->globals[g].addr == 0 && addr != 0 && in_data(&rt->modules[0], addr))
		rt->globals[g] = (struct go_global_at){ addr, source };
}

static struct error *from_symbols(struct go_runtime *rt)
{
	struct image_symbol sym[GO_GLOBAL_COUNT] = { 0 };
	struct error *err = image_find_symbols(rt->modules[0].image, names, GO_GLOBAL_COUNT, sym);

	/* No symbols, or a table that is damaged, is what the rules are for. */
	if (err && (err->kind == ERROR_NOMEM || err->kind == ERROR_GONE))
		return err;
	if (err) {
		error_free(err);
		return NULL;
	}
	for (int g = 0; g < GO_GLOBAL_COUNT; g++)
		if (sym[g].addr)
			set(rt, g, sym[g].addr + rt->modules[0].bias, GO_SOURCE_SYMBOL);
	return NULL;
}

/*
 * 1.15 has no allgptr: the slice itself is both. Length and pointer come from one place, always: an
 * array that is longer than its length says is harmless, a shorter one is not.
 */
static void from_allgs(struct go_runtime *rt)
{
	const struct go_global_at *allgs = &rt->globals[GO_ALLGS];

	if (!allgs->addr || (rt->globals[GO_ALLGLEN].addr && rt->globals[GO_ALLGPTR].addr))
		return;
	rt->globals[GO_ALLGPTR] = *allgs;
	rt->globals[GO_ALLGLEN] = (struct go_global_at){ allgs->addr + 8, allgs->source };
}

struct error *go_globals_find(struct go_runtime *rt)
{
	struct error *err;

	memset(rt->globals, 0, sizeof(rt->globals));
	if (rt->n_modules == 0)
		return &err_notfound;
	err = from_symbols(rt);
	if (err)
		return err;
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rt->globals[rules[i].global].addr == 0)
			set(rt, rules[i].global, rule_apply(rt, &rules[i]), GO_SOURCE_CODE);
	from_allgs(rt);
	return NULL;
}
