/*
 * go_globals.c: the runtime's variables by symbols and by the rules over instructions, on handmade
 * machine code. Above all: no answer when the code is not clear, and none outside writable memory.
 *
 * The function table and the file are replaced here: the linker takes the functions below in place
 * of the archive's. That the rules hold on real programs is a test of its own (test/live).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "go/go_impl.h"

enum {
	BIAS = 0x10000000, DATA = 0x500000, DATA_SIZE = 0x100000, RODATA = 0x400000,
	TEXT = 0x200000, FUNCTION_SIZE = 0x400, FUNCTIONS = 16,
};

/* ---- a program ---- */

struct function {
	const char *name;
	uint8_t code[FUNCTION_SIZE];
	size_t len;
};

static struct program {
	struct function f[FUNCTIONS];
	size_t n;
	bool has_symbols;
	struct image_symbol symbols[GO_GLOBAL_COUNT];
} prog;

static gaddr_t entry_of(const struct function *f)
{
	return BIAS + TEXT + (gaddr_t)(f - prog.f) * FUNCTION_SIZE;
}

static struct function *function(const char *name)
{
	struct function *f = &prog.f[prog.n++];

	assert_true(prog.n <= FUNCTIONS);
	f->name = name;
	return f;
}

/* An instruction with a RIP-relative operand: its bytes, then the distance to the address. */
static void emit(struct function *f, const char *opcode, size_t n, gaddr_t addr)
{
	int32_t distance;

	assert_true(f->len + n + 4 <= FUNCTION_SIZE);
	memcpy(f->code + f->len, opcode, n);
	f->len += n + 4;
	distance = (int32_t)(BIAS + addr - (entry_of(f) + f->len));
	memcpy(f->code + f->len - 4, &distance, 4);
}

static void load(struct function *f, gaddr_t addr) { emit(f, "\x48\x8b\x05", 3, addr); }
static void store(struct function *f, gaddr_t addr) { emit(f, "\x48\x89\x05", 3, addr); }
static void compare(struct function *f, gaddr_t addr) { emit(f, "\x48\x39\x05", 3, addr); }
static void lea(struct function *f, gaddr_t addr) { emit(f, "\x48\x8d\x05", 3, addr); }
static void load4(struct function *f, gaddr_t addr) { emit(f, "\x8b\x05", 2, addr); }
static void xchg4(struct function *f, gaddr_t addr) { emit(f, "\x87\x05", 2, addr); }

bool go_func_by_name(struct go_runtime *rt, const char *name, uint32_t *pos, struct go_func *ret)
{
	for (; *pos < prog.n; ++*pos) {
		const struct function *f = &prog.f[*pos];

		if (strcmp(f->name, name) != 0)
			continue;
		*ret = (struct go_func){ .module = &rt->modules[0], .entry = entry_of(f),
					 .end = entry_of(f) + f->len };
		++*pos;
		return true;
	}
	return false;
}

size_t go_code_read(struct go_runtime *rt, gaddr_t pc, void *buf, size_t len)
{
	(void)rt;
	for (size_t i = 0; i < prog.n; i++)
		if (entry_of(&prog.f[i]) == pc) {
			assert_true(len <= prog.f[i].len);
			memcpy(buf, prog.f[i].code, len);
			return len;
		}
	return 0;
}

struct error *image_find_symbols(struct image *img, const char *const *names, size_t n,
				 struct image_symbol *ret)
{
	(void)img;
	assert_int_equal(n, GO_GLOBAL_COUNT);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(names[i], go_global_name((enum go_global)i));
	if (!prog.has_symbols)
		return &err_notfound;
	memcpy(ret, prog.symbols, n * sizeof(*ret));
	return NULL;
}

const struct segment *image_segments(const struct image *img, size_t *n)
{
	static const struct segment v[] = {
		{ TEXT, FUNCTIONS * FUNCTION_SIZE, FUNCTIONS * FUNCTION_SIZE, 0, SEGMENT_READ | SEGMENT_EXEC },
		{ RODATA, 0x10000, 0x10000, 0, SEGMENT_READ },
		{ DATA, DATA_SIZE, 0x1000, 0, SEGMENT_READ | SEGMENT_WRITE },
	};

	(void)img;
	*n = sizeof(v) / sizeof(v[0]);
	return v;
}

/* ---- the test's runtime ---- */

static int setup(void **state)
{
	struct go_runtime *rt = calloc(1, sizeof(*rt));

	memset(&prog, 0, sizeof(prog));
	if (!rt || !go_layout_row(26, &rt->layout))
		return -1;
	rt->has_layout = true;
	rt->n_modules = 1;
	rt->modules[0].bias = BIAS;
	*state = rt;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static void expect(struct go_runtime *rt, enum go_global g, gaddr_t addr, enum go_source source)
{
	assert_int_equal(rt->globals[g].addr, addr ? addr + BIAS : 0);
	assert_int_equal(rt->globals[g].source, source);
}

enum {
	ALLGS = DATA + 0x1000, ALLGLEN = DATA + 0x2000, ALLGPTR = DATA + 0x2008, ALLM = DATA + 0x3000,
	ALLP = DATA + 0x4000, MNEXT = DATA + 0x5100, GOMAXPROCS = DATA + 0x6000, OTHER = DATA + 0x7000,
	REASONS = DATA + 0x40,
};

/* The runtime's functions as far as the rules look at them, with other operands between. */
static void write_runtime(void)
{
	struct function *f = function("runtime.allgadd");

	lea(f, OTHER);			/* the lock */
	load(f, ALLGS + 8);
	load(f, ALLGS);
	compare(f, ALLGS + 16);
	store(f, ALLGS + 16);
	store(f, ALLGS);
	lea(f, ALLGPTR);
	store(f, ALLGLEN);
	f = function("runtime.forEachGRace");
	load(f, ALLGLEN);
	load(f, ALLGPTR);
	load(f, OTHER);
	f = function("runtime.mcommoninit");
	load(f, OTHER);
	load(f, ALLM);
	lea(f, OTHER + 8);
	lea(f, ALLM);
	f = function("runtime.retake");
	lea(f, OTHER);
	load(f, OTHER + 0x20);
	compare(f, ALLP + 8);
	load(f, ALLP);
	f = function("runtime.mReserveID");
	lea(f, MNEXT - 0x50);
	load(f, MNEXT);
	store(f, MNEXT);
	load(f, MNEXT + 16);
	f = function("runtime.procresize");
	load4(f, GOMAXPROCS);
	load4(f, OTHER);
	xchg4(f, GOMAXPROCS);
	f = function("runtime.waitReason.String");
	lea(f, RODATA + 0x100);
	lea(f, REASONS);
}

static void test_by_code(void **state)
{
	struct go_runtime *rt = *state;
	uint64_t mnext = (uint64_t)rt->layout.f[GO_SCHED_MNEXT].offset;

	write_runtime();
	assert_null(go_globals_find(rt));
	expect(rt, GO_ALLGS, ALLGS, GO_SOURCE_CODE);
	expect(rt, GO_ALLGLEN, ALLGLEN, GO_SOURCE_CODE);
	expect(rt, GO_ALLGPTR, ALLGPTR, GO_SOURCE_CODE);
	expect(rt, GO_ALLM, ALLM, GO_SOURCE_CODE);
	expect(rt, GO_ALLP, ALLP, GO_SOURCE_CODE);
	expect(rt, GO_SCHED, MNEXT - mnext, GO_SOURCE_CODE);
	expect(rt, GO_GOMAXPROCS, GOMAXPROCS, GO_SOURCE_CODE);
	expect(rt, GO_WAITREASON_STRINGS, REASONS, GO_SOURCE_CODE);
}

static void test_symbols_come_first_and_rules_fill_the_gaps(void **state)
{
	struct go_runtime *rt = *state;

	write_runtime();
	prog.has_symbols = true;
	prog.symbols[GO_ALLM].addr = DATA + 0x9000;
	prog.symbols[GO_ALLP].addr = RODATA + 8;	/* no variable: not believed */
	assert_null(go_globals_find(rt));
	expect(rt, GO_ALLM, DATA + 0x9000, GO_SOURCE_SYMBOL);
	expect(rt, GO_ALLP, ALLP, GO_SOURCE_CODE);
	expect(rt, GO_ALLGS, ALLGS, GO_SOURCE_CODE);
}

static void test_nothing_found(void **state)
{
	struct go_runtime *rt = *state;

	assert_null(go_globals_find(rt));
	for (int g = 0; g < GO_GLOBAL_COUNT; g++)
		expect(rt, (enum go_global)g, 0, GO_SOURCE_NONE);
	rt->n_modules = 0;
	assert_ptr_equal(go_globals_find(rt), &err_notfound);
}

/* Each rule, with code in which two addresses fit, must say nothing. */
static void test_ambiguous_code_gives_nothing(void **state)
{
	struct go_runtime *rt = *state;
	struct function *f;

	write_runtime();
	f = &prog.f[0];				/* allgadd: four words in a row are two slices */
	store(f, ALLGS + 24);
	f = &prog.f[2];				/* mcommoninit: another list head */
	load(f, OTHER + 8);
	f = &prog.f[3];				/* retake: another slice */
	load(f, OTHER + 0x28);
	f = &prog.f[4];				/* mReserveID: another counter */
	store(f, MNEXT + 16);
	f = &prog.f[6];				/* String: another table */
	lea(f, OTHER);
	assert_null(go_globals_find(rt));
	expect(rt, GO_ALLGS, 0, GO_SOURCE_NONE);
	expect(rt, GO_ALLM, 0, GO_SOURCE_NONE);
	expect(rt, GO_ALLP, 0, GO_SOURCE_NONE);
	expect(rt, GO_SCHED, 0, GO_SOURCE_NONE);
	expect(rt, GO_WAITREASON_STRINGS, 0, GO_SOURCE_NONE);
	expect(rt, GO_ALLGLEN, ALLGLEN, GO_SOURCE_CODE);	/* untouched ones stay */
}

static void test_operands_of_other_sizes_do_not_count(void **state)
{
	struct go_runtime *rt = *state;
	struct function *f = function("runtime.allgadd");

	load4(f, ALLGS);
	load(f, ALLGS + 8);
	load(f, ALLGS + 16);
	f = function("runtime.procresize");
	load(f, OTHER);
	load4(f, GOMAXPROCS);			/* read, but never written */
	assert_null(go_globals_find(rt));
	expect(rt, GO_ALLGS, 0, GO_SOURCE_NONE);
	expect(rt, GO_GOMAXPROCS, 0, GO_SOURCE_NONE);
}

/* A body and a wrapper of the same name: the wrapper has no operands, two bodies must agree. */
static void test_functions_of_the_same_name(void **state)
{
	struct go_runtime *rt = *state;
	struct function *f = function("runtime.waitReason.String");

	load(f, OTHER);
	f = function("runtime.waitReason.String");
	lea(f, REASONS);
	assert_null(go_globals_find(rt));
	expect(rt, GO_WAITREASON_STRINGS, REASONS, GO_SOURCE_CODE);
	f = function("runtime.waitReason.String");
	lea(f, OTHER);
	assert_null(go_globals_find(rt));
	expect(rt, GO_WAITREASON_STRINGS, 0, GO_SOURCE_NONE);
}

static void test_bytes_that_are_no_code_end_the_reading(void **state)
{
	struct go_runtime *rt = *state;
	struct function *f = function("runtime.waitReason.String");

	f->code[f->len++] = 0x06;		/* no instruction in 64-bit mode */
	lea(f, REASONS);
	f = function("runtime.retake");
	load(f, ALLP);
	load(f, ALLP + 8);
	f->len -= 2;				/* cut in the middle of an instruction */
	assert_null(go_globals_find(rt));
	expect(rt, GO_WAITREASON_STRINGS, 0, GO_SOURCE_NONE);
	expect(rt, GO_ALLP, 0, GO_SOURCE_NONE);
}

/* Go 1.16 has allgptr and allglen, but no forEachGRace. */
static void test_allgptr_in_allgadd(void **state)
{
	struct go_runtime *rt = *state;
	struct function *f = function("runtime.allgadd");

	lea(f, OTHER);			/* the lock */
	load(f, ALLGS + 8);
	load(f, ALLGS);
	load(f, ALLGS + 16);
	compare(f, ALLGPTR);
	lea(f, ALLGLEN);
	lea(f, ALLGPTR);
	lea(f, ALLGS);
	f = function("runtime.gcount");
	load(f, ALLGLEN);
	load(f, OTHER);
	assert_null(go_globals_find(rt));
	expect(rt, GO_ALLGS, ALLGS, GO_SOURCE_CODE);
	expect(rt, GO_ALLGPTR, ALLGPTR, GO_SOURCE_CODE);
	expect(rt, GO_ALLGLEN, ALLGLEN, GO_SOURCE_CODE);
}

/* Stripped 1.15: its allgadd takes the address of the slice alone. */
static void test_no_allgptr_in_allgadd(void **state)
{
	struct go_runtime *rt = *state;
	struct function *f = function("runtime.allgadd");

	load(f, ALLGS + 8);
	load(f, ALLGS);
	load(f, ALLGS + 16);
	store(f, ALLGLEN);
	lea(f, ALLGS);
	f = function("runtime.gcount");
	load(f, ALLGLEN);
	assert_null(go_globals_find(rt));
	expect(rt, GO_ALLGPTR, ALLGS, GO_SOURCE_CODE);
	expect(rt, GO_ALLGLEN, ALLGS + 8, GO_SOURCE_CODE);
}

/* Go 1.15 has no allgptr: the slice itself serves. */
static void test_allgs_stands_in_for_allgptr(void **state)
{
	struct go_runtime *rt = *state;

	prog.has_symbols = true;
	prog.symbols[GO_ALLGS].addr = ALLGS;
	prog.symbols[GO_ALLGLEN].addr = ALLGLEN;
	assert_null(go_globals_find(rt));
	expect(rt, GO_ALLGPTR, ALLGS, GO_SOURCE_SYMBOL);
	expect(rt, GO_ALLGLEN, ALLGS + 8, GO_SOURCE_SYMBOL);
}

static void test_sched_needs_the_layout(void **state)
{
	struct go_runtime *rt = *state;

	write_runtime();
	rt->has_layout = false;
	assert_null(go_globals_find(rt));
	expect(rt, GO_SCHED, 0, GO_SOURCE_NONE);
	expect(rt, GO_ALLM, ALLM, GO_SOURCE_CODE);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_by_code),
		T(test_symbols_come_first_and_rules_fill_the_gaps),
		T(test_nothing_found),
		T(test_ambiguous_code_gives_nothing),
		T(test_operands_of_other_sizes_do_not_count),
		T(test_functions_of_the_same_name),
		T(test_bytes_that_are_no_code_end_the_reading),
		T(test_allgptr_in_allgadd),
		T(test_no_allgptr_in_allgadd),
		T(test_allgs_stands_in_for_allgptr),
		T(test_sched_needs_the_layout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
