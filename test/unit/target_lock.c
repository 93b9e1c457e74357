/*
 * One recording of a process at a time: who has the lock, how it ends, and that nobody else can be
 * in the way.
 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "fake/child.h"
#include "target/lock.h"

struct place {
	char above[64], folder[96];
};

static void make(struct place *p)
{
	strcpy(p->above, "/tmp/goprof-lock-XXXXXX");
	assert_non_null(mkdtemp(p->above));
	snprintf(p->folder, sizeof(p->folder), "%s/goprof", p->above);
}

static void unmake(const struct place *p)
{
	char line[128];

	snprintf(line, sizeof(line), "rm -rf %s", p->above);
	assert_int_equal(system(line), 0);
}

static int files_in(const struct place *p)
{
	DIR *dir = opendir(p->folder);
	const struct dirent *d;
	int n = 0;

	assert_non_null(dir);
	while ((d = readdir(dir)))
		n += d->d_name[0] != '.';
	closedir(dir);
	return n;
}

static struct target_lock *have(const struct place *p, const char *name)
{
	struct target_lock *l = NULL;

	assert_null(lock_take_in(p->folder, name, 4711, &l));
	assert_non_null(l);
	return l;
}

static void refused(const struct place *p, const char *name, pid_t holder)
{
	struct target_lock *l = NULL;
	_cleanup_error_ struct error *err = lock_take_in(p->folder, name, 4711, &l);
	char text[64];

	assert_non_null(err);
	assert_null(l);
	assert_int_equal(err->kind, ERROR_TRACED);
	assert_int_equal(error_exit_status(err->kind), 68);
	snprintf(text, sizeof(text), "goprof's pid %d", holder);
	assert_non_null(strstr(err->why, text));
	snprintf(text, sizeof(text), "kill -INT %d", holder);
	assert_non_null(strstr(err->todo, text));
}

static void one_at_a_time(void **state)
{
	struct place p;
	struct stat st;

	(void)state;
	make(&p);
	struct target_lock *a = have(&p, "1-2-3"), *other = have(&p, "1-2-4");
	assert_int_equal(stat(p.folder, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	refused(&p, "1-2-3", getpid());
	target_lock_free(other);
	refused(&p, "1-2-3", getpid());
	target_lock_free(a);
	assert_int_equal(files_in(&p), 0);
	target_lock_free(have(&p, "1-2-3"));
	target_lock_free(NULL);
	unmake(&p);
}

/* A holder in another pid namespace has a number there that is somebody else's here: no advice to kill it. */
static void strange_numbers_are_not_told(void **state)
{
	struct place p;
	char path[160];

	(void)state;
	make(&p);
	struct target_lock *a = have(&p, "1-2-3"), *b = NULL;
	snprintf(path, sizeof(path), "%s/1-2-3.lock", p.folder);
	int fd = open(path, O_WRONLY | O_TRUNC);
	assert_int_equal(write(fd, "3 77\n", 5), 5);
	close(fd);
	_cleanup_error_ struct error *err = lock_take_in(p.folder, "1-2-3", 4711, &b);
	assert_int_equal(err->kind, ERROR_TRACED);
	assert_non_null(strstr(err->why, "another container"));
	assert_null(err->todo);
	target_lock_free(a);
	unmake(&p);
}

static int child_holds(struct child_shared *s, void *arg)
{
	struct target_lock *l = NULL;

	s->errors = lock_take_in(((struct place *)arg)->folder, "1-2-3", 4711, &l) || !l;
	s->ready = 1;
	while (!s->stop)
		test_sleep_us(1000);
	return 0;
}

static void death_lets_go(void **state)
{
	struct test_child c;
	struct place p;

	(void)state;
	make(&p);
	child_start(&c, child_holds, &p);
	assert_int_equal(c.shared->errors, 0);
	refused(&p, "1-2-3", c.pid);
	child_kill(&c);
	/* Its file is still there, and is taken away with the next lock of any name. */
	assert_int_equal(files_in(&p), 1);
	struct target_lock *l = have(&p, "5-6-7");
	assert_int_equal(files_in(&p), 1);
	target_lock_free(l);
	target_lock_free(have(&p, "1-2-3"));
	unmake(&p);
}

/* A sweep that has locked what a dead goprof left, and loses its core before it has taken it away. */
static int child_sweeps(struct child_shared *s, void *arg)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/1-2-3.lock", ((struct place *)arg)->folder);
	int fd = open(path, O_RDWR);
	s->errors = fd < 0 || flock(fd, LOCK_EX | LOCK_NB);
	s->ready = 1;
	test_sleep_us(20000);
	if (!s->value[0])	/* else it never comes to it */
		unlink(path);
	while (s->value[0] && !s->stop)
		test_sleep_us(1000);
	return 0;
}

static void left_behind(const struct place *p, pid_t holder)
{
	char path[160];
	struct stat ns;

	snprintf(path, sizeof(path), "%s/1-2-3.lock", p->folder);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(stat("/proc/self/ns/pid", &ns), 0);
	fprintf(f, "%d %llu\n", holder, (unsigned long long)ns.st_ino);
	fclose(f);
}

static void the_dead_hold_nothing(void **state)
{
	struct test_child c;
	struct place p;
	struct target_lock *l = NULL;

	(void)state;
	make(&p);
	target_lock_free(have(&p, "5-6-7"));	/* makes the folder */
	child_start(&c, child_holds, &p);
	pid_t dead = c.pid;
	child_kill(&c);
	left_behind(&p, dead);
	child_start(&c, child_sweeps, &p);
	assert_int_equal(c.shared->errors, 0);
	target_lock_free(have(&p, "1-2-3"));
	child_stop(&c);

	left_behind(&p, dead);
	child_start(&c, child_sweeps, &p);
	c.shared->value[0] = 1;
	_cleanup_error_ struct error *err = lock_take_in(p.folder, "1-2-3", 4711, &l);
	assert_int_equal(err->kind, ERROR_TRACED);
	assert_null(err->todo);		/* nobody is told to kill that number */
	child_stop(&c);
	unmake(&p);
}

/* Counts up a number in a file, read and written apart: two at once would lose counts. */
static int child_contends(struct child_shared *s, void *arg)
{
	const struct place *p = arg;

	s->ready = 1;
	for (int n = 0; n < 200;) {
		struct target_lock *l = NULL;
		struct error *err = lock_take_in(p->folder, "1-2-3", 4711, &l);

		error_free(err);
		if (!l)
			continue;
		char path[128], buf[16] = "";
		snprintf(path, sizeof(path), "%s/count", p->above);
		int fd = open(path, O_RDWR | O_CREAT, 0600);
		if (fd < 0 || pread(fd, buf, sizeof(buf) - 1, 0) < 0)
			return 1;
		snprintf(buf, sizeof(buf), "%d", atoi(buf) + 1);
		test_sleep_us(20);
		if (pwrite(fd, buf, strlen(buf), 0) < 0)
			return 1;
		close(fd);
		target_lock_free(l);
		n++;
	}
	return 0;
}

/* Files are made, taken away and locked at the same time: never are there two holders. */
static void never_two(void **state)
{
	struct test_child c[4];
	struct place p;
	char path[128], buf[16] = "";

	(void)state;
	make(&p);
	for (size_t i = 0; i < 4; i++)
		child_start(&c[i], child_contends, &p);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(child_stop(&c[i]), 0);
	snprintf(path, sizeof(path), "%s/count", p.above);
	int fd = open(path, O_RDONLY);
	assert_true(read(fd, buf, sizeof(buf) - 1) > 0);
	close(fd);
	assert_int_equal(atoi(buf), 800);
	unmake(&p);
}

static void no_lock(const struct place *p)
{
	struct target_lock *l = NULL;

	assert_null(lock_take_in(p->folder, "1-2-3", 4711, &l));
	assert_null(l);
}

/* What others may have put there is not used, and is no reason to refuse either. */
static void nobody_is_in_the_way(void **state)
{
	struct place p;
	char elsewhere[80], file[160];

	(void)state;
	make(&p);
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", p.above);
	assert_int_equal(mkdir(elsewhere, 0700), 0);
	assert_int_equal(symlink(elsewhere, p.folder), 0);
	no_lock(&p);
	assert_int_equal(unlink(p.folder), 0);

	assert_int_equal(mkdir(p.folder, 0755), 0);	/* others could lock a file that they can read */
	no_lock(&p);
	assert_int_equal(rmdir(p.folder), 0);

	int fd = open(p.folder, O_CREAT | O_WRONLY, 0600);
	close(fd);
	no_lock(&p);
	assert_int_equal(unlink(p.folder), 0);

	if (getuid() == 0) {
		assert_int_equal(mkdir(p.folder, 0700), 0);
		assert_int_equal(chown(p.folder, 65534, 65534), 0);
		no_lock(&p);
		assert_int_equal(rmdir(p.folder), 0);
	}
	strcpy(p.folder, "/nonexistent/goprof");
	no_lock(&p);

	/* A link in the place of the file is neither followed nor written to. */
	snprintf(p.folder, sizeof(p.folder), "%s", elsewhere);
	snprintf(file, sizeof(file), "%s/1-2-3.lock", p.folder);
	assert_int_equal(symlink("/tmp/goprof-lock-target", file), 0);
	no_lock(&p);
	assert_int_equal(access("/tmp/goprof-lock-target", F_OK), -1);
	unmake(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_at_a_time),
		cmocka_unit_test(strange_numbers_are_not_told),
		cmocka_unit_test(death_lets_go),
		cmocka_unit_test(the_dead_hold_nothing),
		cmocka_unit_test(never_two),
		cmocka_unit_test(nobody_is_in_the_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
