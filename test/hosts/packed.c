/*
 * packed.c: starts a program as packers do: copies its segments into anonymous memory, and jumps
 * there. /proc/PID/exe is this host then, and no file holds the program's tables.
 *
 *	packed FLAGS PROGRAM ARGS...	flags: "-", or letters: w wipes the ELF and program headers,
 *					x leaves every segment readable, writable and executable,
 *					m what is not written comes from an anonymous file (memfd)
 *
 * For static programs, and position independent ones that need nothing but relative relocations.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, PIE_BASE = 0x40000000 };

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static const char *file_read(const char *path)
{
	int fd = open(path, O_RDONLY);
	struct stat st;
	char *p;

	if (fd < 0 || fstat(fd, &st) != 0)
		die(path);
	p = malloc((size_t)st.st_size);
	if (!p || read(fd, p, (size_t)st.st_size) != st.st_size)
		die(path);
	close(fd);
	return p;
}

static int prot_of(const Elf64_Phdr *p)
{
	return (p->p_flags & PF_R ? PROT_READ : 0) | (p->p_flags & PF_W ? PROT_WRITE : 0) |
	       (p->p_flags & PF_X ? PROT_EXEC : 0);
}

static void segment_map(const char *file, const Elf64_Phdr *p, uint64_t base, const char *flags)
{
	uint64_t low = (base + p->p_vaddr) & ~(uint64_t)(PAGE - 1);
	uint64_t high = (base + p->p_vaddr + p->p_memsz + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	int fd = -1, how = MAP_PRIVATE | MAP_FIXED_NOREPLACE | MAP_ANONYMOUS;

	if (strchr(flags, 'm') && !(p->p_flags & PF_W)) {
		fd = memfd_create("unpacked", MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, (off_t)(high - low)) != 0)
			die("memfd");
		how = MAP_SHARED | MAP_FIXED_NOREPLACE;
	}
	if (mmap((void *)low, high - low, PROT_READ | PROT_WRITE, how, fd, 0) != (void *)low)
		die("mmap");
	memcpy((void *)(base + p->p_vaddr), file + p->p_offset, p->p_filesz);
}

static void relocate(const Elf64_Phdr *dynamic, uint64_t base)
{
	const Elf64_Dyn *d = (const Elf64_Dyn *)(base + dynamic->p_vaddr);
	const Elf64_Rela *r = NULL;
	uint64_t size = 0;

	for (; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_RELA)
			r = (const Elf64_Rela *)(base + d->d_un.d_ptr);
		else if (d->d_tag == DT_RELASZ)
			size = d->d_un.d_val;
	}
	for (uint64_t i = 0; i < size / sizeof(*r); i++) {
		uint64_t *at = (uint64_t *)(base + r[i].r_offset);

		if (ELF64_R_TYPE(r[i].r_info) == R_X86_64_RELATIVE)
			*at = base + (uint64_t)r[i].r_addend;
		else if (ELF64_R_TYPE(r[i].r_info) == R_X86_64_TPOFF64)
			*at = (uint64_t)r[i].r_addend - 8;
	}
}

/* The kernel's vector stands behind the environment; the program looks for itself in it. */
static void auxv_fix(char **argv, const Elf64_Ehdr *h, uint64_t base)
{
	char **p = argv;

	while (*p)
		p++;
	for (p++; *p; p++)
		;
	for (Elf64_auxv_t *a = (Elf64_auxv_t *)(p + 1); a->a_type != AT_NULL; a++) {
		if (a->a_type == AT_PHDR)
			a->a_un.a_val = base + h->e_phoff;
		else if (a->a_type == AT_PHNUM)
			a->a_un.a_val = h->e_phnum;
		else if (a->a_type == AT_ENTRY)
			a->a_un.a_val = base + h->e_entry;
	}
}

int main(int argc, char **argv)
{
	const char *flags = argc > 2 ? argv[1] : "", *file;
	const Elf64_Ehdr *h;
	const Elf64_Phdr *p;
	uint64_t base = 0;
	uint64_t *stack;

	if (argc < 3)
		return 2;
	file = file_read(argv[2]);
	h = (const Elf64_Ehdr *)file;
	p = (const Elf64_Phdr *)(file + h->e_phoff);
	if (h->e_type == ET_DYN)
		base = PIE_BASE;
	auxv_fix(argv, h, base);
	for (int i = 0; i < h->e_phnum; i++)
		if (p[i].p_type == PT_LOAD)
			segment_map(file, &p[i], base, flags);
	for (int i = 0; i < h->e_phnum; i++)
		if (p[i].p_type == PT_DYNAMIC && base)
			relocate(&p[i], base);
	for (int i = 0; i < h->e_phnum; i++) {
		uint64_t low = (base + p[i].p_vaddr) & ~(uint64_t)(PAGE - 1);

		if (p[i].p_type != PT_LOAD)
			continue;
		if (strchr(flags, 'w') && p[i].p_offset == 0)
			memset((void *)(base + p[i].p_vaddr), 0, sizeof(*h) + h->e_phnum * sizeof(*p));
		if (mprotect((void *)low, base + p[i].p_vaddr + p[i].p_memsz - low,
			     strchr(flags, 'x') ? PROT_READ | PROT_WRITE | PROT_EXEC : prot_of(&p[i])) != 0)
			die("mprotect");
	}
	stack = (uint64_t *)(argv + 1);
	*stack = (uint64_t)argc - 2;
	__asm__ volatile("mov %0, %%rsp\n\txor %%edx, %%edx\n\tjmp *%1"
			 : : "r"(stack), "r"(base + h->e_entry) : "memory", "rdx");
	__builtin_unreachable();
}
