/*
 * calibrate_g.c: members of g that goroutines prove by themselves.
 *
 * Firm ground are goroutines parked in runtime.gopark. mcall saved their pc, sp and frame pointer,
 * and wrote nothing to their stacks: right below the saved sp still stands the saved pc as the
 * return address of the call of mcall, and gopark's frame size joins sp and frame pointer. A
 * creator's pc stands behind a call of newproc. Those are facts of the machine code, and no other
 * member can show them by chance.
 *
 * Upstream: src/runtime/asm_amd64.s (mcall, gogo), proc.go (gopark, newproc1, casgstatus), stack.go.
 */
#include "go/calibrate_impl.h"

enum {
	LEAST_PARKED = 2,
	LEAST_GS = 3,
	STACK_MIN = 2048,
	GOID_FIRST_MAX = 64,	/* the runtime's own goroutines have numbers up to here */
	LOW_TEXT = 4096,
};

static const uint64_t stack_max = 1ull << 32, goid_max = 1ull << 48, parent_max = 1ull << 36;

/* ---- sched ---- */

static enum opinion is_itself(struct sight *s, const struct seen_g *g, uint32_t offset)
{
	uint64_t w = g_word(g, (int32_t)offset);

	(void)s;
	return w == g->at ? AGREES : w == 0 ? NEUTRAL : CONTRADICTS;
}

/* Before anything is known no g is `self`, so this test cannot go by cal_gs_agree. */
static bool fits_self(struct sight *s, uint32_t offset)
{
	size_t agree = 0, n = 0;

	for (size_t i = 0; i < s->n_gs; i++) {
		if (!s->gs[i].stable)
			continue;
		enum opinion o = offset + 8 <= s->gs[i].len ? is_itself(s, &s->gs[i], offset) : CONTRADICTS;

		if (o == CONTRADICTS)
			return false;
		n++;
		agree += o == AGREES;
	}
	return agree >= LEAST_GS && agree * 2 > n;
}

static bool in_gopark(struct sight *s, gaddr_t pc)
{
	const char *name = cal_function(s, pc);

	return name && strcmp(name, "runtime.gopark") == 0;
}

static enum opinion is_saved_pc(struct sight *s, const struct seen_g *g, uint32_t offset)
{
	uint64_t pc = g_word(g, (int32_t)offset);

	if (in_gopark(s, pc))
		return AGREES;
	return pc == 0 || cal_function(s, pc) ? NEUTRAL : CONTRADICTS;
}

static bool fits_pc(struct sight *s, uint32_t offset)
{
	return cal_gs_agree(s, offset, 8, LEAST_PARKED, is_saved_pc);
}

/* ---- parked goroutines ---- */

/* The words below all places that the g names; one that cannot be read is 0. */
static bool read_below(struct sight *s, struct seen_parked *p)
{
	struct span v[CAL_G_BYTES / 8];
	struct error *err;
	size_t n = p->g->len / 8;

	memset(p->below, 0, sizeof(p->below));
	for (size_t i = 0; i < n; i++) {
		uint64_t w = g_word(p->g, (int32_t)(8 * i));
		bool place = w % 8 == 0 && w > LOW_TEXT && w < 1ull << 47;

		v[i] = (struct span){ .addr = w - 8, .buf = &p->below[i], .len = place ? 8 : 0 };
	}
	err = target_read_v(s->t, v, n);
	error_free(err);
	return !err;
}

static void find_parked(struct sight *s, int32_t pc_at)
{
	struct go_func f;

	for (size_t i = 0; i < s->n_gs && s->n_parked < CAL_PARKED; i++) {
		struct seen_parked *p = &s->parked[s->n_parked];
		const struct seen_g *g = &s->gs[i];

		if (!g->stable || !g->self || !in_gopark(s, g_word(g, pc_at)))
			continue;
		*p = (struct seen_parked){ .g = g, .pc = g_word(g, pc_at), .caller = "" };
		if (go_func_find(s->rt, p->pc, &f))
			p->delta = go_func_spdelta(s->rt, &f, p->pc);
		if (p->delta > 0 && read_below(s, p) && cal_g_is_as_it_was(s, g))
			s->n_parked++;
	}
}

typedef bool parked_test(struct sight *s, const struct seen_parked *p, uint32_t offset);

static bool all_parked(struct sight *s, uint32_t offset, parked_test *test)
{
	for (size_t i = 0; i < s->n_parked; i++)
		if (offset + 8 > s->parked[i].g->len || !test(s, &s->parked[i], offset))
			return false;
	return s->n_parked >= LEAST_PARKED;
}

static bool is_saved_sp(struct sight *s, const struct seen_parked *p, uint32_t offset)
{
	(void)s;
	return p->below[offset / 8] == p->pc;
}

/* Not all: one that has gone on keeps its saved pc, but the runtime has cleared its sp. */
static bool fits_sp(struct sight *s, uint32_t offset)
{
	size_t agree = 0;

	for (size_t i = 0; i < s->n_parked; i++)
		agree += offset + 8 <= s->parked[i].g->len && is_saved_sp(s, &s->parked[i], offset);
	return !cal_g_taken(s, offset) && agree >= LEAST_PARKED && agree * 2 > s->n_parked;
}

/* Only those that stand there still. */
static void keep_parked(struct sight *s, int32_t sp_at)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_parked; i++)
		if (is_saved_sp(s, &s->parked[i], (uint32_t)sp_at))
			s->parked[n++] = s->parked[i];
	s->n_parked = n;
}

static bool is_saved_bp(struct sight *s, const struct seen_parked *p, uint32_t offset)
{
	(void)s;
	return g_word(p->g, (int32_t)offset) == p->sp + (uint64_t)p->delta - 8;
}

static bool fits_bp(struct sight *s, uint32_t offset)
{
	return all_parked(s, offset, is_saved_bp);
}

/* Where each sp is, and who called gopark: its return address is the last word of the frame. */
static void read_callers(struct sight *s, int32_t sp_at)
{
	for (size_t i = 0; i < s->n_parked; i++) {
		struct seen_parked *p = &s->parked[i];
		const char *name = NULL;
		struct error *err;
		uint64_t pc;

		p->sp = g_word(p->g, sp_at);
		err = target_read_u64(s->t, p->sp + (uint64_t)p->delta, &pc);
		if (!err)
			name = cal_function(s, pc);
		error_free(err);
		p->caller = name ? name : "";
	}
}

/* ---- stack ---- */

/* The runtime makes stacks of a power of two, and where such a block may begin. */
static bool is_stack(uint64_t lo, uint64_t hi)
{
	uint64_t size = hi - lo;

	return lo > LOW_TEXT && lo < hi && lo % STACK_MIN == 0 && size >= STACK_MIN && size <= stack_max &&
	       (size & (size - 1)) == 0;
}

static bool holds_sp(struct sight *s, const struct seen_parked *p, uint32_t offset)
{
	uint64_t lo = g_word(p->g, (int32_t)offset), hi;

	(void)s;
	if (offset + 16 > p->g->len)
		return false;
	hi = g_word(p->g, (int32_t)offset + 8);
	return is_stack(lo, hi) && p->sp > lo && p->sp < hi;
}

static enum opinion has_stack(struct sight *s, const struct seen_g *g, uint32_t offset)
{
	uint64_t lo = g_word(g, (int32_t)offset), hi = g_word(g, (int32_t)offset + 8);

	(void)s;
	if (lo == 0 && hi == 0)
		return NEUTRAL;		/* dead, and its stack freed */
	return is_stack(lo, hi) ? AGREES : CONTRADICTS;
}

static bool fits_stack(struct sight *s, uint32_t offset)
{
	return all_parked(s, offset, holds_sp) && cal_gs_agree(s, offset, 16, LEAST_GS, has_stack);
}

/* ---- where it began ---- */

static enum opinion is_start(struct sight *s, const struct seen_g *g, uint32_t offset)
{
	uint64_t pc = g_word(g, (int32_t)offset);

	return pc == 0 ? NEUTRAL : cal_is_entry(s, pc) ? AGREES : CONTRADICTS;
}

static bool starts_in(struct sight *s, const struct seen_g *g, uint32_t offset, const char *name)
{
	const char *is = cal_function(s, g_word(g, (int32_t)offset));

	return is && strcmp(is, name) == 0;
}

/* Goroutine 1, dead or alive; NULL once its g serves another one. */
static const struct seen_g *main_g(struct sight *s, int32_t startpc)
{
	const struct seen_g *g = &s->gs[0];

	return startpc >= 0 && g->stable && g->self && (uint32_t)startpc + 8 <= g->len &&
	       starts_in(s, g, (uint32_t)startpc, "runtime.main") ? g : NULL;
}

/* Some must be the runtime's own, which are made first and never end. */
static bool fits_start(struct sight *s, uint32_t offset)
{
	size_t of_runtime = 0;

	if (!cal_gs_agree(s, offset, 8, LEAST_GS, is_start))
		return false;
	for (size_t i = 0; i < s->n_gs; i++) {
		const struct seen_g *g = &s->gs[i];
		const char *name = g->stable && g->self ? cal_function(s, g_word(g, (int32_t)offset)) : NULL;

		of_runtime += name && strncmp(name, "runtime.", strlen("runtime.")) == 0;
	}
	return of_runtime >= LEAST_PARKED;
}

static enum opinion is_creator(struct sight *s, const struct seen_g *g, uint32_t offset)
{
	uint64_t pc = g_word(g, (int32_t)offset);

	return pc == 0 ? NEUTRAL : cal_called(s, pc, "runtime.newproc") ? AGREES : CONTRADICTS;
}

static bool fits_creator(struct sight *s, uint32_t offset)
{
	return cal_gs_agree(s, offset, 8, LEAST_GS, is_creator);
}

/* ---- numbers ---- */

/* Only such gs have ever been goroutines. */
bool cal_has_begun(struct sight *s, const struct seen_g *g)
{
	int32_t at = cal_offset(s, GO_G_STARTPC);

	return g->stable && g->self && (uint32_t)at + 8 <= g->len && g_word(g, at) != 0;
}

static bool is_taken(struct sight *s, size_t n, uint32_t offset)
{
	for (size_t i = 0; i < n; i++)
		if (cal_has_begun(s, &s->gs[i]) &&
		    g_word(&s->gs[i], (int32_t)offset) == g_word(&s->gs[n], (int32_t)offset))
			return true;
	return false;
}

/* Each its own, and among the first gs there are low ones; goroutine 1 is runtime.main's. */
static bool fits_goid(struct sight *s, uint32_t offset)
{
	const struct seen_g *first = main_g(s, cal_offset(s, GO_G_STARTPC));
	uint64_t least = UINT64_MAX;
	size_t n = 0;

	if (cal_g_taken(s, offset))
		return false;
	for (size_t i = 0; i < s->n_gs; i++) {
		const struct seen_g *g = &s->gs[i];
		uint64_t goid;

		if (!cal_has_begun(s, g))
			continue;
		if (offset + 8 > g->len)
			return false;
		goid = g_word(g, (int32_t)offset);
		if (!goid || goid > goid_max || is_taken(s, i, offset) || (g == first) != (goid == 1))
			return false;
		least = goid < least ? goid : least;
		n++;
	}
	return n >= LEAST_GS && least <= GOID_FIRST_MAX;
}

static uint32_t g_half(const struct seen_g *g, uint32_t offset)
{
	uint32_t v;

	memcpy(&v, g->bytes + offset, sizeof(v));
	return v;
}

static enum opinion is_status(struct sight *s, const struct seen_g *g, uint32_t offset)
{
	uint32_t v = g_half(g, offset) & ~(uint32_t)G_SCAN;

	if (!cal_has_begun(s, g))
		return NEUTRAL;
	return v != G_IDLE && strcmp(g_status_name(v), "???") != 0 ? AGREES : CONTRADICTS;
}

/* Who stands in gopark waits, or was just made runnable. */
static bool fits_status(struct sight *s, uint32_t offset)
{
	size_t waiting = 0;

	if (!cal_gs_agree(s, offset, 4, LEAST_GS, is_status))
		return false;
	for (size_t i = 0; i < s->n_parked; i++) {
		uint32_t v = g_half(s->parked[i].g, offset) & ~(uint32_t)G_SCAN;

		if (v != G_WAITING && v != G_RUNNABLE && v != G_LEAKED)
			return false;
		waiting += v == G_WAITING;
	}
	return waiting >= LEAST_PARKED && waiting * 2 > s->n_parked;
}

uint32_t cal_status(struct sight *s, const struct seen_g *g)
{
	return g_half(g, (uint32_t)cal_offset(s, GO_G_ATOMICSTATUS)) & ~(uint32_t)G_SCAN;
}

static bool is_goid(struct sight *s, uint64_t goid)
{
	for (size_t i = 0; i < s->n_gs; i++)
		if (cal_has_begun(s, &s->gs[i]) && g_word(&s->gs[i], cal_offset(s, GO_G_GOID)) == goid)
			return true;
	return false;
}

/* Parents may have ended, and another goroutine have their g. Many have not. */
static enum opinion is_parent(struct sight *s, const struct seen_g *g, uint32_t offset)
{
	uint64_t parent = g_word(g, (int32_t)offset);

	if (!cal_has_begun(s, g) || g_word(g, cal_offset(s, GO_G_GOPC)) == 0)
		return NEUTRAL;
	if (g == main_g(s, cal_offset(s, GO_G_STARTPC)))
		return parent == 0 ? NEUTRAL : CONTRADICTS;
	if (!parent || parent > parent_max || parent == g_word(g, cal_offset(s, GO_G_GOID)))
		return CONTRADICTS;
	return is_goid(s, parent) ? AGREES : NEUTRAL;
}

/* Without the main goroutine nobody is known to have no parent. */
static bool fits_parent(struct sight *s, uint32_t offset)
{
	return main_g(s, cal_offset(s, GO_G_STARTPC)) && cal_gs_agree(s, offset, 8, LEAST_GS, is_parent);
}

/* ---- all of them ---- */

struct proof {
	enum go_field field;
	offset_test *test;
	uint32_t step;
	const char *name;	/* NULL: one can do without it */
};

static const struct proof numbers[] = {
	{ GO_G_STARTPC, fits_start, 8, "g.startpc" },
	{ GO_G_GOID, fits_goid, 8, "g.goid" },
	{ GO_G_ATOMICSTATUS, fits_status, 4, "g.atomicstatus" },
	{ GO_G_GOPC, fits_creator, 8, NULL },
	{ GO_G_PARENTGOID, fits_parent, 8, NULL },
};

static bool prove(struct sight *s, const struct proof *p)
{
	int32_t o;

	if (p->field == GO_G_PARENTGOID && cal_offset(s, GO_G_GOPC) < 0)
		return true;
	o = cal_only(s, CAL_G_BYTES, p->step, p->test);
	if (!cal_set(s, p->field, o, p->step) && p->name) {
		s->missing = p->name;
		return false;
	}
	return true;
}

static enum verdict lacks(struct sight *s, const char *what)
{
	s->missing = what;
	return MISFIT;
}

static enum verdict find_sched(struct sight *s)
{
	int32_t self = cal_only(s, CAL_G_BYTES, 8, fits_self), pc, sp;

	if (!cal_set(s, GO_G_SCHED_G, self, 8))
		return lacks(s, "g.sched");
	for (size_t i = 0; i < s->n_gs; i++)
		s->gs[i].self = g_word(&s->gs[i], self) == s->gs[i].at;
	pc = cal_only(s, CAL_G_BYTES, 8, fits_pc);
	if (!cal_set(s, GO_G_SCHED_PC, pc, 8)) {
		s->missing = "g.sched.pc";
		return NOT_UP;		/* nobody has parked, unless there are enough goroutines */
	}
	find_parked(s, pc);
	sp = cal_only(s, CAL_G_BYTES, 8, fits_sp);
	if (!cal_set(s, GO_G_SCHED_SP, sp, 8))
		return lacks(s, "g.sched.sp");
	keep_parked(s, sp);
	read_callers(s, sp);
	(void)cal_set(s, GO_G_SCHED_BP, cal_only(s, CAL_G_BYTES, 8, fits_bp), 8);
	return FITS;
}

enum verdict cal_gs(struct sight *s)
{
	enum verdict v = find_sched(s);
	int32_t stack;

	if (v != FITS)
		return v;
	stack = cal_only(s, CAL_G_BYTES - 8, 8, fits_stack);
	if (!cal_set(s, GO_G_STACK_LO, stack, 8) || !cal_set(s, GO_G_STACK_HI, stack + 8, 8))
		return lacks(s, "g.stack");
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (!prove(s, &numbers[i]))
			return MISFIT;
	cal_calls(s);
	return FITS;
}
