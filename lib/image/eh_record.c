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

enum {
	RECORD_MAX = 16 * 1024,		/* bytes of an FDE; most have 50 */
	CIE_MAX = 1024,			/* of a CIE; most have 30 */
	CODE_MAX = 1 << 26,		/* of one function */
};

/* A record in memory, and where in the image its bytes stand. */
struct record {
	uint8_t bytes[RECORD_MAX];
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

/* Of a CIE, what its FDEs need. */
struct shared {
	uint8_t encoding;	/* of addresses */
	bool augmented;		/* FDEs have augmentation data */
	bool signal_frame;
};

static bool encoding_known(uint8_t e)
{
	uint8_t from = e & FROM_MASK;

	return !(e & INDIRECT) && eh_form_bytes(e) && (from == FROM_NOWHERE || from == FROM_HERE);
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
	return !c.bad && encoding_known(ret->encoding);
}

static bool program_rest_holds(const struct record *r, uint8_t encoding)
{
	return !r->c.bad && eh_program_holds(r->c.p, (size_t)(r->c.end - r->c.p), eh_form_bytes(encoding));
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

bool eh_record_read(struct image *img, gaddr_t fde, struct eh_entry *ret)
{
	struct record r, shared;
	struct shared cie;
	gaddr_t start;
	uint64_t len;
	uint32_t back;

	if (!record_read(img, fde, RECORD_MAX, &r))
		return false;
	back = cursor_u32(&r.c);	/* counts from its own place */
	if (!back || back > r.addr || !record_read(img, r.addr - back, CIE_MAX, &shared) ||
	    !cie_holds(&shared, &cie) || !fde_holds(&r, &cie, &start, &len))
		return false;
	*ret = (struct eh_entry){ .start = start, .end = start + len, .record = fde,
				  .signal_frame = cie.signal_frame };
	return true;
}

