/*
 * sample_deep.c: a stack of a megabyte, read in pieces: every frame of it counts although few are
 * kept, memory is bounded, and beyond a limit only the two ends are read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "fake/go_fake.h"
#include "fake/target_fake.h"
#include "sample/sample_impl.h"

enum {
	SIZE = 1 << 20, LO = 0x10000000, HI = LO + SIZE,
	FRAME = 24, STEP = FRAME + 8, AT_CALL = 30,
	ROOM = 32,			/* above the first frame, as the runtime leaves it */
	FRAMES = (SIZE - 8192) / STEP,	/* of main.rec */
	DEPTH = 64,
};

static const struct go_fake_func functions[] = {
	{ .name = "main.rec", .size = 64, .sp = { { 64, FRAME } }, .calls = { { .end = AT_CALL, .to = "main.rec" } } },
	{ .name = "runtime.goexit", .size = 64, .flags = GO_FUNC_TOPFRAME, .sp = { { 64, 0 } } },
};

struct world {
	struct go_fake *go;
	struct target *target;
	struct reader reader;
	struct unwind_start start;
	uint8_t *buffer;
	struct pc_frame out[DEPTH];
	size_t n;
	enum unwind_end end;
	uint64_t bytes;			/* asked for */
	size_t largest;
};

static void note_read(void *ctx, struct target *t, const struct span *s)
{
	struct world *w = ctx;

	(void)t;
	w->bytes += s->len;
	w->largest = s->len > w->largest ? s->len : w->largest;
}

static int setup(void **state)
{
	struct world *w = test_calloc(1, sizeof(*w));
	uint64_t *stack = test_calloc(SIZE / 8, 8), fp = 0, pc;
	gaddr_t sp = HI - ROOM;

	w->go = go_fake_create(functions, 2, 26);
	pc = go_fake_pc(w->go, "runtime.goexit", 1);
	for (int i = 0; i < FRAMES; i++) {
		stack[(sp - 8 - LO) / 8] = pc;
		stack[(sp - 16 - LO) / 8] = fp;
		fp = sp - 16;
		sp -= STEP;
		pc = go_fake_pc(w->go, "main.rec", AT_CALL);
	}
	assert_null(target_fake_create(&w->target));
	target_fake_add(w->target, LO, stack, SIZE / 2);
	target_fake_add(w->target, LO + SIZE / 2, stack + SIZE / 16, SIZE / 2);
	test_free(stack);
	target_fake_on_read(w->target, note_read, w);
	w->reader = (struct reader){ .target = w->target, .rt = go_fake_runtime(w->go) };
	w->start.at = (struct unwind_place){ .pc = pc, .sp = sp, .kind = PC_RETURN, .lo = LO, .hi = HI };
	w->buffer = test_malloc(DEEP_BUFFER);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	target_close(w->target);
	go_fake_destroy(w->go);
	test_free(w->buffer);
	test_free(w);
	return 0;
}

static struct error *walk(struct world *w, uint64_t most)
{
	return deep_walk(&w->reader, &w->start, most, w->buffer, w->out, DEPTH, &w->n, &w->end);
}

/* Where the one gap stands; all other frames are those of the stack. */
static size_t gap_at(const struct world *w)
{
	size_t at = w->n;

	assert_int_equal(w->out[w->n - 1].pc, go_fake_pc(w->go, "runtime.goexit", 1));
	for (size_t i = 0; i + 1 < w->n; i++) {
		if (w->out[i].kind == PC_GAP) {
			assert_int_equal(at, w->n);
			at = i;
		} else {
			assert_int_equal(w->out[i].pc, go_fake_pc(w->go, "main.rec", AT_CALL));
		}
	}
	return at;
}

static void every_frame_is_counted(void **state)
{
	struct world *w = *state;
	size_t gap;

	assert_null(walk(w, SIZE));
	assert_int_equal(w->end, UNWIND_GAP);
	assert_int_equal(w->n, DEPTH);
	gap = gap_at(w);
	assert_int_equal(gap, DEPTH / 2);
	assert_int_equal(pc_gap_frames(&w->out[gap]), FRAMES + 1 - (DEPTH - 1));
	/* Once through, in pieces. */
	assert_in_range(w->bytes, HI - w->start.at.sp - ROOM - STEP, HI - w->start.at.sp);
	assert_true(w->largest < DEEP_BUFFER);
}

static void beyond_the_limit_both_ends(void **state)
{
	struct world *w = *state;
	size_t gap;

	assert_null(walk(w, SIZE / 2));
	assert_int_equal(w->end, UNWIND_GAP);
	gap = gap_at(w);
	assert_true(gap > 16 && gap < DEPTH - 16);
	assert_int_equal(pc_gap_frames(&w->out[gap]), 0);
	assert_in_range(pc_gap_bytes(&w->out[gap]), SIZE - 8192 - STACK_BATCH_MAX - 32 * 1024, SIZE);
	assert_true(w->bytes <= STACK_BATCH_MAX + 32 * 1024);
}

/* Its far end is no stack that can be made sense of: cut, and said so. */
static void far_end_in_pieces(void **state)
{
	struct world *w = *state;

	target_fake_poke_u64(w->target, HI - ROOM - 8, 0);
	assert_null(walk(w, SIZE / 2));
	assert_int_equal(w->end, UNWIND_DEPTH);
	for (size_t i = 0; i < w->n; i++)
		assert_int_equal(w->out[i].kind, PC_RETURN);
}

/* A part of it cannot be read. */
static void hole(void **state)
{
	struct world *w = *state;

	target_fake_remove(w->target, LO + SIZE / 2);
	assert_null(walk(w, SIZE));
	assert_int_equal(w->end, UNWIND_DEPTH);
	assert_int_equal(w->n, DEPTH / 2);
	assert_null(walk(w, SIZE / 2));
	assert_int_equal(w->end, UNWIND_DEPTH);
}

static void process_has_gone(void **state)
{
	struct world *w = *state;

	target_fake_set_life(w->target, TARGET_ENDED);
	assert_ptr_equal(walk(w, SIZE), &err_gone);
	assert_ptr_equal(walk(w, SIZE / 2), &err_gone);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(every_frame_is_counted),
		T(beyond_the_limit_both_ends),
		T(far_end_in_pieces),
		T(hole),
		T(process_has_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
