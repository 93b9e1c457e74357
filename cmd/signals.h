/*
 * signals.h: signals sent to goprof, as a queue that is read (signalfd), not as handlers: nothing
 * global, nothing that must be async-signal-safe, and the reader learns who sent each.
 *
 * They must be blocked before any thread is made; the child of run gets the mask of before.
 */
#ifndef GOPROF_CMD_SIGNALS_H
#define GOPROF_CMD_SIGNALS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

enum signals_for {
	SIGNALS_RUN,	/* every signal that can be handed on */
	SIGNALS_ATTACH,	/* those that end a profile or close a window, Ctrl-Z and its end */
};

struct signals {
	int fd;
	enum signals_for what;
};

struct error *signals_open(enum signals_for what, struct signals *ret);
void signals_close(struct signals *s);

struct signals_news {
	unsigned int stops;	/* Ctrl-C, SIGTERM or SIGHUP: wishes to end */
	bool close_window;	/* SIGUSR1 */
	bool suspend;		/* Ctrl-Z or its like reached goprof */
	bool continued;		/* SIGCONT: goprof was stopped, in whatever way, and is back */
};

/*
 * Takes what has come. With a child (pid > 0) what was sent by a process is handed on to it;
 * what the terminal sent has reached it already, being in the same group.
 */
void signals_take(const struct signals *s, pid_t child, struct signals_news *ret);

/* SIGCONT has come since signals_take; it is left for the next one. */
bool signals_continued(void);

/* Stops goprof itself as Ctrl-Z would; returns when it is continued. */
void signals_suspend(void);

#endif
