/*
 * core_maps.c: the list of mappings of a core's process.
 *
 * The core has it in two parts: pieces of memory with their rights (program headers), and mapped
 * files without rights (NT_FILE). A mapped file is one mapping, whatever pieces of it are held;
 * what no file covers is anonymous. gcore(1) leaves out pieces that stand in files: their rights
 * are then those that the file's own program headers ask for.
 *
 * Upstream: proc(5) "maps" for the form; Linux fs/binfmt_elf.c.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "target/core_impl.h"

struct list {
	const struct core *c;
	struct mapping *v;
	size_t n;
	const char *paths;	/* the list's own copy */
};

static uint32_t rights_in_file(const struct core_file *f, uint64_t from, uint64_t to)
{
	uint32_t flags = 0;

	for (uint32_t i = 0; i < f->n_ranges; i++)
		if (f->ranges[i].offset < to && f->ranges[i].end > from)
			flags |= f->ranges[i].flags;
	return flags;
}

/* `piece` is the first one that does not end before the mapping. */
static uint32_t rights_of(const struct core *c, const struct core_mapped *m, uint32_t piece)
{
	uint32_t flags = 0;

	for (; piece < c->n_pieces && c->pieces[piece].start < m->end; piece++)
		flags |= c->pieces[piece].flags;
	return flags ? flags : rights_in_file(&c->files[m->file], m->offset, m->offset + (m->end - m->start));
}

static void add_mapped(struct list *l, const struct core_mapped *m, uint32_t piece)
{
	const struct core_file *f = &l->c->files[m->file];

	l->v[l->n++] = (struct mapping){
		.start = m->start, .end = m->end, .offset = m->offset, .dev = f->dev, .inode = f->inode,
		.flags = rights_of(l->c, m, piece), .path = l->paths + (f->path - l->c->paths),
	};
}

static void add_anonymous(struct list *l, gaddr_t start, gaddr_t end, uint32_t flags)
{
	gaddr_t vdso = l->c->at_vdso;

	l->v[l->n++] = (struct mapping){
		.start = start, .end = end, .flags = flags,
		.path = vdso && vdso >= start && vdso < end ? "[vdso]" : "",
	};
}

/* Both lists are sorted and without overlap: one walk over them, lowest address first. */
static void merge(struct list *l)
{
	const struct core *c = l->c;
	uint32_t p = 0, k = 0;
	gaddr_t at = 0;		/* everything below has its place */

	while (p < c->n_pieces || k < c->n_mapped) {
		const struct core_piece *piece = p < c->n_pieces ? &c->pieces[p] : NULL;
		const struct core_mapped *m = k < c->n_mapped ? &c->mapped[k] : NULL;
		gaddr_t start;

		if (piece && piece->end <= at) {
			p++;
			continue;
		}
		start = piece && piece->start > at ? piece->start : at;
		if (m && (!piece || m->start <= start)) {
			add_mapped(l, m, p);
			at = m->end;
			k++;
		} else {
			at = m && m->start < piece->end ? m->start : piece->end;
			add_anonymous(l, start, at, piece->flags);
		}
	}
}

struct error *core_mappings(const struct target *t, struct mappings *ret)
{
	const struct core *c = (const struct core *)t;
	size_t most = (size_t)c->n_pieces + 2 * (size_t)c->n_mapped + 1;
	_cleanup_free_ struct mapping *v = calloc(most, sizeof(*v));
	_cleanup_free_ char *text = malloc(c->paths_len + 1);
	struct list l = { .c = c, .v = v, .paths = text };

	if (!v || !text)
		return &err_nomem;
	if (c->paths_len)
		memcpy(text, c->paths, c->paths_len);
	merge(&l);
	*ret = (struct mappings){ .v = take(v), .n = l.n, .text = take(text) };
	return NULL;
}

struct error *core_mapping_fd(const struct target *t, const struct mapping *m, int *ret)
{
	const struct core *c = (const struct core *)t;
	const struct core_mapped *known = core_mapped_at(c, m->start);
	int fd;

	if (!known || c->files[known->file].fd < 0 || c->files[known->file].inode != m->inode)
		return &err_notfound;
	fd = fcntl(c->files[known->file].fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return &err_notfound;
	*ret = fd;
	return NULL;
}
