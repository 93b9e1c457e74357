/*
 * target_fake.h: a target made of tables, for tests: no process, no privilege, no Go toolchain.
 * What a test does not add is not there. Out of memory ends the test.
 */
#ifndef GOPROF_TEST_TARGET_FAKE_H
#define GOPROF_TEST_TARGET_FAKE_H

#include "target/target.h"

struct error *target_fake_create(struct target **ret);	/* freed by target_close */

/* Memory at [addr, addr + len): a copy of `bytes`, or zeros when NULL. Segments do not overlap. */
void target_fake_add(struct target *t, gaddr_t addr, const void *bytes, size_t len);
/* Changes bytes that were added before; ends the test when they were not. */
void target_fake_poke(struct target *t, gaddr_t addr, const void *bytes, size_t len);
void target_fake_poke_u64(struct target *t, gaddr_t addr, uint64_t value);
/* Takes the segment that starts at addr away. */
void target_fake_remove(struct target *t, gaddr_t addr);

/*
 * A row of the mapping list (memory comes from target_fake_add alone). Kept sorted. A path that
 * begins with a slash is a file of its own; target_mapping_fd opens it if there is one.
 */
void target_fake_map(struct target *t, gaddr_t start, gaddr_t end, uint64_t offset, uint32_t flags,
		     const char *path);
/* Takes all rows of a path away. */
void target_fake_unmap(struct target *t, const char *path);

/* `inner`: the id inside the target's own pid namespace. */
void target_fake_add_tid(struct target *t, pid_t tid, pid_t inner);
void target_fake_remove_tid(struct target *t, pid_t tid);
/* What the thread's schedstat and syscall files say from now on ("1 2 3\n", "running\n"). */
void target_fake_task(struct target *t, pid_t tid, const char *schedstat, const char *call);

void target_fake_set_pid(struct target *t, pid_t pid, uint64_t start_time);
/* Opens the file for target_exe_fd and keeps the path. */
void target_fake_set_exe(struct target *t, const char *path);
void target_fake_set_life(struct target *t, enum target_life life);	/* not ALIVE: reads give err_gone */
void target_fake_set_cpu_ns(struct target *t, uint64_t ns);

/* Spans asked for so far, for tests that count reads. */
size_t target_fake_reads(const struct target *t);

/* Runs before each span is read: a test changes memory under the reader's hands. NULL: none. */
void target_fake_on_read(struct target *t, void (*f)(void *ctx, struct target *t, const struct span *s),
			 void *ctx);

#endif
