/*
 * children.c: remembers descendants while they live: pid, file, and a descriptor of the file,
 * because `go run` deletes what it ran. Whether a file is Go is asked only at the end: reading a
 * big program would make ticks late.
 *
 * Upstream: proc(5), task/TID/children (CONFIG_PROC_CHILDREN; without it nothing is found).
 */
#include "cmd/children.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cmd/words.h"
#include "go/go.h"
#include "image/images.h"

enum {
	PROGRAMS_MAX = 64,	/* different files */
	PIDS_MAX = 512,		/* of one look */
	LOOK_FIRST_NS = 50 * NSEC_PER_MSEC,
	LOOK_IDLE_NS = 100 * NSEC_PER_MSEC,
};

/* A program file that a descendant ran. */
struct program {
	dev_t dev;
	ino_t ino;
	char *path;
	int fd;
	pid_t pid;		/* who was seen with it first */
	uint64_t first, last;	/* when */
};

struct children {
	char *proc;
	pid_t pid;
	dev_t own_dev;		/* the file of the command itself */
	ino_t own_ino;
	uint64_t begun, next;
	struct program v[PROGRAMS_MAX];
	size_t n;
};

struct error *children_create(const struct children_setup *setup, struct children **ret)
{
	struct children *c = calloc(1, sizeof(*c));

	if (c)
		c->proc = strdup(setup->proc);
	if (!c || !c->proc) {
		free(c);
		return &err_nomem;
	}
	c->pid = setup->pid;
	*ret = c;
	return NULL;
}

void children_destroy(struct children *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++) {
		close(c->v[i].fd);
		free(c->v[i].path);
	}
	free(c->proc);
	free(c);
}

/* ---- looking ---- */

struct pids {
	pid_t v[PIDS_MAX];
	size_t n;
};

/* The numbers of one children file. */
static void read_children(const char *path, struct pids *out)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	int pid;

	while (f && out->n < PIDS_MAX && fscanf(f, "%d", &pid) == 1)
		if (pid > 0)
			out->v[out->n++] = pid;
}

/* A child belongs to the thread that made it. */
static void add_children(const struct children *c, pid_t pid, struct pids *out)
{
	char path[512];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "%s/%d/task", c->proc, (int)pid);
	d = opendir(path);
	if (!d)
		return;
	while ((e = readdir(d))) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "%s/%d/task/%.16s/children", c->proc, (int)pid, e->d_name);
		read_children(path, out);
	}
	closedir(d);
}

static struct program *find(struct children *c, const struct stat *st)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].dev == st->st_dev && c->v[i].ino == st->st_ino)
			return &c->v[i];
	return NULL;
}

static void remember(struct children *c, pid_t pid, uint64_t now)
{
	char link[512], path[4096];
	struct program *p;
	struct stat st;
	ssize_t len;
	int fd;

	snprintf(link, sizeof(link), "%s/%d/exe", c->proc, (int)pid);
	if (stat(link, &st) != 0 || (st.st_dev == c->own_dev && st.st_ino == c->own_ino))
		return;
	p = find(c, &st);
	if (p) {
		p->last = now;
		return;
	}
	if (c->n == PROGRAMS_MAX)
		return;
	len = readlink(link, path, sizeof(path) - 1);
	fd = open(link, O_RDONLY | O_CLOEXEC);
	if (len <= 0 || fd < 0) {
		if (fd >= 0)
			close(fd);
		return;
	}
	path[len] = 0;
	path[image_path_length(path)] = 0;
	c->v[c->n] = (struct program){ st.st_dev, st.st_ino, strdup(path), fd, pid, now, now };
	if (c->v[c->n].path)
		c->n++;
	else
		close(fd);
}

static void look(struct children *c, uint64_t now)
{
	_cleanup_free_ struct pids *all = calloc(1, sizeof(*all));
	char link[512];
	struct stat st;

	if (!all)
		return;
	/* A child that is only forked still has its parent's file. */
	snprintf(link, sizeof(link), "%s/%d/exe", c->proc, (int)c->pid);
	if (stat(link, &st) == 0) {
		c->own_dev = st.st_dev;
		c->own_ino = st.st_ino;
	}
	add_children(c, c->pid, all);
	for (size_t i = 0; i < all->n; i++) {
		remember(c, all->v[i], now);
		add_children(c, all->v[i], all);
	}
}

void children_look(struct children *c, uint64_t now, bool idle)
{
	uint64_t age, step;

	if (!c->begun) {
		c->begun = now;
		c->next = now + LOOK_FIRST_NS;
	}
	if (now < c->next)
		return;
	look(c, now);
	/* Twice as long each time, until it is a second. */
	age = now - c->begun;
	step = age < LOOK_FIRST_NS ? LOOK_FIRST_NS : age < NSEC_PER_SEC ? age : NSEC_PER_SEC;
	c->next = now + (idle && step > LOOK_IDLE_NS ? LOOK_IDLE_NS : step);
}

/* ---- asking ---- */

/* compile, link, asm, ...: what `go build` starts is not what the user meant. */
static bool is_toolchain(const struct program *p)
{
	return strstr(p->path, "/pkg/tool/") != NULL;
}

static bool is_go(const struct program *p)
{
	struct go_process *go = NULL;
	struct error *err = go_process_open_file(p->fd, &go);
	/* Go that goprof cannot read is Go. */
	bool yes = !err || err->kind == ERROR_UNSUPPORTED;

	if (!err)
		go_process_close(go);
	error_free(err);
	return yes;
}

/* Does the process still run this file? */
static bool is_alive(const struct children *c, const struct program *p)
{
	char link[512];
	struct stat st;

	snprintf(link, sizeof(link), "%s/%d/exe", c->proc, (int)p->pid);
	return stat(link, &st) == 0 && st.st_dev == p->dev && st.st_ino == p->ino;
}

bool children_go(struct children *c, struct child_program *ret)
{
	const struct program *best = NULL;
	uint32_t n = 0;

	for (size_t i = 0; i < c->n; i++) {
		const struct program *p = &c->v[i];

		if (is_toolchain(p) || !is_go(p))
			continue;
		n++;
		if (!best || p->last - p->first > best->last - best->first)
			best = p;
	}
	if (!best)
		return false;
	*ret = (struct child_program){ best->path, best->pid, n - 1, is_alive(c, best) };
	return true;
}
