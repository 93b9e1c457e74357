/*
 * memfd.c: runs a program from a file that has no name: /proc/PID/exe is "/memfd:x (deleted)".
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
	char buf[65536];
	ssize_t n;
	int from = argc > 1 ? open(argv[1], O_RDONLY) : -1, fd = memfd_create("x", MFD_CLOEXEC);

	if (from < 0 || fd < 0)
		return 1;
	while ((n = read(from, buf, sizeof(buf))) > 0)
		if (write(fd, buf, (size_t)n) != n)
			return 1;
	fexecve(fd, argv + 1, environ);
	perror("fexecve");
	return 1;
}
