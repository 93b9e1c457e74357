/*
 * sample_intern.c: a stack is built once, and anew when its C code may have become other code.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake/go_fake.h"
#include "fake/go_image_fake.h"
#include "fake/target_fake.h"
#include "image/images.h"
#include "profile_world.h"
#include "sample/sample_impl.h"

enum { PLACE = 0x7f0000001000, PC = PLACE + 0x1010 };

static const struct go_fake_func functions[] = {
	{ .name = "runtime.goexit", .size = 32 },
};

static const char *module_of(struct intern *in, const struct profile *p, profile_id *stack)
{
	const struct pc_frame v[] = { { .pc = PC, .kind = PC_NATIVE } };

	assert_null(intern_stack(in, v, 1, UNWIND_NATIVE, stack));
	return profile_string_get(p, profile_frame_get(p, profile_stack_get(p, *stack).frames[0])->module);
}

static void test_other_library(void **state)
{
	struct go_image_fake *f = go_image_fake_create(&(struct go_image_options){ .minor = 26, .dyn = true });
	const int fds[] = { go_image_fake_file(f, FAKE_SIZE), go_image_fake_file(f, FAKE_SIZE) };
	struct go_fake *go = go_fake_create(functions, 1, 26);
	struct images *images;
	struct target *t;
	struct intern in;
	struct world w;
	profile_id before = 0, now, again;

	(void)state;
	world_init(&w);
	assert_null(target_fake_create(&t));
	assert_null(images_create(t, &images));
	assert_null(intern_init(&in, t, go_fake_runtime(go), images, w.p));
	for (int i = 0; i < 2; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[i]);
		target_fake_map(t, PLACE, PLACE + 0x1000, 0, MAPPING_READ, path);
		target_fake_map(t, PLACE + 0x1000, PLACE + 0x2000, 0x1000, MAPPING_READ | MAPPING_EXEC, path);
		assert_null(images_refresh(images));
		assert_string_equal(module_of(&in, w.p, &now), strrchr(path, '/') + 1);
		module_of(&in, w.p, &again);
		assert_int_equal(now, again);
		assert_int_not_equal(now, before);
		before = now;
		/* All caches given back: the same again, and the images are still known by their names. */
		intern_forget(&in);
		symbols_forget(in.symbols);
		assert_string_equal(module_of(&in, w.p, &again), strrchr(path, '/') + 1);
		assert_int_equal(now, again);
		assert_int_equal(profile_image_count(w.p), i + 1);
		assert_string_equal(profile_string_get(w.p, profile_image_get(w.p, (uint32_t)i)->path), path);
		target_fake_unmap(t, path);
		close(fds[i]);
	}
	intern_deinit(&in);
	images_destroy(images);
	target_close(t);
	world_deinit(&w);
	go_fake_destroy(go);
	go_image_fake_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_other_library),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
