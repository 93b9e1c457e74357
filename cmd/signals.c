/*
 * signals.c: see signals.h. Which signals are for whom:
 *
 *	run	everything a process sent goes to the child. From the terminal (si_code > 0) it has
 *		come to both, so the child must not get it twice. SIGCHLD and SIGPIPE are ours; faults
 *		are never blocked.
 *	attach	INT, TERM, HUP end the profile, USR1 closes the window, TSTP suspends once no
 *		thread of the target is held, CONT tells that there was a stop.
 *
 * Upstream: signal(7), signalfd(2) (a blocked signal is queued even where it is ignored).
 */
#include "cmd/signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int never[] = {
	SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGCHLD, SIGPIPE,
};
static const int attach_set[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGTSTP, SIGCONT };

#define COUNT(v) (sizeof(v) / sizeof((v)[0]))

static void fill(enum signals_for what, sigset_t *set)
{
	struct sigaction hup;

	sigemptyset(set);
	if (what == SIGNALS_RUN) {
		sigfillset(set);	/* without those that the C library keeps for itself */
		for (size_t i = 0; i < COUNT(never); i++)
			sigdelset(set, never[i]);
		return;
	}
	for (size_t i = 0; i < COUNT(attach_set); i++)
		sigaddset(set, attach_set[i]);
	/* nohup goprof attach ... */
	if (sigaction(SIGHUP, NULL, &hup) == 0 && hup.sa_handler == SIG_IGN)
		sigdelset(set, SIGHUP);
}

struct error *signals_open(enum signals_for what, struct signals *ret)
{
	sigset_t set;
	int fd;

	fill(what, &set);
	fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0)
		return error_why(error_new(ERROR_FACILITY, "cannot watch for signals"), "%s",
				 strerror(errno));
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	*ret = (struct signals){ .fd = fd, .what = what };
	return NULL;
}

void signals_close(struct signals *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

static bool is_suspend(uint32_t sig)
{
	return sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU;
}

static void hand_on(pid_t child, const struct signalfd_siginfo *si)
{
	if (si->ssi_code == SI_QUEUE)
		sigqueue(child, (int)si->ssi_signo, (union sigval){ .sival_ptr = (void *)(uintptr_t)si->ssi_ptr });
	else
		kill(child, (int)si->ssi_signo);
}

static void take_one(const struct signals *s, pid_t child, const struct signalfd_siginfo *si,
		     struct signals_news *ret)
{
	uint32_t sig = si->ssi_signo;

	if (s->what == SIGNALS_RUN && child > 0 && si->ssi_code <= 0)
		hand_on(child, si);
	if (is_suspend(sig))
		ret->suspend = true;
	if (sig == SIGCONT) {
		ret->suspend = false;
		ret->continued = true;
	}
	if (sig == SIGUSR1)
		ret->close_window = true;
	if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP)
		ret->stops++;
}

void signals_take(const struct signals *s, pid_t child, struct signals_news *ret)
{
	struct signalfd_siginfo si;

	*ret = (struct signals_news){ 0 };
	while (read(s->fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		take_one(s, child, &si, ret);
}

bool signals_continued(void)
{
	sigset_t set;

	return sigpending(&set) == 0 && sigismember(&set, SIGCONT) == 1;
}

void signals_suspend(void)
{
	kill(getpid(), SIGSTOP);
}
