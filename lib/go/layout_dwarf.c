/*
 * layout_dwarf.c: a layout from the program's own debug information.
 *
 * It says where members stand in this very program, patched or not, but only if it belongs to it:
 * whoever uses it lets the process confirm it (settle.c). Members that it does not name are absent.
 *
 * Upstream: src/runtime/runtime2.go, cmd/link/internal/ld/dwarf.go.
 */
#include "go/settle_impl.h"
#include "image/dwarf_layout.h"

struct error *go_layout_dwarf(struct image *img, struct go_layout *ret)
{
	struct dwarf_member v[GO_FIELD_COUNT] = {
#define X(name, s, m) [GO_##name] = { .strct = s, .member = m },
#include "go/layout_fields.inc"
#undef X
	};
	struct error *err = image_dwarf_members(img, v, GO_FIELD_COUNT);

	if (err)
		return err;
	for (int f = 0; f < GO_FIELD_COUNT; f++) {
		bool known = v[f].offset >= 0 && v[f].size > 0;

		ret->f[f] = (struct go_field_at){
			.offset = known ? v[f].offset : -1,
			.size = known ? v[f].size : 0,
			.source = known ? GO_SOURCE_DWARF : GO_SOURCE_NONE,
		};
	}
	return NULL;
}
