/*
 * perf_event.c: the kinds of perf events that are used, the ring of a CPU, and the reason when one is refused.
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

static int open_event(struct perf_event_attr *attr, pid_t tid, int cpu)
{
	attr->type = PERF_TYPE_SOFTWARE;
	attr->size = sizeof(*attr);
	attr->exclude_idle = attr->exclude_hv = 1;
	/* All that share a ring must go by one clock. */
	attr->use_clockid = 1;
	attr->clockid = CLOCK_MONOTONIC;
	return (int)syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

int perf_event_open_ring(int cpu, struct perf_ring_map *ret)
{
	/* Counts nothing, of the calling thread: what the ring hangs on. */
	struct perf_event_attr attr = { .config = PERF_COUNT_SW_DUMMY, .disabled = 1, .exclude_kernel = 1 };
	int fd = open_event(&attr, 0, cpu), errnum;
	void *map;

	if (fd < 0)
		return errno;
	map = mmap(NULL, page_size() + PERF_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		errnum = errno == EPERM ? ENOMEM : errno;	/* EPERM: no more may be locked */
		close(fd);
		return errnum;
	}
	*ret = (struct perf_ring_map){ .fd = fd, .map = map };
	return 0;
}

void perf_event_close_ring(struct perf_ring_map *m)
{
	munmap(m->map, page_size() + PERF_RING_BYTES);
	close(m->fd);
}

int perf_event_open_sampling(pid_t tid, int cpu, uint64_t period_ns, bool user_only, int ring_fd, int *ret)
{
	struct perf_event_attr attr = {
		.config = PERF_COUNT_SW_CPU_CLOCK, .sample_period = period_ns, .wakeup_events = 1,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_READ |
			       PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
		.sample_regs_user = arch_host()->perf_regs, .sample_stack_user = PERF_STACK_BYTES,
		.exclude_kernel = user_only,
	};
	int fd = open_event(&attr, tid, cpu), errnum;

	if (fd < 0)
		return errno;
	if (ring_fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring_fd)) {
		errnum = errno;
		close(fd);
		return errnum;
	}
	*ret = fd;
	return 0;
}

int perf_event_open_counting(pid_t tid, bool user_only, int *ret)
{
	struct perf_event_attr attr = { .config = PERF_COUNT_SW_CPU_CLOCK, .exclude_kernel = user_only };
	int fd = open_event(&attr, tid, -1);

	if (fd < 0)
		return errno;
	*ret = fd;
	return 0;
}

bool perf_event_count(int fd, uint64_t *ret)
{
	return read(fd, ret, sizeof(*ret)) == sizeof(*ret);
}

void perf_event_set_period(int fd, uint64_t ns)
{
	/* Refused, the last one stays. */
	if (ioctl(fd, PERF_EVENT_IOC_PERIOD, &ns))
		return;
}

struct perf_ring perf_event_ring(const struct perf_ring_map *m)
{
	const struct perf_event_mmap_page *page = m->map;

	return (struct perf_ring){
		.data = (const uint8_t *)m->map + page_size(), .size = PERF_RING_BYTES,
		.head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE), .tail = page->data_tail,
	};
}

void perf_event_advance(const struct perf_ring_map *m, uint64_t tail)
{
	struct perf_event_mmap_page *page = m->map;

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
		[PLACE_KUBERNETES] = ("securityContext: {capabilities: {add: [\"PERFMON\"]}, "
				      "seccompProfile: {type: Unconfined}}"),
		[PLACE_CONTAINER] = "podman run --cap-add PERFMON --security-opt seccomp=unconfined ...",
	};
	struct error *err = error_new(ERROR_DENIED, "perf events are not permitted");
	struct refusal_facts f = { .name = "", .errnum = errnum };
	int level = paranoia();

	refusal_facts_own(&f);
	bool may = f.our_caps >> CAP_BIT_PERFMON & 1 || f.our_caps >> CAP_BIT_SYS_ADMIN & 1;
	if (!may && level > USER_ONLY_PARANOIA)
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
		return error_todo(error_new(ERROR_FACILITY, "no more perf events: %s", strerror(errnum)),
				  "ulimit -n 65536");
	case ENOMEM:
		return error_todo(error_new(ERROR_FACILITY, "no perf events: no more memory may be locked for them"),
				  "raise kernel.perf_event_mlock_kb or ulimit -l");
	case ENOSYS:
	case ENOENT:
	case EOPNOTSUPP:
		return error_new(ERROR_FACILITY, "this kernel has no perf events");
	}
	return error_new(ERROR_FACILITY, "perf events cannot be had: %s", strerror(errnum));
}
