/*
 * nongo.c: no Go program, though it looks a little like one: a build information record and the
 * texts of a version. With -DGCCGO it has the one function by which gccgo's programs are known.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const volatile char record[64] __attribute__((aligned(16), section(".go.buildinfo"), used)) =
	"\xff Go buildinf:\x08\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x08go1.19.8\0";
static const char version[] = "go1.19.8";
static const char *volatile runtime_version = version;

#ifdef GCCGO
void __go_init_main(void);
void __go_init_main(void)
{
	runtime_version = "gccgo";
}
#endif

int main(int argc, char **argv)
{
	fprintf(stderr, "READY pid=%d %s%c\n", (int)getpid(), runtime_version, record[1]);
	sleep(argc > 1 && strcmp(argv[1], "short") == 0 ? 1 : 60);
	return 5;
}
