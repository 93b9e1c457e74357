/*
 * Children of run: found through a /proc made by hand, with a Go program's file made by hand; told
 * apart from the Go toolchain's tools, from what is not Go and from the command itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cmd/children.h"
#include "fake/go_image_fake.h"

enum { ROOT = 100 };

struct world {
	char dir[64];
	struct children *c;
};

static void path_of(const struct world *w, char *buf, size_t cap, const char *fmt, int pid)
{
	char tail[128];

	snprintf(tail, sizeof(tail), fmt, pid, pid);
	snprintf(buf, cap, "%s/%s", w->dir, tail);
}

static void put(const char *path, const void *data, size_t len)
{
	_cleanup_fclose_ FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
}

/* The file of a program below the world's directory. */
static void program(const struct world *w, const char *name, bool go)
{
	struct go_image_options o = { .minor = 26, .base = 0x400000, .buildinfo = true };
	struct go_image_fake *f;
	char path[256], *slash;

	snprintf(path, sizeof(path), "%s/%s", w->dir, name);
	for (slash = strchr(path + strlen(w->dir) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(path, 0700);
		*slash = '/';
	}
	if (!go) {
		put(path, name, strlen(name));
		return;
	}
	f = go_image_fake_create(&o);
	put(path, f->bytes, FAKE_SIZE);
	go_image_fake_destroy(f);
}

/* A process with one thread that runs a program and has these children. */
static void process(const struct world *w, int pid, const char *name, const char *children)
{
	char path[256], exe[256];

	path_of(w, path, sizeof(path), "%d", pid);
	mkdir(path, 0700);
	path_of(w, path, sizeof(path), "%d/task", pid);
	mkdir(path, 0700);
	path_of(w, path, sizeof(path), "%d/task/%d", pid);
	mkdir(path, 0700);
	path_of(w, path, sizeof(path), "%d/task/%d/children", pid);
	put(path, children, strlen(children));
	path_of(w, path, sizeof(path), "%d/exe", pid);
	unlink(path);
	snprintf(exe, sizeof(exe), "%s/%s", w->dir, name);
	assert_int_equal(symlink(exe, path), 0);
}

static void gone(const struct world *w, int pid)
{
	char path[256];

	path_of(w, path, sizeof(path), "%d/exe", pid);
	assert_int_equal(unlink(path), 0);
}

static int enter(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct children_setup setup;

	strcpy(w->dir, "/tmp/goprof-unit-XXXXXX");
	if (!mkdtemp(w->dir))
		return -1;
	setup = (struct children_setup){ .proc = w->dir, .pid = ROOT };
	program(w, "bin/sh", false);
	program(w, "bin/cat", false);
	program(w, "bin/app", true);
	program(w, "bin/other", true);
	program(w, "go/pkg/tool/linux_amd64/compile", true);
	*state = w;
	return children_create(&setup, &w->c) ? -1 : 0;
}

static int leave(void **state)
{
	struct world *w = *state;
	char command[128];

	children_destroy(w->c);
	snprintf(command, sizeof(command), "rm -rf %s", w->dir);
	if (system(command) != 0)
		return -1;
	free(w);
	return 0;
}

static uint64_t at_ms(unsigned int ms)
{
	return 1000 * UINT64_C(1000000000) + ms * UINT64_C(1000000);
}

static void test_none(void **state)
{
	struct world *w = *state;
	struct child_program p;

	process(w, ROOT, "bin/sh", "");
	children_look(w->c, at_ms(0), true);
	children_look(w->c, at_ms(100), true);
	assert_false(children_go(w->c, &p));
}

static void test_grandchild(void **state)
{
	struct world *w = *state;
	struct child_program p;
	char path[256];

	process(w, ROOT, "bin/sh", "101 102 ");
	process(w, 101, "bin/cat", "");
	process(w, 102, "bin/sh", "103");	/* a fork of the shell */
	process(w, 103, "bin/app", "");
	children_look(w->c, at_ms(0), true);
	children_look(w->c, at_ms(60), true);
	assert_true(children_go(w->c, &p));
	snprintf(path, sizeof(path), "%s/bin/app", w->dir);
	assert_string_equal(p.path, path);
	assert_int_equal(p.pid, 103);
	assert_int_equal(p.others, 0);
	assert_true(p.alive);
	gone(w, 103);
	assert_true(children_go(w->c, &p));
	assert_false(p.alive);
}

/* go run: the compiler is Go, too, but not what was meant; the program's file is deleted. */
static void test_toolchain_and_deleted_file(void **state)
{
	struct world *w = *state;
	struct child_program p;
	char path[256];

	process(w, ROOT, "bin/sh", "101");
	process(w, 101, "go/pkg/tool/linux_amd64/compile", "");
	children_look(w->c, at_ms(0), true);
	children_look(w->c, at_ms(60), true);
	assert_false(children_go(w->c, &p));
	process(w, ROOT, "bin/sh", "102");
	process(w, 102, "bin/app", "");
	children_look(w->c, at_ms(300), true);
	gone(w, 102);
	snprintf(path, sizeof(path), "%s/bin/app", w->dir);
	assert_int_equal(unlink(path), 0);
	assert_true(children_go(w->c, &p));
	assert_string_equal(p.path, path);
}

/* The one that was there longest; the command's own forks do not count. */
static void test_longest(void **state)
{
	struct world *w = *state;
	struct child_program p;

	process(w, ROOT, "bin/other", "101 102");
	process(w, 101, "bin/other", "");
	process(w, 102, "bin/app", "");
	program(w, "bin/third", true);
	process(w, 103, "bin/third", "");
	children_look(w->c, at_ms(0), true);
	for (unsigned int ms = 60; ms < 2000; ms += 100)
		children_look(w->c, at_ms(ms), true);
	process(w, ROOT, "bin/other", "103");
	children_look(w->c, at_ms(2200), true);
	children_look(w->c, at_ms(2400), true);
	assert_true(children_go(w->c, &p));
	assert_int_equal(p.pid, 102);
	assert_int_equal(p.others, 1);
}

/* When it looks: soon, then once a second. */
static void test_pace(void **state)
{
	struct world *w = *state;
	struct child_program p;

	process(w, ROOT, "bin/sh", "");
	children_look(w->c, at_ms(0), false);
	for (unsigned int ms = 10; ms <= 5000; ms += 10)
		children_look(w->c, at_ms(ms), false);
	process(w, ROOT, "bin/sh", "101");
	process(w, 101, "bin/app", "");
	children_look(w->c, at_ms(5010), false);
	assert_false(children_go(w->c, &p));	/* not its time */
	for (unsigned int ms = 5020; ms <= 6100; ms += 10)
		children_look(w->c, at_ms(ms), false);
	assert_true(children_go(w->c, &p));
}

/* A tree without end, children that name themselves: looking ends. */
static void test_hostile_proc(void **state)
{
	struct world *w = *state;
	struct child_program p;

	process(w, ROOT, "bin/sh", "101 100 -5 x");
	process(w, 101, "bin/app", "101 100 101 101 999999 2147483648");
	children_look(w->c, at_ms(0), true);
	children_look(w->c, at_ms(60), true);
	assert_true(children_go(w->c, &p));
	assert_int_equal(p.pid, 101);
}

#define in_world(f) cmocka_unit_test_setup_teardown(f, enter, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
		in_world(test_none),
		in_world(test_grandchild),
		in_world(test_toolchain_and_deleted_file),
		in_world(test_longest),
		in_world(test_pace),
		in_world(test_hostile_proc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
