/*
 * runtimes.c: which Go runtimes a process holds.
 *
 * First its executable; then, if that has no Go or loads libraries, all other images (started
 * through a loader by hand, c-shared libraries in a host of another language); and when no file has
 * any, its memory (packed programs). A plugin looks like a runtime, even the scheduler's code is in
 * it; but it is a module in the list of the runtime that loaded it (modules.c), and so is none. Each
 * runtime is read from its own image and its modules alone. More than one is no answer unless the user
 * has named one: goroutines of two schedulers must not be mixed. Nor is a library's when the executable
 * has one that cannot be read.
 *
 * Must not know versions or tables; process.c opens what is found here.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "go/pclntab_impl.h"

/* ---- names ---- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
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

static struct error *names_keep(struct go_runtime *rt, const char *path, const char *where)
{
	const char *p = arena_strndup(&rt->strings, path, image_path_length(path));
	const char *w = arena_strndup(&rt->strings, where, strlen(where));

	if (!p || !w)
		return &err_nomem;
	rt->path = p;
	rt->file = base_name(p);
	rt->where = w;
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

/* Opens the runtime in this image, if there is one; what fails goes to *failure, but for memory. */
static struct error *candidate_open(struct go_process *p, struct image *img, uint64_t bias,
				    const char *path, const char *where, struct error **failure)
{
	struct go_runtime *rt;
	struct error *err;

	if (p->n_runtimes == GO_RUNTIMES_MAX)
		modules_drop(p);
	if (p->n_runtimes == GO_RUNTIMES_MAX) {
		p->n_left_out++;
		return NULL;
	}
	err = go_runtime_open(p, img, bias, &rt);
	if (err == &err_nomem)
		return err;
	if (err) {
		failure_keep(failure, err);
		return NULL;
	}
	p->runtimes[p->n_runtimes++] = rt;
	return names_keep(rt, path, where);
}

/* ---- images ---- */

static struct error *libraries_open(struct go_process *p, const struct image *exe,
				    struct error **failure)
{
	struct error *err = p->mapped ? NULL : images_create(p->target, &p->mapped);
	int machine = target_arch(p->target)->elf_machine;

	for (size_t i = 0; !err && i < images_count(p->mapped); i++) {
		const struct mapped_image *m = images_at(p->mapped, i);
		char where[NAME_MAX + 32];

		if (!m->image || !m->executable || image_machine(m->image) != machine ||
		    (exe && strcmp(m->path, target_exe_path(p->target)) == 0) || is_known(p, m) ||
		    !has_go(m->image))
			continue;
		snprintf(where, sizeof(where), "the %s %.*s", m->in_memory ? "memory of" : "library",
			 (int)(image_path_length(m->path) - (size_t)(base_name(m->path) - m->path)),
			 base_name(m->path));
		err = candidate_open(p, m->image, m->bias, m->path, where, failure);
	}
	return err;
}

/* ---- the choice ---- */

/* The base name if no other runtime has it, else the path. */
static const char *shown_name(const struct go_process *p, const struct go_runtime *rt)
{
	for (uint32_t i = 0; i < p->n_runtimes; i++)
		if (p->runtimes[i] != rt && strcmp(p->runtimes[i]->file, rt->file) == 0)
			return rt->path;
	return rt->file;
}

static bool is_meant(const struct go_runtime *rt, const char *wanted)
{
	return !wanted || strcmp(rt->file, wanted) == 0 || strcmp(rt->path, wanted) == 0;
}

static uint32_t count_meant(const struct go_process *p, const char *wanted)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n_runtimes; i++)
		n += is_meant(p->runtimes[i], wanted);
	return n;
}

static void names_add(const struct go_process *p, const char *wanted, struct buf *b)
{
	uint32_t all = count_meant(p, wanted) + (p->n_left_out > 0), n = 0;

	for (uint32_t i = 0; i < p->n_runtimes; i++) {
		if (!is_meant(p->runtimes[i], wanted))
			continue;
		buf_addf(b, "%s%s", n == 0 ? "" : n + 1 < all ? ", " : " and ",
			 shown_name(p, p->runtimes[i]));
		n++;
	}
	if (p->n_left_out)
		buf_addf(b, " and %u that were not looked at", p->n_left_out);
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
	const struct go_runtime *x = *(struct go_runtime *const *)a, *y = *(struct go_runtime *const *)b;
	int order = strcmp(x->file, y->file);

	return order ? order : strcmp(x->path, y->path);
}

static struct error *none_meant(const struct go_process *p, const char *wanted)
{
	_cleanup_(buf_deinit) struct buf names = { 0 };

	buf_init(&names);
	names_add(p, NULL, &names);
	if (names.failed)
		return &err_nomem;
	return error_why(error_new(ERROR_UNSUPPORTED, "%d holds no Go runtime of the name %s",
				   (int)target_pid(p->target), wanted),
			 "what it holds is in %s", names.data);
}

static struct error *several_meant(const struct go_process *p, const char *wanted, const char *first)
{
	_cleanup_(buf_deinit) struct buf names = { 0 };
	struct error *err;

	buf_init(&names);
	names_add(p, wanted, &names);
	if (names.failed)
		return &err_nomem;
	err = error_new(ERROR_UNSUPPORTED, "%d holds %u Go runtimes%s%s", (int)target_pid(p->target),
			count_meant(p, wanted) + p->n_left_out, wanted ? " of the name " : "", wanted ? wanted : "");
	err = error_why(err, "each has goroutines of its own: %s", names.data);
	/* A file that is loaded twice cannot be named better. */
	return wanted && strcmp(first, wanted) == 0 ? err : error_todo(err, "--runtime %s", first);
}

static struct error *choose(struct go_process *p)
{
	const char *wanted = p->options.runtime;
	uint32_t n = count_meant(p, wanted), chosen = 0;

	qsort(p->runtimes, p->n_runtimes, sizeof(*p->runtimes), by_name);
	if (n == 0)
		return none_meant(p, wanted);
	while (!is_meant(p->runtimes[chosen], wanted))
		chosen++;
	if (n > 1)
		return several_meant(p, wanted, shown_name(p, p->runtimes[chosen]));
	runtime_keep(p, chosen);
	return NULL;
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
	/* A library's would be taken for the program's. */
	if (!err && in_exe && p->n_runtimes == 0 && !p->options.runtime)
		return failure ? take(failure) : &err_fault;
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
