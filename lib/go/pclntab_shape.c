/*
 * pclntab_shape.c: the four formats of the function table, as rows.
 *
 * A new format is one more row. The two oldest hold addresses where the newer ones hold offsets from
 * the start of the code, so in position independent programs they are relocated data.
 *
 * Upstream: src/internal/abi/symtab.go (magic numbers), src/runtime/symtab.go (pcHeader),
 * src/runtime/runtime2.go (_func), src/runtime/symtabinl.go (inlinedCall),
 * src/internal/abi/funcdata or src/runtime/funcdata.h (indices).
 */
#include "go/pclntab_impl.h"

static const struct pclntab_shape shapes[] = {
	[PCLNTAB_12] = {	/* Go 1.2 to 1.15 */
		.magic = 0xfffffffb, .flags_by_name = true, .first_file = 1,
		.header_size = 16, .ftab_word = 8,
		.func = { .size = 40, .entry_size = 8, .name = 8, .args = 12, .pcsp = 20, .pcfile = 24,
			  .pcln = 28, .npcdata = 32, .cu = NO_FIELD, .start_line = NO_FIELD, .func_id = 36,
			  .flags = NO_FIELD, .nfuncdata = 39 },
		.funcdata_word = 8, .funcdata_inl_tree = 4,
		.inl = { .size = 20, .func_id = 2, .name = 12, .parent_pc = 16, .start_line = NO_FIELD },
	},
	[PCLNTAB_116] = {	/* 1.16 and 1.17 */
		.magic = 0xfffffffa, .flags_by_name = true,
		.header_size = 64, .tables_at = 24, .ftab_word = 8,
		.func = { .size = 44, .entry_size = 8, .name = 8, .args = 12, .pcsp = 20, .pcfile = 24,
			  .pcln = 28, .npcdata = 32, .cu = 36, .start_line = NO_FIELD, .func_id = 40,
			  .flags = 41, .nfuncdata = 43 },
		.funcdata_word = 8, .funcdata_inl_tree = 3,
		.inl = { .size = 20, .func_id = 2, .name = 12, .parent_pc = 16, .start_line = NO_FIELD },
	},
	[PCLNTAB_118] = {	/* 1.18 and 1.19 */
		.magic = 0xfffffff0,
		.header_size = 72, .tables_at = 32, .ftab_word = 4,
		.func = { .size = 40, .entry_size = 4, .name = 4, .args = 8, .pcsp = 16, .pcfile = 20,
			  .pcln = 24, .npcdata = 28, .cu = 32, .start_line = NO_FIELD, .func_id = 36,
			  .flags = 37, .nfuncdata = 39 },
		.funcdata_word = 4, .funcdata_inl_tree = 3,
		.inl = { .size = 20, .func_id = 2, .name = 12, .parent_pc = 16, .start_line = NO_FIELD },
	},
	[PCLNTAB_120] = {	/* 1.20 and later */
		.magic = 0xfffffff1,
		.header_size = 72, .tables_at = 32, .ftab_word = 4,
		.func = { .size = 44, .entry_size = 4, .name = 4, .args = 8, .pcsp = 16, .pcfile = 20,
			  .pcln = 24, .npcdata = 28, .cu = 32, .start_line = 36, .func_id = 40,
			  .flags = 41, .nfuncdata = 43 },
		.funcdata_word = 4, .funcdata_inl_tree = 3,
		.inl = { .size = 16, .func_id = 0, .name = 4, .parent_pc = 8, .start_line = 12 },
	},
};

const struct pclntab_shape *pclntab_shape(enum pclntab_format format)
{
	return (size_t)format < sizeof(shapes) / sizeof(shapes[0]) ? &shapes[format] : NULL;
}
