/*
 * code_symbols.c: the functions of a symbol table, sorted, each to be asked for by an address.
 *
 * Names stay in the file until somebody asks. Many functions have several; which one is told must
 * not depend on the order of the table. Tables are untrusted: a symbol counts only if it lies in
 * code and its name ends within its table; what has no size ends at the next symbol, or where its
 * section does.
 *
 * Upstream: System V gABI chapter 4 (symbol table), chapter 5 (dynamic section).
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "image/code_names.h"
#include "image/image_impl.h"

enum {
	ENTRIES_MAX = 16 << 20,		/* of a table, functions or not */
	CHUNK = 2048,			/* entries read at once */
	NESTED_MAX = 32,		/* symbols before the nearest one that may hold a pc, too */
	NAME_MAX_BYTES = 4096,
};

struct symbol {
	gaddr_t start;
	uint32_t size;
	uint32_t name;			/* offset in the names */
	uint8_t binding;
	bool guessed;
};

struct code_symbols {
	struct image *img;
	bool by_address;		/* names stand at an address, not at a place in the file */
	uint64_t names, names_size;
	struct symbol *v;
	uint32_t n, cap;
};

/* A table of symbols and its names: places in the file or, of the dynamic section, addresses. */
struct table {
	bool by_address;
	uint64_t at, n, names, names_size;
};

static size_t table_read(struct image *img, bool by_address, uint64_t at, void *buf, size_t len)
{
	return by_address ? image_read_some(img, at, buf, len) : block_cache_read(&img->cache, at, buf, len);
}

/* ---- where the table is ---- */

static bool section_table(struct image *img, uint32_t type, struct table *ret)
{
	Elf64_Shdr symbols, names;

	for (uint64_t i = 0; image_section(img, i, &symbols); i++) {
		if (symbols.sh_type != type || symbols.sh_entsize != sizeof(Elf64_Sym))
			continue;
		if (!image_section(img, symbols.sh_link, &names) || names.sh_type != SHT_STRTAB ||
		    symbols.sh_offset > INT64_MAX || names.sh_offset > INT64_MAX || names.sh_size > INT64_MAX)
			return false;
		*ret = (struct table){
			.at = symbols.sh_offset, .n = symbols.sh_size / sizeof(Elf64_Sym),
			.names = names.sh_offset, .names_size = names.sh_size,
		};
		return true;
	}
	return false;
}

/* No section headers (the vDSO, images in memory): the names follow the symbols, as linkers write them. */
static bool dynamic_table(struct image *img, struct table *ret)
{
	struct table t = { .by_address = true };
	Elf64_Dyn e;

	for (size_t i = 0; dynamic_entry(img, i, &e); i++) {
		if (e.d_tag == DT_SYMTAB)
			t.at = image_dynamic_address(img, e.d_un.d_ptr);
		else if (e.d_tag == DT_STRTAB)
			t.names = image_dynamic_address(img, e.d_un.d_ptr);
		else if (e.d_tag == DT_STRSZ)
			t.names_size = e.d_un.d_val;
	}
	if (!t.at || t.names <= t.at || t.names_size > INT64_MAX)
		return false;
	t.n = (t.names - t.at) / sizeof(Elf64_Sym);
	*ret = t;
	return true;
}

static bool table_find(struct image *img, struct table *ret)
{
	return section_table(img, SHT_SYMTAB, ret) || section_table(img, SHT_DYNSYM, ret) ||
	       dynamic_table(img, ret);
}

/* ---- reading it ---- */

static bool is_code(const struct image *img, gaddr_t addr)
{
	for (size_t i = 0; i < img->n_loads; i++) {
		const struct segment *s = &img->loads[i];

		if (s->flags & SEGMENT_EXEC && addr >= s->vaddr && addr - s->vaddr < s->memsz)
			return true;
	}
	return false;
}

/* Assembly does not give every function a type. */
static bool is_function(const Elf64_Sym *s)
{
	unsigned int type = ELF64_ST_TYPE(s->st_info);

	if (s->st_shndx == SHN_UNDEF || s->st_shndx >= SHN_LORESERVE || !s->st_name)
		return false;
	return type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
}

/* The end of the section that a symbol says it lies in; 0 unknown. */
static gaddr_t section_end(struct image *img, const Elf64_Sym *s)
{
	Elf64_Shdr h;

	if (!image_section(img, s->st_shndx, &h) || s->st_value < h.sh_addr || s->st_value - h.sh_addr >= h.sh_size)
		return 0;
	return h.sh_addr + h.sh_size;
}

static struct error *symbol_add(struct code_symbols *cs, const Elf64_Sym *s)
{
	struct symbol *to;
	struct error *err;
	gaddr_t end;

	if (!is_function(s) || !is_code(cs->img, s->st_value) || s->st_size > UINT32_MAX)
		return NULL;
	if (cs->n == CODE_SYMBOLS_MAX)
		return &err_notfound;
	err = array_reserve(&cs->v, &cs->cap, cs->n + 1, sizeof(*cs->v));
	if (err)
		return err;
	to = &cs->v[cs->n++];
	*to = (struct symbol){ .start = s->st_value, .size = (uint32_t)s->st_size, .name = s->st_name,
			       .binding = ELF64_ST_BIND(s->st_info), .guessed = !s->st_size };
	end = to->guessed ? section_end(cs->img, s) : 0;
	if (end && end - to->start <= UINT32_MAX)
		to->size = (uint32_t)(end - to->start);	/* for now: the next symbol may be nearer */
	return NULL;
}

static struct error *symbols_read(struct code_symbols *cs, const struct table *t)
{
	_cleanup_free_ Elf64_Sym *chunk = malloc(CHUNK * sizeof(*chunk));
	uint64_t n = t->n < ENTRIES_MAX ? t->n : ENTRIES_MAX;

	if (!chunk)
		return &err_nomem;
	for (uint64_t i = 0; i < n; i += CHUNK) {
		size_t want = n - i < CHUNK ? (size_t)(n - i) : CHUNK;
		size_t got = table_read(cs->img, t->by_address, t->at + i * sizeof(*chunk), chunk,
					want * sizeof(*chunk)) / sizeof(*chunk);

		for (size_t k = 0; k < got; k++) {
			struct error *err = symbol_add(cs, &chunk[k]);

			if (err)
				return err;
		}
		if (got < want)
			break;
	}
	return NULL;
}

static int by_start(const void *va, const void *vb)
{
	const struct symbol *a = va, *b = vb;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return (a->size > b->size) - (a->size < b->size);
}

/* What has no size reaches to the next symbol that begins behind it, or to its section's end. */
static void sizes_guess(struct code_symbols *cs)
{
	gaddr_t next = 0;

	for (uint32_t i = cs->n; i-- > 0;) {
		struct symbol *s = &cs->v[i];

		if (i + 1 < cs->n && cs->v[i + 1].start != s->start)
			next = cs->v[i + 1].start;
		if (s->guessed && next && s->size > next - s->start)
			s->size = (uint32_t)(next - s->start);
	}
}

struct error *code_symbols_load(struct image *img, struct code_symbols **ret)
{
	struct table t;
	struct code_symbols *cs;
	struct error *err;

	if (!table_find(img, &t))
		return &err_notfound;
	cs = calloc(1, sizeof(*cs));
	if (!cs)
		return &err_nomem;
	*cs = (struct code_symbols){ .img = img, .by_address = t.by_address, .names = t.names,
				     .names_size = t.names_size };
	err = symbols_read(cs, &t);
	if (!err && !cs->n)
		err = &err_notfound;
	if (err) {
		code_symbols_free(cs);
		return err;
	}
	qsort(cs->v, cs->n, sizeof(*cs->v), by_start);
	sizes_guess(cs);
	*ret = cs;
	return NULL;
}

void code_symbols_free(struct code_symbols *cs)
{
	if (!cs)
		return;
	free(cs->v);
	free(cs);
}

uint64_t code_symbols_bytes(const struct code_symbols *cs)
{
	return sizeof(*cs) + (uint64_t)cs->cap * sizeof(*cs->v);
}

/* ---- asking ---- */

/* The name of a symbol; false when it does not end in its table. A long one is cut. */
static bool name_read(struct code_symbols *cs, const struct symbol *s, char *buf, size_t cap)
{
	size_t len;
	uint64_t left;

	if (s->name >= cs->names_size)
		return false;
	left = cs->names_size - s->name;
	len = table_read(cs->img, cs->by_address, cs->names + s->name, buf, left < cap - 1 ? left : cap - 1);
	buf[len] = '\0';
	return len > 0 && buf[0] && (strlen(buf) < len || len == cap - 1);
}

/* Which of two names people know: public before weak before local, then the fewest underscores. */
static int name_order(const struct symbol *a, const char *name_a, const struct symbol *b, const char *name_b)
{
	static const uint8_t ranks[] = { [STB_LOCAL] = 2, [STB_GLOBAL] = 0, [STB_WEAK] = 1 };
	uint8_t rank_a = a->binding < sizeof(ranks) ? ranks[a->binding] : 0;
	uint8_t rank_b = b->binding < sizeof(ranks) ? ranks[b->binding] : 0;
	size_t bars_a = strspn(name_a, "_"), bars_b = strspn(name_b, "_");

	if (a->guessed != b->guessed)
		return a->guessed ? 1 : -1;
	if (rank_a != rank_b)
		return rank_a < rank_b ? -1 : 1;
	if (bars_a != bars_b)
		return bars_a < bars_b ? -1 : 1;
	return strcmp(name_a, name_b);
}

static bool holds(const struct symbol *s, gaddr_t pc)
{
	return pc >= s->start && pc - s->start < s->size;
}

/* How many symbols begin at or below pc. */
static uint32_t count_below(const struct code_symbols *cs, gaddr_t pc)
{
	uint32_t low = 0, high = cs->n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (cs->v[middle].start <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool code_symbols_find(struct code_symbols *cs, gaddr_t pc, struct code_symbol *ret, char *buf, size_t cap)
{
	uint32_t first = count_below(cs, pc), last = first > NESTED_MAX ? first - NESTED_MAX : 0;
	const struct symbol *best = NULL;
	_cleanup_free_ char *name = malloc(NAME_MAX_BYTES), *best_name = malloc(NAME_MAX_BYTES);

	if (!name || !best_name || !cap)
		return false;
	for (uint32_t i = first; i-- > last;) {
		const struct symbol *s = &cs->v[i];

		/* The nearest start wins; names of that one place are compared. */
		if (best && s->start != best->start)
			break;
		if (!holds(s, pc) || !name_read(cs, s, name, NAME_MAX_BYTES))
			continue;
		if (best && name_order(best, best_name, s, name) <= 0)
			continue;
		best = s;
		strcpy(best_name, name);
	}
	if (!best)
		return false;
	best_name[strcspn(best_name, "@")] = '\0';	/* the version of a dynamic symbol */
	*ret = (struct code_symbol){ .start = best->start, .end = best->start + best->size, .guessed = best->guessed };
	strncpy(buf, best_name, cap - 1);
	buf[cap - 1] = '\0';
	return true;
}
