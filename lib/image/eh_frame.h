/*
 * eh_frame.h: which piece of C code a pc belongs to, and where its unwind information stands.
 *
 * By PT_GNU_EH_FRAME, the search table that linkers write for exceptions, or by the records themselves
 * where there is none (static programs). What is found here
 * has been read through once: lengths, encodings and instructions hold, so it may be handed to an
 * unwinder that trusts its tables. All addresses are link-time addresses of the image.
 */
#ifndef GOPROF_IMAGE_EH_FRAME_H
#define GOPROF_IMAGE_EH_FRAME_H

#include "image/image.h"

enum { EH_RECORD_MAX = 16 * 1024 };	/* bytes of a record, its length word included; most have 50 */

struct eh_entry {
	gaddr_t start, end;	/* the code that it describes: [start, end) */
	gaddr_t record;		/* its FDE */
	bool signal_frame;	/* the kernel made this frame: above it stands what was interrupted */
};

/* Bytes of an image, with their link-time address. */
struct eh_bytes {
	gaddr_t at;
	uint32_t len;
	uint8_t v[EH_RECORD_MAX];
};

/* The two records behind an entry, as they stand in the image. */
struct eh_records {
	struct eh_bytes fde, cie;
};

/* Reads an entry's records through once more, and hands out these very bytes. */
bool eh_frame_records(struct image *img, const struct eh_entry *e, struct eh_records *ret);

/* False: no records, none for this pc, or one that contradicts itself or is of an unusual kind. */
bool eh_frame_find(struct image *img, gaddr_t pc, struct eh_entry *ret);

/* ---- eh_program.c: for eh_frame.c and tests ---- */

/*
 * Does a program of call frame instructions stay within its bytes and within what compilers and
 * assemblers write? `pointer_bytes` is the size of an address in it (DW_CFA_set_loc).
 */
bool eh_program_holds(const uint8_t *bytes, size_t len, size_t pointer_bytes);

#endif
