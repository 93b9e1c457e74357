/*
 * target.h: a process, a core file or a table in memory, behind one interface.
 *
 * Memory read here is *live* memory: writable data, g structs, stacks. The bytes of a program's
 * file (pclntab, rodata) come from image.h: reading them here would map them into the target and
 * inflate its resident set.
 *
 * Thread safety: target_read*, target_life, target_cpu_ns and the task_ functions may be called
 * from any thread. The rest belongs to the thread that opened the target.
 */
#ifndef GOPROF_TARGET_TARGET_H
#define GOPROF_TARGET_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "target/arch.h"

struct target;

/*
 * A live process. ERROR_NO_PROCESS, ERROR_DENIED (with the cause that was found: other user, Yama,
 * missing capability, ...), ERROR_TRACED (with the tracer's pid), ERROR_FACILITY.
 * Nothing in the target is touched, nothing is stopped.
 */
struct error *target_open_live(pid_t pid, struct target **ret);
void target_close(struct target *t);	/* NULL is fine */

/*
 * A core file, by the kernel or gcore(1). Its own descriptor is kept. ERROR_NO_PROCESS: there is no
 * such file; ERROR_DENIED; ERROR_NOT_FOUND: no core file; ERROR_UNSUPPORTED: another CPU;
 * ERROR_CORRUPT. `exe` names the program's file and may be NULL: then the one that the core names
 * (NT_FILE) is taken. Either is believed only if its build id or its first bytes are those in the
 * core: a wrong `exe` is ERROR_USAGE, a wrong or missing file that the core names leaves the target
 * without one (core.h tells why). What is cut off or damaged is left out and counted there.
 */
struct error *target_open_core(const char *path, const char *exe, struct target **ret);
/* Did this target come from a core file? Nothing in it moves, no thread can be captured. */
bool target_is_core(const struct target *t);

pid_t target_pid(const struct target *t);	/* 0 when there is none */
const struct arch *target_arch(const struct target *t);
/* The program's file as /proc names it, for people only; never opened by this name. Borrowed. */
const char *target_exe_path(const struct target *t);
/* The program's file, opened through /proc/PID/exe. Borrowed; ERROR_NOT_FOUND when there is none. */
struct error *target_exe_fd(const struct target *t, int *ret);
/* Start time in clock ticks since boot (/proc/PID/stat field 22): with the pid it names a process. */
uint64_t target_start_time(const struct target *t);

/* ---- memory ---- */

struct span {
	gaddr_t addr;
	void *buf;
	size_t len;
	size_t done;	/* out: bytes read, from the front; less than len is normal, not an error */
};

/*
 * Reads all spans with as few system calls as it takes. NULL even when single spans are short
 * (look at `done`); &err_gone when the process is no more. Spans are read in order, so a caller
 * may rely on an earlier span being older than a later one. Allocates nothing.
 */
struct error *target_read_v(const struct target *t, struct span *v, size_t n);
/* All of it, or &err_fault / &err_gone. */
struct error *target_read(const struct target *t, gaddr_t addr, void *buf, size_t len);
struct error *target_read_u64(const struct target *t, gaddr_t addr, uint64_t *ret);
struct error *target_read_u32(const struct target *t, gaddr_t addr, uint32_t *ret);

enum mapping_flag { MAPPING_READ = 1, MAPPING_WRITE = 2, MAPPING_EXEC = 4 };

struct mapping {
	gaddr_t start, end;
	uint64_t offset;	/* in the file */
	uint64_t dev, inode;	/* 0 for anonymous memory */
	uint32_t flags;
	const char *path;	/* "" when it has none; owned by the list */
};

struct mappings {
	struct mapping *v;
	size_t n;
	char *text;		/* backing of the paths */
};

/* Sorted by address. Free with mappings_deinit. */
struct error *target_mappings(const struct target *t, struct mappings *ret);
void mappings_deinit(struct mappings *m);
const struct mapping *mappings_find(const struct mappings *m, gaddr_t addr);
/*
 * The file behind a mapping, opened (the caller closes it): the very file that is mapped, by
 * device and inode, never another that has its name by now. ERROR_NOT_FOUND when it cannot be had
 * (anonymous, deleted and no permission for map_files, ...): then read it from memory.
 */
struct error *target_mapping_fd(const struct target *t, const struct mapping *m, int *ret);

/* ---- life ---- */

enum target_life {
	TARGET_ALIVE,
	TARGET_EXECED,	/* same pid, another program: everything known about memory is void */
	TARGET_ENDED,
};

/* Costs half a microsecond (one read through the held memory descriptor); call it at each tick. */
enum target_life target_life(const struct target *t);

enum target_standstill {
	TARGET_MOVES,
	TARGET_STOPPED,		/* by a signal (SIGSTOP, Ctrl-Z) */
	TARGET_FROZEN,		/* its cgroup is frozen */
};

/* Of a live process, for words. */
enum target_standstill target_standstill(const struct target *t);

/*
 * The steps in which target_cpu_ns moves for a thread that goes on running, in ns: the kernel's scheduler
 * tick, or UINT64_MAX where there are CPUs that have none. 0: it is exact.
 */
uint64_t target_cpu_step(const struct target *t);
/* CPU time of the whole process, all threads, also ended ones, in ns. False when it is gone. */
bool target_cpu_ns(const struct target *t, uint64_t *ret);

/* ---- threads ---- */

/*
 * The thread ids at this moment, in goprof's pid namespace, unordered. *n is in: capacity of
 * tids, out: how many there are (may exceed the capacity: call again with more room).
 */
struct error *target_tids(const struct target *t, pid_t *tids, size_t *n);
/*
 * The thread whose id *inside the target's own pid namespace* is `inner` (what the Go runtime
 * keeps in m.procid); -1 when there is none. Cached.
 */
pid_t target_tid_from_inner(struct target *t, pid_t inner);

/*
 * The registers that stand in a core file. False for a thread of a live process: those are had
 * by tracer_capture only.
 */
bool target_thread_regs(const struct target *t, pid_t tid, struct regs *ret);

/* What a thread calls itself (/proc/PID/task/TID/comm), without a line end. False: unknown. */
bool target_thread_name(const struct target *t, pid_t tid, char *buf, size_t cap);

/* /proc/PID/task/TID/schedstat */
struct task_times {
	uint64_t cpu_ns;	/* time on a CPU */
	uint64_t wait_ns;	/* time runnable but waiting for one */
	uint64_t slices;	/* times it was put on one */
};

enum task_state {
	TASK_RUNNING,		/* on a CPU or waiting for one: the kernel does not tell which */
	TASK_BLOCKED,		/* in a system call, off the CPU */
	TASK_GONE,
};

struct task_syscall {
	int64_t nr;		/* -1: blocked outside a system call (page fault) */
	gaddr_t sp, pc;
};

/* One thread with its /proc files held open. */
struct task;

struct error *task_open(const struct target *t, pid_t tid, struct task **ret);	/* &err_gone */
void task_close(struct task *k);
pid_t task_tid(const struct task *k);
bool task_read_times(const struct task *k, struct task_times *ret);	/* false: gone */
/*
 * The steps in which cpu_ns moves when the kernel keeps no scheduler statistics: a clock tick; wait_ns
 * and slices are 0 then. 0: it is exact.
 */
uint64_t target_times_step(const struct target *t);
enum task_state task_read_syscall(const struct task *k, struct task_syscall *ret);
/*
 * Is it stopped by a signal? Then it is in no system call any more, whatever task_read_syscall says: a
 * thread stops on its way out of one.
 */
bool task_is_stopped(const struct target *t, const struct task *k);

#endif
