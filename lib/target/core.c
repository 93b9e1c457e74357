/*
 * core.c: a core file as a target: what a process was when it was written, and nothing moves.
 *
 * Memory is the core's where it holds it, else the mapped file's where that is certain, else it is
 * unknown and the read is short. A core that was cut off gives what is there; how much is missing
 * is told (target_core_facts).
 *
 * Threads bear the numbers that the process itself saw when the kernel or a gcore(1) of its own
 * pid namespace wrote the core. From outside they are others, and no thread is found then.
 *
 * Upstream: core(5), elf(5), Linux fs/binfmt_elf.c and fs/coredump.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "target/core_impl.h"

static struct core *core_of(const struct target *t)
{
	return (struct core *)t;
}

static void core_close(struct target *t)
{
	struct core *c = core_of(t);

	core_close_files(c);
	map64_deinit(&c->by_tid);
	free(c->pieces);
	free(c->threads);
	free(c->mapped);
	free(c->paths);
	if (c->fd >= 0)
		close(c->fd);
	free(c);
}

/* ---- memory ---- */

size_t core_read_held(const struct core *c, gaddr_t addr, void *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		const struct core_piece *p = core_piece_at(c, addr + done);
		uint64_t within = p ? addr + done - p->start : 0, n = len - done;
		ssize_t r;

		if (!p || within >= p->held)
			break;
		if (n > p->held - within)
			n = p->held - within;
		if (p->offset + within > INT64_MAX)
			break;
		r = pread(c->fd, (uint8_t *)buf + done, n, (off_t)(p->offset + within));
		if (r <= 0)
			break;
		done += (size_t)r;
	}
	return done;
}

/* From a file, but never beyond the place where the core holds memory again. */
static size_t read_not_held(const struct core *c, gaddr_t addr, void *buf, size_t len)
{
	const struct core_piece *p = core_piece_at(c, addr);
	uint32_t low = 0, high = c->n_pieces;

	if (p && (p->flags & MAPPING_WRITE || addr - p->start < p->held))
		return 0;
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (c->pieces[mid].start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low < c->n_pieces && c->pieces[low].start - addr < len)
		len = c->pieces[low].start - addr;
	return core_read_mapped(c, addr, buf, len);
}

static void read_span(const struct core *c, struct span *s)
{
	s->done = 0;
	while (s->done < s->len) {
		void *buf = (uint8_t *)s->buf + s->done;
		size_t n = core_read_held(c, s->addr + s->done, buf, s->len - s->done);

		if (!n)
			n = read_not_held(c, s->addr + s->done, buf, s->len - s->done);
		if (!n)
			break;
		s->done += n;
	}
}

static struct error *core_read_v(const struct target *t, struct span *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		read_span(core_of(t), &v[i]);
	return NULL;
}

/* ---- life and threads ---- */

static enum target_life core_life(const struct target *t)
{
	(void)t;
	return TARGET_ALIVE;
}

static bool core_cpu_ns(const struct target *t, uint64_t *ret)
{
	(void)t;
	(void)ret;
	return false;
}

static struct error *core_tids(const struct target *t, pid_t *tids, size_t *n)
{
	const struct core *c = core_of(t);

	for (uint32_t i = 0; i < c->n_threads && i < *n; i++)
		tids[i] = c->threads[i].tid;
	*n = c->n_threads;
	return NULL;
}

static const struct core_thread *find_thread(const struct core *c, pid_t tid)
{
	uint32_t i = tid > 0 ? map64_get(&c->by_tid, (uint64_t)tid) : MAP_NONE;

	return i == MAP_NONE ? NULL : &c->threads[i];
}

static pid_t core_tid_from_inner(struct target *t, pid_t inner)
{
	struct core *c = core_of(t);
	bool found = find_thread(c, inner) != NULL;

	atomic_store_explicit(&c->tid_asked, true, memory_order_relaxed);
	if (found)
		atomic_store_explicit(&c->tid_found, true, memory_order_relaxed);
	return found ? inner : -1;
}

/* There are no clocks and no files of threads in a core. */
static struct error *core_task_open(const struct target *t, pid_t tid, struct task **ret)
{
	(void)t;
	(void)tid;
	(void)ret;
	return &err_gone;
}

static char core_tid_state(const struct target *t, pid_t tid)
{
	return find_thread(core_of(t), tid) ? 't' : 0;
}

static bool core_thread_regs(const struct target *t, pid_t tid, struct regs *ret)
{
	const struct core *c = core_of(t);
	const struct core_thread *th = find_thread(c, tid);
	struct regs r = { .raw_len = sizeof(elf_gregset_t) };

	_Static_assert(sizeof(elf_gregset_t) <= REGS_RAW_MAX, "room for a register set");
	if (!th || !core_read_file(c, th->regs_at, r.raw, r.raw_len) || !c->base.arch->regs_parse(&r))
		return false;
	*ret = r;
	return true;
}

static const struct target_ops core_ops = {
	.close = core_close,
	.read_v = core_read_v,
	.mappings = core_mappings,
	.tids = core_tids,
	.tid_from_inner = core_tid_from_inner,
	.life = core_life,
	.cpu_ns = core_cpu_ns,
	.task_open = core_task_open,
	.tid_state = core_tid_state,
	.mapping_fd = core_mapping_fd,
	.thread_regs = core_thread_regs,
};

bool target_core_facts(const struct target *t, struct core_facts *ret)
{
	struct core *c = core_of(t);

	if (t->ops != &core_ops)
		return false;
	*ret = c->facts;
	ret->threads = c->n_threads;
	ret->foreign_tids = atomic_load_explicit(&c->tid_asked, memory_order_relaxed) &&
			    !atomic_load_explicit(&c->tid_found, memory_order_relaxed);
	return true;
}

/* ---- opening ---- */

static struct error *cannot_open(const char *path, int number)
{
	if (number == ENOENT || number == ENOTDIR)
		return error_new(ERROR_NO_PROCESS, "there is no file %s", path);
	return error_new(number == EACCES || number == EPERM ? ERROR_DENIED : ERROR_NO_PROCESS,
			 "cannot read %s: %s", path, strerror(number));
}

static struct error *open_core_file(const char *path, int *ret, uint64_t *size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return cannot_open(path, errno);
	if (!S_ISREG(st.st_mode))
		return error_why(error_new(ERROR_NOT_FOUND, "%s is not a core file", path),
				 S_ISDIR(st.st_mode) ? "it is a directory" : "it is not a regular file");
	*size = (uint64_t)st.st_size;
	*ret = take_fd(fd);
	return NULL;
}

static void core_guard(struct core **c)
{
	if (*c)
		target_close(&(*c)->base);
}

struct error *target_open_core(const char *path, const char *exe, struct target **ret)
{
	_cleanup_(core_guard) struct core *c = calloc(1, sizeof(*c));
	struct error *err;

	if (!c)
		return &err_nomem;
	c->base = (struct target){ .ops = &core_ops, .arch = arch_host(), .exe_fd = -1 };
	c->fd = -1;
	map64_init(&c->by_tid);
	err = open_core_file(path, &c->fd, &c->size);
	if (!err)
		err = core_read_header(c, path);
	if (!err)
		err = core_read_pieces(c);
	if (!err)
		err = core_read_notes(c);
	if (err)
		return err;
	if (!c->base.pid && c->n_threads)
		c->base.pid = c->threads[0].tid;
	err = core_open_files(c, exe);
	if (err)
		return err;
	*ret = &take(c)->base;
	return NULL;
}
