/*
 * images.c: which ELF images a process has mapped, and where.
 *
 * The list of mappings is cut into groups: neighbouring mappings of one file whose parts follow each
 * other. Another group of the same file may come: a program may map a file once more to read it.
 * What such a group is worth is known when it is opened: an image is one whose segments lie there as
 * its program headers say. Until then nothing is opened and nothing read. What could not be opened
 * (a loader at work) is tried again after the next refresh. Entries live until the end, because
 * others point to them; what was unmapped only leaves the index. Must not know Go.
 *
 * Upstream: Linux fs/binfmt_elf.c (elf_map), glibc elf/dl-map-segments.h.
 */
#include "image/images.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "image/image_impl.h"

struct entry {
	struct mapped_image pub;	/* first: the outside holds pointers to it */
	struct mapping first;		/* its path is pub.path */
	gaddr_t low, high;		/* of the mappings of the group */
	bool opened, listed;
	bool tried;			/* opened before, without success */
	char path[];
};

struct images {
	struct target *target;
	struct mappings maps;
	struct entry **index;		/* sorted by place */
	uint32_t n, cap;
	struct entry **retired;		/* opened and no longer mapped: somebody may hold them */
	uint32_t n_retired, cap_retired;
	uint32_t n_closed;		/* the first ones of them have been closed */
	uint64_t generation;
};

/* ---- groups ---- */

static bool is_vdso(const struct mapping *m)
{
	return m->inode == 0 && strcmp(m->path, "[vdso]") == 0;
}

/*
 * Is `m` the next part of the image whose last part is `before`? Two segments may share a page of
 * the file; what is not accessible fills the gap up to the next segment and tells no offset.
 */
static bool continues(const struct images *s, const struct mapping *before, const struct mapping *m)
{
	uint64_t shared = target_arch(s->target)->page_size;
	uint64_t end = before->offset + (before->flags ? before->end - before->start : 0);

	return m->inode == before->inode && m->dev == before->dev && m->offset >= before->offset &&
	       m->offset + shared >= end;
}

static struct error *entry_create(const struct mapping *m, struct entry **ret)
{
	size_t len = strlen(m->path) + 1;
	struct entry *e = calloc(1, sizeof(*e) + len);

	if (!e)
		return &err_nomem;
	memcpy(e->path, m->path, len);
	e->first = *m;
	e->first.path = e->pub.path = e->path;
	e->pub.start = e->low = m->start;
	*ret = e;
	return NULL;
}

static void entry_extend(struct entry *e, const struct mapping *m)
{
	e->high = m->end;
	if (e->opened)
		return;
	e->pub.end = m->end;
	e->pub.executable |= (m->flags & MAPPING_EXEC) != 0;
}

static void entry_free(struct entry *e)
{
	image_close(e->pub.image);
	free(e);
}

/* The entry that stood for this group before; the index is sorted. */
static struct entry *entry_known(const struct images *s, const struct mapping *m)
{
	uint32_t low = 0, high = s->n;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (s->index[mid]->low < m->start)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == s->n || s->index[low]->low != m->start)
		return NULL;
	const struct mapping *f = &s->index[low]->first;
	return f->dev == m->dev && f->inode == m->inode && f->offset == m->offset &&
	       strcmp(f->path, m->path) == 0 ? s->index[low] : NULL;
}

struct groups {
	struct entry **v;
	uint32_t n, cap;
};

/* Frees the entries that are not `s`'s already. */
static void groups_drop(struct groups *g)
{
	for (uint32_t i = 0; i < g->n; i++)
		if (!g->v[i]->listed)
			entry_free(g->v[i]);
	free(g->v);
	g->v = NULL;
}

static struct error *group_begin(const struct images *s, const struct mapping *m, struct groups *g)
{
	struct entry *e = entry_known(s, m);
	struct error *err = array_reserve(&g->v, &g->cap, g->n + 1, sizeof(*g->v));

	if (!err && !e)
		err = entry_create(m, &e);
	if (err)
		return err;
	e->first.end = m->end;
	g->v[g->n++] = e;
	return NULL;
}

static struct error *groups_read(const struct images *s, const struct mappings *maps, struct groups *g)
{
	const struct mapping *before = NULL;	/* the last one of a file */

	for (size_t i = 0; i < maps->n; i++) {
		const struct mapping *m = &maps->v[i];

		/* Anonymous memory between two parts of an image is its zeroed data. */
		if (m->inode == 0 && !is_vdso(m))
			continue;
		if (!before || !continues(s, before, m)) {
			struct error *err = group_begin(s, m, g);

			if (err)
				return err;
		}
		entry_extend(g->v[g->n - 1], m);
		before = m;
	}
	return NULL;
}

/* ---- opening ---- */

static bool is_exe(const struct target *t, const struct mapping *m, int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return false;
	return (st.st_ino == m->inode && st.st_dev == m->dev) ||
	       strcmp(m->path, target_exe_path(t)) == 0;
}

/* The file of a group; *borrowed: it stays open. */
static struct error *file_of(const struct images *s, const struct mapping *m, bool *borrowed, int *ret)
{
	int exe;
	struct error *err = target_exe_fd(s->target, &exe);

	*borrowed = !err && is_exe(s->target, m, exe);
	error_free(err);
	if (!*borrowed)
		return target_mapping_fd(s->target, m, ret);
	*ret = exe;
	return NULL;
}

/* From its file: only if that is ELF and its segments lie where the group does. */
static struct error *open_file(struct images *s, struct entry *e, int fd, bool is_program)
{
	struct image *img;
	uint64_t bias;
	struct error *err = image_open_fd(fd, &img);

	if (err)
		return err;
	err = image_place(img, &s->maps, &e->first, &bias);
	/* Where device numbers differ, the program's file was known by its name alone. */
	if (!err && is_program && !image_stands_at(img, s->target, bias))
		err = &err_notfound;
	if (err) {
		image_close(img);
		return err;
	}
	e->pub.image = img;
	e->pub.bias = bias;
	return NULL;
}

static struct error *open_memory(struct images *s, struct entry *e)
{
	struct error *err;

	if (e->first.offset != 0 || !e->pub.executable || !(e->first.flags & MAPPING_READ))
		return &err_notfound;
	err = image_open_memory(s->target, e->low, &e->pub.image, &e->pub.bias);
	e->pub.in_memory = !err;
	return err;
}

/* Parts of one image that something else stands between: the first one is it. */
static bool is_double(const struct images *s, const struct entry *e)
{
	for (uint32_t i = 0; i < s->n; i++) {
		const struct entry *o = s->index[i];

		if (o != e && o->pub.image && o->first.inode == e->first.inode &&
		    o->first.dev == e->first.dev && o->pub.bias == e->pub.bias)
			return true;
	}
	return false;
}

static struct error *entry_load(struct images *s, struct entry *e)
{
	bool borrowed;
	int fd;
	struct error *err = file_of(s, &e->first, &borrowed, &fd);

	if (err) {
		error_free(err);
		return open_memory(s, e);
	}
	err = open_file(s, e, fd, borrowed);
	if (!borrowed)
		close(fd);
	return err;
}

static const struct mapped_image *entry_open(struct images *s, struct entry *e)
{
	gaddr_t low, high;

	if (e->opened)
		return &e->pub;
	e->opened = true;
	error_free(entry_load(s, e));
	if (e->pub.image && is_double(s, e)) {
		image_close(take(e->pub.image));
		e->pub.executable = false;
	}
	if (e->pub.image) {
		image_extent(e->pub.image, &low, &high);
		e->pub.start = low + e->pub.bias;
		e->pub.end = high + e->pub.bias;
		s->generation += e->tried;
	}
	return &e->pub;
}

/* ---- all of them ---- */

/* What is no longer mapped: kept when it was opened, without its blocks. */
static void entry_retire(struct images *s, struct entry *e)
{
	s->generation += e->pub.executable || e->pub.image;
	if (!e->opened) {
		entry_free(e);
		return;
	}
	if (e->pub.image)
		block_cache_drop(&e->pub.image->cache);
	e->pub.gone = true;
	s->retired[s->n_retired++] = e;
}

/* A first look may have come too early, or the file could not be had just then. */
static void entry_again(struct entry *e)
{
	if (!e->opened || e->pub.image || !e->pub.executable)
		return;
	e->opened = false;
	e->tried = true;
}

/* The groups become the index. Room for those that leave it is made first, so that nothing is lost. */
static struct error *index_replace(struct images *s, struct groups *g)
{
	struct error *err = array_reserve(&s->retired, &s->cap_retired, s->n_retired + s->n,
					  sizeof(*s->retired));

	if (err)
		return err;
	for (uint32_t i = 0; i < g->n; i++)
		s->generation += !g->v[i]->listed && g->v[i]->pub.executable;
	for (uint32_t i = 0; i < s->n; i++)
		s->index[i]->listed = false;
	for (uint32_t i = 0; i < g->n; i++) {
		g->v[i]->listed = true;
		entry_again(g->v[i]);
	}
	for (uint32_t i = 0; i < s->n; i++)
		if (!s->index[i]->listed)
			entry_retire(s, s->index[i]);
	free(s->index);
	s->index = take(g->v);
	s->n = g->n;
	s->cap = g->cap;
	g->n = 0;
	return NULL;
}

struct error *images_refresh(struct images *s)
{
	_cleanup_(mappings_deinit) struct mappings maps = { 0 };
	_cleanup_(groups_drop) struct groups g = { 0 };
	struct error *err = target_mappings(s->target, &maps);

	if (!err)
		err = groups_read(s, &maps, &g);
	if (!err)
		err = index_replace(s, &g);
	if (err)
		return err;
	mappings_deinit(&s->maps);
	s->maps = maps;
	maps = (struct mappings){ 0 };
	return NULL;
}

struct error *images_create(struct target *t, struct images **ret)
{
	struct images *s = calloc(1, sizeof(*s));
	struct error *err;

	if (!s)
		return &err_nomem;
	s->target = t;
	err = images_refresh(s);
	if (err) {
		images_destroy(s);
		return err;
	}
	*ret = s;
	return NULL;
}

void images_destroy(struct images *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->n; i++)
		entry_free(s->index[i]);
	for (uint32_t i = 0; i < s->n_retired; i++)
		entry_free(s->retired[i]);
	free(s->index);
	free(s->retired);
	mappings_deinit(&s->maps);
	free(s);
}

uint64_t images_generation(const struct images *s)
{
	return s->generation;
}

void images_close_gone(struct images *s)
{
	for (; s->n_closed < s->n_retired; s->n_closed++) {
		struct mapped_image *m = &s->retired[s->n_closed]->pub;

		image_close(take(m->image));
	}
}

size_t images_count(const struct images *s)
{
	return s->n;
}

const struct mapped_image *images_at(struct images *s, size_t i)
{
	return entry_open(s, s->index[i]);
}

const struct mapped_image *images_find(struct images *s, gaddr_t addr)
{
	uint32_t low = 0, high = s->n;
	const struct mapped_image *m;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (s->index[mid]->high <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == s->n || addr < s->index[low]->low)
		return NULL;
	m = entry_open(s, s->index[low]);
	return m->start <= addr && addr < m->end ? m : NULL;
}

size_t image_path_length(const char *path)
{
	static const char deleted[] = " (deleted)";
	size_t n = strlen(path), d = sizeof(deleted) - 1;

	return n > d && strcmp(path + n - d, deleted) == 0 ? n - d : n;
}
