/*
 * cshared.c: a host that is no Go program: loads the libraries that it is told to, one second after
 * the other if -slow comes first, calls Start in each and waits. Says READY when all are up.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int slow = argc > 1 && strcmp(argv[1], "-slow") == 0;

	for (int i = 1 + slow; i < argc; i++) {
		if (slow)
			sleep(1);
		void *lib = dlopen(argv[i], RTLD_NOW);
		void (*start)(void) = lib ? (void (*)(void))dlsym(lib, "Start") : NULL;

		if (!start) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		start();
	}
	fprintf(stderr, "READY pid=%d\n", (int)getpid());
	sleep(60);
	return 0;
}
