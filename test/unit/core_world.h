/*
 * core_world.h: a program in a file and the core of a process that ran it, for the tests of cores.
 */
#ifndef GOPROF_TEST_CORE_WORLD_H
#define GOPROF_TEST_CORE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake/core_fake.h"
#include "target/core.h"

enum { PAGE = 4096, STACK = 0x7f0000000000, PID = 4711, ANON = 0x500000 };

/* A program that stands in a file and ran, and its core. */
struct world {
	struct core_fake core;
	uint8_t program[PROGRAM_SIZE];
	char name[64];
	uint8_t stack[PAGE];
};

static inline int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	int fd;

	assert_non_null(w);
	core_fake_init(&w->core);
	program_fake(w->program, "one", 0);
	strcpy(w->name, "/tmp/core-file-test-XXXXXX");
	fd = mkstemp(w->name);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, w->program, sizeof(w->program)), sizeof(w->program));
	close(fd);
	for (size_t i = 0; i < PAGE; i++)
		w->stack[i] = (uint8_t)i;
	*state = w;
	return 0;
}

static inline int teardown(void **state)
{
	struct world *w = *state;

	unlink(w->name);
	core_fake_deinit(&w->core);
	free(w);
	return 0;
}

/* As the kernel writes it: the first page of the program, its data, the stack; code is in the file. */
static inline void as_kernel(struct world *w)
{
	struct core_fake *c = &w->core;

	core_fake_process(c, PID);
	core_fake_thread(c, PID, 0x400123, STACK + 0x100);
	core_fake_thread(c, PID + 1, 0x400456, STACK + 0x200);
	core_fake_aux(c, AT_PHDR, PROGRAM_TEXT + 64);
	core_fake_file(c, PROGRAM_TEXT, PROGRAM_TEXT + PAGE, 0, w->name);
	core_fake_file(c, PROGRAM_DATA, PROGRAM_DATA + PAGE, 1, w->name);
	core_fake_piece(c, PROGRAM_TEXT, w->program, 0x800, PAGE, PF_R | PF_X);
	core_fake_piece(c, PROGRAM_DATA, w->program + PAGE, 0, PAGE, PF_R | PF_W);
	core_fake_piece(c, STACK, w->stack, PAGE, PAGE, PF_R | PF_W);
}

static inline struct error *open_fd(int fd, const char *exe, struct target **ret)
{
	char path[32];

	return target_open_core(core_fake_path(fd, path), exe, ret);
}

static inline struct target *open_core(const struct world *w)
{
	struct target *t = NULL;
	int fd = core_fake_write(&w->core, NULL);

	assert_null(open_fd(fd, NULL, &t));
	close(fd);
	return t;
}

static inline struct core_facts facts_of(const struct target *t)
{
	struct core_facts f;

	assert_true(target_core_facts(t, &f));
	return f;
}

static inline int write_file(const uint8_t *bytes, size_t len)
{
	int fd = memfd_create("program", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	return fd;
}

#endif
