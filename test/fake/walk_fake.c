/*
 * walk_fake.c: see walk_fake.h.
 */
#include "fake/walk_fake.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define FRAMELESS .size = 32, .sp = { { 32, 0 } }
#define FRAME(bytes) .size = 64, .sp = { { 4, 0 }, { 60, bytes }, { 64, 0 } }

static const struct go_fake_func functions[] = {
	{ .name = WALK_LEAF, FRAMELESS },
	{ .name = WALK_MID, FRAME(16), .calls = { { .end = 20, .to = "runtime.asmcgocall" } } },
	{ .name = WALK_BIG, FRAME(32) },
	{ .name = "app.freesp", .flags = GO_FUNC_SPWRITE | GO_FUNC_ASM, FRAMELESS },
	{ .name = "app.external", .size = 32 },			/* no table of stack depths */
	{ .name = "app.hole", .size = 64, .sp = { { 8, 0 } } },	/* one that ends too early */
	{ .name = "runtime.goexit", .flags = GO_FUNC_TOPFRAME | GO_FUNC_ASM, FRAMELESS },
	{ .name = "runtime.mstart", .flags = GO_FUNC_TOPFRAME | GO_FUNC_ASM, FRAMELESS },
	{ .name = "runtime.systemstack", .flags = GO_FUNC_SPWRITE | GO_FUNC_ASM, FRAMELESS },
	{ .name = "runtime.systemstack_switch", .flags = GO_FUNC_ASM, FRAMELESS },
	{ .name = "runtime.mcall", .flags = GO_FUNC_SPWRITE | GO_FUNC_ASM, FRAMELESS },
	{ .name = "runtime.morestack", .flags = GO_FUNC_SPWRITE | GO_FUNC_ASM, FRAMELESS },
	{ .name = "runtime.asmcgocall", .flags = GO_FUNC_SPWRITE | GO_FUNC_ASM, FRAMELESS },
	{ .name = "racecall", .flags = GO_FUNC_SPWRITE | GO_FUNC_ASM, FRAMELESS,
	  .code = "\x90\x90\x90\x90\x90\x90\x90\x90\x49\x89\xe4", .code_len = 11 },	/* keeps sp in r12 at 8 */
	{ .name = "runtime.cgocallback", .flags = GO_FUNC_SPWRITE | GO_FUNC_ASM, FRAME(16) },
	{ .name = "crosscall2", .flags = GO_FUNC_ASM, FRAME(0x48) },
	{ .name = "runtime.gogo", .flags = GO_FUNC_ASM, FRAMELESS },
	{ .name = "runtime.nanotime1", .flags = GO_FUNC_SPWRITE | GO_FUNC_ASM, FRAME(16) },
	{ .name = "gogo", .flags = GO_FUNC_SPWRITE | GO_FUNC_ASM, FRAMELESS },
	{ .name = "runtime.clone", .flags = GO_FUNC_SPWRITE | GO_FUNC_ASM, FRAMELESS },
	{ .name = "runtime.newosproc", FRAME(16), .calls = { { .end = 20, .to = "runtime.clone" } } },
	{ .name = "runtime.execute", FRAME(16) },
	{ .name = "runtime.coroswitch_m", FRAME(16) },
	{ .name = "runtime.newstack", FRAME(16) },
	{ .name = "runtime.schedule", FRAME(16) },
	{ .name = "runtime.park_m", FRAME(16) },
	{ .name = "runtime.sigpanic", FRAME(16) },
	{ .name = "runtime.asyncPreempt", .flags = GO_FUNC_ASM, FRAME(32) },
	{ .name = "runtime.debugCallV2", .flags = GO_FUNC_ASM, FRAME(16) },
	{ .name = "runtime.sigtramp", .flags = GO_FUNC_TOPFRAME | GO_FUNC_ASM, FRAME(16) },
	{ .name = "runtime.sigreturn__sigaction", .flags = GO_FUNC_ASM, FRAMELESS },
};

void walk_setup(struct walk_fake *w)
{
	*w = (struct walk_fake){ .go = go_fake_create(functions, sizeof(functions) / sizeof(*functions), 26) };
	w->views[0] = (struct mem_view){ WALK_G_LO, sizeof(w->g), (const uint8_t *)w->g };
	w->views[1] = (struct mem_view){ WALK_M_LO, sizeof(w->m), (const uint8_t *)w->m };
	w->n_views = 2;
	w->start.goroutine.lo = WALK_G_LO;
	w->start.goroutine.hi = walk_g(WALK_WORDS);
}

void walk_teardown(struct walk_fake *w)
{
	go_fake_destroy(w->go);
}

gaddr_t walk_g(uint32_t word)
{
	return WALK_G_LO + 8 * (gaddr_t)word;
}

gaddr_t walk_m(uint32_t word)
{
	return WALK_M_LO + 8 * (gaddr_t)word;
}

gaddr_t walk_pc(const struct walk_fake *w, const char *name, uint32_t offset)
{
	return go_fake_pc(w->go, name, offset);
}

void walk_put_g(struct walk_fake *w, uint32_t word, const char *name, uint32_t offset)
{
	w->g[word] = walk_pc(w, name, offset);
}

void walk_put_m(struct walk_fake *w, uint32_t word, const char *name, uint32_t offset)
{
	w->m[word] = walk_pc(w, name, offset);
}

void walk_start_g(struct walk_fake *w, const char *name, uint32_t offset, uint32_t word, enum pc_kind kind)
{
	w->start.at = (struct unwind_place){
		.pc = walk_pc(w, name, offset), .sp = walk_g(word), .kind = kind,
		.lo = WALK_G_LO, .hi = walk_g(WALK_WORDS),
	};
}

void walk_start_m(struct walk_fake *w, const char *name, uint32_t offset, uint32_t word, enum pc_kind kind)
{
	w->start.at = (struct unwind_place){
		.pc = walk_pc(w, name, offset), .sp = walk_m(word), .kind = kind,
	};
}

void walk_left_at(struct walk_fake *w, const char *name, uint32_t offset, uint32_t word)
{
	w->start.goroutine.pc = walk_pc(w, name, offset);
	w->start.goroutine.sp = walk_g(word);
	w->start.goroutine.kind = PC_RETURN;
}

void walk_expect(struct walk_fake *w, size_t cap, enum unwind_end end, size_t n)
{
	const struct unwind_memory mem = { .views = w->views, .n = w->n_views };

	assert_true(cap <= WALK_OUT);
	w->end = UNWIND_END_COUNT;
	w->n = unwind(go_fake_runtime(w->go), &w->start, &mem, w->out, cap, &w->end);
	assert_string_equal(unwind_end_name(w->end), unwind_end_name(end));
	assert_int_equal(w->n, n);
}

void walk_frame(const struct walk_fake *w, size_t i, const char *name, uint32_t offset, enum pc_kind kind)
{
	assert_true(i < w->n);
	assert_int_equal(w->out[i].pc, walk_pc(w, name, offset));
	assert_int_equal(w->out[i].kind, kind);
}
