/*
 * profile_tables.c: interning. Equal content, equal id; different content, different id, over tens
 * of thousands of entries; nothing moves under a reader; what is not sound is refused.
 */
#include "profile_world.h"

#include "base/cleanup.h"

static void strings_by_content(void **state)
{
	enum { MANY = 50000 };
	struct world w;
	const char *first;
	profile_id id, again;

	(void)state;
	world_init(&w);
	assert_int_equal(text(&w, ""), 0);
	assert_string_equal(profile_string_get(w.p, 0), "");
	id = text(&w, "app");
	first = profile_string_get(w.p, id);
	for (int i = 0; i < MANY; i++) {
		char s[32];

		snprintf(s, sizeof(s), "name-%d", i);
		again = text(&w, s);
		assert_string_equal(profile_string_get(w.p, again), s);
		assert_int_equal(text(&w, s), again);
	}
	assert_int_equal(profile_string_count(w.p), MANY + 2);
	/* A NUL inside is content, too. */
	must(profile_string(w.p, "app\0x", 5, &again));
	assert_int_not_equal(again, id);
	assert_ptr_equal(profile_string_get(w.p, id), first);
	assert_string_equal(profile_string_get(w.p, 1u << 31), "");
	world_deinit(&w);
}

static void frames_by_every_field(void **state)
{
	struct world w;
	struct profile_frame f = { 0 };
	profile_id ids[9];

	(void)state;
	world_init(&w);
	text(&w, "x");
	must(profile_frame(w.p, &f, &ids[0]));
	for (int i = 0; i < 8; i++) {
		struct profile_frame other = f;

		((uint32_t *)&other)[i] = 1;
		must(profile_frame(w.p, &other, &ids[i + 1]));
		for (int k = 0; k <= i; k++)
			assert_int_not_equal(ids[k], ids[i + 1]);
		assert_memory_equal(profile_frame_get(w.p, ids[i + 1]), &other, sizeof(other));
		must(profile_frame(w.p, &other, &ids[0]));
		assert_int_equal(ids[0], ids[i + 1]);
		must(profile_frame(w.p, &f, &ids[0]));
	}
	world_deinit(&w);
}

static void stacks_by_frames_and_flags(void **state)
{
	struct world w;
	profile_id f[3], a, b;
	struct profile_stack s;

	(void)state;
	world_init(&w);
	for (int i = 0; i < 3; i++)
		f[i] = frame(&w, "main", "f", (uint32_t)i, 0);
	a = stack_of(&w, f, 3, PROFILE_STACK_COMPLETE);
	assert_int_equal(stack_of(&w, f, 3, PROFILE_STACK_COMPLETE), a);
	b = stack_of(&w, f, 3, PROFILE_STACK_CUT);
	assert_int_not_equal(a, b);
	assert_int_not_equal(stack_of(&w, f, 2, PROFILE_STACK_COMPLETE), a);
	assert_int_equal(stack_of(&w, f, 0, PROFILE_STACK_COMPLETE), PROFILE_STACK_EMPTY);
	s = profile_stack_get(w.p, b);
	assert_int_equal(s.n, 3);
	assert_int_equal(s.flags, PROFILE_STACK_CUT);
	assert_memory_equal(s.frames, f, sizeof(f));
	assert_int_equal(profile_stack_get(w.p, PROFILE_STACK_EMPTY).n, 0);
	assert_int_equal(profile_stack_get(w.p, 12345).n, 0);
	world_deinit(&w);
}

static void labels_sorted_and_kept_apart(void **state)
{
	struct world w;
	struct profile_label v[3], turned[3];
	struct profile_labels l;
	profile_id a, b;

	(void)state;
	world_init(&w);
	v[0] = (struct profile_label){ text(&w, "zone"), text(&w, "1") };
	v[1] = (struct profile_label){ text(&w, "alpha"), text(&w, "2") };
	v[2] = (struct profile_label){ v[0].key, text(&w, "3") };	/* a key that came twice */
	must(profile_labels(w.p, v, 3, &a));
	turned[0] = v[1];
	turned[1] = v[0];
	must(profile_labels(w.p, turned, 2, &b));
	assert_int_equal(a, b);
	l = profile_labels_get(w.p, a);
	assert_int_equal(l.n, 2);
	assert_string_equal(profile_string_get(w.p, l.v[0].key), "alpha");
	assert_string_equal(profile_string_get(w.p, l.v[1].value), "1");
	must(profile_labels(w.p, v, 0, &b));
	assert_int_equal(b, PROFILE_LABELS_NONE);
	assert_int_equal(profile_labels_get(w.p, PROFILE_LABELS_UNKNOWN).n, 0);
	assert_true(a > PROFILE_LABELS_UNKNOWN);
	world_deinit(&w);
}

static void unsound_content_is_refused(void **state)
{
	struct world w;
	struct profile_frame f = { .file = 999 };
	struct profile_label l = { 0, 999 };
	const profile_id none = 999;
	profile_id id = 77;
	struct error *err;

	(void)state;
	world_init(&w);
	err = profile_frame(w.p, &f, &id);
	assert_int_equal(err->kind, ERROR_INTERNAL);
	error_free(err);
	err = profile_stack(w.p, &none, 1, 0, &id);
	assert_int_equal(err->kind, ERROR_INTERNAL);
	error_free(err);
	err = profile_labels(w.p, &l, 1, &id);
	assert_int_equal(err->kind, ERROR_INTERNAL);
	error_free(err);
	assert_int_equal(id, 77);
	world_deinit(&w);
}

static void meta_is_copied(void **state)
{
	struct world w;
	char name[] = "other";
	struct profile_meta meta;
	const char *old;

	(void)state;
	world_init(&w);
	old = profile_meta(w.p)->program;
	meta = *profile_meta(w.p);
	meta.program = name;
	meta.release = NULL;
	must(profile_set_meta(w.p, &meta));
	name[0] = 'X';
	assert_string_equal(profile_meta(w.p)->program, "other");
	assert_null(profile_meta(w.p)->release);
	assert_string_equal(profile_meta(w.p)->exe, "/srv/app");
	assert_string_equal(old, "app");	/* a window being written may still look at it */
	world_deinit(&w);
}

static void images_by_name(void **state)
{
	struct world w;
	struct profile_image a = { .start = 0x1000, .end = 0x2000, .offset = 0x100, .lines = true }, b;
	profile_id in_c, in_go, elsewhere;
	struct error *err;

	(void)state;
	world_init(&w);
	in_c = frame(&w, "libc.so.6", "malloc", 1, PROFILE_FRAME_NATIVE);
	in_go = frame(&w, "libc.so.6", "malloc", 1, 0);
	elsewhere = frame(&w, "libm.so.6", "sin", 1, PROFILE_FRAME_NATIVE);
	assert_int_equal(profile_image_of(w.p, in_c), 0);
	assert_null(profile_image_get(w.p, 0));
	a.name = text(&w, "libc.so.6");
	a.path = text(&w, "/lib/libc.so.6");
	b = a;
	must(profile_image(w.p, &a));
	b.path = text(&w, "/other/libc.so.6");
	must(profile_image(w.p, &b));	/* the first one stays */
	assert_int_equal(profile_image_count(w.p), 1);
	assert_memory_equal(profile_image_get(w.p, 0), &a, sizeof(a));
	assert_int_equal(profile_image_of(w.p, in_c), 0);
	assert_int_equal(profile_image_of(w.p, in_go), 1);
	assert_int_equal(profile_image_of(w.p, elsewhere), 1);
	b.name = profile_string_count(w.p);
	err = profile_image(w.p, &b);
	assert_int_equal(err->kind, ERROR_INTERNAL);
	error_free(err);
	world_deinit(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strings_by_content),
		cmocka_unit_test(frames_by_every_field),
		cmocka_unit_test(stacks_by_frames_and_flags),
		cmocka_unit_test(labels_sorted_and_kept_apart),
		cmocka_unit_test(unsound_content_is_refused),
		cmocka_unit_test(meta_is_copied),
		cmocka_unit_test(images_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
