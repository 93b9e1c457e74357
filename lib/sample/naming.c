/*
 * naming.c: the seam between unwinding and symbols, which must not know each other: pc kinds are
 * translated here, and here a pc in a stub becomes the place it stands for (go_pc_real).
 */
#include "sample/naming.h"

#include <string.h>

static const enum symbol_pc hows[] = {
	[PC_EXACT] = SYMBOL_EXACT,
	[PC_RETURN] = SYMBOL_RETURN,
	[PC_INJECTED] = SYMBOL_EXACT,
	[PC_NATIVE] = SYMBOL_NATIVE,
	[PC_GAP] = SYMBOL_GAP,
};

enum symbol_pc naming_how(enum pc_kind kind)
{
	return hows[kind];
}

static struct error *find_vdso(struct symbols *s, const struct target *t)
{
	struct mappings maps;
	struct error *err = target_mappings(t, &maps);

	if (err)
		return err;
	for (size_t i = 0; i < maps.n; i++)
		if (strcmp(maps.v[i].path, "[vdso]") == 0)
			symbols_set_vdso(s, maps.v[i].start, maps.v[i].end);
	mappings_deinit(&maps);
	return NULL;
}

struct error *naming_open(const struct target *t, struct go_runtime *rt, struct images *images,
			  struct symbols **ret)
{
	struct symbols *s;
	struct error *err = symbols_create(rt, &s);

	if (err)
		return err;
	err = images ? symbols_set_images(s, images) : find_vdso(s, t);
	if (err) {
		symbols_destroy(s);
		return err;
	}
	*ret = s;
	return NULL;
}

struct error *naming_expand(struct symbols *s, const struct go_runtime *rt, const struct pc_frame *f,
			    const struct symbol_frame **ret, size_t *n)
{
	return symbol_expand(s, go_pc_real(rt, f->pc), naming_how(f->kind), ret, n);
}
