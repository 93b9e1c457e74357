/*
 * go_fake.h: a Go runtime made by hand: an ELF file in memory with a function table (the format of
 * Go 1.20 and later) that holds exactly the functions a test names, opened by the real readers.
 * No process, no Go toolchain. Out of memory ends the test.
 */
#ifndef GOPROF_TEST_GO_FAKE_H
#define GOPROF_TEST_GO_FAKE_H

#include "go/go.h"
#include "go/pclntab.h"

enum { GO_FAKE_STEPS = 6, GO_FAKE_INLINES = 3, GO_FAKE_CALLS = 4 };

enum go_fake_call_kind { GO_FAKE_DIRECT, GO_FAKE_BY_REGISTER, GO_FAKE_JUMP };

/* A call (or jump) whose code ends at this offset; to the entry of `to`. */
struct go_fake_call {
	uint32_t end;			/* 0: no such call */
	enum go_fake_call_kind kind;
	const char *to;			/* NULL by register */
};

/* A value that holds from the previous step's end (or the entry) up to `end`, an offset from the entry. */
struct go_fake_step {
	uint32_t end;
	int32_t value;
};

/* A call that was inlined: its code is [from, to) of the function. */
struct go_fake_inline {
	const char *name;	/* NULL: no such call */
	uint32_t from, to;
	uint32_t parent_pc;	/* offset that stands for the call in the surrounding code */
	int32_t start_line;
	uint8_t func_id;
};

struct go_fake_func {
	const char *name;
	uint32_t size;			/* bytes of code */
	const char *file;		/* NULL: none */
	int32_t start_line;
	uint8_t flags;			/* enum go_func_flag */
	bool wrapper;
	/* Stack depth and lines; no step: no table. Values of stack depth in bytes. */
	struct go_fake_step sp[GO_FAKE_STEPS], line[GO_FAKE_STEPS];
	struct go_fake_inline inlined[GO_FAKE_INLINES];
	const char *code;		/* with which it begins; NULL: nothing special */
	uint8_t code_len;
	struct go_fake_call calls[GO_FAKE_CALLS];	/* the rest of the code is int3 */
};

struct go_fake;

struct go_fake *go_fake_create(const struct go_fake_func *v, size_t n, int go_minor);
void go_fake_destroy(struct go_fake *f);
struct go_runtime *go_fake_runtime(struct go_fake *f);
/* Import path of package main and its module, for what depends on build information. */
void go_fake_set_build(struct go_fake *f, const char *path, const char *main_module);
/* Address of a function's byte in the "process". Ends the test for unknown names. */
gaddr_t go_fake_pc(const struct go_fake *f, const char *name, uint32_t offset);

#endif
