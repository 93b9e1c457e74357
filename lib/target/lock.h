/*
 * lock.h: one recording of a process at a time. Two that stop the same threads would each see half
 * of the stops; so the second one is refused, with the first one's pid.
 *
 * It binds the goprofs of one user: the place of the lock can be written by that user alone, so that
 * nobody else can hold it and lock others out. Between users nothing is excluded; ptrace itself then
 * lets only one of them in at a time, and the ticks that the other loses are counted. dump, info and
 * top do not lock: they look for a moment and try again where they are in the way.
 */
#ifndef GOPROF_TARGET_LOCK_H
#define GOPROF_TARGET_LOCK_H

#include "base/error.h"
#include "target/target.h"

struct target_lock;

/*
 * Takes the lock of this live process for as long as it is not freed (or goprof lives: the kernel lets go
 * of it at any death). ERROR_TRACED names who has it. Where there is no safe place for a lock,
 * *ret is NULL and nothing is excluded: a lock that cannot be had is no reason to refuse.
 * `runtime_dir` is $XDG_RUNTIME_DIR; NULL none.
 */
struct error *target_lock_take(const struct target *t, const char *runtime_dir, struct target_lock **ret);
void target_lock_free(struct target_lock *l);	/* NULL is fine */

/* For tests: the same with a folder of their own and a name. */
struct error *lock_take_in(const char *folder, const char *name, pid_t pid, struct target_lock **ret);

#endif
