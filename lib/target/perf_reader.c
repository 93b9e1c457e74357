/*
 * perf_reader.c: the readers. Each is bound to a CPU and sleeps until a sample was taken there.
 *
 * What happens on that CPU then: the interrupt that took the sample ends, the reader is woken and, being
 * in real-time class, takes the place of the sampled thread before that comes to its next instruction. The
 * reader copies and sleeps again; the thread goes on. Should the thread be given another CPU meanwhile, or
 * have been on another one from the start, the event's count tells.
 *
 * A watch is in the set of one reader, that of the CPU where its thread was sampled last; a sample from
 * elsewhere moves it. Periods vary at random by half: a thread whose own work repeats in the step of the
 * period would be seen in one phase only.
 *
 * Upstream text: epoll(7), sched(7).
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/perf_impl.h"
#include "target/tracer_impl.h"

enum {
	EVENTS = 16,
	STALE_NS = 20 * NSEC_PER_MSEC,	/* an older sample says nothing that could still be completed */
	READER_STACK = 256 * 1024,
};

#define STOP_KEY UINT64_MAX

/* ---- one sample ---- */

static uint64_t next_random(struct perf_reader *r)
{
	r->random ^= r->random << 13;
	r->random ^= r->random >> 7;
	r->random ^= r->random << 17;
	return r->random;
}

/* What the hook is told, and a look that it may fill. */
static struct capture_request begin_look(const struct perf_watch *w, const struct perf_hints *h,
					 const struct perf_sample *s, struct perf_look *l)
{
	struct capture_request rq = { .cookie = (uint64_t)w->tid, .t_tick = s->time };
	struct capture *c = &l->capture;

	memcpy(rq.hint, h->v, sizeof(rq.hint));
	c->status = CAPTURE_OK;
	c->tid = w->tid;
	c->cookie = rq.cookie;
	c->t_tick = s->time;
	c->before = c->held = (struct task_times){ 0 };
	c->in_time = true;
	c->late_blocked = c->healed = false;
	c->signal = 0;
	c->n_views = c->note_len = 0;
	arch_host()->regs_from_perf(s->regs, &c->regs);
	l->t_sample = s->time;
	return rq;
}

/* The thread as it stands. False: it did not stand still, so what was read is of no use. */
static bool copy_held(struct perf_reader *r, const struct perf_watch *w, const struct capture_request *rq,
		      struct perf_look *l, uint64_t count)
{
	const struct perf_options *o = &r->perf->options;
	uint64_t after;

	if (!l->own_cpu || l->ran_ns > o->ability.held_ns)
		return false;
	o->held(o->ctx, o->target, rq, &l->capture);
	return perf_event_count(&w->event, &after) && after == count;
}

static void copy_late(struct perf_reader *r, const struct perf_ring *ring, const struct perf_sample *s,
		      const struct capture_request *rq, struct perf_look *l)
{
	const struct perf_options *o = &r->perf->options;
	struct capture *c = &l->capture;

	perf_ring_copy(ring, s->stack_at, c->bytes, s->stack_len);
	c->views[0] = (struct mem_view){ .low = c->regs.sp, .len = s->stack_len, .bytes = c->bytes };
	c->n_views = s->stack_len > 0;
	c->note_len = 0;
	if (o->late)
		o->late(o->ctx, o->target, rq, c);
}

static void take_sample(struct perf_reader *r, struct perf_watch *w, const struct perf_hints *h,
			const struct perf_ring *ring, const struct perf_sample *s)
{
	struct perf *p = r->perf;
	struct perf_look *l;
	struct capture_request rq;
	uint64_t now = tracer_now(), count;

	/* Without registers: a thread that is about to end. */
	if ((pid_t)s->pid != p->options.pid || (pid_t)s->tid != w->tid || !s->has_regs)
		return;
	l = now - s->time > STALE_NS ? NULL : perf_look_take(p);
	if (!l) {
		atomic_fetch_add(&p->lost, 1);
		return;
	}
	rq = begin_look(w, h, s, l);
	l->capture.t_arrived = now;
	l->own_cpu = r->cpu >= 0 && s->cpu == (uint32_t)r->cpu;
	l->ran_ns = perf_event_count(&w->event, &count) && count >= s->count ? count - s->count : UINT64_MAX;
	l->held = copy_held(r, w, &rq, l, count);
	if (!l->held)
		copy_late(r, ring, s, &rq, l);
	l->capture.t_resumed = tracer_now();
	perf_look_done(p, l);
}

/* ---- one thread's ring ---- */

/* Everything that is in it; the CPU of the last sample, or -1. */
static int drain(struct perf_reader *r, struct perf_watch *w, const struct perf_hints *h)
{
	struct perf_ring ring = perf_event_ring(&w->event);
	uint64_t regs = arch_host()->perf_regs;
	struct perf_record rec;
	int cpu = -1;

	for (perf_ring_record(&ring, regs, &rec); rec.kind != PERF_NONE; perf_ring_record(&ring, regs, &rec)) {
		if (rec.kind == PERF_SAMPLE) {
			cpu = (int)rec.sample.cpu;
			take_sample(r, w, h, &ring, &rec.sample);
		} else if (rec.kind == PERF_LOST) {
			atomic_fetch_add(&r->perf->lost, rec.lost);
		} else if (rec.kind == PERF_THROTTLED || rec.kind == PERF_BROKEN) {
			atomic_fetch_add(&r->perf->throttled, 1);
		}
		ring.tail = rec.end;
		perf_event_advance(&w->event, ring.tail);
	}
	return cpu;
}

static uint32_t reader_for(const struct perf *p, int cpu)
{
	return cpu >= 0 && cpu < PERF_CPUS_MAX ? p->reader_of[cpu] : 0;
}

static void handle(struct perf_reader *r, const struct epoll_event *e)
{
	struct perf *p = r->perf;
	struct perf_hints hints;
	struct perf_watch *w = perf_take(p, e->data.u64, &hints);
	int cpu;

	if (!w)
		return;
	cpu = drain(r, w, &hints);
	if (cpu >= 0)
		perf_event_set_period(&w->event, p->options.period_ns / 2 + next_random(r) % p->options.period_ns);
	if (e->events & (EPOLLHUP | EPOLLERR)) {
		/* It has ended. This would be told for ever. */
		perf_reader_remove(p, w);
		w->ended = true;
	} else if (cpu >= 0 && reader_for(p, cpu) != w->reader) {
		perf_reader_remove(p, w);
		perf_reader_add(p, reader_for(p, cpu), w);
	}
	perf_give(p, w);
}

/* ---- the loop ---- */

static void bind(struct perf_reader *r)
{
	cpu_set_t *set = CPU_ALLOC(PERF_CPUS_MAX);
	size_t size = CPU_ALLOC_SIZE(PERF_CPUS_MAX);

	if (!set || r->cpu < 0) {
		CPU_FREE(set);
		r->cpu = -1;
		return;
	}
	CPU_ZERO_S(size, set);
	CPU_SET_S((size_t)r->cpu, size, set);
	if (sched_setaffinity(0, size, set))
		r->cpu = -1;	/* taken from us meanwhile: nobody is held by this one */
	CPU_FREE(set);
}

static void *reader_main(void *arg)
{
	struct perf_reader *r = arg;
	struct epoll_event events[EVENTS];
	int n;

	bind(r);
	atomic_store(&r->priority, rank_raise());
	for (;;) {
		n = epoll_wait(r->poll_fd, events, EVENTS, -1);
		for (int i = 0; i < n; i++) {
			if (events[i].data.u64 == STOP_KEY)
				return NULL;
			handle(r, &events[i]);
		}
	}
}

int perf_reader_add(struct perf *p, uint32_t reader, struct perf_watch *w)
{
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = perf_key(w) };

	w->reader = reader;
	return epoll_ctl(p->readers[reader].poll_fd, EPOLL_CTL_ADD, w->event.fd, &e) ? errno : 0;
}

void perf_reader_remove(struct perf *p, struct perf_watch *w)
{
	if (!w->ended)
		epoll_ctl(p->readers[w->reader].poll_fd, EPOLL_CTL_DEL, w->event.fd, NULL);
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

static struct error *init_reader(struct perf *p, uint32_t i, int cpu)
{
	struct perf_reader *r = &p->readers[i];
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = STOP_KEY };

	r->perf = p;
	r->cpu = cpu;
	r->random = (tracer_now() ^ (uint64_t)i << 32) | 1;
	atomic_store(&r->priority, "normal");
	r->poll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (r->poll_fd < 0 || epoll_ctl(r->poll_fd, EPOLL_CTL_ADD, p->stop_fd, &e))
		return error_new(ERROR_FACILITY, "epoll: %s", strerror(errno));
	if (cpu >= 0)
		p->reader_of[cpu] = (uint16_t)i;
	return NULL;
}

struct error *perf_readers_init(struct perf *p)
{
	cpu_set_t *set = CPU_ALLOC(PERF_CPUS_MAX);
	size_t size = CPU_ALLOC_SIZE(PERF_CPUS_MAX);
	struct error *err = NULL;
	uint32_t n = 0, i = 0;

	if (set && !sched_getaffinity(0, size, set))
		n = (uint32_t)CPU_COUNT_S(size, set);
	n = n > PERF_READERS_MAX ? PERF_READERS_MAX : n ? n : 1;
	p->readers = calloc(n, sizeof(*p->readers));
	if (!set || !p->readers) {
		CPU_FREE(set);
		return &err_nomem;
	}
	for (uint32_t k = 0; k < n; k++)
		p->readers[k].poll_fd = -1;
	p->n_readers = n;
	for (size_t cpu = 0; !err && cpu < PERF_CPUS_MAX && i < n; cpu++)
		if (CPU_ISSET_S(cpu, size, set))
			err = init_reader(p, i++, (int)cpu);
	if (!err && !i)
		err = init_reader(p, 0, -1);
	CPU_FREE(set);
	return err;
}

struct error *perf_readers_start(struct perf *p)
{
	for (uint32_t i = 0; i < p->n_readers; i++) {
		int errnum = start(&p->readers[i]);

		if (errnum)
			return error_new(ERROR_FACILITY, "cannot start a thread: %s", strerror(errnum));
	}
	return NULL;
}

void perf_readers_stop(struct perf *p)
{
	const uint64_t one = 1;

	if (p->stop_fd >= 0 && write(p->stop_fd, &one, sizeof(one)) < 0)
		return;
	for (uint32_t i = 0; i < p->n_readers; i++) {
		if (p->readers[i].started)
			pthread_join(p->readers[i].thread, NULL);
		if (p->readers[i].poll_fd >= 0)
			close(p->readers[i].poll_fd);
	}
	free(p->readers);
	p->readers = NULL;
	p->n_readers = 0;
}
