/*
 * go_image_world.c: see go_image_world.h. Ends the test when anything but the module is not found.
 */
#include <stdlib.h>
#include <unistd.h>

#include "go_image_world.h"

static void must(bool ok)
{
	if (!ok)
		abort();
}

struct world *world_try(struct go_image_fake *f, uint64_t bias, struct error **err)
{
	struct world *w = calloc(1, sizeof(*w));
	int fd = go_image_fake_file(f, FAKE_SIZE);

	must(w && !image_open_fd(fd, &w->img));
	close(fd);
	must(go_layout_row(f->o.minor, &w->rt.layout));
	w->f = f;
	w->text = f->text + bias;
	w->rt.build.minor = f->o.minor;
	w->rt.wrapper_id = go_wrapper_func_id(f->o.minor);
	arena_init(&w->rt.strings);
	must(!pclntab_cache_create(&w->rt.cache));
	*err = go_module_find(w->img, bias, &w->rt.layout, &w->rt.modules[0]);
	w->rt.n_modules = *err ? 0 : 1;
	return w;
}

struct world *world_of(struct go_image_fake *f, uint64_t bias)
{
	struct error *err;
	struct world *w = world_try(f, bias, &err);

	must(!err);
	return w;
}

void world_close(struct world *w)
{
	pclntab_cache_destroy(w->rt.cache);
	arena_deinit(&w->rt.strings);
	image_close(w->img);
	go_image_fake_destroy(w->f);
	free(w);
}

gaddr_t func_pc(const struct world *w, int func, uint32_t offset)
{
	return w->text + (uint64_t)func * FAKE_FUNC_SIZE + offset;
}
