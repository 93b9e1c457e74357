/*
 * perf_event.c: one perf event of one thread: its opening, its ring, and the reason when it is refused.
 *
 * The software CPU clock needs no hardware counters, so it is there in virtual machines as well. Which
 * cause a refusal has is found as the kernel checks: paranoia against rights first, then what else there
 * is (a seccomp filter, lockdown), then limits.
 *
 * Upstream text: perf_event_open(2), "perf_event related configuration files"; Documentation/admin-guide/
 * perf-security.rst; perf_mmap in kernel/events/core.c (locked memory).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "target/live.h"
#include "target/perf_impl.h"

enum { CAP_BIT_SYS_ADMIN = 21, CAP_BIT_PERFMON = 38, USER_ONLY_PARANOIA = 2 };

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static int open_event(pid_t tid, uint64_t period_ns, bool user_only)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = period_ns, .wakeup_events = 1,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_READ |
			       PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
		.sample_regs_user = arch_host()->perf_regs, .sample_stack_user = PERF_STACK_BYTES,
		.exclude_idle = 1, .exclude_hv = 1, .exclude_kernel = user_only,
		.use_clockid = 1, .clockid = CLOCK_MONOTONIC,
	};

	return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

int perf_event_begin(pid_t tid, uint64_t period_ns, bool user_only, struct perf_event *ret)
{
	int fd = open_event(tid, period_ns, user_only), errnum;
	void *map;

	if (fd < 0)
		return errno;
	map = mmap(NULL, page_size() + PERF_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		errnum = errno == EPERM ? ENOMEM : errno;	/* EPERM: no more may be locked */
		close(fd);
		return errnum;
	}
	*ret = (struct perf_event){ .fd = fd, .map = map };
	return 0;
}

void perf_event_end(struct perf_event *e)
{
	munmap(e->map, page_size() + PERF_RING_BYTES);
	close(e->fd);
}

bool perf_event_count(const struct perf_event *e, uint64_t *ret)
{
	return read(e->fd, ret, sizeof(*ret)) == sizeof(*ret);
}

void perf_event_set_period(const struct perf_event *e, uint64_t ns)
{
	/* Refused, the last one stays. */
	if (ioctl(e->fd, PERF_EVENT_IOC_PERIOD, &ns))
		return;
}

struct perf_ring perf_event_ring(const struct perf_event *e)
{
	const struct perf_event_mmap_page *page = e->map;

	return (struct perf_ring){
		.data = (const uint8_t *)e->map + page_size(), .size = PERF_RING_BYTES,
		.head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE), .tail = page->data_tail,
	};
}

void perf_event_advance(const struct perf_event *e, uint64_t tail)
{
	struct perf_event_mmap_page *page = e->map;

	__atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
}

/* ---- refused ---- */

/* -1: there is no such file, so the kernel has no perf events. */
static int paranoia(void)
{
	char buf[16];
	uint64_t v;
	ssize_t n = procfs_read(AT_FDCWD, "/proc/sys/kernel/perf_event_paranoid", buf, sizeof(buf));
	struct text t = { buf, buf + (n > 0 ? n : 0) };

	if (n > 0 && buf[0] == '-')
		return 0;
	return text_dec(&t, &v) && v < 100 ? (int)v : -1;
}

static struct error *denied(int errnum)
{
	static const char *const lines[] = {
		[PLACE_HOST] = "sudo sysctl kernel.perf_event_paranoid=1, or start goprof as root",
		[PLACE_DOCKER] = "docker run --cap-add PERFMON --security-opt seccomp=unconfined ...",
		[PLACE_KUBERNETES] = "securityContext: {capabilities: {add: [\"PERFMON\"]}, "
				     "seccompProfile: {type: Unconfined}}",
		[PLACE_CONTAINER] = "podman run --cap-add PERFMON --security-opt seccomp=unconfined ...",
	};
	struct error *err = error_new(ERROR_DENIED, "perf events are not permitted");
	struct refusal_facts f = { .name = "", .errnum = errnum };
	int level = paranoia();

	refusal_facts_own(&f);
	if (!(f.our_caps >> CAP_BIT_PERFMON & 1) && !(f.our_caps >> CAP_BIT_SYS_ADMIN & 1) && level > USER_ONLY_PARANOIA)
		error_why(err, "kernel.perf_event_paranoid is %d, and goprof has no CAP_PERFMON", level);
	else if (f.our_seccomp)
		error_why(err, "a seccomp filter or the kernel forbids perf_event_open (%s)", strerror(errnum));
	else
		error_why(err, "perf_event_open says: %s", strerror(errnum));
	return error_todo(err, "%s", lines[f.place]);
}

struct error *perf_event_error(int errnum)
{
	switch (errnum) {
	case ESRCH:
		return &err_gone;
	case EACCES:
	case EPERM:
		return denied(errnum);
	case EMFILE:
	case ENFILE:
		return error_todo(error_new(ERROR_FACILITY, "no more perf events: %s", strerror(errnum)), "ulimit -n 65536");
	case ENOMEM:
		return error_todo(error_new(ERROR_FACILITY, "no more perf events: no more memory may be locked for them"),
				  "raise kernel.perf_event_mlock_kb or ulimit -l");
	case ENOSYS:
	case ENOENT:
	case EOPNOTSUPP:
		return error_new(ERROR_FACILITY, "this kernel has no perf events");
	}
	return error_new(ERROR_FACILITY, "perf_event_open: %s", strerror(errnum));
}
