/*
 * maker.h: what the files of the maker of cores share.
 *
 *	maker.c         stops the process, looks where its threads are, has the core written
 *	maker_notes.c   the target that notes what is read of the process and of its file
 *	maker_write.c   the files
 */
#ifndef GOPROF_TEST_MAKER_H
#define GOPROF_TEST_MAKER_H

#include <sys/types.h>

#include "base/buf.h"
#include "target/target_impl.h"

enum { THREADS_MAX = 512 };

struct range {
	uint64_t start, end;
};

struct ranges {
	struct range *v;
	size_t n, cap;
};

struct stopped {
	pid_t tid;
	int signal;		/* met on the way; handed on at the end */
	struct regs regs;
};

/* One process, one program: the tool's only state. */
struct maker {
	struct target base;	/* the noting target */
	struct target *live;
	pid_t pid;
	struct stopped threads[THREADS_MAX];
	size_t n_threads;
	bool noting;		/* reads are noted */
	int searching;		/* depth of calls that search the file */
	dev_t dev;
	ino_t inode;
	struct ranges memory, file;
	uint64_t grain;
};

extern struct maker maker;

/* maker.c: both end the tool; the kernel then detaches what is stopped. */
void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
void check(struct error *err, const char *doing);
void *must(void *p);

/* maker_notes.c */
extern const struct target_ops noting_ops;
void note(struct ranges *r, uint64_t start, uint64_t len);
/* Sorted, rounded to whole grains, joined where they touch. */
void settle(struct ranges *r, uint64_t grain);
bool thread_is_known(pid_t tid);

/* maker_write.c: OUT.core while the process stands, OUT.exe, and OUT with a suffix. */
void write_core(const char *out);
void write_exe(const char *out);
void write_text(const char *out, const char *suffix, const struct buf *b);

#endif
