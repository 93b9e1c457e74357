/*
 * core_files.c: the files that were mapped into the process of a core.
 *
 * A core leaves out what stands in files anyway: code, constants, function tables. The files are
 * opened by the names that the core gives, and a name may lead to another file by now: so a file
 * is believed only if its notes are those in the core's memory and hold a build id, or where the
 * core does not hold them or there is no id, if its program headers are. Neither is changed by
 * strip(1), so a program with its symbols fits the core of the stripped one.
 *
 * Bytes of such a file stand for memory that the core does not hold, but only those that are
 * mapped without the right to write: of others nobody knows whether they were changed.
 *
 * Upstream: Linux fs/coredump.c (vma_dump_size: first pages of ELF files are dumped), core(5).
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "target/core_impl.h"
#include "target/elf_note.h"
#include "target/regular.h"

enum { PHDRS_MAX = 128, NOTES_COMPARED = 64 * 1024 };

static const char absent[] = "there is no such file";
static const char denied[] = "it may not be read";
static const char no_elf[] = "it is not a program";
static const char another[] = "it is another file than the one that ran";
static const char unproved[] = "the core does not hold its first bytes, so it cannot be told whether it is the one that ran";
static const char unnamed[] = "the core does not say which files were mapped";
static const char unknown[] = "the core does not say which file was the program's";

static size_t file_read(int fd, uint64_t offset, void *buf, size_t len)
{
	size_t done = 0;

	if (offset > INT64_MAX - len)
		return 0;
	while (done < len) {
		ssize_t n = pread(fd, (uint8_t *)buf + done, len - done, (off_t)(offset + done));

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

/* ---- is it the one ---- */

struct headers {
	Elf64_Ehdr h;
	Elf64_Phdr v[PHDRS_MAX];
};

static bool headers_read(int fd, struct headers *ret)
{
	return file_read(fd, 0, &ret->h, sizeof(ret->h)) == sizeof(ret->h) &&
	       memcmp(ret->h.e_ident, ELFMAG, SELFMAG) == 0 &&
	       ret->h.e_ident[EI_CLASS] == ELFCLASS64 && ret->h.e_ident[EI_DATA] == ELFDATA2LSB &&
	       ret->h.e_phentsize == sizeof(*ret->v) && ret->h.e_phnum <= PHDRS_MAX &&
	       file_read(fd, ret->h.e_phoff, ret->v, ret->h.e_phnum * sizeof(*ret->v)) ==
		       ret->h.e_phnum * sizeof(*ret->v);
}

enum proof { PROVED, REFUTED, UNKNOWN };

/*
 * Bytes of the file, which go to `file`, against those that the core holds of its mapping that
 * begins at file offset 0.
 */
static enum proof compare(const struct core *c, gaddr_t start, int fd, uint64_t offset, uint8_t *file,
			  size_t len)
{
	_cleanup_free_ uint8_t *memory = malloc(len);

	if (!memory || file_read(fd, offset, file, len) != len)
		return UNKNOWN;
	if (core_read_held(c, start + offset, memory, len) != len)
		return UNKNOWN;
	return memcmp(file, memory, len) == 0 ? PROVED : REFUTED;
}

static bool have_build_id(const uint8_t *notes, size_t len)
{
	struct cursor c = cursor_over(notes, len);
	struct elf_note n;

	while (elf_note_next(&c, &n))
		if (elf_note_build_id(&n) != BUILD_ID_NONE)
			return true;
	return false;
}

/* Equal notes without a build id prove nothing: programs of one distribution have them in common. */
static enum proof compare_notes(const struct core *c, gaddr_t start, gaddr_t end, int fd,
				const struct headers *f)
{
	enum proof found = UNKNOWN;

	for (uint32_t i = 0; i < f->h.e_phnum && found != REFUTED; i++) {
		const Elf64_Phdr *p = &f->v[i];
		_cleanup_free_ uint8_t *notes = NULL;
		enum proof one;

		if (p->p_type != PT_NOTE || !p->p_filesz || p->p_filesz > NOTES_COMPARED ||
		    p->p_offset >= end - start || p->p_filesz > end - start - p->p_offset)
			continue;
		notes = malloc(p->p_filesz);
		one = notes ? compare(c, start, fd, p->p_offset, notes, p->p_filesz) : UNKNOWN;
		if (one == REFUTED || (one == PROVED && have_build_id(notes, p->p_filesz)))
			found = one;
	}
	return found;
}

/* Section headers are what strip(1) takes away. */
static void without_sections(Elf64_Ehdr *h)
{
	h->e_shoff = h->e_flags = h->e_shentsize = h->e_shnum = h->e_shstrndx = 0;
}

static enum proof compare_headers(const struct core *c, gaddr_t start, int fd, const struct headers *f)
{
	Elf64_Ehdr file = f->h, memory;
	Elf64_Phdr table[PHDRS_MAX];

	if (core_read_held(c, start, &memory, sizeof(memory)) != sizeof(memory))
		return UNKNOWN;
	without_sections(&file);
	without_sections(&memory);
	if (memcmp(&file, &memory, sizeof(file)) != 0)
		return REFUTED;
	return compare(c, start, fd, f->h.e_phoff, (uint8_t *)table, f->h.e_phnum * sizeof(*table));
}

static enum proof prove(const struct core *c, uint32_t file, int fd, const struct headers *f)
{
	uint32_t head = c->files[file].head;
	const struct core_mapped *m = head == MAP_NONE ? NULL : &c->mapped[head];
	enum proof found = m ? compare_notes(c, m->start, m->end, fd, f) : UNKNOWN;

	return m && found == UNKNOWN ? compare_headers(c, m->start, fd, f) : found;
}

/* ---- opening ---- */

static void keep_ranges(struct core_file *f, const struct headers *h)
{
	for (uint32_t i = 0; i < h->h.e_phnum && f->n_ranges < CORE_RANGES_MAX; i++) {
		const Elf64_Phdr *p = &h->v[i];

		if (p->p_type == PT_LOAD && p->p_filesz && p->p_offset + p->p_filesz > p->p_offset)
			f->ranges[f->n_ranges++] = (struct core_range){
				p->p_offset, p->p_offset + p->p_filesz, core_flags_of(p->p_flags) };
	}
}

/* Opens `path` as file number i of the core, if it is that file; else says why not. */
static struct error *open_file(struct core *c, uint32_t i, const char *path)
{
	_cleanup_free_ struct headers *h = malloc(sizeof(*h));
	struct core_file *f = &c->files[i];
	_cleanup_close_ int fd = -1;
	enum proof proof;
	struct stat st;

	if (!h)
		return &err_nomem;
	fd = open_regular(AT_FDCWD, path, &st);
	if (fd < 0) {
		f->why = errno == EINVAL ? no_elf : errno == EACCES || errno == EPERM ? denied : absent;
		return NULL;
	}
	if (!headers_read(fd, h)) {
		f->why = no_elf;
		return NULL;
	}
	proof = prove(c, i, fd, h);
	f->why = proof == PROVED ? NULL : proof == REFUTED ? another : unproved;
	if (f->why)
		return NULL;
	keep_ranges(f, h);
	f->dev = st.st_dev;
	f->inode = st.st_ino;
	f->fd = take_fd(fd);
	return NULL;
}

/* Program headers or the first instruction are the program's, also when a loader stands before it. */
static uint32_t find_program(const struct core *c)
{
	const struct core_mapped *m = c->at_phdr ? core_mapped_at(c, c->at_phdr) : NULL;

	if (!m && c->at_entry)
		m = core_mapped_at(c, c->at_entry);
	return m ? m->file : MAP_NONE;
}

static struct error *keep_program(struct core *c)
{
	struct core_file *f = &c->files[c->program];

	free(c->base.exe_path);
	c->base.exe_path = strdup(f->path);
	if (!c->base.exe_path)
		return &err_nomem;
	c->facts.exe_why = f->why;
	if (f->fd < 0)
		return NULL;
	c->base.exe_fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 3);
	return c->base.exe_fd >= 0 ? NULL : error_new(ERROR_FACILITY, "cannot open %s: %m", f->path);
}

static struct error *open_program(struct core *c, const char *exe)
{
	struct error *err;

	c->program = find_program(c);
	if (c->program == MAP_NONE) {
		c->facts.exe_why = c->n_mapped ? unknown : unnamed;
		return exe ? error_why(error_new(ERROR_USAGE, "%s cannot be used as the program of the core", exe),
				       "%s", c->facts.exe_why) : NULL;
	}
	err = open_file(c, c->program, exe ? exe : c->files[c->program].path);
	if (!err && exe && c->files[c->program].why)
		return error_why(error_new(ERROR_USAGE, "%s is not the program of the core (%s)", exe,
					   c->files[c->program].path), "%s", c->files[c->program].why);
	return err ? err : keep_program(c);
}

struct error *core_open_files(struct core *c, const char *exe)
{
	struct error *err = open_program(c, exe);
	uint32_t n = c->n_files < CORE_TRIED_MAX ? c->n_files : CORE_TRIED_MAX, open = 0;

	for (uint32_t i = 0; i < n && open < CORE_FILES_MAX && !err; i++) {
		if (i != c->program)
			err = open_file(c, i, c->files[i].path);
		open += c->files[i].fd >= 0;
	}
	return err;
}

void core_close_files(struct core *c)
{
	for (uint32_t i = 0; i < c->n_files; i++)
		if (c->files[i].fd >= 0)
			close(c->files[i].fd);
	free(c->files);
}

/* ---- reading ---- */

/* How many of `len` bytes at this offset are of segments that nobody may write to. */
static size_t unchanged(const struct core_file *f, uint64_t offset, size_t len)
{
	size_t n = 0;

	for (uint32_t i = 0; i < f->n_ranges; i++) {
		const struct core_range *r = &f->ranges[i];

		if (r->flags & MAPPING_WRITE) {
			if (offset >= r->offset && offset < r->end)
				return 0;
			if (offset < r->offset && r->offset - offset < len)
				len = r->offset - offset;
		} else if (offset >= r->offset && offset < r->end) {
			n = r->end - offset;
		}
	}
	return n < len ? n : len;
}

size_t core_read_mapped(const struct core *c, gaddr_t addr, void *buf, size_t len)
{
	const struct core_mapped *m = core_mapped_at(c, addr);
	const struct core_file *f = m ? &c->files[m->file] : NULL;
	uint64_t offset;

	if (!f || f->fd < 0)
		return 0;
	offset = m->offset + (addr - m->start);
	if (len > m->end - addr)
		len = m->end - addr;
	return file_read(f->fd, offset, buf, unchanged(f, offset, len));
}
