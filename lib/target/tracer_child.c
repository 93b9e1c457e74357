/*
 * tracer_child.c: the children of `run`: waited for by the tracer thread, asked about by others.
 *
 * The end of a child is told by its pidfd at once; stops by job control have no descriptor, so they
 * are looked for every 50 ms, which costs nothing that can be measured. A child's own thread may be
 * under capture at the same time, and then one wait sees both kinds of news: tracer_wait sorts them.
 *
 * Upstream text: wait4(2), pidfd_open(2).
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stop.h"
#include "target/tracer_impl.h"

enum {
	LOOK_NS = 50 * NSEC_PER_MSEC,
	LOOK_WITHOUT_PIDFD_NS = 10 * NSEC_PER_MSEC,
	SLICE_NS = 50 * NSEC_PER_MSEC,	/* of a waiting requester, to see a signal that came too early */
};

struct child *child_create(void)
{
	struct child *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->pidfd = -1;
	c->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->event_fd < 0) {
		free(c);
		return NULL;
	}
	return c;
}

void child_free(struct child *c)
{
	if (!c)
		return;
	if (c->pidfd >= 0)
		close(c->pidfd);
	close(c->event_fd);
	free(c);
}

static struct child *find_child(const struct tracer *tr, pid_t pid)
{
	struct child *c = tr->children;

	while (c && c->pid != pid)
		c = c->next;
	return c;
}

void tracer_add_child(struct tracer *tr, struct child *c)
{
	c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	pthread_mutex_lock(&tr->lock);
	c->next = tr->children;
	tr->children = c;
	pthread_mutex_unlock(&tr->lock);
}

/* ---- in the tracer thread ---- */

static void note(struct tracer *tr, struct child *c, int status, const struct rusage *usage)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&tr->lock);
	if (WIFSTOPPED(status)) {
		c->status.stop_signal = WSTOPSIG(status);
	} else if (WIFCONTINUED(status)) {
		c->status.stop_signal = 0;
	} else {
		c->status = (struct child_status){ .ended = true, .wait_status = status, .usage = *usage };
	}
	pthread_mutex_unlock(&tr->lock);
	if (write(c->event_fd, &one, sizeof(one)) < 0)
		return;
}

static bool is_owed(const struct tracer *tr, pid_t tid)
{
	for (uint64_t w = tr->owed; w; w &= w - 1)
		if (tr->pool[__builtin_ctzll(w)].wait_tid == tid)
			return true;
	return false;
}

pid_t tracer_wait(struct tracer *tr, pid_t tid, int *status)
{
	struct child *c = find_child(tr, tid);
	int flags = WNOHANG | __WALL | (c ? WCONTINUED : 0);
	struct rusage usage;
	pid_t r = wait4(tid, status, flags, &usage);

	if (r > 0 && c && !WIFSTOPPED(*status))
		note(tr, c, *status, &usage);
	return r;
}

static void look_at(struct tracer *tr, struct child *c)
{
	struct rusage usage;
	int status;

	/* Bounded: a child that is stopped and continued in a loop is looked at again next time. */
	for (int i = 0; i < 8 && !c->status.ended; i++) {
		pid_t r = wait4(c->pid, &status, WNOHANG | WUNTRACED | WCONTINUED | __WALL, &usage);
		if (r <= 0)
			return;
		note(tr, c, status, &usage);
	}
}

/*
 * It has ended, says its pidfd. When wait does not say so (a debugger holds its remains, or a
 * capture is about to see its end), the descriptor would wake us for ever: it is given up.
 */
static void look_at_ended(struct tracer *tr, struct child *c)
{
	c->pidfd_ready = false;
	if (!is_owed(tr, c->pid)) {
		/*
		 * The kernel drops the process's /proc entries in this call, and goes round until nobody else is
		 * at them: in real time it would keep its core from the thread of ours that closes them.
		 */
		rank_set(&tr->given);
		look_at(tr, c);
		rank_raise();
	}
	if (c->status.ended)
		return;
	close(c->pidfd);
	c->pidfd = -1;
}

uint64_t tracer_poll_children(struct tracer *tr)
{
	uint64_t now = tracer_now(), next = UINT64_MAX;

	for (struct child *c = tr->children; c; c = c->next) {
		uint64_t every = c->pidfd >= 0 ? LOOK_NS : LOOK_WITHOUT_PIDFD_NS;

		if (c->status.ended)
			continue;
		if (c->pidfd_ready)
			look_at_ended(tr, c);
		else if (now - tr->t_children >= every && !is_owed(tr, c->pid))
			look_at(tr, c);
		if (every < next)
			next = every;
	}
	if (now - tr->t_children >= next)
		tr->t_children = now;
	return next;
}

/* ---- for requesters ---- */

void tracer_child_status(struct tracer *tr, pid_t pid, struct child_status *ret)
{
	pthread_mutex_lock(&tr->lock);
	const struct child *c = find_child(tr, pid);
	*ret = c ? c->status : (struct child_status){ 0 };
	pthread_mutex_unlock(&tr->lock);
}

static int child_event_fd(struct tracer *tr, pid_t pid)
{
	pthread_mutex_lock(&tr->lock);
	const struct child *c = find_child(tr, pid);
	int fd = c ? c->event_fd : -1;
	pthread_mutex_unlock(&tr->lock);
	return fd;
}

/* True when there is news: a change, or a signal that had its handler run in this thread. */
static bool wait_slice(int fd, uint64_t ns)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec ts = { 0, (long)ns };
	uint64_t count;
	int r = ppoll(&p, 1, &ts, NULL);

	if (r > 0 && fd >= 0)
		return read(fd, &count, sizeof(count)) > 0;
	return r < 0 && errno == EINTR;
}

void tracer_wait_child(struct tracer *tr, pid_t pid, uint64_t timeout_ns, struct child_status *ret)
{
	int fd = child_event_fd(tr, pid);
	sig_atomic_t stops = stop_requests;
	uint64_t now = tracer_now(), end = now + timeout_ns;

	if (end < now)
		end = UINT64_MAX;
	tracer_child_status(tr, pid, ret);
	while (!ret->ended && stop_requests == stops && (now = tracer_now()) < end) {
		if (wait_slice(fd, end - now < SLICE_NS ? end - now : SLICE_NS))
			break;
	}
	tracer_child_status(tr, pid, ret);
}
