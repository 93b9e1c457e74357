/*
 * insn_call_before.c: the CALL that ends at a return address, for every form that compilers emit
 * and behind every byte that may stand before it; and what is no call.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "insn/insn.h"

enum { RETURN_PC = 0x480000 };

#define CODE(...) { __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ })

static const struct row {
	const char *text;
	uint8_t bytes[INSN_MAX];
	uint8_t length;
	uint64_t target, address;
} calls[] = {
	{ "call rax", CODE(0xff, 0xd0), 0, 0 },
	{ "call rbx", CODE(0xff, 0xd3), 0, 0 },
	{ "call [rdx]", CODE(0xff, 0x12), 0, 0 },
	{ "call r11", CODE(0x41, 0xff, 0xd3), 0, 0 },
	{ "call [r12]", CODE(0x41, 0xff, 0x14, 0x24), 0, 0 },
	{ "call [rax+0x18]", CODE(0xff, 0x50, 0x18), 0, 0 },
	{ "call [rbp-8]", CODE(0xff, 0x55, 0xf8), 0, 0 },
	{ "call [rax+rcx*8]", CODE(0xff, 0x14, 0xc8), 0, 0 },
	{ "call [r9+0x20]", CODE(0x41, 0xff, 0x51, 0x20), 0, 0 },
	{ "call [rsp+0x10]", CODE(0xff, 0x54, 0x24, 0x10), 0, 0 },
	{ "call [r12+8]", CODE(0x41, 0xff, 0x54, 0x24, 0x08), 0, 0 },
	{ "call [rip+0x2000]", CODE(0xff, 0x15, 0x00, 0x20, 0x00, 0x00), 0, RETURN_PC + 0x2000 },
	{ "call [rax+0x120]", CODE(0xff, 0x90, 0x20, 0x01, 0x00, 0x00), 0, 0 },
	{ "call [0x5a1000]", CODE(0xff, 0x14, 0x25, 0x00, 0x10, 0x5a, 0x00), 0, 0x5a1000 },
	{ "call [r8+0x120]", CODE(0x41, 0xff, 0x90, 0x20, 0x01, 0x00, 0x00), 0, 0 },
	{ "call [rsp+0x120]", CODE(0xff, 0x94, 0x24, 0x20, 0x01, 0x00, 0x00), 0, 0 },
	{ "call [r12+0x120]", CODE(0x41, 0xff, 0x94, 0x24, 0x20, 0x01, 0x00, 0x00), 0, 0 },
	{ "call .+0x100", CODE(0xe8, 0x00, 0x01, 0x00, 0x00), RETURN_PC + 0x100, 0 },
	{ "call .-0x100", CODE(0xe8, 0x00, 0xff, 0xff, 0xff), RETURN_PC - 0x100, 0 },
	{ "call .-0xaf01, upper bytes FF 50 FF", CODE(0xe8, 0xff, 0x50, 0xff, 0xff), RETURN_PC - 0xaf01, 0 },
	{ "call .+0x14ff00, bytes FF 14 00", CODE(0xe8, 0x00, 0xff, 0x14, 0x00), RETURN_PC + 0x14ff00, 0 },
	{ "call .+0x7000000", CODE(0xe8, 0x00, 0x00, 0x00, 0x07), RETURN_PC + 0x7000000, 0 },
	{ "call .+0x40000000", CODE(0xe8, 0x00, 0x00, 0x00, 0x40), RETURN_PC + 0x40000000, 0 },
	{ "call far away backwards", CODE(0xe8, 0x00, 0x00, 0x00, 0xc0), RETURN_PC - 0x40000000, 0 },
};

enum { CALLS = sizeof(calls) / sizeof(*calls) };

static bool call_before_exact(const uint8_t *bytes, size_t len, struct insn *ret)
{
	uint8_t *copy = memcpy(malloc(len + !len), bytes, len);
	bool ok = insn_call_before(copy, len, RETURN_PC, ret);

	free(copy);
	return ok;
}

static void check(const struct row *row, bool found, const struct insn *got, unsigned before)
{
	if (!found || got->kind != INSN_CALL || got->length < 2 || got->target != row->target ||
	    got->has_address != !!row->address || got->address != row->address)
		fail_msg("%s behind %#x: found %d length %d target %#lx address %#lx", row->text, before, found,
			 got->length, got->target, got->address);
}

static void test_alone(void **state)
{
	(void)state;
	for (size_t i = 0; i < CALLS; i++) {
		struct insn got = { 0 };
		bool found = call_before_exact(calls[i].bytes, calls[i].length, &got);

		check(&calls[i], found, &got, 0);
		assert_int_equal(got.length, calls[i].length);
	}
}

/* Whatever stands before it, the call is found; E8 at any place before it does not hide it. */
static void test_behind_any_byte(void **state)
{
	(void)state;
	for (size_t i = 0; i < CALLS; i++)
		for (unsigned before = 0; before < 256; before++) {
			uint8_t bytes[INSN_MAX + 8];
			struct insn got = { 0 };
			bool found;

			memset(bytes, (int)before, 8);
			memcpy(bytes + 8, calls[i].bytes, calls[i].length);
			found = call_before_exact(bytes, 8u + calls[i].length, &got);
			if (before == 0xe8 || before == 0xff || (before & 0xf0) == 0x40)
				assert_true(found);	/* a prefix, or a second reading */
			else
				check(&calls[i], found, &got, before);
		}
}

static void test_indirect_behind_e8(void **state)
{
	static const uint8_t far_reg[] = { 0x90, 0xe8, 0x24, 0x08, 0x00, 0xff, 0xd0 };
	static const uint8_t in_operand[] = { 0xe8, 0x12, 0x34, 0xff, 0xd0 };
	static const uint8_t slot[] = { 0x90, 0xe8, 0x12, 0xff, 0x50, 0x18 };
	struct insn got;

	(void)state;
	assert_true(call_before_exact(far_reg, sizeof(far_reg), &got));
	assert_int_equal(got.target, 0);
	assert_true(call_before_exact(in_operand, sizeof(in_operand), &got));
	assert_int_equal(got.target, 0);	/* read as direct it would lead 788 MB away */
	assert_int_equal(got.length, 2);
	assert_true(call_before_exact(slot, sizeof(slot), &got));
	assert_int_equal(got.target, 0);
	assert_int_equal(got.length, 3);
}

static void test_no_call(void **state)
{
	static const struct { uint8_t bytes[INSN_MAX]; size_t len; } none[] = {
		{ CODE(0xc3) },
		{ CODE(0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90) },
		{ CODE(0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc) },
		{ CODE(0xe9, 0x00, 0x01, 0x00, 0x00) },		/* jmp */
		{ CODE(0xff, 0xe0) },				/* jmp rax */
		{ CODE(0xff, 0x25, 0x00, 0x20, 0x00, 0x00) },	/* jmp [rip+x] */
		{ CODE(0x48, 0x85, 0xc0, 0x0f, 0x84, 0x10, 0x00, 0x00, 0x00) },
		{ CODE(0xe8, 0x00, 0x01, 0x00, 0x00, 0x90) },	/* a call, but one byte further up */
		{ CODE(0xff, 0xd0, 0x90) },
		{ CODE(0x41, 0xff, 0xd3, 0x90, 0x90) },
		{ CODE(0x00, 0x01, 0x00, 0x00) },		/* the end of one, its E8 out of sight */
		{ CODE(0x0f, 0x05) },				/* syscall */
		{ CODE(0xff, 0x18) },				/* call far */
		{ CODE(0xff) },
	};
	struct insn got = { .length = 99 };

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
		if (call_before_exact(none[i].bytes, none[i].len, &got))
			fail_msg("row %zu: found a call of %d bytes", i, got.length);
	assert_false(insn_call_before(NULL, 0, RETURN_PC, &got));
	assert_int_equal(got.length, 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_behind_any_byte),
		cmocka_unit_test(test_indirect_behind_e8),
		cmocka_unit_test(test_no_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
