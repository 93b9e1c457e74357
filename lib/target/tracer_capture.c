/*
 * tracer_capture.c: one capture, in the tracer thread: seize, interrupt, look, detach.
 *
 * How a stop is left decides what the target notices:
 * - an event stop is left without a signal; in it, a wait that our stop broke is made to restart;
 * - a signal that was just being delivered is left *with* that signal, so that the kernel goes on
 *   delivering it with the siginfo it had; nothing is healed there, as the signal's EINTR is due;
 * - job control needs nothing: on detach the kernel puts the thread back into the stop that is in
 *   force, or lets it run when SIGCONT came meanwhile.
 * A thread that dies while it is seized stays a zombie, and keeps its process from ending or from
 * completing an exec, until it is waited for: so whatever is owed is looked at every few
 * milliseconds, also when nobody asks.
 *
 * Upstream text: ptrace(2) "Attaching and detaching", "execve(2) under ptrace"; kernel/ptrace.c.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "target/procfs.h"
#include "target/tracer_impl.h"

/*
 * Stops wake the tracer by a signal (tracer.c). Looks without being woken are a net below that: a
 * signal stands for any number of stops, and not every end of a seizure raises one.
 */
enum { SPARE_STEP_NS = 1 * NSEC_PER_MSEC, LATE_STEP_NS = 10 * NSEC_PER_MSEC };

/* Results of a call that the kernel cut short: ERESTARTSYS ... ERESTART_RESTARTBLOCK. */
enum { KERNEL_ERESTART_FIRST = 512, KERNEL_ERESTART_LAST = 516 };

static bool is_dropped(struct tracer *tr, const struct slot *s)
{
	pthread_mutex_lock(&tr->lock);
	bool dropped = tr->dropped >> (s - tr->pool) & 1;
	pthread_mutex_unlock(&tr->lock);
	return dropped;
}

/* Gives a slot back to the requesters. */
static void finish(struct tracer *tr, struct slot *s, enum capture_status status)
{
	uint64_t bit = 1ull << (s - tr->pool);

	s->capture.status = status;
	pthread_mutex_lock(&tr->lock);
	bool dropped = tr->dropped & bit;
	tr->owed &= ~bit;
	tr->round &= ~bit;
	tr->dropped &= ~bit;
	if (dropped)
		tr->free |= bit;
	else
		tr->done |= bit;
	if (dropped || !tr->round)
		pthread_cond_broadcast(&tr->answers);
	pthread_mutex_unlock(&tr->lock);
}

/* ---- asking ---- */

/* 0 or errno. May stand still while the target execs: tracer_undertaker.c. */
static int seize(struct tracer *tr, pid_t tid)
{
	atomic_store(&tr->seizing_since, tracer_now());
	int errnum = ptrace(PTRACE_SEIZE, tid, NULL, NULL) ? errno : 0;
	atomic_store(&tr->seizing_since, 0);
	return errnum;
}

static bool has_tracer(pid_t tid)
{
	char path[32];
	struct procfs_status st;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	return procfs_status_at(AT_FDCWD, path, &st) && st.tracer;
}

/*
 * EPERM has three meanings: somebody else traces it; it has ended, but nobody has waited for it yet; we
 * may not. The last one is believed only when it holds twice, as a tracer may just have left. A tracer
 * outside of our pid namespace has no number here: it is seen only while it holds the thread.
 */
static enum capture_status seize_refused(struct tracer *tr, const struct slot *s, int *errnum)
{
	char state;

	for (int tries = 0; *errnum == EPERM; tries++) {
		state = target_tid_state(s->target, s->capture.tid);
		if (!state || state == 'Z' || state == 'X')
			return CAPTURE_GONE;
		if (state == 't' || has_tracer(s->capture.tid))
			return CAPTURE_BUSY;
		if (tries)
			return CAPTURE_DENIED;
		*errnum = seize(tr, s->capture.tid);
	}
	return CAPTURE_GONE;
}

/* Whatever comes of it is of no interest: it may be gone, and is read again. */
static void warm_up(struct slot *s)
{
	const struct capture_request *rq = &s->rq;
	struct span v[2];
	size_t used = 0, n = 0;

	for (size_t i = 0; i < 2; i++) {
		if (!rq->soon[i].len || rq->soon[i].len > CAPTURE_NOTE - used)
			continue;
		v[n++] = (struct span){ .addr = rq->soon[i].addr, .buf = s->capture.note + used,
					.len = rq->soon[i].len };
		used += rq->soon[i].len;
	}
	if (n)
		error_free(target_read_v(s->target, v, n));
}

static void begin(struct tracer *tr, struct slot *s)
{
	struct task_times now;

	/* The task's file belongs to the thread, not to its number: a stranger is not seized. */
	if (is_dropped(tr, s) || !task_read_times(s->rq.task, &now)) {
		finish(tr, s, CAPTURE_GONE);
		return;
	}
	warm_up(s);
	int errnum = seize(tr, s->capture.tid);
	if (errnum) {
		enum capture_status status = seize_refused(tr, s, &errnum);

		if (errnum) {
			finish(tr, s, status);
			return;
		}
	}
	/* And if it was one after all, it is let go at once; that takes a stop. */
	s->void_ = !task_read_times(s->rq.task, &now);
	/* Fails only if it has died; then the wait tells. */
	ptrace(PTRACE_INTERRUPT, s->capture.tid, NULL, NULL);
}

void tracer_begin_asked(struct tracer *tr)
{
	pthread_mutex_lock(&tr->lock);
	uint64_t asked = tr->asked;
	tr->asked = 0;
	tr->owed |= asked;
	if (asked)
		tr->t_begin = tracer_now();
	if (asked && tr->undertaker_rests)
		pthread_cond_signal(&tr->work);
	pthread_mutex_unlock(&tr->lock);
	for (; asked; asked &= asked - 1)
		begin(tr, &tr->pool[__builtin_ctzll(asked)]);
}

/* ---- the hold ---- */

static bool was_cut_short(const struct regs *r)
{
	return r->syscall_nr >= 0 &&
	       (r->syscall_ret == -EINTR || (r->syscall_ret <= -KERNEL_ERESTART_FIRST &&
					     r->syscall_ret >= -KERNEL_ERESTART_LAST));
}

/* Also for a stop that nobody wants any more; its target may be closed, so not by s->target. */
static void heal(const struct slot *s, struct capture *c)
{
	const struct arch *arch = arch_host();

	if (!c->late_blocked || !arch->heal_interrupted_wait(&c->regs))
		return;
	c->healed = !ptrace(PTRACE_POKEUSER, s->wait_tid, (void *)arch->heal_user_offset,
			    (void *)(uintptr_t)arch->heal_value(&c->regs));
}

static bool read_regs(struct slot *s)
{
	struct capture *c = &s->capture;
	struct iovec iov = { c->regs.raw, sizeof(c->regs.raw) };

	if (ptrace(PTRACE_GETREGSET, s->wait_tid, (void *)(uintptr_t)NT_PRSTATUS, &iov))
		return false;
	c->regs.raw_len = (uint32_t)iov.iov_len;
	if (!arch_host()->regs_parse(&c->regs))
		return false;
	c->late_blocked = was_cut_short(&c->regs);
	return true;
}

/* What we came for. False when there is nothing to be had. */
static bool look(struct slot *s)
{
	struct capture *c = &s->capture;

	if (!task_read_times(s->rq.task, &c->held))
		return false;
	s->hook(s->ctx, s->target, &s->rq, c);
	return true;
}

static void hold(struct tracer *tr, struct slot *s, int status)
{
	struct capture *c = &s->capture;
	uint64_t arrived = tracer_now();
	bool event = status >> 16 == PTRACE_EVENT_STOP;
	bool interrupt = event && WSTOPSIG(status) == SIGTRAP;	/* else: stopped by job control */

	c->signal = event ? 0 : WSTOPSIG(status);
	c->in_time = arrived <= s->deadline;
	c->t_arrived = arrived;
	bool regs = read_regs(s);
	bool seen = regs && !s->void_ && !is_dropped(tr, s) && look(s);
	if (regs && interrupt)
		heal(s, c);
	if (ptrace(PTRACE_DETACH, s->wait_tid, NULL, (void *)(uintptr_t)c->signal)) {
		s->void_ = true;	/* killed in our hands: the next looks wait for its end */
		return;
	}
	c->t_resumed = tracer_now();
	/* Still the same program: so it was in the hold, and what was copied is its own. */
	seen = seen && target_life(s->target) == TARGET_ALIVE;
	finish(tr, s, seen ? CAPTURE_OK : CAPTURE_GONE);
}

/* ---- waiting ---- */

/* When in doubt it is: a thread that is forgotten while it is seized would stop for ever. */
static bool traced_by_this_thread(const struct tracer *tr, pid_t pid)
{
	char path[32], buf[PROCFS_SMALL];
	struct procfs_status st;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	ssize_t n = procfs_read(AT_FDCWD, path, buf, sizeof(buf));
	if (n == -ENOENT || n == -ESRCH)
		return false;
	return n <= 0 || !procfs_parse_status(buf, (size_t)n, &st) || st.tracer == tr->tid;
}

/*
 * No such tracee any more. When a thread calls exec it takes over the number of its process, and
 * our seizure with it; nobody else would ever let it out of the stop that we asked for.
 */
static void lost(struct tracer *tr, struct slot *s)
{
	if (s->wait_tid != s->pid && traced_by_this_thread(tr, s->pid)) {
		s->wait_tid = s->pid;
		s->void_ = true;
		/* The first one may have missed it by its change of number; two do no harm. */
		ptrace(PTRACE_INTERRUPT, s->pid, NULL, NULL);
		return;
	}
	finish(tr, s, CAPTURE_GONE);
}

/*
 * Nothing to be told of it. Waiting for a child of ours never says that we do not trace it, so a
 * seizure that an exec took away is found by asking.
 */
static void silent(struct tracer *tr, struct slot *s)
{
	if (tracer_now() > s->deadline && !traced_by_this_thread(tr, s->wait_tid))
		lost(tr, s);
}

static void poll_slot(struct tracer *tr, struct slot *s)
{
	int status;
	pid_t r = tracer_wait(tr, s->wait_tid, &status);

	if (r == 0)
		silent(tr, s);
	else if (r < 0)
		lost(tr, s);
	else if (WIFSTOPPED(status))
		hold(tr, s, status);
	else if (WIFEXITED(status) || WIFSIGNALED(status))
		finish(tr, s, CAPTURE_GONE);
}

static uint64_t next_look(const struct slot *s, uint64_t now)
{
	if (s->deadline <= now)
		return LATE_STEP_NS;
	return s->deadline - now < SPARE_STEP_NS ? s->deadline - now : SPARE_STEP_NS;
}

/* Rounds whose time is up stop being waited for. */
static void close_rounds(struct tracer *tr, uint64_t over)
{
	if (!over)
		return;
	pthread_mutex_lock(&tr->lock);
	bool waited_for = tr->round & over;
	tr->round &= ~over;
	if (waited_for && !tr->round)
		pthread_cond_broadcast(&tr->answers);
	pthread_mutex_unlock(&tr->lock);
}

uint64_t tracer_poll_owed(struct tracer *tr)
{
	uint64_t over = 0, sleep = UINT64_MAX, now, step;

	/* Bits of `owed` are set and cleared by this thread alone. */
	for (uint64_t w = tr->owed; w; w &= w - 1)
		poll_slot(tr, &tr->pool[__builtin_ctzll(w)]);
	now = tracer_now();
	for (uint64_t w = tr->owed; w; w &= w - 1) {
		const struct slot *s = &tr->pool[__builtin_ctzll(w)];

		over |= s->deadline <= now ? w & -w : 0;
		step = next_look(s, now);
		sleep = step < sleep ? step : sleep;
	}
	close_rounds(tr, over);
	return sleep;
}
