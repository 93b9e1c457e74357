/*
 * runtimes.c: which Go runtimes a process holds.
 *
 * First its executable; then, if that has no Go or loads libraries, all other images (started
 * through a loader by hand, c-shared libraries in a host of another language); and when no file has
 * any, its memory (packed programs). A plugin looks like a runtime, even the scheduler's code is in
 * it; but it is a module in the list of the runtime that loaded it (modules.c), and so is none. Each
 * runtime is read from its own image and its modules alone. More than one is no answer unless the user has named one: goroutines of
 * two schedulers must not be mixed.
 *
 * Must not know versions or tables; process.c opens what is found here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "go/pclntab_impl.h"

enum { NAME_MAX_BYTES = 128 };

/* ---- names ---- */

/* "a.so" of "/srv/a.so (deleted)". */
static void base_name(const char *path, char name[NAME_MAX_BYTES])
{
	static const char deleted[] = " (deleted)";
	const char *slash = strrchr(path, '/');
	size_t n;

	snprintf(name, NAME_MAX_BYTES, "%s", slash ? slash + 1 : path);
	n = strlen(name);
	if (n > sizeof(deleted) - 1 && strcmp(name + n - (sizeof(deleted) - 1), deleted) == 0)
		name[n - (sizeof(deleted) - 1)] = '\0';
}

static const char *text_copy(struct go_runtime *rt, const char *s)
{
	const char *copy = arena_strndup(&rt->strings, s, strlen(s));

	return copy ? copy : "";
}

/* ---- one candidate ---- */

static bool has_go(struct image *img)
{
	struct pclntab_header h;
	size_t n = 1;
	struct error *err = pclntab_candidates(img, &h, &n);

	error_free(err);
	return !err && n > 0;
}

/* Keeps the first failure: it is told when there is nothing better. */
static void failure_keep(struct error **failure, struct error *err)
{
	if (*failure)
		error_free(err);
	else
		*failure = err;
}

/* Opens the runtime in this image, if there is one; what fails goes to *failure, but for memory. */
static struct error *candidate_open(struct go_process *p, struct image *img, uint64_t bias,
				    const char *path, const char *where, struct error **failure)
{
	char name[NAME_MAX_BYTES];
	struct go_runtime *rt;
	struct error *err;

	if (p->n_runtimes == GO_RUNTIMES_MAX)
		return NULL;
	err = go_runtime_open(p, img, bias, &rt);
	if (err == &err_nomem)
		return err;
	if (err) {
		failure_keep(failure, err);
		return NULL;
	}
	base_name(path, name);
	rt->file = text_copy(rt, name);
	rt->where = text_copy(rt, where);
	p->runtimes[p->n_runtimes++] = rt;
	return NULL;
}

/* Does a runtime list a module between these addresses? From the second one on: plugins. */
static bool lists_module(const struct go_runtime *rt, uint32_t first, gaddr_t low, gaddr_t high)
{
	for (uint32_t i = first; i < rt->chain.n_seen; i++)
		if (rt->chain.seen[i] >= low && rt->chain.seen[i] < high)
			return true;
	return false;
}

static bool is_known(const struct go_process *p, const struct mapped_image *m)
{
	for (uint32_t i = 0; i < p->n_runtimes; i++)
		if (lists_module(p->runtimes[i], 0, m->start, m->end))
			return true;
	return false;
}

/* Opened before the runtime to which they belong. */
static void modules_drop(struct go_process *p)
{
	bool is_module[GO_RUNTIMES_MAX];
	uint32_t kept = 0;

	for (uint32_t i = 0; i < p->n_runtimes; i++) {
		gaddr_t own = p->runtimes[i]->chain.seen[0];
		bool listed = false;

		for (uint32_t k = 0; k < p->n_runtimes; k++)
			listed |= k != i && lists_module(p->runtimes[k], 1, own, own + 1);
		is_module[i] = listed;
	}
	for (uint32_t i = 0; i < p->n_runtimes; i++) {
		if (is_module[i])
			go_runtime_destroy(p->runtimes[i]);
		else
			p->runtimes[kept++] = p->runtimes[i];
	}
	p->n_runtimes = kept;
}

/* ---- images ---- */

static struct error *libraries_open(struct go_process *p, const struct image *exe,
				    struct error **failure)
{
	struct error *err = p->mapped ? NULL : images_create(p->target, &p->mapped);
	int machine = target_arch(p->target)->elf_machine;

	for (size_t i = 0; !err && i < images_count(p->mapped); i++) {
		const struct mapped_image *m = images_at(p->mapped, i);
		char name[NAME_MAX_BYTES], where[NAME_MAX_BYTES + 16];

		if (!m->image || !m->executable || image_machine(m->image) != machine ||
		    (exe && strcmp(m->path, target_exe_path(p->target)) == 0) || is_known(p, m) ||
		    !has_go(m->image))
			continue;
		base_name(m->path, name);
		snprintf(where, sizeof(where), "the %s %s", m->in_memory ? "memory of" : "library", name);
		err = candidate_open(p, m->image, m->bias, m->path, where, failure);
	}
	return err;
}

/* ---- the choice ---- */

static void names_add(const struct go_process *p, struct buf *b)
{
	for (uint32_t i = 0; i < p->n_runtimes; i++)
		buf_addf(b, "%s%s", i == 0 ? "" : i + 1 < p->n_runtimes ? ", " : " and ",
			 p->runtimes[i]->file);
}

static void runtime_keep(struct go_process *p, uint32_t chosen)
{
	for (uint32_t i = 0; i < p->n_runtimes; i++)
		if (i != chosen)
			go_runtime_destroy(p->runtimes[i]);
	p->runtimes[0] = p->runtimes[chosen];
	p->n_runtimes = 1;
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct go_runtime *const *)a)->file, (*(struct go_runtime *const *)b)->file);
}

static struct error *choose(struct go_process *p)
{
	_cleanup_(buf_deinit) struct buf names = { 0 };
	const char *wanted = p->options.runtime;
	pid_t pid = target_pid(p->target);

	qsort(p->runtimes, p->n_runtimes, sizeof(*p->runtimes), by_name);
	for (uint32_t i = 0; wanted && i < p->n_runtimes; i++) {
		if (strcmp(p->runtimes[i]->file, wanted) != 0)
			continue;
		runtime_keep(p, i);
		return NULL;
	}
	if (!wanted && p->n_runtimes == 1)
		return NULL;
	buf_init(&names);
	names_add(p, &names);
	if (names.failed)
		return &err_nomem;
	if (wanted)
		return error_why(error_new(ERROR_UNSUPPORTED, "%d holds no Go runtime of the name %s",
					   (int)pid, wanted),
				 "what it holds is in %s", names.data);
	return error_todo(error_why(error_new(ERROR_UNSUPPORTED, "%d holds %u Go runtimes", (int)pid,
					      p->n_runtimes),
				    "each has goroutines of its own: %s", names.data),
			  "--runtime %s", p->runtimes[0]->file);
}

/* ---- all of it ---- */

static struct error *memory_open(struct go_process *p, struct error **failure)
{
	struct error *err = p->mapped ? NULL : images_create(p->target, &p->mapped);

	for (size_t skip = 0; !err && p->n_runtimes == 0 && skip < PCLNTAB_CANDIDATES; skip++) {
		struct image *img;

		err = go_memory_image(p->target, p->mapped, skip, &img);
		if (err)
			return err == &err_notfound ? NULL : err;
		p->images[p->n_images++] = img;
		err = candidate_open(p, img, 0, target_exe_path(p->target), "memory that belongs to no file",
				     failure);
	}
	return err;
}

struct error *go_runtimes_find(struct go_process *p, struct image *exe, const uint64_t *bias)
{
	_cleanup_error_ struct error *failure = NULL;
	bool in_exe = exe && has_go(exe);
	struct error *err = NULL;

	if (in_exe && bias)
		err = candidate_open(p, exe, *bias, target_exe_path(p->target), "its file", &failure);
	if (!err && (!in_exe || image_needs(exe, "")))
		err = libraries_open(p, exe, &failure);
	if (!err && p->n_runtimes == 0 && !failure && !in_exe)
		err = memory_open(p, &failure);
	if (err)
		return err;
	modules_drop(p);
	if (p->n_runtimes == 0)
		return failure ? take(failure) : in_exe ? &err_fault : &err_notfound;
	return choose(p);
}
