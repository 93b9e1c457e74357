/*
 * audit.c: stacks are checked against the code: a return address stands behind a call, and a direct
 * call leads to the frame above it. What counts as one is lib/unwind's and lib/go's question; here
 * each pair of caller and callee is decoded once.
 */
#include "base/log.h"
#include "sample/sample_impl.h"

enum { PAIRS_MAX = 1 << 16 };	/* 2 MiB */

void audit_init(struct audit *a)
{
	*a = (struct audit){ .checked = 0 };
	map64_init(&a->calls);
}

void audit_deinit(struct audit *a)
{
	map64_deinit(&a->calls);
}

static uint64_t pair_key(const struct pc_frame *callee, const struct pc_frame *caller)
{
	const uint64_t pair[3] = { caller->pc, callee->pc, callee->kind };

	return hash_bytes(pair, sizeof(pair));
}

static enum call_site check_pair(struct audit *a, struct go_runtime *rt, const struct pc_frame *callee,
				 const struct pc_frame *caller, bool *fresh)
{
	uint64_t key = pair_key(callee, caller);
	uint32_t known = map64_get(&a->calls, key);

	*fresh = known == MAP_NONE;
	if (!*fresh)
		return known;
	if (a->calls.n >= PAIRS_MAX)
		map64_clear(&a->calls);
	known = unwind_call_site(rt, callee, caller);
	error_free(map64_put(&a->calls, key, known));
	a->checked++;
	if (known == CALL_SITE_WRONG)
		log_info("audit", "no call of %#llx before %#llx", (unsigned long long)callee->pc,
			 (unsigned long long)caller->pc);
	return known;
}

size_t audit_stack(struct audit *a, struct go_runtime *rt, const struct pc_frame *frames, size_t n,
		   bool fresh_only)
{
	size_t wrong = 0;
	bool fresh;

	for (size_t i = 0; i + 1 < n; i++) {
		if (!pc_frames_call(&frames[i], &frames[i + 1]))
			continue;
		if (check_pair(a, rt, &frames[i], &frames[i + 1], &fresh) == CALL_SITE_WRONG)
			wrong += fresh || !fresh_only;
	}
	return wrong;
}
