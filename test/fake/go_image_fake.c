/*
 * go_image_fake.c: writes the file that go_image_fake.h describes.
 *
 * Upstream, the formats written down: cmd/link/internal/ld/pcln.go, symtab.go (moduledata),
 * cmd/internal/obj/pcln.go (pc-value tables), src/debug/buildinfo, elf(5). Offsets of moduledata
 * are those of src/runtime/symtab.go of each version, counted here and not taken from the layouts.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "go_image_fake.h"

enum {
	AT_CODE = 0x1000, AT_RODATA = 0x2000, AT_DATA = 0x6000,
	AT_TABLE = AT_RODATA + 0x140, AT_NAMES = AT_RODATA + 0x400, AT_CU = AT_RODATA + 0x600,
	AT_FILES = AT_RODATA + 0x640, AT_PCTAB = AT_RODATA + 0x700, AT_FUNCTAB = AT_RODATA + 0x900,
	AT_RECORDS = AT_FUNCTAB + 0x80, AT_GOFUNC = AT_RODATA + 0xe00, AT_VERSION = AT_RODATA + 0x1000, AT_RELA = AT_RODATA + 0x2000,
	AT_MODULEDATA = AT_DATA + 0x200, AT_BUILDINFO = AT_DATA + 0x800, AT_DYNAMIC = AT_DATA + 0xc00,
	AT_VERSION_HEADER = AT_DATA + 0xe00,
};

static const char *const func_names[FAKE_FUNCS] = {
	"main.main", "main.main.gowrap1", "main.dup", "main.dup", "runtime.goexit", "runtime.systemstack",
};

uint8_t *go_image_fake_at(struct go_image_fake *f, uint64_t addr)
{
	if (addr < f->o.base || addr - f->o.base >= FAKE_SIZE)
		abort();
	return f->bytes + (addr - f->o.base);
}

void go_image_fake_put(struct go_image_fake *f, uint64_t addr, uint64_t value, unsigned int size)
{
	uint8_t *p = go_image_fake_at(f, addr);

	for (unsigned int i = 0; i < size; i++)
		p[i] = (uint8_t)(value >> (8 * i));
}

static void put_text(struct go_image_fake *f, uint64_t addr, const char *s)
{
	memcpy(go_image_fake_at(f, addr), s, strlen(s) + 1);
}

/* A pointer in writable data: by relocation, in place, or both. */
static void put_pointer(struct go_image_fake *f, uint64_t at, uint64_t value)
{
	uint64_t r = f->rela + f->n_rela * sizeof(Elf64_Rela);

	if (!f->o.dyn || f->o.in_place)
		go_image_fake_put(f, at, value, 8);
	if (!f->o.dyn)
		return;
	go_image_fake_put(f, r, at, 8);
	go_image_fake_put(f, r + 8, R_X86_64_RELATIVE, 8);
	go_image_fake_put(f, r + 16, value, 8);
	f->n_rela++;
}

static void put_slice(struct go_image_fake *f, uint64_t at, uint64_t p, uint64_t len)
{
	put_pointer(f, at, p);
	go_image_fake_put(f, at + 8, len, 8);
	go_image_fake_put(f, at + 16, len, 8);
}

/* ---- pc-value tables ---- */

struct step {
	int32_t value;
	uint32_t end;
};

static uint64_t put_varint(struct go_image_fake *f, uint64_t at, uint32_t v)
{
	for (; v >= 0x80; v >>= 7)
		go_image_fake_put(f, at++, (v & 0x7f) | 0x80, 1);
	go_image_fake_put(f, at++, v, 1);
	return at;
}

static uint64_t put_table(struct go_image_fake *f, uint64_t at, const struct step *s)
{
	int32_t value = -1;
	uint32_t pc = 0;

	for (; s->end; s++) {
		int32_t delta = s->value - value;

		at = put_varint(f, at, delta < 0 ? (uint32_t)(-delta) * 2 - 1 : (uint32_t)delta * 2);
		at = put_varint(f, at, s->end - pc);
		value = s->value;
		pc = s->end;
	}
	go_image_fake_put(f, at, 0, 1);
	return at + 1;
}

/* ---- the function table ---- */

/* Up to 1.17 entries and funcdata are addresses of 8 bytes, where later they are offsets of 4. */
static bool is_wide(const struct go_image_fake *f)
{
	return f->o.minor <= 17;
}

/* What the offsets of a part count from. */
static uint64_t base_of(const struct go_image_fake *f, uint64_t part)
{
	return f->o.minor <= 15 ? f->pclntab : part;
}

struct names {
	uint32_t func[FAKE_FUNCS], leaf, mid;
};

static struct names put_names(struct go_image_fake *f)
{
	struct names n;
	uint64_t at = f->funcnametab, base = base_of(f, at);

	for (int i = 0; i < FAKE_FUNCS; i++) {
		if (i > 0 && strcmp(func_names[i], func_names[i - 1]) == 0) {
			n.func[i] = n.func[i - 1];
			continue;
		}
		n.func[i] = (uint32_t)(at - base);
		put_text(f, at, func_names[i]);
		at += strlen(func_names[i]) + 1;
	}
	n.leaf = (uint32_t)(at - base);
	put_text(f, at, "main.leaf");
	n.mid = n.leaf + 10;
	put_text(f, at + 10, "main.mid");
	return n;
}

/*
 * File numbers of the compilation unit (from cutab[3] on): main.go, mid.go, leaf.go, none. In 1.15
 * there are no units: the numbers are those of the program, 3 to 6.
 */
static void put_files(struct go_image_fake *f)
{
	static const char *const files[] = { "/src/main.go", "/src/mid.go", "/src/leaf.go" };
	uint64_t at = f->filetab, base = base_of(f, at);

	for (unsigned int i = 0; i < 3; i++) {
		put_text(f, at, files[i]);
		go_image_fake_put(f, f->cutab + 4 * (3 + i), at - base, 4);
		at += strlen(files[i]) + 1;
	}
	go_image_fake_put(f, f->cutab + 4 * 6, 0xffffffff, 4);
}

struct tables {
	uint32_t sp, file, line, inl, flat_sp, no_file;
};

static struct tables put_tables(struct go_image_fake *f)
{
	static const struct step sp[] = { { 0, 4 }, { 24, 0x3c }, { 0, 0x40 }, { 0, 0 } };
	const int32_t u = f->o.minor <= 15 ? 3 : 0;
	const struct step file[] = {
		{ u, 0x10 }, { u + 2, 0x18 }, { u + 1, 0x1c }, { u, 0x40 }, { 0, 0 },
	};
	static const struct step line[] = {
		{ 10, 8 }, { 12, 0x10 }, { 55, 0x18 }, { 33, 0x1c }, { 12, 0x40 }, { 0, 0 },
	};
	static const struct step inl[] = { { -1, 0x10 }, { 1, 0x18 }, { 0, 0x1c }, { -1, 0x40 }, { 0, 0 } };
	static const struct step flat_sp[] = { { 0, 0x40 }, { 0, 0 } };
	const struct step no_file[] = { { u + 3, 0x40 }, { 0, 0 } };
	const struct step *const all[] = { sp, file, line, inl, flat_sp, no_file };
	uint32_t offsets[6];
	uint64_t at = f->pctab + 1, base = base_of(f, f->pctab);	/* offset 0 means "none" */

	for (int i = 0; i < 6; i++) {
		offsets[i] = (uint32_t)(at - base);
		at = put_table(f, at, all[i]);
	}
	f->table_sp = base + offsets[0];
	f->table_inl = base + offsets[3];
	return (struct tables){ offsets[0], offsets[1], offsets[2], offsets[3], offsets[4], offsets[5] };
}

struct record {
	uint32_t name, args, sp, file, line;
	uint8_t id, flags;
	int32_t start_line;
	uint32_t n_pcdata, pcdata2;
	uint32_t n_funcdata, funcdata_at, funcdata;	/* one of them is set */
};

/* The entry and what follows it: args (8 bytes), deferreturn, three tables, npcdata, the unit. */
static uint64_t put_record_head(struct go_image_fake *f, uint64_t at, uint32_t entry, const struct record *r)
{
	if (is_wide(f))
		put_pointer(f, at, f->text + entry);
	else
		go_image_fake_put(f, at, entry, 4);
	at += is_wide(f) ? 8 : 4;
	go_image_fake_put(f, at, r->name, 4);
	go_image_fake_put(f, at + 4, r->args, 4);
	go_image_fake_put(f, at + 12, r->sp, 4);
	go_image_fake_put(f, at + 16, r->file, 4);
	go_image_fake_put(f, at + 20, r->line, 4);
	go_image_fake_put(f, at + 24, r->n_pcdata, 4);
	at += 28;
	if (f->o.minor <= 15)
		return at;
	go_image_fake_put(f, at, 3, 4);
	return at + 4;
}

static uint64_t put_funcdata(struct go_image_fake *f, uint64_t at, const struct record *r)
{
	if (!is_wide(f)) {
		for (uint32_t i = 0; i < r->n_funcdata; i++)
			go_image_fake_put(f, at + 4 * i, i == r->funcdata_at ? r->funcdata : 0xffffffff, 4);
		return at + 4 * r->n_funcdata;
	}
	at = (at + 7) & ~7ULL;
	for (uint32_t i = 0; i < r->n_funcdata; i++)
		if (i == r->funcdata_at)
			put_pointer(f, at + 8 * i, f->gofunc + r->funcdata);
	return at + 8 * r->n_funcdata;
}

static uint64_t put_record(struct go_image_fake *f, uint64_t at, uint32_t entry, const struct record *r)
{
	at = put_record_head(f, at, entry, r);
	if (f->o.minor >= 20) {
		go_image_fake_put(f, at, (uint32_t)r->start_line, 4);
		at += 4;
	}
	go_image_fake_put(f, at, r->id, 1);
	go_image_fake_put(f, at + 1, f->o.minor >= 17 ? r->flags : 0, 1);
	go_image_fake_put(f, at + 3, r->n_funcdata, 1);
	at += 4;
	for (uint32_t i = 0; i < r->n_pcdata; i++)
		go_image_fake_put(f, at + 4 * i, i == 2 ? r->pcdata2 : 0, 4);
	at = put_funcdata(f, at + 4 * r->n_pcdata, r);
	return is_wide(f) ? (at + 7) & ~7ULL : at;
}

/* The inline tree of main.main: 0 is mid (called at +0x0c), 1 is leaf (called in mid at +0x1a). */
static void put_inline_tree(struct go_image_fake *f, const struct names *n)
{
	uint64_t t = f->inl_tree;

	if (f->o.minor >= 20) {
		go_image_fake_put(f, t + 4, n->mid, 4);
		go_image_fake_put(f, t + 8, 0x0c, 4);
		go_image_fake_put(f, t + 12, 31, 4);
		go_image_fake_put(f, t + 16 + 4, n->leaf, 4);
		go_image_fake_put(f, t + 16 + 8, 0x1a, 4);
		go_image_fake_put(f, t + 16 + 12, 51, 4);
		return;
	}
	go_image_fake_put(f, t, 0xffff, 2);
	go_image_fake_put(f, t + 12, n->mid, 4);
	go_image_fake_put(f, t + 16, 0x0c, 4);
	go_image_fake_put(f, t + 20 + 12, n->leaf, 4);
	go_image_fake_put(f, t + 20 + 16, 0x1a, 4);
}

static uint8_t wrapper_id(int minor)
{
	return minor >= 25 ? 23 : minor >= 22 || minor <= 17 ? 22 : 21;
}

static void put_ftab_entry(struct go_image_fake *f, uint32_t i, uint32_t entry, uint64_t record)
{
	if (!is_wide(f)) {
		go_image_fake_put(f, f->ftab + 8 * i, entry, 4);
		go_image_fake_put(f, f->ftab + 8 * i + 4, record, 4);
		return;
	}
	put_pointer(f, f->ftab + 16 * i, f->text + entry);
	if (record)
		go_image_fake_put(f, f->ftab + 16 * i + 8, record, 8);
}

static void put_functions(struct go_image_fake *f)
{
	struct names n = put_names(f);
	struct tables t = put_tables(f);
	const uint32_t tree = f->o.minor <= 15 ? 4 : 3, wraps = f->o.minor >= 18 ? 8 : 0;
	const struct record records[FAKE_FUNCS] = {
		{ n.func[0], 0, t.sp, t.file, t.line, 0, 0, 9, 3, t.inl, tree + 1, tree, 0x10 },
		{ n.func[1], 8, t.sp, t.file, t.line, wrapper_id(f->o.minor), 0, 10, 0, 0, wraps, 7, 0x60 },
		{ n.func[2], 0, t.flat_sp, t.no_file, 0, 0, 0, 77, 0, 0, 0, 0, 0 },
		{ n.func[3], 0, t.flat_sp, 0, 0, 0, 0, 77, 0, 0, 0, 0, 0 },
		{ n.func[4], 0, t.flat_sp, 0, 0, 7, 5, 0, 0, 0, 0, 0, 0 },
		{ n.func[5], 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0 },
	};
	const uint64_t base = base_of(f, f->functab);
	uint64_t at = f->o.base + AT_RECORDS;

	f->inl_tree = f->gofunc + 0x10;
	go_image_fake_put(f, f->gofunc + 0x60, 0, 4);	/* wrapped: the function at text + 0 */
	put_inline_tree(f, &n);
	put_files(f);
	for (uint32_t i = 0; i < FAKE_FUNCS; i++) {
		put_ftab_entry(f, i, i * FAKE_FUNC_SIZE, at - base);
		f->record[i] = at;
		at = put_record(f, at, i * FAKE_FUNC_SIZE, &records[i]);
	}
	put_ftab_entry(f, FAKE_FUNCS, FAKE_FUNCS * FAKE_FUNC_SIZE, 0);
}

static void put_header(struct go_image_fake *f)
{
	const uint64_t tables[] = { f->funcnametab, f->cutab, f->filetab, f->pctab, f->functab };
	uint64_t h = f->pclntab, at = h + 24;
	int minor = f->o.minor;

	go_image_fake_put(f, h, minor >= 20 ? 0xfffffff1 : minor >= 18 ? 0xfffffff0 :
			  minor >= 16 ? 0xfffffffa : 0xfffffffb, 4);
	go_image_fake_put(f, h + 6, 1, 1);
	go_image_fake_put(f, h + 7, 8, 1);
	go_image_fake_put(f, h + 8, FAKE_FUNCS, 8);
	if (minor <= 15)
		return;
	go_image_fake_put(f, h + 16, 3, 8);
	if (minor >= 18) {
		go_image_fake_put(f, at, minor >= 26 ? 0 : f->text, 8);
		at += 8;
	}
	for (int i = 0; i < 5; i++)
		go_image_fake_put(f, at + 8 * (unsigned int)i, tables[i] - h, 8);
}

/* Where `gofunc` and `textsectmap` stand; what is before `end` never moved since 1.16. */
static const struct {
	int first, last;
	unsigned int gofunc, textsectmap;
} late_members[] = {
	{ 16, 17, 0, 296 }, { 18, 19, 304, 312 }, { 20, 25, 320, 328 }, { 26, 26, 320, 336 }, { 27, 27, 344, 360 },
};

/* Bounds of code and data, which stand in one row. */
static void put_bounds(struct go_image_fake *f, uint64_t at)
{
	put_pointer(f, at, f->text);
	put_pointer(f, at + 8, f->etext);
	put_pointer(f, at + 16, f->text);
	put_pointer(f, at + 24, f->etext);
	/* noptrdata, data, bss, noptrbss; an external linker puts data first */
	for (unsigned int i = 0; i < 4; i++) {
		static const unsigned int parts[4] = { 0x1000, 0, 0x1800, 0x1c00 };

		put_pointer(f, at + 32 + 16 * i, f->o.base + AT_DATA + parts[i]);
		put_pointer(f, at + 40 + 16 * i, f->o.base + AT_DATA + parts[i] + 0x400);
	}
}

static void put_moduledata_15(struct go_image_fake *f)
{
	uint64_t m = f->moduledata;

	put_slice(f, m, f->pclntab, f->functab + 0x500 - f->pclntab);
	put_slice(f, m + 24, f->ftab, FAKE_FUNCS + 1);
	put_slice(f, m + 48, f->cutab, 7);
	put_bounds(f, m + 80);
	put_slice(f, m + 216, f->gofunc, 1);
}

static void put_moduledata(struct go_image_fake *f)
{
	uint64_t m = f->moduledata;

	put_pointer(f, m, f->pclntab);
	put_slice(f, m + 8, f->funcnametab, 0x200);
	put_slice(f, m + 32, f->cutab, 7);
	put_slice(f, m + 56, f->filetab, 0x80);
	put_slice(f, m + 80, f->pctab, 0x100);
	put_slice(f, m + 104, f->functab, 0x500);
	put_slice(f, m + 128, f->ftab, FAKE_FUNCS + 1);
	put_bounds(f, m + 160);
	for (size_t i = 0; i < sizeof(late_members) / sizeof(late_members[0]); i++) {
		if (f->o.minor < late_members[i].first || f->o.minor > late_members[i].last)
			continue;
		if (late_members[i].gofunc)
			put_pointer(f, m + late_members[i].gofunc, f->gofunc);
		put_slice(f, m + late_members[i].textsectmap, f->gofunc, 1);
	}
}

static void put_buildinfo(struct go_image_fake *f)
{
	static const char mod[] =
		"0w\xaf\x0c\x92t\x08\x02" "A\xe1\xc1\x07\xe6\xd6\x18\xe6"
		"path\texample.org/app/cmd\nmod\texample.org/app\tv1.2.3\th1:x=\n"
		"dep\texample.org/dep\tv0.1.0\th1:y=\nbuild\tCGO_ENABLED=0\n"
		"build\t-ldflags=\"-s -w\\t\\\"q\\\"\"\nbuild\tvcs.revision=abcdef\n"
		"\xf9" "2C1\x86\x18 r\x00\x82" "B\x10" "A\x16\xd8\xf2";
	char version[32];
	uint64_t at = f->buildinfo;
	size_t len = sizeof(mod) - 1;

	snprintf(version, sizeof(version), "go1.%d.4", f->o.minor);
	memcpy(go_image_fake_at(f, f->o.base + AT_VERSION), version, strlen(version) + 1);
	put_pointer(f, f->version_header, f->o.base + AT_VERSION);
	go_image_fake_put(f, f->version_header + 8, strlen(version), 8);
	if (!f->o.buildinfo)
		return;
	memcpy(go_image_fake_at(f, at), "\xff Go buildinf:\x08\x02", 16);
	at = put_varint(f, at + 32, (uint32_t)strlen(version));
	memcpy(go_image_fake_at(f, at), version, strlen(version));
	at = put_varint(f, at + strlen(version), (uint32_t)len);
	memcpy(go_image_fake_at(f, at), mod, len);
}

/* ---- ELF ---- */

static void put_headers(struct go_image_fake *f)
{
	static const struct {
		uint64_t at, size;
		uint32_t flags;
	} loads[FAKE_LOADS] = {
		{ 0, 0x1000, PF_R }, { AT_CODE, 0x1000, PF_R | PF_X },
		{ AT_RODATA, 0x4000, PF_R }, { AT_DATA, 0x2000, PF_R | PF_W },
	};
	Elf64_Ehdr h = {
		.e_ident = ELFMAG, .e_type = f->o.dyn ? ET_DYN : ET_EXEC, .e_machine = EM_X86_64,
		.e_version = EV_CURRENT, .e_entry = f->text, .e_phoff = sizeof(h),
		.e_ehsize = sizeof(h), .e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = FAKE_LOADS + (f->o.dyn ? 1 : 0),
		/* As damaged as the kernel lets them be. */
		.e_shoff = UINT64_MAX - 7, .e_shentsize = 64, .e_shnum = 65535, .e_shstrndx = 65534,
	};
	Elf64_Phdr p[FAKE_LOADS + 1] = { 0 };

	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_ident[EI_DATA] = ELFDATA2LSB;
	h.e_ident[EI_VERSION] = EV_CURRENT;
	for (int i = 0; i < FAKE_LOADS; i++)
		p[i] = (Elf64_Phdr){
			.p_type = PT_LOAD, .p_flags = loads[i].flags, .p_offset = loads[i].at,
			.p_vaddr = f->o.base + loads[i].at, .p_filesz = loads[i].size,
			.p_memsz = loads[i].size + (loads[i].flags & PF_W ? 0x1000 : 0), .p_align = 0x1000,
		};
	p[FAKE_LOADS] = (Elf64_Phdr){
		.p_type = PT_DYNAMIC, .p_flags = PF_R | PF_W, .p_offset = AT_DYNAMIC,
		.p_vaddr = f->o.base + AT_DYNAMIC, .p_filesz = 5 * sizeof(Elf64_Dyn),
		.p_memsz = 5 * sizeof(Elf64_Dyn), .p_align = 8,
	};
	memcpy(f->bytes, &h, sizeof(h));
	memcpy(f->bytes + sizeof(h), p, h.e_phnum * sizeof(*p));
}

static void put_dynamic(struct go_image_fake *f)
{
	const uint64_t words[] = {
		DT_RELA, f->rela, DT_RELASZ, f->n_rela * sizeof(Elf64_Rela), DT_RELAENT, sizeof(Elf64_Rela),
		DT_NULL, 0,
	};

	memcpy(f->bytes + AT_DYNAMIC, words, sizeof(words));
}

struct go_image_fake *go_image_fake_create(const struct go_image_options *o)
{
	struct go_image_fake *f = calloc(1, sizeof(*f));

	if (!f || !(f->bytes = calloc(1, FAKE_SIZE)))
		abort();
	f->o = *o;
	f->text = o->base + AT_CODE + 0x100;	/* as in cgo programs: C code stands before it */
	f->etext = f->text + FAKE_FUNCS * FAKE_FUNC_SIZE;
	f->pclntab = o->base + AT_TABLE + (o->minor >= 26 ? 8 : 0);	/* aligned to 8 only */
	f->funcnametab = o->base + AT_NAMES;
	f->cutab = o->base + AT_CU;
	f->filetab = o->base + AT_FILES;
	f->pctab = o->base + AT_PCTAB;
	f->functab = o->base + AT_FUNCTAB;
	f->ftab = o->minor <= 15 ? f->pclntab + 16 : f->functab;
	f->gofunc = o->base + AT_GOFUNC;
	f->moduledata = o->base + AT_MODULEDATA;
	f->buildinfo = o->base + AT_BUILDINFO;
	f->version_header = o->base + AT_VERSION_HEADER;
	f->rela = o->base + AT_RELA;
	memset(f->bytes + AT_CODE, 0xcc, 0x1000);
	put_header(f);
	put_functions(f);
	if (o->minor <= 15)
		put_moduledata_15(f);
	else
		put_moduledata(f);
	put_buildinfo(f);
	put_headers(f);
	if (o->dyn)
		put_dynamic(f);
	return f;
}

void go_image_fake_destroy(struct go_image_fake *f)
{
	free(f->bytes);
	free(f);
}

int go_image_fake_file(const struct go_image_fake *f, size_t len)
{
	int fd = memfd_create("go_image_fake", MFD_CLOEXEC);

	if (fd < 0 || write(fd, f->bytes, len) != (ssize_t)len)
		abort();
	return fd;
}
