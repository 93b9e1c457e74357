/*
 * maker_notes.c: the target that notes what goprof's own code reads of a stopped process, and the
 * calls by which what is read of the program's file is noted.
 *
 * Those calls are wrapped by the linker (--wrap, see the Makefile), so that lib/ knows nothing of
 * it. Searches through the whole file are not noted, only what they look for.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cores/maker.h"
#include "go/pclntab_impl.h"
#include "image/image_impl.h"

/* ---- what was read ---- */

void note(struct ranges *r, uint64_t start, uint64_t len)
{
	if (!len)
		return;
	if (r->n == r->cap) {
		r->cap = r->cap ? 2 * r->cap : 1024;
		r->v = must(realloc(r->v, r->cap * sizeof(*r->v)));
	}
	r->v[r->n++] = (struct range){ start, start + len };
}

static int by_start(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

void settle(struct ranges *r, uint64_t grain)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n; i++) {
		r->v[i].start -= r->v[i].start % grain;
		r->v[i].end += (grain - r->v[i].end % grain) % grain;
	}
	qsort(r->v, r->n, sizeof(*r->v), by_start);
	for (size_t i = 0; i < r->n; i++) {
		if (kept && r->v[i].start <= r->v[kept - 1].end) {
			if (r->v[i].end > r->v[kept - 1].end)
				r->v[kept - 1].end = r->v[i].end;
		} else {
			r->v[kept++] = r->v[i];
		}
	}
	r->n = kept;
}

/* ---- the target that notes ---- */

static struct error *noting_read_v(const struct target *t, struct span *v, size_t n)
{
	struct error *err = target_read_v(maker.live, v, n);

	(void)t;
	for (size_t i = 0; i < n && !err && maker.noting; i++)
		note(&maker.memory, v[i].addr, v[i].done);
	return err;
}

static struct error *noting_mappings(const struct target *t, struct mappings *ret)
{
	(void)t;
	return target_mappings(maker.live, ret);
}

static struct error *noting_tids(const struct target *t, pid_t *tids, size_t *n)
{
	(void)t;
	for (size_t i = 0; i < maker.n_threads && i < *n; i++)
		tids[i] = maker.threads[i].tid;
	*n = maker.n_threads;
	return NULL;
}

bool thread_is_known(pid_t tid)
{
	for (size_t i = 0; i < maker.n_threads; i++)
		if (maker.threads[i].tid == tid)
			return true;
	return false;
}

static pid_t noting_tid_from_inner(struct target *t, pid_t inner)
{
	(void)t;
	return thread_is_known(inner) ? inner : -1;
}

static enum target_life noting_life(const struct target *t)
{
	(void)t;
	return TARGET_ALIVE;
}

static bool noting_cpu_ns(const struct target *t, uint64_t *ret)
{
	(void)t;
	(void)ret;
	return false;
}

static struct error *noting_task_open(const struct target *t, pid_t tid, struct task **ret)
{
	(void)t;
	(void)tid;
	(void)ret;
	return &err_gone;
}

static char noting_tid_state(const struct target *t, pid_t tid)
{
	(void)t;
	return thread_is_known(tid) ? 't' : 0;
}

static bool noting_regs(const struct target *t, pid_t tid, struct regs *ret)
{
	(void)t;
	for (size_t i = 0; i < maker.n_threads; i++) {
		if (maker.threads[i].tid != tid)
			continue;
		*ret = maker.threads[i].regs;
		return true;
	}
	return false;
}

/* Files other than the program's are read, but not kept: the core does not name them. */
static struct error *noting_mapping_fd(const struct target *t, const struct mapping *m, int *ret)
{
	(void)t;
	return target_mapping_fd(maker.live, m, ret);
}

static void noting_close(struct target *t)
{
	(void)t;
}

const struct target_ops noting_ops = {
	.close = noting_close, .read_v = noting_read_v, .mappings = noting_mappings, .tids = noting_tids,
	.tid_from_inner = noting_tid_from_inner, .life = noting_life, .cpu_ns = noting_cpu_ns,
	.task_open = noting_task_open, .tid_state = noting_tid_state, .thread_regs = noting_regs,
	.mapping_fd = noting_mapping_fd,
};

/* ---- reads of the file ---- */

size_t __real_block_cache_read(struct block_cache *c, uint64_t offset, void *buf, size_t len);
size_t __wrap_block_cache_read(struct block_cache *c, uint64_t offset, void *buf, size_t len);

size_t __wrap_block_cache_read(struct block_cache *c, uint64_t offset, void *buf, size_t len)
{
	size_t n = __real_block_cache_read(c, offset, buf, len);
	struct stat st;

	if (maker.noting && !maker.searching && fstat(c->fd, &st) == 0 && st.st_dev == maker.dev &&
	    st.st_ino == maker.inode)
		note(&maker.file, offset, n);
	return n;
}

struct error *__real_image_scan(struct image *img, uint32_t with, uint32_t without, image_scan_fn fn, void *ctx);
struct error *__wrap_image_scan(struct image *img, uint32_t with, uint32_t without, image_scan_fn fn, void *ctx);

struct scan {
	struct image *img;
	image_scan_fn fn;
	void *ctx;
};

/* What searches look for: the heads of function tables and build records. They are noted. */
static bool scan_chunk(void *ctx, const struct image_chunk *c)
{
	static const char table[] = "\xff\xff\xff\0\0\1\x08", record[] = "\xff Go buildinf:";
	const struct scan *s = ctx;
	uint8_t head[128];
	int searching = maker.searching;

	maker.searching = 0;
	for (size_t i = 0; i + 16 <= c->len && i < c->own; i += 8)
		if (memcmp(c->bytes + i + 1, table, 7) == 0 || memcmp(c->bytes + i, record, 14) == 0)
			image_read_some(s->img, c->addr + i, head, sizeof(head));
	maker.searching = searching;
	return s->fn(s->ctx, c);
}

struct error *__wrap_image_scan(struct image *img, uint32_t with, uint32_t without, image_scan_fn fn, void *ctx)
{
	struct scan s = { img, fn, ctx };

	maker.searching++;
	struct error *err = __real_image_scan(img, with, without, scan_chunk, &s);
	maker.searching--;
	return err;
}

struct error *__real_image_find_pointers(struct image *img, gaddr_t value, gaddr_t *out, size_t *n);
struct error *__wrap_image_find_pointers(struct image *img, gaddr_t value, gaddr_t *out, size_t *n);

struct error *__wrap_image_find_pointers(struct image *img, gaddr_t value, gaddr_t *out, size_t *n)
{
	uint64_t word;

	maker.searching++;
	struct error *err = __real_image_find_pointers(img, value, out, n);
	maker.searching--;
	for (size_t i = 0; !err && i < *n; i++)
		error_free(image_read_relocated(img, out[i], &word, sizeof(word)));
	return err;
}

bool __real_go_func_by_name(struct go_runtime *rt, const char *name, uint32_t *pos, struct go_func *ret);
bool __wrap_go_func_by_name(struct go_runtime *rt, const char *name, uint32_t *pos, struct go_func *ret);

/* Of all names and records only those of the function that was found. */
bool __wrap_go_func_by_name(struct go_runtime *rt, const char *name, uint32_t *pos, struct go_func *ret)
{
	uint8_t bytes[4096];

	/* Loads the table of functions, which every question needs. */
	if (rt->n_modules)
		go_func_find(rt, rt->modules[0].text + rt->modules[0].bias, ret);
	maker.searching++;
	bool found = __real_go_func_by_name(rt, name, pos, ret);
	maker.searching--;
	if (found) {
		const struct go_module *m = ret->module;

		image_read_some(m->image, m->funcnametab + ret->name_off, bytes, strlen(name) + 1);
		image_read_some(m->image, m->functab + ret->offset, bytes,
				(size_t)pclntab_shape(m->format)->func.size);
	}
	return found;
}
