/*
 * go_calibrate_world.h: a Go process made by hand in any layout, for the tests of calibration: gs
 * parked as mcall leaves them, ms on a list that ends in the program's data, and between the members
 * what real structs have there: zeros, counters, pointers, places on the stack.
 *
 * The functions it runs are a table here, in place of a function table: the linker takes these in
 * place of the archive's.
 */
#ifndef GOPROF_TEST_GO_CALIBRATE_WORLD_H
#define GOPROF_TEST_GO_CALIBRATE_WORLD_H

#include <stdlib.h>
#include <string.h>

#include "fake/target_fake.h"
#include "go/calibrate_impl.h"
#include "go/settle_impl.h"

enum {
	TEXT = 0x401000, FUNCTION_SIZE = 0x100,
	PARK_AT = 0x20, PARK_FRAME = 0x28,	/* gopark: pc behind the call of mcall, frame there */
	NEWPROC_AT = 0x40, ENTER_AT = 0x60,	/* in every function: behind calls of these two */
	CALLS_AT = 0x80,
	VARS = 0x500000, VARS_SIZE = 0x10000, VAR_STEP = 0x100, M0 = VARS + 0x8000,
	ALLGS = 0xc00000, G = 0xd00000, M = 0xe00000, G0 = 0xf00000, SIGNAL = 0x1000000,
	STACK = 0x2000000, STACK_SIZE = 0x2000, HEAP = 0x3000000,
	G_SIZE = 480, G_STEP = 512, M_SIZE = 2048, M_STEP = 0x1000,
	N_G = 24, N_M = 6, TID = 500, FIRST_TID = 9000,
};

enum function {
	F_MAIN, F_GOPARK, F_NEWPROC, F_ENTERSYSCALL, F_RT0, F_CHANRECV, F_SELECTGO, F_SLEEP, F_FORCEGC,
	F_BGSWEEP, F_BGSCAVENGE, F_WORKER, F_READER, N_FUNCTIONS,
};

static const char *const function_names[N_FUNCTIONS] = {
	"runtime.main", "runtime.gopark", "runtime.newproc", "runtime.entersyscall", "runtime.rt0_go",
	"runtime.chanrecv", "runtime.selectgo", "time.Sleep", "runtime.forcegchelper", "runtime.bgsweep",
	"runtime.bgscavenge", "main.worker", "main.reader",
};

static inline gaddr_t entry_of(enum function f)
{
	return TEXT + (gaddr_t)f * FUNCTION_SIZE;
}

/* What go_func_by_name knows; a test takes names away. */
static bool nameless[N_FUNCTIONS];

bool go_func_find(struct go_runtime *rt, gaddr_t pc, struct go_func *ret)
{
	gaddr_t f = (pc - TEXT) / FUNCTION_SIZE;

	(void)rt;
	if (pc < TEXT || f >= N_FUNCTIONS)
		return false;
	*ret = (struct go_func){ .entry = entry_of((enum function)f),
				 .end = entry_of((enum function)f) + FUNCTION_SIZE };
	return true;
}

const char *go_func_name(struct go_runtime *rt, const struct go_func *f)
{
	size_t i = (f->entry - TEXT) / FUNCTION_SIZE;

	(void)rt;
	return nameless[i] ? "?" : function_names[i];
}

bool go_func_by_name(struct go_runtime *rt, const char *name, uint32_t *pos, struct go_func *ret)
{
	for (uint32_t i = *pos; i < N_FUNCTIONS; i++) {
		if (nameless[i] || strcmp(function_names[i], name) != 0)
			continue;
		*pos = i + 1;
		return go_func_find(rt, entry_of((enum function)i), ret);
	}
	return false;
}

int32_t go_func_spdelta(struct go_runtime *rt, const struct go_func *f, gaddr_t pc)
{
	(void)rt;
	return f->entry == entry_of(F_GOPARK) && pc == f->entry + PARK_AT ? PARK_FRAME : 0x10;
}

/* A byte of code: calls of newproc and entersyscall stand at fixed places, the rest is nop. */
static uint8_t code_at(gaddr_t at)
{
	static const struct {
		int end;
		enum function to;
	} calls[] = { { NEWPROC_AT, F_NEWPROC }, { ENTER_AT, F_ENTERSYSCALL } };
	gaddr_t offset = (at - TEXT) % FUNCTION_SIZE, base = at - offset;

	for (int i = 0; i < 2; i++) {
		gaddr_t start = (gaddr_t)calls[i].end - 5;
		uint32_t rel = (uint32_t)(entry_of(calls[i].to) - (base + (gaddr_t)calls[i].end));

		if (offset == start)
			return 0xe8;
		if (offset > start && offset < start + 5)
			return (uint8_t)(rel >> (8 * (offset - start - 1)));
	}
	return 0x90;
}

size_t go_code_read(struct go_runtime *rt, gaddr_t pc, void *buf, size_t len)
{
	(void)rt;
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = code_at(pc + i);
	return len;
}

static const char *const reasons[] = {
	"", "GC assist marking", "IO wait", "chan receive", "chan send", "force gc (idle)", "GC sweep wait",
	"GC scavenge wait", "select", "sleep", "semacquire",
};

const char *go_wait_reason(struct go_runtime *rt, uint8_t reason)
{
	(void)rt;
	return reason < sizeof(reasons) / sizeof(reasons[0]) ? reasons[reason] : NULL;
}

/* ---- claims of the code: what a test says ---- */

static struct code_claims claims;

static void no_claims(void)
{
	memset(&claims, 0xff, sizeof(claims));
	claims.n_pairs = 0;
}

void cal_code(struct go_runtime *rt, struct code_claims *ret)
{
	(void)rt;
	*ret = claims;
}

/* ---- the process ---- */

struct world {
	struct target *t;
	struct go_process process;
	struct go_runtime *rt;
	struct go_layout real;	/* what its memory is written in */
	uint64_t random;
	bool idle;		/* no m runs a goroutine, none is in a system call, no labels */
};

static uint64_t world_random(struct world *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

static void poke(struct world *w, gaddr_t at, enum go_field f, uint64_t value)
{
	if (go_has(&w->real, f))
		target_fake_poke(w->t, at + (gaddr_t)w->real.f[f].offset, &value, w->real.f[f].size);
}

static void poke_global(struct world *w, enum go_global g, uint64_t value)
{
	target_fake_poke_u64(w->t, w->rt->globals[g].addr, value);
}

static gaddr_t g_at(int i)
{
	return G + (gaddr_t)i * G_STEP;
}

static gaddr_t m_at(int i)
{
	return i + 1 < N_M ? M + (gaddr_t)i * M_STEP : M0;
}

static gaddr_t g0_at(int i)
{
	return G0 + (gaddr_t)i * G_STEP;
}

static gaddr_t signal_at(int i)
{
	return SIGNAL + (gaddr_t)i * G_STEP;
}

static gaddr_t stack_of(int i)
{
	return STACK + (gaddr_t)i * 2 * STACK_SIZE;
}

/* Who a goroutine is: where it began, who called gopark, and the reason that goes with it. */
static const struct role {
	enum function start, caller;
	uint8_t reason;
} roles[] = {
	{ F_MAIN, F_CHANRECV, 3 }, { F_FORCEGC, F_FORCEGC, 5 }, { F_BGSWEEP, F_BGSWEEP, 6 },
	{ F_BGSCAVENGE, F_BGSCAVENGE, 7 }, { F_WORKER, F_SELECTGO, 8 }, { F_WORKER, F_SLEEP, 9 },
	{ F_WORKER, F_CHANRECV, 3 }, { F_READER, F_WORKER, 10 },
};

enum { N_ROLES = sizeof(roles) / sizeof(roles[0]), RUNNING = 10, IN_SYSCALL = 12, DEAD = 14, LABELLED = 6 };

static const struct role *role_of(int i)
{
	return &roles[i < 4 ? i : 4 + i % (N_ROLES - 4)];
}

static void write_parked(struct world *w, int i)
{
	gaddr_t sp = stack_of(i) + STACK_SIZE - 0x400 - 16 * (gaddr_t)i;

	poke(w, g_at(i), GO_G_ATOMICSTATUS, G_WAITING);
	poke(w, g_at(i), GO_G_WAITREASON, role_of(i)->reason);
	poke(w, g_at(i), GO_G_SCHED_SP, sp);
	poke(w, g_at(i), GO_G_SCHED_PC, entry_of(F_GOPARK) + PARK_AT);
	poke(w, g_at(i), GO_G_SCHED_BP, sp + PARK_FRAME - 8);
	target_fake_poke_u64(w->t, sp - 8, entry_of(F_GOPARK) + PARK_AT);
	target_fake_poke_u64(w->t, sp + PARK_FRAME, entry_of(role_of(i)->caller) + CALLS_AT);
}

static void write_running(struct world *w, int i)
{
	poke(w, g_at(i), GO_G_ATOMICSTATUS, G_RUNNING);
	poke(w, g_at(i), GO_G_SCHED_SP, 0);	/* gogo clears it, and leaves the pc */
	poke(w, g_at(i), GO_G_M, m_at(0));
	poke(w, m_at(0), GO_M_CURG, g_at(i));
}

static void write_in_syscall(struct world *w, int i)
{
	poke(w, g_at(i), GO_G_ATOMICSTATUS, G_SYSCALL);
	poke(w, g_at(i), GO_G_SCHED_PC, entry_of(F_READER) + ENTER_AT);
	poke(w, g_at(i), GO_G_SCHED_SP, stack_of(i) + STACK_SIZE - 0x300);
	poke(w, g_at(i), GO_G_M, m_at(1));
	poke(w, m_at(1), GO_M_CURG, g_at(i));
	poke(w, g_at(i), GO_G_SYSCALLSP, stack_of(i) + STACK_SIZE - 0x300);
	poke(w, g_at(i), GO_G_SYSCALLPC, entry_of(F_READER) + ENTER_AT);
}

/* A list of one pair, as labels are from 1.24 on. */
static void write_labels(struct world *w, int i)
{
	gaddr_t at = HEAP + 0x1000 + (gaddr_t)i * 0x100;
	const uint64_t set[] = { at + 24, 1, 1, at + 64, 3, at + 72, 5 };

	target_fake_poke(w->t, at, set, sizeof(set));
	target_fake_poke(w->t, at + 64, "key", 3);
	target_fake_poke(w->t, at + 72, "value", 5);
	poke(w, g_at(i), GO_G_LABELS, at);
}

static void write_g(struct world *w, int i)
{
	const gaddr_t creator = i ? entry_of(F_MAIN) : entry_of(F_RT0);

	poke(w, g_at(i), GO_G_STACK_LO, stack_of(i));
	poke(w, g_at(i), GO_G_STACK_HI, stack_of(i) + STACK_SIZE);
	poke(w, g_at(i), GO_G_SCHED_G, g_at(i));
	poke(w, g_at(i), GO_G_GOID, i < 4 ? 1 + (uint64_t)i : 17 + 5 * (uint64_t)i);
	poke(w, g_at(i), GO_G_PARENTGOID, i ? 1 : 0);
	poke(w, g_at(i), GO_G_GOPC, creator + NEWPROC_AT);
	poke(w, g_at(i), GO_G_STARTPC, entry_of(role_of(i)->start));
	target_fake_poke_u64(w->t, ALLGS + (gaddr_t)i * 8, g_at(i));
	write_parked(w, i);
	if (i == DEAD) {
		poke(w, g_at(i), GO_G_ATOMICSTATUS, G_DEAD);
		poke(w, g_at(i), GO_G_SCHED_PC, entry_of(F_WORKER) + CALLS_AT);
	} else if (i == RUNNING && !w->idle) {
		write_running(w, i);
	} else if (i == IN_SYSCALL && !w->idle) {
		write_in_syscall(w, i);
	} else if (i % LABELLED == 5 && !w->idle) {
		write_labels(w, i);
	}
}

static void write_m(struct world *w, int i)
{
	gaddr_t g0 = g0_at(i), signal = signal_at(i);

	poke(w, m_at(i), GO_M_G0, g0);
	poke(w, g0, GO_G_M, m_at(i));
	poke(w, g0, GO_G_SCHED_G, g0);
	poke(w, g0, GO_G_GOID, 0);
	poke(w, m_at(i), GO_M_GSIGNAL, signal);
	poke(w, signal, GO_G_M, m_at(i));
	poke(w, signal, GO_G_SCHED_G, 0);
	poke(w, signal, GO_G_GOID, 0);
	poke(w, m_at(i), GO_M_CURG, 0);
	poke(w, m_at(i), GO_M_PROCID, TID + (uint64_t)(N_M - 1 - i));
	poke(w, m_at(i), GO_M_ID, (uint64_t)(N_M - 1 - i));
	poke(w, m_at(i), GO_M_ALLLINK, i + 1 < N_M ? m_at(i + 1) : 0);
}

/* What stands where no member is looked for: in all structs of a kind the same sort of thing. */
enum filling { ZERO, COUNT, POINTER, OWN_STACK, SAME, FILLINGS };

static uint64_t filling_of(struct world *w, enum filling kind, int i)
{
	switch (kind) {
	case COUNT:
		return world_random(w) % 1000;
	case POINTER:
		return HEAP + world_random(w) % 0x100 * 8;
	case OWN_STACK:
		return stack_of(i) + STACK_SIZE - 0x20;
	case SAME:
		return 0xa5a5a5;
	default:
		return 0;
	}
}

static void fill(struct world *w, gaddr_t (*at)(int i), size_t size, int n)
{
	for (size_t o = 0; o < size; o += 8) {
		enum filling kind = (enum filling)(world_random(w) % FILLINGS);

		for (int i = 0; i < n; i++)
			target_fake_poke_u64(w->t, at(i) + o, filling_of(w, kind, i));
	}
}

static void zero_members(struct world *w, gaddr_t at, enum go_field first, enum go_field last)
{
	for (int f = first; f <= (int)last; f++)
		if (w->real.f[f].size <= 8)
			poke(w, at, (enum go_field)f, 0);
}

static void world_write(struct world *w)
{
	fill(w, g_at, G_SIZE, N_G);
	fill(w, g0_at, G_SIZE, N_M);
	fill(w, signal_at, G_SIZE, N_M);
	fill(w, m_at, M_SIZE, N_M);
	for (int i = 0; i < N_M; i++) {
		zero_members(w, m_at(i), GO_M_G0, GO_M_ISEXTRA);
		zero_members(w, g0_at(i), GO_G_STACK_LO, GO_G_BUBBLE);
		zero_members(w, signal_at(i), GO_G_STACK_LO, GO_G_BUBBLE);
	}
	for (int i = 0; i < N_M; i++)
		write_m(w, i);
	for (int i = 0; i < N_G; i++)
		zero_members(w, g_at(i), GO_G_STACK_LO, GO_G_BUBBLE);
	for (int i = 0; i < N_G; i++)
		write_g(w, i);
	poke_global(w, GO_ALLGLEN, N_G);
	poke_global(w, GO_ALLGPTR, ALLGS);
	poke_global(w, GO_ALLM, m_at(0));
}

/* A process of this layout; the runtime knows nothing of it but where the lists are. */
static void world_open(struct world *w, const struct go_layout *real, uint64_t seed, bool idle)
{
	*w = (struct world){ .real = *real, .random = seed * 0x9e3779b97f4a7c15u + 1, .idle = idle };
	if (target_fake_create(&w->t) || !(w->rt = calloc(1, sizeof(*w->rt))))
		abort();
	target_fake_add(w->t, VARS, NULL, VARS_SIZE);
	target_fake_add(w->t, ALLGS, NULL, N_G * 8);
	target_fake_add(w->t, G, NULL, N_G * G_STEP);
	target_fake_add(w->t, M, NULL, N_M * M_STEP);
	target_fake_add(w->t, G0, NULL, N_M * G_STEP);
	target_fake_add(w->t, SIGNAL, NULL, N_M * G_STEP);
	target_fake_add(w->t, STACK, NULL, N_G * 2 * STACK_SIZE);
	target_fake_add(w->t, HEAP, NULL, 0x4000);
	for (int i = 0; i < N_M; i++)
		target_fake_add_tid(w->t, FIRST_TID + i, TID + i);
	target_fake_set_pid(w->t, FIRST_TID, 1);
	target_fake_task(w->t, FIRST_TID + 1, "1 2 3\n", "35 0x0 0x0 0x0 0x0 0x0 0x0 0x7000 0x401010\n");
	w->process = (struct go_process){ .target = w->t };
	w->rt->process = &w->process;
	w->rt->n_modules = 1;
	w->rt->modules[0] = (struct go_module){ .noptrdata = VARS, .enoptrbss = VARS + VARS_SIZE };
	arena_init(&w->rt->strings);
	strcpy(w->rt->build.version, "go1.99.1");
	w->rt->build.minor = 99;
	go_layout_forget(&w->rt->layout);
	for (int g = 0; g < GO_GLOBAL_COUNT; g++)
		w->rt->globals[g] = (struct go_global_at){ VARS + (gaddr_t)g * VAR_STEP, GO_SOURCE_CODE };
	world_write(w);
}

static void world_close(struct world *w)
{
	arena_deinit(&w->rt->strings);
	free(w->rt);
	target_close(w->t);
}

#endif
