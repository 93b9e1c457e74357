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
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cores/core_text.h"
#include "cores/maker.h"

enum { NAMES_MAX = 8, TRIES = 4000, BETWEEN_US = 700, GRAIN = 4096, PROGRAM_HEAD = 4096 };

struct maker maker;

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("maker: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);	/* the kernel detaches what is stopped */
}

void *must(void *p)
{
	if (!p)
		die("out of memory");
	return p;
}

void check(struct error *err, const char *doing)
{
	if (err)
		die("%s: %s%s%s", doing, err->what, err->why ? ": " : "", err->why ? err->why : "");
}

/* ---- stopping and letting go ---- */

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

			if (tid > 0 && !thread_is_known(tid))
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
