/*
 * go_fake.c: see go_fake.h. The file is written as the linker lays it out (header and moduledata
 * left out: where the tables stand is told to the runtime object directly), so everything behind
 * finding it is the code under test.
 *
 * Upstream: src/runtime/symtab.go, cmd/link/internal/ld/pcln.go.
 */
#include "fake/go_fake.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "go/go_impl.h"

enum {
	TEXT = 0x401000, TABLES = 0x801000,	/* link-time addresses */
	BIAS = 0x30000000,
	FUNC_ALIGN = 32,
	WRAPPER_ID = 22, NORMAL_ID = 0,
	INT3 = 0xcc,
	N_PCDATA = 3, N_FUNCDATA = 4,
};

struct go_fake {
	const struct go_fake_func *funcs;
	uint32_t *entries;		/* offsets from TEXT; one more for the end */
	size_t n;
	struct go_process process;
	struct go_runtime rt;
};

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "go_fake: %s\n", what);
	abort();
}

/* ---- pc-value tables ---- */

static void add_uvarint(struct buf *b, uint32_t v)
{
	for (; v >= 0x80; v >>= 7)
		buf_addc(b, (char)(v | 0x80));
	buf_addc(b, (char)v);
}

static uint32_t zigzag(int32_t v)
{
	return (uint32_t)v << 1 ^ (uint32_t)(v >> 31);
}

static uint32_t add_table(struct buf *pctab, const struct go_fake_step *steps, size_t n)
{
	uint32_t at = (uint32_t)pctab->len, pc = 0;
	int32_t value = -1;

	if (!n || !steps[0].end)
		return 0;
	for (size_t i = 0; i < n && steps[i].end; i++) {
		must(steps[i].end > pc, "steps out of order");
		must(i == 0 || steps[i].value != value, "a step without a change");
		add_uvarint(pctab, zigzag(steps[i].value - value));
		add_uvarint(pctab, steps[i].end - pc);
		value = steps[i].value;
		pc = steps[i].end;
	}
	buf_addc(pctab, 0);
	return at;
}

/* The index of the innermost inlined call at each pc: later ones in the list lie inside earlier ones. */
static uint32_t add_inline_index(struct buf *pctab, const struct go_fake_func *f)
{
	struct go_fake_step steps[2 * GO_FAKE_INLINES + 1];
	size_t n = 0;

	if (!f->inlined[0].name)
		return 0;
	for (uint32_t pc = 0; pc < f->size; pc++) {
		int32_t index = -1;

		for (int i = 0; i < GO_FAKE_INLINES && f->inlined[i].name; i++)
			if (pc >= f->inlined[i].from && pc < f->inlined[i].to)
				index = i;
		if (!n || steps[n - 1].value != index)
			steps[n++].value = index;
		steps[n - 1].end = pc + 1;
	}
	return add_table(pctab, steps, n);
}

/* ---- the other tables ---- */

static uint32_t add_string(struct buf *table, const char *s)
{
	uint32_t at = (uint32_t)table->len;

	buf_add(table, s, strlen(s) + 1);
	return at;
}

static void add_u32(struct buf *b, uint32_t v)
{
	buf_add(b, &v, sizeof(v));
}

struct tables {
	struct buf names, cu, files, pctab, functab, gofunc;
};

/* The inline tree; its offset in gofunc, or none. */
static uint32_t add_tree(struct tables *t, const struct go_fake_func *f)
{
	uint32_t at = (uint32_t)t->gofunc.len;

	if (!f->inlined[0].name)
		return UINT32_MAX;
	for (int i = 0; i < GO_FAKE_INLINES && f->inlined[i].name; i++) {
		const struct go_fake_inline *in = &f->inlined[i];

		add_u32(&t->gofunc, in->func_id);
		add_u32(&t->gofunc, add_string(&t->names, in->name));
		add_u32(&t->gofunc, in->parent_pc);
		add_u32(&t->gofunc, (uint32_t)in->start_line);
	}
	return at;
}

static void add_record(struct tables *t, const struct go_fake_func *f, uint32_t entry, uint32_t unit)
{
	const struct go_fake_step file = { .end = f->size, .value = 0 };
	uint8_t tail[4] = { f->wrapper ? WRAPPER_ID : NORMAL_ID, f->flags, 0, N_FUNCDATA };
	const uint32_t record[] = {
		entry, add_string(&t->names, f->name), 0, 0,
		add_table(&t->pctab, f->sp, GO_FAKE_STEPS),
		f->file ? add_table(&t->pctab, &file, 1) : 0,
		add_table(&t->pctab, f->line, GO_FAKE_STEPS), N_PCDATA, unit, (uint32_t)f->start_line,
	};

	add_u32(&t->cu, f->file ? add_string(&t->files, f->file) : UINT32_MAX);
	buf_add(&t->functab, record, sizeof(record));
	buf_add(&t->functab, tail, sizeof(tail));
	add_u32(&t->functab, 0);
	add_u32(&t->functab, 0);
	add_u32(&t->functab, add_inline_index(&t->pctab, f));
	for (int i = 0; i < N_FUNCDATA - 1; i++)
		add_u32(&t->functab, UINT32_MAX);
	add_u32(&t->functab, add_tree(t, f));
}

static void build_tables(struct go_fake *f, struct tables *t)
{
	size_t ftab = 8 * f->n + 4;

	add_string(&t->names, "");
	buf_addc(&t->pctab, 0);		/* offset 0 means "no table" */
	/* The sorted array comes first; its offsets are filled in as the records are written. */
	for (size_t i = 0; i < ftab; i++)
		buf_addc(&t->functab, 0);
	for (size_t i = 0; i < f->n; i++) {
		uint32_t pair[2] = { f->entries[i], (uint32_t)t->functab.len };

		memcpy(t->functab.data + 8 * i, pair, sizeof(pair));
		add_record(t, &f->funcs[i], f->entries[i], (uint32_t)i);
	}
	memcpy(t->functab.data + 8 * f->n, &f->entries[f->n], sizeof(uint32_t));
}

/* ---- the file ---- */

static gaddr_t place(struct buf *out, const struct buf *table, uint64_t *size)
{
	gaddr_t at;

	must(!table->failed, "out of memory");
	while (out->len % 8)
		buf_addc(out, 0);
	at = TABLES + out->len;
	buf_add(out, table->data, table->len);
	if (size)
		*size = table->len;
	return at;
}

static void place_tables(struct go_module *m, const struct tables *t, struct buf *out)
{
	m->pclntab = TABLES;
	m->funcnametab = place(out, &t->names, &m->funcnametab_size);
	m->cutab = place(out, &t->cu, &m->cutab_size);
	m->filetab = place(out, &t->files, &m->filetab_size);
	m->pctab = place(out, &t->pctab, &m->pctab_size);
	m->functab = place(out, &t->functab, &m->functab_size);
	m->ftab = m->functab;
	m->gofunc = place(out, &t->gofunc, NULL);
	m->pclntab_size = out->len;
}

static uint32_t entry_of(const struct go_fake *f, const char *name)
{
	for (size_t i = 0; i < f->n; i++)
		if (!strcmp(f->funcs[i].name, name))
			return f->entries[i];
	fprintf(stderr, "go_fake: no function %s\n", name);
	abort();
}

static void write_call(const struct go_fake *f, char *text, uint32_t entry, const struct go_fake_call *call)
{
	static const uint8_t opcodes[] = { [GO_FAKE_DIRECT] = 0xe8, [GO_FAKE_JUMP] = 0xe9 };
	char *end = text + entry + call->end;
	uint32_t distance;

	if (call->kind == GO_FAKE_BY_REGISTER) {
		memcpy(end - 2, "\xff\xd0", 2);
		return;
	}
	must(call->end >= 5, "no room for a call");
	distance = entry_of(f, call->to) - (entry + call->end);
	end[-5] = (char)opcodes[call->kind];
	memcpy(end - 4, &distance, sizeof(distance));
}

static void write_calls(const struct go_fake *f, char *text)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->funcs[i].code_len)
			memcpy(text + f->entries[i], f->funcs[i].code, f->funcs[i].code_len);
		for (size_t k = 0; k < GO_FAKE_CALLS && f->funcs[i].calls[k].end; k++)
			write_call(f, text, f->entries[i], &f->funcs[i].calls[k]);
	}
}

static struct image *write_image(const struct go_fake *f, const struct buf *tables, uint32_t text_len)
{
	Elf64_Phdr ph[2] = {
		{ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = TEXT, .p_filesz = text_len,
		  .p_memsz = text_len, .p_offset = 4096, .p_align = 4096 },
		{ .p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = TABLES, .p_filesz = tables->len,
		  .p_memsz = tables->len, .p_offset = 4096 + text_len, .p_align = 4096 },
	};
	Elf64_Ehdr eh = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN, .e_machine = EM_X86_64, .e_version = EV_CURRENT, .e_phoff = sizeof(eh),
		.e_ehsize = sizeof(eh), .e_phentsize = sizeof(*ph), .e_phnum = 2,
	};
	int fd = memfd_create("go_fake", MFD_CLOEXEC);
	char *text = malloc(text_len);
	struct image *img = NULL;

	must(fd >= 0 && text, "no file");
	memset(text, INT3, text_len);
	write_calls(f, text);
	must(pwrite(fd, &eh, sizeof(eh), 0) == sizeof(eh) &&
	     pwrite(fd, ph, sizeof(ph), sizeof(eh)) == sizeof(ph) &&
	     pwrite(fd, text, text_len, 4096) == text_len &&
	     pwrite(fd, tables->data, tables->len, 4096 + text_len) == (ssize_t)tables->len, "short write");
	must(!image_open_fd(fd, &img), "the file is no image");
	close(fd);
	free(text);
	return img;
}

/* ---- life ---- */

static void lay_out_text(struct go_fake *f)
{
	uint32_t at = 0;

	f->entries = calloc(f->n + 1, sizeof(*f->entries));
	must(f->entries != NULL, "out of memory");
	for (size_t i = 0; i < f->n; i++) {
		f->entries[i] = at;
		at += (f->funcs[i].size + FUNC_ALIGN - 1) / FUNC_ALIGN * FUNC_ALIGN;
	}
	f->entries[f->n] = at;
}

struct go_fake *go_fake_create(const struct go_fake_func *v, size_t n, int go_minor)
{
	struct go_fake *f = calloc(1, sizeof(*f));
	struct tables t = { .names = { .len = 0 } };
	struct buf out = { .len = 0 };
	struct go_module *m;

	must(f != NULL, "out of memory");
	f->funcs = v;
	f->n = n;
	lay_out_text(f);
	build_tables(f, &t);
	f->rt.process = &f->process;
	f->rt.n_modules = 1;
	m = &f->rt.modules[0];
	*m = (struct go_module){
		.bias = BIAS, .format = PCLNTAB_120, .nfunc = n, .text = TEXT, .etext = TEXT + f->entries[n],
	};
	place_tables(m, &t, &out);
	must(!out.failed, "out of memory");
	m->image = write_image(f, &out, f->entries[n]);
	f->rt.wrapper_id = WRAPPER_ID;
	f->rt.build = (struct go_build){
		.minor = go_minor, .path = "", .main_module = "", .main_version = "", .settings = "",
	};
	arena_init(&f->rt.strings);
	must(!pclntab_cache_create(&f->rt.cache), "out of memory");
	buf_deinit(&t.names);
	buf_deinit(&t.cu);
	buf_deinit(&t.files);
	buf_deinit(&t.pctab);
	buf_deinit(&t.functab);
	buf_deinit(&t.gofunc);
	buf_deinit(&out);
	return f;
}

void go_fake_destroy(struct go_fake *f)
{
	if (!f)
		return;
	pclntab_cache_destroy(f->rt.cache);
	arena_deinit(&f->rt.strings);
	image_close(f->rt.modules[0].image);
	free(f->entries);
	free(f);
}

struct go_runtime *go_fake_runtime(struct go_fake *f)
{
	return &f->rt;
}

void go_fake_set_build(struct go_fake *f, const char *path, const char *main_module)
{
	f->rt.build.path = path;
	f->rt.build.main_module = main_module;
	f->rt.build.has_buildinfo = *main_module != '\0';
}

gaddr_t go_fake_pc(const struct go_fake *f, const char *name, uint32_t offset)
{
	return BIAS + TEXT + entry_of(f, name) + offset;
}
