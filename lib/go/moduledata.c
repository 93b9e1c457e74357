/*
 * moduledata.c: the linker's description of a module, found by its pointer to the function table.
 *
 * Read from the file with relocations applied, never from memory: a program that stands at its exec
 * has not relocated itself yet. A candidate is believed when everything that it says twice agrees:
 * table length and header, first and last entry of the table and the bounds of the code, and when
 * every table lies in the file. Text addresses come from here only.
 *
 * Upstream: src/runtime/symtab.go (moduledata, moduledataverify1), cmd/link/internal/ld/symtab.go.
 */
#include <string.h>

#include "base/cleanup.h"
#include "go/pclntab_impl.h"

enum { MODULEDATA_MAX = 4096, POINTERS_MAX = 64, N_DATA_PARTS = 4, HEADER_BYTES = 72 };

/* The bytes of one moduledata and the layout to read them by. */
struct md {
	const struct go_layout *layout;
	uint8_t bytes[MODULEDATA_MAX];
	size_t size;
};

/* Up to the last member that is known: how long the struct is need not be. */
static size_t md_span(const struct go_layout *l)
{
	size_t end = 0;

	for (int f = GO_MD_SIZE + 1; f <= GO_MD_NEXT; f++)
		if (go_has(l, f) && (size_t)l->f[f].offset + l->f[f].size > end)
			end = (size_t)l->f[f].offset + l->f[f].size;
	return end;
}

static bool md_word(const struct md *md, enum go_field f, unsigned int index, uint64_t *ret)
{
	int64_t offset = (int64_t)md->layout->f[f].offset + 8 * (int64_t)index;

	if (md->layout->f[f].offset < 0 || (uint64_t)offset + 8 > md->size)
		return false;
	memcpy(ret, md->bytes + offset, sizeof(*ret));
	return true;
}

/* A word of a member that some versions do not have. */
static uint64_t md_word_or(const struct md *md, enum go_field f, uint64_t otherwise)
{
	uint64_t v;

	return md_word(md, f, 0, &v) ? v : otherwise;
}

/* A slice whose bytes must be in the file. */
static bool md_slice(const struct md *md, struct image *img, enum go_field f, uint64_t element,
		     gaddr_t *addr, uint64_t *size)
{
	const struct segment *s;
	uint64_t p, len;

	if (!md_word(md, f, 0, &p) || !md_word(md, f, 1, &len))
		return false;
	s = image_segment_at(img, p);
	if (!s || len == 0 || len > (s->filesz - (p - s->vaddr)) / element)
		return false;
	*addr = p;
	*size = len * element;
	return true;
}

/* Names, files, numbers: tables of their own. */
static bool own_tables_fill(const struct md *md, struct go_module *m)
{
	return md_slice(md, m->image, GO_MD_FUNCNAMETAB, 1, &m->funcnametab, &m->funcnametab_size) &&
	       md_slice(md, m->image, GO_MD_CUTAB, sizeof(uint32_t), &m->cutab, &m->cutab_size) &&
	       md_slice(md, m->image, GO_MD_FILETAB, 1, &m->filetab, &m->filetab_size) &&
	       md_slice(md, m->image, GO_MD_PCTAB, 1, &m->pctab, &m->pctab_size);
}

/*
 * Up to 1.15 all is in one table and offsets count from its start. Files have numbers of the whole
 * program; what is called filetab there leads from a number to a name, as cutab does later.
 */
static bool one_table_fill(const struct md *md, struct go_module *m)
{
	if (!md_slice(md, m->image, GO_MD_FILETAB, sizeof(uint32_t), &m->cutab, &m->cutab_size))
		return false;
	m->funcnametab = m->filetab = m->pctab = m->functab;
	m->funcnametab_size = m->filetab_size = m->pctab_size = m->functab_size;
	return true;
}

static bool tables_fill(const struct md *md, struct go_module *m)
{
	const struct pclntab_shape *s = pclntab_shape(m->format);
	uint64_t ftab_size, ends;

	if (!md_slice(md, m->image, GO_MD_PCLNTABLE, 1, &m->functab, &m->functab_size))
		return false;
	if (s->tables_at ? !own_tables_fill(md, m) : !one_table_fill(md, m))
		return false;
	/* Its last element has no second word, and nothing need follow it: one byte per element. */
	if (!md_slice(md, m->image, GO_MD_FTAB, 1, &m->ftab, &ftab_size) || ftab_size != m->nfunc + 1)
		return false;
	ends = m->functab + m->functab_size;
	if (m->functab < m->pclntab || m->functab_size < m->nfunc * 2 * s->ftab_word)
		return false;
	m->pclntab_size = ends - m->pclntab;
	return true;
}

static bool ftab_bound(struct go_module *m, uint64_t index, gaddr_t *ret)
{
	const struct pclntab_shape *s = pclntab_shape(m->format);
	uint64_t v = 0;

	if (image_read_relocated(m->image, m->ftab + index * 2 * s->ftab_word, &v, s->ftab_word))
		return false;
	*ret = s->func.entry_size == 8 ? v : m->text + v;
	return true;
}

static bool bounds_fill(const struct md *md, struct go_module *m)
{
	uint64_t minpc, maxpc, first, last;
	const struct segment *code;

	if (!md_word(md, GO_MD_TEXT, 0, &m->text) || !md_word(md, GO_MD_ETEXT, 0, &m->etext) ||
	    !md_word(md, GO_MD_MINPC, 0, &minpc) || !md_word(md, GO_MD_MAXPC, 0, &maxpc))
		return false;
	if (!ftab_bound(m, 0, &first) || !ftab_bound(m, m->nfunc, &last))
		return false;
	code = image_segment_at(m->image, m->text);
	if (!code || !(code->flags & SEGMENT_EXEC) || m->etext <= m->text ||
	    m->etext - code->vaddr > code->filesz || m->etext - m->text > UINT32_MAX)
		return false;
	return first == minpc && last == maxpc && m->text <= minpc && minpc < maxpc;
}

/* Text in several pieces (never on amd64 so far): entry offsets would need a map. Refused, not guessed. */
static bool one_text_piece(const struct md *md)
{
	uint64_t n;

	return !md_word(md, GO_MD_TEXTSECTMAP, 1, &n) || n <= 1;
}

/*
 * The writable data: four parts with a start and an end each, which stand in one row. Their order in
 * memory is the linker's: an external one puts the data with pointers before that without.
 */
static bool data_fill(const struct md *md, struct go_module *m)
{
	int32_t words = (md->layout->f[GO_MD_ENOPTRBSS].offset - md->layout->f[GO_MD_NOPTRDATA].offset) / 8;

	if (words + 1 != 2 * N_DATA_PARTS)
		return false;
	m->noptrdata = UINT64_MAX;
	m->enoptrbss = 0;
	for (unsigned int i = 0; i < N_DATA_PARTS; i++) {
		uint64_t start, end;

		if (!md_word(md, GO_MD_NOPTRDATA, 2 * i, &start) ||
		    !md_word(md, GO_MD_NOPTRDATA, 2 * i + 1, &end) || start > end)
			return false;
		m->noptrdata = start < m->noptrdata ? start : m->noptrdata;
		m->enoptrbss = end > m->enoptrbss ? end : m->enoptrbss;
	}
	return true;
}

/* How many functions: one less than the sorted table has entries. 0: no sane number. */
static uint64_t nfunc_of(const struct md *md, const struct pclntab_header *h)
{
	uint64_t n;

	if (h->nfunc != NFUNC_UNKNOWN)
		return h->nfunc;
	return md_word(md, GO_MD_FTAB, 1, &n) && n > 1 && n <= NFUNC_MAX ? n - 1 : 0;
}

/*
 * What of a moduledata does not agree with the rest; NULL: all does, "": it looks like none at all.
 * The bounds of the data are what is not looked for by anything else, so they tell one from the other.
 */
static const char *parts_fill(const struct md *md, struct go_module *m)
{
	const char *bad = NULL;

	if (!m->nfunc || !tables_fill(md, m))
		bad = "the lengths of its tables";
	else if (!bounds_fill(md, m))
		bad = "the bounds of its code";
	else if (!one_text_piece(md))
		bad = "code in several pieces";
	if (!data_fill(md, m) || m->noptrdata == 0)
		bad = "";
	return bad;
}

/* `bad` is set as parts_fill gives it, or left alone. */
static bool module_fill(struct image *img, gaddr_t at, const struct pclntab_header *h,
			const struct go_layout *layout, struct go_module *m, const char **bad)
{
	struct md md = { .layout = layout, .size = md_span(layout) };
	const char *part;
	struct error *err;

	if (md.size > sizeof(md.bytes))
		return false;
	err = image_read_relocated(img, at, md.bytes, md.size);
	if (err) {
		error_free(err);
		return false;
	}
	*m = (struct go_module){
		.image = img, .format = h->format, .pclntab = h->addr, .nfunc = nfunc_of(&md, h),
		.moduledata = at, .gofunc = md_word_or(&md, GO_MD_GOFUNC, 0),
	};
	part = parts_fill(&md, m);
	if (part && *part)
		*bad = part;
	return !part;
}

/* The one moduledata that goes with this function table. */
static struct error *module_of(struct image *img, const struct pclntab_header *h,
			       const struct go_layout *layout, struct go_module *ret, const char **bad)
{
	gaddr_t at[POINTERS_MAX];
	size_t n = POINTERS_MAX;
	struct error *err = image_find_pointers(img, h->addr, at, &n);

	if (err)
		return err;
	for (size_t i = 0; i < n; i++)
		if (module_fill(img, at[i], h, layout, ret, bad))
			return NULL;
	return &err_notfound;
}

static struct error *module_search(struct image *img, uint64_t bias, const struct go_layout *layout,
				   struct go_module *ret, const char **bad)
{
	struct pclntab_header headers[PCLNTAB_CANDIDATES];
	struct error *err = &err_notfound;
	struct go_module m;

	/* One by one: the first is nearly always it, and the search for it ends where it stands. */
	for (size_t i = 0; i < PCLNTAB_CANDIDATES && err; i++) {
		size_t n = i + 1;
		struct error *search = pclntab_candidates(img, headers, &n);

		if (search || n <= i) {
			error_free(search ? err : NULL);
			return search ? search : err;
		}
		error_free(err);
		err = module_of(img, &headers[i], layout, &m, bad);
	}
	if (err)
		return err;
	m.bias = bias;
	*ret = m;
	return NULL;
}

struct error *go_module_find(struct image *img, uint64_t bias, const struct go_layout *layout,
			     struct go_module *ret)
{
	const char *bad = NULL;

	return module_search(img, bias, layout, ret, &bad);
}

const char *go_module_contradiction(struct image *img, const struct go_layout *layout)
{
	const char *bad = NULL;
	struct go_module m;
	_cleanup_error_ struct error *err = module_search(img, 0, layout, &m, &bad);

	return err ? bad : NULL;
}

struct error *go_module_at(struct image *img, uint64_t bias, gaddr_t at, const struct go_layout *layout,
			   struct go_module *ret)
{
	uint8_t bytes[HEADER_BYTES];
	struct pclntab_header h;
	struct go_module m;
	const struct segment *s;
	const char *bad;
	/* From 1.16 on the first word is the address of the header, before it is that of the table. */
	_cleanup_error_ struct error *err = image_read_relocated(img, at, &h.addr, sizeof(h.addr));

	s = err ? NULL : image_segment_at(img, h.addr);
	if (!s || image_read(img, h.addr, bytes, sizeof(bytes)) ||
	    !pclntab_header_parse(bytes, s->filesz - (h.addr - s->vaddr), &h.format, &h.nfunc) ||
	    !module_fill(img, at, &h, layout, &m, &bad))
		return &err_notfound;
	m.bias = bias;
	*ret = m;
	return NULL;
}
