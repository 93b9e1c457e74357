//go:build cgo
// +build cgo

// Package cwaits is C code that waits and is signalled, in threads of its own: what a profiler that stops threads might
// break (built with CGO_ENABLED=1 only).
//
// Right answer, in the last TRUTH line of each kind (one a second):
//
//	TRUTH waits    two threads wake each other as fast as they can, one from epoll_wait, one from recv, both with a
//	               timeout: no EINTR, as nobody sends them a signal, and no timeout
//	TRUTH queued   signals sent to a thread in epoll_pwait, the only place where it takes them: all arrive, with their
//	               values, and each wait that one came to ends with EINTR, and no other does (wrong=0)
//	TRUTH timer    a POSIX timer of 1 ms: its signals and their overruns are as many as were due (off by one at most)
//	TRUTH cpu      the same by the thread's CPU clock and with SIGPROF, as Go's own profiles: off by a few, as the kernel
//	               looks at that clock once in a scheduler tick
//	TRUTH sigurg   sent to a thread one by one, each awaited: none is lost
package cwaits

/*
#cgo CFLAGS: -O2 -D_GNU_SOURCE
#cgo LDFLAGS: -lpthread -lrt
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { QUEUED = 41, TIMER = 42 };	// of the real-time signals: Go and the C library use others
enum { TIMER_NS = 1000000, PATIENCE_MS = 2000 };

struct told {
	int64_t rounds, epoll_eintr, recv_eintr, timeouts, failed;
	int64_t sent, handled, sent_sum, handled_sum, interrupted, wrong;
	int64_t timer_signals[2], timer_got[2], timer_due[2];
	int64_t urg_sent, urg_lost;
};

static struct told t;
static __thread volatile int64_t queued_here;
static volatile int64_t urg_here;	// handler's runs in the thread that is signalled
static __thread volatile int is_urged;
static struct sigaction go_urg;

static int64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static int64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

// ---- two threads that wake each other ----

static int event_fd, pair[2];

static void failed_wait(int64_t *eintr)
{
	if (errno == EINTR)
		++*eintr;
	else if (errno == EAGAIN)
		t.timeouts++;
	else
		t.failed++;
}

static void *in_epoll(void *arg)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(0);
	uint64_t n;

	epoll_ctl(ep, EPOLL_CTL_ADD, event_fd, &ev);
	for (;;) {
		int r = epoll_wait(ep, &ev, 1, PATIENCE_MS);

		if (r == 1 && read(event_fd, &n, sizeof(n)) == sizeof(n) && send(pair[1], "x", 1, 0) == 1)
			t.rounds++;
		else if (r == 0)
			t.timeouts++;
		else
			failed_wait(&t.epoll_eintr);
	}
	return arg;
}

static void *in_recv(void *arg)
{
	const struct timeval patience = { .tv_sec = PATIENCE_MS / 1000 };
	const uint64_t one = 1;
	char byte;

	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	for (;;) {
		if (recv(pair[0], &byte, 1, 0) != 1)
			failed_wait(&t.recv_eintr);
		else if (write(event_fd, &one, sizeof(one)) != sizeof(one))
			t.failed++;
	}
	return arg;
}

// ---- real signals interrupt ----

static void on_queued(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	queued_here++;
	__atomic_add_fetch(&t.handled_sum, info->si_value.sival_int, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&t.handled, 1, __ATOMIC_SEQ_CST);
}

static void *signalled(void *arg)
{
	struct epoll_event ev;
	sigset_t open;
	int ep = epoll_create1(0);

	pthread_sigmask(SIG_BLOCK, NULL, &open);
	sigdelset(&open, QUEUED);
	for (;;) {
		int64_t before = queued_here;
		int r = epoll_pwait(ep, &ev, 1, 30000, &open);
		int eintr = r < 0 && errno == EINTR;

		t.interrupted += eintr;
		t.wrong += eintr != (queued_here != before);
		for (volatile int i = 0; i < 3000; i++)	// to be found running just before it waits
			;
	}
	return arg;
}

static void *sender(void *to)
{
	for (int i = 1;; i++) {
		const struct timespec pause = { .tv_nsec = 300000 + i % 7 * 200000 };

		nanosleep(&pause, NULL);
		if (pthread_sigqueue((pthread_t)to, QUEUED, (union sigval){ .sival_int = i }))
			continue;	// the queue is full
		__atomic_add_fetch(&t.sent_sum, i, __ATOMIC_SEQ_CST);
		__atomic_add_fetch(&t.sent, 1, __ATOMIC_SEQ_CST);
	}
	return to;
}

// ---- timers ----

// A timer of 1 ms for the thread that makes it.
struct timing {
	clockid_t clock;
	int sig;
	volatile int64_t signals, got;	// by the handler
	int64_t told_got, told_due;
};

static struct timing timings[2] = { { CLOCK_MONOTONIC, TIMER }, { CLOCK_THREAD_CPUTIME_ID, SIGPROF } };

static void on_timer(int sig, siginfo_t *info, void *context)
{
	struct timing *tm = &timings[sig == SIGPROF];

	(void)context;
	tm->signals++;
	tm->got += 1 + info->si_overrun;
}

static int start_timer(const struct timing *tm)
{
	const struct itimerspec every = { { 0, TIMER_NS }, { 0, TIMER_NS } };
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = tm->sig };
	timer_t timer;

	ev.sigev_notify_thread_id = (int)syscall(SYS_gettid);
	return timer_create(tm->clock, &ev, &timer) || timer_settime(timer, 0, &every, NULL);
}

static void *timed(void *arg)
{
	struct timing *tm = arg;
	int64_t begin = clock_ns(tm->clock);
	sigset_t mine;

	sigemptyset(&mine);
	sigaddset(&mine, tm->sig);
	if (start_timer(tm)) {
		t.failed++;
		return arg;
	}
	for (;;) {
		pthread_sigmask(SIG_UNBLOCK, &mine, NULL);
		for (volatile int i = 0; i < 100000; i++)
			;
		// While it is blocked the count stands still, but for the one that is pending and what overran it.
		pthread_sigmask(SIG_BLOCK, &mine, NULL);
		tm->told_got = tm->got;
		tm->told_due = (clock_ns(tm->clock) - begin) / TIMER_NS;
	}
	return arg;
}

// ---- SIGURG: Go's own, too, goes through this handler ----

static void on_urg(int sig, siginfo_t *info, void *context)
{
	if (is_urged)
		urg_here++;
	else
		go_urg.sa_sigaction(sig, info, context);
}

static void *urged(void *arg)
{
	is_urged = 1;
	for (;;)
		for (volatile int i = 0; i < 1000; i++)
			;
	return arg;
}

static void *urger(void *to)
{
	for (;;) {
		int64_t before = urg_here, begin = now_ns();

		if (pthread_kill((pthread_t)to, SIGURG))
			t.failed++;
		while (urg_here == before && now_ns() - begin < PATIENCE_MS * 1000000ll)
			sched_yield();
		t.urg_lost += urg_here == before;
		t.urg_sent++;
		usleep(200);
	}
	return to;
}

static void handle(int sig, void (*handler)(int, siginfo_t *, void *), struct sigaction *old)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = handler;
	sa.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
	sigaction(sig, &sa, old);
}

static pthread_t thread(void *(*body)(void *), void *arg)
{
	pthread_t id = 0;

	if (pthread_create(&id, NULL, body, arg))
		t.failed++;
	return id;
}

// Threads of C take no signals that are meant for Go.
static void c_start(int waits, int signals, int timer, int urg)
{
	sigset_t all, before;

	event_fd = eventfd(1, 0);
	t.failed += event_fd < 0 || socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (waits) {
		thread(in_epoll, NULL);
		thread(in_recv, NULL);
	}
	if (signals) {
		handle(QUEUED, on_queued, NULL);
		thread(sender, (void *)thread(signalled, NULL));
	}
	for (int i = 0; i < 2 && timer; i++) {
		handle(timings[i].sig, on_timer, NULL);
		thread(timed, &timings[i]);
	}
	if (urg) {
		handle(SIGURG, on_urg, &go_urg);
		sigdelset(&all, SIGURG);
		pthread_sigmask(SIG_SETMASK, &all, NULL);
		thread(urger, (void *)thread(urged, NULL));
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static struct told c_told(void)
{
	for (int i = 0; i < 2; i++) {
		t.timer_signals[i] = timings[i].signals;
		t.timer_got[i] = timings[i].told_got;
		t.timer_due[i] = timings[i].told_due;
	}
	return t;
}
*/
import "C"

import (
	"flag"
	"fmt"
	"time"

	"example.org/goprof/targets/oracle"
)

func number(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// Main is the target.
func Main() {
	dur := flag.Duration("dur", 8*time.Second, "run time")
	waits := flag.Bool("waits", false, "two threads wake each other")
	signals := flag.Bool("queued", false, "signals to a thread that waits")
	timer := flag.Bool("timer", false, "timers of threads that spin")
	urg := flag.Bool("sigurg", false, "SIGURG to a thread that spins")
	flag.Parse()
	C.c_start(number(*waits), number(*signals), number(*timer), number(*urg))
	oracle.Start()
	for end := time.Now().Add(*dur); time.Now().Before(end); {
		time.Sleep(time.Second)
		tell(C.c_told())
	}
}

func tell(t C.struct_told) {
	fmt.Printf("TRUTH waits rounds=%d epoll_eintr=%d recv_eintr=%d timeouts=%d failed=%d\n", t.rounds, t.epoll_eintr, t.recv_eintr,
		t.timeouts, t.failed)
	fmt.Printf("TRUTH queued sent=%d handled=%d sent_sum=%d handled_sum=%d interrupted=%d wrong=%d\n", t.sent, t.handled, t.sent_sum,
		t.handled_sum, t.interrupted, t.wrong)
	for i, name := range []string{"timer", "cpu"} {
		fmt.Printf("TRUTH %s signals=%d got=%d due=%d\n", name, t.timer_signals[i], t.timer_got[i], t.timer_due[i])
	}
	fmt.Printf("TRUTH sigurg sent=%d lost=%d\n", t.urg_sent, t.urg_lost)
}
