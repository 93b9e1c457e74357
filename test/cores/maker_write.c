/*
 * maker_write.c: the core, the trimmed program and the texts, as files.
 *
 * Upstream: elf(5), core(5).
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cores/maker.h"

static FILE *create(const char *out, const char *suffix)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s%s", out, suffix);
	f = fopen(path, "we");
	if (!f)
		die("cannot write %s: %s", path, strerror(errno));
	return f;
}

static void finish(FILE *f)
{
	if (ferror(f) || fclose(f))
		die("cannot write: %s", strerror(errno));
}

static void add_note(struct buf *b, uint32_t type, const void *desc, size_t len)
{
	const Elf64_Nhdr h = { .n_namesz = 5, .n_descsz = (Elf64_Word)len, .n_type = type };

	buf_add(b, &h, sizeof(h));
	buf_add(b, "CORE\0\0\0", 8);
	buf_add(b, desc, len);
	buf_add(b, "\0\0\0", (4 - len % 4) % 4);
}

static void add_files_note(struct buf *b, const struct mappings *maps)
{
	struct buf desc, paths;
	uint64_t n = 0, word;

	buf_init(&desc);
	buf_init(&paths);
	for (size_t i = 0; i < maps->n; i++) {
		const struct mapping *m = &maps->v[i];

		/* Only the program: a file of this machine must never speak for a core of another. */
		if (m->dev != maker.dev || m->inode != maker.inode)
			continue;
		buf_add(&desc, (uint64_t[]){ m->start, m->end, m->offset }, 24);
		buf_add(&paths, m->path, strlen(m->path) + 1);
		n++;
	}
	struct buf all;
	buf_init(&all);
	buf_add(&all, &n, 8);
	word = 1;
	buf_add(&all, &word, 8);	/* offsets are in bytes */
	buf_add(&all, desc.data, desc.len);
	buf_add(&all, paths.data, paths.len);
	add_note(b, NT_FILE, all.data, all.len);
	buf_deinit(&all);
	buf_deinit(&desc);
	buf_deinit(&paths);
}

static void add_auxv_note(struct buf *b)
{
	char path[64], bytes[4096];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/auxv", maker.pid);
	f = fopen(path, "re");
	if (!f)
		die("cannot read %s", path);
	add_note(b, NT_AUXV, bytes, fread(bytes, 1, sizeof(bytes), f));
	fclose(f);
}

static void make_notes(struct buf *b, const struct mappings *maps)
{
	struct elf_prpsinfo info = { .pr_pid = maker.pid, .pr_fname = "program" };

	add_note(b, NT_PRPSINFO, &info, sizeof(info));
	for (size_t i = 0; i < maker.n_threads; i++) {
		struct elf_prstatus status = { .pr_pid = maker.threads[i].tid };

		memcpy(&status.pr_reg, maker.threads[i].regs.raw, sizeof(status.pr_reg));
		add_note(b, NT_PRSTATUS, &status, sizeof(status));
	}
	add_auxv_note(b);
	add_files_note(b, maps);
}

static void add_phdr(struct buf *b, uint32_t type, uint64_t addr, uint64_t offset, uint64_t filesz,
		     uint64_t memsz, uint32_t flags)
{
	const Elf64_Phdr p = {
		.p_type = type, .p_vaddr = addr, .p_offset = offset, .p_filesz = filesz, .p_memsz = memsz,
		.p_flags = (flags & MAPPING_READ ? PF_R : 0) | (flags & MAPPING_WRITE ? PF_W : 0) |
			   (flags & MAPPING_EXEC ? PF_X : 0),
		.p_align = 1,
	};

	buf_add(b, &p, sizeof(p));
}

/* One piece for each part of a mapping that was read. */
static void add_pieces(struct buf *phdrs, struct buf *data, const struct mapping *m, uint64_t data_at)
{
	bool any = false;

	for (size_t i = 0; i < maker.memory.n; i++) {
		uint64_t start = maker.memory.v[i].start, end = maker.memory.v[i].end;
		uint8_t *bytes;

		start = start > m->start ? start : m->start;
		end = end < m->end ? end : m->end;
		if (start >= end)
			continue;
		bytes = must(malloc(end - start));
		check(target_read(maker.live, start, bytes, end - start), "cannot read what was read before");
		add_phdr(phdrs, PT_LOAD, start, data_at + data->len, end - start, end - start, m->flags);
		buf_add(data, bytes, end - start);
		free(bytes);
		any = true;
	}
	/* Where it stands is what is told of it. */
	if (!any && strcmp(m->path, "[vdso]") == 0)
		add_phdr(phdrs, PT_LOAD, m->start, 0, 0, m->end - m->start, m->flags);
}

static size_t count_pieces(const struct mappings *maps)
{
	struct buf phdrs, data;
	size_t n;

	buf_init(&phdrs);
	buf_init(&data);
	for (size_t i = 0; i < maps->n; i++)
		add_pieces(&phdrs, &data, &maps->v[i], 0);
	n = phdrs.len / sizeof(Elf64_Phdr);
	buf_deinit(&phdrs);
	buf_deinit(&data);
	return n;
}

void write_core(const char *out)
{
	Elf64_Ehdr h = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_CORE, .e_machine = maker.base.arch->elf_machine, .e_version = EV_CURRENT,
		.e_phoff = sizeof(h), .e_ehsize = sizeof(h), .e_phentsize = sizeof(Elf64_Phdr),
	};
	struct buf phdrs, notes, data;
	struct mappings maps;
	uint64_t notes_at, data_at;
	FILE *f = create(out, ".core");

	buf_init(&phdrs);
	buf_init(&notes);
	buf_init(&data);
	check(target_mappings(maker.live, &maps), "mappings");
	make_notes(&notes, &maps);
	h.e_phnum = (Elf64_Half)(1 + count_pieces(&maps));
	notes_at = sizeof(h) + h.e_phnum * sizeof(Elf64_Phdr);
	data_at = notes_at + notes.len;
	add_phdr(&phdrs, PT_NOTE, 0, notes_at, notes.len, 0, 0);
	for (size_t i = 0; i < maps.n; i++)
		add_pieces(&phdrs, &data, &maps.v[i], data_at);
	fwrite(&h, 1, sizeof(h), f);
	fwrite(phdrs.data, 1, phdrs.len, f);
	fwrite(notes.data, 1, notes.len, f);
	fwrite(data.data, 1, data.len, f);
	finish(f);
	mappings_deinit(&maps);
	buf_deinit(&phdrs);
	buf_deinit(&notes);
	buf_deinit(&data);
}

void write_exe(const char *out)
{
	FILE *f = create(out, ".exe");
	struct stat st;
	int fd;

	check(target_exe_fd(maker.live, &fd), "program");
	if (fstat(fd, &st) || ftruncate(fileno(f), st.st_size))
		die("cannot write the program: %s", strerror(errno));
	for (size_t i = 0; i < maker.file.n; i++) {
		uint64_t start = maker.file.v[i].start, len = maker.file.v[i].end - start;
		uint8_t *bytes = must(malloc(len));
		ssize_t n = pread(fd, bytes, len, (off_t)start);

		if (n > 0 && pwrite(fileno(f), bytes, (size_t)n, (off_t)start) != n)
			die("cannot write the program: %s", strerror(errno));
		free(bytes);
	}
	finish(f);
}

void write_text(const char *out, const char *suffix, const struct buf *b)
{
	FILE *f = create(out, suffix);

	fwrite(b->data ? b->data : "", 1, b->len, f);
	finish(f);
}
