/*
 * modules.c: the modules of a runtime beside its own: plugins, and what was linked as shared.
 *
 * The runtime keeps them in a list, in live memory; it only ever grows at its end. Each module has
 * an image of its own, found by the address of its moduledata, and is read from that image's file as
 * the first one was. The list is the process's: its length is bounded, and an address that was
 * already met ends it. A module that cannot be read is counted, and the list goes on.
 *
 * Upstream: src/runtime/symtab.go (modulesinit, firstmoduledata, lastmoduledatap), plugin.go.
 */
#include <string.h>

#include "base/clock.h"
#include "go/pclntab_impl.h"

enum { LOOK_NS = 100 * NSEC_PER_MSEC };	/* between two looks because of pcs that no module holds */

static bool is_known(const struct go_chain *c, gaddr_t at)
{
	for (uint32_t i = 0; i < c->n_seen; i++)
		if (c->seen[i] == at)
			return true;
	return false;
}

/* The moduledata behind the last one that was seen; 0: there is none, or none that can be believed. */
static gaddr_t next_of_last(const struct go_runtime *rt)
{
	const struct go_chain *c = &rt->chain;
	gaddr_t next = 0;
	struct error *err;

	if (c->n_seen == GO_MODULES_MAX || !go_has(&rt->layout, GO_MD_NEXT))
		return 0;
	err = target_read_u64(rt->process->target,
			      c->seen[c->n_seen - 1] + (uint64_t)rt->layout.f[GO_MD_NEXT].offset, &next);
	error_free(err);
	return err || is_known(c, next) ? 0 : next;
}

static struct error *module_add(struct go_runtime *rt, gaddr_t at)
{
	const struct mapped_image *img = images_find(rt->process->mapped, at);
	struct error *err = &err_notfound;

	if (img && img->image)
		err = go_module_at(img->image, img->bias, at - img->bias, &rt->layout,
				   &rt->modules[rt->n_modules]);
	if (!err)
		rt->n_modules++;
	else if (err != &err_nomem)
		rt->chain.n_unread++;
	return err == &err_nomem ? err : NULL;
}

static struct error *images_now(struct go_process *p)
{
	return p->mapped ? images_refresh(p->mapped) : images_create(p->target, &p->mapped);
}

struct error *go_modules_read(struct go_runtime *rt)
{
	struct go_chain *c = &rt->chain;
	struct error *err = NULL;
	gaddr_t at;

	if (!rt->process->target || rt->n_modules == 0)
		return NULL;
	if (c->n_seen == 0)
		c->seen[c->n_seen++] = rt->modules[0].moduledata + rt->modules[0].bias;
	at = next_of_last(rt);
	if (at)
		err = images_now(rt->process);
	for (; at && !err; at = next_of_last(rt)) {
		c->seen[c->n_seen++] = at;
		err = module_add(rt, at);
	}
	if (err && err->kind != ERROR_NOMEM) {
		error_free(err);
		return NULL;
	}
	return err;
}

bool go_modules_grew(struct go_runtime *rt)
{
	uint32_t before = rt->n_modules;
	uint64_t now;

	if (!rt->process || !rt->process->target || rt->chain.n_seen == 0)
		return false;
	now = system_clock.mono(&system_clock);
	if (now - rt->chain.t_looked < LOOK_NS)
		return false;
	rt->chain.t_looked = now;
	error_free(go_modules_read(rt));
	return rt->n_modules > before;
}
