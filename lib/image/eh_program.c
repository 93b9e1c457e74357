/*
 * eh_program.c: reads through the call frame instructions of one function before anything runs
 * them. Unwinders trust these bytes: a register number out of range, a jump backwards without end
 * or a division in an expression would be theirs to suffer. So what is let through is a list: each
 * instruction that compilers, assemblers and the C libraries write, with its operands. The rest is
 * refused, and the walk ends at that function.
 *
 * It does not know what the instructions mean, only how long they are.
 *
 * Upstream: DWARF 4, 6.4.2 and 7.23 (call frame instructions), 2.5 (expressions), LSB 10.5.
 */
#include <string.h>

#include "base/buf.h"
#include "image/eh_frame.h"

enum {
	REGISTERS = 17,		/* those of general use, and the return address */
	VECTOR_REGISTERS = 33,	/* saved ones are named, too, by some compilers */
	EXPRESSION_MAX = 64,	/* bytes; the longest known one has some 20 */
	STATES_MAX = 16,	/* remembered at once */
};

/* Operands, one letter each. */
#define OPERAND_NONE	""
/*	a an address   1 2 4 8 bytes of a number   u, s LEB128   r a register   b a block: an expression */

struct form {
	uint8_t opcode;
	const char *operands;
};

static const struct form instructions[] = {
	{ 0x00, OPERAND_NONE },	/* nop */
	{ 0x01, "a" },		/* set_loc */
	{ 0x02, "1" },		/* advance_loc1, 2, 4 */
	{ 0x03, "2" },
	{ 0x04, "4" },
	{ 0x05, "ru" },		/* offset_extended */
	{ 0x06, "r" },		/* restore_extended */
	{ 0x07, "r" },		/* undefined */
	{ 0x08, "r" },		/* same_value */
	{ 0x09, "rr" },		/* register */
	{ 0x0a, OPERAND_NONE },	/* remember_state, restore_state: counted below */
	{ 0x0b, OPERAND_NONE },
	{ 0x0c, "ru" },		/* def_cfa */
	{ 0x0d, "r" },		/* def_cfa_register */
	{ 0x0e, "u" },		/* def_cfa_offset */
	{ 0x0f, "b" },		/* def_cfa_expression */
	{ 0x10, "rb" },		/* expression */
	{ 0x11, "rs" },		/* offset_extended_sf */
	{ 0x12, "rs" },		/* def_cfa_sf */
	{ 0x13, "s" },		/* def_cfa_offset_sf */
	{ 0x16, "rb" },		/* val_expression */
	{ 0x2e, "u" },		/* GNU_args_size */
	{ 0x2f, "ru" },		/* GNU_negative_offset_extended */
	{ 0x40, OPERAND_NONE },	/* advance_loc: in the opcode */
	{ 0x80, "u" },		/* offset, register in the opcode */
	{ 0xc0, OPERAND_NONE },	/* restore, register in the opcode */
};

/* No jumps (they could go round), no division, no calls. */
static const struct form operations[] = {
	{ 0x06, OPERAND_NONE },	/* deref */
	{ 0x08, "1" }, { 0x09, "1" },	/* const1u, const1s, ... const8s */
	{ 0x0a, "2" }, { 0x0b, "2" },
	{ 0x0c, "4" }, { 0x0d, "4" },
	{ 0x0e, "8" }, { 0x0f, "8" },
	{ 0x10, "u" }, { 0x11, "s" },
	{ 0x12, OPERAND_NONE },	/* dup, drop, over */
	{ 0x13, OPERAND_NONE },
	{ 0x14, OPERAND_NONE },
	{ 0x16, OPERAND_NONE },	/* swap */
	{ 0x1a, OPERAND_NONE },	/* and */
	{ 0x1c, OPERAND_NONE },	/* minus */
	{ 0x1e, OPERAND_NONE },	/* mul */
	{ 0x20, OPERAND_NONE },	/* not, or, plus */
	{ 0x21, OPERAND_NONE },
	{ 0x22, OPERAND_NONE },
	{ 0x23, "u" },		/* plus_uconst */
	{ 0x24, OPERAND_NONE },	/* shl, shr, shra, xor */
	{ 0x25, OPERAND_NONE },
	{ 0x26, OPERAND_NONE },
	{ 0x27, OPERAND_NONE },
	{ 0x29, OPERAND_NONE },	/* eq, ge, gt, le, lt, ne */
	{ 0x2a, OPERAND_NONE },
	{ 0x2b, OPERAND_NONE },
	{ 0x2c, OPERAND_NONE },
	{ 0x2d, OPERAND_NONE },
	{ 0x2e, OPERAND_NONE },
	{ 0x30, OPERAND_NONE },	/* lit0 .. lit31: folded onto the first */
	{ 0x70, "s" },		/* breg0 .. breg31: likewise */
	{ 0x92, "rs" },		/* bregx */
	{ 0x96, OPERAND_NONE },	/* nop */
};

static const struct form *form_of(const struct form *v, size_t n, uint8_t opcode)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].opcode == opcode)
			return &v[i];
	return NULL;
}

static bool expression_holds(struct cursor c);

static bool operand_holds(struct cursor *c, char kind, size_t pointer_bytes)
{
	uint64_t v;
	const uint8_t *bytes;

	switch (kind) {
	case 'a':
		cursor_bytes(c, pointer_bytes);
		break;
	case 'u':
	case 's':
		cursor_uvarint(c);
		break;
	case 'r':
		return cursor_uvarint(c) < REGISTERS && !c->bad;
	case 'b':
		v = cursor_uvarint(c);
		if (c->bad || v > EXPRESSION_MAX)
			return false;
		bytes = cursor_bytes(c, v);
		return bytes && expression_holds(cursor_over(bytes, v));
	default:
		cursor_bytes(c, (size_t)(kind - '0'));
	}
	return !c->bad;
}

static bool operands_hold(struct cursor *c, const struct form *f, size_t pointer_bytes)
{
	for (const char *o = f->operands; *o; o++)
		if (!operand_holds(c, *o, pointer_bytes))
			return false;
	return true;
}

/* Families of 32 operations that carry a number in the opcode. */
static uint8_t fold_operation(uint8_t op)
{
	if (op >= 0x30 && op < 0x50)
		return 0x30;
	if (op >= 0x70 && op < 0x70 + REGISTERS)
		return 0x70;
	return op;
}

static bool expression_holds(struct cursor c)
{
	while (c.p < c.end) {
		const struct form *f = form_of(operations, sizeof(operations) / sizeof(*operations),
					       fold_operation(cursor_u8(&c)));

		if (!f || !operands_hold(&c, f, sizeof(gaddr_t)))
			return false;
	}
	return true;
}

/* The three instructions whose first operand is in the low bits; the register must be one. */
static bool fold_instruction(uint8_t op, uint8_t *ret)
{
	uint8_t high = op & 0xc0, low = op & 0x3f;

	*ret = high ? high : op;
	return high < 0x80 || low < VECTOR_REGISTERS;
}

/* States that are remembered at this point; -1 when it goes below none or above the bound. */
static int states_after(int states, uint8_t opcode)
{
	states += (opcode == 0x0a) - (opcode == 0x0b);
	return states < 0 || states > STATES_MAX ? -1 : states;
}

bool eh_program_holds(const uint8_t *bytes, size_t len, size_t pointer_bytes)
{
	struct cursor c = cursor_over(bytes, len);
	int states = 0;

	while (c.p < c.end) {
		const struct form *f;
		uint8_t opcode;

		if (!fold_instruction(cursor_u8(&c), &opcode))
			return false;
		f = form_of(instructions, sizeof(instructions) / sizeof(*instructions), opcode);
		states = states_after(states, opcode);
		if (!f || states < 0 || !operands_hold(&c, f, pointer_bytes))
			return false;
	}
	return true;
}
