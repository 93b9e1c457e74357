/*
 * insn.c: amd64 instructions through Zydis (4.0 and later), cut down to what goprof asks.
 *
 * It decodes what the bytes say and knows nothing of the program they come from: whether an
 * address lies in data, or a call target at a function, is the caller's to check. An address is
 * called known only when no register but RIP takes part in it and no segment base is added: an
 * operand of FS is thread-local and has no address of its own.
 *
 * Follows the Intel manual's reading of 64-bit mode, where a 66 prefix does not shorten a branch.
 */
#include <Zydis/Zydis.h>

#include "insn/insn.h"

_Static_assert(ZYDIS_VERSION_MAJOR(ZYDIS_VERSION) >= 4, "Zydis 4.0 or later is needed (libzydis-dev)");

struct decoded {
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

static const struct {
	ZydisMnemonic mnemonic;
	enum insn_kind kind;
} kinds[] = {
	{ ZYDIS_MNEMONIC_CALL, INSN_CALL },
	{ ZYDIS_MNEMONIC_JMP, INSN_JUMP },
	{ ZYDIS_MNEMONIC_RET, INSN_RETURN },
	{ ZYDIS_MNEMONIC_LEA, INSN_LEA },
	{ ZYDIS_MNEMONIC_INT3, INSN_TRAP },
	{ ZYDIS_MNEMONIC_UD0, INSN_TRAP },
	{ ZYDIS_MNEMONIC_UD1, INSN_TRAP },
	{ ZYDIS_MNEMONIC_UD2, INSN_TRAP },
};

static bool decode(const uint8_t *bytes, size_t len, struct decoded *d)
{
	ZydisDecoder decoder;

	if (len > INSN_MAX)
		len = INSN_MAX;
	return ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) &&
	       ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, len, &d->insn, d->operands));
}

static enum insn_kind kind_of(const ZydisDecodedInstruction *insn)
{
	/* Loads a code segment: no program for Linux does, so it is rather data than code. */
	if (insn->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return INSN_OTHER;
	if (insn->meta.category == ZYDIS_CATEGORY_COND_BR)
		return INSN_BRANCH;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (kinds[i].mnemonic == insn->mnemonic)
			return kinds[i].kind;
	return INSN_OTHER;
}

static bool is_transfer(enum insn_kind kind)
{
	return kind == INSN_CALL || kind == INSN_JUMP || kind == INSN_BRANCH;
}

static uint64_t absolute(const struct decoded *d, const ZydisDecodedOperand *op, uint64_t pc)
{
	ZyanU64 address;

	return ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&d->insn, op, pc, &address)) ? address : 0;
}

static void read_target(const struct decoded *d, uint64_t pc, struct insn *ret)
{
	const ZydisDecodedOperand *op = &d->operands[0];

	if (op->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && op->imm.is_relative)
		ret->target = absolute(d, op, pc);
}

static bool address_is_known(const ZydisDecodedOperandMem *mem)
{
	if (mem->segment == ZYDIS_REGISTER_FS || mem->segment == ZYDIS_REGISTER_GS)
		return false;
	return mem->index == ZYDIS_REGISTER_NONE &&
	       (mem->base == ZYDIS_REGISTER_RIP || mem->base == ZYDIS_REGISTER_NONE);
}

/* The first memory operand that is written in the instruction: pushes of CALL and PUSH are not. */
static const ZydisDecodedOperand *memory_operand(const struct decoded *d)
{
	/* The long forms of NOP name an address and do not go there. */
	if (d->insn.mnemonic == ZYDIS_MNEMONIC_NOP)
		return NULL;
	for (size_t i = 0; i < d->insn.operand_count_visible; i++)
		if (d->operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
			return &d->operands[i];
	return NULL;
}

/* [base + displacement] of a general register and nothing else, as members of structs are named. */
static void read_member(const ZydisDecodedOperandMem *mem, struct insn *ret)
{
	bool local = mem->segment == ZYDIS_REGISTER_FS || mem->segment == ZYDIS_REGISTER_GS;

	if (local || mem->index != ZYDIS_REGISTER_NONE || mem->base < ZYDIS_REGISTER_RAX ||
	    mem->base > ZYDIS_REGISTER_R15)
		return;
	ret->base = (uint8_t)(1 + mem->base - ZYDIS_REGISTER_RAX);
	ret->displacement = (int32_t)mem->disp.value;
}

static void read_memory(const struct decoded *d, uint64_t pc, struct insn *ret)
{
	const ZydisDecodedOperand *op = memory_operand(d);

	if (!op)
		return;
	read_member(&op->mem, ret);
	ret->has_address = address_is_known(&op->mem);
	if (ret->has_address)
		ret->address = absolute(d, op, pc);
	if (op->mem.type == ZYDIS_MEMOP_TYPE_AGEN)	/* computed only */
		return;
	/* Only FXSAVE and its like are bigger; nobody asks for their size. */
	ret->access_size = op->size / 8 < UINT8_MAX ? (uint8_t)(op->size / 8) : UINT8_MAX;
	if (op->actions & ZYDIS_OPERAND_ACTION_MASK_READ)
		ret->access |= INSN_READS;
	if (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
		ret->access |= INSN_WRITES;
}

bool insn_decode(const uint8_t *bytes, size_t len, uint64_t pc, struct insn *ret)
{
	struct decoded d;
	struct insn insn;

	if (!decode(bytes, len, &d))
		return false;
	insn = (struct insn){ .length = d.insn.length, .kind = kind_of(&d.insn) };
	if (is_transfer(insn.kind))
		read_target(&d, pc, &insn);
	read_memory(&d, pc, &insn);
	*ret = insn;
	return true;
}

/* ---- looking backwards ---- */

enum {
	CALL_DIRECT = 5,	/* E8 rel32; prefixes before it change nothing */
	CALL_LONGEST = 8,	/* REX FF /2 with SIB and disp32 */
	CALL_SHORTEST = 2,
	NEAR = 0x07000000,
};

static bool call_of_length(const uint8_t *bytes, size_t len, size_t n, uint64_t return_pc, struct insn *ret)
{
	struct insn insn;

	if (n > len || !insn_decode(bytes + len - n, n, return_pc - n, &insn))
		return false;
	if (insn.kind != INSN_CALL || insn.length != n)
		return false;
	*ret = insn;
	return true;
}

/*
 * Does it start with the opcode, or with REX before it? The other prefixes are left out: they
 * change nothing here, and are as likely the last byte of the instruction before.
 */
static bool starts_indirect(const uint8_t *p, size_t n)
{
	return p[0] == 0xff || (n > CALL_SHORTEST && (p[0] & 0xf0) == 0x40 && p[1] == 0xff);
}

/*
 * The same bytes may end more than one CALL. When the five-byte reading is a direct call to a place
 * near by, it is the right one: an indirect call that happens to follow an E8 would have its own
 * opcode and displacement for the upper bytes of the distance, which makes it 120 MB and more.
 * Among indirect readings the longest counts, which keeps a REX prefix with its instruction.
 */
bool insn_call_before(const uint8_t *bytes, size_t len, uint64_t return_pc, struct insn *ret)
{
	struct insn direct, insn;
	bool has_direct = call_of_length(bytes, len, CALL_DIRECT, return_pc, &direct) && direct.target;

	if (has_direct && direct.target - return_pc + NEAR < 2 * (uint64_t)NEAR) {
		*ret = direct;
		return true;
	}
	for (size_t n = len < CALL_LONGEST ? len : CALL_LONGEST; n >= CALL_SHORTEST; n--) {
		if (!starts_indirect(bytes + len - n, n) ||
		    !call_of_length(bytes, len, n, return_pc, &insn))
			continue;
		*ret = insn;
		return true;
	}
	if (has_direct)
		*ret = direct;
	return has_direct;
}
