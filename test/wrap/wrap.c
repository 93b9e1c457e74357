/*
 * wrap.c: starts a program in a sandbox, for the live tests: wrap MODE PROGRAM ARGS...
 *
 *	nnp	no_new_privs
 *	block	and a filter: ptrace and process_vm_readv fail with EPERM
 *	kill	and a filter: they kill
 *	noperf	and a filter: perf_event_open fails with EPERM
 *	seize	traces a process instead (wrap seize PID SECONDS): seizes each of its threads, lets
 *		their signals through as strace would, and ends
 *
 * Must not know goprof. Ends with 70 to 79 when it cannot do what it is asked for.
 */
#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int filter_out(uint32_t first, uint32_t second, uint32_t action)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int seize_all(const char *pid, const char *seconds)
{
	char path[64];
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%s/task", pid);
	DIR *dir = opendir(path);
	for (const struct dirent *d; dir && (d = readdir(dir));)
		n += d->d_name[0] != '.' && !ptrace(PTRACE_SEIZE, atoi(d->d_name), NULL, NULL);
	printf("SEIZED %d\n", n);
	fflush(stdout);
	for (double left = atof(seconds); left > 0;) {
		int status;
		pid_t tid = waitpid(-1, &status, WNOHANG | __WALL);

		if (tid <= 0) {
			usleep(200);
			left -= 0.00025;
		} else if (WIFSTOPPED(status)) {
			int event = status >> 16 == PTRACE_EVENT_STOP, sig = event ? 0 : WSTOPSIG(status);

			ptrace(event && WSTOPSIG(status) != SIGTRAP ? PTRACE_LISTEN : PTRACE_CONT, tid, NULL,
			       (void *)(uintptr_t)sig);
		}
	}
	return n ? 0 : 71;	/* the kernel detaches them */
}

int main(int argc, char **argv)
{
	if (argc < 4 && !(argc == 3 && strcmp(argv[1], "seize")))
		return 70;
	if (!strcmp(argv[1], "seize"))
		return seize_all(argv[2], argv[3]);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return 72;
	if (!strcmp(argv[1], "block") && filter_out(SYS_ptrace, SYS_process_vm_readv, SECCOMP_RET_ERRNO | 1))
		return 73;
	if (!strcmp(argv[1], "kill") && filter_out(SYS_ptrace, SYS_process_vm_readv, SECCOMP_RET_KILL_PROCESS))
		return 74;
	if (!strcmp(argv[1], "noperf") && filter_out(SYS_perf_event_open, SYS_perf_event_open, SECCOMP_RET_ERRNO | 1))
		return 76;
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 75;
}
