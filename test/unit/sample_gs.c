/*
 * sample_gs.c: the table of goroutines. However allgs grows, each struct has one slot and is read once per
 * pass; with more of them than a tick may read, each is read once per round, and rounds differ.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fake/go_fake.h"
#include "fake/target_fake.h"
#include "go/go_impl.h"
#include "sample/sample_impl.h"

enum {
	MINOR = 26, MOST = 6000,
	LEN = 0x100000, PTR = 0x110000, ARRAY = 0x200000, STRUCTS = 0x1000020, STEP = 448, HOLE = 0x20000,
};

static const struct go_fake_func functions[] = { { .name = "main.main", .size = 64, .sp = { { 64, 0 } } } };

struct world {
	struct go_fake *go;
	struct target *target;
	struct go_layout layout;
	struct reader reader;
	struct gs gs;
	gaddr_t allgs[MOST];
	uint32_t n;
	unsigned char seen[MOST];	/* by allgs' index, in this pass */
	uint64_t random;
	gaddr_t first;			/* the first that a pass has read */
};

static uint64_t next_random(struct world *w)
{
	w->random = w->random * 6364136223846793005u + 1442695040888963407u;
	return w->random ^ w->random >> 29;
}

/* Structs in disorder and with holes, as the runtime allocates them from several spans. */
static gaddr_t struct_at(uint32_t i)
{
	uint32_t block = i / 64, at = i % 64;

	return STRUCTS + (gaddr_t)(block * 37 % 97) * HOLE + (gaddr_t)(at * 29 % 64) * STEP +
	       (gaddr_t)(block / 97) * 97 * HOLE;
}

static int setup(void **state)
{
	struct world *w = test_calloc(1, sizeof(*w));

	w->go = go_fake_create(functions, 1, MINOR);
	assert_null(target_fake_create(&w->target));
	assert_true(go_layout_row(MINOR, &w->layout));
	target_fake_add(w->target, LEN, NULL, 8);
	target_fake_add(w->target, PTR, NULL, 8);
	target_fake_add(w->target, ARRAY, NULL, MOST * 8);
	target_fake_poke_u64(w->target, PTR, ARRAY);
	for (uint32_t i = 0; i < MOST; i += 64)
		target_fake_add(w->target, struct_at(i), NULL, 64 * STEP);
	for (uint32_t i = 0; i < MOST; i++) {
		uint64_t goid = i + 1;

		w->allgs[i] = struct_at(i);
		target_fake_poke_u64(w->target, ARRAY + 8 * (gaddr_t)i, w->allgs[i]);
		target_fake_poke(w->target, w->allgs[i] + (gaddr_t)w->layout.f[GO_G_GOID].offset, &goid, 8);
	}
	w->reader = (struct reader){ .target = w->target, .rt = go_fake_runtime(w->go), .layout = &w->layout,
				     .clock = &system_clock, .g_span = g_span(&w->layout), .goroutines = true };
	w->reader.rt->globals[GO_ALLGLEN].addr = LEN;
	w->reader.rt->globals[GO_ALLGPTR].addr = PTR;
	w->random = 7;
	assert_null(gs_init(&w->gs));
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	gs_deinit(&w->gs);
	target_close(w->target);
	go_fake_destroy(w->go);
	test_free(w);
	return 0;
}

static void grow(struct world *w, uint32_t n)
{
	w->n = n;
	target_fake_poke_u64(w->target, LEN, n);
	assert_null(gs_update(&w->gs, &w->reader));
	assert_int_equal(w->gs.n, n);
}

static struct error *see(void *ctx, struct g_slot *slot, const uint8_t *bytes, uint64_t before, uint64_t after)
{
	struct world *w = ctx;
	struct g_look look;

	assert_true(before <= after);
	g_parse(&w->layout, slot->addr, bytes, &look);
	assert_in_range(look.goid, 1, w->n);
	assert_int_equal(w->allgs[look.goid - 1], slot->addr);
	if (!w->first)
		w->first = slot->addr;
	w->seen[look.goid - 1]++;
	return NULL;
}

static void assert_each_once(struct world *w)
{
	for (uint32_t i = 0; i < w->n; i++)
		assert_int_equal(w->seen[i], 1);
	memset(w->seen, 0, sizeof(w->seen));
	w->first = 0;
}

static void assert_all_found(struct world *w)
{
	for (uint32_t i = 0; i < MOST; i++) {
		struct g_slot *slot = gs_slot(&w->gs, w->allgs[i]);

		assert_int_equal(slot != NULL, i < w->n);
		if (slot)
			assert_int_equal(slot->addr, w->allgs[i]);
	}
	assert_null(gs_slot(&w->gs, STRUCTS + 8));
}

/* What is remembered of a goroutine moves with it. */
static void table_grows_in_any_steps(void **state)
{
	struct world *w = *state;
	uint32_t before = 0;

	for (uint32_t n = 1; n < MOST; n += 1 + (uint32_t)(next_random(w) % (n < 100 ? 7 : 400))) {
		grow(w, n);
		assert_all_found(w);
		assert_null(gs_read_all(&w->gs, &w->reader, see, w));
		assert_each_once(w);
		for (uint32_t i = 0; i < n; i++) {
			struct g_slot *slot = gs_slot(&w->gs, w->allgs[i]);

			assert_int_equal(slot->goid, i < before ? i + 1 : 0);
			slot->goid = i + 1;
		}
		before = n;
		for (uint32_t i = 1; i < w->gs.n; i++)
			if (i != w->gs.n_old)
				assert_true(w->gs.slots[i - 1].addr < w->gs.slots[i].addr);
	}
}

/* One by one costs no move of the whole table each time. */
static void young_part_stays_small(void **state)
{
	struct world *w = *state;
	uint32_t whole = 0;

	grow(w, MOST / 2);
	for (uint32_t n = MOST / 2 + 1; n <= MOST; n++) {
		grow(w, n);
		whole += w->gs.n_old == n;
		assert_true((n - w->gs.n_old) * 8 < n);
	}
	assert_in_range(whole, 1, 8);
	assert_all_found(w);
}

/* Reads one round; returns how many passes that took. */
static unsigned int read_round(struct world *w, uint32_t most)
{
	struct gs_pass pass = { .slots = 0 };
	unsigned int n = 0;

	do {
		assert_null(gs_read_some(&w->gs, &w->reader, most, next_random(w), see, w, &pass));
		assert_true(++n <= MOST);
		assert_true(pass.slots > 0);
	} while (!pass.ended);
	return n;
}

static void each_is_read_once_per_round(void **state)
{
	static const uint32_t budgets[] = { 1, 64, 1000, MOST - 1, MOST, 10 * MOST };
	struct world *w = *state;

	for (size_t b = 0; b < sizeof(budgets) / sizeof(budgets[0]); b++)
		for (uint32_t n = 1; n <= MOST; n = n * 3 + 1) {
			grow(w, n > w->n ? n : w->n);
			read_round(w, budgets[b]);
			assert_each_once(w);
		}
	grow(w, MOST);
	assert_int_equal(read_round(w, MOST), 1);
	assert_each_once(w);
	assert_in_range(read_round(w, 1000), 4, 6);	/* spans are read whole */
	assert_each_once(w);
}

/* However it grows while a round lasts, each is read once in it, also those that come. */
static void round_goes_on_while_the_table_grows(void **state)
{
	struct world *w = *state;
	uint32_t rounds = 0, n = 1000;

	grow(w, n);
	while (n < MOST) {
		struct gs_pass pass;

		n += 1 + (uint32_t)(next_random(w) % 40);
		grow(w, n < MOST ? n : MOST);
		assert_null(gs_read_some(&w->gs, &w->reader, 500, next_random(w), see, w, &pass));
		for (uint32_t i = 0; i < w->n; i++)
			assert_true(w->seen[i] <= 1);
		if (pass.ended) {
			assert_each_once(w);
			rounds++;
		}
	}
	/* Some 240 ticks of 500 or a span more, of 3500 on average. */
	assert_in_range(rounds, 25, 60);
}

/* Their numbers have eight bits. Passes over all may come between. */
static void rounds_go_on_for_ever(void **state)
{
	struct world *w = *state;

	grow(w, 1000);
	for (uint32_t i = 0; i < 700; i++) {
		struct gs_pass pass;

		read_round(w, 300);
		assert_each_once(w);
		if (i % 7)
			continue;
		assert_null(gs_read_some(&w->gs, &w->reader, 100, next_random(w), see, w, &pass));
		assert_false(pass.ended);
		memset(w->seen, 0, sizeof(w->seen));
		assert_null(gs_read_all(&w->gs, &w->reader, see, w));
		assert_each_once(w);
	}
}

static struct error *see_alike(void *ctx, struct g_slot *slot, const uint8_t *bytes, uint64_t before, uint64_t after)
{
	assert_int_equal((uintptr_t)bytes % 64, slot->addr % 64);
	return see(ctx, slot, bytes, before, after);
}

/* The kernel copies to the same place within a cache line: other places cost more. */
static void copies_stand_as_what_they_are_copied_from(void **state)
{
	struct world *w = *state;

	grow(w, MOST);
	assert_null(gs_read_all(&w->gs, &w->reader, see_alike, w));
	assert_each_once(w);
}

/* Who had a turn of its own has none with its span. */
static void one_in_its_turn(void **state)
{
	struct world *w = *state;
	struct gs_pass pass = { .ended = false };

	grow(w, 1000);
	for (int at_begin = 0; at_begin < 2; at_begin++) {
		while (!at_begin && !pass.slots)
			assert_null(gs_read_some(&w->gs, &w->reader, 100, next_random(w), see, w, &pass));
		for (uint32_t i = 0; i < 1000; i += 9)
			for (int again = 0; again < 2; again++)
				assert_null(gs_read_turn(&w->gs, gs_slot(&w->gs, w->allgs[i]), &w->reader, see, w));
		read_round(w, 100);
		assert_each_once(w);
	}
}

static void rounds_begin_anywhere(void **state)
{
	struct world *w = *state;
	gaddr_t begun[8] = { 0 };
	int different = 0;

	grow(w, MOST);
	for (int i = 0; i < 8; i++) {
		struct gs_pass pass = { .slots = 0 };

		assert_null(gs_read_some(&w->gs, &w->reader, 1, next_random(w), see, w, &pass));
		begun[i] = w->first;
		while (!pass.ended)
			assert_null(gs_read_some(&w->gs, &w->reader, 1000, next_random(w), see, w, &pass));
		assert_each_once(w);
		different += i > 0 && begun[i] != begun[0];
	}
	assert_in_range(different, 5, 7);
}

/* A struct whose page is not there is left out; those around it, which are read with it, are not. */
static void hole_in_the_middle(void **state)
{
	struct world *w = *state;
	gaddr_t nowhere = STRUCTS + 64 * STEP + 100, behind = nowhere + STEP + 100;
	const uint64_t goid = 7;

	target_fake_add(w->target, behind, NULL, STEP);
	target_fake_poke(w->target, behind + (gaddr_t)w->layout.f[GO_G_GOID].offset, &goid, 8);
	w->allgs[6] = behind;
	target_fake_poke_u64(w->target, ARRAY + 8 * 6, behind);
	target_fake_poke_u64(w->target, ARRAY + 8 * 5, nowhere);
	grow(w, 64);
	assert_int_equal(w->gs.n_ranges, 1);
	assert_null(gs_read_all(&w->gs, &w->reader, see, w));
	assert_int_equal(w->seen[5], 0);
	w->seen[5] = 1;
	assert_each_once(w);
}

static void table_that_cannot_be(void **state)
{
	struct world *w = *state;

	target_fake_poke_u64(w->target, LEN, 0);
	assert_ptr_equal(gs_update(&w->gs, &w->reader), &err_end);
	grow(w, 100);
	target_fake_poke_u64(w->target, LEN, 99);
	assert_ptr_equal(gs_update(&w->gs, &w->reader), &err_corrupt);
	target_fake_poke_u64(w->target, LEN, 1ull << 40);
	assert_ptr_equal(gs_update(&w->gs, &w->reader), &err_corrupt);
	target_fake_poke_u64(w->target, LEN, MOST + 1000);	/* beyond what can be read */
	assert_non_null(gs_update(&w->gs, &w->reader));
	assert_int_equal(w->gs.n, 100);
	assert_null(gs_read_all(&w->gs, &w->reader, see, w));
	assert_each_once(w);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(table_grows_in_any_steps),
		T(young_part_stays_small),
		T(each_is_read_once_per_round),
		T(round_goes_on_while_the_table_grows),
		T(rounds_go_on_for_ever),
		T(copies_stand_as_what_they_are_copied_from),
		T(one_in_its_turn),
		T(rounds_begin_anywhere),
		T(hole_in_the_middle),
		T(table_that_cannot_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
