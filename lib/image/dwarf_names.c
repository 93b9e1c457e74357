/*
 * dwarf_names.c: functions, lines and inlined calls of C code, by libdw. The only file that knows it.
 *
 * libdw reads all debug sections into memory as soon as it is asked for one, uncompressed. So their
 * sizes are added up before; what is too much stays closed, and the names come from symbols alone.
 * It reads by pread, not through a mapping: a file that is cut short meanwhile gives no answer
 * instead of a SIGBUS.
 *
 * Upstream: DWARF 4 and 5; elfutils libdw.h.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "image/code_names.h"
#include "image/image_impl.h"

enum {
	UNITS_MAX = 8192,	/* looked through where the file has no index of addresses */
	NAME_BYTES = 16,	/* of a section's name that are looked at */
};

struct dwarf_names {
	int fd;
	Elf *elf;
	Dwarf *dwarf;
};

/* ---- how much it would take ---- */

/* Bytes that one section takes in memory; 0 when it is none of DWARF's. */
static uint64_t section_bytes(struct image *img, const Elf64_Shdr *names, const Elf64_Shdr *s)
{
	static const char prefix[] = ".debug_", old_prefix[] = ".zdebug_";
	char name[NAME_BYTES] = "";
	Elf64_Chdr compressed;

	if (s->sh_type != SHT_PROGBITS || s->sh_name >= names->sh_size ||
	    !block_cache_read(&img->cache, names->sh_offset + s->sh_name, name, sizeof(name)))
		return 0;
	/* Compressed in the old way: the size is not worth the reading, ten to one is the worst. */
	if (!strncmp(name, old_prefix, sizeof(old_prefix) - 1))
		return s->sh_size > UINT64_MAX / 10 ? UINT64_MAX : s->sh_size * 10;
	if (strncmp(name, prefix, sizeof(prefix) - 1))
		return 0;
	if (s->sh_flags & SHF_COMPRESSED)
		return image_read_file(img, s->sh_offset, &compressed, sizeof(compressed)) ?
		       compressed.ch_size : UINT64_MAX;
	return s->sh_size;
}

static uint64_t all_bytes(struct image *img)
{
	Elf64_Shdr names, s;
	uint64_t sum = 0;

	if (!image_section(img, img->header.e_shstrndx, &names) || names.sh_offset > INT64_MAX)
		return 0;
	for (uint64_t i = 0; image_section(img, i, &s); i++)
		if (s.sh_offset > INT64_MAX || __builtin_add_overflow(sum, section_bytes(img, &names, &s), &sum))
			return UINT64_MAX;
	return sum;
}

/* ---- life ---- */

static struct error *begin(struct dwarf_names *dn, struct image *img)
{
	if (img->cache.fd < 0)
		return &err_notfound;
	dn->fd = fcntl(img->cache.fd, F_DUPFD_CLOEXEC, 3);
	if (dn->fd < 0)
		return &err_notfound;
	if (elf_version(EV_CURRENT) == EV_NONE)
		return &err_notfound;
	dn->elf = elf_begin(dn->fd, ELF_C_READ, NULL);
	if (!dn->elf)
		return &err_notfound;
	dn->dwarf = dwarf_begin_elf(dn->elf, DWARF_C_READ, NULL);
	return dn->dwarf ? NULL : &err_notfound;
}

struct error *dwarf_names_open(struct image *img, uint64_t max_bytes, struct dwarf_names **ret, uint64_t *bytes)
{
	uint64_t need = img->in_memory ? 0 : all_bytes(img);
	struct dwarf_names *dn;
	struct error *err;

	if (!need || need > max_bytes)
		return &err_notfound;
	dn = calloc(1, sizeof(*dn));
	if (!dn)
		return &err_nomem;
	dn->fd = -1;
	err = begin(dn, img);
	if (err) {
		dwarf_names_close(dn);
		return err;
	}
	*bytes = need;
	*ret = dn;
	return NULL;
}

void dwarf_names_close(struct dwarf_names *dn)
{
	if (!dn)
		return;
	if (dn->dwarf)
		dwarf_end(dn->dwarf);
	if (dn->elf)
		elf_end(dn->elf);
	if (dn->fd >= 0)
		close(dn->fd);
	free(dn);
}

/* ---- asking ---- */

/* The unit that describes pc. Without an index of addresses they are asked one by one. */
static bool unit_find(struct dwarf_names *dn, Dwarf_Addr pc, Dwarf_Die *ret)
{
	Dwarf_CU *cu = NULL;
	int n = 0;

	if (dwarf_addrdie(dn->dwarf, pc, ret))
		return true;
	while (n++ < UNITS_MAX && dwarf_get_units(dn->dwarf, cu, &cu, NULL, NULL, ret, NULL) == 0)
		if (dwarf_haspc(ret, pc) == 1)
			return true;
	return false;
}

static const char *name_of(Dwarf_Die *die)
{
	static const unsigned int linkage[] = { DW_AT_linkage_name, DW_AT_MIPS_linkage_name };
	const char *name = NULL;
	Dwarf_Attribute a;

	for (size_t i = 0; i < sizeof(linkage) / sizeof(*linkage) && !name; i++)
		name = dwarf_formstring(dwarf_attr_integrate(die, linkage[i], &a));
	if (!name)
		name = dwarf_diename(die);
	return name ? name : "";
}

/* The place of a call that was inlined, in the function around it. */
static void call_site(Dwarf_Die *unit, Dwarf_Die *die, struct dwarf_frame *f)
{
	Dwarf_Files *files;
	Dwarf_Attribute a;
	Dwarf_Word v;
	const char *name;
	size_t n;

	if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &a), &v) == 0 && v <= UINT32_MAX)
		f->line = (uint32_t)v;
	if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &a), &v) || dwarf_getsrcfiles(unit, &files, &n) || v >= n)
		return;
	name = dwarf_filesrc(files, (size_t)v, NULL, NULL);
	if (name)
		f->file = name;
}

/* The line of the instruction itself. */
static void line_at(Dwarf_Die *unit, Dwarf_Addr pc, struct dwarf_frame *f)
{
	Dwarf_Line *line = dwarf_getsrc_die(unit, pc);
	const char *file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
	int n;

	if (file)
		f->file = file;
	if (line && dwarf_lineno(line, &n) == 0 && n > 0)
		f->line = (uint32_t)n;
}

/* A function or an inlined call; *place is where in it pc stands, and becomes where it was called. */
static void fill_frame(Dwarf_Die *unit, Dwarf_Die *scope, struct dwarf_frame *place, struct dwarf_frame *ret)
{
	int line;

	*ret = *place;
	ret->function = name_of(scope);
	ret->inlined = dwarf_tag(scope) == DW_TAG_inlined_subroutine;
	if (dwarf_decl_line(scope, &line) == 0 && line > 0)
		ret->start_line = (uint32_t)line;
	*place = (struct dwarf_frame){ .file = "" };
	if (ret->inlined)
		call_site(unit, scope, place);
}

static bool is_function(Dwarf_Die *die)
{
	int tag = dwarf_tag(die);

	return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
}

/*
 * What encloses pc, innermost first, as far as the code is nested. (The first question also answers
 * with what encloses the *source* of an inlined function, so its first function is asked again.)
 */
static int scopes_find(Dwarf_Die *unit, Dwarf_Addr pc, Dwarf_Die **ret)
{
	_cleanup_free_ Dwarf_Die *scopes = NULL;
	int n = dwarf_getscopes(unit, pc, &scopes);

	for (int i = 0; i < n; i++)
		if (is_function(&scopes[i]))
			return dwarf_getscopes_die(&scopes[i], ret);
	return 0;
}

size_t dwarf_names_find(struct dwarf_names *dn, gaddr_t pc, struct dwarf_frame *out, size_t cap)
{
	struct dwarf_frame place = { .file = "" };
	_cleanup_free_ Dwarf_Die *scopes = NULL;
	Dwarf_Die unit;
	size_t n = 0;
	int count;

	if (!unit_find(dn, pc, &unit))
		return 0;
	line_at(&unit, pc, &place);
	count = scopes_find(&unit, pc, &scopes);
	for (int i = 0; i < count && n < cap; i++) {
		if (!is_function(&scopes[i]))
			continue;
		fill_frame(&unit, &scopes[i], &place, &out[n++]);
		if (!out[n - 1].inlined)
			return n;
	}
	return 0;	/* what holds it all was not found */
}
