/*
 * maker.c: makes a small core file of a live Go process, for tests: only what goprof reads.
 *
 *	maker [--at NAME[,NAME...]] [--grain BYTES] PID OUT
 *
 * All threads are stopped by ptrace while goprof's own code takes a snapshot over a target that
 * notes what is read: memory of the process, and bytes of its file. Written are
 *
 *	OUT.core	what was read of memory, in pages, with the threads' registers
 *	OUT.exe		what was read of the file, at its offsets; the rest is zero
 *	OUT.stacks.txt	the dump      OUT.frames.txt	all frames of what ran
 *
 * With --at the process is stopped again and again until one goroutine that runs has functions of
 * these names on its stack, leaf first. At last the core is opened as anybody would and must give the
 * same texts.
 *
 * A tool of the tests: it stops the process for milliseconds, which goprof itself never does.
 * Linked with --wrap (see the Makefile): reads of the file are noted where lib/image asks its
 * cache for them. Searches through the whole file are not noted, only what they found.
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cores/core_text.h"
#include "go/pclntab_impl.h"
#include "image/image_impl.h"
#include "target/target_impl.h"

enum {
	THREADS_MAX = 512, NAMES_MAX = 8, TRIES = 4000, BETWEEN_US = 700,
	GRAIN = 4096, PROGRAM_HEAD = 4096,
};

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("maker: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);	/* the kernel detaches what is stopped */
}

static void *must(void *p)
{
	if (!p)
		die("out of memory");
	return p;
}

static void check(struct error *err, const char *doing)
{
	if (err)
		die("%s: %s%s%s", doing, err->what, err->why ? ": " : "", err->why ? err->why : "");
}

/* ---- what was read ---- */

struct range {
	uint64_t start, end;
};

struct ranges {
	struct range *v;
	size_t n, cap;
};

static void note(struct ranges *r, uint64_t start, uint64_t len)
{
	if (!len)
		return;
	if (r->n == r->cap) {
		r->cap = r->cap ? 2 * r->cap : 1024;
		r->v = must(realloc(r->v, r->cap * sizeof(*r->v)));
	}
	r->v[r->n++] = (struct range){ start, start + len };
}

static int by_start(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Sorted, rounded to whole grains, joined where they touch. */
static void settle(struct ranges *r, uint64_t grain)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n; i++) {
		r->v[i].start -= r->v[i].start % grain;
		r->v[i].end += (grain - r->v[i].end % grain) % grain;
	}
	qsort(r->v, r->n, sizeof(*r->v), by_start);
	for (size_t i = 0; i < r->n; i++) {
		if (kept && r->v[i].start <= r->v[kept - 1].end) {
			if (r->v[i].end > r->v[kept - 1].end)
				r->v[kept - 1].end = r->v[i].end;
		} else {
			r->v[kept++] = r->v[i];
		}
	}
	r->n = kept;
}

/* ---- the process, and the target that notes ---- */

struct stopped {
	pid_t tid;
	int signal;		/* met on the way; handed on at the end */
	struct regs regs;
};

static struct maker {
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
} maker;

static struct error *noting_read_v(const struct target *t, struct span *v, size_t n)
{
	struct error *err = target_read_v(maker.live, v, n);

	(void)t;
	for (size_t i = 0; i < n && !err && maker.noting; i++)
		note(&maker.memory, v[i].addr, v[i].done);
	return err;
}

static struct error *noting_mappings(const struct target *t, struct mappings *ret)
{
	(void)t;
	return target_mappings(maker.live, ret);
}

static struct error *noting_tids(const struct target *t, pid_t *tids, size_t *n)
{
	(void)t;
	for (size_t i = 0; i < maker.n_threads && i < *n; i++)
		tids[i] = maker.threads[i].tid;
	*n = maker.n_threads;
	return NULL;
}

static pid_t noting_tid_from_inner(struct target *t, pid_t inner)
{
	(void)t;
	for (size_t i = 0; i < maker.n_threads; i++)
		if (maker.threads[i].tid == inner)
			return inner;
	return -1;
}

static enum target_life noting_life(const struct target *t)
{
	(void)t;
	return TARGET_ALIVE;
}

static bool noting_cpu_ns(const struct target *t, uint64_t *ret)
{
	(void)t;
	(void)ret;
	return false;
}

static struct error *noting_task_open(const struct target *t, pid_t tid, struct task **ret)
{
	(void)t;
	(void)tid;
	(void)ret;
	return &err_gone;
}

static char noting_tid_state(const struct target *t, pid_t tid)
{
	return noting_tid_from_inner((struct target *)t, tid) > 0 ? 't' : 0;
}

static bool noting_regs(const struct target *t, pid_t tid, struct regs *ret)
{
	(void)t;
	for (size_t i = 0; i < maker.n_threads; i++) {
		if (maker.threads[i].tid != tid)
			continue;
		*ret = maker.threads[i].regs;
		return true;
	}
	return false;
}

static void noting_close(struct target *t)
{
	(void)t;
}

static const struct target_ops noting_ops = {
	.close = noting_close, .read_v = noting_read_v, .mappings = noting_mappings, .tids = noting_tids,
	.tid_from_inner = noting_tid_from_inner, .life = noting_life, .cpu_ns = noting_cpu_ns,
	.task_open = noting_task_open, .tid_state = noting_tid_state, .thread_regs = noting_regs,
};

/* ---- reads of the file ---- */

size_t __real_block_cache_read(struct block_cache *c, uint64_t offset, void *buf, size_t len);
size_t __wrap_block_cache_read(struct block_cache *c, uint64_t offset, void *buf, size_t len);

size_t __wrap_block_cache_read(struct block_cache *c, uint64_t offset, void *buf, size_t len)
{
	size_t n = __real_block_cache_read(c, offset, buf, len);
	struct stat st;

	if (maker.noting && !maker.searching && fstat(c->fd, &st) == 0 && st.st_dev == maker.dev &&
	    st.st_ino == maker.inode)
		note(&maker.file, offset, n);
	return n;
}

struct error *__real_image_scan(struct image *img, uint32_t with, uint32_t without, image_scan_fn fn, void *ctx);
struct error *__wrap_image_scan(struct image *img, uint32_t with, uint32_t without, image_scan_fn fn, void *ctx);

struct scan {
	struct image *img;
	image_scan_fn fn;
	void *ctx;
};

/* What searches look for: the heads of function tables and build records. They are noted. */
static bool scan_chunk(void *ctx, const struct image_chunk *c)
{
	static const char table[] = "\xff\xff\xff\0\0\1\x08", record[] = "\xff Go buildinf:";
	const struct scan *s = ctx;
	uint8_t head[128];
	int searching = maker.searching;

	maker.searching = 0;
	for (size_t i = 0; i + 16 <= c->len && i < c->own; i += 8)
		if (memcmp(c->bytes + i + 1, table, 7) == 0 || memcmp(c->bytes + i, record, 14) == 0)
			image_read_some(s->img, c->addr + i, head, sizeof(head));
	maker.searching = searching;
	return s->fn(s->ctx, c);
}

struct error *__wrap_image_scan(struct image *img, uint32_t with, uint32_t without, image_scan_fn fn, void *ctx)
{
	struct scan s = { img, fn, ctx };

	maker.searching++;
	struct error *err = __real_image_scan(img, with, without, scan_chunk, &s);
	maker.searching--;
	return err;
}

struct error *__real_image_find_pointers(struct image *img, gaddr_t value, gaddr_t *out, size_t *n);
struct error *__wrap_image_find_pointers(struct image *img, gaddr_t value, gaddr_t *out, size_t *n);

struct error *__wrap_image_find_pointers(struct image *img, gaddr_t value, gaddr_t *out, size_t *n)
{
	uint64_t word;

	maker.searching++;
	struct error *err = __real_image_find_pointers(img, value, out, n);
	maker.searching--;
	for (size_t i = 0; !err && i < *n; i++)
		error_free(image_read_relocated(img, out[i], &word, sizeof(word)));
	return err;
}

bool __real_go_func_by_name(struct go_runtime *rt, const char *name, uint32_t *pos, struct go_func *ret);
bool __wrap_go_func_by_name(struct go_runtime *rt, const char *name, uint32_t *pos, struct go_func *ret);

/* Of all names and records only those of the function that was found. */
bool __wrap_go_func_by_name(struct go_runtime *rt, const char *name, uint32_t *pos, struct go_func *ret)
{
	uint8_t bytes[4096];

	/* Loads the table of functions, which every question needs. */
	if (rt->n_modules)
		go_func_find(rt, rt->modules[0].text + rt->modules[0].bias, ret);
	maker.searching++;
	bool found = __real_go_func_by_name(rt, name, pos, ret);
	maker.searching--;
	if (found) {
		const struct go_module *m = ret->module;

		image_read_some(m->image, m->funcnametab + ret->name_off, bytes, strlen(name) + 1);
		image_read_some(m->image, m->functab + ret->offset, bytes,
				(size_t)pclntab_shape(m->format)->func.size);
	}
	return found;
}

/* ---- stopping and letting go ---- */

static bool is_known(pid_t tid)
{
	return noting_tid_from_inner(NULL, tid) > 0;
}

static void stop_thread(pid_t tid)
{
	struct stopped *th = &maker.threads[maker.n_threads];
	struct iovec regs = { th->regs.raw, sizeof(th->regs.raw) };
	int status;

	if (maker.n_threads == THREADS_MAX)
		die("more than %d threads", THREADS_MAX);
	if (ptrace(PTRACE_SEIZE, tid, 0, 0) || ptrace(PTRACE_INTERRUPT, tid, 0, 0)) {
		if (errno == ESRCH)
			return;
		die("cannot stop thread %d: %s", tid, strerror(errno));
	}
	if (waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status))
		return;		/* it ended */
	*th = (struct stopped){ .tid = tid };
	/* A signal's own stop, not that of the interrupt: it gets its signal when it is let go. */
	if (status >> 16 != PTRACE_EVENT_STOP)
		th->signal = WSTOPSIG(status);
	if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &regs))
		die("cannot read the registers of %d: %s", tid, strerror(errno));
	th->regs.raw_len = (uint32_t)regs.iov_len;
	if (!maker.base.arch->regs_parse(&th->regs))
		die("registers of another CPU");
	maker.n_threads++;
}

/* Threads may make threads until all are stopped: until a pass finds no new one. */
static void stop_all(void)
{
	char path[64];
	size_t before;

	snprintf(path, sizeof(path), "/proc/%d/task", maker.pid);
	maker.n_threads = 0;
	do {
		DIR *d = opendir(path);
		struct dirent *e;

		before = maker.n_threads;
		if (!d)
			die("process %d has ended", maker.pid);
		while ((e = readdir(d))) {
			pid_t tid = atoi(e->d_name);

			if (tid > 0 && !is_known(tid))
				stop_thread(tid);
		}
		closedir(d);
	} while (maker.n_threads != before);
}

static void let_go(void)
{
	for (size_t i = 0; i < maker.n_threads; i++)
		ptrace(PTRACE_DETACH, maker.threads[i].tid, 0, (void *)(long)maker.threads[i].signal);
	maker.n_threads = 0;
}

/* ---- is a thread where it is wanted ---- */

struct wanted {
	char *names[NAMES_MAX];
	size_t n;
};

/* One goroutine's lines of the frames text: "\tkind function[ inlined] file:line". */
static bool stack_has(const char *from, const char *to, const struct wanted *w)
{
	size_t found = 0;

	for (const char *line = from; line < to && found < w->n; line = strchr(line, '\n') + 1) {
		const char *name = strchr(line, ' ') + 1;
		size_t len = strlen(w->names[found]);

		if (*line == '\t' && strncmp(name, w->names[found], len) == 0 && name[len] == ' ')
			found++;
	}
	return found == w->n;
}

static bool is_there(const struct core_text *t, const struct wanted *w)
{
	static const char head[] = "goroutine ";
	const char *at = t->frames.data;

	while (at && *at) {
		const char *end = strstr(at, "\n");
		const char *next = strstr(at + 1, head);
		const char *to = next ? next : at + strlen(at);
		bool whole = end && end - at > 8 && memcmp(end - 8, "complete", 8) == 0;

		if (whole && stack_has(end + 1, to, w))
			return true;
		at = next;
	}
	return w->n == 0;
}

/* ---- writing ---- */

static FILE *create(const char *out, const char *suffix)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s%s", out, suffix);
	f = fopen(path, "we");
	if (!f)
		die("cannot write %s: %s", path, strerror(errno));
	return f;
}

static void finish(FILE *f)
{
	if (ferror(f) || fclose(f))
		die("cannot write: %s", strerror(errno));
}

static void add_note(struct buf *b, uint32_t type, const void *desc, size_t len)
{
	const Elf64_Nhdr h = { .n_namesz = 5, .n_descsz = (Elf64_Word)len, .n_type = type };

	buf_add(b, &h, sizeof(h));
	buf_add(b, "CORE\0\0\0", 8);
	buf_add(b, desc, len);
	buf_add(b, "\0\0\0", (4 - len % 4) % 4);
}

static void add_files_note(struct buf *b, const struct mappings *maps)
{
	struct buf desc, paths;
	uint64_t n = 0, word;

	buf_init(&desc);
	buf_init(&paths);
	for (size_t i = 0; i < maps->n; i++) {
		const struct mapping *m = &maps->v[i];

		/* Only the program: a file of this machine must never speak for a core of another. */
		if (m->dev != maker.dev || m->inode != maker.inode)
			continue;
		buf_add(&desc, (uint64_t[]){ m->start, m->end, m->offset }, 24);
		buf_add(&paths, m->path, strlen(m->path) + 1);
		n++;
	}
	buf_add(&paths, "", 0);
	struct buf all;
	buf_init(&all);
	buf_add(&all, &n, 8);
	word = 1;
	buf_add(&all, &word, 8);	/* offsets are in bytes */
	buf_add(&all, desc.data, desc.len);
	buf_add(&all, paths.data, paths.len);
	add_note(b, NT_FILE, all.data, all.len);
	buf_deinit(&all);
	buf_deinit(&desc);
	buf_deinit(&paths);
}

static void add_auxv_note(struct buf *b)
{
	char path[64], bytes[4096];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/auxv", maker.pid);
	f = fopen(path, "re");
	if (!f)
		die("cannot read %s", path);
	add_note(b, NT_AUXV, bytes, fread(bytes, 1, sizeof(bytes), f));
	fclose(f);
}

static void make_notes(struct buf *b, const struct mappings *maps)
{
	struct elf_prpsinfo info = { .pr_pid = maker.pid, .pr_fname = "program" };

	add_note(b, NT_PRPSINFO, &info, sizeof(info));
	for (size_t i = 0; i < maker.n_threads; i++) {
		struct elf_prstatus status = { .pr_pid = maker.threads[i].tid };

		memcpy(&status.pr_reg, maker.threads[i].regs.raw, sizeof(status.pr_reg));
		add_note(b, NT_PRSTATUS, &status, sizeof(status));
	}
	add_auxv_note(b);
	add_files_note(b, maps);
}

static void add_phdr(struct buf *b, uint32_t type, uint64_t addr, uint64_t offset, uint64_t filesz,
		     uint64_t memsz, uint32_t flags)
{
	const Elf64_Phdr p = {
		.p_type = type, .p_vaddr = addr, .p_offset = offset, .p_filesz = filesz, .p_memsz = memsz,
		.p_flags = (flags & MAPPING_READ ? PF_R : 0) | (flags & MAPPING_WRITE ? PF_W : 0) |
			   (flags & MAPPING_EXEC ? PF_X : 0),
		.p_align = 1,
	};

	buf_add(b, &p, sizeof(p));
}

/* One piece for each part of a mapping that was read. */
static void add_pieces(struct buf *phdrs, struct buf *data, const struct mapping *m, uint64_t data_at)
{
	bool any = false;

	for (size_t i = 0; i < maker.memory.n; i++) {
		uint64_t start = maker.memory.v[i].start, end = maker.memory.v[i].end;
		uint8_t *bytes;

		start = start > m->start ? start : m->start;
		end = end < m->end ? end : m->end;
		if (start >= end)
			continue;
		bytes = must(malloc(end - start));
		check(target_read(maker.live, start, bytes, end - start), "cannot read what was read before");
		add_phdr(phdrs, PT_LOAD, start, data_at + data->len, end - start, end - start, m->flags);
		buf_add(data, bytes, end - start);
		free(bytes);
		any = true;
	}
	/* Where it stands is what is told of it. */
	if (!any && strcmp(m->path, "[vdso]") == 0)
		add_phdr(phdrs, PT_LOAD, m->start, 0, 0, m->end - m->start, m->flags);
}

static size_t count_pieces(const struct mappings *maps)
{
	struct buf phdrs, data;
	size_t n;

	buf_init(&phdrs);
	buf_init(&data);
	for (size_t i = 0; i < maps->n; i++)
		add_pieces(&phdrs, &data, &maps->v[i], 0);
	n = phdrs.len / sizeof(Elf64_Phdr);
	buf_deinit(&phdrs);
	buf_deinit(&data);
	return n;
}

static void write_core(const char *out)
{
	Elf64_Ehdr h = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_CORE, .e_machine = maker.base.arch->elf_machine, .e_version = EV_CURRENT,
		.e_phoff = sizeof(h), .e_ehsize = sizeof(h), .e_phentsize = sizeof(Elf64_Phdr),
	};
	struct buf phdrs, notes, data;
	struct mappings maps;
	uint64_t notes_at, data_at;
	FILE *f = create(out, ".core");

	buf_init(&phdrs);
	buf_init(&notes);
	buf_init(&data);
	check(target_mappings(maker.live, &maps), "mappings");
	make_notes(&notes, &maps);
	h.e_phnum = (Elf64_Half)(1 + count_pieces(&maps));
	notes_at = sizeof(h) + h.e_phnum * sizeof(Elf64_Phdr);
	data_at = notes_at + notes.len;
	add_phdr(&phdrs, PT_NOTE, 0, notes_at, notes.len, 0, 0);
	for (size_t i = 0; i < maps.n; i++)
		add_pieces(&phdrs, &data, &maps.v[i], data_at);
	fwrite(&h, 1, sizeof(h), f);
	fwrite(phdrs.data, 1, phdrs.len, f);
	fwrite(notes.data, 1, notes.len, f);
	fwrite(data.data, 1, data.len, f);
	finish(f);
	mappings_deinit(&maps);
	buf_deinit(&phdrs);
	buf_deinit(&notes);
	buf_deinit(&data);
}

static void write_exe(const char *out)
{
	FILE *f = create(out, ".exe");
	struct stat st;
	int fd;

	check(target_exe_fd(maker.live, &fd), "program");
	if (fstat(fd, &st) || ftruncate(fileno(f), st.st_size))
		die("cannot write the program: %s", strerror(errno));
	for (size_t i = 0; i < maker.file.n; i++) {
		uint64_t start = maker.file.v[i].start, len = maker.file.v[i].end - start;
		uint8_t *bytes = must(malloc(len));
		ssize_t n = pread(fd, bytes, len, (off_t)start);

		if (n > 0 && pwrite(fileno(f), bytes, (size_t)n, (off_t)start) != n)
			die("cannot write the program: %s", strerror(errno));
		free(bytes);
	}
	finish(f);
}

static void write_text(const char *out, const char *suffix, const struct buf *b)
{
	FILE *f = create(out, suffix);

	fwrite(b->data ? b->data : "", 1, b->len, f);
	finish(f);
}

/* ---- all of it ---- */

/* The beginning of the program is what a core is believed by. */
static void note_program_head(void)
{
	struct mappings maps;

	check(target_mappings(maker.live, &maps), "mappings");
	for (size_t i = 0; i < maps.n; i++)
		if (maps.v[i].dev == maker.dev && maps.v[i].inode == maker.inode && !maps.v[i].offset)
			note(&maker.memory, maps.v[i].start, PROGRAM_HEAD);
	mappings_deinit(&maps);
	note(&maker.file, 0, PROGRAM_HEAD);
}

static void open_process(void)
{
	struct stat st;
	int fd;

	check(target_open_live(maker.pid, &maker.live), "cannot open the process");
	check(target_exe_fd(maker.live, &fd), "cannot open the program");
	if (fstat(fd, &st))
		die("cannot stat the program");
	maker.dev = st.st_dev;
	maker.inode = st.st_ino;
	maker.base = (struct target){
		.ops = &noting_ops, .arch = target_arch(maker.live), .pid = maker.pid, .exe_fd = fd,
		.exe_path = must(strdup(target_exe_path(maker.live))),
	};
}

/* Leaves the process stopped at a place that is wanted. */
static void stop_there(const struct wanted *w)
{
	for (int i = 0; i < TRIES; i++) {
		struct core_text t = { .goroutines = 0 };
		struct error *err;
		bool there;

		stop_all();
		err = core_text_make(&maker.base, &t);
		there = !err && is_there(&t, w);
		error_free(err);	/* a bad moment: there will be others */
		core_text_deinit(&t);
		if (there)
			return;
		let_go();
		usleep(BETWEEN_US);
	}
	die("process %d was never seen there", maker.pid);
}

static void same(const struct buf *a, const struct buf *b, const char *what)
{
	if (a->len != b->len || (a->len && memcmp(a->data, b->data, a->len)))
		die("the core does not give the %s that the process gave", what);
}

static void prove(const char *out, const struct core_text *t)
{
	struct core_text again = { .goroutines = 0 };
	char core[4096], exe[4096];
	struct target *target;

	snprintf(core, sizeof(core), "%s.core", out);
	snprintf(exe, sizeof(exe), "%s.exe", out);
	check(target_open_core(core, exe, &target), "the core cannot be opened");
	check(core_text_make(target, &again), "the core cannot be read");
	same(&t->stacks, &again.stacks, "stacks");
	same(&t->frames, &again.frames, "frames");
	core_text_deinit(&again);
	target_close(target);
}

static void make(const char *out, const struct wanted *w)
{
	struct core_text t = { .goroutines = 0 };

	stop_there(w);
	maker.noting = true;
	check(core_text_make(&maker.base, &t), "the process cannot be read");
	maker.noting = false;
	note_program_head();
	settle(&maker.memory, maker.grain);
	settle(&maker.file, 1);
	write_core(out);
	let_go();
	write_exe(out);
	write_text(out, ".stacks.txt", &t.stacks);
	write_text(out, ".frames.txt", &t.frames);
	prove(out, &t);
	printf("%s: %u goroutines, %zu pieces of memory, %zu of the file\n", out, t.goroutines,
	       maker.memory.n, maker.file.n);
	core_text_deinit(&t);
}

static void usage(void)
{
	die("usage: maker [--at NAME[,NAME...]] [--grain BYTES] PID OUT");
}

int main(int argc, char **argv)
{
	struct wanted w = { .n = 0 };
	int at = 1;

	maker.grain = GRAIN;
	for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
		if (strcmp(argv[at], "--grain") == 0) {
			maker.grain = strtoul(argv[at + 1], NULL, 10);
		} else if (strcmp(argv[at], "--at") == 0) {
			for (char *s = strtok(argv[at + 1], ","); s && w.n < NAMES_MAX; s = strtok(NULL, ","))
				w.names[w.n++] = s;
		} else {
			usage();
		}
	}
	if (argc - at != 2 || atoi(argv[at]) <= 0 || !maker.grain)
		usage();
	maker.pid = atoi(argv[at]);
	open_process();
	make(argv[at + 1], &w);
	target_close(maker.live);
	free(maker.base.exe_path);
	free(maker.memory.v);
	free(maker.file.v);
	return 0;
}
