/*
 * eh_record.c: the two records behind a function's unwind information, the FDE (one function) and its
 * CIE (what many share), read through before anybody unwinds by them.
 *
 * Upstream: LSB core 10.6 (.eh_frame), DWARF 4 section 6.4.1.
 */
#include <string.h>

#include "base/buf.h"
#include "image/eh_impl.h"
#include "image/image_impl.h"
#include "target/arch.h"

enum {
	LENGTH_BYTES = 4,
	FDE_MAX = EH_RECORD_MAX - LENGTH_BYTES,
	CIE_MAX = 1024,			/* most have 30 bytes */
	CODE_MAX = 1 << 26,		/* of one function */
	LETTERS_MAX = 4,		/* of an augmentation: z, R, P, L or S, each once; unwinders know no more */
};

/* A record in memory, and where in the image its bytes stand. */
struct record {
	uint8_t bytes[FDE_MAX];
	struct cursor c;
	gaddr_t addr;		/* of bytes[0] */
};

size_t eh_form_bytes(uint8_t encoding)
{
	uint8_t form = encoding & FORM_MASK;

	return form == FORM_U4 || form == FORM_S4 ? 4 :
	       form == FORM_ABSOLUTE || form == FORM_U8 || form == FORM_S8 ? 8 : 0;
}

/* The bytes of the record at addr, its length word passed. */
static bool record_read(struct image *img, gaddr_t addr, uint32_t most, struct record *r)
{
	uint32_t len;

	/* 0 ends a list of records; 0xffffffff begins a long one, which nobody writes. */
	if (image_read(img, addr, &len, sizeof(len)) || len < 4 || len > most)
		return false;
	r->addr = addr + sizeof(len);
	if (r->addr < addr || image_read(img, r->addr, r->bytes, len))
		return false;
	r->c = cursor_over(r->bytes, len);
	return true;
}

static bool encoding_known(uint8_t e)
{
	uint8_t from = e & FROM_MASK;

	return !(e & INDIRECT) && eh_form_bytes(e) && (from == FROM_NOWHERE || from == FROM_HERE);
}

/*
 * The bytes that the letters of the augmentation string stand for, in their order: exactly these, as
 * an unwinder takes what follows them for instructions.
 */
static bool augmentation_holds(const char *letters, struct cursor c, struct eh_cie *ret)
{
	const char *letter;
	uint8_t e;

	for (letter = letters; *letter; letter++) {
		if (letter - letters == LETTERS_MAX - 1 || strchr(letter + 1, *letter))
			return false;
		switch (*letter) {
		case 'R':
			ret->encoding = cursor_u8(&c);
			break;
		case 'P':
			e = cursor_u8(&c);
			if (!eh_form_bytes(e) || (e & FROM_MASK) > FROM_HERE)
				return false;
			cursor_bytes(&c, eh_form_bytes(e));
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
	return !c.bad && c.p == c.end && encoding_known(ret->encoding);
}

static bool program_rest_holds(const struct record *r, uint8_t encoding)
{
	return !r->c.bad && eh_program_holds(r->c.p, (size_t)(r->c.end - r->c.p), eh_form_bytes(encoding));
}

/* Into ret but for `at` and `n`. */
static bool cie_holds(struct record *r, struct eh_cie *ret)
{
	const char *letters;
	const uint8_t *data, *nul;
	uint64_t len, id = cursor_u32(&r->c), column;
	uint8_t version = cursor_u8(&r->c);

	ret->encoding = FORM_ABSOLUTE;
	ret->signal_frame = false;
	nul = r->c.bad ? NULL : memchr(r->c.p, 0, (size_t)(r->c.end - r->c.p));
	if (id != 0 || (version != 1 && version != 3) || !nul)
		return false;
	letters = (const char *)r->c.p;
	r->c.p = nul + 1;
	cursor_uvarint(&r->c);		/* units of code */
	cursor_uvarint(&r->c);		/* units of data */
	column = version == 1 ? cursor_u8(&r->c) : cursor_uvarint(&r->c);
	if (column != arch_host()->dwarf_pc)
		return false;		/* the return address; unwinders index by it */
	ret->augmented = *letters == 'z';
	if (*letters && !ret->augmented)
		return false;
	if (ret->augmented) {
		len = cursor_uvarint(&r->c);
		data = r->c.bad || len > CIE_MAX ? NULL : cursor_bytes(&r->c, len);
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

static bool fde_holds(struct record *r, const struct eh_cie *cie, gaddr_t *start, uint64_t *len)
{
	uint64_t data;

	*start = pointer_read(r, cie->encoding);
	*len = pointer_read(r, cie->encoding & FORM_MASK);
	if (cie->augmented) {
		data = cursor_uvarint(&r->c);
		if (r->c.bad || data > FDE_MAX)
			return false;
		cursor_bytes(&r->c, data);
	}
	return program_rest_holds(r, cie->encoding) && *len && *len <= CODE_MAX && *start + *len > *start;
}

/* Where the CIE of this FDE stands, and the cursor behind the word that says so; 0: nowhere. */
static gaddr_t cie_of(struct record *fde)
{
	uint32_t back = cursor_u32(&fde->c);	/* counts from its own place */

	return !fde->c.bad && back && back <= INT32_MAX && back < fde->addr ? fde->addr - back : 0;
}

bool eh_record_read(struct image *img, gaddr_t fde, struct eh_cie *cie, struct eh_entry *ret)
{
	struct record r, shared;
	gaddr_t start, at;
	uint64_t len;

	if (!record_read(img, fde, FDE_MAX, &r))
		return false;
	at = cie_of(&r);
	if (at && at != cie->at) {
		cie->at = at;
		cie->n++;
		cie->holds = record_read(img, at, CIE_MAX, &shared) && cie_holds(&shared, cie);
	}
	if (!at || !cie->holds || !fde_holds(&r, cie, &start, &len))
		return false;
	*ret = (struct eh_entry){ .start = start, .end = start + len, .record = fde,
				  .signal_frame = cie->signal_frame };
	return true;
}

/* The record at the cursor's begin with its length word. */
static void record_copy(const struct record *r, struct eh_bytes *ret)
{
	uint32_t len = (uint32_t)(r->c.end - r->bytes);

	*ret = (struct eh_bytes){ .at = r->addr - LENGTH_BYTES, .len = LENGTH_BYTES + len };
	memcpy(ret->v, &len, sizeof(len));
	memcpy(ret->v + LENGTH_BYTES, r->bytes, len);
}

bool eh_frame_records(struct image *img, const struct eh_entry *e, struct eh_records *ret)
{
	struct eh_cie cie = { .at = 0 };
	struct record r, shared;
	gaddr_t start, at;
	uint64_t len;

	if (!record_read(img, e->record, FDE_MAX, &r))
		return false;
	at = cie_of(&r);
	if (!at || !record_read(img, at, CIE_MAX, &shared))
		return false;
	record_copy(&r, &ret->fde);
	record_copy(&shared, &ret->cie);
	return cie_holds(&shared, &cie) && fde_holds(&r, &cie, &start, &len) && start == e->start &&
	       start + len == e->end;
}
