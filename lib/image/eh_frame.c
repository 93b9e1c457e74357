/*
 * eh_frame.c: the search table of PT_GNU_EH_FRAME and the two records behind an entry of it, the
 * FDE (one function) and its CIE (what many share).
 *
 * The table is searched by reading some 15 entries of it, never as a whole: a big library has half
 * a megabyte of them. An entry counts only if its FDE says the same start, and if both records hold
 * when they are read through. Images that have only .debug_frame have no such table, nor have Go's
 * own functions: no answer. Must not know processes.
 *
 * Upstream: LSB core 10.5 and 10.6 (.eh_frame, .eh_frame_hdr), DWARF 4 section 6.4.1.
 */
#include <string.h>

#include "base/buf.h"
#include "image/eh_frame.h"
#include "image/image_impl.h"

enum {
	ENTRY_BYTES = 8,		/* two 32-bit offsets from the header */
	ENTRIES_MAX = 1 << 24,
	RECORD_MAX = 16 * 1024,		/* bytes of a CIE or FDE; most have 50 */
	CODE_MAX = 1 << 26,		/* of one function */
	/* Encodings of pointers: the low half is the form, the rest what it counts from. */
	FORM_MASK = 0x0f, FORM_ABSOLUTE = 0x00, FORM_U4 = 0x03, FORM_U8 = 0x04, FORM_S4 = 0x0b, FORM_S8 = 0x0c,
	FROM_MASK = 0x70, FROM_NOWHERE = 0x00, FROM_HERE = 0x10,
	INDIRECT = 0x80, OMITTED = 0xff,
	TABLE_ENCODING = 0x3b,		/* from the header, signed, 4 bytes: the only one linkers write */
};

struct search_table {
	gaddr_t header, entries;
	uint64_t n;
};

/* A record in memory, and where in the image its bytes stand. */
struct record {
	uint8_t bytes[RECORD_MAX];
	struct cursor c;
	gaddr_t addr;		/* of bytes[0] */
};

static size_t form_bytes(uint8_t encoding)
{
	uint8_t form = encoding & FORM_MASK;

	return form == FORM_U4 || form == FORM_S4 ? 4 :
	       form == FORM_ABSOLUTE || form == FORM_U8 || form == FORM_S8 ? 8 : 0;
}

static bool table_find(struct image *img, struct search_table *t)
{
	const Elf64_Phdr *p = image_phdr(img, PT_GNU_EH_FRAME);
	uint8_t bytes[4 + 8 + 4];
	struct cursor c = cursor_over(bytes, sizeof(bytes));
	uint8_t pointer, count, encoding;
	size_t before;

	if (!p || p->p_memsz < sizeof(bytes) || image_read(img, p->p_vaddr, bytes, sizeof(bytes)))
		return false;
	if (cursor_u8(&c) != 1)
		return false;
	pointer = cursor_u8(&c);
	count = cursor_u8(&c);
	encoding = cursor_u8(&c);
	if (pointer == OMITTED || !form_bytes(pointer) || count != FORM_U4 || encoding != TABLE_ENCODING)
		return false;
	cursor_bytes(&c, form_bytes(pointer));
	t->n = cursor_u32(&c);
	before = (size_t)(c.p - bytes);
	t->header = p->p_vaddr;
	t->entries = p->p_vaddr + before;
	return !c.bad && t->n && t->n <= ENTRIES_MAX && t->n <= (p->p_memsz - before) / ENTRY_BYTES;
}

static bool entry_read(struct image *img, const struct search_table *t, uint64_t i, gaddr_t *start, gaddr_t *fde)
{
	int32_t v[2];

	if (image_read(img, t->entries + i * ENTRY_BYTES, v, sizeof(v)))
		return false;
	*start = t->header + (gaddr_t)(int64_t)v[0];
	*fde = t->header + (gaddr_t)(int64_t)v[1];
	return true;
}

/* The last entry that begins at or below pc. */
static bool table_search(struct image *img, const struct search_table *t, gaddr_t pc, uint64_t *ret)
{
	uint64_t low = 0, high = t->n;
	gaddr_t start, fde;

	while (high - low > 0) {
		uint64_t middle = low + (high - low) / 2;

		if (!entry_read(img, t, middle, &start, &fde))
			return false;
		if (start <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	*ret = low - 1;
	return low > 0;
}

/* The bytes of the record at addr, its length word passed. */
static bool record_read(struct image *img, gaddr_t addr, struct record *r)
{
	uint32_t len;

	/* 0 ends a list of records; 0xffffffff begins a long one, which nobody writes. */
	if (image_read(img, addr, &len, sizeof(len)) || len < 4 || len > RECORD_MAX)
		return false;
	r->addr = addr + sizeof(len);
	if (r->addr < addr || image_read(img, r->addr, r->bytes, len))
		return false;
	r->c = cursor_over(r->bytes, len);
	return true;
}

/* Of a CIE, what its FDEs need. */
struct shared {
	uint8_t encoding;	/* of addresses */
	bool augmented;		/* FDEs have augmentation data */
	bool signal_frame;
};

static bool encoding_known(uint8_t e)
{
	uint8_t from = e & FROM_MASK;

	return !(e & INDIRECT) && form_bytes(e) && (from == FROM_NOWHERE || from == FROM_HERE);
}

/* The bytes that the letters of the augmentation string stand for, in their order. */
static bool augmentation_holds(const char *letters, struct cursor c, struct shared *ret)
{
	uint8_t e;

	for (; *letters; letters++) {
		switch (*letters) {
		case 'R':
			ret->encoding = cursor_u8(&c);
			break;
		case 'P':
			e = cursor_u8(&c);
			if (!form_bytes(e) || (e & FROM_MASK) > FROM_HERE)
				return false;
			cursor_bytes(&c, form_bytes(e));
			break;
		case 'L':
			cursor_u8(&c);
			break;
		case 'S':
			ret->signal_frame = true;
			break;
		default:
			return false;
		}
	}
	return !c.bad && encoding_known(ret->encoding);
}

static bool program_rest_holds(const struct record *r, uint8_t encoding)
{
	return !r->c.bad && eh_program_holds(r->c.p, (size_t)(r->c.end - r->c.p), form_bytes(encoding));
}

static bool cie_holds(struct record *r, struct shared *ret)
{
	const char *letters;
	const uint8_t *data, *nul;
	uint64_t len, id = cursor_u32(&r->c);
	uint8_t version = cursor_u8(&r->c);

	*ret = (struct shared){ .encoding = FORM_ABSOLUTE };
	nul = r->c.bad ? NULL : memchr(r->c.p, 0, (size_t)(r->c.end - r->c.p));
	if (id != 0 || (version != 1 && version != 3) || !nul)
		return false;
	letters = (const char *)r->c.p;
	r->c.p = nul + 1;
	cursor_uvarint(&r->c);		/* units of code */
	cursor_uvarint(&r->c);		/* units of data */
	if (version == 1)
		cursor_u8(&r->c);	/* register of the return address */
	else
		cursor_uvarint(&r->c);
	ret->augmented = *letters == 'z';
	if (*letters && !ret->augmented)
		return false;
	if (ret->augmented) {
		len = cursor_uvarint(&r->c);
		data = r->c.bad || len > RECORD_MAX ? NULL : cursor_bytes(&r->c, len);
		if (!data || !augmentation_holds(letters + 1, cursor_over(data, len), ret))
			return false;
	}
	return program_rest_holds(r, ret->encoding);
}

/* The number at the cursor; one that counts from its own place is made an address. */
static gaddr_t pointer_read(struct record *r, uint8_t encoding)
{
	gaddr_t from = (encoding & FROM_MASK) == FROM_HERE ? r->addr + (gaddr_t)(r->c.p - r->bytes) : 0;
	uint8_t form = encoding & FORM_MASK;

	if (form == FORM_S4)
		return from + (gaddr_t)(int64_t)(int32_t)cursor_u32(&r->c);
	return from + (form == FORM_U4 ? cursor_u32(&r->c) : cursor_u64(&r->c));
}

static bool fde_holds(struct record *r, const struct shared *cie, gaddr_t *start, uint64_t *len)
{
	uint64_t data;

	*start = pointer_read(r, cie->encoding);
	*len = pointer_read(r, cie->encoding & FORM_MASK);
	if (cie->augmented) {
		data = cursor_uvarint(&r->c);
		if (r->c.bad || data > RECORD_MAX)
			return false;
		cursor_bytes(&r->c, data);
	}
	return program_rest_holds(r, cie->encoding) && *len && *len <= CODE_MAX && *start + *len > *start;
}

/* Both records of one entry. */
static bool records_hold(struct image *img, gaddr_t fde, gaddr_t start, struct eh_entry *ret)
{
	struct record r, shared;
	struct shared cie;
	uint64_t len;
	gaddr_t said;
	uint32_t back;

	if (!record_read(img, fde, &r))
		return false;
	back = cursor_u32(&r.c);	/* counts from its own place */
	if (!back || back > r.addr || !record_read(img, r.addr - back, &shared) ||
	    !cie_holds(&shared, &cie) || !fde_holds(&r, &cie, &said, &len) || said != start)
		return false;
	ret->start = start;
	ret->end = start + len;
	ret->signal_frame = cie.signal_frame;
	return true;
}

bool eh_frame_find(struct image *img, gaddr_t pc, struct eh_entry *ret)
{
	struct search_table t;
	struct eh_entry found;
	gaddr_t start, fde;
	uint64_t i;

	if (!table_find(img, &t) || !table_search(img, &t, pc, &i) || !entry_read(img, &t, i, &start, &fde))
		return false;
	if (!records_hold(img, fde, start, &found) || pc >= found.end)
		return false;
	found.entry = t.entries + i * ENTRY_BYTES;
	found.base = t.header;
	*ret = found;
	return true;
}
