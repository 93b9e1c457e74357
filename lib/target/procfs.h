/*
 * procfs.h: the texts of /proc that goprof reads, as structs. Private to lib/target.
 *
 * The parsers take bytes and know no process, so that tests can feed them anything; a text that
 * does not have the documented form gives false, never half a result. Upstream text: the
 * kernel's Documentation/filesystems/proc.rst and fs/proc/{array,base,task_mmu}.c.
 */
#ifndef GOPROF_TARGET_PROCFS_H
#define GOPROF_TARGET_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "target/target.h"

/* ---- words and numbers ---- */

/* What is left of a text. */
struct text {
	const char *p, *end;
};

/* Each skips blanks before it; false when no such number is there or it does not fit 64 bits. */
bool text_dec(struct text *t, uint64_t *ret);
bool text_sdec(struct text *t, int64_t *ret);
bool text_hex(struct text *t, uint64_t *ret);	/* with or without 0x */
bool text_char(struct text *t, char c);		/* exactly this one, without skipping blanks */
/* The next line without its newline; false at the end. */
bool text_line(struct text *t, struct text *line);

/* ---- files ---- */

enum { PROCFS_SMALL = 4096 };	/* holds every file that procfs_read is used for */

/* Reads dir/name whole into buf and ends it with NUL. Bytes read, or -errno. */
ssize_t procfs_read(int dir, const char *name, char *buf, size_t cap);
/* A file of any size, up to `limit` bytes. 0 or -errno. */
int procfs_read_all(int dir, const char *name, size_t limit, struct buf *ret);

/* /proc/PID/stat */
struct procfs_stat {
	char state;
	uint64_t flags;		/* PF_* of the kernel */
	uint64_t threads;
	uint64_t cpu_ticks;	/* user and system time, in clock ticks */
	uint64_t start_time;	/* clock ticks since boot */
	uint64_t vsize;		/* 0: it has no memory (any more) */
};

enum {
	PROCFS_PF_KTHREAD = 0x00200000,
	PROCFS_TICK_NS = 10 * 1000 * 1000,	/* a clock tick of /proc: USER_HZ is 100 on every CPU we know */
};

bool procfs_parse_stat(const char *s, size_t len, struct procfs_stat *ret);
bool procfs_stat_at(int dir, const char *name, struct procfs_stat *ret);

/* /proc/PID/status; all fields that were not there are 0. */
struct procfs_status {
	char name[32];
	pid_t tgid, tracer;
	uint32_t uid[4], gid[4];	/* real, effective, saved, file system */
	uint64_t cap_permitted, cap_effective;
	uint32_t ns_depth;	/* 1: it lives in our pid namespace */
	pid_t ns_inner;		/* its id in its innermost pid namespace */
	uint32_t seccomp;	/* 2: a filter looks at its system calls */
};

bool procfs_parse_status(const char *s, size_t len, struct procfs_status *ret);
bool procfs_status_at(int dir, const char *name, struct procfs_status *ret);

/*
 * /proc/PID/task/TID/schedstat, or its stat: then cpu_ns moves in steps of a clock tick, and the
 * others are 0. And the file syscall.
 */
bool procfs_parse_times(const char *s, size_t len, struct task_times *ret);
enum task_state procfs_parse_syscall(const char *s, size_t len, struct task_syscall *ret);

/*
 * /proc/PID/maps: `len` bytes and a NUL behind them, from malloc. Takes the text always: it becomes
 * the backing of the paths, or is freed on failure.
 */
struct error *procfs_parse_maps(char *s, size_t len, struct mappings *ret);

#endif
