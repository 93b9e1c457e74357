/*
 * goroutine.c: the bytes of a g or an m, turned into values by a layout.
 *
 * It must not know where the bytes came from or whether they are torn: whoever reads them reads
 * the header twice. A member that the version does not have is 0. Both ends are little endian.
 *
 * Upstream: src/runtime/runtime2.go (type g, m), traceback.go (gStatusStrings,
 * isSystemGoroutine), mfinal.go and mcleanup.go (when the runtime's workers run user code).
 */
#include <string.h>

#include "go/go_impl.h"

/* What g_parse reads, for g_span. */
static const enum go_field g_fields[] = {
	GO_G_STACK_LO, GO_G_STACK_HI, GO_G_M, GO_G_SCHED_SP, GO_G_SCHED_PC, GO_G_SCHED_BP,
	GO_G_SYSCALLSP, GO_G_SYSCALLPC, GO_G_SYSCALLBP, GO_G_ATOMICSTATUS, GO_G_GOID, GO_G_WAITSINCE,
	GO_G_WAITREASON, GO_G_TRACKINGSEQ, GO_G_RUNNINGCLEANUPS, GO_G_LOCKEDM, GO_G_PARENTGOID,
	GO_G_GOPC, GO_G_STARTPC, GO_G_LABELS,
};

static const enum go_field m_fields[] = {
	GO_M_G0, GO_M_PROCID, GO_M_GSIGNAL, GO_M_CURG, GO_M_P, GO_M_ID, GO_M_NCGO, GO_M_ALLLINK,
	GO_M_LOCKEDG, GO_M_VDSOSP, GO_M_VDSOPC,
};

static size_t span_of(const struct go_layout *l, const enum go_field *v, size_t n)
{
	size_t end = 0;

	for (size_t i = 0; i < n; i++) {
		const struct go_field_at *f = &l->f[v[i]];

		if (f->offset >= 0 && (size_t)f->offset + f->size > end)
			end = (size_t)f->offset + f->size;
	}
	return end;
}

size_t g_span(const struct go_layout *l)
{
	return span_of(l, g_fields, sizeof(g_fields) / sizeof(g_fields[0]));
}

size_t m_span(const struct go_layout *l)
{
	return span_of(l, m_fields, sizeof(m_fields) / sizeof(m_fields[0]));
}

static const enum go_field core[] = {
	GO_G_STACK_LO, GO_G_STACK_HI, GO_G_M, GO_G_SCHED_SP, GO_G_SCHED_PC, GO_G_SCHED_G, GO_G_ATOMICSTATUS,
	GO_G_GOID, GO_G_STARTPC, GO_M_G0, GO_M_PROCID, GO_M_CURG, GO_M_ALLLINK,
};

bool go_layout_has_core(const struct go_layout *l)
{
	for (size_t i = 0; i < sizeof(core) / sizeof(core[0]); i++)
		if (!go_has(l, core[i]))
			return false;
	return true;
}

static bool is_core(enum go_field f)
{
	for (size_t i = 0; i < sizeof(core) / sizeof(core[0]); i++)
		if (core[i] == f)
			return true;
	return false;
}

/* Forgets the last member; false when it is one that is needed: then nothing makes the span shorter. */
static bool forget_last(struct go_layout *l, const enum go_field *v, size_t n)
{
	size_t end = span_of(l, v, n);
	bool forgot = false;

	for (size_t i = 0; i < n; i++) {
		struct go_field_at *f = &l->f[v[i]];

		if (is_core(v[i]) || f->offset < 0 || (size_t)f->offset + f->size != end)
			continue;
		*f = (struct go_field_at){ .offset = -1 };
		forgot = true;
	}
	return forgot;
}

/* Members of a fingerprint have the same size in every version; what has another one is something else. */
static void forget_misfits(struct go_layout *l)
{
	static const struct {
		enum go_field field;
		uint32_t size;
	} sizes[] = {
		{ GO_G_SYSCALLSP, 8 }, { GO_G_SYSCALLPC, 8 }, { GO_G_SYSCALLBP, 8 }, { GO_G_SCHED_SP, 8 },
		{ GO_G_SCHED_PC, 8 }, { GO_G_SCHED_BP, 8 }, { GO_G_GOID, 8 }, { GO_G_STACK_HI, 8 },
		{ GO_G_LABELS, 8 }, { GO_G_WAITREASON, 1 }, { GO_G_TRACKINGSEQ, 1 },
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (l->f[sizes[i].field].size != sizes[i].size)
			l->f[sizes[i].field].offset = -1;
}

void go_layout_shorten(struct go_layout *l)
{
	enum { N_G = sizeof(g_fields) / sizeof(g_fields[0]), N_M = sizeof(m_fields) / sizeof(m_fields[0]) };
	bool going = true;

	forget_misfits(l);
	while (going && g_span(l) > GO_G_SPAN_MAX)
		going = forget_last(l, g_fields, N_G);
	while (going && g_span(l) + m_span(l) > GO_SPANS_MAX)
		going = forget_last(l, m_fields, N_M) || forget_last(l, g_fields, N_G);
}

static inline uint64_t value(const struct go_layout *l, const uint8_t *bytes, enum go_field id)
{
	const struct go_field_at *f = &l->f[id];
	uint64_t v = 0;
	uint32_t half;

	if (f->offset < 0)
		return 0;
	switch (f->size) {	/* constant sizes: one load each instead of a call of memcpy */
	case 8:
		memcpy(&v, bytes + f->offset, 8);
		return v;
	case 4:
		memcpy(&half, bytes + f->offset, 4);	/* in 64 bits, it would be loaded before it is stored */
		return half;
	case 1:
		return bytes[f->offset];
	default:
		memcpy(&v, bytes + f->offset, f->size < 8 ? f->size : 8);
		return v;
	}
}

void g_parse(const struct go_layout *l, gaddr_t g, const uint8_t *bytes, struct g_look *ret)
{
	uint32_t status = (uint32_t)value(l, bytes, GO_G_ATOMICSTATUS);

	*ret = (struct g_look){
		.g = g,
		.goid = value(l, bytes, GO_G_GOID),
		.status = status & ~(uint32_t)G_SCAN,
		.scan = (status & G_SCAN) != 0,
		.waitreason = (uint8_t)value(l, bytes, GO_G_WAITREASON),
		.trackingseq = (uint8_t)value(l, bytes, GO_G_TRACKINGSEQ),
		.running_cleanups = value(l, bytes, GO_G_RUNNINGCLEANUPS) != 0,
		.waitsince = (int64_t)value(l, bytes, GO_G_WAITSINCE),
		.sched_pc = value(l, bytes, GO_G_SCHED_PC),
		.sched_sp = value(l, bytes, GO_G_SCHED_SP),
		.sched_bp = value(l, bytes, GO_G_SCHED_BP),
		.syscall_pc = value(l, bytes, GO_G_SYSCALLPC),
		.syscall_sp = value(l, bytes, GO_G_SYSCALLSP),
		.syscall_bp = value(l, bytes, GO_G_SYSCALLBP),
		.stack_lo = value(l, bytes, GO_G_STACK_LO),
		.stack_hi = value(l, bytes, GO_G_STACK_HI),
		.startpc = value(l, bytes, GO_G_STARTPC),
		.gopc = value(l, bytes, GO_G_GOPC),
		.parent_goid = value(l, bytes, GO_G_PARENTGOID),
		.labels = value(l, bytes, GO_G_LABELS),
		.m = value(l, bytes, GO_G_M),
		.lockedm = value(l, bytes, GO_G_LOCKEDM),
		.fingerprint = g_fingerprint(l, bytes),
	};
}

/*
 * Two values into 64 bits through their 128-bit product: pairs do not wait for one another, which
 * makes it about twice as fast as a chain. The constants are any odd numbers with mixed bits.
 */
static inline uint64_t mix(uint64_t a, uint64_t b, uint64_t salt)
{
	unsigned __int128 p = (unsigned __int128)(a ^ salt) * (b ^ 0x9e3779b97f4a7c15u);

	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/*
 * This runs for ten thousand goroutines per tick: loads do not look at the sizes of members, which are as they
 * should be (go_layout_shorten).
 */
static inline uint64_t word(const struct go_layout *l, const uint8_t *bytes, enum go_field id)
{
	int32_t at = l->f[id].offset;
	uint64_t v = 0;

	if (at >= 0)
		memcpy(&v, bytes + at, sizeof(v));
	return v;
}

static inline uint64_t byte(const struct go_layout *l, const uint8_t *bytes, enum go_field id)
{
	int32_t at = l->f[id].offset;

	return at < 0 ? 0 : bytes[at];
}

uint64_t g_fingerprint(const struct go_layout *l, const uint8_t *bytes)
{
	/* The scan bit is not the goroutine's doing. */
	uint64_t status = value(l, bytes, GO_G_ATOMICSTATUS) & ~(uint64_t)G_SCAN;
	uint64_t syscall_sp = word(l, bytes, GO_G_SYSCALLSP);
	/* In a system call sched is what it was at the last park; syscallsp says that it is in one. */
	bool in_call = status == G_SYSCALL || syscall_sp;
	uint64_t sp = in_call ? syscall_sp : word(l, bytes, GO_G_SCHED_SP);
	uint64_t pc = word(l, bytes, in_call ? GO_G_SYSCALLPC : GO_G_SCHED_PC);
	uint64_t bp = word(l, bytes, in_call ? GO_G_SYSCALLBP : GO_G_SCHED_BP);
	uint64_t small = status << 17 | (uint64_t)in_call << 16 | byte(l, bytes, GO_G_WAITREASON) << 8 |
			 byte(l, bytes, GO_G_TRACKINGSEQ);

	return mix(small, word(l, bytes, GO_G_GOID), 0xd6e8feb86659fd93u) ^
	       mix(sp, pc, 0xa0761d6478bd642fu) ^
	       mix(bp, word(l, bytes, GO_G_STACK_HI), 0xe7037ed1a0b428dbu) ^
	       mix(word(l, bytes, GO_G_LABELS), 0x8ebc6af09c88c6e3u, 0x589965cc75374cc3u);
}

const char *g_status_name(uint32_t status)
{
	static const char *const names[] = {
		[G_IDLE] = "idle",
		[G_RUNNABLE] = "runnable",
		[G_RUNNING] = "running",
		[G_SYSCALL] = "syscall",
		[G_WAITING] = "waiting",
		[G_DEAD] = "dead",
		[G_COPYSTACK] = "copystack",
		[G_PREEMPTED] = "preempted",
		[G_LEAKED] = "leaked",
		[G_DEADEXTRA] = "waiting for cgo callback",
	};

	status &= ~(uint32_t)G_SCAN;
	return status < sizeof(names) / sizeof(names[0]) && names[status] ? names[status] : "???";
}

/* ---- whose is it ---- */

/*
 * The finalizer goroutine is the program's while it runs a finalizer. The runtime keeps that in a
 * variable which cannot be found in a stripped program, so: not while it waits for work, and not
 * before it has begun. (For the instants between waking and calling it counts as the program's.)
 */
static bool finalizer_is_system(struct go_runtime *rt, const struct g_look *g)
{
	const char *reason;

	if (g->status != G_WAITING)
		return g->status == G_DEAD || g->sched_pc == g->startpc;
	reason = go_wait_reason(rt, g->waitreason);
	/* Reason 0, whose text is empty, is also what a layout without the member says. */
	return !reason || !*reason || strcmp(reason, "finalizer wait") == 0;
}

static bool never_system(struct go_runtime *rt, const struct g_look *g)
{
	(void)rt;
	(void)g;
	return false;
}

static bool cleanups_are_system(struct go_runtime *rt, const struct g_look *g)
{
	(void)rt;
	return !g->running_cleanups;
}

/* Start functions that are not simply the runtime's. */
static const struct {
	const char *name;
	bool (*is_system)(struct go_runtime *rt, const struct g_look *g);
} exceptions[] = {
	{ "runtime.main", never_system },
	{ "runtime.corostart", never_system },
	{ "runtime.handleAsyncEvent", never_system },
	{ "runtime.runfinq", finalizer_is_system },	/* to 1.24 */
	{ "runtime.runFinalizers", finalizer_is_system },
	{ "runtime.runCleanups", cleanups_are_system },
};

bool g_is_system(struct go_runtime *rt, const struct g_look *g)
{
	struct go_func f;
	const char *name;

	if (!go_func_find(rt, g->startpc, &f))
		return false;
	name = go_func_name(rt, &f);
	for (size_t i = 0; i < sizeof(exceptions) / sizeof(exceptions[0]); i++)
		if (strcmp(name, exceptions[i].name) == 0)
			return exceptions[i].is_system(rt, g);
	return strncmp(name, "runtime.", strlen("runtime.")) == 0;
}

/* ---- m ---- */

void m_parse(const struct go_layout *l, gaddr_t m, const uint8_t *bytes, struct m_look *ret)
{
	*ret = (struct m_look){
		.m = m,
		.g0 = value(l, bytes, GO_M_G0),
		.gsignal = value(l, bytes, GO_M_GSIGNAL),
		.curg = value(l, bytes, GO_M_CURG),
		.p = value(l, bytes, GO_M_P),
		.alllink = value(l, bytes, GO_M_ALLLINK),
		.lockedg = value(l, bytes, GO_M_LOCKEDG),
		.procid = value(l, bytes, GO_M_PROCID),
		.id = (int64_t)value(l, bytes, GO_M_ID),
		.vdso_sp = value(l, bytes, GO_M_VDSOSP),
		.vdso_pc = value(l, bytes, GO_M_VDSOPC),
		.vdso_known = go_has(l, GO_M_VDSOSP),
		.ncgo = (int32_t)value(l, bytes, GO_M_NCGO),
	};
}
