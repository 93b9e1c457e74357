/*
 * process.c: from a process or a file to its Go runtime; owns everything below.
 *
 * The order is from cheap and certain to dear: is it Go at all, which version, is there a layout,
 * where is its module, where are its variables. Everything but the variables' contents comes from
 * the file, so a process that stands at its exec will do. Whether the layout fits is asked later,
 * by go_runtime_check: until then nothing but the function table is claimed (caps).
 *
 * Upstream: src/runtime/symtab.go, src/debug/buildinfo.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "go/pclntab_impl.h"

/* ---- parts ---- */

void go_runtime_destroy(struct go_runtime *rt)
{
	if (!rt)
		return;
	pclntab_cache_destroy(rt->cache);
	arena_deinit(&rt->strings);
	free(rt);
}

static void runtime_cleanup(struct go_runtime **rt)
{
	go_runtime_destroy(*rt);
}

static void process_cleanup(struct go_process **p)
{
	go_process_close(*p);
}

void go_process_close(struct go_process *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; i < p->n_runtimes; i++)
		go_runtime_destroy(p->runtimes[i]);
	for (uint32_t i = 0; i < p->n_images; i++)
		image_close(p->images[i]);
	images_destroy(p->mapped);
	free(p);
}

size_t go_process_runtimes(const struct go_process *p)
{
	return p->n_runtimes;
}

struct go_runtime *go_process_runtime(struct go_process *p, size_t i)
{
	return i < p->n_runtimes ? p->runtimes[i] : NULL;
}

const char *go_runtime_where(const struct go_runtime *rt)
{
	return rt->where;
}

struct image *go_runtime_image(const struct go_runtime *rt)
{
	return rt->modules[0].image;
}

uint32_t go_runtime_modules(const struct go_runtime *rt, uint32_t *unread)
{
	*unread = rt->chain.n_unread;
	return rt->n_modules;
}

const struct go_build *go_runtime_build(const struct go_runtime *rt)
{
	return &rt->build;
}

gaddr_t go_runtime_text(const struct go_runtime *rt)
{
	return rt->modules[0].text + rt->modules[0].bias;
}

const struct go_global_at *go_runtime_globals(const struct go_runtime *rt)
{
	return rt->globals;
}

const struct go_layout *go_runtime_layout(const struct go_runtime *rt)
{
	return &rt->layout;
}

uint32_t go_runtime_caps(const struct go_runtime *rt)
{
	return rt->caps;
}

const char *go_runtime_restricted(const struct go_runtime *rt)
{
	return rt->restricted;
}

gaddr_t go_pc_real(const struct go_runtime *rt, gaddr_t pc)
{
	(void)rt;
	return pc;
}

/* ---- refusals ---- */

/* What the program is called in messages: "4711 (/srv/app)". */
struct who {
	char name[512];
};

static struct who who_is(const struct target *t)
{
	struct who w;

	if (t)
		snprintf(w.name, sizeof(w.name), "%d (%s)", (int)target_pid(t), target_exe_path(t));
	else
		snprintf(w.name, sizeof(w.name), "the file");
	return w;
}

void go_versions_text(struct buf *b)
{
	enum { SPANS = 16 };
	struct span { int first, last; } v[SPANS];
	int n, spans = 0;
	const int *minors = go_layout_minors(&n);

	for (int i = 0; i < n; i++) {
		if (spans && v[spans - 1].last + 1 == minors[i])
			v[spans - 1].last++;
		else if (spans < SPANS)
			v[spans++] = (struct span){ minors[i], minors[i] };
	}
	for (int i = 0; i < spans; i++) {
		buf_addf(b, "%sgo1.%d", i == 0 ? "" : i + 1 < spans ? ", " : " and ", v[i].first);
		if (v[i].last > v[i].first)
			buf_addf(b, " to go1.%d", v[i].last);
	}
}

static struct error *unsupported_version(const struct who *w, const struct go_build *b)
{
	_cleanup_(buf_deinit) struct buf versions = { 0 };

	buf_init(&versions);
	go_versions_text(&versions);
	return error_why(error_new(ERROR_UNSUPPORTED, "%s was built by %s, which goprof cannot read",
				   w->name, b->version),
			 "goprof reads %s", versions.data ? versions.data : "no version");
}

static bool is_gccgo(struct image *img)
{
	static const char *const name[] = { "__go_init_main" };
	struct image_symbol sym = { 0 };
	struct error *err = image_find_symbols(img, name, 1, &sym);

	error_free(err);
	return (!err && sym.addr) || image_needs(img, "libgo.so.");
}

static struct error *not_go(const struct who *w, const struct go_process *p, struct image *img)
{
	if (img && is_gccgo(img))
		return error_why(error_new(ERROR_UNSUPPORTED, "%s was built by gccgo", w->name),
				 "its runtime has nothing in common with that of the go command");
	return error_why(error_new(ERROR_NOT_GO, "%s is not a Go program", w->name),
			 "no Go function table (pclntab) in its file%s",
			 p->target ? ", in its libraries or in its memory" : "");
}

/* ---- one runtime ---- */

static struct error *build_read(const struct who *w, struct image *img, struct go_runtime *rt)
{
	struct error *err = go_buildinfo_read(img, &rt->strings, &rt->build);

	if (err == &err_notfound)
		return error_why(error_new(ERROR_UNSUPPORTED, "the Go version of %s cannot be told", w->name),
				 "no build information and no version text in its file");
	if (err)
		return err;
	err = go_layout_choose(img, &rt->build, &rt->layout, &rt->has_layout);
	if (err)
		return err == &err_notfound ? unsupported_version(w, &rt->build) : err;
	/* What a version without a row of its own calls a wrapper is found out later (settle.c). */
	rt->wrapper_id = rt->has_layout ? go_wrapper_func_id(rt->build.minor) : UINT8_MAX;
	return NULL;
}

static struct error *module_read(const struct who *w, struct image *img, uint64_t bias,
				 struct go_runtime *rt)
{
	struct error *err = go_module_find(img, bias, &rt->layout, &rt->modules[0]);
	const char *bad;

	if (!err) {
		rt->n_modules = 1;
		return NULL;
	}
	if (err != &err_notfound)
		return err;
	err = error_new(ERROR_UNSUPPORTED, "the tables of %s (%s) cannot be read", w->name,
			rt->build.version);
	bad = go_module_contradiction(img, &rt->layout);
	return bad ? error_why(err, "its moduledata contradicts itself: %s", bad)
		   : error_why(err, "no moduledata that agrees with its function table");
}

struct error *go_runtime_open(struct go_process *p, struct image *img, uint64_t bias,
			      struct go_runtime **ret)
{
	_cleanup_(runtime_cleanup) struct go_runtime *rt = calloc(1, sizeof(*rt));
	struct who w = who_is(p->target);
	struct error *err;

	if (!rt)
		return &err_nomem;
	rt->process = p;
	rt->path = rt->file = rt->where = "";
	arena_init(&rt->strings);
	err = pclntab_cache_create(&rt->cache);
	if (!err)
		err = build_read(&w, img, rt);
	if (!err)
		err = module_read(&w, img, bias, rt);
	if (err)
		return err;
	rt->caps = GO_CAP_PCLNTAB;
	err = go_globals_find(rt);
	if (!err)
		err = go_modules_read(rt);
	if (err)
		return err;
	*ret = take(rt);
	return NULL;
}

/* ---- image and place ---- */

static struct error *image_add(const struct who *w, struct go_process *p, int fd,
			       const struct arch *arch, struct image **ret)
{
	struct image *img;
	struct error *err = image_open_fd(fd, &img);

	if (err && err->kind == ERROR_NOT_FOUND) {
		error_free(err);
		return error_why(error_new(ERROR_NOT_GO, "%s is not a Go program", w->name),
				 "it is not an ELF file");
	}
	if (err)
		return error_wrap(err, "%s cannot be read", w->name);
	p->images[p->n_images++] = img;
	if (image_machine(img) != arch->elf_machine)
		return error_why(error_new(ERROR_UNSUPPORTED, "%s was built for another CPU", w->name),
				 "this goprof reads %s programs", arch->name);
	*ret = img;
	return NULL;
}

static struct error *process_alloc(struct target *t, struct go_process **ret)
{
	struct go_process *p = calloc(1, sizeof(*p));

	if (!p)
		return &err_nomem;
	p->target = t;
	*ret = p;
	return NULL;
}

/*
 * The executable and its place; *img stays NULL when it is no ELF file or there is none, *placed
 * false when it is not mapped (packers unmap theirs): Go may be elsewhere.
 */
static struct error *executable_open(const struct who *w, struct go_process *p, struct image **img,
				     uint64_t *bias, bool *placed)
{
	int fd;
	struct error *err = target_exe_fd(p->target, &fd);

	*placed = false;
	if (!err)
		err = image_add(w, p, fd, target_arch(p->target), img);
	if (err && (err->kind == ERROR_NOT_GO || err->kind == ERROR_NOT_FOUND)) {
		error_free(err);
		return NULL;
	}
	if (!err) {
		err = go_image_place(p->target, fd, *img, bias);
		*placed = !err;
	}
	return err == &err_notfound ? NULL : err;
}

struct error *go_process_open(struct target *t, const struct go_options *o, struct go_process **ret)
{
	_cleanup_(process_cleanup) struct go_process *p = NULL;
	struct who w = who_is(t);
	struct image *img = NULL;
	uint64_t bias = 0;
	bool placed = false;
	struct error *err = process_alloc(t, &p);

	if (!err && o)
		p->options = *o;
	if (!err)
		err = executable_open(&w, p, &img, &bias, &placed);
	if (!err)
		err = go_runtimes_find(p, img, placed ? &bias : NULL);
	if (err == &err_notfound)
		return not_go(&w, p, img);
	if (err == &err_fault)
		return error_why(error_new(ERROR_UNSUPPORTED, "%s cannot be read", w.name),
				 "its executable is not mapped where its program headers say");
	if (err)
		return err;
	*ret = take(p);
	return NULL;
}

struct error *go_process_open_file(int fd, struct go_process **ret)
{
	_cleanup_(process_cleanup) struct go_process *p = NULL;
	struct who w = who_is(NULL);
	struct pclntab_header h;
	struct image *img;
	size_t n = 1;
	struct error *err = process_alloc(NULL, &p);

	if (!err)
		err = image_add(&w, p, fd, arch_host(), &img);
	if (!err)
		err = pclntab_candidates(img, &h, &n);
	if (!err && n == 0)
		err = not_go(&w, p, img);
	if (!err)
		err = go_runtime_open(p, img, 0, &p->runtimes[0]);
	if (err)
		return err;
	p->n_runtimes = 1;
	*ret = take(p);
	return NULL;
}
