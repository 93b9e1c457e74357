/*
 * eh_impl.h: what the files about unwind information share. Nobody outside includes this.
 *
 *	eh_frame.c    which function a pc belongs to
 *	eh_index.c    the same for images without a search table
 *	eh_record.c   the records of one function
 *	eh_program.c  the instructions in them
 */
#ifndef GOPROF_IMAGE_EH_IMPL_H
#define GOPROF_IMAGE_EH_IMPL_H

#include "image/eh_frame.h"

/* Encodings of pointers: the low half is the form, the rest what it counts from. */
enum {
	FORM_MASK = 0x0f, FORM_ABSOLUTE = 0x00, FORM_U4 = 0x03, FORM_U8 = 0x04, FORM_S4 = 0x0b, FORM_S8 = 0x0c,
	FROM_MASK = 0x70, FROM_NOWHERE = 0x00, FROM_HERE = 0x10,
	INDIRECT = 0x80, OMITTED = 0xff,
};

/* Bytes of a pointer; 0: of no fixed size, or an unknown form. */
size_t eh_form_bytes(uint8_t encoding);

/* Of a CIE, what its FDEs need. */
struct eh_cie {
	gaddr_t at;		/* 0: none yet */
	bool holds;
	uint8_t encoding;	/* of addresses */
	bool augmented;		/* FDEs have augmentation data */
	bool signal_frame;
	uint32_t n;		/* how many were read through */
};

/*
 * The function of the FDE at this address. False: it does not hold. `cie`, which begins as zeros, spares
 * the next call the work if it has the same CIE.
 */
bool eh_record_read(struct image *img, gaddr_t fde, struct eh_cie *cie, struct eh_entry *ret);

/* In an image without a search table, the FDE of the last function that begins at or below pc. */
bool eh_index_find(struct image *img, gaddr_t pc, gaddr_t *fde);

#endif
