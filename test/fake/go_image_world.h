/*
 * go_image_world.h: a runtime over a file made by hand (go_image_fake.h), as process.c would build
 * it, for tests of single readers.
 */
#ifndef GOPROF_TEST_GO_IMAGE_WORLD_H
#define GOPROF_TEST_GO_IMAGE_WORLD_H

#include "go/pclntab_impl.h"
#include "go_image_fake.h"

struct world {
	struct go_image_fake *f;
	struct image *img;
	struct go_runtime rt;
	gaddr_t text;		/* in the "process" */
};

/* Takes over the fake and opens it. What go_module_find said goes to *err. */
struct world *world_try(struct go_image_fake *f, uint64_t bias, struct error **err);
/* The same; ends the test when it fails. */
struct world *world_of(struct go_image_fake *f, uint64_t bias);
void world_close(struct world *w);
gaddr_t func_pc(const struct world *w, int func, uint32_t offset);

#endif
