/*
 * core_impl.h: what the files of the core back end share. Nobody outside includes this.
 *
 *	core.c        the operations, and the order in which a core is opened
 *	core_head.c   is it a core, of this CPU, and which pieces of memory does it hold
 *	core_notes.c  threads, name, mapped files and auxiliary vector, from the notes
 *	core_files.c  the files behind mappings: found, proved to be the very ones, read
 *	core_maps.c   the list of mappings, put together from the pieces and the mapped files
 *
 * Everything is learned when the core is opened; afterwards only descriptors are read (pread), so
 * reading is safe from any thread.
 */
#ifndef GOPROF_TARGET_CORE_IMPL_H
#define GOPROF_TARGET_CORE_IMPL_H

#include <stdatomic.h>

#include "base/map.h"
#include "target/core.h"
#include "target/target_impl.h"

enum {
	CORE_PIECES_MAX = 1 << 20,	/* mappings of one process; the kernel's own default is 65,530 */
	CORE_THREADS_MAX = 1 << 17,
	CORE_FILES_MAX = 256,		/* opened at a time; others are read from the core only */
	CORE_TRIED_MAX = 4096,		/* names that are tried */
	CORE_RANGES_MAX = 16,		/* program headers of a mapped file that are kept */
	CORE_NOTE_MAX = 64 << 20,	/* bytes of one note; the kernel itself stops at 4 MiB */
	CORE_NOTES_MAX = 1 << 21,	/* notes in all */
	CORE_SEGMENTS_MAX = 8,		/* PT_NOTE headers; kernel and gcore write one */
};

/* Memory in the core: [start, end), of which the first `held` bytes stand at `offset`. */
struct core_piece {
	gaddr_t start, end;
	uint64_t offset, held;
	uint32_t flags;		/* enum mapping_flag */
};

struct core_thread {
	pid_t tid;
	uint64_t regs_at;	/* offset of its registers in the core */
};

/* A PT_LOAD of a mapped file: with what rights these bytes of it are mapped. */
struct core_range {
	uint64_t offset, end;
	uint32_t flags;		/* enum mapping_flag */
};

/* Where notes stand in the core. */
struct core_notes {
	uint64_t at, end;
};

/* A mapped file, once for all its mappings. */
struct core_file {
	const char *path;	/* borrowed from core->paths */
	int fd;			/* owned; -1: not there, or not proved to be this file */
	uint32_t head;		/* index in mapped of its first one at file offset 0; MAP_NONE */
	uint64_t dev, inode;	/* never 0; of the open file, else numbers of our own */
	struct core_range ranges[CORE_RANGES_MAX];
	uint32_t n_ranges;
	const char *why;	/* static text: why it is not used; NULL: it is */
};

/* One line of NT_FILE. */
struct core_mapped {
	gaddr_t start, end;
	uint64_t offset;
	uint32_t file;		/* index in files */
};

struct core {
	struct target base;
	int fd;			/* owned */
	uint64_t size;		/* of the file */
	uint64_t phoff;
	uint64_t n_phdrs;
	struct core_piece *pieces;	/* sorted, without overlap */
	uint32_t n_pieces, cap_pieces;
	struct core_notes notes[CORE_SEGMENTS_MAX];
	uint32_t n_notes;
	struct core_thread *threads;
	uint32_t n_threads, cap_threads;
	struct map64 by_tid;
	struct core_mapped *mapped;	/* sorted, without overlap */
	uint32_t n_mapped, cap_mapped;
	struct core_file *files;
	uint32_t n_files, cap_files;
	char *paths;			/* owned: backing of the paths */
	size_t paths_len;
	uint32_t program;		/* index in files of the program's own; MAP_NONE: not known */
	uint64_t at_phdr, at_entry, at_vdso;	/* auxiliary vector; 0 unknown */
	struct core_facts facts;
	atomic_bool tid_asked, tid_found;
};

/* All of it from the core file, or false. */
bool core_read_file(const struct core *c, uint64_t offset, void *buf, size_t len);

/* core_head.c: `path` is for messages. */
struct error *core_read_header(struct core *c, const char *path);
struct error *core_read_pieces(struct core *c);
const struct core_piece *core_piece_at(const struct core *c, gaddr_t addr);
uint32_t core_flags_of(uint32_t p_flags);	/* PF_* as enum mapping_flag */

/* core_notes.c: all PT_NOTE segments; what cannot be read is counted and left out. */
struct error *core_read_notes(struct core *c);
const struct core_mapped *core_mapped_at(const struct core *c, gaddr_t addr);

/*
 * core_files.c: opens and proves the mapped files. `exe` stands for the program's file and must
 * be it (ERROR_USAGE otherwise); NULL: as the core names it.
 */
struct error *core_open_files(struct core *c, const char *exe);
void core_close_files(struct core *c);
/* Bytes at addr from the file that is mapped there, if they cannot have changed. Returns how many. */
size_t core_read_mapped(const struct core *c, gaddr_t addr, void *buf, size_t len);
/* core.c: bytes at addr that the core itself holds, without files. Returns how many. */
size_t core_read_held(const struct core *c, gaddr_t addr, void *buf, size_t len);

/* core_maps.c */
struct error *core_mappings(const struct target *t, struct mappings *ret);
struct error *core_mapping_fd(const struct target *t, const struct mapping *m, int *ret);

#endif
