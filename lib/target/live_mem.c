/*
 * live_mem.c: reads the memory of a live process.
 *
 * process_vm_readv takes many pieces in one call but ends at the first page that is not there: the
 * piece it stopped in is cut and the rest is asked for anew. Where the call is refused (a sandbox, a
 * target that changed its credentials, a main thread that has ended) each piece goes through the
 * held /proc/PID/mem instead. That descriptor is also the judge of life: it gives 0 bytes for ever
 * once the program it was opened on is no more, while process_vm_readv would read the next program.
 *
 * Upstream text: process_vm_readv(2), mm/process_vm_access.c, mem_rw in fs/proc/base.c.
 */
#include <errno.h>
#include <limits.h>
#include <sys/uio.h>
#include <unistd.h>

#include "target/live.h"

enum { BATCH = 256 };	/* pieces of one call; more only moves more of our own stack */
_Static_assert(BATCH <= IOV_MAX, "the kernel takes no more");

/* False when the process is no more. */
static bool mem_read_span(const struct live *l, struct span *s)
{
	s->done = 0;
	while (s->done < s->len) {
		ssize_t r = pread(l->mem_fd, (char *)s->buf + s->done, s->len - s->done,
				  (off_t)(s->addr + s->done));
		if (r == 0)
			return false;
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return true;
		s->done += (size_t)r;
	}
	return true;
}

static struct error *mem_read_spans(const struct live *l, struct span *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!mem_read_span(l, &v[i]))
			return &err_gone;
	return NULL;
}

/* Deals `got` bytes out to the spans in order. Returns how many spans are settled by this call. */
static size_t settle(struct span *v, size_t n, size_t got)
{
	for (size_t i = 0; i < n; i++) {
		v[i].done = got < v[i].len ? got : v[i].len;
		got -= v[i].done;
		if (v[i].done < v[i].len)
			return i + 1;
	}
	return n;
}

/* One call. 0, or the errno by which process_vm_readv is of no use here. */
static int vm_read_batch(const struct live *l, struct span *v, size_t n, size_t *settled)
{
	struct iovec ours[BATCH], theirs[BATCH];

	for (size_t i = 0; i < n; i++) {
		ours[i] = (struct iovec){ v[i].buf, v[i].len };
		theirs[i] = (struct iovec){ (void *)(uintptr_t)v[i].addr, v[i].len };
	}
	ssize_t r = process_vm_readv(l->base.pid, ours, n, theirs, n, 0);
	if (r < 0 && errno != EFAULT)
		return errno;
	*settled = settle(v, n, r < 0 ? 0 : (size_t)r);
	return 0;
}

/* The slow way. What the fast way failed with, if it did, decides whether it is tried again. */
static struct error *mem_read_batch(struct live *l, struct span *v, size_t n, int failure)
{
	struct error *err = mem_read_spans(l, v, n);

	/* The process lives, so the call itself is what does not work here. */
	if (!err && (failure == EPERM || failure == ENOSYS || failure == ESRCH))
		atomic_store_explicit(&l->mem_only, true, memory_order_relaxed);
	return err;
}

struct error *live_read_v(const struct target *t, struct span *v, size_t n)
{
	struct live *l = (struct live *)t;
	struct error *err = NULL;

	while (n > 0 && !err) {
		size_t batch = n < BATCH ? n : BATCH, settled = batch;
		bool slow = atomic_load_explicit(&l->mem_only, memory_order_relaxed);
		int failure = slow ? 0 : vm_read_batch(l, v, batch, &settled);

		if (slow || failure)
			err = mem_read_batch(l, v, batch, failure);
		v += settled;
		n -= settled;
	}
	return err;
}
