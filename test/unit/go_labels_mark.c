/*
 * go_labels_mark.c: marks of label sets: equal while a set is the same, different when its memory
 * holds another one, and cheap enough to be made while a thread is held.
 */
#include "go_labels_world.h"

static uint64_t mark(struct world *w)
{
	uint64_t m;

	assert_null(go_labels_mark(&w->rt->layout, w->t, LABELS, &m));
	return m;
}

/* Equal while the set is the same; another set at the same address differs, also by order or number. */
static void test_marks_tell_lists_apart(void **state)
{
	static const char *const kv[][2] = { { "a", "1" }, { "b", "2" } };
	uint64_t item[4], first, other;
	struct world w;

	(void)state;
	setup_minor(&w, 26);
	put_list(&w, kv, 2);
	first = mark(&w);
	assert_int_equal(mark(&w), first);
	put_string(&w, item, "1");	/* an equal string elsewhere: another set */
	target_fake_poke_u64(w.t, ITEMS + 16, item[0]);
	other = mark(&w);
	assert_int_not_equal(other, first);
	target_fake_poke_u64(w.t, LABELS + 8, 1);
	assert_int_not_equal(mark(&w), other);
	assert_int_not_equal(mark(&w), first);
	target_fake_poke_u64(w.t, LABELS, 0);
	assert_ptr_equal(go_labels_mark(&w.rt->layout, w.t, LABELS, &first), &err_corrupt);
	teardown(&w);
}

static void test_marks_tell_maps_apart(void **state)
{
	struct world w;
	uint64_t first;

	(void)state;
	setup_minor(&w, 19);
	put_hmap(&w, 1, 0, TABLE, 0);
	target_fake_add(w.t, TABLE, NULL, BUCKET);
	put_slot(&w, TABLE, 0, 200, "zone", "eu");
	first = mark(&w);
	assert_int_equal(mark(&w), first);
	put_slot(&w, TABLE, 0, 200, "zone", "us");
	assert_int_not_equal(mark(&w), first);
	teardown(&w);
}

/* A mark is made while a thread is held: what would take long is refused at once. */
static void test_marks_are_cheap(void **state)
{
	struct world w;
	uint64_t m;

	(void)state;
	setup_minor(&w, 19);
	put_hmap(&w, 1000, 10, TABLE, 0);
	target_fake_add(w.t, TABLE, NULL, BUCKET << 10);
	assert_ptr_equal(go_labels_mark(&w.rt->layout, w.t, LABELS, &m), &err_corrupt);
	assert_true(target_fake_reads(w.t) < 40);
	teardown(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_marks_tell_lists_apart),
		cmocka_unit_test(test_marks_tell_maps_apart),
		cmocka_unit_test(test_marks_are_cheap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
