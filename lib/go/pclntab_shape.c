/*
 * pclntab_shape.c: the four formats of the function table, as rows.
 *
 * A new format is one more row. The rows of the two oldest are there so that a program which has
 * them is named in words; they become supported by the parts of the readers that take 8-byte
 * entries, file numbers without compilation units and funcdata pointers.
 *
 * Upstream: src/internal/abi/symtab.go (magic numbers), src/runtime/symtab.go (pcHeader),
 * src/runtime/runtime2.go (_func), src/runtime/symtabinl.go (inlinedCall),
 * src/internal/abi/funcdata or src/runtime/funcdata.h (indices).
 */
#include "go/pclntab_impl.h"

static const struct pclntab_shape shapes[] = {
	[PCLNTAB_12] = {
		.magic = 0xfffffffb, .versions = "Go 1.2 to 1.15", .first_minor = 2,
		.header_size = 16, .ftab_word = 8,
		.func = { .size = 40, .entry_size = 8, .name = 8, .pcsp = 20, .pcfile = 24, .pcln = 28,
			  .npcdata = 32, .cu = NO_FIELD, .start_line = NO_FIELD, .func_id = 36,
			  .flags = NO_FIELD, .nfuncdata = 39 },
		.funcdata_word = 8, .funcdata_inl_tree = 4,
		.inl = { .size = 20, .func_id = 2, .name = 12, .parent_pc = 16, .start_line = NO_FIELD },
	},
	[PCLNTAB_116] = {
		.magic = 0xfffffffa, .versions = "Go 1.16 and 1.17", .first_minor = 16,
		.header_size = 64, .tables_at = 24, .ftab_word = 8,
		.func = { .size = 44, .entry_size = 8, .name = 8, .pcsp = 20, .pcfile = 24, .pcln = 28,
			  .npcdata = 32, .cu = 36, .start_line = NO_FIELD, .func_id = 40,
			  .flags = 41, .nfuncdata = 43 },
		.funcdata_word = 8, .funcdata_inl_tree = 3,
		.inl = { .size = 20, .func_id = 2, .name = 12, .parent_pc = 16, .start_line = NO_FIELD },
	},
	[PCLNTAB_118] = {
		.magic = 0xfffffff0, .versions = "Go 1.18 and 1.19", .first_minor = 18, .supported = true,
		.header_size = 72, .tables_at = 32, .ftab_word = 4,
		.func = { .size = 40, .entry_size = 4, .name = 4, .pcsp = 16, .pcfile = 20, .pcln = 24,
			  .npcdata = 28, .cu = 32, .start_line = NO_FIELD, .func_id = 36,
			  .flags = 37, .nfuncdata = 39 },
		.funcdata_word = 4, .funcdata_inl_tree = 3,
		.inl = { .size = 20, .func_id = 2, .name = 12, .parent_pc = 16, .start_line = NO_FIELD },
	},
	[PCLNTAB_120] = {
		.magic = 0xfffffff1, .versions = "Go 1.20 and later", .first_minor = 20, .supported = true,
		.header_size = 72, .tables_at = 32, .ftab_word = 4,
		.func = { .size = 44, .entry_size = 4, .name = 4, .pcsp = 16, .pcfile = 20, .pcln = 24,
			  .npcdata = 28, .cu = 32, .start_line = 36, .func_id = 40,
			  .flags = 41, .nfuncdata = 43 },
		.funcdata_word = 4, .funcdata_inl_tree = 3,
		.inl = { .size = 16, .func_id = 0, .name = 4, .parent_pc = 8, .start_line = 12 },
	},
};

const struct pclntab_shape *pclntab_shape(enum pclntab_format format)
{
	return (size_t)format < sizeof(shapes) / sizeof(shapes[0]) ? &shapes[format] : NULL;
}

const struct pclntab_shape *pclntab_shape_of_minor(int minor)
{
	size_t i = sizeof(shapes) / sizeof(shapes[0]) - 1;

	while (i > 0 && shapes[i].first_minor > minor)
		i--;
	return &shapes[i];
}
