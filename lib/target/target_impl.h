/*
 * target_impl.h: what a back end of struct target fills in. Back ends: live.c, core.c,
 * test/fake/target_fake.c. Besides them only the tracer includes this, for target_tid_state.
 */
#ifndef GOPROF_TARGET_TARGET_IMPL_H
#define GOPROF_TARGET_TARGET_IMPL_H

#include "target/target.h"

struct target_ops {
	/* Frees the back end and `t` itself; the shared members are already released. */
	void (*close)(struct target *t);
	struct error *(*read_v)(const struct target *t, struct span *v, size_t n);
	struct error *(*mappings)(const struct target *t, struct mappings *ret);
	struct error *(*tids)(const struct target *t, pid_t *tids, size_t *n);
	pid_t (*tid_from_inner)(struct target *t, pid_t inner);
	enum target_life (*life)(const struct target *t);
	bool (*cpu_ns)(const struct target *t, uint64_t *ret);
	struct error *(*task_open)(const struct target *t, pid_t tid, struct task **ret);
	/* The letter of /proc/PID/task/TID/stat; 0 when the process has no such thread. */
	char (*tid_state)(const struct target *t, pid_t tid);
	/* NULL: it never has a file for a mapping. */
	struct error *(*mapping_fd)(const struct target *t, const struct mapping *m, int *ret);
	/* NULL: threads are captured, not read (a live process). */
	bool (*thread_regs)(const struct target *t, pid_t tid, struct regs *ret);
	/* NULL: threads have no names. */
	bool (*thread_name)(const struct target *t, pid_t tid, char *buf, size_t cap);
};

/* Back ends embed this as their first member. */
struct target {
	const struct target_ops *ops;
	const struct arch *arch;
	pid_t pid;
	uint64_t start_time;
	char *exe_path;		/* owned */
	int exe_fd;		/* owned; -1 when there is none */
	uint64_t times_step_ns;	/* 0: task_read_times is exact */
	uint64_t cpu_step_ns;	/* as target_cpu_step */
};

/* One thread; a back end without procfs puts the two texts into memory files. */
struct task {
	pid_t tid;
	int times_fd, syscall_fd;	/* owned; the first is a schedstat or a stat */
};

/* Takes both descriptors, also on failure. */
struct error *task_create(pid_t tid, int times_fd, int syscall_fd, struct task **ret);

/*
 * The one of n sorted ranges, none overlapping, that holds addr; NULL: none does. An element of `size`
 * bytes begins with its bounds: gaddr_t start, end.
 */
const void *range_find(const void *v, size_t n, size_t size, gaddr_t addr);

char target_tid_state(const struct target *t, pid_t tid);

#endif
