/*
 * live.h: the parts of a live process that live.c, its readers and its refusals share. Private to
 * lib/target.
 */
#ifndef GOPROF_TARGET_LIVE_H
#define GOPROF_TARGET_LIVE_H

#include <stdatomic.h>

#include "base/map.h"
#include "target/procfs.h"
#include "target/target_impl.h"

struct live {
	struct target base;
	int dir_fd;		/* /proc/PID: this process, whatever becomes of its number */
	int task_fd;		/* /proc/PID/task */
	int mem_fd;		/* its memory as it was when opened; another program's is never seen here */
	clockid_t cpu_clock;
	gaddr_t life_addr;	/* mapped when it was opened */
	atomic_bool mem_only;	/* process_vm_readv does not work: read through mem_fd */
	/* Ids in the innermost pid namespace, one entry for each thread seen. */
	bool same_ns;
	struct map64 inner_of, outer_of;
};

/* live_mem.c */
struct error *live_read_v(const struct target *t, struct span *v, size_t n);

/* live_threads.c */
struct error *live_tids(const struct target *t, pid_t *tids, size_t *n);
bool live_thread_name(const struct target *t, pid_t tid, char *buf, size_t cap);
pid_t live_tid_from_inner(struct target *t, pid_t inner);
struct error *live_task_open(const struct target *t, pid_t tid, struct task **ret);
char live_tid_state(const struct target *t, pid_t tid);

/* live_files.c */
struct error *live_mapping_fd(const struct target *t, const struct mapping *m, int *ret);

/* ---- refusal.c ---- */

/* Where goprof runs, as far as it decides what line helps. */
enum refusal_place { PLACE_HOST, PLACE_DOCKER, PLACE_KUBERNETES, PLACE_CONTAINER };

/* What decides whether the kernel lets one process look into another. */
struct refusal_facts {
	pid_t pid;			/* 0: it is about any process */
	const char *name;		/* of its program, as well as we can know it */
	uint32_t uid[3], gid[3];	/* the target's: real, effective, saved */
	uint32_t our_uid, our_gid;
	uint64_t caps, our_caps;	/* the target's permitted, our effective ones */
	int yama_scope;			/* -1: no Yama */
	bool dumpable;
	bool same_user_ns;
	enum refusal_place place;
	bool our_seccomp;		/* a filter looks at our system calls */
	pid_t our_tracer;
	char our_label[64];		/* what a security module calls us; "" none, or none that confines */
	int errnum;
};

/* The error with the one cause that was found and the line that helps against it. */
struct error *refusal_explain(const struct refusal_facts *f);
/* Gathers the facts about /proc/PID at `dir`. */
struct error *refusal_error(pid_t pid, int dir, const char *name, int errnum);
/* Why no process can be traced, not even a child of ours: adds cause and remedy to err. */
struct error *refusal_of_all(struct error *err, const struct refusal_facts *f);

/* ---- facility.c ---- */

/*
 * A child to try things on: does nothing but `run`, and ends with us. -1 with errno. Ours to kill, by
 * facility_child_end.
 */
pid_t facility_child(void (*run)(void));
void facility_child_end(pid_t pid);

/* ---- refusal_facts.c ---- */

/* What there is to know about ourselves. */
void refusal_facts_own(struct refusal_facts *ret);
/* And about the process at `dir`; false: it is gone. */
bool refusal_facts_of(pid_t pid, int dir, struct refusal_facts *ret);

#endif
