/*
 * insn_decode.c: instructions as compilers emit them (bytes as objdump shows them), each with all
 * that must be known of it; then the same bytes cut short at every length; then random bytes on
 * buffers of exact size, where the only claim is that nothing is read beyond them.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "insn/insn.h"

enum { PC = 0x401000 };

#define CODE(...) { __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ })
#define RW (INSN_READS | INSN_WRITES)

#define PLAIN(k) { .kind = (k) }
#define TO(k, t) { .kind = (k), .target = (t) }
#define AT(k, a, size, how) \
	{ .kind = (k), .has_address = true, .address = (a), .access_size = (size), .access = (how) }
#define COMPUTES(a) { .kind = INSN_LEA, .has_address = true, .address = (a) }
#define SOMEWHERE(k, size, how) { .kind = (k), .access_size = (size), .access = (how) }

static const struct row {
	const char *text;
	uint8_t bytes[INSN_MAX];
	uint8_t length;
	struct insn want;	/* without its length */
} rows[] = {
	/* calls */
	{ "call .+0x105", CODE(0xe8, 0x00, 0x01, 0x00, 0x00), TO(INSN_CALL, PC + 0x105) },
	{ "call .-0x0b", CODE(0xe8, 0xf0, 0xff, 0xff, 0xff), TO(INSN_CALL, PC - 0x0b) },
	{ "data16 call", CODE(0x66, 0xe8, 0x00, 0x01, 0x00, 0x00), TO(INSN_CALL, PC + 0x106) },
	{ "call [rip+0x2000]", CODE(0xff, 0x15, 0x00, 0x20, 0x00, 0x00),
	  AT(INSN_CALL, PC + 0x2006, 8, INSN_READS) },
	{ "call [0x5a1000]", CODE(0xff, 0x14, 0x25, 0x00, 0x10, 0x5a, 0x00),
	  AT(INSN_CALL, 0x5a1000, 8, INSN_READS) },
	{ "call rax", CODE(0xff, 0xd0), PLAIN(INSN_CALL) },
	{ "call r11", CODE(0x41, 0xff, 0xd3), PLAIN(INSN_CALL) },
	{ "call [rax+8]", CODE(0xff, 0x50, 0x08), SOMEWHERE(INSN_CALL, 8, INSN_READS) },
	{ "call [rdx]", CODE(0xff, 0x12), SOMEWHERE(INSN_CALL, 8, INSN_READS) },
	{ "call [r12+rcx*8+0x100]", CODE(0x41, 0xff, 0x94, 0xcc, 0x00, 0x01, 0x00, 0x00),
	  SOMEWHERE(INSN_CALL, 8, INSN_READS) },
	{ "call far [rax]", CODE(0xff, 0x18), SOMEWHERE(INSN_OTHER, 6, INSN_READS) },
	/* jumps and branches */
	{ "jmp short .-0x10", CODE(0xeb, 0xee), TO(INSN_JUMP, PC - 0x10) },
	{ "jmp .+0x2005", CODE(0xe9, 0x00, 0x20, 0x00, 0x00), TO(INSN_JUMP, PC + 0x2005) },
	{ "jmp rdx", CODE(0xff, 0xe2), PLAIN(INSN_JUMP) },
	{ "jmp [rip+0x10]", CODE(0xff, 0x25, 0x10, 0x00, 0x00, 0x00),
	  AT(INSN_JUMP, PC + 0x16, 8, INSN_READS) },
	{ "jbe .+0x22", CODE(0x76, 0x20), TO(INSN_BRANCH, PC + 0x22) },
	{ "jne .+0x206", CODE(0x0f, 0x85, 0x00, 0x02, 0x00, 0x00), TO(INSN_BRANCH, PC + 0x206) },
	{ "jrcxz .-2", CODE(0xe3, 0xfc), TO(INSN_BRANCH, PC - 2) },
	{ "loop .", CODE(0xe2, 0xfe), TO(INSN_BRANCH, PC) },
	/* ends */
	{ "ret", CODE(0xc3), PLAIN(INSN_RETURN) },
	{ "ret 8", CODE(0xc2, 0x08, 0x00), PLAIN(INSN_RETURN) },
	{ "rep ret", CODE(0xf3, 0xc3), PLAIN(INSN_RETURN) },
	{ "int3", CODE(0xcc), PLAIN(INSN_TRAP) },
	{ "ud2", CODE(0x0f, 0x0b), PLAIN(INSN_TRAP) },
	{ "syscall", CODE(0x0f, 0x05), PLAIN(INSN_OTHER) },
	/* the operands that tell where a global is */
	{ "cmp qword [rip+0x1234], 0", CODE(0x48, 0x83, 0x3d, 0x34, 0x12, 0x00, 0x00, 0x00),
	  AT(INSN_OTHER, PC + 0x123c, 8, INSN_READS) },
	{ "cmp byte [rip-1], 0", CODE(0x80, 0x3d, 0xff, 0xff, 0xff, 0xff, 0x00),
	  AT(INSN_OTHER, PC + 6, 1, INSN_READS) },
	{ "cmp rcx, [rip+0x100]", CODE(0x48, 0x3b, 0x0d, 0x00, 0x01, 0x00, 0x00),
	  AT(INSN_OTHER, PC + 0x107, 8, INSN_READS) },
	{ "mov rax, [rip+0x100]", CODE(0x48, 0x8b, 0x05, 0x00, 0x01, 0x00, 0x00),
	  AT(INSN_OTHER, PC + 0x107, 8, INSN_READS) },
	{ "mov [rip+0x100], rax", CODE(0x48, 0x89, 0x05, 0x00, 0x01, 0x00, 0x00),
	  AT(INSN_OTHER, PC + 0x107, 8, INSN_WRITES) },
	{ "mov dword [rip+0x100], 7", CODE(0xc7, 0x05, 0x00, 0x01, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00),
	  AT(INSN_OTHER, PC + 0x10a, 4, INSN_WRITES) },
	{ "mov ecx, [rip+0x100]", CODE(0x8b, 0x0d, 0x00, 0x01, 0x00, 0x00),
	  AT(INSN_OTHER, PC + 0x106, 4, INSN_READS) },
	{ "mov rcx, [0x5a1000]", CODE(0x48, 0x8b, 0x0c, 0x25, 0x00, 0x10, 0x5a, 0x00),
	  AT(INSN_OTHER, 0x5a1000, 8, INSN_READS) },
	{ "mov rax, [moffs64]", CODE(0x48, 0xa1, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11),
	  AT(INSN_OTHER, 0x1122334455667788, 8, INSN_READS) },
	{ "movups xmm0, [rip+0x100]", CODE(0x0f, 0x10, 0x05, 0x00, 0x01, 0x00, 0x00),
	  AT(INSN_OTHER, PC + 0x107, 16, INSN_READS) },
	{ "inc qword [rip+0x100]", CODE(0x48, 0xff, 0x05, 0x00, 0x01, 0x00, 0x00),
	  AT(INSN_OTHER, PC + 0x107, 8, RW) },
	{ "lock xadd [rip+0x100], ecx", CODE(0xf0, 0x0f, 0xc1, 0x0d, 0x00, 0x01, 0x00, 0x00),
	  AT(INSN_OTHER, PC + 0x108, 4, RW) },
	{ "push [rip+0x100]", CODE(0xff, 0x35, 0x00, 0x01, 0x00, 0x00),
	  AT(INSN_OTHER, PC + 0x106, 8, INSN_READS) },
	{ "lea rax, [rip+0x200]", CODE(0x48, 0x8d, 0x05, 0x00, 0x02, 0x00, 0x00), COMPUTES(PC + 0x207) },
	{ "lea rdi, [rip-0x200]", CODE(0x48, 0x8d, 0x3d, 0x00, 0xfe, 0xff, 0xff), COMPUTES(PC - 0x1f9) },
	{ "lea rax, [0x5a1000]", CODE(0x48, 0x8d, 0x04, 0x25, 0x00, 0x10, 0x5a, 0x00), COMPUTES(0x5a1000) },
	/* operands without an address of their own */
	{ "lea r12, [rsp-0x78]", CODE(0x4c, 0x8d, 0x64, 0x24, 0x88), PLAIN(INSN_LEA) },
	{ "lea rax, [rcx*8+0x5a1000]", CODE(0x48, 0x8d, 0x04, 0xcd, 0x00, 0x10, 0x5a, 0x00),
	  PLAIN(INSN_LEA) },
	{ "cmp rsp, [r14+0x10]", CODE(0x49, 0x3b, 0x66, 0x10), SOMEWHERE(INSN_OTHER, 8, INSN_READS) },
	{ "mov rcx, fs:[-8]", CODE(0x64, 0x48, 0x8b, 0x0c, 0x25, 0xf8, 0xff, 0xff, 0xff),
	  SOMEWHERE(INSN_OTHER, 8, INSN_READS) },
	{ "mov rax, [rcx+0x5a1000]", CODE(0x48, 0x8b, 0x81, 0x00, 0x10, 0x5a, 0x00),
	  SOMEWHERE(INSN_OTHER, 8, INSN_READS) },
	{ "nop [rax+rax]", CODE(0x0f, 0x1f, 0x44, 0x00, 0x00), PLAIN(INSN_OTHER) },
	{ "nop", CODE(0x90), PLAIN(INSN_OTHER) },
	{ "push rbp", CODE(0x55), PLAIN(INSN_OTHER) },
	{ "mov rbp, rsp", CODE(0x48, 0x89, 0xe5), PLAIN(INSN_OTHER) },
};

enum { ROWS = sizeof(rows) / sizeof(*rows) };

/* Decodes a copy that ends where its bytes end. */
static bool decode_exact(const uint8_t *bytes, size_t len, struct insn *ret)
{
	uint8_t *copy = memcpy(malloc(len + !len), bytes, len);
	bool ok = insn_decode(copy, len, PC, ret);

	free(copy);
	return ok;
}

static void check_row(const struct row *row, const struct insn *got)
{
	const struct insn *want = &row->want;

	if (got->length != row->length || got->kind != want->kind || got->target != want->target ||
	    got->has_address != want->has_address || got->address != want->address ||
	    got->access_size != want->access_size || got->access != want->access)
		fail_msg("%s: length %d kind %d target %#lx has %d address %#lx size %d access %d", row->text,
			 got->length, got->kind, got->target, got->has_address, got->address,
			 got->access_size, got->access);
}

static void test_rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS; i++) {
		struct insn got = { 0 };

		assert_true(decode_exact(rows[i].bytes, rows[i].length, &got));
		check_row(&rows[i], &got);
	}
}

static void test_more_bytes_change_nothing(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS; i++) {
		uint8_t bytes[64];
		struct insn got = { 0 };

		memset(bytes, 0xe8, sizeof(bytes));
		memcpy(bytes, rows[i].bytes, rows[i].length);
		assert_true(insn_decode(bytes, sizeof(bytes), PC, &got));
		check_row(&rows[i], &got);
	}
}

static void test_too_few_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS; i++)
		for (size_t len = 0; len < rows[i].length; len++) {
			struct insn got = { .length = 99, .target = 99 };

			if (decode_exact(rows[i].bytes, len, &got))
				fail_msg("%s: decoded from %zu bytes", rows[i].text, len);
			assert_int_equal(got.length, 99);	/* untouched */
			assert_int_equal(got.target, 99);
		}
}

static void test_no_instructions(void **state)
{
	static const struct { uint8_t bytes[INSN_MAX + 1]; size_t len; } bad[] = {
		{ CODE(0x06) },			/* push es: not in 64-bit mode */
		{ CODE(0xea, 0, 0, 0, 0, 0, 0) },	/* jmp far imm */
		{ CODE(0xff, 0xff) },
		{ CODE(0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
		       0x90) },			/* 16 bytes */
	};
	struct insn got;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(decode_exact(bad[i].bytes, bad[i].len, &got));
	assert_false(insn_decode(NULL, 0, PC, &got));
}

static void test_random_bytes(void **state)
{
	uint32_t random = 11;

	(void)state;
	for (int round = 0; round < 50000; round++) {
		size_t len = (size_t)round % (INSN_MAX + 3);
		struct insn got = { 0 };
		uint8_t bytes[INSN_MAX + 3];

		for (size_t i = 0; i < len; i++)
			bytes[i] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
		if (!decode_exact(bytes, len, &got))
			continue;
		assert_true(got.length >= 1 && got.length <= len && got.length <= INSN_MAX);
		assert_true(got.has_address || got.address == 0);
	}
}

/* Members of structs: one register and a displacement. */
static void test_members(void **state)
{
	static const struct {
		uint8_t bytes[INSN_MAX];
		uint8_t base;
		int32_t displacement;
	} v[] = {
		{ { 0x48, 0x8b, 0x58, 0x30 }, 1 + 0, 0x30 },			/* mov rbx,[rax+0x30] */
		{ { 0x48, 0x8b, 0x13 }, 1 + 3, 0 },				/* mov rdx,[rbx] */
		{ { 0x49, 0x89, 0x86, 0x68, 1, 0, 0 }, 1 + 14, 0x168 },		/* mov [r14+0x168],rax */
		{ { 0x48, 0x8b, 0x4a, 0xf8 }, 1 + 2, -8 },			/* mov rcx,[rdx-8] */
		{ { 0x48, 0x8b, 0x7c, 0x24, 0x10 }, INSN_BASE_SP, 0x10 },	/* mov rdi,[rsp+0x10] */
		{ { 0x64, 0x48, 0x8b, 0x04, 0x25, 0xf8, 0xff, 0xff, 0xff }, 0, 0 },	/* mov rax,fs:-8 */
		{ { 0x48, 0x8b, 0x04, 0xc8 }, 0, 0 },				/* mov rax,[rax+rcx*8] */
		{ { 0x48, 0x8b, 0x05, 1, 0, 0, 0 }, 0, 0 },			/* mov rax,[rip+1] */
		{ { 0x48, 0x01, 0xd8 }, 0, 0 },					/* add rax,rbx */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct insn in;

		assert_true(insn_decode(v[i].bytes, sizeof(v[i].bytes), PC, &in));
		assert_int_equal(in.base, v[i].base);
		assert_int_equal(in.displacement, v[i].displacement);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_more_bytes_change_nothing),
		cmocka_unit_test(test_too_few_bytes),
		cmocka_unit_test(test_no_instructions),
		cmocka_unit_test(test_random_bytes),
		cmocka_unit_test(test_members),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
