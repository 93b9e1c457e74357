/*
 * core_notes.c: the notes of a core file: one NT_PRSTATUS per thread (id and registers),
 * NT_PRPSINFO (the process), NT_FILE (which file is mapped where), NT_AUXV (where the kernel put
 * the program and the vDSO).
 *
 * A thread's other notes (floating point, siginfo) are stepped over without being read: of ten
 * thousand threads they are most of the file. Registers stay in the file, too, until they are
 * asked for. The form of the records is that of the CPU goprof was built for; core_head.c has
 * refused all others.
 *
 * Upstream: elf(5), Linux fs/binfmt_elf.c (fill_files_note, fill_prstatus), include/linux/elfcore.h,
 * gdb/linux-tdep.c (which counts file offsets in pages of one byte).
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "target/core_impl.h"

/* One note; its bytes stand at `at` in the file. */
struct note {
	uint32_t type;
	uint64_t at, len;
};

/* ---- threads and process ---- */

static struct error *add_thread(struct core *c, const struct note *n)
{
	struct elf_prstatus status;
	struct error *err;

	if (n->len != sizeof(status) || c->n_threads == CORE_THREADS_MAX ||
	    !core_read_file(c, n->at, &status, sizeof(status)) || status.pr_pid <= 0 ||
	    map64_get(&c->by_tid, (uint64_t)status.pr_pid) != MAP_NONE) {
		c->facts.skipped++;
		return NULL;
	}
	err = array_reserve(&c->threads, &c->cap_threads, c->n_threads + 1, sizeof(*c->threads));
	if (!err)
		err = map64_put(&c->by_tid, (uint64_t)status.pr_pid, c->n_threads);
	if (err)
		return err;
	c->threads[c->n_threads++] = (struct core_thread){
		.tid = status.pr_pid, .regs_at = n->at + offsetof(struct elf_prstatus, pr_reg),
	};
	return NULL;
}

static struct error *read_process(struct core *c, const struct note *n)
{
	struct elf_prpsinfo info;

	if (n->len != sizeof(info) || !core_read_file(c, n->at, &info, sizeof(info)) || info.pr_pid <= 0)
		c->facts.skipped++;
	else
		c->base.pid = info.pr_pid;
	return NULL;
}

static struct error *read_auxv(struct core *c, const struct note *n)
{
	Elf64_auxv_t v;

	for (uint64_t at = 0; at + sizeof(v) <= n->len; at += sizeof(v)) {
		if (!core_read_file(c, n->at + at, &v, sizeof(v)) || v.a_type == AT_NULL)
			break;
		if (v.a_type == AT_PHDR)
			c->at_phdr = v.a_un.a_val;
		else if (v.a_type == AT_ENTRY)
			c->at_entry = v.a_un.a_val;
		else if (v.a_type == AT_SYSINFO_EHDR)
			c->at_vdso = v.a_un.a_val;
	}
	return NULL;
}

/* ---- mapped files ---- */

/* The file of this path, added when it is new. Neighbouring lines mostly name the same one. */
static struct error *file_of(struct core *c, struct mapb *seen, const char *path, uint32_t *ret)
{
	size_t len = strlen(path);
	struct error *err;
	uint32_t i = mapb_get(seen, path, len);

	if (i != MAP_NONE) {
		*ret = i;
		return NULL;
	}
	err = array_reserve(&c->files, &c->cap_files, c->n_files + 1, sizeof(*c->files));
	if (err)
		return err;
	c->files[c->n_files] = (struct core_file){ .path = path, .fd = -1, .head = MAP_NONE,
						   .inode = c->n_files + 1 };
	*ret = c->n_files++;
	return mapb_put(seen, path, len, *ret);
}

static const void *path_of(const void *ctx, uint32_t i, size_t *len)
{
	const struct core *c = ctx;

	*len = strlen(c->files[i].path);
	return c->files[i].path;
}

/* `text` is at the path of this line; gives the one behind it, or NULL at the end of all. */
static const char *next_path(const char *text, const char *end)
{
	const char *nul = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;

	return nul ? nul + 1 : NULL;
}

static struct error *add_mapped(struct core *c, struct mapb *seen, const struct core_mapped *m, const char *path)
{
	struct core_mapped *to;
	struct error *err;

	if (m->end <= m->start || (c->n_mapped && m->start < c->mapped[c->n_mapped - 1].end)) {
		c->facts.skipped++;
		return NULL;
	}
	err = array_reserve(&c->mapped, &c->cap_mapped, c->n_mapped + 1, sizeof(*c->mapped));
	if (err)
		return err;
	to = &c->mapped[c->n_mapped];
	*to = *m;
	err = file_of(c, seen, path, &to->file);
	if (err)
		return err;
	if (m->offset == 0 && c->files[to->file].head == MAP_NONE)
		c->files[to->file].head = c->n_mapped;
	c->n_mapped++;
	return NULL;
}

/* count, page size, count * { start, end, offset in pages }, count paths with NUL. */
static struct error *parse_files(struct core *c, const char *bytes, size_t len)
{
	struct cursor in = cursor_over(bytes, len);
	uint64_t n = cursor_u64(&in), page = cursor_u64(&in);
	const char *end = bytes + len, *path;
	struct error *err = NULL;
	struct mapb seen;

	if (in.bad || n > (len - 16) / 24) {
		c->facts.skipped++;
		return NULL;
	}
	mapb_init(&seen, path_of, c);
	path = bytes + 16 + n * 24;
	for (uint64_t i = 0; i < n && !err; i++) {
		gaddr_t start = cursor_u64(&in), stop = cursor_u64(&in);
		struct core_mapped m = { .start = start, .end = stop };
		const char *next = next_path(path, end);
		bool wraps = __builtin_mul_overflow(cursor_u64(&in), page, &m.offset);

		if (!next) {
			c->facts.skipped += n - i;
			break;
		}
		if (wraps || m.offset + (m.end - m.start) < m.offset)
			c->facts.skipped++;
		else
			err = add_mapped(c, &seen, &m, path);
		path = next;
	}
	mapb_deinit(&seen);
	return err;
}

static struct error *read_files(struct core *c, const struct note *n)
{
	/* The first one counts; the paths of mappings are borrowed from it. */
	if (c->paths)
		return NULL;
	if (n->len < 16 || n->len > CORE_NOTE_MAX || n->at > c->size || n->len > c->size - n->at) {
		c->facts.skipped++;
		return NULL;
	}
	c->paths = malloc(n->len);
	if (!c->paths)
		return &err_nomem;
	c->paths_len = n->len;
	if (!core_read_file(c, n->at, c->paths, n->len)) {
		c->facts.skipped++;
		return NULL;
	}
	return parse_files(c, c->paths, n->len);
}

const struct core_mapped *core_mapped_at(const struct core *c, gaddr_t addr)
{
	return range_find(c->mapped, c->n_mapped, sizeof(*c->mapped), addr);
}

/* ---- all notes ---- */

static const struct {
	uint32_t type;
	struct error *(*read)(struct core *c, const struct note *n);
} readers[] = {
	{ NT_PRSTATUS, add_thread }, { NT_PRPSINFO, read_process },
	{ NT_AUXV, read_auxv }, { NT_FILE, read_files },
};

static struct error *read_note(struct core *c, const struct note *n)
{
	for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++)
		if (readers[i].type == n->type)
			return readers[i].read(c, n);
	return NULL;
}

static uint64_t align4(uint64_t v)
{
	return (v + 3) & ~(uint64_t)3;
}

/* Only the owner CORE: others (LINUX) count their types anew. */
static bool is_core_note(const struct core *c, uint64_t at, const Elf64_Nhdr *h)
{
	char owner[sizeof("CORE")];

	return h->n_namesz == sizeof(owner) && core_read_file(c, at + sizeof(*h), owner, sizeof(owner)) &&
	       memcmp(owner, "CORE", sizeof(owner)) == 0;
}

/* The note at `at`, which begins before `end`; gives where the next one begins. False: no more. */
static bool note_at(struct core *c, uint64_t at, uint64_t end, Elf64_Nhdr *h, struct note *ret, uint64_t *next)
{
	uint64_t name;

	if (end - at < sizeof(*h))
		return false;
	if (!core_read_file(c, at, h, sizeof(*h))) {
		c->facts.skipped++;	/* cut off: told once */
		return false;
	}
	name = align4(h->n_namesz);
	if (name > end - at - sizeof(*h) || h->n_descsz > end - at - sizeof(*h) - name) {
		c->facts.skipped++;
		return false;
	}
	*ret = (struct note){ .type = h->n_type, .at = at + sizeof(*h) + name, .len = h->n_descsz };
	*next = align4(ret->len) < end - ret->at ? ret->at + align4(ret->len) : end;
	return true;
}

struct error *core_read_notes(struct core *c)
{
	struct error *err = NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n_notes; i++) {
		uint64_t at = c->notes[i].at, next;
		Elf64_Nhdr h;
		struct note note;

		for (; !err && n < CORE_NOTES_MAX && note_at(c, at, c->notes[i].end, &h, &note, &next); n++) {
			if (is_core_note(c, at, &h))
				err = read_note(c, &note);
			at = next;
		}
	}
	return err;
}
