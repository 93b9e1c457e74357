/*
 * dwarf_file.c: opens the DWARF of a file for libdw, if that can do no harm.
 *
 * libdw reads all debug sections into memory as soon as it is asked for one, uncompressed. So what
 * they take is added up before, from the headers that libelf itself goes by; what is too much stays
 * closed. Sections are known by their names, whatever their type, because libdw knows them so.
 *
 * A file can name others that hold a part of its debug information (dwz, split DWARF), and libdw
 * opens whatever path stands there: a pipe, a device, somebody else's file. Such a file counts as one
 * without DWARF.
 *
 * It is read by pread, not through a mapping: a file that is cut short meanwhile gives no answer
 * instead of a SIGBUS. Must not know Go.
 *
 * Upstream: elfutils libdw/dwarf_begin_elf.c (check_section), dwarf_getalt.c,
 * libdw_find_split_unit.c; System V gABI chapter 4 (compressed sections).
 */
#include "image/dwarf_file.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

enum {
	UNITS_MAX = 1 << 16,
	OLD_HEADER = 12,	/* of a section compressed in the old way: "ZLIB", size, big endian */
};

/* ---- how much there is ---- */

/* What a section takes when it is unpacked; UINT64_MAX: it does not say. */
static uint64_t section_bytes(struct image *img, const GElf_Shdr *h, const char *name)
{
	uint8_t old[OLD_HEADER];
	uint64_t size = 0;
	Elf64_Chdr c;

	if (h->sh_type == SHT_NOBITS)	/* left out of the file: libdw passes over it, too */
		return 0;
	if (h->sh_flags & SHF_COMPRESSED)
		size = image_read_file(img, h->sh_offset, &c, sizeof(c)) ? c.ch_size : UINT64_MAX;
	else if (strstr(name, ".zdebug_")) {
		if (!image_read_file(img, h->sh_offset, old, sizeof(old)) || memcmp(old, "ZLIB", 4) != 0)
			return UINT64_MAX;
		for (int i = 4; i < OLD_HEADER; i++)
			size = size << 8 | old[i];
	}
	return size > h->sh_size ? size : h->sh_size;
}

static bool is_lines(const char *name)
{
	return strstr(name, "debug_line") && !strstr(name, "debug_line_str");
}

/* Adds what a section takes. False: more than the limit. */
static bool section_count(struct image *img, const GElf_Shdr *h, const char *name,
			  const struct dwarf_limit *limit, uint64_t *sum)
{
	uint64_t size = section_bytes(img, h, name);

	if (__builtin_mul_overflow(size, is_lines(name) ? limit->line_factor : 1, &size) ||
	    __builtin_add_overflow(*sum, size, sum))
		return false;
	return *sum <= limit->bytes;
}

/* The names of sections, unless they would have to be unpacked. */
static bool names_find(Elf *elf, size_t *ret)
{
	GElf_Shdr h;
	Elf_Scn *scn;

	if (elf_getshdrstrndx(elf, ret))
		return false;
	scn = elf_getscn(elf, *ret);
	return scn && gelf_getshdr(scn, &h) && !(h.sh_flags & SHF_COMPRESSED);
}

/* Is there debug information, all of it here, and not too much? */
static struct error *sections_check(struct image *img, Elf *elf, const struct dwarf_limit *limit, uint64_t *sum)
{
	bool has_info = false;
	size_t names;

	if (!names_find(elf, &names))
		return &err_notfound;
	*sum = 0;
	for (Elf_Scn *scn = elf_nextscn(elf, NULL); scn; scn = elf_nextscn(elf, scn)) {
		GElf_Shdr h;
		const char *name = gelf_getshdr(scn, &h) ? elf_strptr(elf, names, h.sh_name) : NULL;

		if (!name || !strstr(name, "debug"))
			continue;
		if (strstr(name, "debugaltlink") || strstr(name, "debug_sup"))
			return &err_notfound;
		if (!strstr(name, ".debug_") && !strstr(name, ".zdebug_"))
			continue;
		has_info |= strstr(name, "debug_info") != NULL;
		if (!section_count(img, &h, name, limit, sum))
			return error_new(ERROR_UNSUPPORTED, "its debug information is too large");
	}
	return has_info ? NULL : &err_notfound;
}

/* Split DWARF: does a unit stand for one in another file? What cannot be read is not met later, either. */
static struct error *units_check(Dwarf *dwarf)
{
	Dwarf_CU *cu = NULL;
	uint8_t type;

	for (int i = 0; i < UNITS_MAX; i++) {
		if (dwarf_get_units(dwarf, cu, &cu, NULL, &type, NULL, NULL) != 0)
			return NULL;
		if (type == DW_UT_skeleton)
			return &err_notfound;
	}
	return error_new(ERROR_UNSUPPORTED, "its debug information has too many units");
}

/* ---- life ---- */

static struct error *begin(struct image *img, const struct dwarf_limit *limit, struct dwarf_file *f, uint64_t *bytes)
{
	struct error *err;

	/* More sections than the header can count: what libelf keeps of each would not be bounded. */
	if (f->fd < 0 || !img->header.e_shnum || elf_version(EV_CURRENT) == EV_NONE)
		return &err_notfound;
	f->elf = elf_begin(f->fd, ELF_C_READ, NULL);
	if (!f->elf)
		return &err_notfound;
	err = sections_check(img, f->elf, limit, bytes);
	if (err)
		return err;
	f->dwarf = dwarf_begin_elf(f->elf, DWARF_C_READ, NULL);
	return f->dwarf ? units_check(f->dwarf) : &err_corrupt;
}

struct error *dwarf_file_open(struct image *img, const struct dwarf_limit *limit, struct dwarf_file *ret,
			      uint64_t *bytes)
{
	_cleanup_(dwarf_file_close) struct dwarf_file f = { .fd = -1 };
	struct error *err;
	uint64_t sum;

	if (img->cache.fd >= 0)
		f.fd = fcntl(img->cache.fd, F_DUPFD_CLOEXEC, 3);
	err = begin(img, limit, &f, &sum);
	if (err)
		return err;
	*bytes = sum;
	*ret = f;
	f = (struct dwarf_file){ .fd = -1 };
	return NULL;
}

void dwarf_file_close(struct dwarf_file *f)
{
	if (f->dwarf)
		(void)dwarf_end(f->dwarf);
	if (f->elf)
		(void)elf_end(f->elf);
	if (f->fd >= 0)
		close(f->fd);
	*f = (struct dwarf_file){ .fd = -1 };
}
