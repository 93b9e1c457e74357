/*
 * insn.h: one machine instruction, decoded as far as goprof asks. The only user of the decoder
 * library. Used by lib/go (rules that find globals, the call-site audit), lib/unwind
 * (is this a return address?) and lib/trace (patch plans).
 */
#ifndef GOPROF_INSN_INSN_H
#define GOPROF_INSN_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum insn_kind {
	INSN_OTHER,
	INSN_CALL,		/* direct when target != 0 */
	INSN_JUMP,		/* unconditional */
	INSN_BRANCH,		/* conditional */
	INSN_RETURN,
	INSN_LEA,
	INSN_TRAP,		/* int3, ud2 */
};

enum insn_access { INSN_READS = 1, INSN_WRITES = 2 };

struct insn {
	uint8_t length;
	enum insn_kind kind;
	uint64_t target;	/* of a direct call, jump or branch; 0 when indirect */
	bool has_address;	/* an absolute address is known: rip-relative or disp32 */
	uint64_t address;	/* of the memory operand, or what LEA computes */
	uint8_t access_size;	/* bytes of the memory operand; 0 for LEA */
	uint8_t access;		/* enum insn_access bits */
	uint8_t base;		/* memory operand [base + displacement]: 1 + register number; 0: of another form */
	int32_t displacement;
};

enum { INSN_MAX = 15, INSN_BASE_SP = 1 + 4 };

/* Decodes at `pc`. False when the bytes are no instruction or too few. */
bool insn_decode(const uint8_t *bytes, size_t len, uint64_t pc, struct insn *ret);

/*
 * The CALL that ends exactly at `return_pc`, given the bytes before it (bytes[len-1] is the last
 * one before return_pc). False when there is none.
 */
bool insn_call_before(const uint8_t *bytes, size_t len, uint64_t return_pc, struct insn *ret);

#endif
