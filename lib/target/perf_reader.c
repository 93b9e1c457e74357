/*
 * perf_reader.c: the readers. Each has the ring of a CPU, runs on that CPU, and sleeps until a sample was
 * taken there.
 *
 * What happens on that CPU then: the interrupt that took the sample ends, the reader is woken and, being
 * in real-time class, takes the place of the sampled thread before that comes to its next instruction. The
 * reader copies and sleeps again; the thread goes on. Should the thread have been given another CPU
 * meanwhile, its count of time on all CPUs tells.
 *
 * Periods vary at random by half: a thread whose own work repeats in the step of the period would be seen
 * in one phase only.
 *
 * Upstream text: sched(7), sched_setaffinity(2).
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/perf_impl.h"
#include "target/tracer_impl.h"

enum {
	STALE_NS = 20 * NSEC_PER_MSEC,	/* an older sample says nothing that could still be completed */
	READER_STACK = 512 * 1024,
	CPUS_MAX = 8192,		/* the kernel's own limit */
	OTHER_FILES = 64,		/* that goprof has open, or may need */
};

/* ---- one sample ---- */

/* What the hook is told, and a look that it may fill. */
static struct capture_request begin_look(const struct perf_hints *h, const struct perf_sample *s, struct perf_look *l)
{
	struct capture_request rq = { .cookie = s->tid, .t_tick = s->time };
	struct capture *c = &l->capture;

	memcpy(rq.hint, h->v, sizeof(rq.hint));
	c->status = CAPTURE_OK;
	c->tid = (pid_t)s->tid;
	c->cookie = rq.cookie;
	c->t_tick = s->time;
	c->before = c->held = (struct task_times){ 0 };
	c->in_time = true;
	c->late_blocked = c->healed = false;
	c->signal = 0;
	c->n_views = c->note_len = c->extra.len = 0;
	arch_host()->regs_from_perf(s->regs, &c->regs);
	l->t_sample = s->time;
	return rq;
}

/* How long it has run on this CPU since, by its count; UINT64_MAX: that cannot be told. */
static uint64_t ran_here(const struct perf_reader *r, const struct perf_watch *w, const struct perf_sample *s)
{
	uint64_t count;

	if (!perf_event_count(w->sampling[r->index], &count) || count < s->count)
		return UINT64_MAX;
	return count - s->count;
}

/* The hook is shown the stack where it is: mostly it wants an eighth of it. */
static void show_stack(const struct perf_ring *ring, const struct perf_sample *s, struct capture *c)
{
	const uint8_t *bytes = perf_ring_bytes(ring, s->stack_at, s->stack_len);

	if (!bytes)
		perf_ring_copy(ring, s->stack_at, c->bytes, s->stack_len);
	c->views[0] = (struct mem_view){ .low = c->regs.sp, .len = s->stack_len, .bytes = bytes ? bytes : c->bytes };
	c->n_views = s->stack_len > 0;
}

/* What the hook has left of it. */
static void keep_stack(struct capture *c)
{
	if (c->n_views)
		capture_own(c, &c->views[0]);
}

/*
 * Has it not moved since the sample, up to the reading of its count? By the clock not much more time may have
 * passed than it may have run: or it was on another CPU and back. Nearly always that is so little that it says
 * all: nobody runs for longer than that. Only then the thread waits for one reading more of its count here.
 */
static bool is_young(const struct perf_reader *r, const struct perf_watch *w, const struct perf_sample *s,
		     struct perf_look *l)
{
	const struct perf_options *o = &r->perf->options;
	uint64_t passed = tracer_now() - s->time;

	l->ran_ns = o->exact_ages || passed > o->ability.held_ns ? ran_here(r, w, s) : passed;
	return l->ran_ns <= o->ability.held_ns && passed <= 2 * o->ability.held_ns;
}

/* The thread as it stands. False: it did not stand still, so what was read is of no use. */
static bool copy_held(struct perf_reader *r, const struct perf_watch *w, const struct perf_ring *ring,
		      const struct perf_sample *s, const struct capture_request *rq, struct perf_look *l)
{
	const struct perf_options *o = &r->perf->options;
	uint64_t before, after;

	l->ran_ns = UINT64_MAX;
	if (!r->bound || !perf_event_count(w->counting, &before) || !is_young(r, w, s, l))
		return false;
	show_stack(ring, s, &l->capture);
	o->held(o->ctx, o->target, rq, &l->capture);
	keep_stack(&l->capture);
	return perf_event_count(w->counting, &after) && after == before;
}

static void copy_late(struct perf_reader *r, const struct perf_ring *ring, const struct perf_sample *s,
		      const struct capture_request *rq, struct perf_look *l)
{
	const struct perf_options *o = &r->perf->options;

	show_stack(ring, s, &l->capture);
	l->capture.note_len = l->capture.extra.len = 0;
	o->late(o->ctx, o->target, rq, &l->capture);
	keep_stack(&l->capture);
}

static void make_look(struct perf_reader *r, struct perf_watch *w, const struct perf_hints *h,
		      const struct perf_ring *ring, const struct perf_sample *s)
{
	struct perf *p = r->perf;
	uint64_t now = tracer_now();
	struct perf_look *l = now - s->time > STALE_NS ? NULL : perf_look_take(p);
	struct capture_request rq;

	if (!l) {
		atomic_fetch_add(&p->lost, 1);
		return;
	}
	rq = begin_look(h, s, l);
	l->capture.t_arrived = now;
	l->bound = r->bound;
	l->held = copy_held(r, w, ring, s, &rq, l);
	if (!l->held)
		copy_late(r, ring, s, &rq, l);
	l->capture.t_resumed = tracer_now();
	perf_look_done(p, l);
}

static void take_sample(struct perf_reader *r, const struct perf_ring *ring, const struct perf_sample *s)
{
	struct perf *p = r->perf;
	uint64_t period = p->options.period_ns;
	struct perf_hints hints;
	struct perf_watch *w = (pid_t)s->pid == p->options.pid ? perf_take(p, (pid_t)s->tid, &hints) : NULL;

	if (!w)
		return;
	/* Without registers: a thread that is about to end. */
	if (s->has_regs)
		make_look(r, w, &hints, ring, s);
	perf_event_set_period(w->sampling[r->index], period / 2 + perf_random(&r->random) % period);
	perf_give(p, w);
}

static void drain(struct perf_reader *r)
{
	struct perf_ring ring = perf_event_ring(&r->ring);
	uint64_t regs = arch_host()->perf_regs;
	struct perf_record rec;

	for (perf_ring_record(&ring, regs, &rec); rec.kind != PERF_NONE; perf_ring_record(&ring, regs, &rec)) {
		if (rec.kind == PERF_SAMPLE)
			take_sample(r, &ring, &rec.sample);
		else if (rec.kind == PERF_LOST)
			atomic_fetch_add(&r->perf->lost, rec.lost);
		else if (rec.kind == PERF_THROTTLED)
			atomic_fetch_add(&r->perf->throttled, 1);
		else if (rec.kind == PERF_BROKEN)
			atomic_fetch_add(&r->perf->lost, 1);
		ring.tail = rec.end;
		perf_event_advance(&r->ring, ring.tail);
	}
}

/* ---- the loop ---- */

static bool may_use(const cpu_set_t *ours, int cpu)
{
	return CPU_ISSET_S((size_t)cpu, CPU_ALLOC_SIZE(CPUS_MAX), ours);
}

bool perf_reaches(pid_t pid)
{
	size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
	cpu_set_t *ours = CPU_ALLOC(CPUS_MAX), *theirs = CPU_ALLOC(CPUS_MAX);
	bool ret = ours && theirs && !sched_getaffinity(0, size, ours) && !sched_getaffinity(pid, size, theirs);

	for (int cpu = 0; ret && cpu < CPUS_MAX; cpu++)
		ret = !CPU_ISSET_S((size_t)cpu, size, theirs) || may_use(ours, cpu);
	CPU_FREE(ours);
	CPU_FREE(theirs);
	return ret;
}

bool perf_has_room(uint32_t threads)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct rlimit files;

	/* One per CPU for its samples, and one that counts. */
	return cpus > 0 && !getrlimit(RLIMIT_NOFILE, &files) &&
	       files.rlim_cur >= OTHER_FILES + (rlim_t)threads * ((rlim_t)cpus + 1);
}

/* Where goprof was given other CPUs it stays there: then nobody is held by this reader. */
static void bind(struct perf_reader *r)
{
	size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
	cpu_set_t *set = CPU_ALLOC(CPUS_MAX);

	if (set && !sched_getaffinity(0, size, set) && may_use(set, r->cpu)) {
		CPU_ZERO_S(size, set);
		CPU_SET_S((size_t)r->cpu, size, set);
		r->bound = !sched_setaffinity(0, size, set);
	}
	CPU_FREE(set);
}

static void *reader_main(void *arg)
{
	struct perf_reader *r = arg;
	struct pollfd fds[] = {
		{ .fd = r->ring.fd, .events = POLLIN },
		{ .fd = r->perf->stop_fd, .events = POLLIN },
	};

	bind(r);
	atomic_store(&r->rank, rank_raise());
	sem_post(&r->perf->ready);
	do {
		drain(r);
		poll(fds, 2, -1);
	} while (!fds[1].revents);
	return NULL;
}

/* ---- start and end ---- */

static int start(struct perf_reader *r)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int errnum;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, READER_STACK);
	/* Signals are goprof's main thread's business. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	errnum = pthread_create(&r->thread, &attr, reader_main, r);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	r->started = !errnum;
	return errnum;
}

/* ENODEV: that CPU is not there (any more). */
static int init_reader(struct perf *p, int cpu)
{
	struct perf_reader *r = &p->readers[p->n_readers];
	int errnum = perf_event_open_ring(cpu, &r->ring);

	if (errnum)
		return errnum;
	r->perf = p;
	r->index = p->n_readers++;
	r->cpu = cpu;
	r->random = (tracer_now() ^ (uint64_t)cpu << 32) | 1;
	atomic_store(&r->rank, TRACER_ORDINARY);
	return 0;
}

struct error *perf_readers_init(struct perf *p)
{
	long n = sysconf(_SC_NPROCESSORS_CONF);
	int errnum = 0;

	if (n < 1 || n > PERF_READERS_MAX)
		return error_new(ERROR_FACILITY, "perf events of %ld CPUs are too many", n);
	p->readers = calloc((size_t)n, sizeof(*p->readers));
	if (!p->readers)
		return &err_nomem;
	for (int cpu = 0; cpu < n && (!errnum || errnum == ENODEV); cpu++)
		errnum = init_reader(p, cpu);
	return p->n_readers && (!errnum || errnum == ENODEV) ? NULL : perf_event_error(errnum);
}

struct error *perf_readers_start(struct perf *p)
{
	for (uint32_t i = 0; i < p->n_readers; i++) {
		int errnum = start(&p->readers[i]);

		if (errnum)
			return error_new(ERROR_FACILITY, "cannot start a thread: %s", strerror(errnum));
	}
	/* The first sample already should find them in their place. */
	for (uint32_t i = 0; i < p->n_readers; i++)
		while (sem_wait(&p->ready) && errno == EINTR)
			;
	return NULL;
}

void perf_readers_stop(struct perf *p)
{
	const uint64_t one = 1;

	if (p->stop_fd >= 0 && write(p->stop_fd, &one, sizeof(one)) < 0)
		return;
	for (uint32_t i = 0; i < p->n_readers; i++)
		if (p->readers[i].started)
			pthread_join(p->readers[i].thread, NULL);
}
