/*
 * target_fake.c: the third back end of struct target: tables that a test fills.
 *
 * It behaves like the live one where code depends on it: a read is cut at the end of what is there,
 * goes on into a segment that follows without a gap, and a process that has ended or called exec
 * gives err_gone. The two texts of a thread stand in memory files, so that the same code reads them
 * as from procfs.
 */
#include "fake/target_fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/map.h"
#include "target/target_impl.h"

enum { FAKE_TIDS = 1024 };

struct segment {
	gaddr_t addr;
	size_t len;
	uint8_t *bytes;
};

struct fake_thread {
	pid_t tid, inner;
	int schedstat_fd, syscall_fd;
};

struct fake {
	struct target base;
	struct segment *segments;	/* sorted */
	size_t n_segments;
	struct mapping *maps;
	size_t n_maps;
	struct fake_thread threads[FAKE_TIDS];
	size_t n_threads;
	enum target_life life;
	uint64_t cpu_ns;
	size_t reads;
	void (*on_read)(void *ctx, struct target *t, const struct span *s);
	void *on_read_ctx;
};

static struct fake *fake_of(const struct target *t)
{
	return (struct fake *)t;
}

static void *must(void *p)
{
	if (!p) {
		fputs("target_fake: out of memory or a wrong call\n", stderr);
		abort();
	}
	return p;
}

/* ---- operations ---- */

static void fake_close(struct target *t)
{
	struct fake *f = fake_of(t);

	for (size_t i = 0; i < f->n_segments; i++)
		free(f->segments[i].bytes);
	for (size_t i = 0; i < f->n_maps; i++)
		free((char *)f->maps[i].path);
	for (size_t i = 0; i < f->n_threads; i++) {
		close(f->threads[i].schedstat_fd);
		close(f->threads[i].syscall_fd);
	}
	free(f->segments);
	free(f->maps);
	free(f);
}

static struct segment *find_segment(const struct fake *f, gaddr_t addr)
{
	size_t low = 0, high = f->n_segments;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (f->segments[mid].addr + f->segments[mid].len <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low < f->n_segments && f->segments[low].addr <= addr ? &f->segments[low] : NULL;
}

static void read_span(struct fake *f, struct span *s)
{
	const struct segment *g;

	s->done = 0;
	if (f->on_read)
		f->on_read(f->on_read_ctx, &f->base, s);
	while (s->done < s->len && (g = find_segment(f, s->addr + s->done))) {
		size_t at = (size_t)(s->addr + s->done - g->addr), n = s->len - s->done;
		if (n > g->len - at)
			n = g->len - at;
		memcpy((uint8_t *)s->buf + s->done, g->bytes + at, n);
		s->done += n;
	}
}

static struct error *fake_read_v(const struct target *t, struct span *v, size_t n)
{
	struct fake *f = fake_of(t);

	if (f->life != TARGET_ALIVE)
		return &err_gone;
	f->reads += n;
	for (size_t i = 0; i < n; i++)
		read_span(f, &v[i]);
	return NULL;
}

static struct error *fake_mappings(const struct target *t, struct mappings *ret)
{
	struct fake *f = fake_of(t);
	size_t bytes = 1;

	if (f->life == TARGET_ENDED)
		return &err_gone;
	for (size_t i = 0; i < f->n_maps; i++)
		bytes += strlen(f->maps[i].path) + 1;
	struct mappings m = { .n = f->n_maps, .text = must(calloc(1, bytes)),
			      .v = must(calloc(f->n_maps + 1, sizeof(*m.v))) };
	char *at = m.text;
	for (size_t i = 0; i < f->n_maps; i++) {
		m.v[i] = f->maps[i];
		m.v[i].path = strcpy(at, f->maps[i].path);
		at += strlen(at) + 1;
	}
	*ret = m;
	return NULL;
}

static struct error *fake_tids(const struct target *t, pid_t *tids, size_t *n)
{
	const struct fake *f = fake_of(t);

	if (!f->n_threads || f->life == TARGET_ENDED)
		return &err_gone;
	for (size_t i = 0; i < f->n_threads && i < *n; i++)
		tids[i] = f->threads[i].tid;
	*n = f->n_threads;
	return NULL;
}

static struct fake_thread *find_thread(const struct target *t, pid_t tid)
{
	struct fake *f = fake_of(t);

	for (size_t i = 0; i < f->n_threads; i++)
		if (f->threads[i].tid == tid)
			return &f->threads[i];
	return NULL;
}

static pid_t fake_tid_from_inner(struct target *t, pid_t inner)
{
	const struct fake *f = fake_of(t);

	for (size_t i = 0; i < f->n_threads; i++)
		if (f->threads[i].inner == inner)
			return f->threads[i].tid;
	return -1;
}

static enum target_life fake_life(const struct target *t)
{
	return fake_of(t)->life;
}

static bool fake_cpu_ns(const struct target *t, uint64_t *ret)
{
	if (fake_of(t)->life == TARGET_ENDED)
		return false;
	*ret = fake_of(t)->cpu_ns;
	return true;
}

static struct error *fake_task_open(const struct target *t, pid_t tid, struct task **ret)
{
	const struct fake_thread *th = find_thread(t, tid);

	if (!th)
		return &err_gone;
	return task_create(tid, fcntl(th->schedstat_fd, F_DUPFD_CLOEXEC, 0),
			   fcntl(th->syscall_fd, F_DUPFD_CLOEXEC, 0), ret);
}

static char fake_tid_state(const struct target *t, pid_t tid)
{
	return find_thread(t, tid) ? 'S' : 0;
}

static struct error *fake_mapping_fd(const struct target *t, const struct mapping *m, int *ret)
{
	int fd = m->inode ? open(m->path, O_RDONLY | O_CLOEXEC) : -1;

	(void)t;
	if (fd < 0)
		return &err_notfound;
	*ret = fd;
	return NULL;
}

static const struct target_ops fake_ops = {
	.close = fake_close,
	.read_v = fake_read_v,
	.mappings = fake_mappings,
	.tids = fake_tids,
	.tid_from_inner = fake_tid_from_inner,
	.life = fake_life,
	.cpu_ns = fake_cpu_ns,
	.task_open = fake_task_open,
	.tid_state = fake_tid_state,
	.mapping_fd = fake_mapping_fd,
};

/* ---- building ---- */

struct error *target_fake_create(struct target **ret)
{
	struct fake *f = must(calloc(1, sizeof(*f)));

	f->base = (struct target){ .ops = &fake_ops, .arch = arch_host(), .exe_fd = -1 };
	*ret = &f->base;
	return NULL;
}

static int by_address(const void *a, const void *b)
{
	const struct segment *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

void target_fake_add(struct target *t, gaddr_t addr, const void *bytes, size_t len)
{
	struct fake *f = fake_of(t);
	struct segment g = { addr, len, must(calloc(1, len + 1)) };

	if (bytes)
		memcpy(g.bytes, bytes, len);
	f->segments = must(realloc(f->segments, (f->n_segments + 1) * sizeof(g)));
	f->segments[f->n_segments++] = g;
	qsort(f->segments, f->n_segments, sizeof(g), by_address);
}

void target_fake_poke(struct target *t, gaddr_t addr, const void *bytes, size_t len)
{
	struct segment *g = must(find_segment(fake_of(t), addr));

	must(len <= g->addr + g->len - addr ? g : NULL);
	memcpy(g->bytes + (addr - g->addr), bytes, len);
}

void target_fake_poke_u64(struct target *t, gaddr_t addr, uint64_t value)
{
	target_fake_poke(t, addr, &value, sizeof(value));
}

void target_fake_remove(struct target *t, gaddr_t addr)
{
	struct fake *f = fake_of(t);
	struct segment *g = must(find_segment(f, addr));

	free(g->bytes);
	memmove(g, g + 1, (size_t)(f->segments + --f->n_segments - g) * sizeof(*g));
}

static int by_start(const void *a, const void *b)
{
	const struct mapping *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

void target_fake_map(struct target *t, gaddr_t start, gaddr_t end, uint64_t offset, uint32_t flags,
		     const char *path)
{
	struct fake *f = fake_of(t);

	f->maps = must(realloc(f->maps, (f->n_maps + 1) * sizeof(*f->maps)));
	f->maps[f->n_maps++] = (struct mapping){ .start = start, .end = end, .offset = offset,
						 .flags = flags, .path = must(strdup(path)) };
	if (path[0] == '/') {
		f->maps[f->n_maps - 1].dev = 1;
		f->maps[f->n_maps - 1].inode = hash_bytes(path, strlen(path)) | 1;
	}
	qsort(f->maps, f->n_maps, sizeof(*f->maps), by_start);
}

void target_fake_unmap(struct target *t, const char *path)
{
	struct fake *f = fake_of(t);
	size_t kept = 0;

	for (size_t i = 0; i < f->n_maps; i++) {
		if (strcmp(f->maps[i].path, path) == 0)
			free((char *)f->maps[i].path);
		else
			f->maps[kept++] = f->maps[i];
	}
	f->n_maps = kept;
}

static int text_file(void)
{
	int fd = memfd_create("fake", MFD_CLOEXEC);

	must(fd >= 0 ? &fd : NULL);
	return fd;
}

void target_fake_add_tid(struct target *t, pid_t tid, pid_t inner)
{
	struct fake *f = fake_of(t);

	must(f->n_threads < FAKE_TIDS ? f : NULL);
	f->threads[f->n_threads++] = (struct fake_thread){ tid, inner, text_file(), text_file() };
	target_fake_task(t, tid, "0 0 0\n", "running\n");
}

static void set_text(int fd, const char *text)
{
	size_t n = text ? strlen(text) : 0;

	must(ftruncate(fd, 0) == 0 && (!n || pwrite(fd, text, n, 0) == (ssize_t)n) ? &fd : NULL);
}

void target_fake_task(struct target *t, pid_t tid, const char *schedstat, const char *call)
{
	struct fake_thread *th = must(find_thread(t, tid));

	set_text(th->schedstat_fd, schedstat);
	set_text(th->syscall_fd, call);
}

void target_fake_remove_tid(struct target *t, pid_t tid)
{
	struct fake *f = fake_of(t);
	struct fake_thread *th = must(find_thread(t, tid));

	target_fake_task(t, tid, NULL, NULL);	/* held tasks read nothing from now on: gone */
	close(th->schedstat_fd);
	close(th->syscall_fd);
	*th = f->threads[--f->n_threads];
}

void target_fake_set_pid(struct target *t, pid_t pid, uint64_t start_time)
{
	t->pid = pid;
	t->start_time = start_time;
}

void target_fake_set_exe(struct target *t, const char *path)
{
	if (t->exe_fd >= 0)
		close(t->exe_fd);
	free(t->exe_path);
	t->exe_path = must(strdup(path));
	t->exe_fd = open(path, O_RDONLY | O_CLOEXEC);
}

void target_fake_set_life(struct target *t, enum target_life life)
{
	fake_of(t)->life = life;
}

void target_fake_set_cpu_ns(struct target *t, uint64_t ns)
{
	fake_of(t)->cpu_ns = ns;
}

size_t target_fake_reads(const struct target *t)
{
	return fake_of(t)->reads;
}

void target_fake_on_read(struct target *t, void (*f)(void *ctx, struct target *t, const struct span *s),
			 void *ctx)
{
	fake_of(t)->on_read = f;
	fake_of(t)->on_read_ctx = ctx;
}
