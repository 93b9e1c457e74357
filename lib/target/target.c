/*
 * target.c: hands each call to the back end that stands behind the interface, and the few things
 * that are the same for all: whole reads, typed reads, the search in a list of mappings.
 *
 * Must not know which back ends there are. Numbers are read in the target's byte order, which is
 * the host's on every CPU goprof is built for.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/target_impl.h"

void target_close(struct target *t)
{
	if (!t)
		return;
	free(t->exe_path);
	if (t->exe_fd >= 0)
		close(t->exe_fd);
	t->ops->close(t);
}

pid_t target_pid(const struct target *t)
{
	return t->pid;
}

const struct arch *target_arch(const struct target *t)
{
	return t->arch;
}

const char *target_exe_path(const struct target *t)
{
	return t->exe_path ? t->exe_path : "";
}

struct error *target_exe_fd(const struct target *t, int *ret)
{
	if (t->exe_fd < 0)
		return &err_notfound;
	*ret = t->exe_fd;
	return NULL;
}

uint64_t target_start_time(const struct target *t)
{
	return t->start_time;
}

/* ---- memory ---- */

struct error *target_read_v(const struct target *t, struct span *v, size_t n)
{
	return t->ops->read_v(t, v, n);
}

struct error *target_read(const struct target *t, gaddr_t addr, void *buf, size_t len)
{
	struct span s = { .addr = addr, .buf = buf, .len = len };
	struct error *err = t->ops->read_v(t, &s, 1);

	if (err)
		return err;
	return s.done == len ? NULL : &err_fault;
}

struct error *target_read_u64(const struct target *t, gaddr_t addr, uint64_t *ret)
{
	uint64_t v;
	struct error *err = target_read(t, addr, &v, sizeof(v));

	if (!err)
		*ret = v;
	return err;
}

struct error *target_read_u32(const struct target *t, gaddr_t addr, uint32_t *ret)
{
	uint32_t v;
	struct error *err = target_read(t, addr, &v, sizeof(v));

	if (!err)
		*ret = v;
	return err;
}

struct error *target_mappings(const struct target *t, struct mappings *ret)
{
	return t->ops->mappings(t, ret);
}

struct error *target_mapping_fd(const struct target *t, const struct mapping *m, int *ret)
{
	return t->ops->mapping_fd ? t->ops->mapping_fd(t, m, ret) : &err_notfound;
}

void mappings_deinit(struct mappings *m)
{
	free(m->v);
	free(m->text);
	*m = (struct mappings){ 0 };
}

const void *range_find(const void *v, size_t n, size_t size, gaddr_t addr)
{
	size_t low = 0, high = n;
	gaddr_t bounds[2] = { 0 };

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		memcpy(bounds, (const uint8_t *)v + mid * size, sizeof(bounds));
		if (bounds[0] <= addr && addr < bounds[1])
			return (const uint8_t *)v + mid * size;
		if (bounds[1] <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

const struct mapping *mappings_find(const struct mappings *m, gaddr_t addr)
{
	return range_find(m->v, m->n, sizeof(*m->v), addr);
}

/* ---- life and threads ---- */

enum target_life target_life(const struct target *t)
{
	return t->ops->life(t);
}

bool target_cpu_ns(const struct target *t, uint64_t *ret)
{
	return t->ops->cpu_ns(t, ret);
}

struct error *target_tids(const struct target *t, pid_t *tids, size_t *n)
{
	return t->ops->tids(t, tids, n);
}

bool target_thread_name(const struct target *t, pid_t tid, char *buf, size_t cap)
{
	return cap && t->ops->thread_name && t->ops->thread_name(t, tid, buf, cap);
}

pid_t target_tid_from_inner(struct target *t, pid_t inner)
{
	return t->ops->tid_from_inner(t, inner);
}

char target_tid_state(const struct target *t, pid_t tid)
{
	return t->ops->tid_state(t, tid);
}

bool task_is_stopped(const struct target *t, const struct task *k)
{
	return target_tid_state(t, task_tid(k)) == 'T';
}

bool target_is_core(const struct target *t)
{
	return t->ops->thread_regs != NULL;
}

bool target_thread_regs(const struct target *t, pid_t tid, struct regs *ret)
{
	return t->ops->thread_regs && t->ops->thread_regs(t, tid, ret);
}

uint64_t target_cpu_step(const struct target *t)
{
	return t->cpu_step_ns;
}

uint64_t target_times_step(const struct target *t)
{
	return t->times_step_ns;
}

struct error *task_open(const struct target *t, pid_t tid, struct task **ret)
{
	return t->ops->task_open(t, tid, ret);
}
