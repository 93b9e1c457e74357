/*
 * inherited.c: what a process gets from its parent beside its memory. goprof changes some of it for
 * itself (ignores SIGPIPE, blocks signals, may raise limits and priorities); its child gets what
 * goprof was given, as if it had been started without goprof.
 *
 * Not here, because goprof never touches them: working directory, umask, process group, terminal,
 * oom_score_adj, CPU affinity. Upstream text: execve(2) "Effect on process attributes", fork(2).
 */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "target/tracer_impl.h"

struct inherited {
	sigset_t mask;
	bool ignored[NSIG];
	struct rank rank;
	struct rlimit limits[RLIM_NLIMITS];
	bool has_limit[RLIM_NLIMITS];
};

struct error *inherited_save(struct inherited **ret)
{
	struct inherited *in = calloc(1, sizeof(*in));

	if (!in)
		return &err_nomem;
	pthread_sigmask(SIG_SETMASK, NULL, &in->mask);
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction sa;
		in->ignored[sig] = !sigaction(sig, NULL, &sa) && sa.sa_handler == SIG_IGN;
	}
	rank_read(&in->rank);
	for (int i = 0; i < (int)RLIM_NLIMITS; i++)
		in->has_limit[i] = !getrlimit((__rlimit_resource_t)i, &in->limits[i]);
	*ret = in;
	return NULL;
}

void inherited_free(struct inherited *in)
{
	free(in);
}

void inherited_restore(const struct inherited *in)
{
	struct sigaction sa = { 0 };

	/* First the dispositions: no handler of ours may run once the mask is open. */
	for (int sig = 1; sig < NSIG; sig++) {
		sa.sa_handler = in->ignored[sig] ? SIG_IGN : SIG_DFL;
		sigaction(sig, &sa, NULL);
	}
	rank_set(&in->rank);
	for (int i = 0; i < (int)RLIM_NLIMITS; i++)
		if (in->has_limit[i])
			setrlimit((__rlimit_resource_t)i, &in->limits[i]);
	sigprocmask(SIG_SETMASK, &in->mask, NULL);
}
