/*
 * core_fake.c: writes core files as the kernel does: header, program headers, notes, memory.
 */
#include "fake/core_fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/procfs.h>
#include <sys/user.h>
#include <unistd.h>

static void must(bool good)
{
	if (!good) {
		fputs("core_fake: out of memory or a wrong call\n", stderr);
		abort();
	}
}

void core_fake_init(struct core_fake *c)
{
	*c = (struct core_fake){
		.header = {
			.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			.e_type = ET_CORE, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
			.e_phoff = sizeof(Elf64_Ehdr), .e_ehsize = sizeof(Elf64_Ehdr),
			.e_phentsize = sizeof(Elf64_Phdr),
		},
		.page_size = 4096,
	};
	buf_init(&c->notes);
}

void core_fake_deinit(struct core_fake *c)
{
	buf_deinit(&c->notes);
}

static void add_note(struct buf *b, const char *owner, uint32_t type, const void *desc, size_t len)
{
	const Elf64_Nhdr h = { .n_namesz = (Elf64_Word)strlen(owner) + 1, .n_descsz = (Elf64_Word)len, .n_type = type };
	static const char zeros[4];

	buf_add(b, &h, sizeof(h));
	buf_add(b, owner, h.n_namesz);
	buf_add(b, zeros, (4 - h.n_namesz % 4) % 4);
	buf_add(b, desc, len);
	buf_add(b, zeros, (4 - len % 4) % 4);
}

void core_fake_note(struct core_fake *c, const char *owner, uint32_t type, const void *desc, size_t len)
{
	add_note(&c->notes, owner, type, desc, len);
}

void core_fake_thread(struct core_fake *c, int32_t tid, uint64_t pc, uint64_t sp)
{
	struct elf_prstatus s = { .pr_pid = tid };
	struct user_regs_struct r = { .rip = pc, .rsp = sp, .orig_rax = UINT64_MAX };

	memcpy(&s.pr_reg, &r, sizeof(s.pr_reg));
	core_fake_note(c, "CORE", NT_PRSTATUS, &s, sizeof(s));
}

void core_fake_process(struct core_fake *c, int32_t pid)
{
	struct elf_prpsinfo p = { .pr_pid = pid };

	core_fake_note(c, "CORE", NT_PRPSINFO, &p, sizeof(p));
}

void core_fake_piece(struct core_fake *c, uint64_t addr, const void *bytes, uint64_t filesz, uint64_t memsz,
		     uint32_t flags)
{
	must(c->n_pieces < CORE_FAKE_PIECES);
	c->pieces[c->n_pieces].addr = addr;
	c->pieces[c->n_pieces].bytes = bytes;
	c->pieces[c->n_pieces].filesz = filesz;
	c->pieces[c->n_pieces].memsz = memsz;
	c->pieces[c->n_pieces++].flags = flags;
}

void core_fake_file(struct core_fake *c, uint64_t start, uint64_t end, uint64_t page, const char *path)
{
	must(c->n_files < CORE_FAKE_FILES);
	c->files[c->n_files].start = start;
	c->files[c->n_files].end = end;
	c->files[c->n_files].offset = page;
	c->files[c->n_files++].path = path;
}

void core_fake_aux(struct core_fake *c, uint64_t type, uint64_t value)
{
	must(c->n_auxv + 2 <= sizeof(c->auxv) / sizeof(c->auxv[0]));
	c->auxv[c->n_auxv++] = type;
	c->auxv[c->n_auxv++] = value;
}

static void add_files(struct buf *notes, const struct core_fake *c)
{
	const uint64_t head[] = { c->n_files, c->page_size };
	struct buf b;

	buf_init(&b);
	buf_add(&b, head, sizeof(head));
	for (uint32_t i = 0; i < c->n_files; i++)
		buf_add(&b, &c->files[i], 3 * sizeof(uint64_t));
	for (uint32_t i = 0; i < c->n_files; i++)
		buf_add(&b, c->files[i].path, strlen(c->files[i].path) + 1);
	add_note(notes, "CORE", NT_FILE, b.data, b.len);
	buf_deinit(&b);
}

static void add_notes(struct buf *notes, const struct core_fake *c)
{
	buf_add(notes, c->notes.data, c->notes.len);
	if (c->n_auxv)
		add_note(notes, "CORE", NT_AUXV, c->auxv, c->n_auxv * sizeof(c->auxv[0]));
	if (c->n_files)
		add_files(notes, c);
}

int core_fake_write(const struct core_fake *c, uint64_t *size)
{
	uint32_t n = 1 + c->n_pieces;
	Elf64_Ehdr h = c->header;
	const Elf64_Shdr number = { .sh_info = n };
	struct buf notes, file;
	uint64_t at;
	int fd = memfd_create("core", MFD_CLOEXEC);

	buf_init(&notes);
	buf_init(&file);
	add_notes(&notes, c);
	h.e_phnum = c->xnum ? PN_XNUM : (Elf64_Half)n;
	at = sizeof(h) + n * sizeof(Elf64_Phdr);
	if (c->xnum) {
		h.e_shoff = at;
		at += sizeof(number);
	}
	buf_add(&file, &h, sizeof(h));
	buf_add(&file, &(Elf64_Phdr){ .p_type = PT_NOTE, .p_offset = at, .p_filesz = notes.len }, sizeof(Elf64_Phdr));
	at += notes.len;
	for (uint32_t i = 0; i < c->n_pieces; i++) {
		const Elf64_Phdr p = { .p_type = PT_LOAD, .p_vaddr = c->pieces[i].addr, .p_offset = at,
				       .p_filesz = c->pieces[i].filesz, .p_memsz = c->pieces[i].memsz,
				       .p_flags = c->pieces[i].flags };

		buf_add(&file, &p, sizeof(p));
		at += p.p_filesz;
	}
	if (c->xnum)
		buf_add(&file, &number, sizeof(number));
	buf_add(&file, notes.data, notes.len);
	for (uint32_t i = 0; i < c->n_pieces; i++)
		if (c->pieces[i].bytes)
			buf_add(&file, c->pieces[i].bytes, c->pieces[i].filesz);
	must(fd >= 0 && !buf_error(&file) && write(fd, file.data, file.len) == (ssize_t)file.len);
	if (size)
		*size = file.len;
	buf_deinit(&notes);
	buf_deinit(&file);
	return fd;
}

const char *core_fake_path(int fd, char buf[static 32])
{
	snprintf(buf, 32, "/proc/self/fd/%d", fd);
	return buf;
}

void program_fake(uint8_t bytes[static PROGRAM_SIZE], const char *id, uint64_t sections)
{
	enum { NOTE_AT = 0x200 };
	struct buf note;
	Elf64_Ehdr h = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_EXEC, .e_machine = EM_X86_64, .e_version = EV_CURRENT, .e_phoff = sizeof(h),
		.e_ehsize = sizeof(h), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 3,
		.e_shoff = sections, .e_shnum = (Elf64_Half)(sections != 0),
	};
	Elf64_Phdr v[] = {
		{ .p_type = PT_NOTE, .p_offset = NOTE_AT, .p_vaddr = PROGRAM_TEXT + NOTE_AT },
		{ .p_type = PT_LOAD, .p_vaddr = PROGRAM_TEXT, .p_filesz = PROGRAM_SEGMENT,
		  .p_memsz = PROGRAM_SEGMENT, .p_flags = PF_R | PF_X },
		{ .p_type = PT_LOAD, .p_vaddr = PROGRAM_DATA, .p_offset = PROGRAM_SEGMENT,
		  .p_filesz = PROGRAM_SEGMENT, .p_memsz = PROGRAM_SEGMENT, .p_flags = PF_R | PF_W },
	};

	for (size_t i = 0; i < PROGRAM_SIZE; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	buf_init(&note);
	add_note(&note, "GNU", NT_GNU_BUILD_ID, id, strlen(id));
	must(!buf_error(&note) && note.len < 256);
	v[0].p_filesz = v[0].p_memsz = note.len;
	memcpy(bytes, &h, sizeof(h));
	memcpy(bytes + sizeof(h), v, sizeof(v));
	memcpy(bytes + NOTE_AT, note.data, note.len);
	buf_deinit(&note);
}
