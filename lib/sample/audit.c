/*
 * audit.c: every new stack is checked against the code: a return address stands behind a call, and
 * a direct call leads to the frame above it. Wrong ones are counted and shown in the health
 * figures; they must not occur. Each pair of caller and callee is decoded once.
 */
#include "base/log.h"
#include "go/callsite.h"
#include "sample/sample_impl.h"

enum { PAIRS_MAX = 1 << 18 };

static bool is_go(const struct pc_frame *f)
{
	return f->kind != PC_NATIVE && f->kind != PC_GAP && f->pc;
}

static void check_pair(struct intern *in, const struct pc_frame *callee, gaddr_t return_pc)
{
	gaddr_t callee_pc = callee->kind == PC_RETURN ? callee->pc - 1 : callee->pc;
	uint64_t pair[2] = { return_pc, callee_pc }, key = hash_bytes(pair, sizeof(pair));
	uint32_t known = map64_get(&in->calls, key);

	if (known != MAP_NONE)
		return;
	if (in->calls.n >= PAIRS_MAX)
		map64_clear(&in->calls);
	known = go_call_site(in->rt, return_pc, callee_pc);
	error_free(map64_put(&in->calls, key, known));
	profile_health_add(in->profile, HEALTH_CALLS_AUDITED, 1);
	if (known == CALL_SITE_WRONG) {
		profile_health_add(in->profile, HEALTH_CALLS_WRONG, 1);
		log_info("audit", "no call of %#llx before %#llx", (unsigned long long)callee_pc,
			  (unsigned long long)return_pc);
	}
}

void audit_stack(struct intern *in, const struct pc_frame *frames, size_t n)
{
	for (size_t i = 0; i + 1 < n; i++)
		if (frames[i + 1].kind == PC_RETURN && is_go(&frames[i]))
			check_pair(in, &frames[i], frames[i + 1].pc);
}
