/*
 * calibrate_calls.c: members of g that say where a goroutine entered a system call, and since when
 * it waits.
 *
 * The pc of a system call stands behind a call of entersyscall, and stays there when it is over; the
 * sp beside it is 0 then. Times are written by the collector, into many gs the same one. Neither
 * needs to be there at the moment of the look: then the code of reentersyscall helps with the first
 * two, and the third stays unknown.
 *
 * Upstream: src/runtime/proc.go (reentersyscall, exitsyscall, oneNewExtraM), mgcmark.go (waitsince).
 */
#include "base/clock.h"
#include "go/calibrate_impl.h"

enum { LEAST_SHARED = 3 };

/* ---- system calls ---- */

static bool on_own_stack(struct sight *s, const struct seen_g *g, uint64_t sp)
{
	return sp > g_word(g, cal_offset(s, GO_G_STACK_LO)) && sp < g_word(g, cal_offset(s, GO_G_STACK_HI));
}

/* It stays when the call is over, so nearly every goroutine that does input or output has one. */
static enum opinion is_syscall_pc(struct sight *s, const struct seen_g *g, uint32_t offset)
{
	static const char *const enters[] = { "runtime.entersyscall", "runtime.entersyscallblock" };
	uint64_t pc = g_word(g, (int32_t)offset);

	if (!cal_has_begun(s, g))
		return NEUTRAL;		/* of a C thread: made as if it were in a system call */
	if (!pc)
		return cal_status(s, g) == G_SYSCALL ? CONTRADICTS : NEUTRAL;
	for (size_t i = 0; i < sizeof(enters) / sizeof(enters[0]); i++)
		if (cal_called(s, pc, enters[i]))
			return AGREES;
	return CONTRADICTS;
}

static bool fits_syscall_pc(struct sight *s, uint32_t offset)
{
	return cal_gs_agree(s, offset, 8, 1, is_syscall_pc);
}

/* This one is 0 whenever the goroutine is in none. */
static enum opinion is_syscall_sp(struct sight *s, const struct seen_g *g, uint32_t offset)
{
	uint64_t sp = g_word(g, (int32_t)offset);

	if (!cal_has_begun(s, g))
		return NEUTRAL;
	if (cal_status(s, g) == G_SYSCALL)
		return on_own_stack(s, g, sp) ? AGREES : CONTRADICTS;
	return sp == 0 || on_own_stack(s, g, sp) ? NEUTRAL : CONTRADICTS;
}

/* Has no parked one a value? */
static bool zero_when_parked(struct sight *s, uint32_t offset)
{
	for (size_t i = 0; i < s->n_parked; i++)
		if (g_word(s->parked[i].g, (int32_t)offset))
			return false;
	return true;
}

static bool fits_syscall_sp(struct sight *s, uint32_t offset)
{
	return cal_gs_agree(s, offset, 8, 1, is_syscall_sp) && zero_when_parked(s, offset);
}

/* Could syscallsp stand here, and syscallpc behind it, as far as can be seen? */
static bool pair_fits(struct sight *s, int32_t sp)
{
	return sp % 8 == 0 && sp + 16 <= CAL_G_BYTES && sp != cal_offset(s, GO_G_SCHED_SP) &&
	       sp != cal_offset(s, GO_G_SCHED_PC) && zero_when_parked(s, (uint32_t)sp) &&
	       cal_gs_agree(s, (uint32_t)sp, 8, 0, is_syscall_sp) &&
	       cal_gs_agree(s, (uint32_t)sp + 8, 8, 0, is_syscall_pc);
}

/* The only pair that reentersyscall sets and that can be it. */
static int32_t claimed_pair(struct sight *s)
{
	int32_t found = CAL_NONE;

	for (uint32_t i = 0; i < s->claims.n_pairs; i++) {
		if (!pair_fits(s, s->claims.pairs[i]) || s->claims.pairs[i] == found)
			continue;
		if (found != CAL_NONE)
			return CAL_NONE;
		found = s->claims.pairs[i];
	}
	return found;
}

/* One without the other says nothing, so both or none. */
static void find_syscall(struct sight *s)
{
	int32_t pc = cal_only(s, CAL_G_BYTES, 8, fits_syscall_pc);
	int32_t sp = cal_only(s, CAL_G_BYTES, 8, fits_syscall_sp);
	int32_t pair = claimed_pair(s);

	if (sp < 0)
		sp = pair;
	if (pc < 0 && pair >= 0)
		pc = pair + 8;
	if (pc < 0 || sp < 0 || (pair >= 0 && (sp != pair || pc != pair + 8)))
		return;
	(void)cal_set(s, GO_G_SYSCALLPC, pc, 8);
	(void)cal_set(s, GO_G_SYSCALLSP, sp, 8);
}

/* ---- since when ---- */

/* A collection writes the time at which it began into all gs that it finds blocked: equal ones. */
static size_t share_a_time(struct sight *s, uint32_t offset, uint64_t time)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_parked; i++)
		n += g_word(s->parked[i].g, (int32_t)offset) == time;
	return n;
}

/* Pointers may be shared, too. What can be read is none of ours. */
static bool is_time(struct sight *s, uint64_t w)
{
	static const uint64_t second = 1000000000;
	struct error *err;
	uint8_t byte;
	bool readable;

	if (w < second || w > system_clock.mono(&system_clock))
		return false;
	err = target_read(s->t, w, &byte, 1);
	readable = !err;
	error_free(err);
	return !readable;
}

static bool fits_waitsince(struct sight *s, uint32_t offset)
{
	size_t most = 0;

	if (cal_g_taken(s, offset))
		return false;
	for (size_t i = 0; i < s->n_gs; i++) {
		const struct seen_g *g = &s->gs[i];
		uint64_t w;
		size_t n;

		if (!cal_has_begun(s, g))
			continue;
		if (offset + 8 > g->len)
			return false;
		w = g_word(g, (int32_t)offset);
		if (!w)
			continue;
		if ((cal_status(s, g) != G_WAITING && cal_status(s, g) != G_LEAKED) || !is_time(s, w))
			return false;
		n = share_a_time(s, offset, w);
		most = n > most ? n : most;
	}
	return most >= LEAST_SHARED;
}

void cal_calls(struct sight *s)
{
	find_syscall(s);
	(void)cal_set(s, GO_G_WAITSINCE, cal_only(s, CAL_G_BYTES, 8, fits_waitsince), 8);
}
