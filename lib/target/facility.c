/*
 * facility.c: tries each facility of the kernel on a spinning child, see facility.h.
 *
 * A row of the table is a facility: its name, what is lost without it, and the function that tries
 * it. The child is forked here and bound to us by PR_SET_PDEATHSIG: it is ours to kill, unlike
 * anything else goprof looks at. ptrace is spoken by the calling thread only.
 *
 * Upstream text: ptrace(2), proc(5), pidfd_open(2), perf_event_open(2), sched(7);
 * kernel/sched/stats.h (sched_info_on: schedstat reads 0 0 0 where it is off).
 */
#include "target/facility.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/live.h"
#include "target/perf_impl.h"

enum {
	STOP_NS = 500 * NSEC_PER_MSEC,		/* a thread that is asked to stop and has a core does so in microseconds */
	STEP_NS = 100 * NSEC_PER_USEC,
	MAPS_LIMIT = 1 << 20,
	CLOCK_NS = 40 * NSEC_PER_MSEC,		/* how long the clock is watched: ten steps at 250 Hz */
	CLOCK_STEP_NS = 200 * NSEC_PER_USEC,
	CLOCK_STEPS = CLOCK_NS / CLOCK_STEP_NS,
};

/* What a trial may say instead of an errno. */
enum { WRONG_ANSWER = -1, NOT_TRIED = -2 };

/* In the child's memory, at the same place as in ours. */
static const uint64_t known_word = 0x676f70726f66a5a5;

struct trial {
	pid_t pid;
	bool seized, stopped;
	int dir;		/* /proc/PID of the child */
	struct facility_result *result;
};

/* ---- the child ---- */

static void spin(void)
{
	for (volatile unsigned n = 0;; n++)
		;
}

pid_t facility_child(void (*run)(void))
{
	sigset_t all, old;
	pid_t parent = getpid(), pid;

	/* The child keeps signals blocked that are meant for goprof; SIGALRM it needs. */
	sigfillset(&all);
	sigdelset(&all, SIGALRM);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = fork();
	if (pid == 0) {
		signal(SIGALRM, SIG_DFL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent) {
			alarm(5);	/* should that fail, too */
			run();
		}
		_exit(0);
	}
	int errnum = errno;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = errnum;
	return pid;
}

void facility_child_end(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
}

static struct error *trial_begin(struct trial *t)
{
	char path[32];

	t->pid = facility_child(spin);
	if (t->pid < 0)
		return error_new(ERROR_FACILITY, "cannot start a process to try things on: %s", strerror(errno));
	snprintf(path, sizeof(path), "/proc/%d", t->pid);
	t->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return NULL;
}

static void trial_end(struct trial *t)
{
	if (t->dir >= 0)
		close(t->dir);
	if (t->pid > 0)
		facility_child_end(t->pid);
}

/* ---- the trials: 0, the errno, or one of the above ---- */

static int failed(bool failure)
{
	return failure ? errno : 0;
}

static int try_seize(struct trial *t)
{
	int r = failed(ptrace(PTRACE_SEIZE, t->pid, NULL, NULL) != 0);

	t->seized = r == 0;
	return r;
}

static void nap(long ns)
{
	const struct timespec ts = { 0, ns };

	nanosleep(&ts, NULL);
}

static int try_interrupt(struct trial *t)
{
	uint64_t end = system_clock.mono(&system_clock) + STOP_NS;
	int status;

	if (!t->seized)
		return NOT_TRIED;
	if (ptrace(PTRACE_INTERRUPT, t->pid, NULL, NULL))
		return errno;
	do {
		pid_t r = waitpid(t->pid, &status, WNOHANG | __WALL);

		if (r < 0)
			return errno;
		t->stopped = r == t->pid && WIFSTOPPED(status) && status >> 16 == PTRACE_EVENT_STOP;
		if (r)
			return t->stopped ? 0 : WRONG_ANSWER;
		nap(STEP_NS);
	} while (system_clock.mono(&system_clock) < end);
	return ETIMEDOUT;
}

static int try_registers(struct trial *t)
{
	uint8_t raw[1024];
	struct iovec iov = { raw, sizeof(raw) };

	return t->stopped ? failed(ptrace(PTRACE_GETREGSET, t->pid, (void *)(uintptr_t)NT_PRSTATUS, &iov) != 0) : NOT_TRIED;
}

static int try_detach(struct trial *t)
{
	return t->stopped ? failed(ptrace(PTRACE_DETACH, t->pid, NULL, NULL) != 0) : NOT_TRIED;
}

static int try_vm_read(struct trial *t)
{
	uint64_t word = 0;
	struct iovec ours = { &word, sizeof(word) }, theirs = { (void *)&known_word, sizeof(word) };

	if (process_vm_readv(t->pid, &ours, 1, &theirs, 1, 0) < 0)
		return errno;
	return word == known_word ? 0 : WRONG_ANSWER;
}

static int try_proc_mem(struct trial *t)
{
	uint64_t word = 0;
	_cleanup_close_ int fd = openat(t->dir, "mem", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || pread(fd, &word, sizeof(word), (off_t)(uintptr_t)&known_word) < 0)
		return errno;
	return word == known_word ? 0 : WRONG_ANSWER;
}

static ssize_t read_task_file(const struct trial *t, const char *name, char *buf, size_t cap)
{
	char path[64];

	snprintf(path, sizeof(path), "task/%d/%s", t->pid, name);
	return procfs_read(t->dir, path, buf, cap);
}

/* A child that does nothing but count is on a CPU, or waits for one: the file has one right answer. */
static int try_syscall(struct trial *t)
{
	char buf[256];
	struct task_syscall call;
	ssize_t n = read_task_file(t, "syscall", buf, sizeof(buf));

	if (n < 0)
		return (int)-n;
	return procfs_parse_syscall(buf, (size_t)n, &call) == TASK_RUNNING ? 0 : WRONG_ANSWER;
}

/* It has run, so its time is not zero. Tried last but one: by then it has had the time. */
static int try_schedstat(struct trial *t)
{
	char buf[96];
	struct task_times times;
	ssize_t n = read_task_file(t, "schedstat", buf, sizeof(buf));

	t->result[FACILITY_SCHEDSTAT].ns = 1;
	if (n > 0 && procfs_parse_times(buf, (size_t)n, &times) && times.cpu_ns && times.slices)
		return 0;
	t->result[FACILITY_SCHEDSTAT].ns = PROCFS_TICK_NS;
	return n < 0 ? (int)-n : WRONG_ANSWER;
}

/* The mapping of our own file, which is the child's as well; "start-end" as map_files names it. */
static int name_of_our_file(const struct trial *t, char *ret, size_t cap)
{
	struct buf text;
	struct mappings maps;
	const struct mapping *m;

	buf_init(&text);
	int r = procfs_read_all(t->dir, "maps", MAPS_LIMIT, &text);
	size_t len = text.len;
	if (r) {
		buf_deinit(&text);
		return -r;
	}
	_cleanup_error_ struct error *err = procfs_parse_maps(buf_take(&text), len, &maps);
	if (err)
		return -1;
	m = mappings_find(&maps, (gaddr_t)(uintptr_t)&known_word);
	snprintf(ret, cap, "map_files/%llx-%llx", m ? (unsigned long long)m->start : 0,
		 m ? (unsigned long long)m->end : 0);
	mappings_deinit(&maps);
	return m ? 0 : WRONG_ANSWER;
}

static int try_map_files(struct trial *t)
{
	char path[64];
	int r = name_of_our_file(t, path, sizeof(path));

	if (r)
		return r;
	_cleanup_close_ int fd = openat(t->dir, path, O_RDONLY | O_CLOEXEC);
	return failed(fd < 0);
}

static int try_pidfd(struct trial *t)
{
	_cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, t->pid, 0);

	return failed(fd < 0);
}

/* The very event that looks by perf use; and does a sampled thread stand still for its reader? */
static int try_perf(struct trial *t)
{
	int fd, r = perf_event_open_sampling(t->pid, -1, NSEC_PER_MSEC, false, -1, &fd);
	struct perf_ability ability = { 0 };

	if (r)
		return r;
	close(fd);
	error_free(perf_try(&ability));
	t->result[FACILITY_PERF].ns = ability.held_ns;
	return ability.held_ns ? 0 : WRONG_ANSWER;
}

/* On ourselves and taken back at once: a child that spins in real time would keep a core for itself. */
static int try_real_time(struct trial *t)
{
	const struct sched_param first = { .sched_priority = 1 };
	struct sched_param given = { 0 };
	int policy = sched_getscheduler(0);

	(void)t;
	sched_getparam(0, &given);
	if (policy < 0 || sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first))
		return errno;
	if (sched_setscheduler(0, policy, &given))
		sched_setscheduler(0, policy | SCHED_RESET_ON_FORK, &given);
	return 0;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/*
 * The step in which the CPU clock of a running process moves, as seen from outside. The middle one of
 * those seen: a thread that is taken off its core makes a small one, a look that comes late a big one.
 */
static int try_clock(struct trial *t)
{
	uint64_t end = system_clock.mono(&system_clock) + CLOCK_NS, before = 0, steps[CLOCK_STEPS];
	struct timespec ts;
	clockid_t clock;
	size_t n = 0;
	int r = clock_getcpuclockid(t->pid, &clock);

	if (r)
		return r;
	do {
		if (clock_gettime(clock, &ts))
			return errno;
		uint64_t now = (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
		if (before && now > before && n < CLOCK_STEPS)
			steps[n++] = now - before;
		before = now;
		nap(CLOCK_STEP_NS);
	} while (system_clock.mono(&system_clock) < end);
	qsort(steps, n, sizeof(*steps), by_size);
	t->result[FACILITY_CLOCK].ns = n ? steps[n / 2] : 0;
	return n ? 0 : WRONG_ANSWER;
}

static const struct {
	const char *name, *loss;
	int (*attempt)(struct trial *t);
} table[FACILITY_COUNT] = {
	[FACILITY_SEIZE] = { "ptrace seize", "no thread can be stopped: attach and run do not work", try_seize },
	[FACILITY_INTERRUPT] = { "ptrace interrupt", "no thread can be stopped: attach and run do not work", try_interrupt },
	[FACILITY_REGISTERS] = { "ptrace registers", "no stacks of running goroutines", try_registers },
	[FACILITY_DETACH] = { "ptrace detach", "a thread cannot be let go: attach and run do not work", try_detach },
	[FACILITY_VM_READ] = { "process_vm_readv", "memory is read through /proc/PID/mem, piece by piece", try_vm_read },
	[FACILITY_PROC_MEM] = { "/proc/PID/mem", "memory cannot be read: nothing works", try_proc_mem },
	[FACILITY_SYSCALL] = { "task/TID/syscall", "running threads cannot be told from waiting ones",
			       try_syscall },
	[FACILITY_MAP_FILES] = { "/proc/PID/map_files", "deleted libraries and plugins have no names", try_map_files },
	[FACILITY_PIDFD] = { "pidfd_open", "the end of the child of run is seen 10 ms later", try_pidfd },
	[FACILITY_PERF] = { "perf_event_open", "threads on a CPU are stopped for a look, some microseconds each",
			    try_perf },
	[FACILITY_REAL_TIME] = { "SCHED_FIFO", "ticks are late more often, threads are held longer", try_real_time },
	[FACILITY_CLOCK] = { "CPU clock of a process", "no check that all CPU time is accounted for", try_clock },
	[FACILITY_SCHEDSTAT] = { "task/TID/schedstat", "CPU time of threads comes in steps of 10 ms",
				 try_schedstat },
};

const char *facility_name(enum facility_id id)
{
	return table[id].name;
}

const char *facility_loss(enum facility_id id)
{
	return table[id].loss;
}

static void attempt(struct trial *t, enum facility_id id)
{
	int r = table[id].attempt(t);

	t->result[id].ok = r == 0;
	t->result[id].untried = r == NOT_TRIED;
	t->result[id].errnum = r > 0 ? r : 0;
}

struct error *facility_test(struct facility_result ret[FACILITY_COUNT])
{
	_cleanup_(trial_end) struct trial t = { .dir = -1, .result = ret };
	struct error *err = trial_begin(&t);

	if (err)
		return err;
	memset(ret, 0, FACILITY_COUNT * sizeof(*ret));
	for (int id = 0; id < FACILITY_COUNT; id++)
		if (id != FACILITY_SCHEDSTAT)
			attempt(&t, (enum facility_id)id);
	attempt(&t, FACILITY_SCHEDSTAT);
	return NULL;
}

/* Somebody who follows our forks (strace -f) has it already: that says nothing of other processes. */
static bool is_traced(const struct trial *t)
{
	struct procfs_status st;

	return procfs_status_at(t->dir, "status", &st) && st.tracer && !t->seized;
}

struct error *facility_judge(const struct facility_result v[FACILITY_COUNT])
{
	int id = FACILITY_SEIZE;

	while (id <= FACILITY_DETACH && v[id].ok)
		id++;
	if (id > FACILITY_DETACH || v[id].errnum == ETIMEDOUT)
		return NULL;
	return facility_explain(error_new(ERROR_FACILITY, "goprof cannot trace any process here (%s)",
					  facility_name((enum facility_id)id)), v[id].errnum);
}

struct error *facility_check(void)
{
	struct facility_result result[FACILITY_COUNT] = { 0 };
	_cleanup_(trial_end) struct trial t = { .dir = -1, .result = result };
	_cleanup_error_ struct error *nothing_to_try_on = trial_begin(&t);

	if (nothing_to_try_on || is_traced(&t))
		return NULL;
	for (int id = FACILITY_SEIZE; id <= FACILITY_DETACH; id++)
		attempt(&t, (enum facility_id)id);
	return facility_judge(result);
}
