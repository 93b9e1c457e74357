/*
 * procfs.c: reads files of /proc and parses stat and status.
 *
 * The texts come from the kernel, but names in them come from the target: a thread may call
 * itself ") Z 1 1" and a path may hold anything but NUL. So stat is read from its *last* closing
 * bracket, and every number is bounds- and overflow-checked. Upstream text: proc(5), "stat" and
 * "status"; fs/proc/array.c.
 */
#include "target/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

static void text_blanks(struct text *t)
{
	while (t->p < t->end && (*t->p == ' ' || *t->p == '\t'))
		t->p++;
}

static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 99;
}

static bool text_number(struct text *t, unsigned base, uint64_t *ret)
{
	uint64_t v = 0;
	const char *first = t->p;

	while (t->p < t->end && digit_value(*t->p) < (int)base) {
		if (__builtin_mul_overflow(v, base, &v) ||
		    __builtin_add_overflow(v, (uint64_t)digit_value(*t->p), &v))
			return false;
		t->p++;
	}
	if (t->p == first)
		return false;
	*ret = v;
	return true;
}

bool text_dec(struct text *t, uint64_t *ret)
{
	text_blanks(t);
	return text_number(t, 10, ret);
}

bool text_sdec(struct text *t, int64_t *ret)
{
	uint64_t v;

	text_blanks(t);
	bool negative = text_char(t, '-');
	if (!text_number(t, 10, &v) || v > INT64_MAX)
		return false;
	*ret = negative ? -(int64_t)v : (int64_t)v;
	return true;
}

bool text_hex(struct text *t, uint64_t *ret)
{
	text_blanks(t);
	if (t->end - t->p > 2 && t->p[0] == '0' && t->p[1] == 'x')
		t->p += 2;
	return text_number(t, 16, ret);
}

bool text_char(struct text *t, char c)
{
	if (t->p >= t->end || *t->p != c)
		return false;
	t->p++;
	return true;
}

bool text_line(struct text *t, struct text *line)
{
	if (t->p >= t->end)
		return false;
	const char *nl = memchr(t->p, '\n', (size_t)(t->end - t->p));
	*line = (struct text){ t->p, nl ? nl : t->end };
	t->p = nl ? nl + 1 : t->end;
	return true;
}

ssize_t procfs_read(int dir, const char *name, char *buf, size_t cap)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	size_t n = 0;

	if (fd < 0)
		return -errno;
	while (n + 1 < cap) {
		ssize_t r = read(fd, buf + n, cap - 1 - n);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		n += (size_t)r;
	}
	buf[n] = 0;
	return (ssize_t)n;
}

int procfs_read_all(int dir, const char *name, size_t limit, struct buf *ret)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	char piece[PROCFS_SMALL];

	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t r = read(fd, piece, sizeof(piece));
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		buf_add(ret, piece, (size_t)r);
		if (ret->failed)
			return -ENOMEM;
		if (ret->len > limit)
			return -EFBIG;
	}
	return 0;
}

/* Fields of stat behind the name, counted as proc(5) does: 3 is the state. */
enum { STAT_FLAGS = 9, STAT_UTIME = 14, STAT_STIME = 15, STAT_THREADS = 20, STAT_START = 22, STAT_VSIZE = 23 };

bool procfs_parse_stat(const char *s, size_t len, struct procfs_stat *ret)
{
	const char *bracket = len ? memrchr(s, ')', len) : NULL;
	struct procfs_stat st = { 0 };

	if (!bracket || s + len - bracket < 4 || bracket[1] != ' ')
		return false;
	struct text t = { bracket + 3, s + len };
	st.state = bracket[2];
	for (int field = 4; field <= STAT_VSIZE; field++) {
		int64_t v;
		if (!text_sdec(&t, &v))
			return false;
		if (field == STAT_FLAGS)
			st.flags = (uint64_t)v;
		else if (field == STAT_UTIME || field == STAT_STIME)
			st.cpu_ticks += (uint64_t)v;
		else if (field == STAT_THREADS)
			st.threads = (uint64_t)v;
		else if (field == STAT_START)
			st.start_time = (uint64_t)v;
		else if (field == STAT_VSIZE)
			st.vsize = (uint64_t)v;
	}
	*ret = st;
	return true;
}

bool procfs_stat_at(int dir, const char *name, struct procfs_stat *ret)
{
	char buf[PROCFS_SMALL];
	ssize_t n = procfs_read(dir, name, buf, sizeof(buf));

	return n > 0 && procfs_parse_stat(buf, (size_t)n, ret);
}

/* ---- status ---- */

static bool status_name(struct text v, struct procfs_status *st)
{
	text_blanks(&v);
	size_t n = (size_t)(v.end - v.p);
	if (n >= sizeof(st->name))
		n = sizeof(st->name) - 1;
	memcpy(st->name, v.p, n);
	st->name[n] = 0;
	return true;
}

static bool status_pid(struct text v, pid_t *ret)
{
	uint64_t n;

	if (!text_dec(&v, &n) || n > INT32_MAX)
		return false;
	*ret = (pid_t)n;
	return true;
}

static bool status_tgid(struct text v, struct procfs_status *st)
{
	return status_pid(v, &st->tgid);
}

static bool status_tracer(struct text v, struct procfs_status *st)
{
	return status_pid(v, &st->tracer);
}

static bool status_ids(struct text v, uint32_t ids[4])
{
	for (int i = 0; i < 4; i++) {
		uint64_t n;
		if (!text_dec(&v, &n) || n > UINT32_MAX)
			return false;
		ids[i] = (uint32_t)n;
	}
	return true;
}

static bool status_uid(struct text v, struct procfs_status *st)
{
	return status_ids(v, st->uid);
}

static bool status_gid(struct text v, struct procfs_status *st)
{
	return status_ids(v, st->gid);
}

static bool status_cap_permitted(struct text v, struct procfs_status *st)
{
	return text_hex(&v, &st->cap_permitted);
}

static bool status_cap_effective(struct text v, struct procfs_status *st)
{
	return text_hex(&v, &st->cap_effective);
}

static bool status_nspid(struct text v, struct procfs_status *st)
{
	uint64_t n;

	while (text_dec(&v, &n)) {
		if (n > INT32_MAX)
			return false;
		st->ns_inner = (pid_t)n;
		st->ns_depth++;
	}
	return st->ns_depth > 0;
}

static bool status_seccomp(struct text v, struct procfs_status *st)
{
	uint64_t mode;

	if (!text_dec(&v, &mode) || mode > UINT32_MAX)
		return false;
	st->seccomp = (uint32_t)mode;
	return true;
}

static const struct {
	const char *key;
	bool (*parse)(struct text value, struct procfs_status *st);
} status_fields[] = {
	{ "Name:", status_name },
	{ "Tgid:", status_tgid },
	{ "TracerPid:", status_tracer },
	{ "Uid:", status_uid },
	{ "Gid:", status_gid },
	{ "NSpid:", status_nspid },
	{ "CapPrm:", status_cap_permitted },
	{ "CapEff:", status_cap_effective },
	{ "Seccomp:", status_seccomp },
};

static bool status_line(struct text line, struct procfs_status *st)
{
	for (size_t i = 0; i < sizeof(status_fields) / sizeof(*status_fields); i++) {
		size_t n = strlen(status_fields[i].key);
		if ((size_t)(line.end - line.p) < n || memcmp(line.p, status_fields[i].key, n))
			continue;
		line.p += n;
		return status_fields[i].parse(line, st);
	}
	return true;
}

bool procfs_parse_status(const char *s, size_t len, struct procfs_status *ret)
{
	struct text t = { s, s + len }, line;
	struct procfs_status st = { 0 };

	while (text_line(&t, &line))
		if (!status_line(line, &st))
			return false;
	if (!st.tgid)
		return false;
	*ret = st;
	return true;
}

bool procfs_status_at(int dir, const char *name, struct procfs_status *ret)
{
	char buf[PROCFS_SMALL];
	ssize_t n = procfs_read(dir, name, buf, sizeof(buf));

	return n > 0 && procfs_parse_status(buf, (size_t)n, ret);
}
