/*
 * symbol_native.c: names of C code of a process whose images come and go, and whose code it is.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake/go_fake.h"
#include "fake/go_image_fake.h"
#include "fake/target_fake.h"
#include "go/go_impl.h"
#include "image/images.h"
#include "symbol/symbol.h"

static const struct go_fake_func functions[] = {
	{ .name = "runtime.goexit", .size = 32 },
};

static struct go_fake *make_go(void)
{
	struct go_fake *go = go_fake_create(functions, 1, 26);

	go_fake_set_build(go, "example.org/app", "example.org/app");
	return go;
}

static const struct symbol_frame *expand(struct symbols *s, gaddr_t pc)
{
	const struct symbol_frame *v;
	size_t n;

	assert_null(symbol_expand(s, pc, SYMBOL_NATIVE, &v, &n));
	assert_int_equal(n, 1);
	return v;
}

/* ---- libraries that come and go ---- */

enum { PLACE = 0x7f0000001000, PC = PLACE + 0x1010 };

struct library {
	char path[64];
	int fd;
};

static struct library make_library(const struct go_image_fake *f)
{
	struct library l = { .fd = go_image_fake_file(f, FAKE_SIZE) };

	snprintf(l.path, sizeof(l.path), "/proc/self/fd/%d", l.fd);
	return l;
}

static void map_library(struct target *t, const struct library *l)
{
	target_fake_map(t, PLACE, PLACE + 0x1000, 0, MAPPING_READ, l->path);
	target_fake_map(t, PLACE + 0x1000, PLACE + 0x2000, 0x1000, MAPPING_READ | MAPPING_EXEC, l->path);
}

static int count_fds(void)
{
	int n = 0;

	for (int i = 0; i < 256; i++)
		n += fcntl(i, F_GETFD) >= 0;
	return n;
}

/* One library in the place of another: its code has not got the names of the first one. */
static void test_other_library(void **state)
{
	struct go_image_fake *f = go_image_fake_create(&(struct go_image_options){ .minor = 26, .dyn = true });
	struct library l[2] = { make_library(f), make_library(f) };
	struct go_fake *go = make_go();
	struct symbols *s;
	struct images *images;
	struct target *t;
	uint64_t generation;
	int fds = 0;

	(void)state;
	assert_null(target_fake_create(&t));
	assert_null(images_create(t, &images));
	assert_null(symbols_create(go_fake_runtime(go), &s));
	assert_null(symbols_set_images(s, images));
	assert_string_equal(expand(s, PC)->function, "[C]");
	for (int i = 0; i < 8; i++) {
		generation = symbols_generation(s);
		map_library(t, &l[i % 2]);
		assert_null(images_refresh(images));
		assert_int_not_equal(symbols_generation(s), generation);
		assert_string_equal(expand(s, PC)->module, strrchr(l[i % 2].path, '/') + 1);
		generation = symbols_generation(s);
		assert_string_equal(expand(s, PC)->module, strrchr(l[i % 2].path, '/') + 1);
		assert_int_equal(symbols_generation(s), generation);
		/* The files of those before are closed. */
		if (i == 0)
			fds = count_fds();
		assert_int_equal(count_fds(), fds);
		target_fake_unmap(t, l[i % 2].path);
	}
	assert_null(images_refresh(images));
	assert_string_equal(expand(s, PC)->function, "[C]");
	assert_true(count_fds() < fds);
	symbols_destroy(s);
	images_destroy(images);
	target_close(t);
	go_fake_destroy(go);
	for (int i = 0; i < 2; i++)
		close(l[i].fd);
	go_image_fake_destroy(f);
}

/* ---- whose code ---- */

static char beyond_the_file[1 << 20];	/* .bss: its last pages are of no file */

/* C code of the program itself, told by where its Go code lies: here, this very program. */
static void test_in_app(void **state)
{
	struct go_fake *go = make_go();
	struct go_runtime *rt = go_fake_runtime(go);
	gaddr_t here = (uintptr_t)expand;
	struct symbols *s;
	struct images *images;
	struct target *t;
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_null(target_open_live(pid, &t));
	assert_null(images_create(t, &images));
	rt->modules[0].text = here - rt->modules[0].bias;
	rt->globals[GO_ALLGS].addr = (uintptr_t)beyond_the_file + sizeof(beyond_the_file) / 2;
	assert_null(symbols_create(rt, &s));
	assert_null(symbols_set_images(s, images));
	assert_string_equal(expand(s, here)->function, "expand");
	assert_true(expand(s, here)->flags & FRAME_IN_APP);
	/* And that of others is not. */
	assert_false(expand(s, (uintptr_t)strrchr)->flags & FRAME_IN_APP);
	symbols_destroy(s);
	images_destroy(images);
	target_close(t);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	go_fake_destroy(go);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_other_library),
		cmocka_unit_test(test_in_app),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
