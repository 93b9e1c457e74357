/*
 * callsite.c: the bytes before a return address are a CALL, and a direct CALL leads to the callee.
 *
 * Five things look like violations and are none:
 * - goexit is on every stack though nothing called it: its "return address" was put there by newproc;
 * - code on another stack follows no call (systemstack, mcall, asmcgocall switch, gogo jumps);
 * - a call may lead to a function that goes on to the callee by a jump (method wrappers,
 *   morestack_noctxt) and leaves no frame of its own;
 * - a call may lead into the inside of its callee (duffzero, duffcopy) or to a linker's stub;
 * - where jmpdefer exists (up to Go 1.17), a deferred function returns to the call of deferreturn itself,
 *   which then looks for the next one: the call stands at the return address, not before it.
 *
 * Upstream: src/runtime/asm_amd64.s, src/cmd/compile (tail calls of wrappers).
 */
#include "go/callsite.h"

#include <string.h>

#include "go/pclntab.h"
#include "insn/insn.h"

enum { JUMP_SCAN_MAX = 512, JUMPS_MAX = 3 };

static bool called_by_nobody(enum go_func_role role)
{
	static const bool table[] = {
		[GO_FUNC_GOEXIT] = true, [GO_FUNC_MSTART] = true, [GO_FUNC_RT0_GO] = true,
		[GO_FUNC_SIGTRAMP] = true, [GO_FUNC_SIGRETURN] = true,
	};

	return role < sizeof(table) / sizeof(table[0]) && table[role];
}

static bool switches_stack(enum go_func_role role)
{
	static const bool table[] = {
		[GO_FUNC_SYSTEMSTACK] = true, [GO_FUNC_SYSTEMSTACK_SWITCH] = true,
		[GO_FUNC_MCALL] = true, [GO_FUNC_MORESTACK] = true, [GO_FUNC_ASMCGOCALL] = true,
		[GO_FUNC_CGOCALLBACK] = true, [GO_FUNC_SIGTRAMP] = true, [GO_FUNC_SIGRETURN] = true,
		[GO_FUNC_GOGO] = true,
	};

	return role < sizeof(table) / sizeof(table[0]) && table[role];
}

static bool inside(const struct go_func *f, gaddr_t pc)
{
	return pc >= f->entry && pc < f->end;
}

/*
 * Does the function at `from` leave by a jump to `callee` (RIGHT), or by one whose target is not
 * known (OPEN)?
 */
static enum call_site jumps_to(struct go_runtime *rt, gaddr_t from, const struct go_func *callee, int depth)
{
	enum call_site best = CALL_SITE_WRONG, site;
	uint8_t code[JUMP_SCAN_MAX];
	struct go_func f;
	struct insn in;
	size_t n, at;

	if (!go_func_find(rt, from, &f))
		return CALL_SITE_OPEN;	/* a linker's stub: no Go function, leads anywhere */
	n = f.end - from < sizeof(code) ? f.end - from : sizeof(code);
	n = go_code_read(rt, from, code, n);
	for (at = 0; at < n && insn_decode(code + at, n - at, from + at, &in); at += in.length) {
		if (in.kind != INSN_JUMP || inside(&f, in.target))
			continue;
		if (inside(callee, in.target))
			return CALL_SITE_RIGHT;
		site = CALL_SITE_OPEN;
		if (in.target)
			site = depth < JUMPS_MAX ? jumps_to(rt, in.target, callee, depth + 1) : CALL_SITE_WRONG;
		if (site == CALL_SITE_RIGHT)
			return site;
		best = site == CALL_SITE_OPEN ? site : best;
	}
	return best;
}

/* Is the instruction at `pc` a call of deferreturn? */
static bool calls_deferreturn(struct go_runtime *rt, gaddr_t pc)
{
	uint8_t code[INSN_MAX];
	size_t n = go_code_read(rt, pc, code, sizeof(code));
	struct go_func f;
	struct insn in;

	return insn_decode(code, n, pc, &in) && in.kind == INSN_CALL && in.target &&
	       go_func_find(rt, in.target, &f) && !strcmp(go_func_name(rt, &f), "runtime.deferreturn");
}

/* The CALL before return_pc: RIGHT when there is one. */
static enum call_site call_before(struct go_runtime *rt, const struct go_func *caller, gaddr_t return_pc,
				  struct insn *call)
{
	uint8_t before[INSN_MAX];
	size_t n = return_pc - caller->entry < sizeof(before) ? return_pc - caller->entry : sizeof(before);

	if (!n || go_code_read(rt, return_pc - n, before, n) != n)
		return CALL_SITE_UNKNOWN;
	if (insn_call_before(before, n, return_pc, call))
		return CALL_SITE_RIGHT;
	if (!calls_deferreturn(rt, return_pc))
		return CALL_SITE_WRONG;
	*call = (struct insn){ .kind = INSN_CALL };	/* which deferred function is open */
	return CALL_SITE_RIGHT;
}

bool go_follows_call(struct go_runtime *rt, gaddr_t return_pc)
{
	struct go_func caller;
	struct insn call;

	return go_func_find(rt, return_pc - 1, &caller) &&
	       call_before(rt, &caller, return_pc, &call) == CALL_SITE_RIGHT;
}

enum call_site go_call_site(struct go_runtime *rt, gaddr_t return_pc, gaddr_t callee_pc)
{
	struct go_func caller, callee;
	enum call_site site;
	struct insn call;

	if (!go_func_find(rt, return_pc - 1, &caller) || !go_func_find(rt, callee_pc, &callee))
		return CALL_SITE_UNKNOWN;
	if (called_by_nobody(caller.role) || switches_stack(callee.role))
		return CALL_SITE_FREE;
	site = call_before(rt, &caller, return_pc, &call);
	if (site != CALL_SITE_RIGHT)
		return site;
	if (!call.target)
		return CALL_SITE_OPEN;
	return inside(&callee, call.target) ? CALL_SITE_RIGHT : jumps_to(rt, call.target, &callee, 0);
}
