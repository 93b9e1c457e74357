/*
 * image_dwarf_layout.c: members of structs by debug information. The file is this very test, whose
 * compiler knows where its members stand; then copies of it with sections compressed, stripped, cut
 * off and damaged.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <fcntl.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "image/dwarf_layout.h"

struct dwarf_test_inner {
	char first;
	uint64_t number;
};

typedef const volatile struct dwarf_test_inner renamed;

struct dwarf_test_outer {
	uint8_t byte;
	uint32_t half;
	void *pointer;
	renamed inner;
	char text[24];
};

struct dwarf_test_outer outer;	/* or the compiler would not describe it */

enum { N = 9 };

static const struct {
	const char *strct, *member;
	int32_t offset;
	uint32_t size;
} truth[N] = {
	{ "dwarf_test_outer", "byte", 0, 1 },
	{ "dwarf_test_outer", "half", offsetof(struct dwarf_test_outer, half), 4 },
	{ "dwarf_test_outer", "pointer", offsetof(struct dwarf_test_outer, pointer), 8 },
	{ "dwarf_test_outer", "inner.number", offsetof(struct dwarf_test_outer, inner) + 8, 8 },
	{ "dwarf_test_inner", "<sizeof>", sizeof(struct dwarf_test_inner), sizeof(struct dwarf_test_inner) },
	{ "dwarf_test_outer", "absent", -1, 0 },
	{ "dwarf_test_outer", "inner.absent", -1, 0 },
	{ "dwarf_test_outer", "half.number", -1, 0 },
	{ "dwarf_test_none", "half", -1, 0 },
};

static struct error *ask(int fd, struct dwarf_member v[N])
{
	struct image *img;
	struct error *err = image_open_fd(fd, &img);

	for (int i = 0; i < N; i++)
		v[i] = (struct dwarf_member){ .strct = truth[i].strct, .member = truth[i].member, .offset = 77 };
	if (err)
		return err;
	err = image_dwarf_members(img, v, N);
	image_close(img);
	return err;
}

/* Nothing wrong, and all of it if `whole`. */
static void compare(const struct dwarf_member v[N], bool whole)
{
	for (int i = 0; i < N; i++) {
		if (v[i].offset < 0 && !whole)
			continue;
		assert_int_equal(v[i].offset, truth[i].offset);
		if (truth[i].offset >= 0)
			assert_int_equal(v[i].size, truth[i].size);
	}
}

static int self_open(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	outer.byte = 1;
	return fd;
}

static void test_this_program(void **state)
{
	_cleanup_close_ int fd = self_open();
	struct dwarf_member v[N];

	(void)state;
	assert_null(ask(fd, v));
	compare(v, true);
}

/* A copy in memory of the first `len` bytes. */
static int copy_of(int fd, size_t len)
{
	_cleanup_free_ char *bytes = malloc(len ? len : 1);
	int copy = memfd_create("copy", MFD_CLOEXEC);

	assert_non_null(bytes);
	assert_true(copy >= 0);
	assert_int_equal(pread(fd, bytes, len, 0), (ssize_t)len);
	assert_int_equal(write(copy, bytes, len), (ssize_t)len);
	return copy;
}

/* Runs objcopy on a copy; -1: there is no such program. */
static int objcopy(int fd, const char *option)
{
	int copy = copy_of(fd, (size_t)lseek(fd, 0, SEEK_END));
	char in[64], name[] = "/tmp/dwarf-layout-XXXXXX", command[256];
	int out = mkstemp(name);

	assert_true(out >= 0);
	snprintf(in, sizeof(in), "/proc/%d/fd/%d", (int)getpid(), copy);
	snprintf(command, sizeof(command), "objcopy %s %s %s 2>/dev/null", option, in, name);
	if (system(command) != 0) {
		close(out);
		out = -1;
	} else {
		close(out);
		out = open(name, O_RDONLY | O_CLOEXEC);
	}
	unlink(name);
	close(copy);
	return out;
}

static void test_compressed(void **state)
{
	static const char *const options[] = { "--compress-debug-sections=zlib-gabi",
					       "--compress-debug-sections=zlib-gnu" };
	_cleanup_close_ int fd = self_open();

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		_cleanup_close_ int packed = objcopy(fd, options[i]);
		struct dwarf_member v[N];

		if (packed < 0)
			skip();
		assert_null(ask(packed, v));
		compare(v, true);
	}
}

static void test_stripped(void **state)
{
	_cleanup_close_ int fd = self_open();
	_cleanup_close_ int bare = objcopy(fd, "--strip-debug");
	struct dwarf_member v[N];

	(void)state;
	if (bare < 0)
		skip();
	assert_ptr_equal(ask(bare, v), &err_notfound);
	for (int i = 0; i < N; i++)
		assert_int_equal(v[i].offset, -1);
}

/* Cut off anywhere, or with bytes changed: an error, or less, but nothing wrong and no crash. */
static void test_damaged(void **state)
{
	enum { CUTS = 24, HITS = 24 };
	_cleanup_close_ int fd = self_open();
	size_t size = (size_t)lseek(fd, 0, SEEK_END);
	uint64_t random = 88172645463325252u;

	(void)state;
	for (size_t i = 0; i < CUTS; i++) {
		_cleanup_close_ int copy = copy_of(fd, size * i / CUTS);
		struct dwarf_member v[N];

		error_free(ask(copy, v));
	}
	for (size_t i = 0; i < HITS; i++) {
		_cleanup_close_ int copy = copy_of(fd, size);
		struct dwarf_member v[N];

		for (int k = 0; k < 2000; k++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			/* Behind the headers: what they say is asked first. */
			assert_int_equal(pwrite(copy, &random, 1, (off_t)(64 + random % (size - 64))), 1);
		}
		error_free(ask(copy, v));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_this_program),
		cmocka_unit_test(test_compressed),
		cmocka_unit_test(test_stripped),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
