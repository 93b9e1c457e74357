/*
 * child.c: forks processes for tests; see child.h. A child ends by itself after two minutes.
 */
#include "fake/child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILD_SECONDS = 120, WAIT_MS = 10000 };

void test_sleep_us(unsigned us)
{
	const struct timespec ts = { us / 1000000, (long)(us % 1000000) * 1000 };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

static struct child_shared *share(void)
{
	void *p = mmap(NULL, sizeof(struct child_shared), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("child_start");
		abort();
	}
	return p;
}

/* cmocka's handlers would have the child go on with the parent's tests. */
static void default_signals(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM, SIGINT };

	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		signal(signals[i], SIG_DFL);
}

void child_start(struct test_child *c, int (*f)(struct child_shared *s, void *arg), void *arg)
{
	c->shared = share();
	c->pid = fork();
	if (c->pid < 0) {
		perror("child_start");
		abort();
	}
	if (c->pid == 0) {
		default_signals();
		alarm(CHILD_SECONDS);
		_exit(f(c->shared, arg));
	}
	for (int i = 0; i < WAIT_MS && !c->shared->ready; i++)
		test_sleep_us(1000);
}

static int wait_end(struct test_child *c)
{
	int status = -1;

	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	munmap(c->shared, sizeof(*c->shared));
	c->shared = NULL;
	c->pid = 0;
	return status;
}

int child_stop(struct test_child *c)
{
	c->shared->stop = 1;
	return wait_end(c);
}

void child_kill(struct test_child *c)
{
	kill(c->pid, SIGKILL);
	wait_end(c);
}

int child_spin(struct child_shared *s, void *arg)
{
	(void)arg;
	s->ready = 1;
	while (!s->stop)
		s->count++;
	return 0;
}

static bool read_text(pid_t pid, const char *name, char *buf, size_t cap)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	FILE *f = fopen(path, "re");
	if (!f)
		return false;
	size_t n = fread(buf, 1, cap - 1, f);
	fclose(f);
	buf[n] = 0;
	return n > 0;
}

char child_state(pid_t pid)
{
	char buf[1024];
	const char *bracket = read_text(pid, "stat", buf, sizeof(buf)) ? strrchr(buf, ')') : NULL;

	return bracket ? bracket[2] : 0;
}

long child_status_field(pid_t pid, const char *key)
{
	char buf[8192];
	const char *at = read_text(pid, "status", buf, sizeof(buf)) ? strstr(buf, key) : NULL;

	return at ? strtol(at + strlen(key), NULL, 10) : -1;
}

bool child_until(bool (*f)(void *arg), void *arg)
{
	for (int i = 0; i < WAIT_MS; i++) {
		if (f(arg))
			return true;
		test_sleep_us(1000);
	}
	return false;
}

static bool has_moved(void *arg)
{
	const struct test_child *c = ((void **)arg)[0];
	const uint64_t *before = ((void **)arg)[1];

	return c->shared->count != *before;
}

bool child_counts(struct test_child *c)
{
	uint64_t before = c->shared->count;

	return child_until(has_moved, (void *[]){ c, &before });
}
