/*
 * cmd_place.h: a working directory of its own for each test that writes files.
 */
#ifndef GOPROF_TEST_CMD_PLACE_H
#define GOPROF_TEST_CMD_PLACE_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A directory of its own for each test, and the way back. */
struct place {
	char dir[64];
	int back;
};

static int enter(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	strcpy(p->dir, "/tmp/goprof-unit-XXXXXX");
	p->back = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!mkdtemp(p->dir) || chdir(p->dir) != 0)
		return -1;
	setenv("TZ", "UTC", 1);
	*state = p;
	return 0;
}

static void remove_all(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[512];

	while (d && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (unlink(path) != 0)
			remove_all(path);
	}
	if (d)
		closedir(d);
	rmdir(dir);
}

static int leave(void **state)
{
	struct place *p = *state;

	if (fchdir(p->back) != 0)
		return -1;
	close(p->back);
	remove_all(p->dir);
	free(p);
	return 0;
}

#define in_place(f) cmocka_unit_test_setup_teardown(f, enter, leave)

#endif
