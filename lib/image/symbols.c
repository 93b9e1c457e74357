/*
 * symbols.c: a few names looked up in .symtab, in one pass.
 *
 * With eh_index.c the only part that needs section headers: when they are gone, damaged or lie, the
 * answer is that there is no symbol table, never a failure of the whole. Nothing is held afterwards: a
 * big program's table has tens of megabytes, and its answers are needed once. Must not know Go.
 *
 * Upstream: System V gABI chapter 4 (section headers, symbol table).
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "image/image_impl.h"

enum {
	SECTIONS_MAX = 4096,
	SYMBOLS_CHUNK = 4096,		/* entries read at once */
	SYMBOLS_MAX = 16 << 20,
	NAME_MAX_BYTES = 256,		/* longer names are not looked for */
};

bool image_section(struct image *img, uint64_t index, Elf64_Shdr *ret)
{
	const Elf64_Ehdr *h = &img->header;

	if (h->e_shoff == 0 || h->e_shoff > INT64_MAX || h->e_shentsize != sizeof(*ret) ||
	    index >= h->e_shnum || index >= SECTIONS_MAX)
		return false;
	return image_read_file(img, h->e_shoff + index * sizeof(*ret), ret, sizeof(*ret));
}

/* The symbol table and its names. */
static bool symtab_find(struct image *img, Elf64_Shdr *symtab, Elf64_Shdr *strtab)
{
	for (uint64_t i = 0; image_section(img, i, symtab); i++)
		if (symtab->sh_type == SHT_SYMTAB && symtab->sh_entsize == sizeof(Elf64_Sym) &&
		    symtab->sh_offset <= INT64_MAX)
			return image_section(img, symtab->sh_link, strtab) &&
			       strtab->sh_type == SHT_STRTAB && strtab->sh_offset <= INT64_MAX;
	return false;
}

struct symbol_search {
	struct image *img;
	const Elf64_Shdr *strtab;
	const char *const *names;
	size_t n, found;
	struct image_symbol *out;
};

static void symbol_match(struct symbol_search *s, const Elf64_Sym *sym)
{
	char name[NAME_MAX_BYTES];
	uint64_t left;
	size_t len;

	if (sym->st_value == 0 || sym->st_shndx == SHN_UNDEF || sym->st_name >= s->strtab->sh_size)
		return;
	left = s->strtab->sh_size - sym->st_name;
	len = block_cache_read(&s->img->cache, s->strtab->sh_offset + sym->st_name, name,
			       left < sizeof(name) ? left : sizeof(name));
	if (!memchr(name, '\0', len))
		return;
	for (size_t i = 0; i < s->n; i++) {
		if (s->out[i].addr || strcmp(name, s->names[i]) != 0)
			continue;
		s->out[i] = (struct image_symbol){ .addr = sym->st_value, .size = sym->st_size };
		s->found++;
		return;
	}
}

static void symbols_search(struct symbol_search *s, const Elf64_Shdr *symtab, Elf64_Sym *chunk)
{
	uint64_t n = symtab->sh_size / sizeof(*chunk);

	n = n < SYMBOLS_MAX ? n : SYMBOLS_MAX;
	for (uint64_t i = 0; i < n && s->found < s->n; i += SYMBOLS_CHUNK) {
		size_t want = n - i < SYMBOLS_CHUNK ? (size_t)(n - i) : SYMBOLS_CHUNK;
		size_t got = block_cache_read(&s->img->cache, symtab->sh_offset + i * sizeof(*chunk),
					      chunk, want * sizeof(*chunk)) / sizeof(*chunk);

		for (size_t k = 0; k < got && s->found < s->n; k++)
			symbol_match(s, &chunk[k]);
		if (got < want)
			return;
	}
}

struct error *image_find_symbols(struct image *img, const char *const *names, size_t n,
				 struct image_symbol *ret)
{
	_cleanup_free_ Elf64_Sym *chunk = NULL;
	_cleanup_free_ struct image_symbol *out = NULL;
	Elf64_Shdr symtab, strtab;
	struct symbol_search s = { .img = img, .strtab = &strtab, .names = names, .n = n };

	if (!symtab_find(img, &symtab, &strtab))
		return &err_notfound;
	chunk = malloc(SYMBOLS_CHUNK * sizeof(*chunk));
	out = calloc(n ? n : 1, sizeof(*out));
	if (!chunk || !out)
		return &err_nomem;
	s.out = out;
	symbols_search(&s, &symtab, chunk);
	memcpy(ret, out, n * sizeof(*out));
	return NULL;
}
