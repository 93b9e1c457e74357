/*
 * core_fake.h: core files and small programs written by hand, for tests of the core back end.
 * Whatever a test does not add is not there. Out of memory ends the test.
 */
#ifndef GOPROF_TEST_CORE_FAKE_H
#define GOPROF_TEST_CORE_FAKE_H

#include <elf.h>
#include <stdint.h>

#include "base/buf.h"

enum { CORE_FAKE_PIECES = 32, CORE_FAKE_FILES = 16 };

struct core_fake {
	Elf64_Ehdr header;		/* a test may spoil it before writing */
	struct {
		uint64_t addr, memsz;
		const void *bytes;	/* borrowed; filesz of them */
		uint64_t filesz;
		uint32_t flags;		/* PF_* */
	} pieces[CORE_FAKE_PIECES];
	uint32_t n_pieces;
	struct {
		uint64_t start, end, offset;	/* offset in pages */
		const char *path;
	} files[CORE_FAKE_FILES];
	uint32_t n_files;
	uint64_t page_size;		/* that NT_FILE counts in */
	uint64_t auxv[16];		/* type, value, ... */
	uint32_t n_auxv;
	struct buf notes;		/* added before those of the members above */
	bool xnum;			/* the number of headers stands in a section header */
};

void core_fake_init(struct core_fake *c);
void core_fake_deinit(struct core_fake *c);
void core_fake_note(struct core_fake *c, const char *owner, uint32_t type, const void *desc, size_t len);
/* NT_PRSTATUS with this pc and sp. */
void core_fake_thread(struct core_fake *c, int32_t tid, uint64_t pc, uint64_t sp);
void core_fake_process(struct core_fake *c, int32_t pid);
void core_fake_piece(struct core_fake *c, uint64_t addr, const void *bytes, uint64_t filesz, uint64_t memsz,
		     uint32_t flags);
void core_fake_file(struct core_fake *c, uint64_t start, uint64_t end, uint64_t page, const char *path);
void core_fake_aux(struct core_fake *c, uint64_t type, uint64_t value);
/* The file, as a memory file; *size may be NULL. Pieces stand at its end, in their order. */
int core_fake_write(const struct core_fake *c, uint64_t *size);

/* "/proc/self/fd/N" */
const char *core_fake_path(int fd, char buf[static 32]);

enum {
	PROGRAM_TEXT = 0x400000, PROGRAM_DATA = 0x402000, PROGRAM_SEGMENT = 0x1000,
	PROGRAM_SIZE = 2 * PROGRAM_SEGMENT,
};

/*
 * A program of two segments, code (R X) at file offset 0 and data (R W) behind it, each a page; its
 * build id is `id`. `sections`: what its header says of section headers, which strip(1) changes.
 */
void program_fake(uint8_t bytes[static PROGRAM_SIZE], const char *id, uint64_t sections);

#endif
